package replication

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"highwater/replication/controller"
	"highwater/replication/group"
	"highwater/replication/wire"
)

// groupRoom is a broker's groups, in a testCluster.
type groupRoom struct {
	*group.Groups
	m      *member
	caller *testCaller
	stop   func() // ends coordinating, as server does before the broker closes
}

// inGroupCluster runs a test with three brokers that forward and know groups. All
// groups are in one partition, which broker 1 leads first; topic t has four.
func inGroupCluster(t *testing.T, test func(c *groupCluster)) {
	t.Helper()
	net := &forwardNet{}
	inCluster(t, inForwardingCluster(net), func(c *testCluster) {
		g := &groupCluster{testCluster: c, net: net}
		c.create(group.Topic, 2, all)
		c.create("t", 2, all, []int32{2, 3, 1}, []int32{3, 1, 2}, all)
		for _, m := range c.members {
			g.open(m)
		}
		test(g)
		for _, m := range c.members {
			c.links(m.id, true)
		}
		net.faults(nil)
	})
}

type groupCluster struct {
	*testCluster
	net *forwardNet
}

// open gives a broker its groups.
func (c *groupCluster) open(m *member) {
	caller := &testCaller{peers: testPeers{m}, net: c.net}
	r := &groupRoom{m: m, caller: caller}
	r.Groups = group.New(group.Config{NodeID: m.id, Log: m.GroupLog(), Metadata: m.cfg.Controller, Peers: r, Errors: GroupErrors{}, Logger: m.cfg.Logger})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.check(r.Run(ctx))
	}()
	r.stop = func() {
		cancel()
		<-ended
	}
	m.groups = r
}

// restart has a broker that was stopped come back.
func (c *groupCluster) restart(id int32) {
	c.t.Helper()
	c.broker(id).start()
	c.open(c.broker(id))
}

func (r *groupRoom) GroupCall(ctx context.Context, url string, req *wire.GroupCall) (*wire.GroupAnswer, error) {
	return callJSON[wire.GroupCall, wire.GroupAnswer](ctx, r.caller, url, wire.PathGroupCall, req)
}

func (r *groupRoom) GroupBeat(ctx context.Context, url string, req *wire.GroupBeat) (*wire.GroupBeatAnswer, error) {
	return callJSON[wire.GroupBeat, wire.GroupBeatAnswer](ctx, r.caller, url, wire.PathGroupBeat, req)
}

func (r *groupRoom) GroupList(ctx context.Context, url string, req *wire.GroupList) (*wire.GroupListAnswer, error) {
	return callJSON[wire.GroupList, wire.GroupListAnswer](ctx, r.caller, url, wire.PathGroupList, req)
}

func callJSON[Q, A any](ctx context.Context, c *testCaller, url, path string, req *Q) (*A, error) {
	answer := &wire.JSON[A]{}
	if err := c.Call(ctx, url, path, 0, &wire.JSON[Q]{V: req}, answer, nil); err != nil {
		return nil, err
	}
	return answer.V, nil
}

func (r *groupRoom) serve(ctx context.Context, path string, request []byte) ([]byte, error) {
	switch path {
	case wire.PathGroupCall:
		return serveJSON(request, func(req *wire.GroupCall) *wire.GroupAnswer { return r.ServeCall(ctx, req) })
	case wire.PathGroupBeat:
		return serveJSON(request, func(req *wire.GroupBeat) *wire.GroupBeatAnswer { return r.ServeBeat(ctx, req) })
	case wire.PathGroupList:
		return serveJSON(request, func(req *wire.GroupList) *wire.GroupListAnswer { return r.ServeList(ctx, req) })
	}
	return nil, fmt.Errorf("no path %s", path)
}

// do has a call done by way of a broker, within a time.
func (c *groupCluster) do(front int32, most time.Duration, call group.Call) (*group.Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	call.Group = "g"
	return c.broker(front).groups.Do(ctx, &call)
}

// must does a call that has to succeed.
func (c *groupCluster) done(front int32, call group.Call) *group.Answer {
	c.t.Helper()
	answer, err := c.do(front, 20*time.Second, call)
	c.must(err)
	return answer
}

// join makes a member with a subscription to t.
func (c *groupCluster) join(front int32, name string, change ...func(*group.Options)) {
	c.t.Helper()
	o := group.Options{Reset: group.ResetEarliest, SessionTimeout: time.Minute, RequestTimeout: time.Second, MinBytes: 1}
	for _, f := range change {
		f(&o)
	}
	c.done(front, group.Call{Create: &group.Create{Name: name, Options: o}})
	c.done(front, group.Call{Subscribe: &group.Subscribe{Instance: name, Topics: []string{"t"}}})
}

func sessionOf(d time.Duration) func(*group.Options) {
	return func(o *group.Options) { o.SessionTimeout = d }
}

// poll begins a poll by way of a broker.
func (c *groupCluster) poll(front int32, name string, most time.Duration) (*group.Poll, error) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	return c.broker(front).groups.Poll(ctx, "g", group.Begin{Instance: name, WaitMs: most.Milliseconds()})
}

func (c *groupCluster) polling(front int32, name string) *group.Poll {
	c.t.Helper()
	p, err := c.poll(front, name, 20*time.Second)
	c.must(err)
	return p
}

func (c *groupCluster) end(p *group.Poll) {
	c.t.Helper()
	c.must(p.End(context.Background(), true, nil))
}

// commit commits an offset of t-0 for a member, or of the group when name is "".
func commit(c *groupCluster, name string, offset int64) group.Call {
	return group.Call{ID: uuid.New(), Commit: &group.Commit{Instance: name, Offsets: []group.CommitOffset{
		{Position: group.Position{TopicPartition: group.TopicPartition{Topic: "t", TopicID: c.topicID("t")}, Offset: offset, LeaderEpoch: -1}}}}}
}

// committed is the committed offset of t-0 as one broker tells it, -1 if there is none.
func (c *groupCluster) committedAt(front int32, most time.Duration) (int64, error) {
	answer, err := c.do(front, most, group.Call{Committed: &group.Committed{}})
	if err != nil {
		return 0, err
	}
	for _, o := range answer.Offsets {
		if o.Partition == 0 {
			return o.Offset, nil
		}
	}
	return -1, nil
}

// is fails unless every broker tells this committed offset.
func (c *groupCluster) is(want int64, fronts ...int32) {
	c.t.Helper()
	for _, id := range fronts {
		if got, err := c.committedAt(id, 20*time.Second); err != nil || got != want {
			c.t.Errorf("broker %d tells %d committed (%v), want %d", id, got, err, want)
		}
	}
}

// lead has a broker lead the partition of the groups.
func (c *groupCluster) lead(id int32) {
	c.t.Helper()
	t, ok := c.truth.State().Topic(group.Topic)
	if !ok {
		c.t.Fatal("no topic for groups")
	}
	if err, ok := c.apply(&controller.ElectLeader{Topic: t.ID, Partition: 0, Broker: id}).(error); ok {
		c.t.Fatal(err)
	}
}

// refused fails unless err says that nothing was done for want of a coordinator.
func (c *groupCluster) refused(what string, err error) {
	c.t.Helper()
	if !errors.Is(err, group.ErrNoCoordinator) {
		c.t.Errorf("%s: %v, want no coordinator", what, err)
	}
}
