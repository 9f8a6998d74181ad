package handlers

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
)

// Topics are made, changed and deleted through any broker, which knows of it when
// it has answered.
func TestTopicsThroughAnyBroker(t *testing.T) {
	c := startCluster(t)
	for i, n := range c.nodes {
		name := "t" + strconv.Itoa(i)
		n.do(http.MethodPut, "/topics/"+name, `{"partitions":2,"replication_factor":3}`, ofType(typeJSON)).want(201)
		n.get("/topics/" + name).want(200)
		n.post("/topics/"+name+"/records?acks=-1", "v").want(200) // at once
		n.do(http.MethodPatch, "/topics/"+name, `{"partitions":3}`, ofType(typeJSON)).want(200)
		n.post("/topics/"+name+"/partitions/2/records?acks=-1", "v").want(200)
		n.do(http.MethodDelete, "/topics/"+name, nil).want(204)
		n.get("/topics/" + name).problem(40401)
		n.post("/topics/"+name+"/records", "v").problem(40401)
	}
}

// Once one broker has answered that a topic is gone, no other one finds it there
// when it is to be made anew, and what is changed is the new one.
func TestADeletionIsKnownToAnyBroker(t *testing.T) {
	c := startCluster(t)
	for i := range 9 { // two of three aren't the quorum's leader, and hear of it a moment later
		a, b := c.node(int32(1+i%3)), c.node(int32(1+(i+1)%3))
		name := fmt.Sprintf("t%d", i)
		c.create(name, 1)
		a.do(http.MethodDelete, "/topics/"+name, nil).want(204)
		b.do(http.MethodPut, "/topics/"+name, `{"partitions":2}`, ofType(typeJSON)).want(201)
		a.do(http.MethodPatch, "/topics/"+name, `{"partitions":3}`, ofType(typeJSON)).want(200)
		b.do(http.MethodDelete, "/topics/"+name, nil).want(204)
		a.do(http.MethodPut, "/topics/"+name, `{"partitions":3}`, ofType(typeJSON)).want(201)
	}
}

// A broker that can't ask the quorum doesn't claim that something is there, or isn't: the
// others may have answered otherwise. What it knows of is still served.
func TestWithoutAQuorumNothingIsSaidToBeGone(t *testing.T) {
	c := startCluster(t)
	c.create("known", 1)
	c.create("old", 1)
	n := c.node(1)
	for _, other := range c.nodes[1:] {
		n.links.cutOff(other.addr)
		other.links.cutOff(n.addr)
	}
	c.node(2).do(http.MethodDelete, "/topics/old", nil).want(204)
	c.node(3).do(http.MethodPut, "/topics/old", `{"partitions":2,"replication_factor":2}`).want(201)
	asks := []func() answer{
		func() answer { return n.get("/topics/none") },
		func() answer { return n.get("/topics/none/partitions/0/records") },
		func() answer { return n.get("/topics/known/partitions/7") },
		func() answer { return n.post("/topics/none/records", "v") },
		func() answer { return n.do(http.MethodPut, "/topics/old", `{"partitions":3}`) },
		func() answer { return n.do(http.MethodPatch, "/topics/old", `{"partitions":1}`) },
		func() answer { return n.do(http.MethodDelete, "/topics/none", nil) },
		func() answer { return n.get("/topics/none/messages/m") },
		func() answer { return n.get("/topics/known/messages/m?timeout=3000") },
		func() answer { return n.post("/topics/known/records?partition=7", "v") },
		func() answer { return n.post("/topics/known", `{"records":[{"value":1},{"value":2,"partition":7}]}`) },
		func() answer {
			return n.post("/topics/known/records?partition=7", eventIn("1", ``), ofType(typeEvent))
		},
		func() answer { return n.get("/consumers") },
		func() answer { return n.get("/consumers/g") },
		func() answer {
			return n.do(http.MethodPut, "/consumers/g/offsets", `{"topics":["none"],"to":"earliest"}`)
		},
	}
	answers := make([]answer, len(asks))
	var all sync.WaitGroup
	for i, ask := range asks {
		all.Go(func() { answers[i] = ask() })
	}
	all.Wait()
	for _, a := range answers {
		if p := a.problem(50302); !p.Retriable || a.header.Get("Retry-After") == "" {
			t.Errorf("%s", a.body)
		}
	}
	n.get("/topics/known").want(200)
	// What is wrong whatever there is stays so, at once.
	n.get("/topics/a%20b").problem(42201)
	n.do(http.MethodPut, "/topics/a%20b", nil).problem(42201)
	n.do(http.MethodPut, "/topics/one", `{"partitions":"x"}`).problem(42201)
	n.post("/topics", `{"name":"a b"}`).problem(42201)
	n.post("/topics/known", `{"records":[{"value":1,"partition":-1}]}`).problem(42201)
	for _, other := range c.nodes[1:] {
		n.links.mend(other.addr)
		other.links.mend(n.addr)
	}
	n.get("/topics/none").problem(40401)
	n.do(http.MethodPut, "/topics/old", `{"partitions":3}`).problem(40901)
}

// A partition that another broker has added a moment ago is there, wherever a request
// names it.
func TestANewPartitionIsKnownToAnyBroker(t *testing.T) {
	c := startCluster(t)
	c.create("t", 1)
	for i := range 9 {
		a, b := c.node(int32(1+i%3)), c.node(int32(1+(i+1)%3))
		a.do(http.MethodPatch, "/topics/t", fmt.Sprintf(`{"partitions":%d}`, i+2)).want(200)
		switch i % 3 {
		case 0:
			b.post("/topics/t", fmt.Sprintf(`{"records":[{"value":1},{"value":2,"partition":%d}]}`, i+1)).want(200)
		case 1:
			b.post(fmt.Sprintf("/topics/t/records?partition=%d", i+1), "v").want(200)
		default:
			b.post(fmt.Sprintf("/topics/t/records?partition=%d", i+1), eventIn("1", ``), ofType(typeEvent)).want(200)
		}
		b.post("/topics/t", fmt.Sprintf(`{"records":[{"value":2,"partition":%d}]}`, i+2)).problem(40402)
	}
}
