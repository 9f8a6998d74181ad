package controller

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"highwater/replication/replica"
	"highwater/replication/wire"
)

// R44, H49: every reason to refuse an ISR, each with its code, and nothing changes.
func TestR44_H49_EveryRefusalOfAnISR(t *testing.T) {
	m := script(t, 2, []int32{1, 2, 3}, step{"fence 3", "1 isr=1,2"}, step{"fence 1", "2 isr=2 elr=1"}, step{"unfence 1", "2 isr=2 elr=1"})
	topic, _ := m.state.Topic("a")
	base := func(ids ...int32) wire.AlterPartition { return m.proposal(ids...) }
	edited := func(edit func(*wire.AlterPartition), ids ...int32) wire.AlterPartition {
		c := base(ids...)
		edit(&c)
		return c
	}
	for name, c := range map[string]struct {
		from   int32 // 0: the leader
		change wire.AlterPartition
		want   wire.Code
	}{
		"unknown topic":           {0, edited(func(c *wire.AlterPartition) { c.Topic = uuid.New() }, 1, 2), wire.CodeUnknownTopicID},
		"no such partition":       {0, edited(func(c *wire.AlterPartition) { c.Partition = 1 }, 1, 2), wire.CodeUnknownTopicID},
		"negative partition":      {0, edited(func(c *wire.AlterPartition) { c.Partition = -1 }, 1, 2), wire.CodeUnknownTopicID},
		"leader epoch ahead":      {0, edited(func(c *wire.AlterPartition) { c.LeaderEpoch++ }, 1, 2), wire.CodeNotController},
		"partition epoch ahead":   {0, edited(func(c *wire.AlterPartition) { c.PartitionEpoch++ }, 1, 2), wire.CodeNotController},
		"old leader epoch":        {0, edited(func(c *wire.AlterPartition) { c.LeaderEpoch-- }, 1, 2), wire.CodeFencedLeaderEpoch},
		"old leader, and epoch":   {1, edited(func(c *wire.AlterPartition) { c.LeaderEpoch-- }, 1, 2), wire.CodeFencedLeaderEpoch},
		"not the leader":          {1, base(1, 2), wire.CodeInvalidRequest},
		"old partition epoch":     {0, edited(func(c *wire.AlterPartition) { c.PartitionEpoch-- }, 1, 2), wire.CodeInvalidUpdateVersion},
		"empty":                   {0, base(), wire.CodeInvalidRequest},
		"without the leader":      {0, base(1), wire.CodeInvalidRequest},
		"no replica":              {0, base(2, 4), wire.CodeInvalidRequest},
		"no broker":               {0, base(2, 9), wire.CodeInvalidRequest},
		"twice":                   {0, base(2, 1, 1), wire.CodeInvalidRequest},
		"the leader twice":        {0, base(2, 2), wire.CodeInvalidRequest},
		"F14: a fenced broker":    {0, base(2, 3), wire.CodeIneligibleReplica},
		"F15: a former life":      {0, edited(func(c *wire.AlterPartition) { c.ISR[1].Epoch-- }, 2, 1), wire.CodeIneligibleReplica},
		"a life to come":          {0, edited(func(c *wire.AlterPartition) { c.ISR[1].Epoch++ }, 2, 1), wire.CodeIneligibleReplica},
		"no life":                 {0, edited(func(c *wire.AlterPartition) { c.ISR[1].Epoch = 0 }, 2, 1), wire.CodeIneligibleReplica},
		"the leader's other life": {0, edited(func(c *wire.AlterPartition) { c.ISR[0].Epoch-- }, 2, 1), wire.CodeIneligibleReplica},
	} {
		before := m.state
		from := c.from
		if from == 0 {
			from = 2
		}
		res := m.must(&AlterPartitions{Broker: from, Epoch: m.state.Brokers[from].Epoch, Changes: []wire.AlterPartition{c.change}}).([]wire.AlterResult)
		if len(res) != 1 || res[0].Code != c.want {
			t.Errorf("%s: %+v, want %s", name, res, c.want)
		}
		if p := topic.Partitions[0]; c.want != wire.CodeUnknownTopicID && (res[0].LeaderEpoch != p.LeaderEpoch || res[0].PartitionEpoch != p.PartitionEpoch || !slices.Equal(res[0].ISR, p.ISR)) {
			t.Errorf("%s: told %+v of %+v", name, res[0], p)
		}
		if now, _ := m.state.Topic("a"); now != topic {
			t.Fatalf("%s: the topic changed from %+v to %+v", name, before, now)
		}
	}
	if code := m.alter(base(2, 1)); code != "" {
		t.Errorf("the one that is right: %s", code)
	}
}

// R45, V31: a partition epoch is used up by the one proposal that carries it, also
// by one of the ISR that there is already.
func TestR45_V31_OneChangePerPartitionEpoch(t *testing.T) {
	m := script(t, 2, []int32{1, 2, 3}, step{"isr 1 2", "1 isr=1,2"})
	same, first, second := m.proposal(2, 1), m.proposal(1, 2, 3), m.proposal(1)
	p := m.partition("a", 0)
	leader := m.state.Brokers[1]
	topic, _ := m.state.Topic("a")
	ask := func(changes ...wire.AlterPartition) []wire.AlterResult {
		return m.must(&AlterPartitions{Broker: 1, Epoch: leader.Epoch, Changes: changes}).([]wire.AlterResult)
	}
	res := ask(same, first, second)
	want := []wire.AlterResult{
		{Code: wire.OK, PartitionEpoch: p.PartitionEpoch + 1, ISR: []int32{1, 2}},
		{Code: wire.CodeInvalidUpdateVersion, PartitionEpoch: p.PartitionEpoch + 1, ISR: []int32{1, 2}},
		{Code: wire.CodeInvalidUpdateVersion, PartitionEpoch: p.PartitionEpoch + 1, ISR: []int32{1, 2}},
	}
	if fmt.Sprint(res) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", res, want)
	}
	first.PartitionEpoch++
	res = ask(first, first)
	want = []wire.AlterResult{
		{Code: wire.OK, PartitionEpoch: p.PartitionEpoch + 2, ISR: []int32{1, 2, 3}},
		{Code: wire.CodeInvalidUpdateVersion, PartitionEpoch: p.PartitionEpoch + 2, ISR: []int32{1, 2, 3}},
	}
	if fmt.Sprint(res) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", res, want)
	}
	if now, _ := m.state.Topic("a"); now == topic || topic.Partitions[0].PartitionEpoch != p.PartitionEpoch {
		t.Error("the former topic was written to")
	}
	// F13: the answer was lost, and the leader asks again from the state it knew.
	if code := m.alter(first); code != string(wire.CodeInvalidUpdateVersion) {
		t.Errorf("F13: %q", code)
	}
	// A proposal on its way while the controller shrinks comes too late (F12, F13).
	late := m.proposal(1, 2, 3)
	m.set(3, true, false)
	if code := m.alter(late); code != string(wire.CodeInvalidUpdateVersion) {
		t.Errorf("%q", code)
	}
	// And one of a leader that was re-elected in between is of another epoch.
	late = m.proposal(1, 2)
	m.set(1, true, false)
	m.set(2, true, false)
	m.set(1, false, false)
	if code := m.alter(late); code != string(wire.CodeFencedLeaderEpoch) {
		t.Errorf("%q", code)
	}
}

// F15: a follower that caught up restarts with a loss while its admission is on
// the way.
func TestF15_AnAdmissionOfAFormerLife(t *testing.T) {
	for _, mutation := range []replica.Mutation{0, replica.NoR44} {
		m := script(t, 2, []int32{1, 2, 3}, step{"fence 3", "1 isr=1,2"}, step{"unfence 3", "1 isr=1,2"})
		m.state.mutation = mutation
		late := m.proposal(1, 2, 3)
		m.do("register 3")
		m.do("unfence 3")
		code, after := m.alter(late), show(m.partition("a", 0))
		if mutation == 0 && (code != "INELIGIBLE_REPLICA" || after != "1 isr=1,2") {
			t.Errorf("%q, %s", code, after)
		}
		if mutation != 0 && (code != "" || after != "1 isr=1,2,3") {
			t.Errorf("NoR44 doesn't leave R44 out: %q, %s", code, after)
		}
	}
}

// A batch is judged item by item, over many topics, in one entry.
func TestR43_ABatchOfChanges(t *testing.T) {
	m := newMachine(t)
	for id := int32(1); id <= 3; id++ {
		m.broker(id)
	}
	const topics, each = 20, 10
	var changes []wire.AlterPartition
	var want []wire.Code
	for i := range topics {
		replicas := slices.Repeat([][]int32{{1, 2, 3}, {2, 1, 3}}, each/2)
		topic := m.topic(fmt.Sprintf("t%02d", i), replicas...)
		for j := range topic.Partitions {
			changes = append(changes, wire.AlterPartition{Topic: topic.ID, Partition: int32(j), ISR: []wire.Member{{Broker: 1, Epoch: m.state.Brokers[1].Epoch}}})
			code := wire.OK
			if j%2 == 1 {
				code = wire.CodeInvalidRequest // 2 leads it
			}
			want = append(want, code)
		}
	}
	index := m.state.Index
	res := m.must(&AlterPartitions{Broker: 1, Epoch: m.state.Brokers[1].Epoch, Changes: changes}).([]wire.AlterResult)
	if m.state.Index != index+1 || len(res) != len(changes) {
		t.Fatalf("%d entries, %d results", m.state.Index-index, len(res))
	}
	for i, r := range res {
		p := m.partition(fmt.Sprintf("t%02d", i/each), i%each)
		if r.Code != want[i] || r.PartitionEpoch != p.PartitionEpoch || !slices.Equal(r.ISR, p.ISR) {
			t.Fatalf("item %d: %+v, and the partition is %+v", i, r, p)
		}
		if size := 3 - 2*(1-i%2); len(p.ISR) != size {
			t.Fatalf("item %d: ISR %v", i, p.ISR)
		}
	}
	if err := checkInvariants(m.state); err != nil {
		t.Error(err)
	}
	if res := m.must(&AlterPartitions{Broker: 1, Epoch: m.state.Brokers[1].Epoch}).([]wire.AlterResult); len(res) != 0 {
		t.Errorf("nothing asked, told %v", res)
	}
}

// S7: a broker that finds its copy damaged gives up ISR, ELR and the lead.
func TestS7_DamagedCopiesLeave(t *testing.T) {
	script(t, 2, []int32{1, 2, 3},
		step{"drop 3", "1 isr=1,2"},
		step{"drop 3", "1 isr=1,2"},
		step{"drop 1", "2 isr=2 known=1"},
		step{"drop 2", "2 isr=2 known=1 !INELIGIBLE_REPLICA"}, // all there is
		step{"isr 2 1", "2 isr=1,2"},
		step{"isr 2", "2 isr=2 elr=1"},
		step{"drop 2", "1 isr=1 known=2"}, // the other one holds what was committed
		step{"isr 1 3", "1 isr=1,3"},
		step{"fence 3", "1 isr=1 elr=3"},
		step{"drop 1", "1 isr=1 elr=3 !INELIGIBLE_REPLICA"}, // it can't lead now
		step{"drop 3", "1 isr=1 known=3"},
		step{"unclean", "1 isr=1 known=3"},
		step{"unfence 3", "1 isr=1 known=3"},
		step{"drop 1", "1 isr=1 known=3 !INELIGIBLE_REPLICA"}, // not at that price
		step{"drain 1", "1 isr=1 known=3"},
		step{"drop 1", "1 isr=1 known=3 !INELIGIBLE_REPLICA"},
		step{"drop 4", "1 isr=1 known=3"},
	)
	m := script(t, 2, []int32{1, 2, 3})
	if code := m.result(&DropReplicas{Broker: 1, Epoch: m.state.Brokers[1].Epoch, Partitions: []wire.TopicPartition{{Topic: uuid.New()}}}); code != "UNKNOWN_TOPIC_ID" {
		t.Errorf("%q", code)
	}
}
