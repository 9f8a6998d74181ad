package controller

import (
	"slices"
)

func (c *initCluster) apply(e *edit) any {
	// The first one wins for ever; a second proposer learns the id from the state.
	if e.next.ClusterID == "" {
		e.next.ClusterID = c.ClusterID
	}
	return nil
}

// apply of a registration gives the broker its epoch, which is the result, and
// ends whatever the former incarnation led: the leader epoch of each partition
// that it leads goes up, so that nothing of the former process can be taken for
// this one (R2, R67). The same incarnation again changes nothing.
func (c *registerBroker) apply(e *edit) any {
	old := e.next.Brokers[c.ID]
	if old != nil && old.Incarnation == c.Incarnation {
		return old
	}
	b := &Broker{ID: c.ID, Incarnation: c.Incarnation, Epoch: int64(e.next.Index), URL: c.URL, Version: c.Version, RaftID: c.RaftID}
	e.putBroker(b)
	e.eachPartition(func(p *Partition) bool {
		switch {
		case p.Leader == c.ID:
			p.LeaderEpoch++
		case p.Leader == NoLeader && slices.Contains(p.ISR, c.ID):
			p.Leader = c.ID // R80
			p.LeaderEpoch++
		default:
			return false
		}
		return true
	})
	return b
}

// apply of a broker's new state moves leaderships away from a broker that is
// fenced or draining, takes a fenced one out of the ISRs, and gives partitions
// without a leader to one that may lead again (R69, R74, R76, R80). The last
// member of an ISR stays in it: it is the only one known to hold everything.
func (c *setBroker) apply(e *edit) any {
	old := e.next.Brokers[c.ID]
	if old == nil || old.Epoch != c.Epoch {
		return &StaleBrokerEpochError{Broker: c.ID, Epoch: c.Epoch}
	}
	b := *old
	b.Fenced, b.Draining = c.Fenced, c.Draining
	e.putBroker(&b)
	e.eachPartition(func(p *Partition) bool {
		changed := false
		if b.Fenced && len(p.ISR) > 1 && slices.Contains(p.ISR, c.ID) {
			p.ISR = slices.DeleteFunc(slices.Clone(p.ISR), func(id int32) bool { return id == c.ID })
			changed = true
		}
		if p.Leader != c.ID && p.Leader != NoLeader {
			return changed
		}
		leader := e.electLeader(p)
		if leader == NoLeader && !b.Fenced && p.Leader == c.ID {
			leader = c.ID // nobody else can: a draining leader goes on until it ends
		}
		if leader != p.Leader {
			p.Leader = leader
			p.LeaderEpoch++
			changed = true
		}
		return changed
	})
	return &b
}

// electLeader picks the first replica, in order, that is in the ISR and whose
// broker is neither fenced nor draining (R76); NoLeader when there is none.
func (e *edit) electLeader(p *Partition) int32 {
	for _, id := range p.Replicas {
		if b := e.next.Brokers[id]; b != nil && !b.Fenced && !b.Draining && slices.Contains(p.ISR, id) {
			return id
		}
	}
	return NoLeader
}

// eachPartition lets change edit a copy of every partition, in the order of
// topic names. Where it returns true the copy takes the partition's place, with
// a higher partition epoch (R2). Slices in it must be replaced, not written to.
func (e *edit) eachPartition(change func(p *Partition) bool) {
	var topics []*Topic
	for t := range e.next.Topics() {
		var partitions []Partition // a copy, made at the first change
		for i := range t.Partitions {
			p := t.Partitions[i]
			if !change(&p) {
				continue
			}
			if partitions == nil {
				partitions = slices.Clone(t.Partitions)
			}
			p.PartitionEpoch++
			partitions[i] = p
		}
		if partitions != nil {
			next := *t
			next.Partitions = partitions
			topics = append(topics, &next)
		}
	}
	for _, t := range topics {
		e.putTopic(t)
	}
}
