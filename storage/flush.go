package storage

// Flush returns when everything that was staged is written and, where the fsync
// mode promises it, fsynced: what a replica does before it says where its log
// ends in a new role. Nothing may be staged meanwhile. It does nothing to a log
// that is at rest. Errors: ErrClosed, *FailedError, and those of Write.
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
			if err := l.Write(staged); err != nil {
				return err
			}
		default: // a round is being written: queue behind it
			if err := l.maintain(func() error { return nil }); err != nil {
				return err
			}
		}
	}
}
