package controller

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"highwater/replication/wire"
)

// The answer to a proposal is lost: where an id tells, what came of it is found
// out; where none does, that is said (K12).
func TestK12_AnAnswerThatIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
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
	})
}
