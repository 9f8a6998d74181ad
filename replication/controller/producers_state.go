package controller

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"iter"
	"math"

	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"highwater/replication/wire"
)

const (
	// firstProducerID is the first that is given out: 0 is what a client's missing
	// number is easily taken for.
	firstProducerID = 1
	// lastProducerEpoch is the last that a producer id can have: 16 bits in a batch.
	lastProducerEpoch = math.MaxInt16
	// maxTransactionalIDs bounds the transactional ids that were ever used: some 200
	// bytes each, in every broker's memory and in every snapshot.
	maxTransactionalIDs = 100_000
	// MaxTransactionalIDBytes bounds one of them.
	MaxTransactionalIDBytes = 255
	// maxReservation bounds the ids of one ReserveProducers.
	maxReservation = 1_000_000
)

// ProducerIDs are producer ids that were given out: Count of them from First on, in
// this Epoch.
type ProducerIDs struct {
	First int64 `json:"first"`
	Count int32 `json:"count"`
	Epoch int16 `json:"epoch"`
}

// Producer is a producer id that belongs to a transactional id, or did.
type Producer struct {
	ID int64 `json:"id"`
	// Epoch is the only one that may write; older ones are fenced.
	Epoch int16 `json:"epoch"`
	// TransactionalID is empty when its epochs are used up: another producer id took
	// its place, and nobody writes with this one any more.
	TransactionalID string `json:"transactional_id,omitempty"`
}

// hash is the first 8 bytes of the SHA-256 of its JSON.
func (p *Producer) hash() uint64 {
	data, err := json.Marshal(p)
	if err != nil {
		panic(err) // a plain struct of strings and numbers
	}
	sum := sha256.Sum256(data)
	return binary.BigEndian.Uint64(sum[:])
}

// ProducerGiven tells whether a producer id was given out, in this epoch or a later
// one: a batch of any other producer comes from nobody, or from metadata that are
// newer than these.
func (s *State) ProducerGiven(pid int64, epoch int16) bool {
	newest, _ := s.ProducerEpoch(pid)
	return pid >= firstProducerID && pid < s.NextProducerID && epoch >= 0 && epoch <= newest
}

// ProducerEpoch is the newest epoch of a producer id; one with an older epoch is
// fenced (I3). Without a transactional id it is 0 for ever, and ok is false.
func (s *State) ProducerEpoch(pid int64) (epoch int16, ok bool) {
	if p, ok := s.producers.byID.Get(producerKey(pid)); ok {
		return p.Epoch, true
	}
	return 0, false
}

// producers are those with transactional ids.
type producers struct {
	byID *iradix.Tree[*Producer] // key: the id, 8 bytes
	// byName has those that may still write, by transactional id.
	byName *iradix.Tree[*Producer]
	sum    uint64 // the wrapping sum of all hashes
}

func newProducers() producers {
	return producers{byID: iradix.New[*Producer](), byName: iradix.New[*Producer]()}
}

func (ps *producers) count() int { return ps.byID.Len() }

// all yields them in the order of their ids.
func (ps *producers) all() iter.Seq[*Producer] {
	return func(yield func(*Producer) bool) {
		ps.byID.Root().Walk(func(_ []byte, p *Producer) bool { return !yield(p) })
	}
}

func producerKey(pid int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(pid)) }

// producersEdit changes producers.
type producersEdit struct {
	byID, byName *iradix.Txn[*Producer]
	sum          uint64
}

// producers returns the edit's producers for changing.
func (e *edit) producers() *producersEdit {
	if e.pids == nil {
		ps := &e.next.producers
		e.pids = &producersEdit{byID: ps.byID.Txn(), byName: ps.byName.Txn(), sum: ps.sum}
	}
	return e.pids
}

func (pe *producersEdit) finish() producers {
	return producers{byID: pe.byID.CommitOnly(), byName: pe.byName.CommitOnly(), sum: pe.sum}
}

// put adds p or puts it in the place of the one with its id.
func (pe *producersEdit) put(p *Producer) {
	if old, ok := pe.byID.Insert(producerKey(p.ID), p); ok {
		pe.sum -= old.hash()
	}
	pe.sum += p.hash()
	if p.TransactionalID != "" {
		pe.byName.Insert([]byte(p.TransactionalID), p)
	}
}

// takeProducerIDs gives out the next ids; ok is false when there are none left.
func (e *edit) takeProducerIDs(n int64) (first int64, ok bool) {
	first = max(e.next.NextProducerID, firstProducerID)
	if first > math.MaxInt64-n {
		return 0, false
	}
	e.next.NextProducerID = first + n
	return first, true
}

func (c *ReserveProducers) apply(e *edit) any {
	if c.Count < 1 || c.Count > maxReservation {
		return &RefusedError{Code: wire.CodeInvalidRequest, Reason: "a broker reserves 1 to 1000000 producer ids at once"}
	}
	first, ok := e.takeProducerIDs(int64(c.Count))
	if !ok {
		return &RefusedError{Code: wire.CodeInvalidRequest, Reason: "all producer ids are used up"}
	}
	return &ProducerIDs{First: first, Count: c.Count}
}

func (c *InitProducer) apply(e *edit) any {
	if c.TransactionalID == "" || len(c.TransactionalID) > MaxTransactionalIDBytes {
		return &RefusedError{Code: wire.CodeInvalidRequest, Reason: "a transactional id has 1 to 255 bytes"}
	}
	ps := e.producers()
	old, ok := ps.byName.Get([]byte(c.TransactionalID))
	// The last epoch is nobody's: it fences the one before.
	if ok && old.Epoch < lastProducerEpoch-1 {
		next := &Producer{ID: old.ID, Epoch: old.Epoch + 1, TransactionalID: old.TransactionalID}
		ps.put(next)
		return &ProducerIDs{First: next.ID, Count: 1, Epoch: next.Epoch}
	}
	if !ok && e.next.producers.byName.Len() >= maxTransactionalIDs {
		return &TooManyProducersError{Limit: maxTransactionalIDs}
	}
	pid, left := e.takeProducerIDs(1)
	if !left {
		return &RefusedError{Code: wire.CodeInvalidRequest, Reason: "all producer ids are used up"}
	}
	if ok {
		ps.put(&Producer{ID: old.ID, Epoch: lastProducerEpoch})
	}
	ps.put(&Producer{ID: pid, TransactionalID: c.TransactionalID})
	return &ProducerIDs{First: pid, Count: 1}
}
