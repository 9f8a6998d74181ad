package storage

import (
	"errors"
	"fmt"
	iofs "io/fs"

	"highwater/storage/vfs"
)

// OffsetForTimestamp finds the first offset below limit whose record's timestamp
// is at or after ms; found is false when there is none. Timestamps of clients
// need not be in order. Errors: *CorruptError when damage hides the answer, ErrClosed.
func (l *Log) OffsetForTimestamp(ms, limit int64) (offset int64, found bool, err error) {
	from := l.StartOffset()
	if hint, ok := l.disk.index.timeFloor(l.id, ms); ok {
		from = max(from, hint.Offset) // everything below it is older than ms
	}
	for {
		l.mu.Lock()
		cuts := l.cuts
		l.mu.Unlock()
		next, ok, err := l.searchSegment(ms, from, limit)
		l.mu.Lock()
		start, cut := l.start, l.cuts != cuts
		l.mu.Unlock()
		if start > from {
			from = start // removed meanwhile, so look again
			continue
		}
		if err != nil && (cut || errors.Is(err, errSegmentGone)) {
			continue // replaced meanwhile
		}
		if ok || err != nil || next >= limit {
			return next, ok, err
		}
		from = next
	}
}

// searchSegment looks for the first record at or after ms in the segment that
// holds offset from. If it has none, next is where to go on.
func (l *Log) searchSegment(ms, from, limit int64) (next int64, found bool, err error) {
	var res ReadResult
	sec, err := l.section(min(from, limit), &limit, &res)
	var outside *OffsetOutOfRangeError
	if errors.As(err, &outside) || err == nil && from >= limit {
		return limit, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	l.mu.Lock()
	newest := sec.segment.maxTimestamp
	l.mu.Unlock()
	if newest < ms {
		return min(sec.next, limit), false, nil
	}
	h, err := l.disk.files.acquire(l.dir, sec.segment)
	if errors.Is(err, iofs.ErrNotExist) && !errors.Is(err, errSegmentGone) {
		return 0, false, l.corrupt(sec.segment, 0, "the segment's file is missing")
	}
	if err != nil {
		return 0, false, fmt.Errorf("storage: %w", err)
	}
	defer l.disk.files.release(h)
	pos, err := l.locate(h.file, &sec, from)
	if err != nil {
		return 0, false, err
	}
	hw := headerWalker{log: l, file: h.file, sec: &sec, chunk: l.disk.chunk()}
	defer l.disk.chunks.Put(hw.chunk)
	for next = from; pos < sec.size && next < limit; {
		if d := sec.damageAt(pos); d != nil {
			if d.To > d.From && d.To > from && d.From < limit {
				return 0, false, d.err(l.id) // the answer may be among what is lost
			}
			if d.Bytes > 0 {
				pos = sec.skipDamage(pos)
				continue
			}
		}
		b, err := hw.header(pos)
		if err != nil {
			l.examine(&sec)
			return 0, false, err
		}
		if b.maxTimestamp >= ms {
			offset, ok, err := l.searchBatch(&sec, h.file, pos, b.size, ms, from, limit)
			if ok || err != nil {
				return offset, ok, err
			}
		}
		next = b.last + 1
		pos += b.size
	}
	return min(max(next, sec.next), limit), false, nil
}

// searchBatch looks for the first record at or after ms in one batch.
func (l *Log) searchBatch(sec *section, f vfs.File, pos, size, ms, from, limit int64) (offset int64, found bool, err error) {
	raw := make([]byte, size)
	if _, err := f.ReadAt(raw, pos); err != nil {
		return 0, false, l.corrupt(sec.segment, pos, "read: "+err.Error())
	}
	b, _, err := ParseBatch(raw)
	if err == nil {
		var it RecordIterator
		var r Record
		if it, err = b.Records(); err == nil {
			for it.Next(&r) {
				if r.Timestamp >= ms && r.Offset >= from && r.Offset < limit {
					return r.Offset, true, nil
				}
			}
			err = it.Err()
		}
	}
	if err != nil {
		l.examine(sec)
		return 0, false, l.corrupt(sec.segment, pos, reasonOf(err))
	}
	return 0, false, nil
}
