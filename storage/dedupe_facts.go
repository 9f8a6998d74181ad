package storage

import (
	"slices"
	"sync"

	"highwater/storage/dedupe"
)

// factsReader reads out of marked batches what is remembered of them. It keeps its buffers.
type factsReader struct {
	content dedupe.Content
	ids     dedupe.IDs
	rec     Record
	// messages are those of the facts that were read last. If they are lent, they are in memory that is
	// used again.
	messages []dedupe.Message
	lends    bool
}

// factsReaders are kept for those who need one often.
var factsReaders = sync.Pool{New: func() any { return new(factsReader) }}

// lend ends the use of the facts that were lent before, and lends those that are read from now on.
func (fr *factsReader) lend() { fr.lends, fr.messages = true, fr.messages[:0] }

// message is what is remembered of a record; false: it has no id.
func (fr *factsReader) message(r *Record, delta int32) (dedupe.Message, bool) {
	id := messageIDOf(r)
	if id == nil {
		return dedupe.Message{}, false
	}
	return dedupe.Message{ID: fr.ids.Of(id), Content: fr.contentOf(r), Delta: delta}, true
}

// batch reads one batch; nil if it isn't marked. Of a batch whose records can't be
// decoded it gives what came before, with the error: so every replica, and every
// start, takes the same from it.
func (fr *factsReader) batch(b Batch) (*dedupe.Batch, error) {
	if !b.Marked() {
		return nil, nil
	}
	f := b.facts()
	it, err := b.Records()
	if err != nil {
		return f, err
	}
	if !fr.lends {
		fr.messages = nil
	}
	first := len(fr.messages)
	for it.Next(&fr.rec) {
		if m, ok := fr.message(&fr.rec, int32(fr.rec.Offset-f.Base)); ok {
			if len(fr.messages) == cap(fr.messages) {
				fr.messages = slices.Grow(fr.messages, int(b.RecordCount()))
			}
			fr.messages = append(fr.messages, m)
		}
	}
	if n := len(fr.messages); n > first {
		f.Messages = fr.messages[first:n:n]
	}
	return f, it.Err()
}

// facts are those in a marked batch's header.
func (b Batch) facts() *dedupe.Batch {
	f := &dedupe.Batch{Base: b.BaseOffset(), Next: b.NextOffset(), Time: dedupe.NoTime, Producer: dedupe.Producer{ID: dedupe.NoProducer}}
	if _, horizon := b.deleteHorizon(); !horizon && b.BaseTimestamp() >= 0 {
		f.Time = b.BaseTimestamp()
	}
	if id := b.ProducerID(); id >= 0 {
		f.Producer = dedupe.Producer{ID: id, Epoch: b.ProducerEpoch(), Sequence: b.BaseSequence(), Count: b.lastOffsetDelta() + 1}
	}
	return f
}

// all reads what batches say that isn't known; nil if none is marked.
func (fr *factsReader) all(batches []Batch, known []*Facts) (facts []*dedupe.Batch, err error) {
	for i, b := range batches {
		if !b.Marked() {
			continue
		}
		if facts == nil {
			facts = make([]*dedupe.Batch, len(batches))
		}
		if i < len(known) && known[i] != nil {
			facts[i] = known[i]
			continue
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
