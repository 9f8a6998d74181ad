package controller

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"highwater/replication/wire"
)

// step does something to the partition of a script and tells what is seen then.
//
// do is one of
//
//	fence|unfence|drain|undrain N
//	register N [clean] [durable] [held] [moved]   a new life; moved: another directory
//	remove N [force]
//	isr N…        the leader proposes this ISR, with the epochs that there are
//	recovered     the leader says that it has done its recovery
//	drop N        N finds its copy damaged
//	elect N, elect! N   by hand, cleanly and not
//	min N, unclean      configs
//	reassign N…, cancel
//
// want is what show makes of the partition, and "!code" behind it if refused.
type step struct{ do, want string }

// script runs steps against partition 0 of a topic "a" with these replicas, whose
// brokers and two more are up, and checks every state on the way.
func script(t *testing.T, min int, replicas []int32, steps ...step) *machine {
	t.Helper()
	m := newMachine(t)
	for id := int32(1); id <= int32(len(replicas)+2); id++ {
		m.register(id, Registration{Directory: dirOf(id)})
		m.set(id, false, false)
	}
	m.must(&CreateTopic{Name: "a", ID: uuid.New(), Replicas: [][]int32{replicas}, MinInSync: min})
	for i, s := range steps {
		before := m.partition("a", 0)
		result := m.do(s.do)
		after := m.partition("a", 0)
		got := show(after)
		if result != "" {
			got += " !" + result
		}
		if got != s.want {
			t.Fatalf("step %d, %s:\n got %s\nwant %s\nfrom %s", i, s.do, got, s.want, show(before))
		}
		if result != "" && !after.equal(&before) && result != string(wire.CodeFencedLeaderEpoch) {
			t.Fatalf("step %d, %s: refused, and it changed %+v to %+v", i, s.do, before, after)
		}
		m.check(&before, &after)
	}
	return m
}

// dirOf is the id of a broker's first data directory.
func dirOf(id int32) uuid.UUID { return uuid.UUID{15: byte(id)} }

// show tells what a partition looks like: "leader isr elr", and what else there is.
func show(p Partition) string {
	list := func(ids []int32) string { return strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ","), "[]") }
	out := fmt.Sprintf("%d isr=%s", p.Leader, list(p.ISR))
	for _, part := range []struct {
		name string
		ids  []int32
	}{{"elr", p.ELR}, {"known", p.LastKnownELR}, {"adding", p.Adding}, {"removing", p.Removing}} {
		if len(part.ids) > 0 {
			out += " " + part.name + "=" + list(part.ids)
		}
	}
	if p.Recovering {
		out += " recovering"
	}
	return out
}

// do applies what a step says and returns the code with which it was refused.
func (m *machine) do(line string) string {
	m.t.Helper()
	words := strings.Fields(line)
	var ids []int32
	for _, w := range words[1:] {
		if n, err := strconv.Atoi(w); err == nil {
			ids = append(ids, int32(n))
		}
	}
	id := int32(0)
	if len(ids) > 0 {
		id = ids[0]
	}
	has := func(word string) bool { return slices.Contains(words, word) }
	topic, _ := m.state.Topic("a")
	b := m.state.Brokers[id]
	switch words[0] {
	case "fence", "unfence":
		return m.result(&SetBroker{ID: id, Epoch: b.Epoch, Fenced: words[0] == "fence", Draining: b.Draining})
	case "drain", "undrain":
		return m.result(&SetBroker{ID: id, Epoch: b.Epoch, Fenced: b.Fenced, Draining: words[0] == "drain"})
	case "register":
		c := &RegisterBroker{ID: id, Incarnation: uuid.New(), Data: Registration{Directory: dirOf(id), Durable: has("durable")}}
		if b != nil {
			c.Replaces = b.Epoch
			if has("clean") {
				c.Data.PreviousEpoch = b.Epoch
			}
		}
		if has("held") {
			c.Data.Held = map[uuid.UUID][]int32{topic.ID: {0}}
		}
		if has("moved") {
			c.Data.Directory = uuid.New()
		}
		return m.result(c)
	case "remove":
		return m.result(&RemoveBroker{ID: id, Epoch: b.Epoch, Force: has("force")})
	case "isr":
		return m.alter(m.proposal(ids...))
	case "recovered":
		change := m.proposal(topic.Partitions[0].ISR...)
		change.Recovered = true
		return m.alter(change)
	case "drop":
		return m.result(&DropReplicas{Broker: id, Epoch: b.Epoch, Partitions: []wire.TopicPartition{{Topic: topic.ID}}})
	case "elect", "elect!":
		return m.result(&ElectLeader{Topic: topic.ID, Broker: id, Unclean: words[0] == "elect!"})
	case "min":
		return m.result(&AlterTopic{ID: topic.ID, Set: map[string]string{ConfigMinInSyncReplicas: words[1]}})
	case "unclean":
		return m.result(&AlterTopic{ID: topic.ID, Set: map[string]string{ConfigUncleanElection: "true"}})
	case "reassign", "cancel":
		return m.result(&Reassign{Items: []Reassignment{{Topic: topic.ID, Replicas: ids}}})
	}
	m.t.Fatalf("no such step: %s", line)
	return ""
}

// result applies a command and returns the code of its refusal.
func (m *machine) result(c Command) string {
	m.t.Helper()
	var (
		refused   *RefusedError
		stale     *StaleBrokerEpochError
		duplicate *DuplicateBrokerError
	)
	switch res := m.apply(c).(type) {
	case []wire.AlterResult:
		return string(res[0].Code)
	case error:
		switch {
		case errors.As(res, &refused):
			return string(refused.Code)
		case errors.As(res, &stale):
			return string(wire.CodeStaleBrokerEpoch)
		case errors.As(res, &duplicate):
			return string(wire.CodeDuplicateBroker)
		}
		m.t.Fatalf("%s: %v", c.commandType(), res)
	}
	return ""
}

// proposal is what the leader of a-0 would send now to get this ISR.
func (m *machine) proposal(isr ...int32) wire.AlterPartition {
	topic, _ := m.state.Topic("a")
	p := &topic.Partitions[0]
	change := wire.AlterPartition{Topic: topic.ID, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch}
	for _, id := range isr {
		member := wire.Member{Broker: id}
		if b := m.state.Brokers[id]; b != nil {
			member.Epoch = b.Epoch
		}
		change.ISR = append(change.ISR, member)
	}
	return change
}

// alter has the leader of a-0 propose a change.
func (m *machine) alter(change wire.AlterPartition) string {
	m.t.Helper()
	leader := m.partition("a", 0).Leader
	b := m.state.Brokers[leader]
	if b == nil {
		m.t.Fatal("nobody leads, so nobody proposes")
	}
	return m.result(&AlterPartitions{Broker: leader, Epoch: b.Epoch, Changes: []wire.AlterPartition{change}})
}

// check holds the invariants against the state and the last change of a-0.
func (m *machine) check(before, after *Partition) {
	m.t.Helper()
	if err := errors.Join(checkInvariants(m.state), checkChange(before, after)); err != nil {
		m.t.Fatalf("%v: from %+v to %+v", err, *before, *after)
	}
}

// checkChange holds R2 and R47 against one partition's change by one command.
func checkChange(before, after *Partition) error {
	if before.equal(after) {
		return nil
	}
	if after.PartitionEpoch != before.PartitionEpoch+1 {
		return errors.New("R2: changed, and the partition epoch is not the next one")
	}
	removed := len(minus(before.Replicas, after.Replicas)) > 0
	if want := before.Leader != after.Leader || removed; want != (after.LeaderEpoch == before.LeaderEpoch+1) || !want && after.LeaderEpoch != before.LeaderEpoch {
		return errors.New("R2: the leader epoch grows by 1 with each other leader and each removed replica, and only then")
	}
	return nil
}
