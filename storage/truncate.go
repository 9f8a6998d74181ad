package storage

import "fmt"

// TruncateTo cuts the log at offset: what is at or above it goes, durably, when
// TruncateTo returns. Offsets inside a batch take the whole batch. It is for a
// follower whose leader says that the logs diverge there (R35, R36), and nothing
// may be staged meanwhile. It returns the new end, at most offset.
//
// The index hears of it first, then files go from the end, then the file that
// holds offset is cut (R40): whatever crash comes between leaves a log without a
// hole and an index that knows at most as much.
func (l *Log) TruncateTo(offset int64) (end int64, err error) {
	l.take(&l.remover) // or a compaction would replace what goes
	defer l.releaseRemover()
	err = l.maintain(func() error {
		l.take(&l.syncer) // or an fsync would report an end that is gone
		defer l.releaseSyncer()
		return l.truncate(offset)
	})
	return l.WrittenEnd(), err
}

// truncate is TruncateTo for who has both roles.
func (l *Log) truncate(offset int64) error {
	l.mu.Lock()
	if offset < l.start {
		defer l.mu.Unlock()
		return &OffsetOutOfRangeError{Offset: offset, Start: l.start, End: l.written}
	}
	if offset >= l.written {
		// Epochs without records may still be cut (KAFKA-10706).
		cut := l.cutEpochs(offset)
		l.mu.Unlock()
		if cut {
			return wrapFailed(l, l.tellIndex())
		}
		return nil
	}
	l.mu.Unlock()
	end, pos, err := l.batchAt(offset)
	if err != nil {
		return err
	}
	l.mu.Lock()
	if end < l.start { // the batch that holds offset holds the log start too
		start := l.start
		l.mu.Unlock()
		return l.reset(start)
	}
	l.dropStaged(ErrClosed)
	n := len(l.segments)
	for n > 1 && l.segments[n-1].base > end {
		n--
	}
	gone := l.segments[n:]
	l.segments = append([]*segment(nil), l.segments[:n]...)
	s := l.active()
	s.size, s.synced, s.indexed = pos, min(s.synced, pos), -1
	was := l.written
	l.written, l.stagedEnd, l.synced = end, end, min(l.synced, end)
	l.hw = min(l.hw, end)
	l.cleaned = min(l.cleaned, end)
	l.cuts++
	l.cursors = [4]cursor{}
	l.cutEpochs(end)
	l.cutDamage(s, pos)
	l.imported = min(l.imported, end) // D6; what the next leader has there it tells anew
	again := l.forgetFrom(end, was)
	l.mu.Unlock()

	l.disk.index.truncate(l.id, end)
	if err := l.tellIndex(); err != nil {
		return l.fail(err)
	}
	if err := l.removeNewestFirst(gone); err != nil {
		return err
	}
	if err := l.cutFile(s, pos); err != nil {
		return l.fail(fmt.Errorf("truncating %s: %w", segmentName(s.base), err))
	}
	if again {
		return l.relearn()
	}
	return nil
}

func (l *Log) removeNewestFirst(gone []*segment) error {
	for i := len(gone) - 1; i >= 0; i-- {
		l.unpin(gone[i])
		if err := l.removeSegment(gone[i]); err != nil {
			return l.fail(fmt.Errorf("removing %s: %w", segmentName(gone[i].base), err))
		}
	}
	return nil
}

// ResetTo drops everything and begins anew, empty, at offset: for a follower
// whose log ends below its leader's start (R90). Nothing may be staged meanwhile.
func (l *Log) ResetTo(offset int64) error {
	l.take(&l.remover)
	defer l.releaseRemover()
	return l.maintain(func() error {
		l.take(&l.syncer)
		defer l.releaseSyncer()
		return l.reset(offset)
	})
}

// reset is ResetTo for who has the roles of writer and syncer.
func (l *Log) reset(offset int64) error {
	l.mu.Lock()
	l.dropStaged(ErrClosed)
	gone := l.segments
	l.segments, l.damage, l.epochs = nil, nil, nil
	l.start, l.written, l.stagedEnd, l.synced, l.hw = offset, offset, offset, offset, offset
	l.cleaned, l.horizon = 0, 0
	l.forgetAll()
	l.resetting = true // until all files are those of the new log, which has none acknowledged before
	l.maxTimestamp, l.notedTimestamp = noTimestamp, noTimestamp
	l.cuts++
	l.cursors = [4]cursor{}
	l.mu.Unlock()
	l.disk.index.truncate(l.id, 0)
	l.disk.index.noteDedupe(l.id, func(*logMeta) (dedupeNote, bool) { return dedupeNote{dropped: true}, true })
	if err := l.tellIndex(); err != nil {
		return l.fail(err)
	}
	if err := l.removeNewestFirst(gone); err != nil {
		return err
	}
	s, err := l.beginEmpty(offset)
	if err != nil && !isDiskFull(err) {
		return l.fail(fmt.Errorf("creating %s: %w", segmentName(offset), err))
	}
	l.mu.Lock()
	if l.resetting = false; s != nil { // else there is no room, and the first append makes the file
		l.segments = []*segment{s}
	}
	l.mu.Unlock()
	return wrapFailed(l, l.tellIndex())
}

// batchAt finds the begin of the batch that holds offset, which is below the log's end.
func (l *Log) batchAt(offset int64) (base, pos int64, err error) {
	l.mu.Lock()
	sec := section{cursor: -1, cuts: l.cuts, damage: l.damage}
	sec.segment, sec.next = l.segmentAt(offset)
	sec.size = sec.segment.size
	for _, d := range l.damage {
		if d.Segment == sec.segment.base && d.From <= offset && offset < d.To {
			l.mu.Unlock()
			return d.From, d.Position, nil
		}
	}
	l.mu.Unlock()
	h, err := l.disk.files.acquire(l.dir, sec.segment)
	if err != nil {
		return 0, 0, fmt.Errorf("storage: %w", err)
	}
	defer l.disk.files.release(h)
	if pos, err = l.locate(h.file, &sec, offset); err != nil {
		return 0, 0, err
	}
	hw := headerWalker{log: l, file: h.file, sec: &sec, chunk: l.disk.chunk()}
	defer l.disk.chunks.Put(hw.chunk)
	b, err := hw.header(pos)
	return b.base, pos, err
}

// cutFile shortens a segment's file, durably.
func (l *Log) cutFile(s *segment, pos int64) error {
	h, err := l.disk.files.acquire(l.dir, s)
	if err != nil {
		return err
	}
	defer l.disk.files.release(h)
	if err := h.file.Truncate(pos); err != nil {
		return err
	}
	if err := l.disk.sync(h.file); err != nil {
		return err
	}
	l.unpin(s)
	l.mu.Lock()
	s.synced = s.size
	l.synced = max(l.synced, l.written)
	l.mu.Unlock()
	return nil
}

func (l *Log) unpin(s *segment) {
	l.mu.Lock()
	h := s.pinned
	s.pinned = nil
	l.mu.Unlock()
	if h != nil {
		l.disk.files.release(h)
	}
}

// cutEpochs drops the epochs that begin at or above end. Call it under mu.
func (l *Log) cutEpochs(end int64) bool {
	n := len(l.epochs)
	for n > 0 && l.epochs[n-1].StartOffset >= end {
		n--
	}
	cut := n < len(l.epochs)
	l.epochs = append([]EpochEntry(nil), l.epochs[:n]...)
	return cut
}

// cutDamage drops damage behind pos of s. Call it under mu.
func (l *Log) cutDamage(s *segment, pos int64) {
	var kept []damage
	for _, d := range l.damage {
		if d.Segment < s.base || d.Segment == s.base && d.Position+d.Bytes <= pos && d.From < l.written {
			kept = append(kept, d)
		}
	}
	l.damage = kept
}
