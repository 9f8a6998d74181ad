package controller

import (
	"fmt"
	"slices"

	"highwater/replication/replica"
	"highwater/replication/wire"
)

func (c *AlterPartitions) apply(e *edit) any {
	if b := e.next.Brokers[c.Broker]; b == nil || b.Epoch != c.Epoch {
		return &StaleBrokerEpochError{Broker: c.Broker, Epoch: c.Epoch}
	}
	results := make([]wire.AlterResult, len(c.Changes))
	for i := range c.Changes {
		results[i] = e.alterPartition(c.Broker, &c.Changes[i])
	}
	return results
}

// alterPartition judges and makes one change of an ISR. Both epochs are compared
// here, so of two proposals made from one state the second fails (R44, V31). The
// ISR that there is already is a success, too (R45), and uses up the partition
// epoch: so a leader makes sure that a copy of an earlier proposal, which may still
// be under way, comes to nothing.
func (e *edit) alterPartition(leader int32, change *wire.AlterPartition) wire.AlterResult {
	t, p := e.partition(change.Topic, change.Partition)
	if p == nil {
		return wire.AlterResult{Code: wire.CodeUnknownTopicID}
	}
	isr := make([]int32, len(change.ISR))
	for i, m := range change.ISR {
		isr[i] = m.Broker
	}
	if code := e.judge(p, leader, change, isr); code != wire.OK {
		return p.result(code)
	}
	isr = inOrder(p.Replicas, isr)
	_, p = e.update(t, change.Partition, func(p *Partition) {
		p.Recovering = p.Recovering && !change.Recovered
		if sameMembers(p.ISR, isr) {
			p.PartitionEpoch++ // nothing else may be new
			return
		}
		p.ELR = slices.Concat(minus(p.ELR, isr), minus(p.ISR, isr)) // R77: see leave
		p.ISR, p.LastKnownELR = isr, minus(p.LastKnownELR, isr)
	})
	if p.Leader != leader {
		// The change let a draining leader go (R74), or completed a reassignment
		// without it: whoever asked leads no more, and is to hear nothing else.
		return p.result(wire.CodeFencedLeaderEpoch)
	}
	return p.result(wire.OK)
}

// judge is R44, in its order. Epochs higher than the state's can't be: whoever
// told them to the leader was no member of this quorum, or this one is stale.
func (e *edit) judge(p *Partition, leader int32, change *wire.AlterPartition, isr []int32) wire.Code {
	switch {
	case change.LeaderEpoch > p.LeaderEpoch || change.PartitionEpoch > p.PartitionEpoch:
		return wire.CodeNotController
	case change.LeaderEpoch < p.LeaderEpoch:
		return wire.CodeFencedLeaderEpoch
	case p.Leader != leader:
		return wire.CodeInvalidRequest
	case change.PartitionEpoch < p.PartitionEpoch:
		return wire.CodeInvalidUpdateVersion
	case !slices.Contains(isr, leader) || len(minus(isr, p.Replicas)) > 0 || repeats(isr):
		return wire.CodeInvalidRequest
	case p.Recovering && !change.Recovered && len(isr) > 1: // R79
		return wire.CodeInvalidRequest
	}
	if e.next.mutation&replica.NoR44 != 0 {
		return wire.OK
	}
	for _, m := range change.ISR {
		epoch, ok := e.next.Eligible(m.Broker)
		if m.Broker == leader {
			ok = true // its life was compared, it isn't fenced as it leads, and it may drain (R75)
		}
		if !ok || m.Epoch != epoch {
			return wire.CodeIneligibleReplica
		}
	}
	return wire.OK
}

func (p *Partition) result(code wire.Code) wire.AlterResult {
	return wire.AlterResult{Code: code, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, ISR: p.ISR}
}

// inOrder returns the members of ids in the order in which they are in replicas.
func inOrder(replicas, ids []int32) []int32 {
	return minus(replicas, minus(replicas, ids))
}

func sameMembers(a, b []int32) bool { return len(a) == len(b) && len(minus(a, b)) == 0 }

func repeats(ids []int32) bool {
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			return true
		}
	}
	return false
}

func (c *DropReplicas) apply(e *edit) any {
	if b := e.next.Brokers[c.Broker]; b == nil || b.Epoch != c.Epoch {
		return &StaleBrokerEpochError{Broker: c.Broker, Epoch: c.Epoch}
	}
	results := make([]wire.AlterResult, len(c.Partitions))
	for i, tp := range c.Partitions {
		t, p := e.partition(tp.Topic, tp.Partition)
		switch {
		case p == nil:
			results[i] = wire.AlterResult{Code: wire.CodeUnknownTopicID}
			continue
		case p.Leader == c.Broker && !e.canSpare(t, p, c.Broker):
			results[i] = p.result(wire.CodeIneligibleReplica)
			continue
		}
		_, p = e.update(t, tp.Partition, func(p *Partition) {
			p.PartitionEpoch++ // also of one that is out already: no proposal from before may take it in
			p.leave(t, c.Broker, false)
		})
		results[i] = p.result(wire.OK)
	}
	return results
}

// canSpare tells whether a partition has somebody else to lead it, cleanly.
func (e *edit) canSpare(t *Topic, p *Partition, leader int32) bool {
	without := *p
	without.leave(t, leader, false)
	e.review(t, &without)
	return without.Leader != NoLeader && without.Leader != leader && without.Recovering == p.Recovering
}

func (c *ElectLeader) apply(e *edit) any {
	t, p := e.partition(c.Topic, c.Partition)
	if p == nil {
		return &UnknownTopicError{Topic: c.Topic.String()}
	}
	refuse := func(format string, args ...any) any {
		return &RefusedError{Code: wire.CodeIneligibleReplica, Reason: fmt.Sprintf("%s-%d: %s", t.Name, c.Partition, fmt.Sprintf(format, args...))}
	}
	_, fit := e.next.Eligible(c.Broker)
	switch {
	case !slices.Contains(p.Replicas, c.Broker):
		return refuse("broker %d has no replica; those that have are %v", c.Broker, p.Replicas)
	case !fit:
		return refuse("broker %d is not up", c.Broker)
	case !c.Unclean && !slices.Contains(p.ISR, c.Broker):
		return refuse("broker %d is not in sync; those in sync are %v", c.Broker, p.ISR)
	case c.Unclean && p.Leader != NoLeader:
		return refuse("broker %d leads it: nothing has to be given up", p.Leader)
	}
	t, _ = e.update(t, c.Partition, func(p *Partition) {
		if c.Unclean {
			p.electUncleanly(c.Broker)
		} else {
			p.Leader = c.Broker
		}
	})
	return t
}
