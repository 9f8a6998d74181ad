package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"highwater/replication/wire"
)

// patience bounds every wait of a test. It is simulated time, as all of a cluster is.
const patience = 60 * time.Second

// testCluster is controllers over one network, each with a directory of its own,
// with the timing that brokers have. It lives in a bubble of synctest.
type testCluster struct {
	*testing.T
	net   *network
	clock clock
	list  map[int32]string // --cluster
	nodes map[int32]*testNode
}

// testNode is one broker; c is nil while its process is down.
type testNode struct {
	id  int32
	url string
	dir string
	cfg func(*Config) // what this node starts with otherwise; nil: nothing

	c      *Controller
	cancel context.CancelFunc
	ran    chan error // what Run returned
}

func nodeURL(id int32) string { return fmt.Sprintf("http://node-%d", id) }

// newCluster makes n nodes that are each other's --cluster; none is started.
func newCluster(t *testing.T, n int32) *testCluster {
	t.Helper()
	began := time.Now()
	tc := &testCluster{T: t, net: newNetwork(t), clock: func() time.Duration { return time.Since(began) }, list: map[int32]string{}, nodes: map[int32]*testNode{}}
	for id := int32(1); id <= n; id++ {
		tc.list[id] = nodeURL(id)
	}
	for id := range tc.list {
		tc.add(id)
	}
	t.Cleanup(func() {
		tc.net.heal()
		var all sync.WaitGroup
		for _, node := range tc.nodes {
			if node.c != nil {
				all.Go(func() { tc.kill(node.id) })
			}
		}
		all.Wait()
	})
	return tc
}

func (tc *testCluster) add(id int32) *testNode {
	tc.nodes[id] = &testNode{id: id, url: nodeURL(id), dir: tc.TempDir()}
	return tc.nodes[id]
}

// startCluster is newCluster with all brokers registered and unfenced.
func startCluster(t *testing.T, n int32) *testCluster {
	t.Helper()
	tc := newCluster(t, n)
	tc.upAll(slices.Sorted(maps.Keys(tc.nodes))...)
	tc.eventually("all know that all are there", func() bool {
		for _, node := range tc.alive() {
			if len(node.c.State().eligibleBrokers()) != int(n) {
				return false
			}
		}
		return true
	})
	return tc
}

// openNode starts a node's process as far as Open.
func (tc *testCluster) openNode(id int32) (*Controller, error) {
	n := tc.nodes[id]
	cfg := Config{Dir: n.dir, NodeID: id, URL: n.url, Version: "test", Logger: zerolog.Nop(), Cluster: tc.list,
		Peers: link{tc.net, n.url}, Stream: tc.net.listen(n.url), Clock: tc.clock}
	if n.cfg != nil {
		n.cfg(&cfg)
	}
	c, err := Open(cfg)
	if err != nil {
		return nil, err
	}
	tc.net.place(n.url, c)
	n.c = c
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- c.Run(ctx) }()
	n.cancel, n.ran = cancel, ran
	return c, nil
}

// up starts a node's process whole.
func (tc *testCluster) up(id int32) error {
	c, err := tc.openNode(id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.Connect(ctx); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if err := c.Register(ctx, Registration{Durable: true}); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	return c.Unfence(ctx)
}

// upAll starts several at once, as they need each other.
func (tc *testCluster) upAll(ids ...int32) {
	tc.Helper()
	errs := make([]error, len(ids))
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() { errs[i] = tc.up(id) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		tc.Fatal(err)
	}
}

// kill ends a node's process without a word to anybody, or as near to it as one
// process gets: what it says while it ends is lost.
func (tc *testCluster) kill(id int32) {
	n := tc.nodes[id]
	tc.net.isolate(n.url)
	tc.stop(id)
	tc.net.mu.Lock()
	defer tc.net.mu.Unlock()
	for link := range tc.net.cuts {
		if link[0] == n.url || link[1] == n.url {
			delete(tc.net.cuts, link)
		}
	}
}

// stop ends a node's process in order.
func (tc *testCluster) stop(id int32) {
	n := tc.nodes[id]
	n.cancel()
	if err := n.c.Close(); err != nil {
		tc.Errorf("close %d: %v", id, err)
	}
	tc.net.remove(n.url)
	n.c = nil
}

// alive lists the nodes whose processes run.
func (tc *testCluster) alive() []*testNode {
	var out []*testNode
	for _, id := range slices.Sorted(maps.Keys(tc.nodes)) {
		if tc.nodes[id].c != nil {
			out = append(out, tc.nodes[id])
		}
	}
	return out
}

// leader waits until one of the nodes works as the quorum's leader.
func (tc *testCluster) leader() *testNode {
	tc.Helper()
	var found *testNode
	tc.eventually("a leader", func() bool {
		found = nil
		for _, n := range tc.alive() {
			if t := n.c.leading(); t != nil && t.verify(context.Background()) == nil {
				found = n
			}
		}
		return found != nil
	})
	return found
}

// followers are the living nodes that don't lead the quorum.
func (tc *testCluster) followers() (leader *testNode, others []*testNode) {
	tc.Helper()
	leader = tc.leader()
	for _, n := range tc.alive() {
		if n != leader {
			others = append(others, n)
		}
	}
	return leader, others
}

// heartbeat has the quorum's leader answer a heartbeat, whichever node that is.
func (tc *testCluster) heartbeat(hb *wire.Heartbeat) (answer *wire.HeartbeatAnswer) {
	tc.Helper()
	tc.eventually("an answer", func() bool {
		answer = tc.leader().c.ServeHeartbeat(context.Background(), hb)
		return answer.Code != wire.CodeNotController
	})
	return answer
}

// eventually polls: what it waits for has no event that covers several nodes.
func (tc *testCluster) eventually(what string, ok func() bool) {
	tc.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			for _, n := range tc.alive() {
				tc.Logf("node %d: quorum %+v, index %d, brokers %+v", n.id, n.c.Quorum(), n.c.State().Index, brokersOf(n.c))
			}
			tc.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

func brokersOf(c *Controller) []Broker {
	var out []Broker
	for _, id := range c.State().BrokerIDs() {
		out = append(out, *c.State().Brokers[id])
	}
	return out
}

// create makes a topic by way of one node, trying as long as a client would.
func (tc *testCluster) create(by int32, name string, partitions, factor int) *Topic {
	tc.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		topic, err := tc.nodes[by].c.CreateTopic(ctx, CreateTopicRequest{Name: name, Partitions: partitions, ReplicationFactor: factor})
		if exists := (*TopicExistsError)(nil); errors.As(err, &exists) {
			topic, _ = tc.nodes[by].c.State().Topic(name)
			return topic // an earlier try's outcome wasn't known
		}
		if err == nil {
			return topic
		}
		if !errors.Is(err, ErrOutcomeUnknown) && !errors.Is(err, ErrNoController) || ctx.Err() != nil {
			tc.Fatalf("create %s by node %d: %v", name, by, err)
		}
	}
}

// sameState waits until all living nodes have applied the same, and compares.
func (tc *testCluster) sameState() {
	tc.Helper()
	tc.eventually("the same index everywhere", func() bool {
		nodes := tc.alive()
		for _, n := range nodes {
			if n.c.State().Index != nodes[0].c.State().Index {
				return false
			}
		}
		return true
	})
	nodes := tc.alive()
	for _, n := range nodes[1:] {
		a, b := nodes[0].c.State(), n.c.State()
		if a.Index == b.Index && a.Hash() != b.Hash() {
			tc.Errorf("V32: nodes %d and %d differ at index %d", nodes[0].id, n.id, a.Index)
		}
	}
}

func (n *testNode) suffrage(id raft.ServerID) (raft.ServerSuffrage, bool) {
	for _, s := range servers(n.c.member.Load().raft) {
		if s.ID == id {
			return s.Suffrage, true
		}
	}
	return 0, false
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}
