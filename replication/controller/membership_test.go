package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"

	"highwater/replication/wire"
)

// join adds a node that comes with --join.
func (tc *testCluster) join(id int32, by int32) *testNode {
	tc.Helper()
	n := tc.add(id)
	n.cfg = func(c *Config) { c.Cluster, c.Join = nil, []string{tc.nodes[by].url} }
	if err := tc.up(id); err != nil {
		tc.Fatalf("broker %d joins: %v", id, err)
	}
	return n
}

func TestK7_ABrokerJoinsWithoutAVote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tc := startCluster(t, 3)
		tc.create(1, "before", 4, 3)
		leader := tc.leader()
		follower := int32(1)
		if leader.id == 1 {
			follower = 2
		}
		n := tc.join(4, follower) // who doesn't lead says who does
		if _, ok := n.c.State().Topic("before"); !ok || n.c.State().ClusterID != leader.c.State().ClusterID {
			t.Error("the new member is up, but has not got the metadata")
		}
		if got := tc.create(4, "after", 4, 4); got.ReplicationFactor != 4 {
			t.Errorf("%+v", got)
		}
		if got, ok := n.suffrage(n.c.dir.server()); !ok || got != raft.Nonvoter {
			t.Errorf("suffrage %v, member %v", got, ok)
		}
		if q := n.c.Quorum(); !slices.Equal(q.Voters, []int32{1, 2, 3}) {
			t.Errorf("quorum %+v", q)
		}
		// It comes back without being told whom to join, and from another address.
		tc.kill(4)
		n.url, n.cfg = "http://elsewhere", func(c *Config) { c.Cluster = nil }
		if err := tc.up(4); err != nil {
			t.Fatalf("back: %v", err)
		}
		if got := tc.nodes[1].c.State().Brokers[4].URL; got != "http://elsewhere" {
			t.Errorf("registered at %s", got)
		}
		tc.create(4, "again", 1, 1)
		tc.sameState()
	})
}

func TestK7_AQuorumOfOneGetsMembers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tc := newCluster(t, 1)
		tc.nodes[1].cfg = func(c *Config) { c.Timing, c.Cluster = Timing{}, nil }
		if err := tc.up(1); err != nil {
			t.Fatal(err)
		}
		if got := tc.nodes[1].c.member.Load().raft.ReloadableConfig().HeartbeatTimeout; got != aloneTiming.Heartbeat {
			t.Errorf("alone: heartbeats within %s", got)
		}
		tc.join(2, 1)
		tc.create(2, "a", 2, 2)
		for range 2 {
			if got := tc.nodes[1].c.member.Load().raft.ReloadableConfig(); got.HeartbeatTimeout != othersTiming.Heartbeat || got.ElectionTimeout != othersTiming.Election {
				t.Errorf("with another: heartbeats within %s, elections after %s", got.HeartbeatTimeout, got.ElectionTimeout)
			}
			tc.kill(1)
			if err := tc.up(1); err != nil {
				t.Fatal(err)
			}
		}
		tc.create(2, "b", 2, 2)
		if q := tc.nodes[2].c.Quorum(); q.Leader != 1 || !slices.Equal(q.Voters, []int32{1}) {
			t.Errorf("quorum %+v", q)
		}
	})
}

// wipe loses a dead node's directory.
func (tc *testCluster) wipe(id int32) {
	tc.Helper()
	if err := os.RemoveAll(tc.nodes[id].dir); err != nil {
		tc.Fatal(err)
	}
}

func TestF71_AVoterThatLostItsDirectoryIsANewMember(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tc := startCluster(t, 3)
		tc.create(1, "a", 3, 3)
		old := tc.nodes[3].c.dir.server()
		tc.kill(3)
		tc.wipe(3)

		// As it was started before, it refuses and says how to mend it.
		lost := (*DirError)(nil)
		if err := tc.up(3); !errors.As(err, &lost) || !strings.Contains(lost.Fix, "--join http://node-") {
			t.Fatalf("a wiped voter: %v", err)
		}
		if err := tc.nodes[3].c.AcceptRaft(RaftTarget{URL: tc.nodes[3].url, Server: string(old)}); err == nil {
			t.Error("K9: it takes raft's messages to the voter that it was")
		}
		tc.kill(3)

		tc.nodes[3].cfg = func(c *Config) { c.Join = []string{nodeURL(1), nodeURL(2)} }
		if err := tc.up(3); err != nil {
			t.Fatal(err)
		}
		now := tc.nodes[3].c.dir.server()
		if now == old {
			t.Fatal("K9: the same member again")
		}
		tc.eventually("the vote is back", func() bool {
			s, ok := tc.nodes[1].suffrage(now)
			_, still := tc.nodes[1].suffrage(old)
			return ok && s == raft.Voter && !still
		})
		// And it counts: with the former leader gone, it is half of the rest.
		tc.sameState()
		gone := tc.leader().id
		if gone == 3 {
			gone = 1
		}
		tc.kill(gone)
		tc.create(3, "b", 1, 1)
		// It comes back as it is, however it is started.
		tc.upAll(gone)
		tc.kill(3)
		tc.nodes[3].cfg = nil
		tc.upAll(3)
		tc.sameState()
	})
}

// A member whose place was taken stays out, and hears why.
func TestK9_AnOldSelfDoesNotComeBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tc := startCluster(t, 3)
		tc.kill(3)
		oldDir := tc.nodes[3].dir
		tc.nodes[3].dir = tc.TempDir()
		tc.nodes[3].cfg = func(c *Config) { c.Join = []string{nodeURL(1)} }
		if err := tc.up(3); err != nil {
			t.Fatal(err)
		}
		other, err := Open(Config{Dir: oldDir, NodeID: 3, URL: "http://old", Cluster: tc.list, Peers: link{tc.net, "http://old"}, Stream: tc.net.listen("http://old"),
			SessionTimeout: 100 * time.Millisecond, Clock: tc.clock})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		tc.net.place("http://old", other)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := other.Connect(ctx); !errors.As(err, new(*DuplicateBrokerError)) {
			t.Errorf("the old self: %v", err)
		}
		tc.create(1, "a", 1, 1)
	})
}

func TestF37_NobodyEntersAnotherCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := startCluster(t, 1), newCluster(t, 1)
		b.net = a.net
		b.nodes[1].url, b.list[1] = "http://b", "http://b"
		if err := b.up(1); err != nil {
			t.Fatal(err)
		}
		before := a.nodes[1].c.State()
		stranger := b.nodes[1].c
		ctx := context.Background()
		hb := &wire.Heartbeat{Version: wire.Version, ClusterID: stranger.ClusterID(), Broker: 1, BrokerEpoch: a.nodes[1].c.BrokerEpoch()}
		if got := a.nodes[1].c.ServeHeartbeat(ctx, hb); got.Code != wire.CodeClusterID {
			t.Errorf("heartbeat: %+v", got)
		}
		cmd := encode(&DeleteTopic{ID: uuid.New()})
		if got := a.nodes[1].c.ServePropose(ctx, &wire.Propose{Version: wire.Version, ClusterID: stranger.ClusterID(), Command: cmd}); got.Code != wire.CodeClusterID {
			t.Errorf("propose: %+v", got)
		}
		if got := a.nodes[1].c.ServeJoin(ctx, &wire.Join{Version: wire.Version, ClusterID: stranger.ClusterID(), Broker: 9, Server: uuid.New()}); got.Code != wire.CodeClusterID {
			t.Errorf("join: %+v", got)
		}
		if err := a.nodes[1].c.AcceptRaft(RaftTarget{Server: string(a.nodes[1].c.dir.server()), ClusterID: stranger.ClusterID()}); err == nil {
			t.Error("raft's connection taken")
		}
		if got := a.nodes[1].c.ServeHeartbeat(ctx, &wire.Heartbeat{Version: 99}); got.Code != wire.CodeVersion {
			t.Errorf("R100: %+v", got)
		}
		// A member of one cluster that is sent to another says so and stays out.
		n := a.join(2, 1)
		a.kill(2)
		n.cfg = func(c *Config) { c.Cluster, c.Join = nil, []string{"http://b"} }
		a.kill(1)
		foreign := (*DirError)(nil)
		if err := a.up(2); !errors.As(err, &foreign) || !strings.Contains(foreign.Error(), "http://b") || !strings.Contains(foreign.Error(), before.ClusterID) {
			t.Errorf("in the wrong cluster: %v", err)
		}
		if got := before.ClusterID; got == stranger.ClusterID() || b.nodes[1].c.State().Brokers[2] != nil {
			t.Error("two clusters became one")
		}
	})
}

// Members change while links are cut and processes end. What was answered stays,
// and there is one quorum in the end (NATS lost acknowledged data this way).
func TestF72_MembersChangeWhileThingsFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rounds := 4
		if testing.Short() {
			rounds = 1
		}
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 2))
		tc := startCluster(t, 3)
		var made []string
		replaced := 0
		for round := range rounds {
			victim := int32(1 + r.IntN(3))
			tc.kill(victim)
			tc.wipe(victim)
			var helpers []string
			var ids []int32
			for _, n := range tc.alive() {
				helpers, ids = append(helpers, n.url), append(ids, n.id)
			}
			tc.nodes[victim].cfg = func(c *Config) { c.Join = helpers }
			came := make(chan error, 1)
			go func() { came <- tc.up(victim) }()
			// While it joins, the leader is cut off and comes back, once or twice.
			for range 1 + r.IntN(2) {
				leader := tc.leaderOf(ids)
				tc.net.isolate(leader.url)
				// With one wiped and one away nothing is decided; the topic may be, after that.
				back := time.AfterFunc(time.Duration(r.IntN(3000))*time.Millisecond, tc.net.heal)
				name := fmt.Sprintf("t%d-%d", round, len(made))
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(6000))*time.Millisecond)
				by := tc.nodes[ids[r.IntN(len(ids))]]
				if _, err := by.c.CreateTopic(ctx, CreateTopicRequest{Name: name, Partitions: 1, ReplicationFactor: 1}); err == nil {
					made = append(made, name)
				}
				<-ctx.Done()
				cancel()
				back.Stop()
				tc.net.heal()
			}
			if err := <-came; err != nil {
				t.Fatalf("seed %d: broker %d: %v", seed, victim, err)
			}
			now := tc.nodes[victim].c.dir.server()
			tc.eventually("the vote is back", func() bool {
				s, ok := tc.leader().suffrage(now)
				return ok && s == raft.Voter && len(tc.leader().c.Quorum().Voters) == 3
			})
			replaced++
			name := fmt.Sprintf("r%d", round)
			tc.create(victim, name, 1, 1)
			made = append(made, name)
		}
		tc.sameState()
		for _, name := range made {
			for _, n := range tc.alive() {
				if _, ok := n.c.State().Topic(name); !ok {
					t.Errorf("seed %d: broker %d lost %s, which was answered", seed, n.id, name)
				}
			}
		}
		t.Logf("%d members replaced, %d topics answered", replaced, len(made))
	})
}

// leaderOf waits for a leader among some nodes, which another goroutine doesn't touch.
func (tc *testCluster) leaderOf(ids []int32) (leader *testNode) {
	tc.Helper()
	tc.eventually("a leader", func() bool {
		for _, id := range ids {
			if tc.nodes[id].c.leading() != nil {
				leader = tc.nodes[id]
				return true
			}
		}
		return false
	})
	return leader
}

// All brokers come back at other addresses: the settings say where, the metadata don't.
func TestAllBrokersMove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tc := startCluster(t, 3)
		tc.create(1, "a", 1, 1)
		for id := range tc.nodes {
			tc.kill(id)
		}
		for id, n := range tc.nodes {
			n.url = fmt.Sprintf("http://moved-%d", id)
			tc.list[id] = n.url
		}
		tc.upAll(1, 2, 3)
		tc.create(2, "b", 1, 1)
		tc.sameState()
		for id := range tc.nodes {
			if got := tc.nodes[1].c.State().Brokers[id].URL; got != tc.nodes[id].url {
				t.Errorf("broker %d is registered at %s", id, got)
			}
		}
	})
}

func TestPartitionsWithoutMetadataMayJoinButNotFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tc := startCluster(t, 1)
		lost := (*DirError)(nil)
		_, err := Open(Config{Dir: t.TempDir(), NodeID: 2, PartitionsOnDisk: true, Cluster: map[int32]string{1: "http://a", 2: "http://b", 3: "http://c"}})
		if !errors.As(err, &lost) || !strings.Contains(lost.Fix, "--join") {
			t.Errorf("founding: %v", err)
		}
		n := tc.add(2)
		n.cfg = func(c *Config) { c.Cluster, c.Join, c.PartitionsOnDisk = nil, []string{nodeURL(1)}, true }
		if err := tc.up(2); err != nil {
			t.Errorf("joining: %v", err)
		}
		// Once a member, the file must be there.
		tc.kill(2)
		if err := os.Remove(filepath.Join(n.dir, raftFile)); err != nil {
			t.Fatal(err)
		}
		if err := tc.up(2); !errors.As(err, &lost) {
			t.Errorf("without %s: %v", raftFile, err)
		}
	})
}

func TestK7_AMemberWithoutABrokerLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tc := startCluster(t, 1)
		leader := tc.nodes[1]
		n := tc.add(2)
		n.cfg = func(c *Config) { c.Cluster, c.Join = nil, []string{leader.url} }
		c, err := tc.openNode(2)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := c.Connect(ctx); err != nil {
			t.Fatal(err)
		}
		id := c.dir.server()
		term := *leader.c.leading()
		now := term.clock()
		term.clock = func() time.Duration { return now }
		nobodys := map[raft.ServerID]time.Duration{}
		for _, after := range []time.Duration{0, nobodysGrace - 1} {
			now += after
			if err := leader.c.dismiss(&term, nobodys); err != nil {
				t.Fatal(err)
			}
			if _, ok := leader.suffrage(id); !ok {
				t.Fatalf("gone after %s", after)
			}
		}
		now++
		if err := leader.c.dismiss(&term, nobodys); err != nil {
			t.Fatal(err)
		}
		if _, ok := leader.suffrage(id); ok {
			t.Fatal("still a member")
		}
		// Alive after all, it comes back; with a broker it may stay.
		tc.kill(2)
		if err := tc.up(2); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := leader.c.dismiss(&term, nobodys); err != nil {
				t.Fatal(err)
			}
			now += nobodysGrace
		}
		if _, ok := leader.suffrage(id); !ok {
			t.Error("a registered broker's member is gone")
		}
	})
}

// A full quorum takes nobody more, but a member that lost its directory keeps its place.
func TestK7_AFullQuorum(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tc := startCluster(t, 1)
		leader := tc.nodes[1]
		for id := int32(2); id <= maxMembers; id++ {
			req := &wire.Join{Version: wire.Version, Broker: id, Server: uuid.New(), URL: nodeURL(id)}
			if got := leader.c.ServeJoin(context.Background(), req); got.Code != wire.OK {
				t.Fatalf("broker %d: %+v", id, got)
			}
		}
		for id, want := range map[int32]wire.Code{maxMembers: wire.OK, maxMembers + 1: wire.CodeInvalidRequest} {
			req := &wire.Join{Version: wire.Version, Broker: id, Server: uuid.New(), URL: nodeURL(id)}
			if got := leader.c.ServeJoin(context.Background(), req); got.Code != want {
				t.Errorf("broker %d: %+v", id, got)
			}
		}
	})
}
