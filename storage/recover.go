package storage

import (
	"cmp"
	"errors"
	"fmt"
	iofs "io/fs"
	"math"
	"path/filepath"
	"slices"

	"highwater/storage/vfs"
)

// recovery is the making of a Log from what is on disk.
//
// What the index knows is a claim of this form: "below offset Flushed everything
// is on disk, and the segments have these sizes". Where a file has the size that
// the index knows, nothing was written since, and nothing is read. Else the tail
// from Flushed on is scanned; without the index, everything is.
type recovery struct {
	log   *Log
	meta  logMeta
	known bool  // the index knows the log
	floor int64 // offsets below it were durable once, and are never given out again

	next    int64 // the offset after what was found so far
	scanned bool  // something was scanned: the index must be told
	epochs  []EpochEntry
	// witnesses counts the batches of the newest of epochs, up to some number.
	witnesses int
	// for the index, of the segment being scanned
	offsets []indexEntry
	times   []timeEntry
}

// foundSegment is a segment file in the partition's directory.
type foundSegment struct {
	base, size, modifiedMs int64
}

// recover fills in the log (S6, R34).
func (l *Log) recover() error {
	r := recovery{log: l}
	l.maxTimestamp, l.notedTimestamp, l.hole, l.doubted = noTimestamp, noTimestamp, maxInt64, maxInt64
	found, err := l.findSegments()
	existed := !errors.Is(err, iofs.ErrNotExist)
	if !existed {
		err = withSpace(l.disk.outOfSpace, func() error { return l.disk.fs.Mkdir(l.dir) })
	}
	if err != nil {
		return wrap(err)
	}
	l.dirSynced = len(found) > 0
	r.meta, r.known = l.disk.index.meta(l.id)
	if !existed || !r.known {
		l.disk.newNames.Store(true) // before the index is told of it
	}
	switch {
	case r.meta.Lossy:
		l.lossReason = "it was incomplete at an earlier start"
	case !r.known && existed && (len(found) > 0 || l.disk.indexLost):
		// Whatever was flushed may be missing without a trace (R72).
		l.lossReason = "the index knows nothing of it"
	}
	// The index must know before the first append, or a crash after it would look the same.
	l.unsettled = !r.known || r.meta.Resetting
	if r.meta.Resetting { // what is there belongs to the log before ResetTo
		for ; len(found) > 0; found = found[:len(found)-1] {
			if err := l.removeSegment(newSegment(found[len(found)-1].base)); err != nil {
				return fmt.Errorf("storage: %w", err)
			}
		}
	}
	r.floor = max(r.meta.Flushed, r.meta.Start, 0)
	if found, err = r.removeDeleted(found); err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	for i := range found {
		next := int64(math.MaxInt64)
		if i+1 < len(found) {
			next = found[i+1].base
		}
		if err := r.segment(found[i], next); err != nil {
			return wrap(fmt.Errorf("recovery of %s: %w", filepath.Join(l.id.String(), segmentName(found[i].base)), err))
		}
	}
	if err := r.finish(); err != nil {
		return wrap(fmt.Errorf("recovery of %s: %w", l.id, err))
	}
	if err := l.recall(r.meta); err != nil {
		return wrap(fmt.Errorf("recovery of %s: %w", l.id, err))
	}
	return nil
}

// findSegments lists the segment files in order. Anything else is left alone.
func (l *Log) findSegments() ([]foundSegment, error) {
	entries, err := l.disk.fs.List(l.dir)
	if err != nil {
		return nil, err
	}
	if changed, err := l.finishCompaction(entries); err != nil {
		return nil, err
	} else if changed {
		if entries, err = l.disk.fs.List(l.dir); err != nil {
			return nil, err
		}
	}
	var found []foundSegment
	var strange []string
	for _, e := range entries {
		base, ok := parseSegmentName(e.Name)
		if !ok || e.Dir {
			strange = append(strange, e.Name)
			continue
		}
		found = append(found, foundSegment{base, e.Size, e.Modified.UnixMilli()})
	}
	if len(strange) > 0 {
		l.disk.logger.Warn().Stringer("partition", l.id).Strs("names", strange[:min(len(strange), 5)]).Int("count", len(strange)).
			Msg("the partition's directory holds files that are none of ours; left alone")
	}
	return found, nil
}

// removeDeleted removes segments that lie below the log start: a crash came
// between moving the start and removing them.
func (r *recovery) removeDeleted(found []foundSegment) ([]foundSegment, error) {
	l, n := r.log, 0
	for n+1 < len(found) && found[n+1].base <= r.meta.Start {
		if err := l.removeSegment(newSegment(found[n].base)); err != nil {
			return nil, err
		}
		n++
	}
	return found[n:], nil
}

// segmentMeta is what the index knows of a segment, and of the one after it.
func (r *recovery) segmentMeta(base int64) (m segmentMeta, next int64, ok bool) {
	all := r.meta.Segments // ascending
	i, ok := slices.BinarySearchFunc(all, base, func(m segmentMeta, base int64) int { return cmp.Compare(m.Base, base) })
	if !ok {
		return segmentMeta{}, 0, false
	}
	next = math.MaxInt64
	if i+1 < len(all) {
		next = all[i+1].Base
	}
	return all[i], next, true
}

// segment takes in one segment file; nextBase is that of the file after it.
func (r *recovery) segment(f foundSegment, nextBase int64) error {
	l := r.log
	s := newSegment(f.base)
	s.size, s.firstAppend, s.lastAppend = f.size, f.modifiedMs, f.modifiedMs
	m, metaNext, ok := r.segmentMeta(f.base)
	if ok {
		s.maxTimestamp, s.firstAppend, s.lastAppend = m.MaxTimestamp, m.FirstAppend, m.LastAppend
	}
	if len(l.segments) == 0 {
		r.next = f.base
		if start := max(r.meta.Start, 0); r.known && start < f.base { // the start is durable before files below it go
			r.lost(stretch{from: start, to: f.base, reason: "the first segments are missing"}, f.base)
		}
	}
	if r.next < f.base { // a file is missing
		r.lost(stretch{from: r.next, to: f.base, pos: l.active().size, end: l.active().size, reason: "a segment is missing or cut off"}, l.active().base)
	}
	r.next = f.base
	last := metaNext == math.MaxInt64
	switch {
	case r.scanned: // one that compaction made anew, say: what the index knows of all behind it is dropped
	case ok && m.Size == f.size && metaNext == nextBase && (!last || r.meta.Flushed >= f.base):
		r.keepDamageOf(f.base, math.MaxInt64)
		r.next = nextBase
		if last {
			r.next = r.meta.Flushed
		}
		s.synced = s.size
		l.segments = append(l.segments, s)
		l.maxTimestamp = max(l.maxTimestamp, s.maxTimestamp)
		l.notedTimestamp = l.maxTimestamp
		return nil
	case ok && last && m.Size <= f.size && m.Size > 0 && r.meta.Flushed >= f.base && r.boundary(s, m.Size):
		return r.scan(s, m.Size, r.meta.Flushed, nextBase)
	}
	s.maxTimestamp = noTimestamp
	return r.scan(s, 0, f.base, nextBase)
}

// boundary checks that a batch ends at pos where the flushed offset begins, by
// what follows or, if that is bad, by what comes before. An index from a backup
// may tell otherwise.
func (r *recovery) boundary(s *segment, pos int64) bool {
	l := r.log
	h, err := l.disk.files.acquire(l.dir, s)
	if err != nil {
		return false
	}
	defer l.disk.files.release(h)
	sc := scanner{file: h.file, size: s.size}
	if b, err := sc.batch(pos); err == nil {
		return b.BaseOffset() == r.meta.Flushed
	}
	for _, d := range r.meta.Damage {
		if d.Segment == s.base {
			return false // not worth the care: scan it all
		}
	}
	hint, ok := l.disk.index.offsetFloor(l.id, r.meta.Flushed-1)
	if !ok || hint.Segment != s.base || hint.Position >= pos {
		return false
	}
	from, next := hint.Position, hint.Offset
	for from < pos {
		b, err := sc.batch(from)
		if err != nil || b.BaseOffset() != next {
			return false
		}
		from, next = from+int64(len(b)), b.NextOffset()
	}
	return from == pos && next == r.meta.Flushed
}

// scan reads a segment from pos on, the place of offset next, and decides about
// what is not valid in it.
func (r *recovery) scan(s *segment, pos, next, nextBase int64) error {
	l := r.log
	h, err := l.disk.files.acquire(l.dir, s)
	if err != nil {
		return err
	}
	defer l.disk.files.release(h)
	// What the last process wrote is in the page cache, synced or not, and after a
	// failed fsync it is there only. Write it back if that can still be done, then
	// read what the disk really has (S4).
	if err := l.disk.sync(h.file); err != nil {
		return err
	}
	if err := h.file.DropCache(pos, s.size-pos); err != nil {
		return err
	}
	if !r.scanned {
		l.disk.index.truncate(l.id, next)
		r.scanned = true
	}
	r.keepDamageOf(s.base, pos)
	sc := scanner{file: h.file, size: s.size}
	r.offsets, r.times, s.indexed = r.offsets[:0], r.times[:0], -1
	if pos > 0 {
		l.maxTimestamp = max(l.maxTimestamp, s.maxTimestamp)
		l.notedTimestamp = l.maxTimestamp
	}
	undo := *s
	epochs, witnesses, maxTimestamp, noted := slices.Clone(r.epochs), r.witnesses, l.maxTimestamp, l.notedTimestamp
	bad, end := sc.scan(pos, next, nextBase, func(b Batch, pos int64) { r.visit(s, b, pos) })
	if at := r.tornAt(&sc, bad, nextBase); at >= 0 {
		if err := r.cutTail(&sc, h.file, s.base, bad[at:]); err != nil {
			return err
		}
		// Once more up to the cut, for the figures.
		*s, r.epochs, r.witnesses, l.maxTimestamp, l.notedTimestamp = undo, epochs, witnesses, maxTimestamp, noted
		r.offsets, r.times = r.offsets[:0], r.times[:0]
		s.size = bad[at].pos
		sc = scanner{file: h.file, size: s.size}
		bad, end = sc.scan(pos, next, nextBase, func(b Batch, pos int64) { r.visit(s, b, pos) })
	}
	for _, b := range bad {
		if b.to < 0 {
			b.to = r.endOfDamage(end, nextBase)
			end = b.to
		}
		if err := r.damaged(&sc, s.base, b); err != nil {
			return err
		}
	}
	s.synced = s.size
	if pos == 0 {
		s.verified = l.disk.nowMs()
	}
	r.next = end
	l.segments = append(l.segments, s)
	l.disk.index.addOffsets(l.id, r.offsets)
	l.disk.index.addTimes(l.id, r.times)
	return nil
}

// endOfDamage is the offset up to which damage at a segment's end reaches.
func (r *recovery) endOfDamage(next, nextBase int64) int64 {
	if nextBase < math.MaxInt64 {
		return nextBase
	}
	return max(next, r.floor)
}

// tornAt finds the stretch from which on the segment is what a crash left of
// writes that nobody was told of; -1: there is none. Only the last segment has
// such a tail, and only above what was flushed: either nothing valid follows, or
// bytes were never written (pages reach the disk in any order). Everything else
// is corruption, and what is valid behind it stays.
func (r *recovery) tornAt(sc *scanner, bad []stretch, nextBase int64) int {
	if nextBase < math.MaxInt64 {
		return -1
	}
	for i, s := range bad {
		if s.from >= r.floor && (s.to < 0 || s.end > s.pos && sc.lostWrite(s)) {
			return i
		}
	}
	return -1
}

// cutTail truncates the segment before the first of the stretches. A copy of
// what is cut off stays when it may be more than a half-written batch.
func (r *recovery) cutTail(sc *scanner, f vfs.File, base int64, bad []stretch) error {
	l, s := r.log, bad[0]
	_, err := sc.batch(s.pos)
	size, sizeErr := batchSize(sc.window(s.pos, BatchHeaderSize))
	whole := err != nil && sizeErr == nil && s.pos+int64(size) <= sc.size && !sc.lostWrite(s)
	cut := stretch{pos: s.pos, end: sc.size, from: s.from}
	copied := ""
	if s.to >= 0 || whole {
		if copied, err = l.quarantine(sc, base, cut); err != nil {
			return err
		}
	}
	l.disk.logger.Warn().Stringer("partition", l.id).Int64("segment", base).Int64("position", cut.pos).Int64("bytes", cut.end-cut.pos).
		Int64("offset", s.from).Str("copy", copied).Str("reason", s.reason).Msg("cut off the torn end of the log")
	if err := f.Truncate(cut.pos); err != nil {
		return err
	}
	return l.disk.sync(f)
}

// visit takes in a valid batch.
func (r *recovery) visit(s *segment, b Batch, pos int64) {
	l := r.log
	if s.indexed < 0 || pos-s.indexed >= indexEveryBytes {
		s.indexed = pos
		r.offsets = append(r.offsets, indexEntry{Offset: b.BaseOffset(), Segment: s.base, Position: pos})
		if l.maxTimestamp > l.notedTimestamp {
			l.notedTimestamp = l.maxTimestamp
			r.times = append(r.times, timeEntry{MaxTimestamp: l.maxTimestamp, Offset: b.BaseOffset()})
		}
	}
	s.maxTimestamp = max(s.maxTimestamp, b.MaxTimestamp())
	l.maxTimestamp = max(l.maxTimestamp, s.maxTimestamp)
	r.visitEpoch(b)
}

// visitEpoch takes in a batch's leader epoch. Epochs don't go back, and no checksum
// covers them: where one does, either that or the one before is wrong.
func (r *recovery) visitEpoch(b Batch) {
	n, epoch := len(r.epochs), b.LeaderEpoch()
	switch {
	case n > 0 && r.epochs[n-1].Epoch == epoch:
		r.witnesses++
		return
	case n > 0 && r.epochs[n-1].Epoch > epoch && r.witnesses > 1:
		return // several batches say that this one is wrong
	}
	for n > 0 && r.epochs[n-1].Epoch > epoch {
		n--
	}
	r.epochs = r.epochs[:n]
	if r.witnesses = 2; n == 0 || r.epochs[n-1].Epoch < epoch {
		r.epochs = append(r.epochs, EpochEntry{Epoch: epoch, StartOffset: b.BaseOffset()})
		r.witnesses = 1
	}
}

// damaged keeps a stretch of the segment as damage.
func (r *recovery) damaged(sc *scanner, base int64, s stretch) error {
	d, err := r.log.keepDamage(sc, base, s)
	if err != nil {
		return err
	}
	r.log.damage = append(r.log.damage, d)
	return nil
}

// lost notes offsets of which no byte is left.
func (r *recovery) lost(s stretch, base int64) {
	d, _ := r.log.keepDamage(nil, base, s) // copies nothing, so nothing fails
	r.log.damage = append(r.log.damage, d)
}

// keepDamageOf keeps what the index knows about a part of a segment that isn't scanned.
func (r *recovery) keepDamageOf(base, below int64) {
	for _, d := range r.meta.Damage {
		if d.Segment == base && d.Position < below {
			r.log.damage = append(r.log.damage, d)
		}
	}
}

// finish sets the log's ends and tells the index what changed.
func (r *recovery) finish() error {
	l := r.log
	changed := r.scanned || l.unsettled
	switch {
	case r.next < r.floor && r.meta.Start >= r.floor:
		if err := r.finishReset(); err != nil {
			return err
		}
		changed = true
	case r.next < r.floor:
		base, size := r.floor, int64(0)
		if s := l.active(); s != nil {
			base, size = s.base, s.size
		} else {
			r.next = max(r.meta.Start, 0)
		}
		r.lost(stretch{from: r.next, to: r.floor, pos: size, end: size, reason: "offsets that were flushed are missing"}, base)
		s, err := l.beginEmpty(r.floor)
		if err != nil {
			return err
		}
		l.segments = append(l.segments, s)
		r.next, changed = r.floor, true
	case l.active() != nil && l.endsInDamage(l.active()):
		// Appends go to a new file, not behind bytes that can't be read.
		s, err := l.beginEmpty(r.next)
		if err != nil {
			return err
		}
		l.segments = append(l.segments, s)
		changed = true
	}
	l.damage = sortDamage(l.damage)
	l.written, l.synced, l.stagedEnd = r.next, r.next, r.next
	l.start = min(max(r.meta.Start, 0), r.next)
	l.cleaned, l.horizon = min(max(r.meta.Cleaned, 0), r.next), r.meta.Horizon
	if len(l.segments) > 0 {
		if first := l.segments[0].base; len(l.damage) == 0 || l.damage[0].To != first {
			l.start = max(l.start, first)
		}
		l.appendTime = l.active().lastAppend
	}
	l.hw = min(max(r.meta.HighWatermark, l.start), r.next)
	if r.meta.HighWatermark > r.next {
		l.lossReason = fmt.Sprintf("it ends at %d, below its high watermark %d", r.next, r.meta.HighWatermark)
	}
	l.epochs = r.mergeEpochs()
	l.checkpointed = checkpoint{l.synced, l.hw}
	changed = changed || len(l.epochs) != len(r.meta.Epochs) || l.start != r.meta.Start || len(l.segments) != len(r.meta.Segments) || (l.lossReason != "") != r.meta.Lossy
	if changed {
		l.disk.index.update(l.id, l.describe)
	}
	for _, s := range l.segments {
		l.disk.files.rest(s)
	}
	return nil
}

// finishReset does what a crash kept ResetTo from doing.
func (r *recovery) finishReset() error {
	l := r.log
	if err := l.removeNewestFirst(l.segments); err != nil {
		return err
	}
	s, err := l.beginEmpty(r.floor)
	if err != nil && !isDiskFull(err) {
		return err
	}
	l.segments, l.damage, r.epochs, r.next = nil, nil, nil, r.floor
	if s != nil { // else there is no room, and the first append makes the file
		l.segments = []*segment{s}
	}
	return nil
}

// endsInDamage tells that the last bytes of the segment are damaged ones.
func (l *Log) endsInDamage(s *segment) bool {
	return slices.ContainsFunc(l.damage, func(d damage) bool {
		return d.Segment == s.base && d.Bytes > 0 && d.Position+d.Bytes >= s.size
	})
}
