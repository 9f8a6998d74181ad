package storage

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// DamagedRange is a range of offsets [From, To) that this log has lost, though it
// reaches further.
type DamagedRange struct {
	From, To int64
}

// Damage lists what is known to be damaged, in order.
func (l *Log) Damage() []DamagedRange {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ranges []DamagedRange
	for _, d := range l.reachable() {
		ranges = append(ranges, DamagedRange{d.From, d.To})
	}
	return ranges
}

// reachable is the damage that a reader can meet: not that below the log start. Call
// it under mu.
func (l *Log) reachable() []damage {
	return slices.DeleteFunc(slices.Clone(l.damage), func(d damage) bool { return d.To <= l.start })
}

// SoundEnd is where DropDamage cuts the log; ok is false when nothing is damaged.
func (l *Log) SoundEnd() (end int64, damaged bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	damage := l.reachable()
	if len(damage) == 0 {
		return l.written, false
	}
	return l.soundEnd(damage[0]), true
}

// soundEnd is where the log is cut for its first damage. A compacted log goes as a
// whole: the leader may have lost tombstones by now whose records stand before the
// damage. Call it under mu.
func (l *Log) soundEnd(d damage) int64 {
	if l.cfg.Compact || l.cleaned > l.start {
		return l.start
	}
	return max(d.From, l.start)
}

// DropDamage cuts the log back, durably, to before its first damaged offset, so
// that a follower fetches everything from there on again (S6, S7). It returns the
// new end. Copies of what was damaged stay in quarantine/; what was sound behind it
// goes too, therefore an in-sync replica must hold it, and this one must no longer
// count as in sync. Nothing may be staged meanwhile. Mend loses less.
func (l *Log) DropDamage() (end int64, err error) {
	l.take(&l.remover) // for reset
	defer l.releaseRemover()
	err = l.maintain(func() error {
		l.take(&l.syncer)
		defer l.releaseSyncer()
		l.mu.Lock()
		damage := l.reachable()
		if len(damage) == 0 {
			l.mu.Unlock()
			return nil
		}
		from, base := l.soundEnd(damage[0]), l.segments[0].base
		whole := from == l.start && from < damage[0].From
		l.mu.Unlock()
		if from < base || whole { // no file is left that could be cut there
			return l.reset(from)
		}
		return l.truncate(from)
	})
	return l.WrittenEnd(), err
}

// Mend puts whole batches from another replica, as its log holds them, into the
// place of a damaged range, durably, from the range's begin on; of a long range it
// may be called with a part at a time. No offset, no other byte and no reader is
// touched, so a replica may be mended whatever its role. Errors: *ReplicaBatchError
// if the batches don't fit there; then nothing changed, and DropDamage is what is left.
func (l *Log) Mend(raw []byte) error {
	batches, refusal := splitReplica(raw, maxInt32)
	if refusal != nil {
		return refusal
	}
	l.take(&l.remover) // or a compaction would replace what is mended
	defer l.releaseRemover()
	return l.maintain(func() error {
		l.take(&l.syncer)
		defer l.releaseSyncer()
		return l.mend(raw, batches)
	})
}

// mend is Mend for who has both roles.
func (l *Log) mend(raw []byte, batches []Batch) error {
	from, to := batches[0].BaseOffset(), batches[len(batches)-1].NextOffset()
	misfit := func(reason string) error { return &ReplicaBatchError{Offset: from, Reason: reason} }
	l.mu.Lock()
	i := slices.IndexFunc(l.damage, func(d damage) bool { return d.From == from })
	if i < 0 || to > l.damage[i].To {
		l.mu.Unlock()
		return misfit(fmt.Sprintf("no damaged range is, or begins with, [%d, %d)", from, to))
	}
	d := l.damage[i]
	s, _ := l.segmentAt(from)
	open := d.Position+d.Bytes >= s.size && s != l.active() // the file may become as long as it likes
	n, last := int64(len(raw)), to == d.To
	epochs, ok := mendEpochs(l.epochs, batches, d.From, d.To)
	size, compacted := s.size, l.cfg.Compact || l.cleaned > l.start
	l.mu.Unlock()
	switch {
	case compacted:
		// It may bring back records whose tombstone is gone here, or lack the one of what
		// is here.
		return misfit("the log is compacted: all of it has to come from one replica")
	case s.base != d.Segment:
		return misfit("nothing is left of the segment")
	case !open && (n > d.Bytes || (n == d.Bytes) != last):
		return misfit(fmt.Sprintf("%d bytes for a place of %d", n, d.Bytes))
	case !ok:
		return misfit("its leader epochs contradict those around it")
	}
	if open {
		size = max(size, d.Position+n)
		if last {
			size = d.Position + n
		}
	}
	if err := l.writeInPlace(s, raw, d.Position, size); errors.Is(err, ErrDiskNearlyFull) {
		return err // the range is as damaged as it was
	} else if err != nil {
		return l.fail(fmt.Errorf("mending %s: %w", segmentName(s.base), err))
	}

	l.mu.Lock()
	s.size, s.synced = size, size // nobody else writes or syncs now
	durable := s == l.active() && l.synced < l.written
	if durable { // the fsync covered its tail too
		l.synced = l.written
	}
	for _, b := range batches {
		s.maxTimestamp = max(s.maxTimestamp, b.MaxTimestamp())
		l.maxTimestamp = max(l.maxTimestamp, s.maxTimestamp)
	}
	l.damage = slices.Clone(l.damage)
	if last {
		l.damage = slices.Delete(l.damage, i, i+1)
	} else {
		rest := &l.damage[i]
		rest.From, rest.Position, rest.Bytes = to, d.Position+n, max(d.Bytes-n, 0)
	}
	l.epochs = epochs
	l.cuts++ // whoever reads or examines the range looks again
	l.cursors = [4]cursor{}
	l.mu.Unlock()
	l.disk.index.truncate(l.id, s.base) // its times are wrong behind the range
	if last {
		l.reindex(s)
	}
	if durable && l.onDurable != nil {
		l.onDurable()
	}
	l.disk.logger.Warn().Stringer("partition", l.id).Int64("from_offset", from).Int64("to_offset", to).Bool("whole", last).Msg("damage mended")
	if last {
		if err := l.fillHole(); err != nil {
			return err
		}
	}
	return wrapFailed(l, l.tellIndex())
}

// reindex notes the entries of a mended segment again, and a time entry for each
// later one. The caller is the writer, and has truncated the index.
func (l *Log) reindex(s *segment) {
	h, err := l.disk.files.acquire(l.dir, s)
	if err != nil {
		return // a look-up will begin at the segment's begin
	}
	defer l.disk.files.release(h)
	l.mu.Lock()
	segments, end := l.segments, l.written
	noted, sizes := int64(noTimestamp), make([]int64, len(segments))
	latest := make([]int64, len(segments))
	for i, g := range segments {
		sizes[i], latest[i] = g.size, g.maxTimestamp
	}
	l.mu.Unlock()
	at := slices.Index(segments, s)
	for _, ms := range latest[:at] {
		noted = max(noted, ms)
	}
	var offsets []indexEntry
	var times []timeEntry
	newest := noted
	note := func(offset int64) {
		if newest > noted {
			noted = newest
			times = append(times, timeEntry{MaxTimestamp: newest, Offset: offset})
		}
	}
	limit := end
	if at+1 < len(segments) {
		limit = segments[at+1].base
	}
	sc, indexed := scanner{file: h.file, size: sizes[at]}, int64(-1)
	sc.scan(0, s.base, limit, func(b Batch, pos int64) {
		if indexed < 0 || pos-indexed >= indexEveryBytes {
			indexed = pos
			offsets = append(offsets, indexEntry{Offset: b.BaseOffset(), Segment: s.base, Position: pos})
			note(b.BaseOffset())
		}
		newest = max(newest, b.MaxTimestamp())
	})
	newest = max(newest, latest[at])
	for i := at + 1; i < len(segments); i++ {
		note(segments[i].base)
		newest = max(newest, latest[i])
	}
	l.disk.index.addOffsets(l.id, offsets)
	l.disk.index.addTimes(l.id, times)
	l.mu.Lock()
	l.notedTimestamp = noted
	l.mu.Unlock()
}

// wrapFailed latches the log if err isn't nil.
func wrapFailed(l *Log, err error) error {
	if err == nil {
		return nil
	}
	return l.fail(err)
}

// writeInPlace writes over a part of a segment and gives the file that size, durably.
func (l *Log) writeInPlace(s *segment, raw []byte, pos, size int64) error {
	h, err := l.disk.files.acquire(l.dir, s)
	if err != nil {
		return err
	}
	defer l.disk.files.release(h)
	if _, err := h.file.WriteBuffers([][]byte{raw}, pos); isDiskFull(err) {
		l.disk.outOfSpace()
		return ErrDiskNearlyFull
	} else if err != nil {
		return err
	}
	have, err := h.file.Size()
	if err != nil {
		return err
	}
	if s != l.lastSegment() && have > size {
		if err := h.file.Truncate(size); err != nil {
			return err
		}
	}
	return l.disk.sync(h.file)
}

func (l *Log) lastSegment() *segment { l.mu.Lock(); defer l.mu.Unlock(); return l.active() }

// mendEpochs joins the entries with the epochs of batches that go into the range
// [from, to). ok is false if the batches aren't of the epochs that the entries then
// say, or if the entries would say something else of what lies outside (V26): the
// same epoch at the same offset is the same record in every log, and nothing else is.
func mendEpochs(epochs []EpochEntry, batches []Batch, from, to int64) (joined []EpochEntry, ok bool) {
	joined = slices.Clone(epochs)
	for _, b := range batches {
		e := EpochEntry{Epoch: b.LeaderEpoch(), StartOffset: b.BaseOffset()}
		i, found := slices.BinarySearchFunc(joined, e, func(a, b EpochEntry) int { return cmp.Compare(a.Epoch, b.Epoch) })
		switch {
		case !found:
			joined = slices.Insert(joined, i, e)
		case joined[i].StartOffset > e.StartOffset:
			joined[i] = e // its first batches were damaged
		}
	}
	outside := []int64{to}
	for i, e := range joined {
		if i > 0 && e.StartOffset <= joined[i-1].StartOffset {
			return nil, false
		}
		outside = append(outside, e.StartOffset)
	}
	for _, o := range outside {
		if was := epochAt(epochs, o); (o < from || o >= to) && was >= 0 && was != epochAt(joined, o) {
			return nil, false
		}
	}
	for _, b := range batches {
		if epochAt(joined, b.BaseOffset()) != b.LeaderEpoch() {
			return nil, false
		}
	}
	return joined, true
}

// epochAt is the epoch of the record at offset; -1: unknown.
func epochAt(epochs []EpochEntry, offset int64) int32 {
	i := len(epochs) - 1
	for i >= 0 && epochs[i].StartOffset > offset {
		i--
	}
	if i < 0 {
		return -1
	}
	return epochs[i].Epoch
}
