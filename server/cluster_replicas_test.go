package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// problem is what an error answer says.
type problem struct {
	Status    int    `json:"status"`
	Code      int    `json:"error_code"`
	Detail    string `json:"detail"`
	Kafka     string `json:"kafka_error"`
	Retriable bool   `json:"retriable"`
	Fix       string `json:"fix"`
	Outcome   string `json:"outcome"`
}

// refused makes a request that must be refused with that error code.
func refused(t *testing.T, c *client, code int, method, path, contentType, body string) (p problem) {
	t.Helper()
	answer := c.must(t, code/100, method, path, contentType, body)
	if err := json.Unmarshal(answer, &p); err != nil || p.Code != code || p.Fix == "" {
		t.Errorf("%s %s: %v, want error code %d with a fix\n%s", method, path, err, code, answer)
	}
	return p
}

// TestCluster_OneFollowerFrozen: after the lag limit the frozen follower is out of
// the in-sync set, and acks=-1 is as fast as it was before (F20). When it goes on it
// comes back by itself.
func TestCluster_OneFollowerFrozen(t *testing.T) {
	c := newCluster(t, 3)
	c.topic("orders", 1, 3, "min.insync.replicas", "2")
	leader := c.leader("orders", 0)
	follower := c.others(leader)[0]
	rest := c.others(follower)
	l := startLoad(c, "orders", 1, 4, "-1", func() []*node { return rest })
	l.await(100)
	before := l.longestGap()
	follower.freeze()
	c.waitISR(leader, "orders", 0, rest[0].id, rest[1].id)
	l.await(10)
	stall := l.longestGap()
	l.await(300)
	after := l.longestGap()
	t.Logf("longest time without an answer: %v with all, %v when one froze, %v without it",
		before.Round(time.Millisecond), stall.Round(time.Millisecond), after.Round(time.Millisecond))
	if after > testLag {
		t.Errorf("acks=-1 still waits for the frozen follower: %v", after)
	}
	follower.thaw()
	c.waitInSync("orders", 3)
	l.end()
	l.noFailures()
	l.verify()
	c.stopAll()
}

// TestF17_TwoOfThreeFrozen: with two followers gone and min.insync.replicas 2,
// acks=-1 is refused before anything is written; acks=1 is taken and stays
// invisible until enough replicas are back (R28, R54).
func TestF17_TwoOfThreeFrozen(t *testing.T) {
	t.Parallel()
	// Five brokers, so that the quorum stands while the partition's replicas fall.
	c := newCluster(t, 5)
	c.topic("orders", 1, 3, "min.insync.replicas", "2")
	leader := c.leader("orders", 0)
	var followers []*node
	for _, r := range c.partitions(leader, "orders")[0].Replicas {
		if r.Broker != leader.id {
			followers = append(followers, c.nodes[r.Broker-1])
		}
	}
	lc := c.client(leader)
	lc.must(t, 200, "POST", "/topics/orders?acks=-1", "application/json", `{"records":[{"value":"seen"}]}`)
	for _, f := range followers {
		f.freeze()
	}
	c.waitISR(leader, "orders", 0, leader.id)
	bystander := c.others(leader)[0]
	for _, m := range []*node{leader, bystander} {
		p := refused(t, c.client(m), 50303, "POST", "/topics/orders?acks=-1", "application/json", `{"records":[{"value":"refused"}]}`)
		if p.Outcome != "not_written" || !p.Retriable || p.Kafka != "NOT_ENOUGH_REPLICAS" {
			t.Errorf("through broker %d: %+v", m.id, p)
		}
	}
	c.client(bystander).must(t, 200, "POST", "/topics/orders?acks=1", "application/json", `{"records":[{"value":"invisible"}]}`)
	if _, end := lc.end(t, "orders", 0); end != 1 {
		t.Errorf("the high watermark is %d with one of two replicas that must be in sync", end)
	}
	if got := string(lc.must(t, 200, "GET", "/topics/orders/partitions/0/records?offset=1", "", "")); strings.TrimSpace(got) != "[]" {
		t.Errorf("an unreplicated record is shown: %s", got)
	}
	for _, f := range followers {
		f.thaw()
	}
	c.waitInSync("orders", 3)
	until(t, "the record of acks=1 is visible", func() bool {
		_, end := lc.end(t, "orders", 0)
		return end == 2
	})
	if got := string(lc.must(t, 200, "GET", "/topics/orders/partitions/0/records?offset=1", "", "")); !strings.Contains(got, "invisible") || strings.Contains(got, "refused") {
		t.Errorf("%s", got)
	}
	c.stopAll()
}

// TestH47_InSyncSetSurvivesRestarts: a dead replica stays out of the in-sync set
// whoever restarts, acks=-1 doesn't wait for it, and it is in the set again only
// when it has all there is.
func TestH47_InSyncSetSurvivesRestarts(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.topic("orders", 1, 3, "min.insync.replicas", "1")
	produce := func(m *node, value string) {
		t.Helper()
		c.client(m).must(t, 200, "POST", "/topics/orders?acks=-1", "application/json", fmt.Sprintf(`{"records":[{"value":%q}]}`, value))
	}
	dead := c.nodes[2]
	n1, n2 := c.nodes[0], c.nodes[1]
	produce(n1, "all in sync")
	dead.kill()
	c.waitISR(n1, "orders", 0, 1, 2)
	for round, restart := range [][]*node{{c.controller()}, {n1}, {n1, n2}, {n2, n1}} {
		for _, m := range restart {
			m.kill()
		}
		c.start(restart...)
		c.leader("orders", 0)
		produce(n2, fmt.Sprintf("round %d", round))
		for _, m := range c.running() {
			for _, v := range c.partitions(m, "orders") {
				for _, id := range v.ISR {
					if id == dead.id {
						t.Fatalf("round %d: the dead broker %d is in the in-sync set %d", round, id, v.ISR)
					}
				}
				if v.Leader == dead.id {
					t.Fatalf("round %d: the dead broker leads", round)
				}
			}
		}
	}
	c.start(dead)
	c.waitInSync("orders", 3)
	_, end := c.client(dead).end(t, "orders", 0)
	if end != 5 {
		t.Errorf("%d records, want 5", end)
	}
	c.stopAll()
}

// TestCluster_AnyBrokerAnswersAnything: what a client may ask for, asked of each
// broker in turn; the answers don't depend on it.
func TestCluster_AnyBrokerAnswersAnything(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.topic("one", 3, 1)
	c.topic("all", 3, 3)
	for i, m := range c.nodes {
		mc := c.client(m)
		for p := range 3 {
			for _, topic := range []string{"one", "all"} {
				for _, acks := range []string{"0", "1", "-1"} {
					want := 200
					if acks == "0" {
						want = 202
					}
					mc.must(t, want, "POST", fmt.Sprintf("/topics/%s/partitions/%d?acks=%s", topic, p, acks), "application/json", fmt.Sprintf(`{"records":[{"value":%d}]}`, i))
				}
			}
		}
		mc.must(t, 201, "PUT", fmt.Sprintf("/topics/from-%d", m.id), "application/json", `{"partitions":2}`)
		mc.must(t, 200, "GET", fmt.Sprintf("/topics/from-%d", m.id), "", "") // read your own writes
	}
	for _, topic := range []string{"one", "all"} {
		for p := range 3 {
			until(t, fmt.Sprintf("%s-%d has nine records", topic, p), func() bool {
				_, end := c.client(c.nodes[0]).end(t, topic, p)
				return end == 9
			})
			path := fmt.Sprintf("/topics/%s/partitions/%d/records?count=9", topic, p)
			first := string(c.client(c.nodes[0]).must(t, 200, "GET", path, "", ""))
			for _, m := range c.nodes {
				mc := c.client(m)
				if got := string(mc.must(t, 200, "GET", path, "", "")); got != first {
					t.Errorf("%s through broker %d:\n%s\nthrough broker 1:\n%s", path, m.id, got, first)
				}
				res, err := http.Get(m.base() + path)
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
				leader := c.leader(topic, p)
				if got := res.Header.Get("Highwater-Leader"); got != leader.base() {
					t.Errorf("%s through broker %d: Highwater-Leader is %q, the leader is %s", path, m.id, got, leader.base())
				}
			}
		}
	}
	for _, m := range c.nodes {
		mc := c.client(m)
		mc.must(t, 200, "DELETE", fmt.Sprintf("/topics/all/partitions/%d/records?before_offset=%d", m.id-1, 5), "", "")
		mc.must(t, 200, "PATCH", "/topics/one", "application/json", fmt.Sprintf(`{"configs":{"retention.ms":"%d"}}`, 86400000+m.id))
		mc.must(t, 204, "DELETE", fmt.Sprintf("/topics/from-%d", m.id%3+1), "", "")
		mc.must(t, 404, "GET", fmt.Sprintf("/topics/from-%d", m.id%3+1), "", "")
	}
	for p := range 3 {
		if beginning, _ := c.client(c.nodes[2]).end(t, "all", p); beginning != 5 {
			t.Errorf("all-%d begins at %d", p, beginning)
		}
	}
	c.stopAll()
}

// TestCluster_ReadYourWritesThroughAnotherBroker: a topic that one broker has
// created can be used through another at once, and partitions that it has added.
func TestCluster_ReadYourWritesThroughAnotherBroker(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	for i := range 12 {
		a, b := c.client(c.nodes[i%3]), c.client(c.nodes[(i+1)%3])
		path := fmt.Sprintf("/topics/t%d", i)
		a.must(t, 201, "PUT", path, "application/json", `{"partitions":1}`)
		b.must(t, 200, "POST", path+"?acks=-1", "application/json", `{"records":[{"value":1}]}`)
		b.must(t, 200, "PATCH", path, "application/json", `{"partitions":2}`)
		a.must(t, 200, "POST", path+"/partitions/1?acks=-1", "application/json", `{"records":[{"value":1}]}`)
		a.must(t, 404, "GET", "/topics/nowhere", "", "")
	}
	c.stopAll()
}
