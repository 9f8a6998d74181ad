package controller

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"

	"github.com/google/uuid"
	iradix "github.com/hashicorp/go-immutable-radix/v2"
)

// edit builds the State that follows another one. What it doesn't touch is
// shared between both.
type edit struct {
	next    *State
	byName  *iradix.Txn[*Topic]
	byID    *iradix.Txn[*Topic]
	changed []uuid.UUID          // topics made, changed or deleted
	brokers bool                 // next.Brokers is a copy of its own
	drafts  map[uuid.UUID]*Topic // copies whose partitions are being changed
	order   []*Topic             // the drafts in the order of their first change
	pids    *producersEdit       // nil: no producer changed
}

func newEdit(s *State, index uint64) *edit {
	next := *s
	next.Index = index
	return &edit{next: &next, byName: s.byName.Txn(), byID: s.byID.Txn()}
}

func (e *edit) finish() *State {
	for _, t := range e.order {
		e.putTopic(t)
	}
	if len(e.changed) > 0 {
		e.next.byName, e.next.byID = e.byName.CommitOnly(), e.byID.CommitOnly()
	}
	if e.pids != nil {
		e.next.producers = e.pids.finish()
	}
	return e.next
}

// topic finds a topic as the edit has it so far.
func (e *edit) topic(id uuid.UUID) (*Topic, bool) {
	if t, ok := e.drafts[id]; ok {
		return t, true
	}
	return e.byID.Get(id[:])
}

// partition finds a partition as the edit has it so far; nil: there is none.
func (e *edit) partition(topic uuid.UUID, num int32) (*Topic, *Partition) {
	t, ok := e.topic(topic)
	if !ok || num < 0 || int(num) >= len(t.Partitions) {
		return nil, nil
	}
	return t, &t.Partitions[num]
}

// draft returns a copy of t whose Partitions may be written to; finish puts it in
// t's place.
func (e *edit) draft(t *Topic) *Topic {
	if e.drafts[t.ID] == t {
		return t
	}
	next := *t
	next.Partitions = slices.Clone(t.Partitions)
	if e.drafts == nil {
		e.drafts = map[uuid.UUID]*Topic{}
	}
	e.drafts[t.ID] = &next
	e.order = append(e.order, &next)
	return &next
}

// putTopic adds t or puts it in the place of the topic with its id, whose name
// is the same.
func (e *edit) putTopic(t *Topic) {
	if old, ok := e.byID.Insert(t.ID[:], t); ok {
		e.next.topicsSum -= old.hash()
	}
	e.byName.Insert([]byte(t.Name), t)
	e.next.topicsSum += t.hash()
	e.changed = append(e.changed, t.ID)
}

func (e *edit) deleteTopic(t *Topic) {
	e.byID.Delete(t.ID[:])
	e.byName.Delete([]byte(t.Name))
	e.next.topicsSum -= t.hash()
	e.changed = append(e.changed, t.ID)
}

func (e *edit) putBroker(b *Broker) {
	e.ownBrokers()
	e.next.Brokers[b.ID] = b
}

func (e *edit) removeBroker(id int32) {
	e.ownBrokers()
	delete(e.next.Brokers, id)
}

func (e *edit) ownBrokers() {
	if !e.brokers {
		e.next.Brokers, e.brokers = maps.Clone(e.next.Brokers), true
	}
}

// hash is the first 8 bytes of the SHA-256 of the topic's JSON, whose members
// and map keys have a fixed order.
func (t *Topic) hash() uint64 {
	data, err := json.Marshal(t)
	if err != nil {
		panic(err) // plain structs of strings and numbers
	}
	sum := sha256.Sum256(data)
	return binary.BigEndian.Uint64(sum[:])
}

// Hash is equal on all members that applied the same commands, however they
// came to this index: by the log, by a snapshot, or by both (V32).
func (s *State) Hash() [sha256.Size]byte {
	h := sha256.New()
	enc := json.NewEncoder(h)
	header := struct {
		Index, Incompatible, TopicsSum uint64
		Topics, Protocol               int
		ClusterID                      string
		Voters                         []int32
		// Left out where there are none: a state without producers has the hash that
		// versions before them gave it, which stands in their snapshots.
		NextProducerID int64  `json:",omitempty"`
		Producers      int    `json:",omitempty"`
		ProducersSum   uint64 `json:",omitempty"`
	}{s.Index, s.Incompatible, s.topicsSum, s.TopicCount(), s.Protocol, s.ClusterID, s.Voters, s.NextProducerID, s.producers.count(), s.producers.sum}
	if err := enc.Encode(header); err != nil {
		panic(err) // plain structs into a hash: neither fails
	}
	for _, id := range s.BrokerIDs() {
		if err := enc.Encode(s.Brokers[id]); err != nil {
			panic(err)
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}
