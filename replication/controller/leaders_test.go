package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"highwater/replication/wire"
)

func TestF28_WithoutAQuorumNothingChangesAndAllHeals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
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
	})
}

// A leader that was away, with sessions that look over to it, fences nobody when
// it is back; and the one that leads meanwhile gave everybody a whole session.
func TestF29_ALeaderThatWasAwayFencesNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
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
	})
}

func TestF30_AHungDiskOfTheLeaderEndsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
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
	})
}

// However often the leader changes, there is one soon that does the work: a topic
// gets made, and a broker that died is fenced.
func TestH48_EveryElectedLeaderTakesUpItsWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rounds := 30
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
					t.Errorf("round %d: %v", i, err)
				}
			}
			for _, n := range tc.alive() {
				tc.create(n.id, fmt.Sprintf("t%d-%d", i, n.id), 1, 1)
			}
		}
		tc.sameState()
	})
}
