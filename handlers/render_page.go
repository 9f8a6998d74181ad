package handlers

import (
	"highwater/storage"
)

// page walks over the records of fetched batches, from an offset on. It may be
// copied: a copy goes its own way.
type page struct {
	batches []byte // whole batches not looked at yet
	limit   int64  // records from here on may not be seen yet: the high watermark
	it      storage.RecordIterator
	// next is the offset from which the following read goes on: behind the last
	// record that take returned, and behind the batch once it has ended.
	next       int64
	batchEnd   int64 // next after the open batch; 0: none is open
	batchEpoch int32 // leader epoch of the open or last batch
}

func newPage(batches []byte, offset, limit int64) page {
	return page{batches: batches, next: offset, limit: limit}
}

// take decodes the next record into rec, reusing its headers, and reports
// whether there was one. Records below the asked offset are skipped, the limit ends the page. An error is
// a *storage.CorruptError.
func (p *page) take(rec *storage.Record) (bool, error) {
	for {
		if p.batchEnd == 0 {
			if len(p.batches) == 0 {
				return false, nil
			}
			if err := p.open(); err != nil {
				return false, err
			}
		}
		for p.it.Next(rec) {
			if rec.Offset < p.next {
				continue
			}
			if rec.Offset >= p.limit {
				p.batches, p.batchEnd = nil, 0
				return false, nil
			}
			p.next = rec.Offset + 1
			return true, nil
		}
		if err := p.it.Err(); err != nil {
			return false, err
		}
		p.next = min(max(p.next, p.batchEnd), p.limit)
		p.batchEnd = 0
	}
}

func (p *page) open() error {
	batch, rest, err := storage.SplitBatch(p.batches)
	if err != nil {
		return err
	}
	it, err := batch.Records()
	if err != nil {
		return err
	}
	it.SkipTo(p.next)
	p.batches, p.it, p.batchEnd, p.batchEpoch = rest, it, batch.NextOffset(), batch.LeaderEpoch()
	return nil
}

// recordBytes is what max_bytes counts: the bytes of key, value and headers as
// they are stored, before they are rendered.
func recordBytes(r *storage.Record) int {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

// budget bounds one answer. The first record is always let through, whatever its
// size, so that a reader always comes forward (H37).
type budget struct {
	records int // how many more
	bytes   int // how many more of recordBytes
	taken   int
	used    int  // recordBytes of what was taken
	cut     bool // a record was there that didn't fit
}

// admit reports whether r still fits, and counts it.
func (b *budget) admit(r *storage.Record) bool {
	size := recordBytes(r)
	if b.taken > 0 && (b.taken >= b.records || size > b.bytes-b.used) {
		b.cut = true
		return false
	}
	b.taken++
	b.used += size
	return true
}

// full reports that nothing more can be admitted.
func (b *budget) full() bool { return b.taken > 0 && (b.taken >= b.records || b.used >= b.bytes) }

// closed reports that the answer ended by its own bounds and not at the end of
// the log: the same request will always get the same records.
func (b *budget) closed() bool { return b.full() || b.cut }

// satisfied reports that a waiting read need not wait any longer.
func (b *budget) satisfied(minBytes int64) bool {
	return b.closed() || b.taken > 0 && int64(b.used) >= minBytes
}
