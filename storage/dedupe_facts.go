package storage

import (
	"highwater/storage/dedupe"
)

// factsReader reads out of marked batches what is remembered of them. It keeps its buffers.
type factsReader struct {
	content dedupe.Content
	rec     Record
}

// batch reads one batch; nil if it isn't marked. Of a batch whose records can't be
// decoded it gives what came before, with the error: so every replica, and every
// start, takes the same from it.
func (fr *factsReader) batch(b Batch) (*dedupe.Batch, error) {
	if !b.Marked() {
		return nil, nil
	}
	f := &dedupe.Batch{Base: b.BaseOffset(), Next: b.NextOffset(), Time: dedupe.NoTime, Producer: dedupe.Producer{ID: dedupe.NoProducer}}
	if _, horizon := b.deleteHorizon(); !horizon && b.BaseTimestamp() >= 0 {
		f.Time = b.BaseTimestamp()
	}
	if id := b.ProducerID(); id >= 0 {
		f.Producer = dedupe.Producer{ID: id, Epoch: b.ProducerEpoch(), Sequence: b.BaseSequence(), Count: b.lastOffsetDelta() + 1}
	}
	it, err := b.Records()
	if err != nil {
		return f, err
	}
	for it.Next(&fr.rec) {
		id := messageIDOf(&fr.rec)
		if id == nil {
			continue
		}
		if f.Messages == nil {
			f.Messages = make([]dedupe.Message, 0, b.RecordCount())
		}
		f.Messages = append(f.Messages, dedupe.Message{ID: dedupe.IDOf(id), Content: fr.contentOf(&fr.rec), Delta: int32(fr.rec.Offset - f.Base)})
	}
	return f, it.Err()
}

// all reads what batches say; nil if none is marked.
func (fr *factsReader) all(batches []Batch) (facts []*dedupe.Batch, err error) {
	for i, b := range batches {
		if !b.Marked() {
			continue
		}
		if facts == nil {
			facts = make([]*dedupe.Batch, len(batches))
		}
		f, bad := fr.batch(b)
		if facts[i] = f; bad != nil && err == nil {
			err = bad
		}
	}
	return facts, err
}

// messageIDOf is the record's message id; nil: it has none. The first of several counts.
func messageIDOf(r *Record) []byte {
	for i := range r.Headers {
		if string(r.Headers[i].Key) == MessageIDHeader {
			if id := r.Headers[i].Value; id != nil {
				return id
			}
			return []byte{}
		}
	}
	return nil
}

// contentOf is the hash by which a message that is sent again is told from another one:
// over all of the record but its id and timestamp.
func (fr *factsReader) contentOf(r *Record) uint64 {
	fr.content.Begin(r.Key, r.Value)
	for i := range r.Headers {
		if h := &r.Headers[i]; string(h.Key) != MessageIDHeader {
			fr.content.Header(h.Key, h.Value)
		}
	}
	return fr.content.Sum()
}
