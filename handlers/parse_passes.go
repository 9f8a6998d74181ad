package handlers

import (
	"encoding/binary"
	"fmt"

	"highwater/storage"
	"highwater/storage/dedupe"
)

// maxProducerBatch bounds the bytes of what a producer with sequence numbers sends at
// once: it is one batch, and readers decode whole batches.
const maxProducerBatch = 16 << 20

// parseBody reads a body into the plan. It is one pass, but where records are to carry
// what only the end of the body tells: with an Idempotency-Key a first pass hashes all
// records, and producer members that follow the records make it begin again.
func parseBody(plan *plan, body []byte, media string) error {
	if plan.idPrefix != "" {
		plan.hashing = true
		if err := parsePass(plan, body, media); err != nil {
			return err
		}
		plan.hashing = false
		plan.hash.seal(plan.count)
		plan.whole = plan.whole || plan.producer != nil
		plan.rewind(len(body))
	}
	if err := parsePass(plan, body, media); err != nil {
		return err
	}
	if plan.producer != nil && !plan.whole {
		plan.whole = true
		plan.rewind(len(body))
		if err := parsePass(plan, body, media); err != nil {
			return err
		}
	}
	return nil
}

func parsePass(plan *plan, body []byte, media string) error {
	if media == typeNDJSON {
		return parseLinesBody(plan, body)
	}
	return parseBatchBody(plan, body)
}

// checkWhole refuses what is too much for one batch.
func (p *plan) checkWhole() error {
	for i := range p.parts {
		if size := p.parts[i].builder.Size(); p.whole && size > maxProducerBatch {
			return &requestError{code: codeBodyTooLarge, detail: fmt.Sprintf("The records take %d bytes. With a producer_id they are one batch, of at most %d bytes.", size, maxProducerBatch),
				fix: "Send them in several requests, each with a base_sequence of its own."}
		}
	}
	return nil
}

// requestHash tells the request of an Idempotency-Key from another one under the same
// key. Every record carries it (storage.RequestHashHeader), so that each partition
// notices if any record of the request, or their number, is another one. When and to
// which partition a record goes doesn't count: a retry may say that otherwise.
type requestHash struct {
	record, all dedupe.Content
	begun       bool
	value       [8]byte
}

// add takes in a record, without its message id.
func (h *requestHash) add(rec *storage.Record, id []byte) {
	if !h.begun {
		h.all.Begin(nil, nil)
		h.begun = true
	}
	h.record.Begin(rec.Key, rec.Value)
	for i := range rec.Headers {
		if id == nil || string(rec.Headers[i].Key) != idHeader {
			h.record.Header(rec.Headers[i].Key, rec.Headers[i].Value)
		}
	}
	h.all.Number(h.record.Sum())
}

// seal makes the value, from all records and their number.
func (h *requestHash) seal(records int) {
	h.all.Number(uint64(records))
	binary.BigEndian.PutUint64(h.value[:], h.all.Sum())
	h.begun = false
}

// header is what each record carries.
func (h *requestHash) header() storage.Header {
	return storage.Header{Key: requestHeaderBytes, Value: h.value[:]}
}
