package controller

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"highwater/replication/wire"
)

func TestF34_OfTwoProcessesWithOneIdOneEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
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
		copied.cfg = func(c *Config) { c.NodeID = first.id }
		if err := tc.up(8); !errors.As(err, new(*DuplicateBrokerError)) {
			t.Errorf("a copy at another address while the first lives: %v", err)
		}
		tc.net.isolate(first.url)
		tc.net.cut(copied.url, first.url)
		tc.eventually("the first is fenced", func() bool {
			b := others[1].c.State().Brokers[first.id]
			return b != nil && b.Fenced
		})
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
	})
}

// A copy of the quorum leader's directory that was started with the leader's flags
// has the leader's id and address: to the others it is the leader, whose elections
// they take part in.
func TestF34_ACopyOfTheLeaderIsNotElected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tc := startCluster(t, 3)
		leader := tc.leader()
		tc.stop(leader.id)
		copied := tc.add(8)
		copyDir(t, leader.dir, copied.dir)
		tc.upAll(leader.id)
		_, others := tc.followers()
		// It has to be the leader again, as it was when the copy was made.
		tc.eventually("leadership is back", func() bool {
			if now := tc.leader(); now != leader {
				now.c.handOver(now.c.member.Load())
			}
			return tc.leader() == leader
		})
		epoch, term := leader.c.BrokerEpoch(), leader.c.Quorum().Term
		c, err := Open(Config{Dir: copied.dir, NodeID: leader.id, URL: leader.url, Version: "test", Logger: zerolog.Nop(), Cluster: tc.list,
			Peers: link{tc.net, leader.url}, Stream: &streamEnd{net: tc.net, url: leader.url, done: make(chan struct{})}, Clock: tc.clock})
		if !errors.As(err, new(*DuplicateBrokerError)) {
			t.Errorf("F34: a copy at the same address: %v", err)
		}
		if err == nil {
			t.Fatal(c.Close())
		}
		if got := others[0].c.Quorum(); got.Term != term || got.Leader != leader.id || others[0].c.State().Brokers[leader.id].Epoch != epoch {
			t.Errorf("the copy was noticed: %+v", got)
		}
	})
}

func TestF35_AFormerLifeIsRefusedEverywhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
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
	})
}
