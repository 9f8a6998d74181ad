package storage

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"

	"highwater/storage/vfs"
)

const (
	// cleanedSuffix ends the name of a compacted segment that is being written. A
	// crash leaves it behind, and the next start removes it.
	cleanedSuffix = ".cleaned"
	// compactBufferBytes is how much of it is written at once.
	compactBufferBytes = 256 << 10
	// maxCovered bounds the offsets that one batch covers, below the 2^31 that fit.
	maxCovered = 1 << 30
)

// group writes some neighbouring segments anew, as one.
func (c *compaction) group(segments []compactSegment) error {
	l := c.log
	var pinned []*handle // the old files stay open until the new one has their place
	defer func() {
		for _, h := range pinned {
			l.disk.files.release(h)
		}
	}()
	for _, s := range segments {
		h, err := l.disk.files.acquire(l.dir, s.segment)
		switch {
		case errors.Is(err, errSegmentGone):
			return errLogChanged
		case err != nil:
			return fmt.Errorf("storage: %w", err)
		}
		pinned = append(pinned, h)
	}
	w := &cleanedWriter{c: c, base: segments[0].base, indexed: -1, maxTimestamp: noTimestamp}
	if len(segments) == 1 {
		w.source = pinned[0].file
	}
	err := c.fill(w, segments)
	if err == nil && w.file != nil {
		err = w.finish()
	}
	for _, s := range segments {
		c.res.BytesBefore += s.bytes
		c.res.SegmentsBefore++
	}
	switch {
	case err != nil:
		return w.abandon(err)
	case w.file == nil: // nothing to change
		c.res.BytesAfter += w.at
		c.res.SegmentsAfter++
		return nil
	}
	c.res.BytesAfter += w.at
	c.res.SegmentsAfter++
	return c.swap(w, segments)
}

// fill gives the writer what is left of the segments' batches.
func (c *compaction) fill(w *cleanedWriter, segments []compactSegment) error {
	for _, s := range segments {
		err := c.batches(s, func(b Batch, _ int64) (bool, error) {
			return true, c.one(w, b)
		})
		if err != nil {
			return err
		}
	}
	return w.flushPending()
}

// one decides about one batch.
func (c *compaction) one(w *cleanedWriter, b Batch) error {
	switch {
	case b.BaseOffset() >= c.end, b.control(), b.transactional():
		return w.put(b, true)
	case b.RecordCount() == 0:
		return c.empty(w, b, false)
	}
	horizon := c.now + c.plan.cfg.DeleteRetention.Milliseconds()
	passed := false
	if at, ok := b.deleteHorizon(); ok {
		passed = at <= c.now && !c.opts.KeepTombstones
	}
	out, err := c.rw.rewrite(b, horizon, func(r *Record) fate {
		c.res.Records++
		switch {
		case r.Key == nil:
			c.res.Keyless++
		case c.keys.last(r.Key) > r.Offset:
			c.res.Replaced++
		case r.Value == nil && passed:
			c.res.Tombstones++
		default:
			return keepRecord
		}
		return dropRecord
	})
	if errors.Is(err, ErrBatchTooLarge) {
		return w.put(b, true)
	}
	if err != nil {
		return err
	}
	if out.tombstones > 0 && (c.horizon == 0 || out.horizon < c.horizon) {
		c.horizon = out.horizon
	}
	if out.batch == nil {
		return c.empty(w, b, true)
	}
	return w.put(out.batch, !out.changed)
}

// empty takes a batch of which no record is left. emptied: it had some until now.
func (c *compaction) empty(w *cleanedWriter, b Batch, emptied bool) error {
	stays, err := c.mustStay(b)
	switch {
	case err != nil:
		return err
	case stays && emptied:
		return w.put(b.emptied(), false)
	case stays:
		return w.put(b, true)
	}
	return w.cover(b)
}

// cleanedWriter writes the file that takes the place of a group of segments. As long
// as what it is given is what the only segment of the group holds, it writes nothing.
type cleanedWriter struct {
	c      *compaction
	base   int64
	source vfs.File // of a group of one, while there is nothing to write
	file   vfs.File // nil: nothing has changed

	pending     Batch // the last batch, which may yet be made to cover more; a copy
	pendingSame bool  // as it is in the source
	buf         []byte
	at          int64 // where the next batch will be, with what is in buf
	written     int64
	synced      int64

	offsets      []indexEntry
	indexed      int64
	maxTimestamp int64
}

// put adds a batch. same: it is in the group just like that.
func (w *cleanedWriter) put(b Batch, same bool) error {
	if err := w.flushPending(); err != nil {
		return err
	}
	w.pending, w.pendingSame = append(w.pending[:0], b...), same
	return nil
}

// cover has the offsets of b covered, of which nothing is left: by the batch before
// it, if it is of the same leader epoch and has no producer, whose last sequence
// number would move too.
func (w *cleanedWriter) cover(b Batch) error {
	p := w.pending
	fits := len(p) > 0 && p.LeaderEpoch() == b.LeaderEpoch() && p.ProducerID() == NoProducer && !p.control() && !p.transactional() &&
		p.NextOffset() == b.BaseOffset() && b.NextOffset()-p.BaseOffset() <= maxCovered
	if fits {
		p.cover(b.NextOffset())
		w.pendingSame = false
		return nil
	}
	if b.placeholder() {
		return w.put(b, true)
	}
	return w.put(newPlaceholder(b.BaseOffset(), b.NextOffset(), b.LeaderEpoch()), false)
}

// flushPending lets go of the last batch.
func (w *cleanedWriter) flushPending() error {
	b := w.pending
	if len(b) == 0 {
		return nil
	}
	if w.source != nil && !w.pendingSame {
		if err := w.copySource(); err != nil {
			return err
		}
	}
	if w.indexed < 0 || w.at-w.indexed >= indexEveryBytes {
		w.indexed = w.at
		w.offsets = append(w.offsets, indexEntry{Offset: b.BaseOffset(), Segment: w.base, Position: w.at})
	}
	if b.RecordCount() > 0 {
		w.maxTimestamp = max(w.maxTimestamp, b.MaxTimestamp())
	}
	w.at += int64(len(b))
	w.pending = w.pending[:0]
	if w.source != nil {
		return nil
	}
	return w.write(b)
}

// copySource begins the file with what was the same so far.
func (w *cleanedWriter) copySource() error {
	source := w.source
	w.source = nil
	if err := w.create(); err != nil {
		return err
	}
	chunk := make([]byte, compactBufferBytes)
	for pos := int64(0); pos < w.at; {
		part := chunk[:min(int64(len(chunk)), w.at-pos)]
		if _, err := source.ReadAt(part, pos); err != nil {
			return fmt.Errorf("storage: %w", err) // it could be read a moment ago
		}
		if err := w.write(part); err != nil {
			return err
		}
		pos += int64(len(part))
	}
	return nil
}

func (w *cleanedWriter) name() string {
	return filepath.Join(w.c.log.dir, segmentName(w.base)+cleanedSuffix)
}

func (w *cleanedWriter) create() error {
	d := w.c.log.disk
	// What an attempt left that failed. A crash may bring it back: the next start removes it.
	if err := d.fs.Remove(w.name()); err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return &FailedError{Cause: err}
	}
	err := d.files.withRoom(func() (err error) {
		w.file, err = d.fs.Open(w.name(), os.O_CREATE|os.O_EXCL|os.O_RDWR)
		return err
	})
	if err != nil {
		w.file = nil
	}
	return err
}

func (w *cleanedWriter) write(b []byte) error {
	if w.file == nil {
		if err := w.create(); err != nil {
			return err
		}
	}
	w.buf = append(w.buf, b...)
	if len(w.buf) < compactBufferBytes {
		return nil
	}
	return w.flush()
}

// flush writes what is in the buffer, and fsyncs now and then.
func (w *cleanedWriter) flush() error {
	n := int64(len(w.buf))
	if n == 0 {
		return nil
	}
	if err := w.c.log.disk.admit(n); err != nil {
		return err
	}
	if _, err := w.file.WriteBuffers([][]byte{w.buf}, w.written); err != nil {
		return err
	}
	w.written += n
	w.buf = w.buf[:0]
	if w.written-w.synced >= compactSyncBytes {
		if err := w.sync(); err != nil {
			return err
		}
	}
	return w.c.breathe(n)
}

func (w *cleanedWriter) sync() error {
	if err := w.c.log.disk.sync(w.file); err != nil {
		return &FailedError{Cause: fmt.Errorf("fsync of %s: %w", filepath.Base(w.name()), err)}
	}
	w.synced = w.written
	return nil
}

// finish makes the file durable; its name comes with the swap.
func (w *cleanedWriter) finish() error {
	if err := w.flush(); err != nil {
		return err
	}
	return w.sync()
}

// abandon removes what was written. A write that failed for another reason than a
// full disk is final (S4).
func (w *cleanedWriter) abandon(err error) error {
	l := w.c.log
	full := isDiskFull(err)
	if w.file != nil {
		if closeErr := w.file.Close(); closeErr != nil && !full {
			err = errors.Join(err, &FailedError{Cause: closeErr})
		}
		if removeErr := l.disk.fs.Remove(w.name()); removeErr != nil {
			err = errors.Join(err, &FailedError{Cause: removeErr})
		}
	}
	failed, bad, known := (*FailedError)(nil), (*CorruptError)(nil), false
	for _, e := range []error{errLogChanged, ErrClosed, ErrDiskNearlyFull, ErrTooManyFiles, w.c.ctx.Err()} {
		known = known || e != nil && errors.Is(err, e)
	}
	switch {
	case errors.As(err, &failed):
		return l.fail(err)
	case full:
		l.disk.outOfSpace()
		return ErrDiskNearlyFull
	case known, errors.As(err, &bad):
		return err
	}
	return l.fail(fmt.Errorf("compaction: %w", err))
}
