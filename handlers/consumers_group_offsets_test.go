package handlers

import (
	"fmt"
	"strings"
	"testing"
)

// A partition that a member has counts as lag before anything is committed in it.
func TestLagWithoutACommit(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 3)
	b.stock("t", 0, 4)
	b.stock("t", 2, 7)
	told := func(want string) {
		t.Helper()
		var list []groupOffsetView
		b.get("/consumers/g/offsets").want(200).into(&list)
		var got []string
		for _, o := range list {
			committed := "null"
			if o.Committed != nil {
				committed = fmt.Sprint(*o.Committed)
			}
			got = append(got, fmt.Sprintf("%s-%d:%s:%d", o.Topic, o.Partition, committed, *o.Lag))
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s, want %s", text, want)
		}
	}
	const poll = "/consumers/g/records?member=w1&topics=t&timeout=20000"
	b.get(poll).want(200)
	told("t-0:null:4 t-1:null:0 t-2:null:7")
	b.post("/consumers/g/offsets?member=w1", `{"offsets":[{"topic":"t","partition":2,"offset":5}]}`).want(204)
	told("t-0:null:4 t-1:null:0 t-2:5:2")
	b.do("DELETE", "/topics/t/partitions/0/records?before_offset=3", nil).want(200)
	told("t-0:null:1 t-1:null:0 t-2:5:2")
	// Nobody has them any more: where nothing was committed, the group is nowhere.
	b.do("DELETE", "/consumers/g/instances/w1", nil).want(204)
	told("t-2:5:2")
}

// A member that joins by fetching is told to fetch; an instance is to be created.
func TestFixesOfALostMember(t *testing.T) {
	b := startBroker(t)
	for path, want := range map[string]string{
		"/consumers/g/offsets?member=w1":    "/consumers/g/records?topics=…&member=w1'",
		"/consumers/g/instances/w1/offsets": `/consumers/g --json '{"name":"w1"}'`,
	} {
		if p := b.post(path, nil).problem(40403); !strings.Contains(p.Fix, want) {
			t.Errorf("%s: %s", path, p.Fix)
		}
	}
}

// What is said of a whole body begins with no empty pointer, and its end is told.
func TestFaultsOfAWholeBody(t *testing.T) {
	b := startBroker(t)
	if p := b.do("PUT", "/consumers/g/offsets", `{"topics":["t"]}`).problem(42201); !strings.HasPrefix(p.Detail, "Say either") {
		t.Errorf("%q", p.Detail)
	}
	if p := b.post("/consumers/g", `{"name":"w9"`).problem(40001); !strings.HasSuffix(p.Detail, "at byte 12.") {
		t.Errorf("%q", p.Detail)
	}
}
