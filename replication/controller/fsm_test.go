package controller

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
)

// machine applies commands by hand, one index after the other.
type machine struct {
	t     *testing.T
	state *State
	log   [][]byte
}

func newMachine(t *testing.T) *machine { return &machine{t: t, state: newState()} }

func (m *machine) raw(entry []byte) any {
	m.log = append(m.log, entry)
	var res any
	m.state, _, res = m.state.apply(entry, uint64(len(m.log)))
	return res
}

func (m *machine) apply(p Command) any {
	res := m.raw(encode(p))
	err, _ := res.(error)
	encodeOutcome(res, err) // panics on what no other broker could be told
	return res
}

// must applies a command that has to succeed.
func (m *machine) must(p Command) any {
	m.t.Helper()
	res := m.apply(p)
	if err, ok := res.(error); ok {
		m.t.Fatalf("%s: %v", p.commandType(), err)
	}
	return res
}

// register begins a broker's new life, fenced.
func (m *machine) register(id int32, data Registration) *Broker {
	m.t.Helper()
	c := &RegisterBroker{ID: id, Incarnation: uuid.New(), URL: fmt.Sprint("http://b", id), RaftID: fmt.Sprint("r", id), Data: data}
	if old := m.state.Brokers[id]; old != nil {
		c.Replaces = old.Epoch
	}
	return m.must(c).(*Broker)
}

// set fences, unfences or drains a broker.
func (m *machine) set(id int32, fenced, draining bool) *Broker {
	m.t.Helper()
	return m.must(&SetBroker{ID: id, Epoch: m.state.Brokers[id].Epoch, Fenced: fenced, Draining: draining}).(*Broker)
}

// broker registers a broker that proves nothing and unfences it.
func (m *machine) broker(id int32) *Broker {
	m.t.Helper()
	m.register(id, Registration{})
	return m.set(id, false, false)
}

func (m *machine) topic(name string, replicas ...[]int32) *Topic {
	m.t.Helper()
	return m.must(&CreateTopic{Name: name, ID: uuid.New(), Replicas: replicas}).(*Topic)
}

func (m *machine) partition(name string, i int) Partition {
	m.t.Helper()
	t, ok := m.state.Topic(name)
	if !ok {
		m.t.Fatalf("no topic %q", name)
	}
	return t.Partitions[i]
}

func TestTopicLifeInTheStateMachine(t *testing.T) {
	m := newMachine(t)
	m.broker(1)
	m.broker(2)
	id := uuid.New()
	made := m.must(&CreateTopic{Name: "a", ID: id, Replicas: [][]int32{{1, 2}, {2, 1}}, Configs: map[string]string{"segment.ms": "5"}}).(*Topic)
	want := &Topic{Name: "a", ID: id, ReplicationFactor: 2, MinInSync: 1, Configs: map[string]string{"segment.ms": "5"}, Partitions: []Partition{
		{Replicas: []int32{1, 2}, Leader: 1, LastLeader: 1, ISR: []int32{1, 2}}, {Replicas: []int32{2, 1}, Leader: 2, LastLeader: 2, ISR: []int32{2, 1}}}}
	if !reflect.DeepEqual(made, want) {
		t.Fatalf("made %+v, want %+v", made, want)
	}
	before := m.state

	altered := m.must(&AlterTopic{ID: id, Set: map[string]string{"retention.ms": "7"}, Remove: []string{"segment.ms"}, From: 2, Add: [][]int32{{1, 2}}}).(*Topic)
	if !reflect.DeepEqual(altered.Configs, map[string]string{"retention.ms": "7"}) || len(altered.Partitions) != 3 {
		t.Fatalf("altered to %+v", altered)
	}
	if !reflect.DeepEqual(altered.Partitions[:2], want.Partitions) {
		t.Errorf("R87: the old partitions changed: %+v", altered.Partitions[:2])
	}
	if old, _ := before.Topic("a"); !reflect.DeepEqual(old, want) {
		t.Errorf("a State that somebody holds was written to: %+v", old)
	}

	m.must(&DeleteTopic{ID: id})
	if _, ok := m.state.Topic("a"); ok {
		t.Error("deleted, and still found by name")
	}
	if _, ok := m.state.TopicByID(id); ok {
		t.Error("deleted, and still found by id")
	}
	again := m.topic("a", []int32{1, 2})
	if again.ID == id || again.Partitions[0].LeaderEpoch != 0 {
		t.Errorf("F53: made again as %+v", again)
	}
}

// Every refused command leaves everything but the index as it was.
func TestRefusedCommandsChangeNothing(t *testing.T) {
	setup := func(t *testing.T) (*machine, *Topic, *Broker) {
		m := newMachine(t)
		m.must(&InitCluster{ClusterID: "c"})
		m.broker(1)
		b := m.broker(2)
		return m, m.topic("a", []int32{1, 2}), b
	}
	exists := func(err error) bool { e := (*TopicExistsError)(nil); return errors.As(err, &e) && e.Topic == "a" }
	conflict := func(err error) bool { e := (*ConflictError)(nil); return errors.As(err, &e) }
	unknown := func(err error) bool { e := (*UnknownTopicError)(nil); return errors.As(err, &e) }
	stale := func(err error) bool { e := (*StaleBrokerEpochError)(nil); return errors.As(err, &e) }
	for name, c := range map[string]struct {
		cmd  func(*Topic, *Broker) Command
		want func(error) bool
	}{
		"name taken": {func(*Topic, *Broker) Command {
			return &CreateTopic{Name: "a", ID: uuid.New(), Replicas: [][]int32{{1}}}
		}, exists},
		"id taken": {func(a *Topic, _ *Broker) Command {
			return &CreateTopic{Name: "b", ID: a.ID, Replicas: [][]int32{{1}}}
		}, conflict},
		"no partitions": {func(*Topic, *Broker) Command { return &CreateTopic{Name: "b", ID: uuid.New()} }, conflict},
		"no name": {func(*Topic, *Broker) Command {
			return &CreateTopic{ID: uuid.New(), Replicas: [][]int32{{1}}}
		}, conflict},
		"unknown broker in the last partition": {func(*Topic, *Broker) Command {
			return &CreateTopic{Name: "b", ID: uuid.New(), Replicas: [][]int32{{1, 2}, {2, 9}}}
		}, conflict},
		"a replica twice": {func(*Topic, *Broker) Command {
			return &CreateTopic{Name: "b", ID: uuid.New(), Replicas: [][]int32{{1, 1}}}
		}, conflict},
		"uneven": {func(*Topic, *Broker) Command {
			return &CreateTopic{Name: "b", ID: uuid.New(), Replicas: [][]int32{{1, 2}, {1}}}
		}, conflict},
		"no replicas": {func(*Topic, *Broker) Command {
			return &CreateTopic{Name: "b", ID: uuid.New(), Replicas: [][]int32{{}}}
		}, conflict},
		"delete an unknown id":  {func(*Topic, *Broker) Command { return &DeleteTopic{ID: uuid.New()} }, unknown},
		"alter an unknown id":   {func(*Topic, *Broker) Command { return &AlterTopic{ID: uuid.New()} }, unknown},
		"add from another size": {func(a *Topic, _ *Broker) Command { return &AlterTopic{ID: a.ID, From: 2, Add: [][]int32{{1, 2}}} }, conflict},
		"add of another factor, configs too": {func(a *Topic, _ *Broker) Command {
			return &AlterTopic{ID: a.ID, From: 1, Add: [][]int32{{1}}, Set: map[string]string{"x": "y"}}
		}, conflict},
		"fence with an old epoch": {func(_ *Topic, b *Broker) Command {
			return &SetBroker{ID: b.ID, Epoch: b.Epoch - 1, Fenced: true}
		}, stale},
		"fence a stranger": {func(*Topic, *Broker) Command { return &SetBroker{ID: 9, Epoch: 1, Fenced: true} }, stale},
	} {
		t.Run(name, func(t *testing.T) {
			m, a, b := setup(t)
			before := *m.state
			err, _ := m.apply(c.cmd(a, b)).(error)
			if !c.want(err) {
				t.Fatalf("refused with %v", err)
			}
			before.Index++ // all that may differ
			if m.state.Hash() != before.Hash() {
				t.Error("the state changed")
			}
			if m.state.Incompatible != 0 {
				t.Error("taken for a newer version's")
			}
		})
	}
}

func TestWhatIsNotUnderstoodIsNeverSkippedSilently(t *testing.T) {
	for name, entry := range map[string]string{
		"unknown type":        `{"v":1,"t":"elect_king","d":{}}`,
		"newer version":       `{"v":2,"t":"init_cluster","d":{"cluster_id":"x"}}`,
		"no version":          `{"t":"init_cluster","d":{"cluster_id":"x"}}`,
		"unknown member":      `{"v":1,"t":"init_cluster","d":{"cluster_id":"x","mood":"good"}}`,
		"unknown outer":       `{"v":1,"t":"init_cluster","d":{"cluster_id":"x"},"z":1}`,
		"bytes after the end": `{"v":1,"t":"init_cluster","d":{"cluster_id":"x"}}{}`,
		"not JSON":            "\x00\x01",
		"no data":             `{"v":1,"t":"init_cluster"}`,
		"empty":               ``,
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.broker(1)
			err := (*IncompatibleError)(nil)
			if res, _ := m.raw([]byte(entry)).(error); !errors.As(res, &err) || err.Index != 3 {
				t.Fatalf("result is %v", res)
			}
			if m.state.Incompatible != 3 || m.state.ClusterID != "" {
				t.Errorf("state: incompatible at %d, cluster %q", m.state.Incompatible, m.state.ClusterID)
			}
			m.raw([]byte(entry))
			m.must(&InitCluster{ClusterID: "y"})
			if m.state.Incompatible != 3 || m.state.ClusterID != "y" {
				t.Errorf("later: incompatible at %d, cluster %q", m.state.Incompatible, m.state.ClusterID)
			}
			f := newFSM(zerolog.Nop())
			f.ApplyBatch(entries(m.log, 0))
			if _, err := f.Snapshot(); err == nil {
				t.Error("a snapshot of a state that lacks a command: the log would be thrown away")
			}
			select {
			case <-f.incompatible:
			default:
				t.Error("nobody was told")
			}
		})
	}
}

func TestFeedTellsWhatChangedAndOnlyThat(t *testing.T) {
	f := newFSM(zerolog.Nop())
	c := &Controller{fsm: f}
	m := newMachine(t)
	m.broker(1)
	a, b := m.topic("a", []int32{1}), m.topic("b", []int32{1})
	f.ApplyBatch(entries(m.log, 0))

	cur := c.Watch()
	if s, _, jump := cur.Next(); !jump || s.TopicCount() != 2 {
		t.Fatalf("the first look: jump %v, %d topics", jump, s.TopicCount())
	}
	if _, ids, jump := cur.Next(); jump || len(ids) != 0 {
		t.Fatalf("nothing happened, told %v %v", ids, jump)
	}
	select {
	case <-cur.Ready():
		t.Fatal("ready without news")
	default:
	}
	changed := c.Changed()
	n := len(m.log)
	m.must(&AlterTopic{ID: a.ID, Set: map[string]string{"x": "1"}})
	m.must(&DeleteTopic{ID: b.ID})
	m.must(&AlterTopic{ID: a.ID, Set: map[string]string{"x": "2"}})
	f.ApplyBatch(entries(m.log[:n+2], n))
	f.ApplyBatch(entries(m.log, n+2))
	<-changed
	<-cur.Ready()
	s, ids, jump := cur.Next()
	if jump || !slices.Equal(ids, []uuid.UUID{a.ID, b.ID}) || s.TopicCount() != 1 {
		t.Errorf("told %v, jump %v", ids, jump)
	}
	var buf bytes.Buffer
	if err := writeSnapshot(&buf, m.state); err != nil {
		t.Fatal(err)
	}
	if err := f.Restore(io.NopCloser(&buf)); err != nil {
		t.Fatal(err)
	}
	if _, _, jump := cur.Next(); !jump {
		t.Error("K10: a restored snapshot is a jump")
	}
}
