package controller

import "slices"

// update lets change edit a copy of partition num of t, then brings it into line
// with the brokers (review), and puts it in place if anything is different: with a
// higher partition epoch, and a higher leader epoch if the leader is another one
// or replicas were removed (R2). It returns the topic and the partition as they
// are then. Slices in the copy must be replaced, never written to.
func (e *edit) update(t *Topic, num int32, change func(p *Partition)) (*Topic, *Partition) {
	old := &t.Partitions[num]
	p := *old
	change(&p)
	e.review(t, &p)
	if p.Leader != NoLeader {
		p.LastLeader = p.Leader
	}
	if p.equal(old) {
		return t, old
	}
	p.PartitionEpoch = old.PartitionEpoch + 1
	if p.Leader != old.Leader || slices.ContainsFunc(old.Replicas, func(id int32) bool { return !slices.Contains(p.Replicas, id) }) {
		p.LeaderEpoch++
	}
	t = e.draft(t)
	t.Partitions[num] = p
	return t, &t.Partitions[num]
}

// updateEach is update of all partitions that which names, in the order of topic
// names and numbers.
func (e *edit) updateEach(which func(p *Partition) bool, change func(t *Topic, num int32, p *Partition)) {
	for t := range e.next.Topics() {
		for i := range t.Partitions {
			if which(&t.Partitions[i]) {
				t, _ = e.update(t, int32(i), func(p *Partition) { change(t, int32(i), p) })
			}
		}
	}
}

func (p *Partition) equal(q *Partition) bool {
	return p.Leader == q.Leader && p.LeaderEpoch == q.LeaderEpoch && p.PartitionEpoch == q.PartitionEpoch &&
		p.LastLeader == q.LastLeader && p.Recovering == q.Recovering && slices.Equal(p.Replicas, q.Replicas) &&
		slices.Equal(p.ISR, q.ISR) && slices.Equal(p.ELR, q.ELR) && slices.Equal(p.LastKnownELR, q.LastKnownELR) &&
		slices.Equal(p.Adding, q.Adding) && slices.Equal(p.Removing, q.Removing)
}

// review makes a partition fit the brokers as they are: who is fenced leaves the
// ISR (R69), a reassignment that can be completed is (R82), there is a leader if
// there can be one (R76, R80), who drains and needn't lead leaves the ISR (R74),
// and an ISR that is large enough ends the ELR (R77).
func (e *edit) review(t *Topic, p *Partition) {
	for _, id := range p.ISR {
		if b := e.next.Brokers[id]; b == nil || b.Fenced {
			p.leave(t, id, true)
		}
	}
	e.completeReassignment(t, p)
	e.elect(t, p)
	for _, id := range p.ISR {
		if b := e.next.Brokers[id]; b != nil && b.Draining && id != p.Leader {
			p.leave(t, id, true)
		}
	}
	if len(p.ISR) >= t.EffectiveMinInSync() {
		p.ELR, p.LastKnownELR = nil, nil
	}
}

// leave takes a replica out of the ISR, and if it isn't whole, out of the ELR as
// well. One that is whole joins the ELR, which review ends where the ISR goes on
// without it: else nothing is committed any more, so the replica holds all that
// will ever have been until the ISR grows again (R28, R77). A topic of one replica
// has no other copy: there the replica stays.
func (p *Partition) leave(t *Topic, id int32, whole bool) {
	in := slices.Contains(p.ISR, id)
	if !in && !slices.Contains(p.ELR, id) || t.ReplicationFactor == 1 && in && len(p.ISR) == 1 {
		return
	}
	p.ISR = without(p.ISR, id)
	if whole {
		p.ELR = with(p.ELR, id)
		return
	}
	p.ELR = without(p.ELR, id)
	p.LastKnownELR = with(p.LastKnownELR, id)
}

// elect chooses the leader (R76): the present one if it is fit, else the first
// replica of the ISR that is fit; else the present one if it only drains (R75);
// else, when the ISR is empty, the first of the ELR that is fit, which then is
// the ISR; else, where the topic allows it, one that may lack records (R79); else
// nobody.
func (e *edit) elect(t *Topic, p *Partition) {
	fit := func(id int32) bool { _, ok := e.next.Eligible(id); return ok }
	if slices.Contains(p.ISR, p.Leader) && fit(p.Leader) {
		return
	}
	for _, id := range p.Replicas {
		if slices.Contains(p.ISR, id) && fit(id) {
			p.Leader = id
			return
		}
	}
	if b := e.next.Brokers[p.Leader]; b != nil && !b.Fenced && slices.Contains(p.ISR, p.Leader) {
		return
	}
	p.Leader = NoLeader
	if len(p.ISR) == 0 {
		for _, id := range p.Replicas {
			if slices.Contains(p.ELR, id) && fit(id) {
				p.Leader, p.ISR, p.ELR = id, []int32{id}, without(p.ELR, id)
				return
			}
		}
	}
	if !t.unclean() {
		return
	}
	for _, id := range slices.Concat([]int32{p.LastLeader}, p.LastKnownELR, p.Replicas) { // R78
		if slices.Contains(p.Replicas, id) && !slices.Contains(p.Adding, id) && fit(id) {
			p.electUncleanly(id)
			return
		}
	}
}

// electUncleanly makes id the leader whatever it lacks (R79).
func (p *Partition) electUncleanly(id int32) {
	p.Leader, p.ISR, p.ELR, p.LastKnownELR, p.Recovering = id, []int32{id}, nil, nil, true
}

// without returns ids without id: itself if it isn't there, else a new slice, or
// nil for an empty one.
func without(ids []int32, id int32) []int32 {
	if !slices.Contains(ids, id) {
		return ids
	}
	var out []int32
	for _, other := range ids {
		if other != id {
			out = append(out, other)
		}
	}
	return out
}

// with returns ids with id at its end: itself if it is there already.
func with(ids []int32, id int32) []int32 {
	if slices.Contains(ids, id) {
		return ids
	}
	return append(slices.Clip(ids), id)
}

// minus returns those of ids that aren't in others, nil for none.
func minus(ids, others []int32) []int32 {
	var out []int32
	for _, id := range ids {
		if !slices.Contains(others, id) {
			out = append(out, id)
		}
	}
	return out
}
