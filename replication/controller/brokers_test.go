package controller

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"highwater/replication/replica"
	"highwater/replication/wire"
)

// R71-R73: what a broker's new life may still count as complete for. It starts
// from an ISR of 1 and 2 with min 2, so whoever leaves is needed.
func TestR71_R72_R73_WhatARegistrationProves(t *testing.T) {
	for _, c := range []struct{ how, want string }{
		{"clean held", "2 isr=2 elr=1"},                 // R71
		{"durable held", "2 isr=2 elr=1"},               // R72
		{"clean durable held", "2 isr=2 elr=1"},         //
		{"held", "2 isr=2 known=1"},                     // neither proof
		{"clean durable", "2 isr=2 known=1"},            // R73: it is not on disk
		{"durable held moved", "2 isr=2 known=1"},       // R73: another disk
		{"clean held moved", "2 isr=2 known=1"},         //
		{"clean durable held moved", "2 isr=2 known=1"}, //
		{"", "2 isr=2 known=1"},
	} {
		t.Run(c.how, func(t *testing.T) {
			script(t, 2, []int32{1, 2, 3},
				step{"fence 3", "1 isr=1,2"},
				step{"register 1 " + c.how, c.want},
				step{"unfence 1", c.want})
			// As a member of the ELR it has to prove the same.
			kept := "-1 isr= elr=2,1"
			lost := "-1 isr= elr=2 known=1"
			if c.want == "2 isr=2 known=1" {
				kept = lost
			}
			script(t, 2, []int32{1, 2, 3},
				step{"fence 3", "1 isr=1,2"},
				step{"fence 2", "1 isr=1 elr=2"},
				step{"fence 1", "-1 isr= elr=2,1"},
				step{"register 1 " + c.how, kept})
		})
	}
	// Where the ISR can do without it, it isn't eligible whatever it proves.
	script(t, 2, []int32{1, 2, 3}, step{"register 1 clean durable held", "2 isr=2,3"}, step{"unfence 1", "2 isr=2,3"})
	// Another life's clean end proves nothing of the last one.
	m := script(t, 2, []int32{1, 2, 3}, step{"fence 3", "1 isr=1,2"})
	topic, _ := m.state.Topic("a")
	old := m.state.Brokers[1]
	m.must(&RegisterBroker{ID: 1, Incarnation: uuid.New(), Replaces: old.Epoch,
		Data: Registration{Directory: dirOf(1), PreviousEpoch: old.Epoch + 1, Held: map[uuid.UUID][]int32{topic.ID: {0}}}})
	if got := show(m.partition("a", 0)); got != "2 isr=2 known=1" {
		t.Errorf("R71: %s", got)
	}
	// Nor does holding other partitions, or ones that can't be.
	m = script(t, 2, []int32{1, 2, 3}, step{"fence 3", "1 isr=1,2"})
	m.must(&RegisterBroker{ID: 1, Incarnation: uuid.New(), Replaces: m.state.Brokers[1].Epoch,
		Data: Registration{Directory: dirOf(1), Durable: true, Held: map[uuid.UUID][]int32{topic.ID: {-1, 1, 1 << 30}, uuid.New(): {0}}}})
	if got := show(m.partition("a", 0)); got != "2 isr=2 known=1" {
		t.Errorf("R73: %s", got)
	}
}

// F19: the last one in sync loses its tail; the one that left before it holds all
// that was committed.
func TestF19_LastReplicaStanding(t *testing.T) {
	script(t, 2, []int32{1, 2, 3},
		step{"fence 3", "1 isr=1,2"},
		step{"fence 2", "1 isr=1 elr=2"},
		step{"register 1", "-1 isr= elr=2 known=1"},
		step{"unfence 1", "-1 isr= elr=2 known=1"}, // it must not lead
		step{"unfence 2", "2 isr=2 known=1"},
		step{"isr 2 1", "2 isr=1,2"},
	)
	// With min 1 nobody else is known to be whole.
	script(t, 1, []int32{1, 2},
		step{"fence 2", "1 isr=1"},
		step{"register 1", "-1 isr= known=1"},
		step{"unfence 2", "-1 isr= known=1"},
		step{"unfence 1", "-1 isr= known=1"},
		step{"elect! 1", "1 isr=1 recovering"},
	)
}

// F33: a broker comes back with an empty directory, and the other one in sync dies.
func TestF33_AnEmptyDirectoryIsNeverElected(t *testing.T) {
	script(t, 2, []int32{1, 2, 3},
		step{"fence 3", "1 isr=1,2"},
		step{"register 2 durable moved", "1 isr=1 known=2"},
		step{"unfence 2", "1 isr=1 known=2"},
		step{"fence 1", "-1 isr= elr=1 known=2"},
		step{"unfence 1", "1 isr=1 known=2"},
		step{"isr 1 2", "1 isr=1,2"},
	)
}

// F39: all were killed; with durable proofs there is a clean leader as soon as one
// of those that were needed to the end is back, and never one before.
func TestF39_AllKilledAtOnce(t *testing.T) {
	script(t, 2, []int32{1, 2, 3},
		// The controller is back and grants everybody a session; they register.
		step{"register 1 durable held", "2 isr=2,3"}, // 2 is dead, and nobody knows yet
		step{"register 2 durable held", "3 isr=3 elr=2"},
		step{"unfence 1", "3 isr=3 elr=2"},
		step{"register 3 durable held", "-1 isr= elr=2,3"},
		step{"unfence 3", "3 isr=3 elr=2"},
		step{"isr 3 1", "3 isr=1,3"},
		step{"unfence 2", "3 isr=1,3"},
		step{"isr 3 1 2", "3 isr=1,2,3"},
	)
	// Fenced one after the other because it took long; the first one back loses nothing.
	script(t, 2, []int32{1, 2, 3},
		step{"fence 2", "1 isr=1,3"},
		step{"fence 1", "3 isr=3 elr=1"},
		step{"fence 3", "-1 isr= elr=1,3"},
		step{"register 2 durable held", "-1 isr= elr=1,3"},
		step{"unfence 2", "-1 isr= elr=1,3"},
		step{"register 1 durable held", "-1 isr= elr=1,3"},
		step{"unfence 1", "1 isr=1 elr=3"},
		step{"isr 1 2", "1 isr=1,2"},
		step{"register 3 durable held", "1 isr=1,2"},
	)
	// The same without proofs is a case for a person (R78).
	script(t, 2, []int32{1, 2, 3},
		step{"register 1", "2 isr=2,3"},
		step{"register 2", "3 isr=3 known=2"},
		step{"register 3", "-1 isr= known=2,3"},
		step{"unfence 1", "-1 isr= known=2,3"},
		step{"unfence 2", "-1 isr= known=2,3"},
		step{"unfence 3", "-1 isr= known=2,3"},
		step{"elect! 3", "3 isr=3 recovering"},
	)
}

// R67, F34, F35: one process per broker id. Whoever takes over must know of the
// life that it takes over from.
func TestR67_F34_OneLifeAtATime(t *testing.T) {
	m := newMachine(t)
	first := m.register(1, Registration{})
	if first.Epoch != int64(len(m.log)) || !first.Fenced {
		t.Fatalf("R3: registered as %+v at %d", first, len(m.log))
	}
	m.set(1, false, false)
	m.broker(2)
	m.topic("a", []int32{1, 2}, []int32{2, 1})
	m.topic("b", []int32{2, 1})

	// A copy starts while nobody knows the first one to be dead: its proposer took
	// the id for new, or knows of a former life.
	before := m.state.Hash()
	for _, replaces := range []int64{0, first.Epoch - 1, first.Epoch + 1} {
		if code := m.result(&RegisterBroker{ID: 1, Incarnation: uuid.New(), Replaces: replaces}); code != string(wire.CodeDuplicateBroker) {
			t.Errorf("F34: replaces %d: %q", replaces, code)
		}
	}
	if m.state.Index -= 3; m.state.Hash() != before {
		t.Error("a refused registration changed something")
	}
	m.state.Index += 3
	// The same incarnation once more, such as a proposal repeated after a time-out.
	same := m.must(&RegisterBroker{ID: 1, Incarnation: first.Incarnation, URL: "elsewhere"}).(*Broker)
	if same.Epoch != first.Epoch || same.URL == "elsewhere" || same.Fenced || m.partition("a", 0).LeaderEpoch != 0 {
		t.Errorf("the same incarnation changed something: %+v", same)
	}
	again := m.register(1, Registration{Durable: true})
	if again.Epoch <= first.Epoch || again.Epoch != int64(m.state.Index) {
		t.Errorf("V18: the new life has epoch %d, the old one %d", again.Epoch, first.Epoch)
	}
	if p := m.partition("a", 0); p.Leader != 2 || p.LeaderEpoch != 1 || p.PartitionEpoch != 1 {
		t.Errorf("R2: led partition is %+v", p)
	}
	if p := m.partition("a", 1); p.Leader != 2 || p.LeaderEpoch != 0 || p.PartitionEpoch != 1 {
		t.Errorf("followed partition is %+v", p)
	}
	// F35: whatever the former life still sends is void.
	for _, c := range []Command{
		&SetBroker{ID: 1, Epoch: first.Epoch},
		&AlterPartitions{Broker: 1, Epoch: first.Epoch},
		&DropReplicas{Broker: 1, Epoch: first.Epoch},
		&RemoveBroker{ID: 1, Epoch: first.Epoch},
		&AlterPartitions{Broker: 9, Epoch: 1},
	} {
		if code := m.result(c); code != string(wire.CodeStaleBrokerEpoch) {
			t.Errorf("F35: %s: %q", c.commandType(), code)
		}
	}
	if epoch, ok := m.state.Eligible(1); epoch != again.Epoch || ok {
		t.Errorf("fenced, and eligible in epoch %d", epoch)
	}
	m.set(1, false, false)
	if epoch, ok := m.state.Eligible(1); epoch != again.Epoch || !ok {
		t.Errorf("unfenced, and not eligible in epoch %d", epoch)
	}
	m.set(1, false, true)
	if _, ok := m.state.Eligible(1); ok {
		t.Error("R75: draining, and eligible")
	}
	if _, ok := m.state.Eligible(9); ok {
		t.Error("nobody is eligible")
	}
}

// F36: a data directory that moved to another broker.
func TestF36_ADirectoryIsOneBrokers(t *testing.T) {
	m := newMachine(t)
	m.register(1, Registration{Directory: dirOf(1)})
	m.register(2, Registration{Directory: dirOf(2)})
	for _, c := range []*RegisterBroker{
		{ID: 3, Incarnation: uuid.New(), Data: Registration{Directory: dirOf(1)}},
		{ID: 2, Incarnation: uuid.New(), Replaces: m.state.Brokers[2].Epoch, Data: Registration{Directory: dirOf(1)}},
		{ID: -1, Incarnation: uuid.New()},
	} {
		if code := m.result(c); code != string(wire.CodeInvalidRequest) {
			t.Errorf("broker %d: %q", c.ID, code)
		}
	}
	if b := m.state.Brokers[2]; b.Directory != dirOf(2) || len(m.state.Brokers) != 2 {
		t.Errorf("%+v", b)
	}
}

// R100, F67: the cluster speaks what all know, and goes up only when all can.
func TestR100_F67_Versions(t *testing.T) {
	m := newMachine(t)
	m.must(&InitCluster{ClusterID: "c"})
	register := func(id int32, low, high int) string {
		c := &RegisterBroker{ID: id, Incarnation: uuid.New(), MinProtocol: low, MaxProtocol: high}
		if b := m.state.Brokers[id]; b != nil {
			c.Replaces = b.Epoch
		}
		return m.result(c)
	}
	for _, c := range []struct {
		id        int32
		low, high int
		finalize  int
		want      string
	}{
		{1, 1, 1, 0, ""},
		{2, 0, 0, 0, ""}, // tells nothing: the first version
		{3, 2, 3, 0, "UNSUPPORTED_VERSION"},
		{3, 1, 2, 0, ""},
		{0, 0, 0, 2, "UNSUPPORTED_VERSION"},
		{0, 0, 0, 1, ""},
		{1, 1, 2, 0, ""}, // the upgrade rolls on
		{1, 1, 1, 0, ""}, // back: nothing was finalised
		{1, 1, 2, 0, ""},
		{2, 1, 3, 0, ""},
		{0, 0, 0, 3, "UNSUPPORTED_VERSION"},
		{0, 0, 0, 2, ""},
		{1, 1, 1, 0, "UNSUPPORTED_VERSION"}, // no way back
		{0, 0, 0, 1, "UNSUPPORTED_VERSION"},
		{4, 2, 2, 0, ""},
	} {
		var got string
		if c.finalize > 0 {
			got = m.result(&FinalizeProtocol{Version: c.finalize})
		} else {
			got = register(c.id, c.low, c.high)
		}
		if got != c.want {
			t.Fatalf("%+v: %q", c, got)
		}
	}
	if m.state.Protocol != 2 {
		t.Errorf("the cluster speaks %d", m.state.Protocol)
	}
}

// A broker that is gone for good is removed, and its replicas wait for new homes.
func TestRemovingABroker(t *testing.T) {
	m := script(t, 2, []int32{1, 2, 3},
		step{"remove 3", "1 isr=1,2,3 !INVALID_REQUEST"}, // alive
		step{"fence 3", "1 isr=1,2"},
		step{"remove 3", "1 isr=1,2"},
		step{"fence 1", "2 isr=2 elr=1"},
		step{"fence 2", "-1 isr= elr=1,2"},
		step{"remove 1", "-1 isr= elr=2 known=1"}, // 2 is as good
		step{"remove 2", "-1 isr= elr=2 known=1 !INELIGIBLE_REPLICA"},
		step{"remove 2 force", "-1 isr= known=1,2"},
		step{"register 2 durable clean held", "-1 isr= known=1,2"}, // nobody knows its disk any more
		step{"unfence 2", "-1 isr= known=1,2"},
		step{"elect! 2", "2 isr=2 recovering"},
		step{"recovered", "2 isr=2"},
		step{"reassign 2 4 5", "2 isr=2 adding=4,5 removing=1,3"},
		step{"isr 2 4", "2 isr=2,4 adding=4,5 removing=1,3"},
		step{"isr 2 4 5", "2 isr=2,4,5"},
	)
	if len(m.state.Brokers) != 3 {
		t.Errorf("brokers %v", m.state.BrokerIDs())
	}
	m.must(&InitCluster{ClusterID: "c", Voters: []int32{4}})
	m.set(4, true, false)
	if code := m.do("remove 4 force"); code != string(wire.CodeInvalidRequest) {
		t.Errorf("removing a voter: %q", code)
	}
	var stale *StaleBrokerEpochError
	if err, _ := m.apply(&RemoveBroker{ID: 9}).(error); !errors.As(err, &stale) {
		t.Errorf("removing a stranger: %v", err)
	}
	script(t, 1, []int32{1},
		step{"fence 1", "-1 isr=1"},
		step{"remove 1", "-1 isr=1 !INELIGIBLE_REPLICA"},
		step{"remove 1 force", "-1 isr=1"},
		step{"elect! 2", "-1 isr=1 !INELIGIBLE_REPLICA"},
		step{"register 1", "-1 isr=1"},
		step{"unfence 1", "1 isr=1"},
	)
}

// NoR73 makes the very mistake that F33 is about: a model can see it.
func TestNoR73IsTheMistakeOfF33(t *testing.T) {
	m := newMachine(t)
	m.state = NewState(replica.NoR73)
	for id := int32(1); id <= 2; id++ {
		m.register(id, Registration{Directory: dirOf(id)})
		m.set(id, false, false)
	}
	m.must(&CreateTopic{Name: "a", ID: uuid.New(), Replicas: [][]int32{{1, 2}}, MinInSync: 2})
	m.register(2, Registration{Durable: true, Directory: uuid.New()})
	m.set(1, true, false)
	m.set(2, false, false)
	if got := show(m.partition("a", 0)); got != "2 isr=2 elr=1" {
		t.Errorf("%s", got)
	}
}
