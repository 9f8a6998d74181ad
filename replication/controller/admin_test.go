package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"highwater/replication/wire"
)

// reassigning counts the partitions whose replicas are being exchanged.
func reassigning(s *State) (n int) {
	for t := range s.Topics() {
		for i := range t.Partitions {
			if len(t.Partitions[i].Adding)+len(t.Partitions[i].Removing) > 0 {
				n++
			}
		}
	}
	return n
}

// What an operator asks for, against a real quorum of one whose other brokers are
// registered by hand.
func TestAdministration(t *testing.T) {
	c := open(t, Config{Dir: t.TempDir(), NodeID: 1, SessionTimeout: time.Hour})
	start(t, c)
	ctx := context.Background()
	must := func(cmd Command) any {
		t.Helper()
		res, err := c.propose(ctx, cmd)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	up := func(id int32, fenced bool) {
		t.Helper()
		must(&SetBroker{ID: id, Epoch: c.State().Brokers[id].Epoch, Fenced: fenced})
	}
	for id := int32(2); id <= 4; id++ {
		must(&RegisterBroker{ID: id, Incarnation: uuid.New(), URL: "u"})
		up(id, false)
	}
	partition := func(topic string, i int) *Partition {
		found, ok := c.State().Topic(topic)
		if !ok {
			t.Fatalf("no topic %s", topic)
		}
		return &found.Partitions[i]
	}
	topic := must(&CreateTopic{Name: "a", ID: uuid.New(), MinInSync: 1, Replicas: [][]int32{{1, 2, 3}, {3, 1, 2}, {2, 1, 4}}}).(*Topic)
	must(&CreateTopic{Name: "b", ID: uuid.New(), Replicas: [][]int32{{1, 2}}})

	var refused *RefusedError
	var impossible *ImpossibleError
	var unknown *UnknownTopicError
	var stale *StaleBrokerEpochError

	// A leader by hand.
	if err := c.ElectLeader(ctx, "a", 0, 2, false); err != nil || partition("a", 0).Leader != 2 {
		t.Errorf("R81: %v, %+v", err, partition("a", 0))
	}
	if err := c.ElectLeader(ctx, "a", 0, 4, false); !errors.As(err, &refused) || refused.Code != wire.CodeIneligibleReplica {
		t.Errorf("no replica: %v", err)
	}
	if err := c.ElectLeader(ctx, "x", 0, 1, false); !errors.As(err, &unknown) || unknown.Topic != "x" {
		t.Errorf("no topic: %v", err)
	}
	if err := c.ElectLeader(ctx, "a", 9, 1, false); !errors.As(err, &unknown) || unknown.Topic != "a" {
		t.Errorf("no partition: %v", err)
	}

	// Broker 3 is gone for good.
	if err := c.RemoveBroker(ctx, 3, false); !errors.As(err, &refused) || !strings.Contains(refused.Reason, "alive") {
		t.Errorf("alive: %v", err)
	}
	up(3, true)
	if err := errors.Join(c.RemoveBroker(ctx, 3, false)); err != nil || c.State().Brokers[3] != nil {
		t.Fatalf("%v", err)
	}
	if err := c.RemoveBroker(ctx, 3, false); !errors.As(err, &stale) {
		t.Errorf("once more: %v", err)
	}
	for _, pair := range [][2]int32{{3, 3}, {3, 9}, {1, 2}} {
		if n, err := c.ReplaceBroker(ctx, pair[0], pair[1]); n != 0 || !errors.As(err, &impossible) {
			t.Errorf("replace %v: %d, %v", pair, n, err)
		}
	}
	if n, err := c.ReplaceBroker(ctx, 3, 4); n != 2 || err != nil || reassigning(c.State()) != 2 {
		t.Fatalf("%d, %v, %d under way", n, err, reassigning(c.State()))
	}
	if n, err := c.ReplaceBroker(ctx, 3, 4); n != 0 || err != nil {
		t.Errorf("asked for again: %d, %v", n, err)
	}
	if p := partition("a", 1); !slices.Equal(p.Replicas, []int32{4, 1, 2, 3}) || !slices.Equal(p.Adding, []int32{4}) || !slices.Equal(p.Removing, []int32{3}) {
		t.Errorf("R82: %+v", p)
	}
	for i := range 2 {
		p := partition("a", i)
		change := wire.AlterPartition{Topic: topic.ID, Partition: int32(i), LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch}
		for _, id := range append(slices.Clip(p.ISR), 4) {
			epoch, _ := c.State().Eligible(id)
			change.ISR = append(change.ISR, wire.Member{Broker: id, Epoch: epoch})
		}
		leader, _ := c.State().Eligible(p.Leader)
		res := must(&AlterPartitions{Broker: p.Leader, Epoch: leader, Changes: []wire.AlterPartition{change}}).([]wire.AlterResult)
		if res[0].Code != wire.OK || !slices.Contains(res[0].ISR, 4) {
			t.Errorf("partition %d: %+v", i, res)
		}
	}
	if p := partition("a", 1); reassigning(c.State()) != 0 || !slices.Equal(p.Replicas, []int32{4, 1, 2}) {
		t.Errorf("R82: %+v", p)
	}

	// One partition, there and back.
	if err := c.Reassign(ctx, "b", 0, []int32{4, 2}); err != nil || !slices.Equal(partition("b", 0).Adding, []int32{4}) {
		t.Errorf("%v, %+v", err, partition("b", 0))
	}
	if err := c.Reassign(ctx, "b", 0, nil); err != nil || !slices.Equal(partition("b", 0).Replicas, []int32{2, 1}) {
		t.Errorf("%v, %+v", err, partition("b", 0))
	}
	if err := c.Reassign(ctx, "b", 0, nil); !errors.As(err, &refused) {
		t.Errorf("nothing to take back: %v", err)
	}
	if err := c.Reassign(ctx, "x", 0, nil); !errors.As(err, &unknown) || unknown.Topic != "x" {
		t.Errorf("no topic: %v", err)
	}

	// This broker's copies are damaged.
	res, err := c.DropReplicas(ctx, []wire.TopicPartition{{Topic: topic.ID, Partition: 2}, {Topic: uuid.New()}})
	if err != nil || len(res) != 2 || res[0].Code != wire.OK || res[1].Code != wire.CodeUnknownTopicID || slices.Contains(partition("a", 2).ISR, 1) {
		t.Errorf("S7: %v, %v", res, err)
	}
	if err := c.FinalizeProtocol(ctx, 2); !errors.As(err, &refused) || refused.Code != wire.CodeVersion {
		t.Errorf("R100: %v", err)
	}
	if err := c.RemoveBroker(ctx, 1, true); !errors.As(err, &refused) {
		t.Errorf("the only voter: %v", err)
	}
	if err := checkInvariants(c.State()); err != nil {
		t.Error(err)
	}
}
