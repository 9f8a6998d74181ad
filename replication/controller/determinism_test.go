package controller

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"highwater/replication/wire"
)

func entries(log [][]byte, from int) []*raft.Log {
	out := []*raft.Log{}
	for i := from; i < len(log); i++ {
		out = append(out, &raft.Log{Index: uint64(i + 1), Type: raft.LogCommand, Data: log[i]})
	}
	return out
}

// randomLog makes a log of commands that mostly make sense.
func randomLog(t *testing.T, r *rand.Rand, n int) *machine {
	m := newMachine(t)
	id := func() (u uuid.UUID) {
		for i := range u {
			u[i] = byte(r.Uint32())
		}
		return u
	}
	m.must(&InitCluster{ClusterID: "c"})
	for b := range int32(4) {
		m.must(&RegisterBroker{ID: b, Incarnation: id(), URL: "u"})
		m.set(b, false, false)
	}
	for range n {
		var some *Topic
		for topic := range m.state.Topics() {
			if some == nil || r.IntN(3) == 0 {
				some = topic
			}
		}
		switch k := r.IntN(22); {
		case k == 20:
			m.apply(&ReserveProducers{Count: int32(1 + r.IntN(1000))})
		case k == 21:
			m.apply(&InitProducer{TransactionalID: fmt.Sprint("tx", r.IntN(5))})
		case k < 6 || some == nil:
			c := &CreateTopic{Name: fmt.Sprint("t", r.IntN(30)), ID: id(), Configs: map[string]string{}, MinInSync: r.IntN(3)}
			for range 1 + r.IntN(5) {
				first := int32(r.IntN(4))
				second := (first + 1 + int32(r.IntN(3))) % 4
				if r.IntN(20) == 0 {
					second = int32(r.IntN(5)) // maybe no broker, or the first
				}
				c.Replicas = append(c.Replicas, []int32{first, second})
			}
			for i := range r.IntN(4) {
				c.Configs[fmt.Sprint("k", i)] = fmt.Sprint(r.Uint32())
			}
			m.apply(c)
		case k < 9:
			c := &AlterTopic{ID: some.ID, Set: map[string]string{"z": fmt.Sprint(r.Uint32()), "k1": "x"}, Remove: []string{"k0", "k2"}}
			if r.IntN(2) == 0 {
				c.From, c.Add = len(some.Partitions)-r.IntN(2), [][]int32{{0, 1}}
			}
			if r.IntN(3) == 0 {
				c.Set[ConfigMinInSyncReplicas], c.Set[ConfigUncleanElection] = fmt.Sprint(1+r.IntN(2)), fmt.Sprint(r.IntN(4) == 0)
			}
			m.apply(c)
		case k < 10:
			m.apply(&DeleteTopic{ID: some.ID})
		case k < 12:
			c := &RegisterBroker{ID: int32(r.IntN(4)), Incarnation: id(), MaxProtocol: r.IntN(3),
				Data: Registration{Durable: r.IntN(2) == 0, Held: map[uuid.UUID][]int32{}}}
			if b := m.state.Brokers[c.ID]; b != nil {
				c.Replaces = b.Epoch - int64(r.IntN(3)/2)
			}
			for topic := range m.state.Topics() {
				if r.IntN(3) > 0 {
					c.Data.Held[topic.ID] = []int32{0, 1, 2}
				}
			}
			m.apply(c)
		default:
			randomChange(m, r, some)
		}
	}
	return m
}

// randomChange does something to a broker or to a partition of a topic.
func randomChange(m *machine, r *rand.Rand, t *Topic) {
	num := int32(r.IntN(len(t.Partitions)))
	p := &t.Partitions[num]
	b := m.state.Brokers[p.Replicas[r.IntN(len(p.Replicas))]]
	if b == nil {
		return // removed
	}
	switch k := r.IntN(16); {
	case k < 6:
		m.apply(&SetBroker{ID: b.ID, Epoch: b.Epoch - int64(r.IntN(8)/7), Fenced: r.IntN(3) == 0, Draining: r.IntN(6) == 0})
	case k < 12:
		c := wire.AlterPartition{Topic: t.ID, Partition: num, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Recovered: r.IntN(2) == 0}
		for _, id := range p.Replicas {
			if epoch, ok := m.state.Eligible(id); ok && (id == p.Leader || r.IntN(3) > 0) {
				c.ISR = append(c.ISR, wire.Member{Broker: id, Epoch: epoch})
			}
		}
		if leader := m.state.Brokers[p.Leader]; leader != nil {
			m.apply(&AlterPartitions{Broker: leader.ID, Epoch: leader.Epoch, Changes: []wire.AlterPartition{c, c}})
		}
	case k == 12:
		m.apply(&RemoveBroker{ID: b.ID, Epoch: b.Epoch, Force: r.IntN(2) == 0})
	case k == 13:
		m.apply(&Reassign{Items: []Reassignment{{Topic: t.ID, Partition: num, Replicas: [][]int32{nil, {0, 1}, {3, 2}, {2, 0}}[r.IntN(4)]}}})
	case k == 14:
		m.apply(&ElectLeader{Topic: t.ID, Partition: num, Broker: b.ID, Unclean: r.IntN(2) == 0})
	default:
		m.apply(&DropReplicas{Broker: b.ID, Epoch: b.Epoch, Partitions: []wire.TopicPartition{{Topic: t.ID, Partition: num}}})
		m.apply(&FinalizeProtocol{Version: 1 + r.IntN(2)})
	}
}

// V32: the same log gives the same hash at every index, whether it is applied
// one by one, in batches, or from a snapshot taken anywhere on.
func TestV32_SameLogSameHash(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 7))
		m := randomLog(t, r, 150)
		hashes := make([][32]byte, len(m.log)+1)
		s := newState()
		hashes[0] = s.Hash()
		snapshots := make([]*bytes.Buffer, len(m.log)+1)
		for i, entry := range m.log {
			s, _, _ = s.apply(entry, uint64(i+1))
			hashes[i+1] = s.Hash()
			if err := checkInvariants(s); err != nil {
				t.Fatalf("seed %d: after %s: %v", seed, entry, err)
			}
			snapshots[i+1] = &bytes.Buffer{}
			if err := writeSnapshot(snapshots[i+1], s); err != nil {
				t.Fatal(err)
			}
		}
		if s.Hash() != m.state.Hash() {
			t.Fatalf("seed %d: two runs differ", seed)
		}
		seen := map[[32]byte]int{}
		for i, h := range hashes {
			if j, ok := seen[h]; ok {
				t.Fatalf("seed %d: indexes %d and %d have one hash", seed, j, i)
			}
			seen[h] = i
		}
		for range 20 {
			at := 1 + r.IntN(len(m.log))
			f := newFSM(zerolog.Nop())
			if err := f.Restore(io.NopCloser(bytes.NewReader(snapshots[at].Bytes()))); err != nil {
				t.Fatalf("seed %d: snapshot at %d: %v", seed, at, err)
			}
			if f.state.Load().Hash() != hashes[at] {
				t.Fatalf("seed %d: snapshot at %d restores to another state", seed, at)
			}
			for at < len(m.log) {
				n := min(1+r.IntN(20), len(m.log)-at)
				f.ApplyBatch(entries(m.log[:at+n], at))
				at += n
				if f.state.Load().Hash() != hashes[at] {
					t.Fatalf("seed %d: diverged at %d", seed, at)
				}
			}
		}
	}
}

// checkInvariants holds V18 and V19 against a state, and its two trees and sum
// against one another.
func checkInvariants(s *State) error {
	sum, n := uint64(0), 0
	for t := range s.Topics() {
		n++
		sum += t.hash()
		if byID, ok := s.TopicByID(t.ID); !ok || byID != t {
			return fmt.Errorf("topic %s is not what its id leads to", t.Name)
		}
		for i := range t.Partitions {
			if err := checkPartition(s, t, &t.Partitions[i]); err != nil {
				return fmt.Errorf("%s-%d: %w", t.Name, i, err)
			}
		}
	}
	if err := checkProducers(s); err != nil {
		return err
	}
	if n != s.TopicCount() || n != s.byID.Len() || sum != s.topicsSum {
		return fmt.Errorf("%d topics by name, %d by id, counted %d; sum %x, counted %x", s.TopicCount(), s.byID.Len(), n, s.topicsSum, sum)
	}
	return nil
}

// checkProducers holds the producers' two trees and their sum against one another.
func checkProducers(s *State) error {
	sum, named := uint64(0), 0
	for p := range s.producers.all() {
		sum += p.hash()
		if p.ID < firstProducerID || p.ID >= s.NextProducerID {
			return fmt.Errorf("I1: producer %d was never given out, the next is %d", p.ID, s.NextProducerID)
		}
		if p.TransactionalID == "" {
			continue
		}
		named++
		if byName, ok := s.producers.byName.Get([]byte(p.TransactionalID)); !ok || byName != p {
			return fmt.Errorf("producer %d is not what %q leads to", p.ID, p.TransactionalID)
		}
	}
	if sum != s.producers.sum || named != s.producers.byName.Len() {
		return fmt.Errorf("producers: %d of %d with transactional ids; sum %x, counted %x", named, s.producers.byName.Len(), s.producers.sum, sum)
	}
	return nil
}

func checkPartition(s *State, t *Topic, p *Partition) error {
	single := t.ReplicationFactor == 1 && len(p.ISR) == 1
	for name, ids := range map[string][]int32{"ISR": p.ISR, "ELR": p.ELR, "last known ELR": p.LastKnownELR, "adding": p.Adding, "removing": p.Removing} {
		if len(minus(ids, p.Replicas)) > 0 || repeats(ids) {
			return fmt.Errorf("V19: %s %v of replicas %v", name, ids, p.Replicas)
		}
	}
	switch {
	case len(p.Replicas)-len(p.Adding) != t.ReplicationFactor && len(p.Replicas)-len(p.Removing) != t.ReplicationFactor, repeats(p.Replicas):
		return fmt.Errorf("replicas %v, adding %v, removing %v, factor %d", p.Replicas, p.Adding, p.Removing, t.ReplicationFactor)
	case p.Leader != NoLeader && !slices.Contains(p.ISR, p.Leader):
		return fmt.Errorf("V19: leader %d is not in the ISR %v", p.Leader, p.ISR)
	case len(minus(p.ISR, p.ELR)) != len(p.ISR):
		return fmt.Errorf("V19: ISR %v and ELR %v overlap", p.ISR, p.ELR)
	case len(p.ISR) >= t.EffectiveMinInSync() && len(p.ELR) > 0:
		return fmt.Errorf("V19: ISR %v, min %d, and an ELR %v", p.ISR, t.EffectiveMinInSync(), p.ELR)
	case len(minus(p.LastKnownELR, p.ISR)) != len(p.LastKnownELR):
		return fmt.Errorf("R77: %v in sync, and last known %v", p.ISR, p.LastKnownELR)
	case p.LeaderEpoch > p.PartitionEpoch:
		return fmt.Errorf("R2: leader epoch %d, partition epoch %d", p.LeaderEpoch, p.PartitionEpoch)
	case p.Leader != NoLeader && p.LastLeader != p.Leader:
		return fmt.Errorf("leader %d, last leader %d", p.Leader, p.LastLeader)
	case p.Recovering && len(p.ISR) > 1:
		return fmt.Errorf("R79: ISR %v while the leader recovers", p.ISR)
	}
	for _, id := range p.ISR {
		b := s.Brokers[id]
		if (b == nil || b.Fenced) && !single {
			return fmt.Errorf("V19: %d is in the ISR %v, and fenced or gone", id, p.ISR)
		}
		if b != nil && b.Draining && id != p.Leader && !single {
			return fmt.Errorf("V19: %d is in the ISR %v, and draining", id, p.ISR)
		}
	}
	if p.Leader == NoLeader { // R80: nobody who could lead is left waiting
		for _, id := range append(slices.Clip(p.ISR), p.ELR...) {
			if _, ok := s.Eligible(id); ok && (len(p.ISR) == 0 || slices.Contains(p.ISR, id)) {
				return fmt.Errorf("R80: no leader, though %d could be it", id)
			}
		}
	} else if b := s.Brokers[p.Leader]; b == nil || b.Fenced {
		return fmt.Errorf("V19: leader %d is fenced or gone", p.Leader)
	}
	return nil
}

// The hash covers every member of the state: one changed anywhere changes it.
func TestHashCoversEverything(t *testing.T) {
	m := newMachine(t)
	m.must(&InitCluster{ClusterID: "c"})
	m.broker(1)
	m.topic("a", []int32{1})
	base := m.state.Hash()
	topic, _ := m.state.Topic("a")
	change := func(edit func(*Topic)) *State {
		next := *topic
		next.Partitions = slices.Clone(topic.Partitions)
		edit(&next)
		e := newEdit(m.state, m.state.Index)
		e.putTopic(&next)
		return e.finish()
	}
	broker := func(edit func(*Broker)) *State {
		next := *m.state.Brokers[1]
		edit(&next)
		e := newEdit(m.state, m.state.Index)
		e.putBroker(&next)
		return e.finish()
	}
	other := *m.state
	other.ClusterID = "d"
	next := *m.state
	next.NextProducerID++
	producer := newEdit(m.state, m.state.Index)
	producer.producers().put(&Producer{ID: 1, TransactionalID: "x"})
	protocol := *m.state
	protocol.Protocol = 2
	for name, s := range map[string]*State{
		"cluster id":      &other,
		"configs":         change(func(t *Topic) { t.Configs = map[string]string{"a": "b"} }),
		"leader":          change(func(t *Topic) { t.Partitions[0].Leader = NoLeader }),
		"leader epoch":    change(func(t *Topic) { t.Partitions[0].LeaderEpoch++ }),
		"partition epoch": change(func(t *Topic) { t.Partitions[0].PartitionEpoch++ }),
		"isr":             change(func(t *Topic) { t.Partitions[0].ISR = nil }),
		"elr":             change(func(t *Topic) { t.Partitions[0].ELR = []int32{2} }),
		"last known elr":  change(func(t *Topic) { t.Partitions[0].LastKnownELR = []int32{2} }),
		"last leader":     change(func(t *Topic) { t.Partitions[0].LastLeader = 2 }),
		"adding":          change(func(t *Topic) { t.Partitions[0].Adding = []int32{2} }),
		"removing":        change(func(t *Topic) { t.Partitions[0].Removing = []int32{2} }),
		"recovering":      change(func(t *Topic) { t.Partitions[0].Recovering = true }),
		"min in sync":     change(func(t *Topic) { t.MinInSync = 2 }),
		"directory":       broker(func(b *Broker) { b.Directory = uuid.New() }),
		"drain index":     broker(func(b *Broker) { b.DrainIndex = 3 }),
		"protocol range":  broker(func(b *Broker) { b.MaxProtocol = 3 }),
		"protocol":        &protocol,
		"producer ids":    &next,
		"producers":       producer.finish(),
		"replicas":        change(func(t *Topic) { t.Partitions[0].Replicas = []int32{1, 2} }),
		"url":             broker(func(b *Broker) { b.URL = "x" }),
		"fenced":          broker(func(b *Broker) { b.Fenced = true }),
		"draining":        broker(func(b *Broker) { b.Draining = true }),
		"raft id":         broker(func(b *Broker) { b.RaftID = "x" }),
		"epoch":           broker(func(b *Broker) { b.Epoch++ }),
		"incarnation":     broker(func(b *Broker) { b.Incarnation = uuid.New() }),
	} {
		if s.Hash() == base {
			t.Errorf("%s is not in the hash", name)
		}
	}
}

func TestSnapshotsThatLackSomethingAreRefused(t *testing.T) {
	m := randomLog(t, rand.New(rand.NewPCG(1, 1)), 200)
	var whole bytes.Buffer
	if err := writeSnapshot(&whole, m.state); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(whole.String(), "\n"), "\n")
	if len(lines) < 8 {
		t.Fatalf("only %d lines", len(lines))
	}
	try := func(what, data string) {
		t.Helper()
		f := newFSM(zerolog.Nop())
		before := f.state.Load()
		if err := f.Restore(io.NopCloser(strings.NewReader(data))); err == nil {
			t.Errorf("%s: accepted", what)
		}
		if f.state.Load() != before {
			t.Errorf("%s: the state was replaced", what)
		}
	}
	for n := range lines {
		try(fmt.Sprint("cut off after line ", n), strings.Join(lines[:n], ""))
	}
	without := func(what string) string {
		return strings.Join(slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.Contains(line, what) }), "")
	}
	topic := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, `"partitions":`) })
	try("a topic less", strings.Join(slices.Delete(slices.Clone(lines), topic, topic+1), ""))
	try("a producer less", without(`"transactional_id":"tx3"`))
	try("newer version", strings.Replace(whole.String(), `"v":1`, `"v":2`, 1))
	try("other config", strings.Replace(whole.String(), `"k1":"`, `"k1":"9`, 1))
}

// A topic's JSON is part of what all members must agree on: its shape is frozen.
func TestTopicJSONIsFrozen(t *testing.T) {
	topic := Topic{Name: "a", ID: uuid.MustParse("00000000-0000-0000-0000-000000000001"), ReplicationFactor: 1, MinInSync: 1,
		Configs: map[string]string{"b": "2", "a": "1"}, Partitions: []Partition{
			{Replicas: []int32{1}, Leader: 1, LastLeader: 1, LeaderEpoch: 2, PartitionEpoch: 3, ISR: []int32{1}},
			{Replicas: []int32{1, 2}, Leader: NoLeader, LastLeader: NoLeader, ELR: []int32{1}, LastKnownELR: []int32{2}, Adding: []int32{2}, Removing: []int32{3}, Recovering: true}}}
	data, err := json.Marshal(&topic)
	want := `{"name":"a","id":"00000000-0000-0000-0000-000000000001","factor":1,"min_in_sync":1,"configs":{"a":"1","b":"2"},"partitions":[{"replicas":[1],"leader":1,"leader_epoch":2,"partition_epoch":3,"isr":[1],"last_leader":1},` +
		`{"replicas":[1,2],"leader":-1,"leader_epoch":0,"partition_epoch":0,"isr":null,"elr":[1],"last_known_elr":[2],"last_leader":-1,"adding":[2],"removing":[3],"recovering":true}]}`
	if err != nil || string(data) != want {
		t.Errorf("%v: %s", err, data)
	}
	if h := topic.hash(); h != topic.hash() {
		t.Errorf("hash changes: %x", h)
	}
}
