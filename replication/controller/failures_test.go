package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"highwater/replication/wire"
)

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

func TestF28_WithoutAQuorumNothingChangesAndAllHeals(t *testing.T) {
	t.Parallel()
	tc := startCluster(t, 3)
	topic := tc.create(1, "a", 3, 3)
	tc.sameState()
	_, others := tc.followers()
	n := others[0]
	before := map[int32]int64{}
	for _, node := range tc.alive() {
		before[node.id] = node.c.BrokerEpoch()
	}
	for _, node := range tc.alive() {
		tc.net.isolate(node.url)
	}
	tc.eventually("no session", func() bool { return !n.c.SessionValid() })
	tc.eventually("no leader", func() bool {
		for _, node := range tc.alive() {
			if node.c.leading() != nil {
				return false
			}
		}
		return true
	})
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if _, err := n.c.CreateTopic(ctx, CreateTopicRequest{Name: "b", Partitions: 1, ReplicationFactor: 1}); !errors.Is(err, ErrNoController) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a topic without a quorum: %v", err)
	}
	p := topic.Partitions[0]
	ctx, cancel = context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	change := wire.AlterPartition{Topic: topic.ID, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, ISR: []wire.Member{{Broker: n.id, Epoch: n.c.BrokerEpoch()}}}
	if _, err := n.c.AlterPartitions(ctx, []wire.AlterPartition{change}); !errors.Is(err, ErrNoController) {
		t.Errorf("an ISR change without a quorum: %v", err)
	}
	for _, node := range tc.alive() {
		got, _ := node.c.State().TopicByID(topic.ID)
		for i := range got.Partitions {
			if !slices.Equal(got.Partitions[i].ISR, topic.Partitions[i].ISR) || got.Partitions[i].LeaderEpoch != topic.Partitions[i].LeaderEpoch {
				t.Errorf("broker %d: partition %d changed: %+v", node.id, i, got.Partitions[i])
			}
		}
	}
	tc.net.heal()
	tc.create(n.id, "c", 1, 3)
	tc.eventually("all sessions", func() bool {
		for _, node := range tc.alive() {
			if !node.c.SessionValid() {
				return false
			}
		}
		return true
	})
	for _, node := range tc.alive() {
		if node.c.BrokerEpoch() != before[node.id] {
			t.Errorf("broker %d had to begin a new life", node.id)
		}
	}
	tc.sameState()
}

// A leader that was away, with sessions that look over to it, fences nobody when
// it is back; and the one that leads meanwhile gave everybody a whole session.
func TestF29_ALeaderThatWasAwayFencesNobody(t *testing.T) {
	t.Parallel()
	tc := startCluster(t, 3)
	old, others := tc.followers()
	term := *old.c.leading()
	tc.net.isolate(old.url)
	next := tc.leaderOf([]int32{others[0].id, others[1].id})
	// What the old one would do with a clock that ran on meanwhile.
	term.clock = func() time.Duration { return old.c.clock() + time.Hour }
	old.c.fenceExpired(&term, time.Hour)
	tc.net.heal()
	old.c.fenceExpired(&term, time.Hour)
	tc.eventually("all have sessions", func() bool {
		return old.c.SessionValid() && others[0].c.SessionValid() && others[1].c.SessionValid()
	})
	for _, id := range []int32{others[0].id, others[1].id} {
		for _, n := range tc.alive() {
			if n.c.State().Brokers[id].Fenced {
				t.Errorf("broker %d was fenced", id)
			}
		}
	}
	if next == old {
		t.Error("nobody else led")
	}
	tc.sameState()
}

func TestF30_AHungDiskOfTheLeaderEndsIt(t *testing.T) {
	t.Parallel()
	tc := startCluster(t, 3)
	leader, others := tc.followers()
	m := leader.c.member.Load()
	hang := make(chan struct{})
	defer close(hang)
	m.store.mu.Lock()
	m.store.raftStore = &flakyStore{raftStore: m.store.raftStore, hang: hang}
	m.store.timeout = 300 * time.Millisecond
	m.store.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := leader.c.CreateTopic(ctx, CreateTopicRequest{Name: "a", Partitions: 1, ReplicationFactor: 1}); err == nil {
		t.Error("a disk that hangs took a topic")
	}
	select {
	case err := <-leader.ran:
		if !errors.Is(err, ErrStoreFailed) || !errors.Is(err, errStoreHung) {
			t.Errorf("K13: Run: %v", err)
		}
	case <-ctx.Done():
		t.Fatal("K13: the leader goes on")
	}
	tc.create(others[0].id, "b", 1, 1)
	leader.cancel()
	_ = leader.c.Close() // bounded: the hung write may never come back
	tc.net.remove(leader.url)
	leader.c = nil
}

func TestF34_OfTwoProcessesWithOneIdOneEnds(t *testing.T) {
	t.Parallel()
	tc := startCluster(t, 3)
	_, others := tc.followers()
	first := others[0]
	// A second one, with a directory of its own, is refused while the first lives.
	second := tc.add(9)
	second.cfg = func(c *Config) {
		c.NodeID, c.Cluster, c.Join = first.id, nil, []string{others[1].url}
		c.SessionTimeout = 50 * time.Millisecond // its own patience
	}
	if err := tc.up(9); !errors.As(err, new(*DuplicateBrokerError)) {
		t.Errorf("R67: a second broker %d: %v", first.id, err)
	}
	tc.kill(9)
	select {
	case err := <-first.ran:
		t.Fatalf("the first ended: %v", err)
	default:
	}
	// A copy of its directory, made while it was stopped, has even the same member
	// id. The first is cut off until it seems dead; the copy takes over; the first
	// comes back, hears that its life is over, and ends.
	copied := tc.add(8)
	tc.kill(first.id)
	copyDir(t, first.dir, copied.dir)
	tc.upAll(first.id)
	tc.net.isolate(first.url)
	tc.eventually("the first is fenced", func() bool {
		b := others[1].c.State().Brokers[first.id]
		return b != nil && b.Fenced
	})
	copied.cfg = func(c *Config) { c.NodeID = first.id }
	if err := tc.up(8); err != nil {
		t.Fatalf("after the session ended: %v", err)
	}
	tc.net.heal()
	select {
	case err := <-first.ran:
		stale := (*StaleBrokerEpochError)(nil)
		if !errors.As(err, &stale) || stale.Broker != first.id || stale.Epoch != first.c.BrokerEpoch() {
			t.Errorf("R68: the first ends with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("R68: the first goes on")
	}
	if first.c.SessionValid() && first.c.State().Brokers[first.id].Epoch != first.c.BrokerEpoch() {
		t.Error("R59: the first still counts itself valid")
	}
}

func TestF35_AFormerLifeIsRefusedEverywhere(t *testing.T) {
	t.Parallel()
	tc := startCluster(t, 3)
	_, others := tc.followers()
	n := others[0]
	old := n.c.BrokerEpoch()
	topic := tc.create(n.id, "a", 1, 3)
	tc.kill(n.id)
	tc.upAll(n.id)
	ctx := context.Background()
	hb := &wire.Heartbeat{Version: wire.Version, Broker: n.id, BrokerEpoch: old, MetadataIndex: 1 << 40}
	if got := tc.heartbeat(hb); got.Code != wire.CodeStaleBrokerEpoch {
		t.Errorf("heartbeat: %+v", got)
	}
	p := topic.Partitions[0]
	_, err := n.c.propose(ctx, &AlterPartitions{Broker: n.id, Epoch: old, Changes: []wire.AlterPartition{{Topic: topic.ID, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch}}})
	if !errors.As(err, new(*StaleBrokerEpochError)) {
		t.Errorf("ISR change: %v", err)
	}
	if _, err := n.c.propose(ctx, &SetBroker{ID: n.id, Epoch: old}); !errors.As(err, new(*StaleBrokerEpochError)) {
		t.Errorf("unfencing: %v", err)
	}
}

// F70 (hashicorp/raft#697): a member whose log parted from the quorum's gets a
// snapshot that ends where its own log does. raft 1.7.3 would ask for it again and
// again.
func TestF70_ASnapshotOverALogThatParted(t *testing.T) {
	t.Parallel()
	for _, beyond := range []int{0, 3} { // entries of its own behind the snapshot's end
		t.Run(fmt.Sprint(beyond), func(t *testing.T) {
			tc := newCluster(t, 3)
			var none uint64
			for _, n := range tc.nodes {
				n.cfg = func(c *Config) { c.trailingLogs = &none }
			}
			tc.upAll(1, 2, 3)
			tc.create(1, "a", 1, 1)
			leader, others := tc.followers()
			n := others[0]
			tc.kill(n.id)
			// What it writes of its own is of this term, all else of the next.
			if leader.c.handOver(leader.c.member.Load()); leader.c.member.Load().raft.State() == raft.Leader {
				t.Fatal("no other leader")
			}
			for i := range 5 {
				tc.create(leader.id, fmt.Sprintf("b%d", i), 1, 1)
			}
			leader = tc.leader()
			for _, up := range tc.alive() { // none has the log any more
				if err := up.c.member.Load().raft.Snapshot().Error(); err != nil {
					t.Fatal(err)
				}
			}
			end := leader.c.member.Load().raft.LastIndex()
			part(t, n.dir, end+uint64(beyond))
			tc.upAll(n.id)
			if _, ok := n.c.State().Topic("b4"); !ok {
				t.Error("it lacks what the snapshot has")
			}
			tc.create(n.id, "c", 1, 1)
			tc.sameState()
			// And it votes by what it has now.
			tc.kill(others[1].id)
			tc.create(n.id, "d", 1, 1)
		})
	}
}

// part writes entries of a lost term behind a dead member's log.
func part(t *testing.T, dir string, to uint64) {
	t.Helper()
	d := &raftDir{path: dir}
	file, err := d.openStore()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	last, err := file.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	var log raft.Log
	if err := file.GetLog(last, &log); err != nil {
		t.Fatal(err)
	}
	for i := last + 1; i <= to; i++ {
		if err := file.StoreLog(&raft.Log{Index: i, Term: log.Term, Type: raft.LogCommand, Data: encode(&InitCluster{ClusterID: "lost"})}); err != nil {
			t.Fatal(err)
		}
	}
}

// However often the leader changes, there is one soon that does the work: a topic
// gets made, and a broker that died is fenced.
func TestH48_EveryElectedLeaderTakesUpItsWork(t *testing.T) {
	t.Parallel()
	rounds := 10
	if testing.Short() {
		rounds = 2
	}
	tc := startCluster(t, 3)
	for i := range rounds {
		leader, others := tc.followers()
		switch i % 3 {
		case 0: // cut off, and back
			tc.net.isolate(leader.url)
			tc.leaderOf([]int32{others[0].id, others[1].id})
			tc.net.heal()
		case 1: // dies
			tc.kill(leader.id)
			tc.create(others[0].id, fmt.Sprintf("dead%d", i), 1, 1)
			tc.eventually("the dead one is fenced", func() bool { return others[0].c.State().Brokers[leader.id].Fenced })
			tc.upAll(leader.id)
		case 2: // hands over
			if err := leader.c.member.Load().raft.LeadershipTransfer().Error(); err != nil {
				t.Logf("round %d: %v", i, err)
			}
		}
		for _, n := range tc.alive() {
			tc.create(n.id, fmt.Sprintf("t%d-%d", i, n.id), 1, 1)
		}
	}
	tc.sameState()
}

// R74: the leaderships of a broker that ends move first, and everybody knows.
func TestR74_AShutdownInOrderMovesLeaderships(t *testing.T) {
	t.Parallel()
	tc := startCluster(t, 3)
	topic := tc.create(1, "a", 9, 3)
	single := tc.create(1, "b", 3, 1)
	for _, id := range []int32{1, 2, 3} {
		n := tc.nodes[id]
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		if err := n.c.ControlledShutdown(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		for _, node := range tc.alive() {
			got, _ := node.c.State().TopicByID(topic.ID)
			for i, p := range got.Partitions {
				if p.Leader == id || p.Leader == NoLeader {
					t.Errorf("broker %d says that %d leads a-%d", node.id, p.Leader, i)
				}
			}
			alone, _ := node.c.State().TopicByID(single.ID)
			for i, p := range alone.Partitions {
				if p.Replicas[0] == id && p.Leader != id {
					t.Errorf("R74: b-%d, which nobody else has, is led by %d", i, p.Leader)
				}
			}
		}
		if !n.c.SessionValid() {
			t.Errorf("broker %d has no session while it drains", id)
		}
		tc.stop(id)
		tc.upAll(id)
		tc.eventually("it is back", func() bool {
			b := tc.nodes[1].c.State().Brokers[id]
			return !b.Fenced && !b.Draining
		})
		// Nobody fetches here: its place in the ISRs is proposed as a leader would.
		tc.rejoin(topic, id)
	}
	// The last broker has nobody to hand over to, and needn't wait for anybody.
	tc.kill(1)
	tc.kill(2)
}

// rejoin has every leader of the topic's partitions take a broker into its ISR, as
// often as it takes: what came of a proposal may be unknown.
func (tc *testCluster) rejoin(topic *Topic, id int32) {
	tc.Helper()
	for i := range topic.Partitions {
		tc.eventually(fmt.Sprintf("%d is in sync in a-%d", id, i), func() bool {
			s := tc.nodes[id].c.State()
			now, _ := s.TopicByID(topic.ID)
			p := now.Partitions[i]
			if slices.Contains(p.ISR, id) || p.Leader == NoLeader {
				return p.Leader != NoLeader
			}
			change := wire.AlterPartition{Topic: topic.ID, Partition: int32(i), LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch}
			for _, member := range append(slices.Clone(p.ISR), id) {
				change.ISR = append(change.ISR, wire.Member{Broker: member, Epoch: s.Brokers[member].Epoch})
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			got, err := tc.nodes[p.Leader].c.AlterPartitions(ctx, []wire.AlterPartition{change})
			if err != nil {
				tc.Logf("a-%d takes %d back: %v", i, id, err)
				return false
			}
			return got[0].Code == wire.OK && slices.Contains(got[0].ISR, id)
		})
	}
}

// A broker that is cut off counts itself out before anybody else leads in its
// place, also when the quorum's leader changes at that moment (R59).
func TestR59_TheLeaseOfALostBrokerEndsFirst(t *testing.T) {
	t.Parallel()
	tc := startCluster(t, 3)
	for round := range 4 {
		leader, others := tc.followers()
		victim, rest := others[0], []int32{others[1].id, leader.id}
		if round%2 == 1 {
			victim, rest = leader, []int32{others[0].id, others[1].id}
		}
		tc.eventually("a session", victim.c.SessionValid)
		// All have heard of the end of the round before: what they knew of it must not
		// be taken for this one's.
		tc.eventually("unfenced, as all know", func() bool {
			return !slices.ContainsFunc(rest, func(id int32) bool { return tc.nodes[id].c.State().Brokers[victim.id].Fenced })
		})
		tc.net.isolate(victim.url)
		tc.eventually("fenced", func() bool {
			for _, id := range rest {
				if b := tc.nodes[id].c.State().Brokers[victim.id]; b.Fenced {
					if victim.c.SessionValid() {
						t.Errorf("round %d: broker %d is fenced and counts itself in", round, victim.id)
					}
					return true
				}
			}
			return false
		})
		tc.net.heal()
		tc.eventually("back", func() bool { return victim.c.SessionValid() && !victim.c.State().Brokers[victim.id].Fenced })
	}
}

// A member that is down for long gets the log at once when it is back.
func TestAMemberThatIsBackGetsTheLogAtOnce(t *testing.T) {
	t.Parallel()
	tc := startCluster(t, 3)
	_, others := tc.followers()
	tc.kill(others[0].id)
	tc.create(others[1].id, "a", 1, 1)
	// The sender waits in one call, and gives it up with the term or the membership.
	var leader *testNode
	var m *member
	tc.eventually("a leader that waits for a member that is down", func() bool {
		leader = tc.leader()
		m = leader.c.member.Load()
		return leader.c.waitToRedial(m.peerOf(others[0].id), m.raft.CurrentTerm())
	})
	if leader.c.waitToRedial(m.peerOf(others[0].id), m.raft.CurrentTerm()-1) || leader.c.waitToRedial("9-x", m.raft.CurrentTerm()) {
		t.Error("it waits for a former term, or for no member")
	}
	tc.upAll(others[0].id)
	tc.sameState()
}

func (m *member) peerOf(broker int32) raft.ServerID {
	for _, s := range servers(m.raft) {
		if serverBroker(s.ID) == broker {
			return s.ID
		}
	}
	return ""
}

// The answer to a proposal is lost: where an id tells, what came of it is found
// out; where none does, that is said (K12).
func TestK12_AnAnswerThatIsLost(t *testing.T) {
	t.Parallel()
	tc := startCluster(t, 3)
	_, others := tc.followers()
	n := others[0]
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	topic := tc.create(n.id, "a", 1, 3)
	tc.net.deafen(n.url, true)
	p := topic.Partitions[0]
	change := wire.AlterPartition{Topic: topic.ID, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, ISR: []wire.Member{{Broker: p.Leader, Epoch: n.c.State().Brokers[p.Leader].Epoch}}}
	if _, err := n.c.AlterPartitions(ctx, []wire.AlterPartition{change}); !errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrNoController) {
		t.Errorf("R45: an ISR change: %v", err)
	}
	made, err := n.c.CreateTopic(ctx, CreateTopicRequest{Name: "b", Partitions: 1, ReplicationFactor: 1})
	if err != nil || made.Name != "b" {
		t.Errorf("a topic: %+v, %v", made, err)
	}
	if err := n.c.DeleteTopic(ctx, "b"); err != nil {
		t.Errorf("its end: %v", err)
	}
	if _, ok := n.c.State().Topic("b"); ok {
		t.Error("it is still there")
	}
	was := n.c.BrokerEpoch()
	tc.net.deafen(n.url, false)
	tc.kill(n.id)
	c, err := tc.openNode(n.id)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	tc.eventually("its former life is over", func() bool { return tc.leader().c.State().Brokers[n.id].Fenced })
	tc.net.deafen(n.url, true)
	if err := c.Register(ctx, Registration{Durable: true}); err != nil || c.BrokerEpoch() <= was || c.BrokerEpoch() != c.State().Brokers[n.id].Epoch {
		t.Errorf("registered: %v, epoch %d after %d", err, c.BrokerEpoch(), was)
	}
	tc.net.deafen(n.url, false)
	if err := c.Unfence(ctx); err != nil {
		t.Error(err)
	}
	tc.sameState()
}
