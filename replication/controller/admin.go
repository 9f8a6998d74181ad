package controller

import (
	"context"
	"fmt"
	"slices"

	"highwater/replication/wire"
)

// RemoveBroker forgets a broker that is down for good; its replicas stay assigned
// until ReplaceBroker gives them to another. force does so even if that broker may
// hold the only whole copy of something. Errors: *RefusedError,
// *StaleBrokerEpochError when there is no such broker.
func (c *Controller) RemoveBroker(ctx context.Context, id int32, force bool) error {
	b := c.State().Brokers[id]
	if b == nil {
		return &StaleBrokerEpochError{Broker: id}
	}
	_, err := c.propose(ctx, &RemoveBroker{ID: id, Epoch: b.Epoch, Force: force})
	return err
}

// ReplaceBroker begins to give every replica of one broker to another: the new one
// catches up first, then the old one's replicas go (R82). It returns how many
// partitions that concerns. It may be asked for again, and then begins what is
// left. Errors: *ImpossibleError,
// *RefusedError.
func (c *Controller) ReplaceBroker(ctx context.Context, from, to int32) (int, error) {
	s := c.State()
	if _, ok := s.Eligible(to); !ok || from == to {
		return 0, &ImpossibleError{Reason: fmt.Sprintf("broker %d is not up, so it can't take over from broker %d", to, from)}
	}
	var items []Reassignment
	for t := range s.Topics() {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			target := minus(p.Replicas, p.Removing)
			at := slices.Index(target, from)
			if at < 0 {
				continue
			}
			if slices.Contains(target, to) {
				return 0, &ImpossibleError{Reason: fmt.Sprintf("broker %d has a replica of %s-%d already, so it can't take over broker %d's", to, t.Name, i, from)}
			}
			target = slices.Clone(target)
			target[at] = to
			items = append(items, Reassignment{Topic: t.ID, Partition: int32(i), Replicas: target})
		}
	}
	if len(items) == 0 {
		return 0, nil
	}
	_, err := c.propose(ctx, &Reassign{Items: items})
	return len(items), err
}

// Reassign gives one partition other replicas, as many as it has, or with none
// takes back what is under way (R82). Errors: *UnknownTopicError, *RefusedError.
func (c *Controller) Reassign(ctx context.Context, topic string, partition int32, replicas []int32) error {
	t, ok := c.State().Topic(topic)
	if !ok {
		return &UnknownTopicError{Topic: topic}
	}
	_, err := c.propose(ctx, &Reassign{Items: []Reassignment{{Topic: t.ID, Partition: partition, Replicas: replicas}}})
	return renameUnknown(err, topic)
}

// ElectLeader makes a replica the leader: one in sync (R81), or with unclean any
// that is up, of a partition that has no leader; what it lacks is lost (R79).
// Errors: *UnknownTopicError, *RefusedError.
func (c *Controller) ElectLeader(ctx context.Context, topic string, partition, broker int32, unclean bool) error {
	t, ok := c.State().Topic(topic)
	if !ok {
		return &UnknownTopicError{Topic: topic}
	}
	_, err := c.propose(ctx, &ElectLeader{Topic: t.ID, Partition: partition, Broker: broker, Unclean: unclean})
	return renameUnknown(err, topic)
}

// DropReplicas tells the quorum that this broker's copies of these partitions are
// damaged: they leave ISR and ELR, and where this broker leads, another one takes
// over (S7). The answer has a result for each; CodeIneligibleReplica: nobody else
// can lead, and nothing changed.
func (c *Controller) DropReplicas(ctx context.Context, partitions []wire.TopicPartition) ([]wire.AlterResult, error) {
	res, err := c.propose(ctx, &DropReplicas{Broker: c.cfg.NodeID, Epoch: c.BrokerEpoch(), Partitions: partitions})
	return alterResults(res, err, len(partitions))
}

// FinalizeProtocol has the whole cluster speak a version of wire that all brokers
// know; from then on a broker that doesn't know it can't register (R100). Errors:
// *RefusedError.
func (c *Controller) FinalizeProtocol(ctx context.Context, version int) error {
	_, err := c.propose(ctx, &FinalizeProtocol{Version: version})
	return err
}
