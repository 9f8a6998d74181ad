package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"path/filepath"
	"slices"

	"highwater/storage/vfs"
)

// ReadResult is whole batches as they are on disk.
type ReadResult struct {
	// Data holds whole batches, the first of which contains the asked offset.
	// Records below the asked offset or at or above the limit must be skipped
	// by the caller. Empty when the asked offset is at the limit.
	Data []byte
	// StartOffset is the log start at the time of the read.
	StartOffset int64
}

// cursor remembers where the batch with base offset Offset begins, because a
// reader that stopped there is likely to go on.
type cursor struct {
	offset, segment, position int64
}

// section is the part of one segment in which a read may look.
type section struct {
	segment *segment
	size    int64 // of whole batches
	next    int64 // base of the segment after it, or the largest int64
	cuts    int64 // Log.cuts when this was true
	cursor  int64 // position of the asked offset if a reader stopped there; else -1
	damage  []damage
	epochs  []EpochEntry // never changed, only replaced
}

// Read appends to buf[:0] whole batches from the one that holds offset on, below
// limit, up to maxBytes but at least one batch. limit is at most WrittenEnd. CRCs
// are checked. Errors: *OffsetOutOfRangeError (offset not in [start, limit]),
// *CorruptError (the batch that holds offset is damaged), ErrClosed.
func (l *Log) Read(offset, limit int64, maxBytes int, buf []byte) (ReadResult, error) {
	for known := -1; ; {
		res := ReadResult{Data: buf[:0]}
		sec, err := l.section(offset, &limit, &res)
		if err != nil || offset == limit {
			return res, err
		}
		cuts, again := sec.cuts, known < len(sec.damage)
		known = len(sec.damage)
		next := offset
		for {
			next, err = l.readSection(&sec, next, limit, maxBytes, &res)
			if err != nil || next >= limit || next != sec.next || len(res.Data) >= maxBytes {
				break
			}
			further, furtherErr := l.section(next, &limit, &res)
			if furtherErr != nil || next >= limit {
				break
			}
			sec = further
		}
		l.mu.Lock()
		cut := l.cuts != cuts
		moved := cut || l.start > offset
		if err == nil && next < limit && !moved {
			l.cursors[l.nextCursor] = cursor{next, sec.segment.base, sec.cursor}
			l.nextCursor = (l.nextCursor + 1) % len(l.cursors)
		}
		learned := len(l.damage) > known
		l.mu.Unlock()
		switch {
		case cut || moved && err != nil || errors.Is(err, errSegmentGone):
			continue // the log was cut, or a segment removed or replaced under the read: look again
		case learned && again && err != nil && len(res.Data) == 0:
			continue // it was damage elsewhere that kept the batch from being found
		case len(res.Data) > 0:
			return res, nil // an error further on is for who asks for that offset
		default:
			return res, err
		}
	}
}

// section finds where offset is and clamps limit to the log.
func (l *Log) section(offset int64, limit *int64, res *ReadResult) (section, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*limit = min(*limit, l.written)
	res.StartOffset = l.start
	sec := section{cuts: l.cuts, cursor: -1}
	if l.closed {
		return sec, ErrClosed
	}
	if offset < l.start || offset > *limit {
		return sec, &OffsetOutOfRangeError{Offset: offset, Start: l.start, End: *limit}
	}
	if offset == *limit {
		return sec, nil
	}
	for i := range l.damage {
		if d := &l.damage[i]; d.From <= offset && offset < d.To {
			return sec, d.err(l.id)
		}
	}
	sec.segment, sec.next = l.segmentAt(offset)
	sec.size, sec.damage, sec.epochs = sec.segment.size, l.damage, l.epochs
	for _, c := range l.cursors {
		if c.offset == offset && c.segment == sec.segment.base && c.position < sec.size {
			sec.cursor = c.position
		}
	}
	return sec, nil
}

// readSection reads from one segment and returns the offset after what it read.
// It leaves the position of that offset in sec.cursor.
func (l *Log) readSection(sec *section, offset, limit int64, maxBytes int, res *ReadResult) (int64, error) {
	h, err := l.disk.files.acquire(l.dir, sec.segment)
	if err != nil {
		if errors.Is(err, iofs.ErrNotExist) && !errors.Is(err, errSegmentGone) {
			return offset, l.corrupt(sec.segment, 0, "the segment's file is missing")
		}
		return offset, fmt.Errorf("storage: %w", err)
	}
	defer l.disk.files.release(h)
	if sec.cursor < 0 {
		if sec.cursor, err = l.locate(h.file, sec, offset); err != nil {
			return offset, err
		}
	}
	sec.cursor = sec.skipDamage(sec.cursor)
	most, must := maxBytes-len(res.Data), len(res.Data) == 0
	page, atEnd, err := l.readPage(h.file, sec, most, must, res)
	if err != nil {
		return offset, err
	}
	next, keep, err := checkPage(page, atEnd, offset, limit, most, must)
	l.mendEpochsOf(page[:keep], sec.epochs)
	res.Data = res.Data[:len(res.Data)-len(page)+keep]
	sec.cursor += int64(keep)
	if err != nil && keep == 0 {
		l.examine(sec)
		return offset, l.corrupt(sec.segment, sec.cursor, reasonOf(err))
	}
	return next, nil
}

// smallPage is what is read at least: a second read costs more than some bytes that
// nobody asked for.
const smallPage = 4 << 10

// readPage appends to res.Data the bytes from sec.cursor on: most of them, but a
// whole batch at least if must is set. It returns what it appended, and whether
// that is all there is before the segment's end or a damaged place.
func (l *Log) readPage(f vfs.File, sec *section, most int, must bool, res *ReadResult) (page []byte, atEnd bool, err error) {
	end := sec.size
	for i := range sec.damage {
		if d := &sec.damage[i]; d.Segment == sec.segment.base && (d.Position > sec.cursor || d.Position == sec.cursor && d.Bytes > 0) {
			end = min(end, d.Position)
		}
	}
	old, left := len(res.Data), end-sec.cursor
	least := BatchHeaderSize
	if must {
		least = smallPage
	}
	want := min(int64(max(most, least)), left)
	if err := l.appendAt(f, sec.segment, sec.cursor, want, res); err != nil {
		return nil, false, err
	}
	size, err := batchSize(res.Data[old:])
	if more := int64(size) - want; must && err == nil && more > 0 && int64(size) <= left {
		if err := l.appendAt(f, sec.segment, sec.cursor+want, more, res); err != nil {
			return nil, false, err
		}
		want = int64(size)
	}
	return res.Data[old:], want == left || err == nil && int64(size) > left, nil
}

func (l *Log) appendAt(f vfs.File, s *segment, pos, n int64, res *ReadResult) error {
	old := len(res.Data)
	res.Data = slices.Grow(res.Data, int(n))[:old+int(n)]
	if _, err := f.ReadAt(res.Data[old:], pos); err != nil {
		res.Data = res.Data[:old]
		return l.corrupt(s, pos, "read: "+err.Error())
	}
	return nil
}

// checkPage checks whole batches at the begin of page, the first of which must
// hold offset, up to limit and `most` bytes, but one at least if must is set. keep is their size,
// next the offset after them. The error is about the batch at keep. A batch that passes the page is one, when
// there is nothing behind the page.
func checkPage(page []byte, atEnd bool, offset, limit int64, most int, must bool) (next int64, keep int, err error) {
	next = offset
	for keep < len(page) && next < limit {
		left := page[keep:]
		if len(left) < BatchHeaderSize && !atEnd {
			return next, keep, nil
		}
		size, err := batchSize(left)
		if err == nil && size > len(left) && !atEnd {
			return next, keep, nil
		}
		if err == nil && keep+size > most && (keep > 0 || !must) {
			return next, keep, nil
		}
		b, _, err := ParseBatch(left)
		if err != nil {
			return next, keep, err
		}
		if base := b.BaseOffset(); base > next || b.LastOffset() < next || keep > 0 && base != next {
			return next, keep, &CorruptError{Reason: fmt.Sprintf("batch of offsets [%d, %d) stands where %d is expected", base, b.NextOffset(), next)}
		}
		next = b.NextOffset()
		keep += size
	}
	return next, keep, nil
}

// locate finds the position of the batch that holds offset: from the index's
// hint, if the batch it names is there, else from the segment's begin.
func (l *Log) locate(f vfs.File, sec *section, offset int64) (int64, error) {
	if offset == sec.segment.base && sec.damageAt(0) == nil {
		return 0, nil
	}
	hw := headerWalker{log: l, file: f, sec: sec, chunk: l.disk.chunk()}
	defer l.disk.chunks.Put(hw.chunk)
	hint, ok := l.disk.index.offsetFloor(l.id, offset)
	if ok && hint.Segment == sec.segment.base && hint.Position > 0 && hint.Position < sec.size {
		if h, err := hw.header(hint.Position); err == nil && h.base == hint.Offset {
			if pos, err := hw.walk(hint.Position, offset); err == nil {
				return pos, nil
			}
		}
	}
	// From the begin, which tells what the index should have known.
	hw.collect = true
	pos, err := hw.walk(0, offset)
	if err != nil {
		l.examine(sec)
		return 0, err
	}
	if l.mu.Lock(); l.cuts != sec.cuts {
		hw.seen = nil // of a segment that was replaced
	}
	l.mu.Unlock()
	if len(hw.seen) > 1 {
		l.disk.index.renoteOffsets(l.id, hw.seen)
	}
	return pos, nil
}

// damageAt is the damage that begins at pos, or nil.
func (sec *section) damageAt(pos int64) *damage {
	for i := range sec.damage {
		if d := &sec.damage[i]; d.Segment == sec.segment.base && d.Position == pos {
			return d
		}
	}
	return nil
}

// skipDamage is the position after the damaged bytes that begin at pos, or pos.
func (sec *section) skipDamage(pos int64) int64 {
	for i := range sec.damage {
		if d := &sec.damage[i]; d.Segment == sec.segment.base && d.Position == pos {
			pos += d.Bytes
		}
	}
	return pos
}

// headerWalker looks through a segment's batch headers.
type headerWalker struct {
	log     *Log
	file    vfs.File
	sec     *section
	chunk   *[chunkBytes]byte
	from, n int64 // chunk[:n] are the file's bytes from `from` on
	collect bool
	seen    []indexEntry // for the index, when collect is set
}

// batchHeader is what a walk needs of a batch.
type batchHeader struct {
	base, last, maxTimestamp, size int64
}

// firstChunk is what a walk reads at first: past an index entry the batch sought
// is at most an index interval and a batch away.
const firstChunk = 2 * indexEveryBytes

// header reads the header at pos. The error is a *CorruptError with a path.
func (w *headerWalker) header(pos int64) (batchHeader, error) {
	if pos < w.from || pos+BatchHeaderSize > w.from+w.n {
		size := int64(chunkBytes)
		if w.n == 0 {
			size = firstChunk
		}
		size = min(size, w.sec.size-pos)
		if size < BatchHeaderSize {
			return batchHeader{}, w.log.corrupt(w.sec.segment, pos, "no whole batch header before the segment's end")
		}
		w.from, w.n = pos, 0
		n, err := w.file.ReadAt(w.chunk[:size], pos)
		if err != nil && !(errors.Is(err, io.EOF) && int64(n) == size) {
			return batchHeader{}, w.log.corrupt(w.sec.segment, pos, "read: "+err.Error())
		}
		w.n = size
	}
	raw := w.chunk[pos-w.from : w.n]
	size, err := batchSize(raw)
	if err != nil {
		return batchHeader{}, w.log.corrupt(w.sec.segment, pos, err.Error())
	}
	b := Batch(raw)
	h := batchHeader{base: b.BaseOffset(), size: int64(size), maxTimestamp: b.MaxTimestamp()}
	h.last = h.base + int64(int32(binary.BigEndian.Uint32(raw[offLastDelta:])))
	if h.base < w.sec.segment.base || h.last < h.base || h.last >= w.sec.next || h.size > w.sec.size-pos {
		return batchHeader{}, w.log.corrupt(w.sec.segment, pos, fmt.Sprintf("impossible batch of offsets [%d, %d] and %d bytes", h.base, h.last, h.size))
	}
	return h, nil
}

// walk goes from the batch at pos to the one that holds offset.
func (w *headerWalker) walk(pos, offset int64) (int64, error) {
	next := w.sec.segment.base
	for pos < w.sec.size {
		if skip := w.sec.skipDamage(pos); skip > pos {
			pos = skip
			continue
		}
		h, err := w.header(pos)
		if err != nil {
			return pos, err
		}
		if h.base < next || h.base > offset {
			break
		}
		if n := len(w.seen); w.collect && (n == 0 || pos-w.seen[n-1].Position >= indexEveryBytes) {
			w.seen = append(w.seen, indexEntry{Offset: h.base, Segment: w.sec.segment.base, Position: pos})
		}
		if h.last >= offset {
			return pos, nil
		}
		next = h.last + 1
		pos += h.size
	}
	return pos, w.log.corrupt(w.sec.segment, pos, fmt.Sprintf("no batch holds offset %d", offset))
}

// reasonOf is the reason of a *CorruptError, without its place.
func reasonOf(err error) string {
	var c *CorruptError
	if errors.As(err, &c) {
		return c.Reason
	}
	return err.Error()
}

// corrupt makes the error for a place in a segment.
func (l *Log) corrupt(s *segment, pos int64, reason string) *CorruptError {
	return &CorruptError{Path: filepath.Join("partitions", l.id.String(), segmentName(s.base)), Position: pos, Reason: reason}
}
