package handlers

import (
	"math"
	"net/http"

	"highwater/replication"
	"highwater/storage"
)

const (
	// streamBytes: a page with more than that of batches is rendered while it is
	// sent, so that the reader parses its first records while the last ones are
	// rendered, and the rendered text stays in the processor's cache.
	streamBytes = 256 << 10
	// streamChunkBytes is how much of it is rendered before it is written.
	streamChunkBytes = 128 << 10
	// leastRecordOverhead is what a record takes in a batch beside its bytes:
	// attributes and six numbers of at least one byte.
	leastRecordOverhead = 7
)

// wholePage says that all of what was fetched is the answer, so that its end is
// known before it is rendered: nothing in it goes beyond the bounds of the query.
func wholePage(res *replication.FetchResult, q *readQuery) bool {
	if q.count > 0 || !fits(res.Data, q.maxBytes) {
		return false
	}
	for data := res.Data; len(data) > 0; {
		batch, rest, err := storage.SplitBatch(data)
		if err != nil || batch.NextOffset() > res.HighWatermark {
			return false
		}
		data = rest
	}
	return true
}

// fits says that the records of all these batches have at most so many bytes of
// keys, values and headers. What is compressed doesn't tell.
func fits(batches []byte, most int64) bool {
	for len(batches) > 0 {
		batch, rest, err := storage.SplitBatch(batches)
		if err != nil || batch.Compression() != storage.CompressionNone {
			return false
		}
		most -= int64(len(batch)) - storage.BatchHeaderSize - int64(batch.RecordCount())*leastRecordOverhead
		batches = rest
	}
	return most >= 0
}

// streamPage renders and writes by turns what was fetched for the only cursor.
func (a *api) streamPage(w http.ResponseWriter, r *http.Request, rd *reader, q *readQuery, res *replication.FetchResult) error {
	defer a.buffers.put(res.Data)
	c := &rd.cursors[0]
	p := newPage(res.Data, c.next, res.HighWatermark)
	var last storage.Batch
	for data := res.Data; len(data) > 0; {
		batch, rest, err := storage.SplitBatch(data)
		if err != nil {
			return err
		}
		last, data = batch, rest
	}
	c.next, c.epoch = last.NextOffset(), last.LeaderEpoch()
	a.describe(w.Header(), rd, c, res, q)
	w.Header()["Content-Type"] = []string{q.media}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	b := q.budget()
	b.bytes = math.MaxInt // wholePage has counted
	out := openFrame(a.buffers.get(), q.frame)
	defer func() { a.buffers.put(out) }()
	for {
		before := b.taken
		var err error
		if out, err = renderPage(out, &p, c.renderer, &b, q.frame, streamChunkBytes, nil, &rd.rec); err != nil {
			return err
		}
		if done := b.taken == before; done {
			_, err = w.Write(closeFrame(out, q.frame))
			return err
		}
		if len(out) < streamChunkBytes {
			continue
		}
		if _, err = w.Write(out); err != nil {
			return err
		}
		out = out[:0]
	}
}
