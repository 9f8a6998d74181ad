package handlers

import (
	"context"
	"testing"
	"time"

	"highwater/replication/group"
)

// askGroups has a group's coordinator do a call, by way of any broker.
func (b *testBroker) askGroups(call group.Call) *group.Answer {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	answer, err := b.groups.Do(ctx, &call)
	must(b.t, err)
	return answer
}

func testOptions() group.Options {
	return group.Options{Reset: group.ResetEarliest, SessionTimeout: 5 * time.Minute, RequestTimeout: time.Second, MinBytes: 1}
}

func TestGroups_AMembersLifeOnOneBroker(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 2)
	b.askGroups(group.Call{Group: "g", Create: &group.Create{Name: "c1", Options: testOptions()}})
	b.askGroups(group.Call{Group: "g", Subscribe: &group.Subscribe{Instance: "c1", Topics: []string{"t"}}})
	ctx := context.Background()
	poll, err := b.groups.Poll(ctx, "g", group.Begin{Instance: "c1", WaitMs: 1000})
	must(t, err)
	if n := len(poll.State().Positions); n != 2 {
		t.Fatalf("it owns %d partitions, want 2: %+v", n, poll.State())
	}
	to := poll.State().Positions
	to[0].Offset, to[1].Offset = 0, 0
	must(t, poll.End(ctx, true, to))
	b.askGroups(group.Call{Group: "g", Commit: &group.Commit{Instance: "c1", Offsets: []group.CommitOffset{{Position: to[0], Metadata: "m"}}}})
	check := func() {
		t.Helper()
		got := b.askGroups(group.Call{Group: "g", Committed: &group.Committed{}}).Offsets
		if len(got) != 1 || got[0].Offset != 0 || got[0].Metadata != "m" || got[0].Topic != "t" {
			t.Fatalf("committed %+v", got)
		}
	}
	check()
	b.restart()
	check()
	list, err := b.groups.List(ctx)
	must(t, err)
	if len(list) != 1 || list[0].Group != "g" || list[0].Members != 1 || list[0].Coordinator != 1 {
		t.Fatalf("groups %+v", list)
	}
}

// Nobody but the coordinators writes to what groups rest on.
func TestGroups_TheirTopicIsNoClients(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.askGroups(group.Call{Group: "g", Create: &group.Create{Name: "c1", Options: testOptions()}})
	b.post("/topics/__consumer_offsets", `{"records":[{"key":"k","value":"v","partition":0}]}`).problem(42201)
	b.do("DELETE", "/topics/__consumer_offsets/partitions/0/records?before_offset=high_watermark", nil).problem(42201)
	b.do("DELETE", "/topics/__consumer_offsets", nil).problem(42201)
	b.do("PATCH", "/topics/__consumer_offsets", map[string]any{"configs": map[string]any{"cleanup.policy": "delete"}}).problem(42201)
	b.restart()
	if d := b.askGroups(group.Call{Group: "g", Describe: &group.Describe{}}).Description; len(d.Members) != 1 || d.Coordinator != 1 {
		t.Errorf("after that: %+v", d)
	}
}
