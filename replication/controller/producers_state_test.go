package controller

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// I1: no producer id is given twice, whoever asks in whatever order; I8: each new life
// under a transactional id is of the next epoch, and the former one is fenced.
func TestI1_I8_ProducerIDsAreGivenOnce(t *testing.T) {
	m := newMachine(t)
	r := rand.New(rand.NewPCG(5, 5))
	given := map[int64]string{} // by whom
	epochs := map[string]ProducerIDs{}
	take := func(by string, ids *ProducerIDs) {
		t.Helper()
		for pid := ids.First; pid < ids.First+int64(ids.Count); pid++ {
			if was, ok := given[pid]; ok || pid < firstProducerID || pid >= m.state.NextProducerID {
				t.Fatalf("%s got producer id %d, which %s has; the next is %d", by, pid, was, m.state.NextProducerID)
			}
			given[pid] = by
		}
	}
	for range 500 {
		if r.IntN(3) == 0 {
			take("block", m.must(&ReserveProducers{Count: int32(1 + r.IntN(1000))}).(*ProducerIDs))
			continue
		}
		name := fmt.Sprint("tx-", r.IntN(20))
		ids := m.must(&InitProducer{TransactionalID: name}).(*ProducerIDs)
		was, again := epochs[name]
		switch {
		case !again:
			take(name, ids)
		case ids.First != was.First || ids.Epoch != was.Epoch+1:
			t.Fatalf("%s was %+v and is %+v", name, was, *ids)
		}
		epochs[name] = *ids
		if newest, ok := m.state.ProducerEpoch(ids.First); !ok || newest != ids.Epoch {
			t.Fatalf("%s: epoch %d, %v, want %d", name, newest, ok, ids.Epoch)
		}
	}
	if len(epochs) < 20 || len(given) < 1000 {
		t.Errorf("%d transactional ids, %d ids: this is no evidence", len(epochs), len(given))
	}
}

func TestProducersThatWereNeverGivenOut(t *testing.T) {
	m := newMachine(t)
	if m.state.ProducerGiven(1, 0) || m.state.ProducerGiven(0, 0) {
		t.Error("nobody has asked for one yet")
	}
	m.must(&ReserveProducers{Count: 10})                                    // 1 to 10
	pid := m.must(&InitProducer{TransactionalID: "a"}).(*ProducerIDs).First // 11
	m.must(&InitProducer{TransactionalID: "a"})
	for _, c := range []struct {
		pid   int64
		epoch int16
		want  bool
	}{
		{1, 0, true}, {10, 0, true}, {pid, 0, true}, {pid, 1, true},
		{0, 0, false}, {-1, 0, false}, {12, 0, false}, {1, 1, false}, {pid, 2, false}, {pid, -1, false},
	} {
		if got := m.state.ProducerGiven(c.pid, c.epoch); got != c.want {
			t.Errorf("producer %d, epoch %d: given %v", c.pid, c.epoch, got)
		}
	}
}

// I8: when all epochs are used, another producer id takes the place; the last of the
// old one's epochs was given to nobody, so that it fences all that were.
func TestI8_EpochsAreUsedUp(t *testing.T) {
	m := newMachine(t)
	const old = firstProducerID
	e := newEdit(m.state, 1)
	e.takeProducerIDs(1)
	e.producers().put(&Producer{ID: old, Epoch: lastProducerEpoch - 4, TransactionalID: "a"})
	m.state = e.finish()
	for range 3 {
		m.state, _ = m.state.Apply(&InitProducer{TransactionalID: "a"}, m.state.Index+1)
	}
	if epoch, _ := m.state.ProducerEpoch(old); epoch != lastProducerEpoch-1 {
		t.Fatalf("epoch %d", epoch)
	}
	next, res := m.state.Apply(&InitProducer{TransactionalID: "a"}, m.state.Index+1)
	last := res.(*ProducerIDs)
	if last.First == old || last.Epoch != 0 {
		t.Errorf("then %+v", last)
	}
	if epoch, ok := next.ProducerEpoch(old); !ok || epoch != lastProducerEpoch {
		t.Errorf("the old one's epoch is %d: its last owner isn't fenced", epoch)
	}
	if back := restored(t, next); back.Hash() != next.Hash() {
		t.Error("a snapshot restores to another state")
	}
}

func TestInvalidProducerCommandsChangeNothing(t *testing.T) {
	m := newMachine(t)
	for _, c := range []Command{&InitProducer{}, &InitProducer{TransactionalID: strings.Repeat("x", MaxTransactionalIDBytes+1)},
		&ReserveProducers{}, &ReserveProducers{Count: -1}, &ReserveProducers{Count: maxReservation + 1}} {
		before := *m.state
		if err, ok := m.apply(c).(*RefusedError); !ok {
			t.Errorf("%+v: %v", c, err)
		}
		before.Index = m.state.Index
		if before.Hash() != m.state.Hash() {
			t.Errorf("%+v: the state changed", c)
		}
	}
}

func TestTransactionalIDsAreBounded(t *testing.T) {
	s := newState()
	e := newEdit(s, 1)
	for i := range maxTransactionalIDs {
		pid, _ := e.takeProducerIDs(1)
		e.producers().put(&Producer{ID: pid, TransactionalID: fmt.Sprint(i)})
	}
	s = e.finish()
	full, res := s.Apply(&InitProducer{TransactionalID: "more"}, 2)
	if limit := (*TooManyProducersError)(nil); !errors.As(res.(error), &limit) || full.NextProducerID != s.NextProducerID {
		t.Errorf("above the bound: %v", res)
	}
	if _, res := s.Apply(&InitProducer{TransactionalID: "7"}, 2); res.(*ProducerIDs).Epoch != 1 {
		t.Errorf("one that is there: %v", res)
	}
}

// restored is s after a way through a snapshot.
func restored(t *testing.T, s *State) *State {
	t.Helper()
	var whole bytes.Buffer
	if err := writeSnapshot(&whole, s); err != nil {
		t.Fatal(err)
	}
	f := newFSM(zerolog.Nop())
	if err := f.Restore(io.NopCloser(&whole)); err != nil {
		t.Fatal(err)
	}
	return f.state.Load()
}

// olderSnapshot was written by a version that knew no producers.
const olderSnapshot = `{"v":1,"index":4,"cluster_id":"c","protocol":1,"voters":[1],"brokers":1,"topics":1}
{"id":1,"incarnation":"00000000-0000-0000-0000-000000000007","epoch":2,"url":"u","version":"0.1.0","raft_id":"r","directory":"00000000-0000-0000-0000-000000000007","min_protocol":1,"max_protocol":1}
{"name":"a","id":"00000000-0000-0000-0000-000000000001","factor":1,"min_in_sync":1,"configs":{"retention.ms":"7"},"partitions":[{"replicas":[1],"leader":1,"leader_epoch":0,"partition_epoch":0,"isr":[1],"last_leader":1}]}
{"hash":"7eb220e6449402042ab86952d8b951b38e70d979e1e5893a4cbf694052c520b9"}
`

// Such a snapshot is read, with the hash that it has; and a state without producers is
// written as it was then.
func TestSnapshotsFromBeforeProducersAreRead(t *testing.T) {
	f := newFSM(zerolog.Nop())
	if err := f.Restore(io.NopCloser(strings.NewReader(olderSnapshot))); err != nil {
		t.Fatal(err)
	}
	s := f.state.Load()
	if topic, ok := s.Topic("a"); !ok || len(topic.Partitions) != 1 || s.NextProducerID != 0 || s.producers.count() != 0 {
		t.Errorf("read as %+v", s)
	}
	var again bytes.Buffer
	if err := writeSnapshot(&again, s); err != nil {
		t.Fatal(err)
	}
	if again.String() != olderSnapshot {
		t.Errorf("written again as\n%s", again.String())
	}
	first, res := s.Apply(&ReserveProducers{Count: 5}, s.Index+1)
	if ids := res.(*ProducerIDs); ids.First != firstProducerID || first.NextProducerID != firstProducerID+5 {
		t.Errorf("the first producers: %+v", ids)
	}
}

func TestProducersSurviveSnapshots(t *testing.T) {
	m := newMachine(t)
	m.must(&ReserveProducers{Count: 1000})
	for _, name := range []string{"b", "a", "b", "ab", "a\x00", "é"} {
		m.must(&InitProducer{TransactionalID: name})
	}
	back := restored(t, m.state)
	if back.Hash() != m.state.Hash() || back.NextProducerID != m.state.NextProducerID {
		t.Fatal("the snapshot restores to another state")
	}
	for p := range m.state.producers.all() {
		if got, ok := back.producers.byName.Get([]byte(p.TransactionalID)); !ok || !reflect.DeepEqual(got, p) {
			t.Errorf("%+v came back as %+v", p, got)
		}
	}
}
