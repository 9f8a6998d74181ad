package storage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// # Compaction
//
// cleanup.policy=compact keeps, of all records with the same key, at least the last
// one. A compaction goes over the closed segments below the high watermark twice
// (as Kafka's log cleaner does):
//
//  1. It reads what was appended since the last one, the dirty part, and notes the
//     last offset of each key (keyOffsets).
//  2. It reads all segments from the log's begin to the end of the dirty part, in
//     groups of neighbours that fit into one segment, and writes each group anew
//     without the records that a later one of the same key has replaced. A group in
//     which nothing changes isn't written.
//
// No offset changes. A batch keeps its base offset, last offset, leader epoch and
// producer, and so its place; of what is left of it, timestamps and order stay. In
// Kafka a batch without records goes and leaves a gap. Here its offsets stay
// covered: by the batch before it, whose last offset is moved up, or by a batch
// without records (a placeholder), so that batches follow each other without a gap
// in every log (V27), and what is missing can be told from what was compacted away,
// by bytes that a checksum covers. Neither reaches over a leader epoch's begin, so
// that epochs can always be told from the batches. A producer's last batch stays,
// without records if need be, for its sequence number (R92).
//
// A tombstone stays until the batch's delete horizon: delete.retention.ms after the
// compaction that first met it (KIP-534). By then every older record of its key is
// gone, and a reader that began before has had that time to come by. It stays
// longer while some replica of the partition may not have it yet
// (CompactOptions.KeepTombstones): one that comes back later than that would never
// hear of the deletion.
//
// Control batches and those of transactions are left as they are, and their records
// replace none.

const (
	// compactChunkBytes is how much is read or written between two looks at whether to
	// go on, and what the bound on the rate counts in.
	compactChunkBytes = 1 << 20
	// compactSyncBytes is how much is written between two fsyncs, so that none of them
	// holds up those that producers wait for.
	compactSyncBytes = 16 << 20
	// maxCompactedSegment bounds a group where segment.bytes doesn't.
	maxCompactedSegment = 1 << 30
	// maxGroupOffsets bounds the offsets of a group; Kafka's, whose index has 32 bits.
	maxGroupOffsets = math.MaxInt32
)

// CompactOptions say what a compaction may do.
type CompactOptions struct {
	// HighWatermark: nothing at or above it is looked at (R92).
	HighWatermark int64
	// KeepTombstones: some replica of the partition may lack some of what is below HighWatermark.
	KeepTombstones bool
	// AtOnce: the active segment is closed first, and min.compaction.lag.ms doesn't hold.
	AtOnce bool
	// BytesPerSecond bounds what is read and written; 0: nothing does.
	BytesPerSecond int64
}

// CompactResult is what a compaction did.
type CompactResult struct {
	From, To                      int64 // the part that was dirty
	Keys                          int   // different ones in it
	Records                       int64 // that were looked at
	Replaced                      int64 // records that went because a later one has their key
	Tombstones                    int64 // that went
	Keyless                       int64 // records that went because they have no key
	SegmentsBefore, SegmentsAfter int
	BytesBefore, BytesAfter       int64
}

// errLogChanged: the log was cut or its begin moved under the compaction, which gives up.
var errLogChanged = errors.New("storage: the log changed while it was compacted")

// compaction is one run.
type compaction struct {
	log  *Log
	ctx  context.Context
	opts CompactOptions
	plan compactPlan
	keys *keyOffsets
	last producers
	rw   rewriter
	now  int64 // ms
	// end is where the knowledge of keys ends; batches from there on stay as they are.
	end     int64
	horizon int64 // the smallest of the tombstones that stay; 0: there are none
	pace    pace
	res     CompactResult
}

// compactPlan is the part of a log that may be compacted.
type compactPlan struct {
	segments    []compactSegment
	dirty       int64 // the first offset that wasn't compacted before
	dirtyBytes  int64
	cleanBytes  int64
	oldestDirty int64 // ms, first append to the first dirty segment
	cuts        int64
	cfg         LogConfig
	epochs      []EpochEntry // never changed, only replaced
}

// compactSegment is a closed segment as it was when the plan was made.
type compactSegment struct {
	*segment
	bytes, next int64
}

// Compact compacts the log as far as its closed segments are below the high
// watermark, if its topic is a compacted one. One compaction of a log runs at a time; appends, reads and everything
// else go on meanwhile, and if the log is cut or closed it gives up what it has not
// done yet. Errors: ctx's, *CorruptError (damage was found; nothing is compacted
// before it is mended), ErrDiskNearlyFull, ErrTooManyFiles, ErrClosed, *FailedError.
func (l *Log) Compact(ctx context.Context, opts CompactOptions) (CompactResult, error) {
	l.take(&l.cleaner)
	defer l.releaseCleaner()
	if err := l.failure(); err != nil {
		return CompactResult{}, err
	}
	c := &compaction{log: l, ctx: ctx, opts: opts, now: l.disk.nowMs(), pace: pace{rate: opts.BytesPerSecond, since: time.Now()}}
	if err := c.roll(); err != nil {
		return CompactResult{}, err
	}
	l.mu.Lock()
	if len(l.damage) > 0 {
		err := l.damage[0].err(l.id)
		l.mu.Unlock()
		return CompactResult{}, err
	}
	if l.cfg.Compact {
		c.plan = l.planCompaction(opts.HighWatermark, opts.AtOnce, c.now)
	}
	l.mu.Unlock()
	c.end, c.res.From, c.res.To = c.plan.dirty, c.plan.dirty, c.plan.dirty
	if len(c.plan.segments) == 0 {
		return c.res, nil
	}
	err := l.keepRemembering(c.plan.segments[len(c.plan.segments)-1].next)
	if err == nil {
		err = c.run()
	}
	if errors.Is(err, errLogChanged) {
		err = l.failure() // it will be done next time
	}
	return c.res, err
}

func (l *Log) releaseCleaner() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.cleaner.pass() {
		l.cleaner.held = false
	}
}

// roll closes the active segment if it is to be compacted too.
func (c *compaction) roll() error {
	l := c.log
	return l.maintain(func() error {
		l.mu.Lock()
		s := l.active()
		due := s != nil && l.cfg.Compact && s.size > 0 && s.base < c.opts.HighWatermark && (c.opts.AtOnce || l.overdue(s, c.now))
		l.mu.Unlock()
		if !due {
			return nil
		}
		return l.rollNow()
	})
}

// overdue tells that a segment must be compacted, by max.compaction.lag.ms. Call it under mu.
func (l *Log) overdue(s *segment, nowMs int64) bool {
	lag := l.cfg.MaxCompactionLag
	return lag > 0 && s.firstAppend > 0 && nowMs-s.firstAppend >= lag.Milliseconds()
}

// planCompaction finds what may be compacted. Call it under mu.
func (l *Log) planCompaction(highWatermark int64, atOnce bool, nowMs int64) compactPlan {
	p := compactPlan{dirty: max(l.cleaned, l.start), cuts: l.cuts, cfg: l.cfg, epochs: l.epochs}
	if len(l.segments) > 0 {
		p.dirty = max(p.dirty, l.segments[0].base)
	}
	lag := l.cfg.MinCompactionLag.Milliseconds()
	for i, s := range l.segments[:max(len(l.segments)-1, 0)] {
		next := l.segments[i+1].base
		if next > highWatermark {
			break
		}
		if next <= p.dirty {
			p.cleanBytes += s.size
		} else {
			if !atOnce && lag > 0 && nowMs-s.lastAppend < lag {
				break
			}
			if p.dirtyBytes == 0 {
				p.oldestDirty = s.firstAppend
			}
			p.dirtyBytes += s.size
		}
		p.segments = append(p.segments, compactSegment{s, s.size, next})
	}
	return p
}

// Compactable is what is worth knowing before a compaction.
type Compactable struct {
	Due                    bool
	Damaged                bool    // nothing will be compacted before the damage is mended
	Ratio                  float64 // of the dirty part to all that may be compacted
	DirtyBytes, CleanBytes int64
}

// Compactable tells whether it is time for a compaction: more than
// min.cleanable.dirty.ratio is dirty, or something has been for max.compaction.lag.ms,
// or tombstones have come to their end.
func (l *Log) Compactable(highWatermark int64, keepTombstones bool) Compactable {
	now := l.disk.nowMs()
	l.mu.Lock()
	defer l.mu.Unlock()
	var out Compactable
	if !l.cfg.Compact || l.closed || l.failed != nil {
		return out
	}
	p := l.planCompaction(highWatermark, false, now)
	out.DirtyBytes, out.CleanBytes = p.dirtyBytes, p.cleanBytes
	out.Damaged = len(l.damage) > 0
	if p.dirtyBytes > 0 {
		out.Ratio = float64(p.dirtyBytes) / float64(p.dirtyBytes+p.cleanBytes)
	}
	lag := l.cfg.MaxCompactionLag
	waited := lag > 0 && p.dirtyBytes > 0 && now-p.oldestDirty >= lag.Milliseconds()
	s := l.active()
	rolls := s != nil && s.size > 0 && s.base < highWatermark && l.written <= highWatermark && l.overdue(s, now)
	expired := l.horizon > 0 && l.horizon <= now && !keepTombstones && p.cleanBytes > 0
	out.Due = !out.Damaged && (out.Ratio > l.cfg.MinDirtyRatio || waited || rolls || expired)
	return out
}

// run does all of it.
func (c *compaction) run() error {
	l := c.log
	c.keys = newKeyOffsets(l.compactMapBytes)
	if err := c.mapKeys(); err != nil {
		return err
	}
	c.res.Keys, c.res.To = c.keys.count, c.end
	for rest := c.plan.segments; len(rest) > 0 && rest[0].base < c.end; {
		n := c.groupSize(rest)
		if err := c.group(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	l.mu.Lock()
	if l.cuts != c.plan.cuts { // cleaned is where the cut left it
		l.mu.Unlock()
		return errLogChanged
	}
	l.cleaned, l.horizon = max(l.cleaned, c.end), c.horizon
	l.mu.Unlock()
	l.disk.index.update(l.id, l.describe)
	return nil
}

// groupSize is how many of the segments, from the first on, become one.
func (c *compaction) groupSize(segments []compactSegment) int {
	most := c.plan.cfg.SegmentBytes
	if most <= 0 || most > maxCompactedSegment {
		most = max(maxCompactedSegment, segments[0].bytes)
	}
	n, bytes := 1, segments[0].bytes
	for n < len(segments) && segments[n].base < c.end && bytes+segments[n].bytes <= most && segments[n].next-segments[0].base <= maxGroupOffsets {
		bytes += segments[n].bytes
		n++
	}
	return n
}

// mapKeys notes the last offset of each key of the dirty part, and each producer's last batch there.
func (c *compaction) mapKeys() error {
	for _, s := range c.plan.segments {
		if s.next <= c.plan.dirty {
			continue
		}
		full := false
		err := c.batches(s, func(b Batch, _ int64) (bool, error) {
			if b.NextOffset() <= c.plan.dirty {
				return true, nil
			}
			if full = c.end > c.plan.dirty && c.keys.full(); full {
				return false, nil // but one batch is taken in whatever its size
			}
			if err := c.noteKeys(b); err != nil {
				return false, err
			}
			c.last.note(b)
			c.end = b.NextOffset()
			return true, nil
		})
		if err != nil || full {
			return err
		}
	}
	return nil
}

func (c *compaction) noteKeys(b Batch) error {
	if b.control() || b.transactional() {
		return nil
	}
	it, err := b.Records()
	if err != nil {
		return err
	}
	for it.Next(&c.rw.rec) {
		if c.rw.rec.Key != nil {
			c.keys.put(c.rw.rec.Key, c.rw.rec.Offset)
		}
	}
	return it.Err()
}

// batches visits the batches of a segment until visit says false or fails; damage is
// a *CorruptError, and is known to the log then.
func (c *compaction) batches(s compactSegment, visit func(b Batch, pos int64) (bool, error)) error {
	l := c.log
	h, err := l.disk.files.acquire(l.dir, s.segment)
	if errors.Is(err, errSegmentGone) {
		return errLogChanged
	}
	if err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	defer l.disk.files.release(h)
	sc := scanner{file: h.file, size: s.bytes}
	next := s.base
	for pos := int64(0); pos < s.bytes; {
		b, err := sc.batch(pos)
		if err == nil && (b.BaseOffset() != next || b.NextOffset() > s.next) {
			err = &CorruptError{Reason: fmt.Sprintf("batch of offsets [%d, %d) stands where %d is expected", b.BaseOffset(), b.NextOffset(), next)}
		}
		if err != nil {
			return c.corrupt(s, pos, err)
		}
		l.mendEpochsOf(b, c.plan.epochs)
		size := int64(len(b))
		next = b.NextOffset()
		if err := c.breathe(size); err != nil {
			return err
		}
		more, err := visit(b, pos)
		if bad := (*CorruptError)(nil); errors.As(err, &bad) {
			return c.corrupt(s, pos, err)
		}
		if err != nil || !more {
			return err
		}
		pos += size
	}
	if next != s.next {
		return c.corrupt(s, s.bytes, &CorruptError{Reason: "offsets are missing"})
	}
	return nil
}

// corrupt has the log look at what was found, as a reader does.
func (c *compaction) corrupt(s compactSegment, pos int64, err error) error {
	l := c.log
	l.mu.Lock()
	there := slices.Contains(l.segments, s.segment)
	sec := section{segment: s.segment, size: s.bytes, next: s.next, cuts: l.cuts, cursor: -1}
	l.mu.Unlock()
	if !there {
		return errLogChanged
	}
	l.examine(&sec)
	return l.corrupt(s.segment, pos, reasonOf(err))
}

// breathe accounts for bytes that were read or written, and tells now and then
// whether to stop.
func (c *compaction) breathe(bytes int64) error {
	if !c.pace.due(bytes) {
		return nil
	}
	if err := c.pace.wait(c.ctx); err != nil {
		return err
	}
	l := c.log
	if err := l.failure(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cuts != c.plan.cuts {
		return errLogChanged
	}
	return nil
}

// pace bounds a rate.
type pace struct {
	rate        int64 // bytes per second; 0: no bound
	since       time.Time
	done, asked int64 // bytes, since `since` and since the last wait
}

// due counts bytes, and tells that it is time to wait.
func (p *pace) due(bytes int64) bool {
	p.done += bytes
	p.asked += bytes
	return p.asked >= compactChunkBytes
}

func (p *pace) wait(ctx context.Context) error {
	p.asked = 0
	if p.rate <= 0 {
		return ctx.Err()
	}
	ahead := time.Duration(float64(p.done)/float64(p.rate)*float64(time.Second)) - time.Since(p.since)
	if ahead <= 0 {
		if ahead < -time.Second { // time that was lost isn't made up for
			p.since, p.done = time.Now(), 0
		}
		return ctx.Err()
	}
	timer := time.NewTimer(ahead)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
