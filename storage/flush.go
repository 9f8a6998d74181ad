package storage

// Flush returns when everything that was staged is written and, where the fsync
// mode promises it, fsynced: what a replica does before it says where its log
// ends in a new role. What can't be written, on a full disk, is cut off again, and
// no reason not to take the role. Nothing may be staged meanwhile. It does nothing to
// a log that is at rest. Errors: ErrClosed, *FailedError.
func (l *Log) Flush() error {
	for {
		l.mu.Lock()
		staged, rest := Staged{EndOffset: l.stagedEnd, round: l.round}, l.stagedEnd == l.written && l.round == nil
		written := l.written
		l.mu.Unlock()
		if err := l.failure(); err != nil {
			return err
		}
		switch {
		case rest && l.disk.mode == FsyncCommit:
			return l.syncTo(written)
		case rest:
			return nil
		case staged.round != nil:
			_ = l.Write(staged) // what there was no room for is staged no more, and told to who waits for it
		default: // a round is being written: queue behind it
			if err := l.maintain(func() error { return nil }); err != nil {
				return err
			}
		}
	}
}
