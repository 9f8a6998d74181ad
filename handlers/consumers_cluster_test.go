package handlers

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"highwater/replication/controller"
	"highwater/replication/group"
)

// any is a broker that is up.
func (c *testCluster) any() *clusterNode {
	for {
		if n := c.nodes[rand.IntN(len(c.nodes))]; !n.down {
			return n
		}
	}
}

// pollAny polls through any broker.
func (c *testCluster) pollAny(path, query string) []polled {
	c.t.Helper()
	var out []polled
	c.any().get(path + "/records?" + query).want(200).into(&out)
	return out
}

// Members share a topic, each request going to any of three brokers, and go on when
// the coordinator, or any other broker, is lost.
func TestConsumersThroughAnyBroker(t *testing.T) {
	c := startCluster(t)
	c.create("t", 4)
	const n = 40
	for i := range n {
		c.any().post(fmt.Sprintf("/topics/t/partitions/%d?acks=-1", i%4), fmt.Sprintf(`{"records":[{"value":%d}]}`, i)).want(200)
	}
	var made consumerView
	c.any().post("/consumers/g", `{"name":"c1"}`).want(200).into(&made)
	c.any().post("/consumers/g", `{"name":"c2"}`).want(200)
	c.any().post("/consumers/g", `{"name":"c2"}`).problem(40902)
	members := []string{"/consumers/g/instances/c1", "/consumers/g/instances/c2"}
	for _, m := range members {
		c.any().post(m+"/subscription", `{"topics":["t"]}`).want(204)
	}
	seen := map[string]int{}
	consume := func(want int) {
		t.Helper()
		for i := 0; len(seen) < want; i++ {
			if i == 200 {
				t.Fatalf("%d of %d records in %d polls", len(seen), want, i)
			}
			m := members[i%2]
			for _, r := range c.pollAny(m, fmt.Sprintf("timeout=500&count=7&request_id=r%d", i)) {
				seen[string(r.Value)]++
			}
			c.any().post(m+"/offsets", nil).want(204)
		}
	}
	consume(n)
	for v, times := range seen {
		if times != 1 {
			t.Errorf("%s was read %d times", v, times)
		}
	}
	var d groupView
	c.any().get("/consumers/g").want(200).into(&d)
	if d.State != group.StateStable || len(d.Members) != 2 || len(d.Members[0].Assignments) != 2 || len(d.Members[1].Assignments) != 2 {
		t.Errorf("%+v", d)
	}
	lag := func(at *clusterNode) (sum int64) {
		var list []groupOffsetView
		at.get("/consumers/g/offsets").want(200).into(&list)
		for _, o := range list {
			sum += *o.Lag
		}
		return sum
	}
	for _, node := range c.nodes {
		if got := lag(node); got != 0 {
			t.Errorf("broker %d tells a lag of %d", node.id, got)
		}
	}

	// The coordinator goes, and with it what was not committed; the members stay.
	c.node(d.Coordinator).shut()
	for i := n; i < n+20; i++ {
		c.any().post(fmt.Sprintf("/topics/t/partitions/%d?acks=-1", i%4), fmt.Sprintf(`{"records":[{"value":%d}]}`, i)).want(200)
	}
	consume(n + 20)
	for i := range n {
		if times := seen[fmt.Sprint(i)]; times != 1 {
			t.Errorf("%d was committed, and read %d times", i, times)
		}
	}
	for _, m := range members {
		c.any().do(http.MethodDelete, m, nil).want(204)
	}
	c.any().do(http.MethodDelete, "/consumers/g", nil).want(204)
}

// A poll is answered in its time, whatever is dead.
func TestPollsEndInTime(t *testing.T) {
	c := startCluster(t)
	c.create("t", 3)
	front := c.node(1)
	front.post("/consumers/g", `{"name":"c1"}`).want(200)
	const m = "/consumers/g/instances/c1"
	front.post(m+"/subscription", `{"topics":["t"]}`).want(204)
	front.get(m + "/records?timeout=0").want(200)
	var d groupView
	front.get("/consumers/g").want(200).into(&d)
	c.waitFor(front, func(s *controller.State) bool { _, ok := s.Topic(group.Topic); return ok })
	// No other broker can be reached any more: no coordinator, no leader of most
	// partitions, or no quorum for anything.
	for _, n := range c.nodes[1:] {
		front.links.cutOff(n.addr)
		n.links.cutOff(front.addr)
	}
	for _, timeout := range []time.Duration{0, 700 * time.Millisecond, 0} {
		begun := time.Now()
		a := front.get(fmt.Sprintf("%s/records?timeout=%d", m, timeout.Milliseconds()))
		took := time.Since(begun)
		var p problemBody
		if a.status != 200 && (json.Unmarshal(a.body, &p) != nil || !p.Retriable) {
			t.Errorf("%d %s", a.status, a.body)
		}
		// The promise is a second; a crowded machine may take more to tell.
		if took > timeout+10*time.Second {
			t.Errorf("a poll of %v took %v: %d %s", timeout, took, a.status, a.body)
		}
		t.Logf("a poll of %v took %v: %d", timeout, took, a.status)
	}
	for _, n := range c.nodes[1:] {
		front.links.mend(n.addr)
		n.links.mend(front.addr)
	}
	// Replicas may have been put out of sync meanwhile, and come back in their time.
	c.node(2).eventually("there is a record", func() bool {
		return c.node(2).post("/topics/t/partitions/0?acks=-1", `{"records":[{"value":1}]}`).status == 200
	})
	var got []polled
	for len(got) == 0 {
		a := front.get(m + "/records?timeout=5000")
		if a.status == 200 {
			a.into(&got)
		}
	}
}
