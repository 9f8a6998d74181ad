package handlers

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"highwater/replication"
)

// consumerCalls are the routes of consumers, {i} standing for the instance; body is
// one that does no harm, "" where none is needed.
var consumerCalls = []struct{ method, path, body string }{
	{"GET", "/consumers", ""}, {"GET", "/consumers/g", ""}, {"POST", "/consumers/g", "{}"}, {"DELETE", "/consumers/g", ""},
	{"GET", "/consumers/g/records", ""}, {"GET", "/consumers/g/offsets", ""}, {"POST", "/consumers/g/offsets", `{"offsets":[]}`}, {"PUT", "/consumers/g/offsets", `{"offsets":[]}`},
	{"PUT", "{i}", "{}"}, {"DELETE", "{i}", ""}, {"GET", "{i}/subscription", ""}, {"POST", "{i}/subscription", `{"topics":["t"]}`}, {"DELETE", "{i}/subscription", ""},
	{"GET", "{i}/assignments", ""}, {"POST", "{i}/assignments", `{"partitions":[]}`}, {"GET", "{i}/records", ""}, {"GET", "{i}/offsets", ""}, {"POST", "{i}/offsets", `{"offsets":[]}`},
	{"POST", "{i}/positions", `{"offsets":[]}`}, {"POST", "{i}/positions/beginning", `{"partitions":[]}`}, {"POST", "{i}/positions/end", `{"partitions":[]}`},
}

// What is true of every route of consumers: who may not be there, what may not be said.
func TestConsumerRoutesRefuse(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.consumer("g", `{"name":"c1"}`)
	var old consumerView
	b.do("PUT", "/consumers/g/instances/c1", nil).want(200).into(&old)
	b.do("PUT", "/consumers/g/instances/c1", nil).want(200)
	large := `{"x":"` + strings.Repeat("x", maxControlBody) + `"}`
	for _, c := range consumerCalls {
		instance := strings.HasPrefix(c.path, "{i}")
		at := func(name string) string { return strings.Replace(c.path, "{i}", "/consumers/g/instances/"+name, 1) }
		var body any
		if c.body != "" {
			body = c.body
		}
		b.do(c.method, at("c1")+"?nothing=1", body).problem(40001)
		b.do(c.method, at("c1")+"/", body, func(r *http.Request) { r.Method = http.MethodPatch }).problem(40501)
		if c.path != "/consumers" {
			b.do(c.method, strings.Replace(at("c1"), "/g", "/a%20b", 1), body).problem(42201)
		}
		if c.body != "" || c.path == "{i}/offsets" {
			path := at("c1")
			if c.method == "POST" && c.path == "/consumers/g/offsets" {
				path += "?member=c1"
			}
			b.do(c.method, path, large).problem(41301)
			b.do(c.method, path, "{}", ofType("text/plain")).problem(41501)
		}
		if !instance {
			continue
		}
		b.do(c.method, at("a%20b"), body).problem(42201)
		if c.method == "PUT" {
			continue
		}
		b.do(c.method, at("nope"), body).problem(40403)
		b.do(c.method, at("c1~99"), body).problem(40403)
		p := b.do(c.method, at(old.InstanceID), body).problem(40906)
		if !strings.Contains(p.Detail, "c1~") {
			t.Errorf("%s %s: %s", c.method, c.path, p.Detail)
		}
	}
}

// A commit for a member by its name meets what one by its path does.
func TestCommitForAMemberRefuses(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.stock("t", 0, 3)
	const consume, commit = "/consumers/g/records?topics=t&member=w&timeout=0", "/consumers/g/offsets?member=w"
	b.get(consume).want(200)
	b.post(commit, `{"offsets":[{"topic":"t","partition":0,"offset":4}]}`).problem(41601)
	b.post(commit, `{"offsets":[{"topic":"t","partition":9,"offset":0}]}`).problem(40402)
	b.post(commit, `{"offsets":[{"topic":"nope","partition":0,"offset":0}]}`).problem(40401)
	b.post(commit, `{"offsets":[{"topic":"t","partition":0,"offset":1}]}`).want(204)
	b.do("PUT", "/consumers/g/instances/w", nil).want(200)
	for member, code := range map[string]int{"w~1": 40906, "w~9": 40403, "x~1": 40403} { // a certain incarnation doesn't join
		b.get("/consumers/g/records?topics=t&timeout=0&member=" + member).problem(code)
	}
	b.remove("/consumers/g/instances/w").want(204)
	b.do("DELETE", "/topics/t/partitions/0/records?before_offset=2", nil).want(200)
	b.get(consume + "&auto.offset.reset=none").problem(41001)
	b.remove("/consumers/g/instances/w").want(204)
	b.consumer("g", `{"name":"w"}`)
	b.post("/consumers/g/instances/w/assignments", `{"partitions":[{"topic":"t","partition":0}]}`).want(204)
	b.get(consume).problem(40903)
}

// A group's members are bounded, and who can't come in is told so.
func TestGroupsAreBounded(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	const most = 1000
	var all sync.WaitGroup
	for w := range 20 {
		all.Go(func() {
			for i := w; i < most; i += 20 {
				b.post("/consumers/g", fmt.Sprintf(`{"name":"m%d"}`, i)).want(200)
			}
		})
	}
	all.Wait()
	b.post("/consumers/g", nil).problem(42901)
	b.do("PUT", "/consumers/g/instances/other", nil).problem(42901)
	b.get("/consumers/g/records?topics=t&member=other&timeout=0").problem(42901)
	b.do("PUT", "/consumers/g/instances/m1", nil).want(200)
}

// Without enough replicas of what groups rest on nothing of them is changed, and each
// call says so.
func TestGroupsWithoutEnoughReplicas(t *testing.T) {
	b := startBroker(t, withDefaults(func(d *replication.Defaults) { d.MinInSyncReplicas = 2 }))
	b.topic("t", 1)
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{"POST", "/consumers/g", "{}"}, {"PUT", "/consumers/g/instances/c1", "{}"}, {"GET", "/consumers/g/records?topics=t&member=m", nil},
		{"PUT", "/consumers/g/offsets", `{"topics":["t"],"to":"earliest"}`},
	} {
		p := b.do(c.method, c.path, c.body).problem(50303)
		if c.method != "GET" && p.Outcome != "not_written" {
			t.Errorf("%s %s: outcome %q", c.method, c.path, p.Outcome)
		}
	}
	if a := b.get("/consumers").want(200); strings.TrimSpace(string(a.body)) != "[]" {
		t.Errorf("groups: %s", a.body)
	}
}
