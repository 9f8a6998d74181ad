package storage

import (
	"context"

	"highwater/storage/dedupe"
)

// maxStagedBytes is how much may be staged and not yet written before Stage says
// Backlogged. Callers that wait for their write bound themselves, as long as they
// wait; this is for those that don't. 32 MiB is some tens of milliseconds of a slow disk.
// With maxBacklogBytes nothing more is staged: while a disk hangs, those who gave up
// come again.
const (
	maxStagedBytes  = 32 << 20
	maxBacklogBytes = 2 * maxStagedBytes
)

// Staged is what Stage gave its batches, and the receipt that Write and Sync ask
// for: after a full disk made the log give the same offsets out again, an end
// offset alone couldn't tell whose bytes are there.
type Staged struct {
	BaseOffset int64 // of the first batch
	EndOffset  int64 // exclusive, of the last
	AppendTime int64 // ms by the store's clock, never less than an earlier one of this log (D3)
	// Backlogged: so much is staged and not yet written that a caller who would
	// not wait (acks=0) must call Write before it takes more.
	Backlogged bool

	// Of StageOffer alone:

	// Offsets and Duplicate tell, record by record of the offer, where it is and whether it
	// was there before; nil: every record is new, and they run from BaseOffset on. An
	// offset of -1: it is known to have been written, but no longer where.
	Offsets   []int64
	Duplicate []bool
	// New: something was staged, [BaseOffset, EndOffset).
	New bool
	// [WaitFrom, WaitEnd) is what an answer has to wait for: the own records, and
	// duplicates of records that aren't known to be committed. Empty: nothing.
	WaitFrom, WaitEnd int64

	round *round
}

// Same tells that both are receipts for the same end of the same write.
func (s Staged) Same(other Staged) bool {
	return s.round == other.round && s.EndOffset == other.EndOffset
}

// group is what one Stage brought; it is written whole or not at all.
type group struct {
	batches    []Batch
	base, end  int64
	bytes      int
	appendTime int64
}

// round is one write, of all that was staged when it began.
type round struct {
	done chan struct{} // closed when settled

	// Guarded by Log.mu until done is closed, constant then.
	settled bool
	end     int64 // what was written, exclusive
	err     error // why the rest was not
}

// outcome is what a settled round did for one of its groups.
func (r *round) outcome(s Staged) error {
	if max(s.EndOffset, s.WaitEnd) <= r.end {
		return nil
	}
	return r.err
}

// Stage gives the batches the next offsets, without a gap between them, and the
// leader epoch, and queues them for the next write. It copies nothing: they
// belong to the log until they are written. It does no I/O. Errors: ErrClosed,
// ErrDiskNearlyFull, *FailedError; then nothing was staged.
//
// What is staged stays in memory until somebody calls Write, Sync or SyncSoon.
func (l *Log) Stage(batches []Batch, leaderEpoch int32) (Staged, error) {
	s, _, err := l.stageAt(anyOffset, batches, leaderEpoch)
	return s, err
}

// StageAt is Stage if the next offset is `at`. Otherwise nothing is staged, ok is
// false, and the result's EndOffset is what the next offset is.
func (l *Log) StageAt(at int64, batches []Batch, leaderEpoch int32) (s Staged, ok bool, err error) {
	return l.stageAt(max(at, 0), batches, leaderEpoch)
}

// anyOffset has stageAt stage wherever the log ends.
const anyOffset = -1

func (l *Log) stageAt(at int64, batches []Batch, leaderEpoch int32) (_ Staged, ok bool, _ error) {
	if len(batches) == 0 {
		panic("storage: Stage of no batches")
	}
	var fr factsReader
	facts, err := fr.all(batches, nil)
	if err != nil {
		return Staged{}, false, err
	}
	var bytes int64
	for _, b := range batches {
		bytes += int64(len(b))
	}
	if err := l.disk.admit(bytes); err != nil {
		return Staged{}, false, err
	}
	now := l.disk.nowMs()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refusal(); err != nil {
		return Staged{}, false, err
	}
	if at != anyOffset && at != l.stagedEnd {
		return Staged{EndOffset: l.stagedEnd}, false, nil
	}
	return l.stage(batches, facts, bytes, now, leaderEpoch), true, nil
}

// refusal tells why nothing can be staged any more, or nil. Call it under mu.
func (l *Log) refusal() error {
	switch {
	case l.failed != nil:
		return l.failed
	case l.closed:
		return ErrClosed
	}
	return nil
}

// stage gives batches their places, notes what is to be remembered of them, and
// queues them. Call it under mu.
func (l *Log) stage(batches []Batch, facts []*dedupe.Batch, bytes, now int64, leaderEpoch int32) Staged {
	l.appendTime = max(l.appendTime, now)
	g := group{batches: batches, base: l.stagedEnd, end: l.stagedEnd, bytes: int(bytes), appendTime: l.appendTime}
	for _, b := range batches {
		b.stamp(g.end, leaderEpoch)
		if l.cfg.LogAppendTime {
			b.stampAppendTime(l.appendTime)
		}
		g.end = b.NextOffset()
	}
	l.ownEpoch = leaderEpoch
	if l.noteEpoch(leaderEpoch, g.base) {
		l.epochPending = true // nobody called BeginEpoch
	}
	l.note(batches, facts)
	return l.enqueue(g)
}

// enqueue adds g to the next round. Call it under mu.
func (l *Log) enqueue(g group) Staged {
	if l.round == nil {
		l.round = &round{done: make(chan struct{})}
		l.staged, l.spare = l.spare[:0], nil
	}
	l.staged = append(l.staged, g)
	l.stagedBytes += g.bytes
	l.stagedEnd = g.end
	return Staged{BaseOffset: g.base, EndOffset: g.end, AppendTime: g.appendTime,
		Backlogged: l.stagedBytes > maxStagedBytes, round: l.round}
}

// Write returns when what was staged is in the segment file. Either the caller
// itself writes for all that wait, or somebody else does. An error means that
// none of what was staged is in the log: it was cut off again
// (ErrDiskNearlyFull), or the log has failed and nobody knows (*FailedError).
func (l *Log) Write(s Staged) error { return l.WriteContext(context.Background(), s) }

// WriteContext is Write that gives up with ctx's error when that ends: what was staged
// will be written all the same, or not. A caller that can give up writes for others
// only when that is quick, for a write to the page cache can't be given up.
func (l *Log) WriteContext(ctx context.Context, s Staged) error {
	r := s.round
	l.mu.Lock()
	switch {
	case r.settled:
		l.mu.Unlock()
		return r.outcome(s)
	case l.writer.held:
	case ctx.Done() != nil && l.roundIsSlow():
		l.writer.held = true
		l.bg.Go(l.drain)
	default: // nobody writes, so r is the round that comes next
		l.writer.held = true
		l.mu.Unlock()
		l.writeRound()
		l.releaseWriter()
		return r.outcome(s)
	}
	l.mu.Unlock()
	select {
	case <-r.done:
		return r.outcome(s)
	case <-ctx.Done():
	}
	select {
	case <-r.done: // at the same moment
		return r.outcome(s)
	default:
		return ctx.Err()
	}
}

// roundIsSlow tells that the next round waits for the disk and not for the page cache
// alone: it rolls, or tells the index. Call it under mu.
func (l *Log) roundIsSlow() bool {
	s := l.active()
	if s == nil || l.epochPending || l.unsettled {
		return true
	}
	t := s.state()
	return l.cfg.SegmentBytes > 0 && s.size+int64(l.stagedBytes) > l.cfg.SegmentBytes || t.tooOld(l.cfg.SegmentAge, l.appendTime)
}

// AwaitRoom returns when there may be room for what ErrBacklogged refused, or with ctx's
// error.
func (l *Log) AwaitRoom(ctx context.Context) error {
	l.mu.Lock()
	r := l.writing
	if r == nil {
		r = l.round
	}
	full := l.stagedBytes >= l.disk.backlog
	l.mu.Unlock()
	if !full || r == nil {
		return nil
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// releaseWriter gives the writer's role to maintenance that waits, or to a
// goroutine that writes what was staged meanwhile, in turn, or else to nobody.
func (l *Log) releaseWriter() {
	l.mu.Lock()
	defer l.mu.Unlock()
	maintained := l.maintained
	l.maintained = false
	switch {
	case l.round != nil && (maintained || len(l.writer.waiting) == 0):
		l.bg.Go(l.drain)
	case l.writer.pass():
		l.maintained = true
	default:
		l.writer.held = false
		l.trimStaged()
	}
	l.startWantedSync()
}

// drain writes, as the writer, until nothing is staged.
func (l *Log) drain() {
	l.writeRound()
	l.releaseWriter()
}

// writeRound writes all that is staged. The caller is the writer.
func (l *Log) writeRound() {
	l.mu.Lock()
	groups, r := l.staged, l.round
	if r == nil {
		l.mu.Unlock()
		return
	}
	l.staged, l.round, l.writing = nil, nil, r
	w := newRoundWriter(l)
	l.mu.Unlock()

	err := w.write(groups)
	durable := l.publish(w, groups, r, err)
	w.note()
	switch {
	case w.final:
		_ = l.fail(err)
	case isDiskFull(err):
		l.disk.outOfSpace()
	}
	if durable && l.onDurable != nil {
		l.onDurable()
	}
}

// publish makes what w wrote known to readers, settles the round r if any, and tells
// whether the durable end moved. After an error everything staged since falls
// with the groups that failed: their offsets are behind a hole.
func (l *Log) publish(w *roundWriter, groups []group, r *round, err error) (durable bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	writtenBefore, syncedBefore := l.written, l.synced
	for i := range w.touched {
		t := &w.touched[i]
		t.segment.apply(t)
		if i > 0 || len(l.segments) == 0 {
			l.segments = append(l.segments, t.segment)
			l.synced = max(l.synced, t.segment.base)
		}
	}
	l.maxTimestamp, l.notedTimestamp = w.maxTimestamp, w.notedTimestamp
	for _, g := range groups[:w.whole] {
		l.written = g.end
		l.unflushed += int64(g.bytes)
	}
	l.rolled = l.rolled || len(w.touched) > 1
	if w.saveMeta && w.indexKnows && !w.final {
		l.epochPending = false
	}
	if w.indexKnows && !w.final && r != nil {
		l.unsettled = false
	}
	for _, g := range groups {
		l.stagedBytes -= g.bytes
	}
	if r != nil {
		l.writing = nil
		r.settle(l.written, w.told(err))
	}
	if err != nil {
		l.dropStaged(w.told(err))
		l.unstage()
	}
	if n := len(w.touched); n > 0 && w.touched[n-1].synced == w.touched[n-1].size {
		l.synced = max(l.synced, l.written) // a roll or a cut made all of it durable
	}
	w.pin()
	clear(groups)
	if l.spare == nil {
		l.spare = groups[:0] // may be nil
	}
	if l.disk.mode == FsyncCommit {
		return l.synced > syncedBefore
	}
	return l.written > writtenBefore
}

// trimStaged lets an idle log keep no memory for appends.
func (l *Log) trimStaged() {
	if cap(l.spare) > 8 {
		l.spare = nil
	}
}

func (r *round) settle(end int64, err error) {
	r.settled, r.end, r.err = true, end, err
	close(r.done)
}

// dropStaged fails everything that is staged and gives its offsets back. Call it
// under mu; the writer isn't writing, or will find nothing staged.
func (l *Log) dropStaged(err error) {
	if l.round == nil {
		return
	}
	for i := range l.staged {
		l.stagedBytes -= l.staged[i].bytes
	}
	clear(l.staged)
	l.staged = nil
	l.round.settle(l.written, err)
	l.round = nil
	l.unstage()
}
