package storage

import (
	"errors"
	"fmt"
	"time"
)

// backgroundSyncGap is the least time from one fsync's begin to that of one which
// nobody waits for. A quiet log is synced at once; under load one fsync in 5 ms
// serves all appends that didn't wait, instead of a disk kept busy without end,
// which slows writes and costs a fifth of a single-record append's processor time.
const backgroundSyncGap = 5 * time.Millisecond

// Sync returns when what was staged is durable, writing first if need be. Where
// the fsync mode doesn't promise more, written is enough.
func (l *Log) Sync(s Staged) error {
	if err := l.Write(s); err != nil {
		return err
	}
	if l.disk.mode != FsyncCommit {
		return nil
	}
	return l.syncTo(s.EndOffset)
}

// syncTo returns when everything below end, which is written, is fsynced.
func (l *Log) syncTo(end int64) error {
	l.mu.Lock()
	for {
		switch {
		case l.synced >= end:
			l.mu.Unlock()
			return nil
		case l.failed != nil:
			defer l.mu.Unlock()
			return l.failed
		case l.gone || l.written < end:
			// The log was deleted, or a truncation took the bytes away.
			l.mu.Unlock()
			return ErrClosed
		case !l.syncer.held:
			l.syncer.held = true
			l.mu.Unlock()
			l.syncRound()
			l.releaseSyncer()
		default:
			// The running fsync covers end, or the one after it will.
			wait := &l.next
			if l.syncEnd >= end {
				wait = &l.current
			}
			if *wait == nil {
				*wait = make(chan struct{})
			}
			done := *wait
			l.mu.Unlock()
			<-done
		}
		l.mu.Lock()
	}
}

// SyncSoon has everything staged and written made durable in the background
// (group commit) within about backgroundSyncGap and an fsync, for appends that
// don't wait for it. onDurable tells when.
func (l *Log) SyncSoon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.failed != nil {
		return
	}
	l.wantSync = l.disk.mode == FsyncCommit
	if l.round != nil && !l.writer.held {
		l.writer.held = true
		l.bg.Go(l.drain)
	}
	l.startWantedSync()
}

// startWantedSync starts the background fsync that SyncSoon asked for, when it is
// time, unless one runs. Call it under mu.
func (l *Log) startWantedSync() {
	if !l.wantSync || l.synced >= l.written || l.syncer.held || l.failed != nil || l.pausing {
		return
	}
	if pause := backgroundSyncGap - time.Since(l.syncBegan); pause > 0 {
		l.pausing = true
		l.bg.Go(func() { l.syncAfter(pause) })
		return
	}
	l.syncer.held = true
	l.bg.Go(l.syncOn)
}

// syncAfter starts the wanted fsync after a pause, in which the role is free for
// those who do wait for one.
func (l *Log) syncAfter(pause time.Duration) {
	time.Sleep(pause)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pausing = false
	l.startWantedSync()
}

// syncOn fsyncs, as the syncer, until nobody waits for it.
func (l *Log) syncOn() {
	l.syncRound()
	l.releaseSyncer()
}

// releaseSyncer gives the syncer's role to maintenance that waits, or else to a
// goroutine that syncs what others wait for, or else to nobody until the next
// background fsync is due.
func (l *Log) releaseSyncer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.syncer.pass():
	case l.failed == nil && l.next != nil:
		l.bg.Go(l.syncOn)
	default:
		l.syncer.held = false
		l.startWantedSync()
	}
}

// syncRound fsyncs all that is written. The caller is the syncer.
func (l *Log) syncRound() {
	l.disk.syncs <- struct{}{} // first: what is written while we wait here is covered too
	s, size, end := l.beginSync()
	if s == nil {
		<-l.disk.syncs
		return
	}
	err := l.syncSegment(s)
	<-l.disk.syncs
	l.endSync(s, size, end, err)
}

// beginSync tells what is to be fsynced: so many bytes of a segment, with which all is durable up to an
// offset; nil: there is nothing.
func (l *Log) beginSync() (s *segment, size, end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s = l.active()
	if s == nil || l.failed != nil || l.written == l.synced {
		l.wakeSynced()
		return nil, 0, 0
	}
	l.syncBegan = time.Now()
	l.syncEnd, l.current, l.next = l.written, l.next, nil
	if l.round == nil && !l.writer.held {
		l.wantSync = false // nothing is on its way that this fsync won't cover
	}
	return s, s.size, l.written
}

// endSync notes how the fsync ended.
func (l *Log) endSync(s *segment, size, end int64, err error) {
	if errors.Is(err, errSegmentGone) {
		err = nil // the writer has closed it since, which makes it durable, and compaction or retention took it away
	}
	if err != nil {
		_ = l.fail(fmt.Errorf("fsync of %s: %w", segmentName(s.base), err))
		return
	}
	l.mu.Lock()
	s.synced = max(s.synced, size)
	l.synced = max(l.synced, end)
	var unpin *handle
	if s.synced == s.size {
		unpin, s.pinned = s.pinned, nil
	}
	if l.current != nil {
		close(l.current)
	}
	l.syncEnd, l.current = 0, nil
	l.mu.Unlock()
	if unpin != nil {
		l.disk.files.release(unpin)
	}
	if l.disk.mode == FsyncCommit && l.onDurable != nil {
		l.onDurable()
	}
}

func (l *Log) syncSegment(s *segment) error {
	h, err := l.disk.files.acquire(l.dir, s)
	if err != nil {
		return err
	}
	defer l.disk.files.release(h)
	return l.disk.syncNow(h.file)
}

// wakeSynced wakes everybody who waits for a fsync; they look again themselves.
// Call it under mu.
func (l *Log) wakeSynced() {
	for _, wait := range []*chan struct{}{&l.current, &l.next} {
		if *wait != nil {
			close(*wait)
			*wait = nil
		}
	}
	l.syncEnd = 0
}

// syncDirty writes and fsyncs everything staged so far, in every mode: the store's
// work for FsyncInterval. It does nothing when all is durable.
func (l *Log) syncDirty() error {
	l.mu.Lock()
	staged := Staged{EndOffset: l.stagedEnd, round: l.round}
	written, stop := l.written, l.closed || l.failed != nil
	l.mu.Unlock()
	if stop {
		return nil // close does it; a failure was told already
	}
	if staged.round != nil {
		if err := l.Write(staged); err == nil {
			written = staged.EndOffset
		}
	}
	if err := l.syncTo(written); !errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}

// close writes and fsyncs everything, tells the index, and waits for the log's
// goroutines. A log that failed returns its *FailedError.
func (l *Log) close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true // nothing is staged from here on
	l.mu.Unlock()
	l.stop(func() {
		l.writeRound()
		l.syncRound()
	})
	l.mu.Lock()
	failed := l.failed
	l.mu.Unlock()
	if failed == nil {
		l.flushMemory(0)
	}
	l.mu.Lock()
	changed := l.checkpointed != checkpoint{l.synced, l.hw}
	l.mu.Unlock()
	if failed != nil {
		return failed
	}
	if changed {
		l.disk.index.update(l.id, l.describe)
	}
	return nil
}

// discard is close for a log that is to be deleted: whatever isn't written yet,
// its waiters get ErrClosed.
func (l *Log) discard() {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if !closed {
		l.stop(func() {})
	}
}

// stop takes all roles, does last, and lets the files go. The log is closed: who
// gets a role after this finds that out.
func (l *Log) stop(last func()) {
	l.take(&l.cleaner) // it gives up soon: the log is closed
	l.take(&l.remover)
	l.take(&l.writer)
	l.take(&l.syncer)
	last()
	l.bg.Wait()
	l.mu.Lock()
	l.gone, l.wantSync = true, false
	l.countHeld()
	l.dropStaged(ErrClosed)
	l.wakeSynced()
	segments := l.segments
	var unpin []*handle
	for _, s := range segments {
		if s.pinned != nil {
			unpin = append(unpin, s.pinned)
			s.pinned = nil
		}
	}
	l.mu.Unlock()
	for _, h := range unpin {
		l.disk.files.release(h)
	}
	for _, s := range segments {
		l.disk.files.retire(s)
	}
	l.releaseSyncer()
	l.releaseWriter()
	l.releaseRemover()
	l.releaseCleaner()
}
