package handlers

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Whichever broker is asked knows what was sent through another, before and after the
// leader has changed.
func TestAnyBrokerRecognisesARetry(t *testing.T) {
	c := startCluster(t)
	c.create("orders", 2)
	body := `{"records":[{"value":1,"partition":0,"id":"a/1"},{"value":2,"partition":1,"id":"b"}]}`
	c.node(1).post("/topics/orders?acks=-1", body).want(200)
	again := func(when string) {
		t.Helper()
		for _, n := range c.nodes {
			if p := n.produced(200, "/topics/orders?acks=-1", body); p.places() != "0d 0d" {
				t.Errorf("%s, broker %d: %s", when, n.id, p.places())
			}
			p := n.produced(207, "/topics/orders?acks=-1", `{"records":[{"value":9,"partition":0,"id":"a/1"},{"value":2,"partition":1,"id":"b"}]}`)
			if p.places() != "!40908 0d" {
				t.Errorf("%s, broker %d: %s", when, n.id, p.places())
			}
			for id, partition := range map[string]int32{"a%2F1": 0, "b": 1} {
				var got foundRecord
				n.get("/topics/orders/messages/" + id).want(200).into(&got)
				if got.Offset != 0 || got.Partition != partition {
					t.Errorf("%s, broker %d finds %s at %+v", when, n.id, id, got)
				}
			}
			n.get("/topics/orders/messages/c").problem(40404)
			var view topicView
			n.get("/topics/orders").want(200).into(&view)
			if d := view.Dedupe; d.IDs != 2 {
				t.Errorf("%s, broker %d: %+v", when, n.id, d)
			}
		}
	}
	again("at first")
	for p := range 2 {
		_, other := c.leader("orders", p)
		c.move("orders", p, other.id)
	}
	again("after the leaders moved")
	for p := range 2 {
		if end := c.node(1).end("orders", int32(p)); end != 1 {
			t.Errorf("partition %d ends at %d", p, end)
		}
	}
}

// A producer id that one broker gave out is good at once at every other, and so are its
// refusals: they come from the leader, with all they tell.
func TestProducersThroughAnyBroker(t *testing.T) {
	c := startCluster(t)
	c.create("t", 1)
	leader, other := c.leader("t", 0)
	const path = "/topics/t/partitions/0?acks=-1"
	seen := map[int64]bool{}
	for i := range 6 {
		var p producerAnswer
		c.nodes[i%3].post("/producers", nil).want(200).into(&p)
		if seen[p.ProducerID] {
			t.Fatalf("producer %d is given twice", p.ProducerID)
		}
		seen[p.ProducerID] = true
		if got := c.nodes[(i+1)%3].produced(200, path, sequenced(p.ProducerID, 0, 0, 1)); got.places() != fmt.Sprint(i) {
			t.Errorf("at once at another broker: %s", got.places())
		}
		if got := c.nodes[(i+2)%3].produced(200, path, sequenced(p.ProducerID, 0, 0, 1)); got.places() != fmt.Sprint(i, "d") {
			t.Errorf("again at a third: %s", got.places())
		}
	}
	var former, now producerAnswer
	leader.post("/producers", `{"transactional_id":"w"}`).want(200).into(&former)
	other.post("/producers", `{"transactional_id":"w"}`).want(200).into(&now)
	if now.ProducerID != former.ProducerID || now.ProducerEpoch != former.ProducerEpoch+1 {
		t.Fatalf("%+v after %+v", now, former)
	}
	for _, n := range c.nodes {
		if a := n.post(path, sequenced(former.ProducerID, former.ProducerEpoch, 0, 1)); a.problem(40303).Outcome != "not_written" || !strings.Contains(string(a.body), `"current_epoch":1`) {
			t.Errorf("broker %d, fenced: %s", n.id, a.body)
		}
		if a := n.post(path, sequenced(now.ProducerID, now.ProducerEpoch, 1, 1)); a.problem(40904).KafkaError != "UNKNOWN_PRODUCER_ID" || !strings.Contains(string(a.body), `"expected_sequence":0`) {
			t.Errorf("broker %d, not its first: %s", n.id, a.body)
		}
		n.post(path, sequenced(now.ProducerID+50_000, 0, 0, 1)).problem(40904)
	}
	other.post(path, sequenced(now.ProducerID, now.ProducerEpoch, 0, 2)).want(200)
	for _, n := range c.nodes {
		if a := n.post(path, sequenced(now.ProducerID, now.ProducerEpoch, 5, 1)); a.problem(40904).KafkaError != "OUT_OF_ORDER_SEQUENCE_NUMBER" || !strings.Contains(string(a.body), `"expected_sequence":2`) {
			t.Errorf("broker %d, a gap: %s", n.id, a.body)
		}
	}
}

// F54, F56, D5, D8: an append that was not acknowledged in time may be in the log. The
// answer names its partition, and how to send it again; a retry there is answered only
// once the first try is committed, and with its offset.
func TestF56_ARetryWaitsForTheFirstTry(t *testing.T) {
	c := startCluster(t)
	c.create("t", 4)
	const id = "order-4711"
	num := int(partitionForKey([]byte(id), 4))
	leader, other := c.leader("t", num)
	followers := func(do func(n *clusterNode)) {
		for _, n := range c.nodes {
			if n != leader && n != other {
				do(n)
			}
		}
	}
	followers(func(n *clusterNode) { n.links.cutOff(leader.addr) }) // nothing is acknowledged before the ISR has shrunk
	body := `{"records":[{"value":1,"id":"` + id + `"}]}`
	a := other.post("/topics/t?acks=-1&timeout_ms=300", body)
	p := a.problem(50401)
	var more struct {
		Partition *int `json:"partition"`
		Offsets   []struct {
			Partition int    `json:"partition"`
			Outcome   string `json:"outcome"`
		} `json:"offsets"`
	}
	a.into(&more)
	if p.Outcome != "unknown" || more.Partition == nil || *more.Partition != num || len(more.Offsets) != 1 || more.Offsets[0].Partition != num || more.Offsets[0].Outcome != "unknown" {
		t.Fatalf("%s", a.body)
	}
	path := fmt.Sprintf("/topics/t/partitions/%d", num)
	if !strings.Contains(p.Fix, path+" ") || !strings.Contains(p.Fix, "same ids") {
		t.Errorf("the fix: %s", p.Fix)
	}
	raw := other.post(fmt.Sprintf("/topics/t/records?partition=%d&acks=-1&timeout_ms=300", num), "x", header("Message-Id", "raw")).problem(50401)
	if !strings.Contains(raw.Fix, path+"/records ") {
		t.Errorf("the fix for a raw record: %s", raw.Fix)
	}
	if p := other.post(path+"/records?acks=-1&timeout_ms=300", "x").problem(50401); strings.Contains(p.Fix, "same ids") {
		t.Errorf("the fix for a record without an id: %s", p.Fix)
	}
	// It isn't committed: the retry isn't told otherwise.
	if p := leader.post(path+"?acks=-1&timeout_ms=300", body).problem(50401); p.Outcome != "unknown" {
		t.Errorf("a retry of what isn't committed: %+v", p)
	}
	if p := leader.get("/topics/t/messages/" + id + "?timeout=300").problem(50401); !strings.Contains(p.Detail, "committed") {
		t.Errorf("a look-up of what isn't committed: %+v", p)
	}
	other.do(http.MethodPatch, "/topics/t", `{"partitions":9}`).want(200)
	retried := make(chan produceAnswer, 1)
	go func() {
		var p produceAnswer
		leader.post(path+"?acks=-1", body).into(&p)
		retried <- p
	}()
	followers(func(n *clusterNode) { n.links.mend(leader.addr) })
	if got := <-retried; got.places() != "0d" {
		t.Errorf("the retry: %s", got.places())
	}
	var got foundRecord
	other.get("/topics/t/messages/" + id).want(200).into(&got)
	if got.Offset != 0 || int(got.Partition) != num || leader.end("t", int32(num)) != 3 {
		t.Errorf("found %+v, the log ends at %d", got, leader.end("t", int32(num)))
	}
}

// F57: the leader dies; what it had replicated is recognised by its successor.
func TestF57_ARetryToTheNextLeader(t *testing.T) {
	c := startCluster(t)
	c.create("t", 1)
	leader, other := c.leader("t", 0)
	const path = "/topics/t/partitions/0?acks=-1"
	var me producerAnswer
	leader.post("/producers", nil).want(200).into(&me)
	leader.post(path, `{"records":[{"value":1,"id":"a"}]}`).want(200)
	leader.post(path, sequenced(me.ProducerID, 0, 0, 2)).want(200)
	leader.shut()
	if p := other.produced(200, path, `{"records":[{"value":1,"id":"a"}]}`); p.places() != "0d" {
		t.Errorf("an id: %s", p.places())
	}
	if p := other.produced(200, path, sequenced(me.ProducerID, 0, 0, 2)); p.places() != "1d 2d" {
		t.Errorf("a sequence: %s", p.places())
	}
	if p := other.produced(200, path, sequenced(me.ProducerID, 0, 2, 1)); p.places() != "3" {
		t.Errorf("the next: %s", p.places())
	}
	other.get("/topics/t/messages/a").want(200)
}

// A look-up says that there is no such message only if every partition said so.
func TestALookUpWithoutALeaderIsNo404(t *testing.T) {
	c := startCluster(t)
	c.node(1).do(http.MethodPut, "/topics/t", `{"partitions":3,"replication_factor":1}`).want(201)
	for i := range 3 {
		c.node(1).post(fmt.Sprintf("/topics/t/partitions/%d?acks=-1", i), fmt.Sprintf(`{"records":[{"value":%d,"id":"m%d"}]}`, i, i)).want(200)
	}
	gone, other := c.leader("t", 2)
	gone.shut()
	found := 0
	for i := range 3 {
		a := other.get(fmt.Sprintf("/topics/t/messages/m%d?timeout=1500", i))
		switch {
		case a.status == 200:
			found++
		default:
			a.problem(50302)
		}
	}
	if found == 0 || found == 3 {
		t.Errorf("%d of 3 found, with a partition that has no leader", found)
	}
	if a := other.get("/topics/t/messages/never?timeout=1500"); a.problem(50302).Retriable != true || a.header.Get("Retry-After") == "" {
		t.Errorf("%s", a.body)
	}
}
