package controller

import (
	"testing"

	"github.com/google/uuid"
)

// R82, R83: the new replica joins, and only then the old one leaves.
func TestR82_R83_Reassignment(t *testing.T) {
	m := script(t, 2, []int32{1, 2, 3},
		step{"reassign 1 2 4", "1 isr=1,2,3 adding=4 removing=3"},
		step{"reassign 1 2 4", "1 isr=1,2,3 adding=4 removing=3"},
		step{"isr 1 2 3 4", "1 isr=1,2,4"},
		step{"reassign 4 2 1", "1 isr=1,2,4"}, // another order only
		step{"reassign 4 5 2", "1 isr=1,2,4 adding=5 removing=1"},
	)
	// The leader is one of those that go.
	epoch := m.partition("a", 0).LeaderEpoch
	if got := m.do("isr 1 2 4 5"); got != "FENCED_LEADER_EPOCH" {
		t.Errorf("the leader that goes is told %q", got)
	}
	if p := m.partition("a", 0); show(p) != "4 isr=4,5,2" || p.LeaderEpoch != epoch+1 {
		t.Errorf("%s in epoch %d, before %d", show(p), p.LeaderEpoch, epoch)
	}
	// Refusals.
	for line, want := range map[string]string{
		"cancel":         "INVALID_REQUEST", // nothing under way
		"reassign 4 2":   "INVALID_REQUEST",
		"reassign 4 4 2": "INVALID_REQUEST",
		"reassign 4 2 9": "INVALID_REQUEST",
	} {
		if got := m.do(line); got != want {
			t.Errorf("%s: %q", line, got)
		}
	}
	// One item that can't be stops all.
	topic, _ := m.state.Topic("a")
	if got := m.result(&Reassign{Items: []Reassignment{{Topic: topic.ID, Replicas: []int32{4, 2, 3}}, {Topic: topic.ID, Replicas: []int32{4}}}}); got != "INVALID_REQUEST" {
		t.Errorf("%q", got)
	}
	if err, _ := m.apply(&Reassign{Items: []Reassignment{{Topic: uuid.New()}}}).(*UnknownTopicError); err == nil {
		t.Error("a topic that isn't there")
	}
	if got := show(m.partition("a", 0)); got != "4 isr=4,5,2" {
		t.Error(got)
	}
}

// R83: the size that counts is that of the ISR that will be left.
func TestR83_CompletionNeedsTheTargetsISR(t *testing.T) {
	script(t, 2, []int32{1, 2, 3},
		step{"fence 2", "1 isr=1,3"},
		step{"reassign 1 2 4", "1 isr=1,3 adding=4 removing=3"},
		step{"drain 1", "3 isr=3 elr=1 adding=4 removing=3"},
		step{"isr 3 4", "3 isr=4,3 adding=4 removing=3"}, // 4 alone would be left
		step{"undrain 1", "3 isr=4,3 adding=4 removing=3"},
		step{"isr 3 4 1", "1 isr=1,4 !FENCED_LEADER_EPOCH"},
	)
}

// F68: a target that is dead, taken back; and a way back that is none any more.
func TestF68_TakingAReassignmentBack(t *testing.T) {
	script(t, 2, []int32{1, 2, 3},
		step{"fence 4", "1 isr=1,2,3"},
		step{"reassign 1 2 4", "1 isr=1,2,3 adding=4 removing=3"},
		step{"cancel", "1 isr=1,2,3"},
		step{"reassign 1 4 5", "1 isr=1,2,3 adding=4,5 removing=2,3"},
		step{"isr 1 2 3 5", "1 isr=1,5,2,3 adding=4,5 removing=2,3"},
		step{"fence 3", "1 isr=1,5,2 adding=4,5 removing=2,3"},
		step{"fence 2", "1 isr=1,5 adding=4,5 removing=2,3"},
		step{"fence 1", "5 isr=5 elr=1 adding=4,5 removing=2,3"},
		step{"cancel", "5 isr=5 elr=1 adding=4,5 removing=2,3 !INELIGIBLE_REPLICA"},
		step{"reassign 1 4 2", "5 isr=5 elr=1 adding=4,5 removing=2,3 !INELIGIBLE_REPLICA"}, // it drops 5, too
		step{"unfence 2", "5 isr=5 elr=1 adding=4,5 removing=2,3"},
		step{"unfence 3", "5 isr=5 elr=1 adding=4,5 removing=2,3"},
		step{"isr 5 2 3", "5 isr=5,2,3 adding=4,5 removing=2,3"},
		step{"cancel", "2 isr=2,3"},
	)
}

// F16: taken away and given back: the leader epoch is another one, so nothing that
// a leader knew of the replica counts, and it isn't in sync.
func TestF16_RemovedAndAddedAgain(t *testing.T) {
	m := script(t, 2, []int32{1, 2, 3})
	epoch := m.partition("a", 0).LeaderEpoch
	for _, line := range []string{"reassign 1 2 4", "isr 1 2 3 4", "reassign 1 2 3"} {
		if code := m.do(line); code != "" {
			t.Fatalf("%s: %s", line, code)
		}
	}
	p := m.partition("a", 0)
	if show(p) != "1 isr=1,2,4 adding=3 removing=4" || p.LeaderEpoch != epoch+1 {
		t.Errorf("%s in epoch %d, before %d", show(p), p.LeaderEpoch, epoch)
	}
}

// A single replica moves, and its old place keeps it until the new one has all.
func TestR82_ASingleReplicaMoves(t *testing.T) {
	script(t, 1, []int32{1},
		step{"reassign 2", "1 isr=1 adding=2 removing=1"},
		step{"fence 1", "-1 isr=1 adding=2 removing=1"},
		step{"unclean", "-1 isr=1 adding=2 removing=1"}, // never the empty one by itself
		step{"unfence 1", "1 isr=1 adding=2 removing=1"},
		step{"isr 1 2", "2 isr=2 !FENCED_LEADER_EPOCH"},
		step{"fence 2", "-1 isr=2"},
	)
}

// A dead broker's replicas go to another one, which needn't be in a hurry.
func TestReplacingADeadBroker(t *testing.T) {
	script(t, 2, []int32{1, 2, 3},
		step{"fence 1", "2 isr=2,3"},
		step{"remove 1", "2 isr=2,3"},
		step{"reassign 4 2 3", "2 isr=2,3 adding=4 removing=1"},
		step{"fence 3", "2 isr=2 elr=3 adding=4 removing=1"},
		step{"isr 2 4", "2 isr=4,2"},
		step{"elect 4", "4 isr=4,2"},
	)
}
