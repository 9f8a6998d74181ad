package controller

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"highwater/replication/replica"
	"highwater/replication/wire"
)

func (c *InitCluster) apply(e *edit) any {
	// The first one wins for ever; a second proposer learns the id from the state.
	if e.next.ClusterID == "" {
		e.next.ClusterID, e.next.Voters = c.ClusterID, c.Voters
	}
	return nil
}

func (c *FinalizeProtocol) apply(e *edit) any {
	if c.Version < e.next.Protocol {
		return &RefusedError{Code: wire.CodeVersion, Reason: fmt.Sprintf("the cluster speaks version %d of the protocol; it never goes back", e.next.Protocol)}
	}
	for _, id := range e.next.BrokerIDs() {
		if b := e.next.Brokers[id]; !b.speaks(c.Version) {
			return &RefusedError{Code: wire.CodeVersion, Reason: fmt.Sprintf("broker %d knows versions %d to %d of the protocol, not %d", id, b.MinProtocol, b.MaxProtocol, c.Version)}
		}
	}
	e.next.Protocol = c.Version
	return nil
}

// apply of a registration gives the broker its epoch and ends whatever the former
// life led: it begins fenced, so its leaderships move and it leaves every ISR. As
// a replica it goes on counting as complete only where it proves it (R71-R73).
// The same incarnation again changes nothing: the proposal came twice.
func (c *RegisterBroker) apply(e *edit) any {
	old := e.next.Brokers[c.ID]
	switch {
	case old != nil && old.Incarnation == c.Incarnation:
		return old
	case old != nil && old.Epoch != c.Replaces:
		return &DuplicateBrokerError{Broker: c.ID}
	}
	b := &Broker{ID: c.ID, Incarnation: c.Incarnation, Epoch: int64(e.next.Index), URL: c.URL, Version: c.Version, RaftID: c.RaftID,
		Directory: c.Data.Directory, MinProtocol: c.MinProtocol, MaxProtocol: c.MaxProtocol, Fenced: true}
	if err := e.checkBroker(b); err != nil {
		return err
	}
	e.putBroker(b)
	// R71: a clean end proves that nothing was lost; R72: so does having fsynced
	// all that was reported. R73: neither helps where there is nothing.
	safe := c.Data.Durable || old != nil && c.Data.PreviousEpoch == old.Epoch
	same := old != nil && old.Directory == c.Data.Directory
	blind := e.next.mutation&replica.NoR73 != 0
	held := map[uuid.UUID][]bool{}
	e.updateEach(
		func(p *Partition) bool { return slices.Contains(p.Replicas, c.ID) },
		func(t *Topic, num int32, p *Partition) {
			if held[t.ID] == nil {
				held[t.ID] = flags(c.Data.Held[t.ID], len(t.Partitions))
			}
			p.leave(t, c.ID, safe && (same && held[t.ID][num] || blind))
		})
	return b
}

// checkBroker tells why a broker can't be a member.
func (e *edit) checkBroker(b *Broker) error {
	if b.ID < 0 {
		return &RefusedError{Code: wire.CodeInvalidRequest, Reason: fmt.Sprintf("a broker id is not negative: %d", b.ID)}
	}
	if !b.speaks(e.next.Protocol) { // R100
		return &RefusedError{Code: wire.CodeVersion, Reason: fmt.Sprintf("the cluster speaks version %d of the protocol; broker %d knows %d to %d", e.next.Protocol, b.ID, b.MinProtocol, b.MaxProtocol)}
	}
	for _, id := range e.next.BrokerIDs() {
		if id != b.ID && b.Directory != uuid.Nil && e.next.Brokers[id].Directory == b.Directory { // F36
			return &RefusedError{Code: wire.CodeInvalidRequest, Reason: fmt.Sprintf("the data directory %s is broker %d's, not broker %d's", b.Directory, id, b.ID)}
		}
	}
	return nil
}

// speaks tells whether a broker knows a version of wire. One that doesn't tell
// knows the first one.
func (b *Broker) speaks(version int) bool {
	return version >= max(b.MinProtocol, 1) && version <= max(b.MaxProtocol, 1)
}

// flags has true where nums, which may hold anything, name a number below n.
func flags(nums []int32, n int) []bool {
	out := make([]bool, n)
	for _, num := range nums {
		if num >= 0 && int(num) < n {
			out[num] = true
		}
	}
	return out
}

// apply of a broker's new state moves leaderships away from a broker that is
// fenced or draining, takes it out of the ISRs, and gives partitions without a
// leader to one that may lead again, all in one entry (R69, R74, R80).
func (c *SetBroker) apply(e *edit) any {
	old := e.next.Brokers[c.ID]
	if old == nil || old.Epoch != c.Epoch {
		return &StaleBrokerEpochError{Broker: c.ID, Epoch: c.Epoch}
	}
	if old.Fenced == c.Fenced && old.Draining == c.Draining {
		return old
	}
	b := *old
	b.Fenced, b.Draining = c.Fenced, c.Draining
	switch {
	case !b.Draining:
		b.DrainIndex = 0
	case !old.Draining:
		b.DrainIndex = e.next.Index
	}
	e.putBroker(&b)
	e.updateEach(func(p *Partition) bool { return slices.Contains(p.Replicas, c.ID) }, func(*Topic, int32, *Partition) {})
	return &b
}

// apply of a removal leaves the broker's replicas assigned: who removes it goes on
// to reassign them.
func (c *RemoveBroker) apply(e *edit) any {
	old := e.next.Brokers[c.ID]
	switch {
	case old == nil || old.Epoch != c.Epoch:
		return &StaleBrokerEpochError{Broker: c.ID, Epoch: c.Epoch}
	case !old.Fenced:
		return &RefusedError{Code: wire.CodeInvalidRequest, Reason: fmt.Sprintf("broker %d is alive; stop it first", c.ID)}
	case e.next.isVoter(c.ID):
		return &RefusedError{Code: wire.CodeInvalidRequest, Reason: fmt.Sprintf("broker %d has a vote on the metadata; replace it by one of the same --node-id", c.ID)}
	}
	if !c.Force {
		for t := range e.next.Topics() {
			for i := range t.Partitions {
				p := &t.Partitions[i]
				if slices.Contains(p.ISR, c.ID) && len(p.ISR) == 1 || slices.Contains(p.ELR, c.ID) && len(p.ISR)+len(p.ELR) == 1 {
					return &RefusedError{Code: wire.CodeIneligibleReplica, Reason: fmt.Sprintf("broker %d may have the only whole copy of %s-%d, and of others", c.ID, t.Name, i)}
				}
			}
		}
	}
	e.removeBroker(c.ID)
	e.updateEach(
		func(p *Partition) bool { return slices.Contains(p.Replicas, c.ID) },
		func(t *Topic, _ int32, p *Partition) { p.leave(t, c.ID, false) })
	return old
}
