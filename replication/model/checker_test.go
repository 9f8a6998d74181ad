package model

import (
	"slices"

	"highwater/replication/controller"
	"highwater/replication/wire"
)

// checker knows what no broker knows: what was ever committed.
type checker struct {
	w     *world
	parts []*truth
	lives map[int64]bool // broker epochs given out (V18)
}

// truth is one partition's.
type truth struct {
	// committed is all below the True HW: the highest high watermark that any
	// leader ever had. Followers don't add to it.
	committed []record
	// lax: there was an unclean election, and what was committed may be lost.
	lax      bool
	leaders  map[int32]int32 // by leader epoch (V18)
	accepted map[int32]bool  // partition epochs that an accepted proposal was made for (V31)
	refused  map[int64]bool  // values whose produce was answered with not_written (V2)
	acks     []waiter
	reached  bool // the ISR was at its least size, and nothing was lost since (V19)
}

func newChecker(w *world) *checker {
	c := &checker{w: w, lives: map[int64]bool{}}
	for range w.cfg.partitions {
		c.parts = append(c.parts, &truth{leaders: map[int32]int32{}, accepted: map[int32]bool{}, refused: map[int64]bool{}})
	}
	return c
}

// advance compares a log with what is committed, as far as it wasn't yet.
func (t *truth) advance(l *memLog) int64 {
	for l.matched < int64(len(t.committed)) && l.matched < l.end() && l.at(l.matched) == t.committed[l.matched] {
		l.matched++
	}
	return l.matched
}

func (c *checker) newEpoch(n *node) {
	if c.lives[n.epoch] {
		c.w.fail("V18: broker epoch %d twice", n.epoch)
	}
	c.lives[n.epoch] = true
}

// leads checks a new leader (V18, V22, V26).
func (c *checker) leads(p *part) {
	t := c.parts[p.num]
	if other, ok := t.leaders[p.epoch]; ok {
		c.w.fail("V18: brokers %d and %d lead p%d in epoch %d", other, p.n.id, p.num, p.epoch)
	}
	t.leaders[p.epoch] = p.n.id
	c.epochs(p.log)
	if p.log.lastEpoch() != p.epoch {
		c.w.fail("V26: broker %d leads p%d in epoch %d, its newest entry is %d", p.n.id, p.num, p.epoch, p.log.lastEpoch())
	}
}

// leaderHW takes a leader's high watermark (V2, V3, V9, V23, V24).
func (c *checker) leaderHW(p *part, hw int64) {
	t, l := c.parts[p.num], p.log
	switch {
	case hw < p.leadHW:
		c.w.fail("V24: broker %d's high watermark of p%d goes back from %d to %d in epoch %d", p.n.id, p.num, p.leadHW, hw, p.epoch)
	case hw > l.durable || hw < l.start:
		c.w.fail("V24: broker %d's high watermark of p%d is %d, its log goes from %d to %d, durable to %d", p.n.id, p.num, hw, l.start, l.end(), l.durable)
	case hw == p.leadHW && hw <= l.matched:
		return
	}
	p.leadHW = hw
	if t.lax {
		return
	}
	at := t.advance(l)
	if hw > at && at < int64(len(t.committed)) {
		c.w.fail("V3/V23: broker %d commits p%d up to %d in epoch %d with %+v at %d, where %+v is committed",
			p.n.id, p.num, hw, p.epoch, l.at(at), at, t.committed[at])
	}
	for ; at < hw; at++ {
		r := l.at(at)
		if t.refused[r.value] {
			c.w.fail("V2: %+v was answered with not_written and is committed", r)
		}
		t.committed = append(t.committed, r)
	}
	l.matched = max(l.matched, hw)
}

// followerHW checks a follower's high watermark (V9, V23, V24).
func (c *checker) followerHW(p *part) {
	t, l := c.parts[p.num], p.log
	if l.hw > l.end() || l.hw < l.start {
		c.w.fail("V24: broker %d's high watermark of p%d is %d, its log goes from %d to %d", p.n.id, p.num, l.hw, l.start, l.end())
	}
	if t.lax {
		return
	}
	if l.hw > int64(len(t.committed)) {
		c.w.fail("V24: follower %d's high watermark of p%d is %d, only %d is committed", p.n.id, p.num, l.hw, len(t.committed))
	}
	if at := t.advance(l); at < l.hw {
		c.w.fail("V23: follower %d has %+v at %d of p%d, below its high watermark %d; committed is %+v", p.n.id, l.at(at), at, p.num, l.hw, t.committed[at])
	}
}

// acked checks that what a producer is told to be safe is (V1, V5).
func (c *checker) acked(p *part, a waiter) {
	t := c.parts[p.num]
	if t.lax {
		return
	}
	if a.offset >= int64(len(t.committed)) || t.committed[a.offset].value != a.value {
		c.w.fail("V1: broker %d acknowledges value %d at %d of p%d, which isn't committed", p.n.id, a.value, a.offset, p.num)
	}
	t.acks = append(t.acks, a)
}

// truncates checks that a replica that may be elected cuts off nothing committed,
// and no replica what it knows to be committed (V25, R39). One outside of ISR and
// ELR may do more: it may follow a leader that was elected and deposed before it
// heard of either, and lacks what the next leader committed since. Nobody counts
// on it, and it fetches that again.
func (c *checker) truncates(p *part, to int64) {
	t, l := c.parts[p.num], p.log
	if t.lax {
		return
	}
	m := c.w.meta().Partitions[p.num]
	counts := c.w.registered(p.n.id) == p.n && (slices.Contains(m.ISR, p.n.id) || slices.Contains(m.ELR, p.n.id))
	if to < min(l.hw, l.end()) || counts && t.advance(l) > max(to, l.start) {
		c.w.fail("V25: broker %d cuts p%d to %d, its high watermark is %d, its log is the committed one up to %d", p.n.id, p.num, to, l.hw, l.matched)
	}
}

// epochs checks an epoch cache against its log's end (V26).
func (c *checker) epochs(l *memLog) {
	for i := 1; i < len(l.epochs); i++ {
		a, b := l.epochs[i-1], l.epochs[i]
		if a.Epoch >= b.Epoch || a.StartOffset >= b.StartOffset {
			c.w.fail("V26: epoch entries %+v", l.epochs)
		}
	}
	if len(l.recs) > 0 && l.end() > l.start {
		last := l.recs[len(l.recs)-1].epoch
		for i := len(l.epochs) - 1; i >= 0; i-- {
			if e := l.epochs[i]; e.StartOffset < l.end() {
				if e.Epoch != last {
					c.w.fail("V26: the last record has epoch %d, the entries are %+v", last, l.epochs)
				}
				break
			}
		}
	}
}

// stateChanged checks the controller's new state (V19, V31).
func (c *checker) stateChanged(was, is *controller.Topic, cmd controller.Command, result any) {
	if is == nil {
		return
	}
	s := c.w.state()
	for i := range is.Partitions {
		p := &is.Partitions[i]
		t := c.parts[i]
		if was != nil && was.Partitions[i].PartitionEpoch == p.PartitionEpoch {
			continue
		}
		minInSync := is.EffectiveMinInSync()
		for _, id := range slices.Concat(p.ISR, p.ELR) {
			if !slices.Contains(p.Replicas, id) {
				c.w.fail("V19: p%d: %+v", i, *p)
			}
		}
		for _, id := range p.ISR {
			b := s.Brokers[id]
			if slices.Contains(p.ELR, id) || b.Fenced && is.ReplicationFactor > 1 || b.Draining && id != p.Leader {
				c.w.fail("V19: broker %d (fenced %v, draining %v) in p%d: %+v", id, b.Fenced, b.Draining, i, *p)
			}
		}
		if p.Leader != controller.NoLeader && !slices.Contains(p.ISR, p.Leader) || len(p.ELR) > 0 && len(p.ISR) >= minInSync {
			c.w.fail("V19: p%d: %+v", i, *p)
		}
		if len(p.LastKnownELR) > 0 || p.Recovering || c.w.cfg.minChanges || c.w.cfg.reassign {
			t.reached = false
		}
		if t.reached && len(p.ISR)+len(p.ELR) < minInSync {
			c.w.fail("V19: p%d lost a whole replica: %+v", i, *p)
		}
		t.reached = t.reached || len(p.ISR) >= minInSync && !c.w.cfg.minChanges && !c.w.cfg.reassign
		if was != nil {
			c.elected(t, int32(i), &was.Partitions[i], p)
		}
	}
	if alter, ok := cmd.(*controller.AlterPartitions); ok {
		if results, ok := result.([]wire.AlterResult); ok {
			for i, change := range alter.Changes {
				t := c.parts[change.Partition]
				if results[i].Code != wire.OK {
					continue
				}
				if t.accepted[change.PartitionEpoch] {
					c.w.fail("V31: two proposals for partition epoch %d of p%d were accepted", change.PartitionEpoch, change.Partition)
				}
				t.accepted[change.PartitionEpoch] = true
			}
		}
	}
}

// elected counts elections, and notes an unclean one.
func (c *checker) elected(t *truth, num int32, was, is *controller.Partition) {
	if is.Leader == was.Leader || is.Leader == controller.NoLeader {
		return
	}
	c.w.saw("election")
	switch {
	case is.Recovering && !slices.Contains(was.ISR, is.Leader):
		c.w.saw("unclean election")
		t.lax = true
	case !slices.Contains(was.ISR, is.Leader):
		c.w.saw("election from the ELR")
	}
}

// step checks what must hold at every moment (V20, V21, V22).
func (c *checker) step() {
	meta := c.w.meta()
	for i := range meta.Partitions {
		m, t := &meta.Partitions[i], c.parts[i]
		if t.lax {
			continue
		}
		for _, id := range m.ISR {
			c.whole(m, t, id, int32(i))
		}
		for _, id := range m.ELR {
			c.whole(m, t, id, int32(i))
		}
		if m.Leader == controller.NoLeader {
			continue
		}
		if n := c.w.registered(m.Leader); n != nil && n.parts[i].lead != nil && n.parts[i].epoch == m.LeaderEpoch {
			c.superset(n.parts[i], m, meta.EffectiveMinInSync())
		}
	}
}

// whole checks that a member of ISR or ELR, each of which may be elected, holds all
// that is committed, durably where that is promised (V21, V22). One that lost
// something and hasn't told yet isn't electable: it must register first.
func (c *checker) whole(m *controller.Partition, t *truth, id, num int32) {
	n := c.w.registered(id)
	if n == nil {
		n = c.w.nodes[id-1]
		if n.up || !c.w.cfg.durable || c.w.state().Brokers[id].Directory != n.disk.id {
			return
		}
	}
	l := n.disk.logs[num]
	if l == nil || l.lossy {
		if n.epoch == 0 || l == nil && len(t.committed) == 0 {
			return
		}
		c.w.fail("V21: broker %d, of ISR %v and ELR %v of p%d, has no whole log", id, m.ISR, m.ELR, num)
	}
	has := t.advance(l)
	if c.w.cfg.durable {
		has = min(has, l.durable)
	}
	if has < int64(len(t.committed)) {
		c.w.fail("V21: broker %d, of ISR %v and ELR %v of p%d, has what is committed up to %d of %d (log %d to %d, durable %d)",
			id, m.ISR, m.ELR, num, has, len(t.committed), l.start, l.end(), l.durable)
	}
}

// superset checks that the leader counts on nobody less than the controller could
// elect (V20).
func (c *checker) superset(p *part, m *controller.Partition, minInSync int) {
	if c.w.cfg.mutation != 0 { // must be found by what it does
		return
	}
	mine := p.lead.MaximalISR()
	if len(p.lead.Meta().ISR) >= p.lead.Meta().MinInSync && len(m.ISR) >= minInSync {
		for _, id := range slices.Concat(m.ISR, m.ELR) {
			if !slices.Contains(mine, id) {
				c.w.fail("V20: leader %d of p%d counts on %v, the controller has ISR %v and ELR %v", p.n.id, p.num, mine, m.ISR, m.ELR)
			}
		}
	}
	if p.lead.Meta().PartitionEpoch == m.PartitionEpoch && len(mine) < len(m.ISR) {
		c.w.fail("V20: leader %d of p%d has a maximal ISR of %v, the ISR is %v", p.n.id, p.num, mine, m.ISR)
	}
}
