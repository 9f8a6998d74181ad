package controller

import (
	"slices"
	"testing"

	"github.com/google/uuid"
)

func TestR69_FencingMovesLeadersAndShrinksTheISR(t *testing.T) {
	script(t, 2, []int32{1, 2, 3},
		step{"fence 3", "1 isr=1,2"},
		step{"fence 3", "1 isr=1,2"},
		step{"unfence 3", "1 isr=1,2"}, // R69: it has to catch up first
		step{"fence 1", "2 isr=2 elr=1"},
		step{"unfence 1", "2 isr=2 elr=1"},
		step{"isr 2 1", "2 isr=1,2"}, // R77: large enough again, no ELR
		step{"isr 3 1 2", "2 isr=1,2,3"},
		step{"fence 2", "1 isr=1,3"},
	)
}

// F17, R76, R77: members that leave an ISR which is too small are eligible, and
// elected when nobody is in sync any more.
func TestF17_R77_LeaversOfASmallISRMayLead(t *testing.T) {
	script(t, 2, []int32{1, 2, 3},
		step{"isr 1", "1 isr=1 elr=2,3"}, // all that leave at once held what was committed
		step{"isr 1 3", "1 isr=1,3"},
		step{"fence 3", "1 isr=1 elr=3"},
		step{"unfence 3", "1 isr=1 elr=3"},
		step{"fence 1", "3 isr=3 elr=1"}, // 2 is up, and may lack records
		step{"fence 3", "-1 isr= elr=1,3"},
		step{"unfence 3", "3 isr=3 elr=1"}, // R80
		step{"fence 3", "-1 isr= elr=1,3"},
		step{"unfence 1", "1 isr=1 elr=3"},
		step{"unfence 3", "1 isr=1 elr=3"},
		step{"isr 1 2", "1 isr=1,2"},
		step{"fence 2", "1 isr=1 elr=2"},
		step{"fence 1", "-1 isr= elr=2,1"},
		step{"fence 3", "-1 isr= elr=2,1"},
		step{"unfence 3", "-1 isr= elr=2,1"},
		step{"unfence 2", "2 isr=2 elr=1"},
	)
	// With min 3 each member that leaves is eligible, and the ELR ends only when
	// the ISR is whole.
	script(t, 3, []int32{1, 2, 3},
		step{"fence 2", "1 isr=1,3 elr=2"},
		step{"fence 1", "3 isr=3 elr=2,1"},
		step{"unfence 2", "3 isr=3 elr=2,1"},
		step{"fence 3", "2 isr=2 elr=1,3"},
		step{"unfence 1", "2 isr=2 elr=1,3"},
		step{"isr 2 1", "2 isr=1,2 elr=3"},
		step{"unfence 3", "2 isr=1,2 elr=3"},
		step{"isr 2 1 3", "2 isr=1,2,3"},
	)
	// With min 1 the last one is never needed until it has left.
	script(t, 1, []int32{1, 2},
		step{"fence 2", "1 isr=1"},
		step{"fence 1", "-1 isr= elr=1"},
		step{"unfence 2", "-1 isr= elr=1"},
		step{"unfence 1", "1 isr=1"},
	)
}

// H47: a member that left is back only when the leader says so, whatever restarts.
func TestH47_OnlyTheLeaderBringsAMemberBack(t *testing.T) {
	script(t, 2, []int32{1, 2, 3},
		step{"fence 3", "1 isr=1,2"},
		step{"register 1 durable held", "2 isr=2 elr=1"},
		step{"unfence 1", "2 isr=2 elr=1"},
		step{"isr 2 1", "2 isr=1,2"},
		step{"register 3 durable held", "2 isr=1,2"},
		step{"unfence 3", "2 isr=1,2"},
		step{"register 1 clean durable held", "2 isr=2 elr=1"},
		step{"register 2 durable held", "-1 isr= elr=1,2"},
		step{"unfence 2", "2 isr=2 elr=1"}, // never 3
		step{"unfence 1", "2 isr=2 elr=1"},
		step{"isr 1 2", "2 isr=1,2"},
		step{"isr 2 1 3", "2 isr=1,2,3"},
	)
}

// R74, R75: who drains hands over what it leads and leaves the ISRs; it leads on
// only where nobody else can, until somebody can.
func TestR74_R75_Draining(t *testing.T) {
	m := script(t, 2, []int32{1, 2, 3},
		step{"drain 1", "2 isr=2,3"},
		step{"drain 2", "3 isr=3 elr=2"},
		step{"isr 3 2", "3 isr=3 elr=2 !INELIGIBLE_REPLICA"},
		step{"drain 3", "3 isr=3 elr=2"}, // nobody else
		step{"undrain 2", "3 isr=3 elr=2"},
		step{"isr 3 2", "2 isr=2 elr=3 !FENCED_LEADER_EPOCH"}, // done, and its proposer leads no more
		step{"fence 3", "2 isr=2 elr=3"},
		step{"undrain 1", "2 isr=2 elr=3"},
		step{"isr 2 1", "2 isr=1,2"},
		step{"undrain 3", "2 isr=1,2"},
		step{"unfence 3", "2 isr=1,2"},
		step{"isr 1 2 3", "2 isr=1,2,3"},
		step{"drain 3", "2 isr=1,2"},
	)
	if b := m.state.Brokers[3]; b.DrainIndex != m.state.Index {
		t.Errorf("R74: the drain is noted at %d, not at %d", b.DrainIndex, m.state.Index)
	}
	at := m.state.Index
	m.set(3, true, true)
	if b := m.state.Brokers[3]; b.DrainIndex != at {
		t.Errorf("R74: fenced while draining, noted at %d, not at %d", b.DrainIndex, at)
	}
	m.set(3, false, false)
	if b := m.state.Brokers[3]; b.DrainIndex != 0 {
		t.Errorf("no drain, noted at %d", b.DrainIndex)
	}
}

// A topic of one replica has no other copy: that one is in sync for ever and leads
// whenever it is up, whatever it lost.
func TestOneReplicaIsTheISRForEver(t *testing.T) {
	script(t, 2, []int32{1},
		step{"drain 1", "1 isr=1"},
		step{"undrain 1", "1 isr=1"},
		step{"fence 1", "-1 isr=1"},
		step{"unfence 1", "1 isr=1"},
		step{"register 1 moved", "-1 isr=1"},
		step{"unfence 1", "1 isr=1"},
		step{"drop 1", "1 isr=1 !INELIGIBLE_REPLICA"},
		step{"isr", "1 isr=1 !INVALID_REQUEST"},
	)
}

// R79: unclean only where the config or a person says so, with the last leader
// before others (R78); the ISR can't grow until the leader has recovered.
func TestR78_R79_UncleanElections(t *testing.T) {
	script(t, 2, []int32{1, 2, 3},
		step{"isr 1", "1 isr=1 elr=2,3"},
		step{"isr 1 2", "1 isr=1,2"},
		step{"fence 2", "1 isr=1 elr=2"},
		step{"fence 1", "-1 isr= elr=2,1"},
		step{"elect 3", "-1 isr= elr=2,1 !INELIGIBLE_REPLICA"},
		step{"elect! 1", "-1 isr= elr=2,1 !INELIGIBLE_REPLICA"}, // not up
		step{"elect! 4", "-1 isr= elr=2,1 !INELIGIBLE_REPLICA"}, // no replica
		step{"elect! 3", "3 isr=3 recovering"},
		step{"unfence 1", "3 isr=3 recovering"},
		step{"isr 3 1", "3 isr=3 recovering !INVALID_REQUEST"},
		step{"elect! 1", "3 isr=3 recovering !INELIGIBLE_REPLICA"}, // there is a leader
		step{"fence 3", "-1 isr= elr=3 recovering"},
		step{"unfence 3", "3 isr=3 recovering"}, // still
		step{"recovered", "3 isr=3"},
		step{"recovered", "3 isr=3"},
		step{"isr 1 3", "3 isr=1,3"},
		step{"elect 1", "1 isr=1,3"}, // R81
		step{"elect 2", "1 isr=1,3 !INELIGIBLE_REPLICA"},
	)
	script(t, 2, []int32{1, 2, 3},
		step{"isr 1 2", "1 isr=1,2"},
		step{"unclean", "1 isr=1,2"},
		step{"fence 2", "1 isr=1 elr=2"},
		step{"fence 1", "3 isr=3 recovering"},
	)
	script(t, 2, []int32{1, 2, 3},
		step{"fence 3", "1 isr=1,2"},
		step{"fence 2", "1 isr=1 elr=2"},
		step{"fence 1", "-1 isr= elr=2,1"},
		step{"register 2", "-1 isr= elr=1 known=2"},
		step{"register 1", "-1 isr= known=2,1"},
		step{"unfence 2", "-1 isr= known=2,1"},
		step{"unfence 1", "-1 isr= known=2,1"}, // nothing by itself
		step{"unfence 3", "-1 isr= known=2,1"},
		step{"unclean", "1 isr=1 recovering"}, // the last leader
	)
	script(t, 2, []int32{1, 2, 3},
		step{"fence 1", "2 isr=2,3"},
		step{"fence 2", "3 isr=3 elr=2"},
		step{"register 2", "3 isr=3 known=2"},
		step{"register 3", "-1 isr= known=2,3"},
		step{"unfence 1", "-1 isr= known=2,3"},
		step{"unfence 2", "-1 isr= known=2,3"},
		step{"unclean", "2 isr=2 recovering"}, // of those known to be nearest, the one that is up
	)
}

// R56: another minimum gives the ELR another meaning.
func TestR56_AnotherMinimumAndTheELR(t *testing.T) {
	script(t, 2, []int32{1, 2, 3},
		step{"isr 1", "1 isr=1 elr=2,3"},
		step{"min 3", "1 isr=1"},
		step{"isr 1 2", "1 isr=1,2"},
		step{"fence 2", "1 isr=1 elr=2"},
		step{"min 2", "1 isr=1 elr=2"},
		step{"min 1", "1 isr=1"},
		step{"fence 1", "-1 isr= elr=1"},
		step{"min 3", "-1 isr= elr=1"}, // all there is
		step{"unfence 1", "1 isr=1"},
	)
	script(t, 3, []int32{1, 2, 3},
		step{"fence 3", "1 isr=1,2 elr=3"},
		step{"min 2", "1 isr=1,2"}, // 1 and 2 commit without it from now on
	)
}

func TestR27_EffectiveMinInSync(t *testing.T) {
	for _, c := range []struct {
		factor, stored int
		config         string
		want           int
	}{{3, 2, "", 2}, {3, 2, "3", 3}, {3, 2, "1", 1}, {1, 2, "", 1}, {2, 2, "9", 2}, {3, 0, "", 1}, {3, 2, "many", 2}, {3, 2, "0", 2}} {
		topic := &Topic{ReplicationFactor: c.factor, MinInSync: c.stored, Configs: map[string]string{}}
		if c.config != "" {
			topic.Configs[ConfigMinInSyncReplicas] = c.config
		}
		if got := topic.EffectiveMinInSync(); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	// A topic's own default is resolved when it is made.
	m := newMachine(t)
	for id := range int32(3) {
		m.broker(id)
	}
	all := []int32{0, 1, 2}
	for factor, want := range map[int]int{1: 1, 2: 1, 3: 2} {
		if got := m.must(&CreateTopic{Name: string(rune('a' + factor)), ID: uuid.New(), Replicas: [][]int32{all[:factor]}}).(*Topic); got.MinInSync != want || got.EffectiveMinInSync() != want {
			t.Errorf("factor %d: %+v", factor, got)
		}
	}
}

// R88: a new topic's replicas are all complete. Those that are up are in sync;
// the others may lead as long as nothing can have been committed without them.
func TestR88_NewPartitionsWithBrokersThatAreDown(t *testing.T) {
	m := newMachine(t)
	for id := int32(1); id <= 3; id++ {
		m.broker(id)
	}
	make := func(name string, min int) string {
		m.must(&CreateTopic{Name: name, ID: uuid.New(), Replicas: [][]int32{{1, 2, 3}}, MinInSync: min})
		if err := checkInvariants(m.state); err != nil {
			t.Fatal(err)
		}
		return show(m.partition(name, 0))
	}
	m.set(1, true, false)
	if got := make("a", 2); got != "2 isr=2,3" {
		t.Errorf("one is down: %s", got)
	}
	m.set(2, false, true)
	if got := make("b", 2); got != "3 isr=3 elr=1,2" {
		t.Errorf("one is down, one drains: %s", got)
	}
	m.set(3, true, false)
	if got := make("c", 1); got != "-1 isr= elr=1,2,3" {
		t.Errorf("only one that drains is up: %s", got)
	}
	m.set(2, false, false)
	if got := show(m.partition("c", 0)); got != "2 isr=2" {
		t.Errorf("R80: %s", got)
	}
	solo := m.must(&CreateTopic{Name: "solo", ID: uuid.New(), Replicas: [][]int32{{3}}}).(*Topic)
	if got := show(solo.Partitions[0]); got != "-1 isr=3" {
		t.Errorf("one replica, down: %s", got)
	}
	m.set(3, false, false)
	if got := show(m.partition("solo", 0)); got != "3 isr=3" {
		t.Errorf("R80: %s", got)
	}
}

// F69, R81: a preferred leader that is back gets nothing by itself, so there is no
// storm of elections behind a restart; by hand it leads once it is in sync.
func TestF69_APreferredLeaderThatIsBackTakesNothing(t *testing.T) {
	m := script(t, 2, []int32{1, 2, 3},
		step{"register 1 clean durable held", "2 isr=2,3"},
		step{"unfence 1", "2 isr=2,3"},
		step{"elect 1", "2 isr=2,3 !INELIGIBLE_REPLICA"},
		step{"isr 2 3 1", "2 isr=1,2,3"},
		step{"drain 3", "2 isr=1,2"},
		step{"undrain 3", "2 isr=1,2"},
		step{"elect 1", "1 isr=1,2"},
		step{"elect 1", "1 isr=1,2"},
	)
	if p := m.partition("a", 0); p.LeaderEpoch != 2 {
		t.Errorf("%d leader epochs for 2 elections", p.LeaderEpoch)
	}
}

// Who applies an entry for one broker applies it for all of its partitions, and
// copies no topic in which nothing changed (K18).
func TestK18_OneEntryForAllPartitionsOfABroker(t *testing.T) {
	m := newMachine(t)
	for id := int32(1); id <= 4; id++ {
		m.broker(id)
	}
	var replicas [][]int32
	for range 50 {
		replicas = append(replicas, []int32{1, 2, 3}, []int32{2, 3, 4}, []int32{3, 1, 4})
	}
	m.must(&CreateTopic{Name: "a", ID: uuid.New(), Replicas: replicas})
	m.must(&CreateTopic{Name: "b", ID: uuid.New(), Replicas: [][]int32{{2, 3, 4}}})
	untouched, _ := m.state.Topic("b")
	held := m.state
	n := len(m.log)
	m.set(1, true, false)
	if len(m.log) != n+1 {
		t.Fatalf("%d entries", len(m.log)-n)
	}
	for i := range replicas {
		p := m.partition("a", i)
		if p.Leader == 1 || slices.Contains(p.ISR, 1) {
			t.Fatalf("partition %d: %+v", i, p)
		}
		if epoch := int32(0); slices.Contains(replicas[i], 1) {
			if p.PartitionEpoch != epoch+1 {
				t.Fatalf("partition %d: %+v", i, p)
			}
		} else if p.PartitionEpoch != epoch {
			t.Fatalf("partition %d: %+v", i, p)
		}
	}
	if b, _ := m.state.Topic("b"); b != untouched {
		t.Error("a topic of which it has no replica was copied")
	}
	if old, _ := held.Topic("a"); old.Partitions[0].Leader != 1 {
		t.Error("a State that somebody holds was written to")
	}
}
