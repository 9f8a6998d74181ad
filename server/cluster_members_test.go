package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// launchFurther adds a node that joins at another one.
func (c *cluster) launchFurther(at *node, flags ...string) *node {
	m := c.add(fmt.Sprintf("127.0.0.1:%d", freePorts(c.t, 1)))
	m.flags = []string{"--join=" + at.base()}
	c.launch(m, flags...)
	return m
}

// mustEnd waits until a broker ends by itself, with a failure whose last words hold
// the text.
func (m *node) mustEnd(t *testing.T, want string) {
	t.Helper()
	if code := m.exit(); code != exitFailed || !strings.Contains(m.output(), want) {
		t.Fatalf("broker %d: exit code %d, want %d and the words %q\n%s", m.id, code, exitFailed, want, m.output())
	}
}

// TestCluster_FurtherBroker: a broker that joins isn't a voter, gets replicas of new
// topics, and answers for those that it has none of.
func TestCluster_FurtherBroker(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.topic("old", 3, 3)
	c.client(c.nodes[0]).must(t, 200, "POST", "/topics/old/partitions/0?acks=-1", "application/json", `{"records":[{"value":1}]}`)
	further := c.launchFurther(c.nodes[1])
	c.waitServing(further)
	v := c.view(further)
	if len(v.Brokers) != 4 || !sameIDs(v.Controller.Voters, []int32{1, 2, 3}) {
		t.Errorf("%+v", v)
	}
	if got := string(c.client(further).must(t, 200, "GET", "/topics/old/partitions/0/records", "", "")); !strings.Contains(got, `"value":1`) {
		t.Errorf("the new broker doesn't answer for the others: %s", got)
	}
	c.topic("new", 4, 4, "min.insync.replicas", "3")
	c.client(further).must(t, 200, "POST", "/topics/new?acks=-1", "application/json", `{"records":[{"value":2}]}`)
	further.stop()
	c.waitISR(c.nodes[0], "new", 0, 1, 2, 3)
	c.start(further) // comes back by what it has on disk
	c.waitInSync("new", 4)
	c.stopAll()
}

// TestF71_WipedVoterIsReplaced: a voter that lost its directory refuses to vote
// again under its old flags; with --join it takes its own place, and its replicas
// come back (F33, K9).
func TestF71_WipedVoterIsReplaced(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.topic("orders", 3, 3, "min.insync.replicas", "2")
	l := startLoad(c, "orders", 3, 3, "-1", nil)
	l.await(50)
	victim := c.nodes[1]
	victim.kill()
	if err := os.RemoveAll(victim.dir); err != nil {
		t.Fatal(err)
	}
	c.launch(victim)
	victim.mustEnd(t, "--join")
	victim.flags = []string{"--join=" + c.nodes[2].base(), c.voters}
	c.start(victim)
	c.waitInSync("orders", 3)
	for _, m := range c.nodes {
		until(t, "the replaced broker votes", func() bool { return sameIDs(c.view(m).Controller.Voters, []int32{1, 2, 3}) })
	}
	l.await(50)
	l.end()
	// The quorum counts on it: without another voter there still is a majority.
	c.nodes[0].kill()
	c.leader("orders", 0)
	c.client(victim).must(t, 201, "PUT", "/topics/later", "", "")
	c.start(c.nodes[0])
	c.waitInSync("orders", 3)
	l.verify()
	// Its flags may stay as they are, or go back to what they were.
	victim.flags = []string{c.voters}
	victim.stop()
	c.start(victim)
	c.waitInSync("orders", 3)
	c.stopAll()
}

// TestF53_TopicMadeAnewWhileDown: a broker that was down while a topic was deleted
// and made again by the same name doesn't offer the old records (R84, R85).
func TestF53_TopicMadeAnewWhileDown(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.topic("orders", 1, 3, "min.insync.replicas", "2")
	down := c.leader("orders", 0)
	for range 20 {
		c.client(down).must(t, 200, "POST", "/topics/orders?acks=-1", "application/json", `{"records":[{"value":"old"},{"value":"old"}]}`)
	}
	down.kill()
	c.leader("orders", 0)
	other := c.running()[0]
	c.client(other).must(t, 204, "DELETE", "/topics/orders", "", "")
	c.client(other).must(t, 201, "PUT", "/topics/orders", "application/json", `{"partitions":1,"replication_factor":3,"configs":{"min.insync.replicas":"2"}}`)
	c.leader("orders", 0)
	c.client(other).must(t, 200, "POST", "/topics/orders?acks=-1", "application/json", `{"records":[{"value":"new"}]}`)
	c.start(down)
	c.waitInSync("orders", 3)
	for range 3 { // each broker leads once
		leader := c.leader("orders", 0)
		for _, m := range c.running() {
			if got := string(c.client(m).must(t, 200, "GET", "/topics/orders/partitions/0/records", "", "")); strings.Contains(got, "old") || !strings.Contains(got, "new") {
				t.Errorf("through broker %d: %s", m.id, got)
			}
		}
		leader.kill()
		c.leader("orders", 0)
		c.start(leader)
		c.waitInSync("orders", 3)
	}
	c.stopAll()
}

// TestF36_DataDirectoriesSwapped: a broker refuses the directory of another one.
func TestF36_DataDirectoriesSwapped(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.topic("orders", 3, 3, "min.insync.replicas", "2")
	a, b := c.nodes[1], c.nodes[2]
	a.stop()
	b.stop()
	a.dir, b.dir = b.dir, a.dir
	c.launch(a)
	c.launch(b)
	a.mustEnd(t, "belongs to node")
	b.mustEnd(t, "belongs to node")
	a.dir, b.dir = b.dir, a.dir
	c.start(a, b)
	c.waitInSync("orders", 3)
	c.stopAll()
}

// TestF37_BrokerOfAnotherCluster: a broker with the data of a former cluster at the
// same addresses ends and says so, and the new cluster takes no notice of it.
func TestF37_BrokerOfAnotherCluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.topic("former", 1, 3)
	c.stopAll()
	former := c.nodes[2].dir
	for _, m := range c.nodes {
		m.dir = filepath.Join(t.TempDir(), "anew")
	}
	c.start(c.nodes...)
	c.topic("orders", 1, 3, "min.insync.replicas", "2")
	stray, own := c.nodes[2], c.nodes[2].dir
	stray.stop()
	stray.dir = former
	c.launch(stray)
	stray.mustEnd(t, "belongs to cluster")
	c.client(c.nodes[0]).must(t, 200, "POST", "/topics/orders?acks=-1", "application/json", `{"records":[{"value":1}]}`)
	c.client(c.nodes[0]).must(t, 404, "GET", "/topics/former", "", "")
	stray.dir = own
	c.start(stray)
	c.waitInSync("orders", 3)
	c.stopAll()
}

// TestF34_TwoBrokersOfOneID: the second one ends at once and says why; the first
// serves on (R67).
func TestF34_TwoBrokersOfOneID(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.topic("orders", 3, 3, "min.insync.replicas", "2")
	double := &node{id: 2, dir: filepath.Join(t.TempDir(), "double"), address: fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)),
		flags: []string{"--join=" + c.nodes[0].base()}}
	c.launch(double)
	double.mustEnd(t, "node-id")
	c.waitInSync("orders", 3)
	if n := len(c.view(c.nodes[0]).Brokers); n != 3 {
		t.Errorf("%d brokers", n)
	}
	// A copy of its directory is no other broker either.
	c.nodes[1].stop()
	if err := os.CopyFS(double.dir+"-copy", os.DirFS(c.nodes[1].dir)); err != nil {
		t.Fatal(err)
	}
	c.start(c.nodes[1])
	c.waitInSync("orders", 3)
	double.dir += "-copy"
	c.launch(double)
	double.mustEnd(t, "node-id")
	c.waitInSync("orders", 3)
	c.client(c.nodes[1]).must(t, 200, "POST", "/topics/orders?acks=-1", "application/json", `{"records":[{"value":1}]}`)
	c.stopAll()
}

// TestF33_VanishedPartition: a broker that comes back without a partition's files
// isn't in sync, and isn't elected, until it has fetched them again (R73).
func TestF33_VanishedPartition(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.topic("orders", 1, 3, "min.insync.replicas", "2")
	for range 10 {
		c.client(c.nodes[0]).must(t, 200, "POST", "/topics/orders?acks=-1", "application/json", `{"records":[{"value":"kept"}]}`)
	}
	victim := c.leader("orders", 0)
	others := c.others(victim)
	victim.kill()
	logs, err := filepath.Glob(filepath.Join(victim.dir, "partitions", "*"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("%v %v", logs, err)
	}
	for _, log := range logs {
		err = errors.Join(err, os.RemoveAll(log))
	}
	if err != nil {
		t.Fatal(err)
	}
	others[0].freeze() // one of the others is away too
	c.start(victim)
	c.leader("orders", 0)
	if _, end := c.client(others[1]).end(t, "orders", 0); end != 10 {
		t.Errorf("%d of 10 records are there", end)
	}
	others[0].thaw()
	c.waitInSync("orders", 3)
	for _, m := range slices.Clone(others) { // then the victim may lead, and has everything
		m.stop()
		c.leader("orders", 0)
		c.start(m)
		c.waitInSync("orders", 3)
	}
	if _, end := c.client(victim).end(t, "orders", 0); end != 10 {
		t.Errorf("%d of 10 records are there", end)
	}
	c.stopAll()
}

// TestF35_ZombieBroker: a broker that stood still while another process took its
// place ends as soon as it goes on, and says why (R68).
func TestF35_ZombieBroker(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.topic("orders", 3, 3, "min.insync.replicas", "2")
	zombie := c.nodes[1]
	l := startLoad(c, "orders", 3, 3, "-1", func() []*node { return []*node{c.nodes[0], c.nodes[2]} })
	l.await(30)
	zombie.freeze()
	successor := &node{id: zombie.id, dir: filepath.Join(t.TempDir(), "successor"), address: fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)),
		flags: []string{"--join=" + c.nodes[0].base()}}
	c.launch(successor)
	c.waitServing(successor)
	c.nodes[1] = successor
	c.waitInSync("orders", 3)
	zombie.thaw()
	zombie.mustEnd(t, "registered")
	l.await(30)
	l.end()
	l.verify()
	c.waitInSync("orders", 3)
	c.stopAll()
}
