package controller

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"highwater/replication/wire"
)

// R74: the leaderships of a broker that ends move first, and everybody knows.
func TestR74_AShutdownInOrderMovesLeaderships(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
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
	})
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
