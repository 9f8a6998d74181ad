package check

import (
	"cmp"
	"fmt"
	"slices"

	"chaos/history"
)

// told is one replica in one sample.
type told struct {
	s *history.Sample
	r *history.Replica
}

func (t told) String() string {
	return fmt.Sprintf("broker %d at %.3f s (%s, epoch %d/%d, start %d, high %d, durable %d, end %d, isr %v, elr %v)", t.s.Broker, float64(t.s.Call)/1e9,
		t.r.Role, t.r.LeaderEpoch, t.r.PartitionEpoch, t.r.Start, t.r.High, t.r.Durable, t.r.End, t.r.ISR, t.r.ELR)
}

// Role of the replica that leads.
const leader = "leader"

// samples checks what brokers said of their inner state (V18-V26). A sample is
// of one moment of one broker; statements over several take only those pairs
// whose order in time is certain.
func (c *checker) samples() {
	by := map[history.Partition][]told{}
	for _, s := range c.h.Samples {
		for i := range s.Replicas {
			r := &s.Replicas[i]
			by[r.Partition] = append(by[r.Partition], told{s, r})
		}
	}
	for key, all := range by {
		slices.SortFunc(all, func(a, b told) int { return cmp.Compare(a.s.Call, b.s.Call) })
		p := c.part(key)
		for _, t := range all {
			c.oneReplica(p, t)
		}
		c.oneLeader(p, all)
		c.steady(p, all)
		if !c.o.Unclean {
			c.complete(p, all)
		}
	}
}

// oneReplica is what holds in each sample by itself.
func (c *checker) oneReplica(p *part, t told) {
	r := t.r
	anew := r.Role != leader && r.Start == r.End // a follower's log that was just thrown away (R90)
	if r.Start > r.High && !anew || r.High > r.End || r.Durable > r.End {
		c.fail("V24", "%s: start, high watermark, durable and written end are not in order: %s", p, t)
	}
	for i := 1; i < len(r.Epochs); i++ {
		a, b := r.Epochs[i-1], r.Epochs[i]
		if b.Epoch <= a.Epoch || b.Start < a.Start {
			c.fail("V26", "%s: epochs %v do not rise: %s", p, r.Epochs, t)
			break
		}
	}
	if r.Role == leader && len(r.Epochs) > 0 && r.Epochs[len(r.Epochs)-1].Epoch != r.LeaderEpoch {
		c.fail("V26", "%s: the newest entry of %v is not the leader's epoch: %s", p, r.Epochs, t)
	}
	within := func(what string, set []int) {
		for _, b := range set {
			if !slices.Contains(r.Replicas, b) {
				c.fail("V19", "%s: %s %v is not within the replicas %v: %s", p, what, set, r.Replicas, t)
				return
			}
		}
	}
	within("ISR", r.ISR)
	within("ELR", r.ELR)
	if slices.ContainsFunc(r.ELR, func(b int) bool { return slices.Contains(r.ISR, b) }) {
		c.fail("V19", "%s: a broker is in ISR and ELR: %s", p, t)
	}
	if len(r.ELR) > 0 && len(r.ISR) >= r.MinInSync {
		c.fail("V19", "%s: the ELR is not empty though the ISR has its least size: %s", p, t)
	}
	if r.Role != leader {
		return
	}
	if !slices.Contains(r.ISR, t.s.Broker) {
		c.fail("V19", "%s: the leader is not in the ISR: %s", p, t)
	}
	if r.MaximalISR != nil && slices.ContainsFunc(r.ISR, func(b int) bool { return !slices.Contains(r.MaximalISR, b) }) {
		c.fail("V20", "%s: the maximal ISR %v lacks a member of the ISR: %s", p, r.MaximalISR, t)
	}
}

// oneLeader: an epoch has one leader (V18).
func (c *checker) oneLeader(p *part, all []told) {
	leads := map[int32]told{}
	for _, t := range all {
		if t.r.Role != leader {
			continue
		}
		if first, known := leads[t.r.LeaderEpoch]; known && first.s.Broker != t.s.Broker {
			c.fail("V18", "%s: two leaders of epoch %d: %s and %s", p, t.r.LeaderEpoch, first, t)
		}
		leads[t.r.LeaderEpoch] = t
	}
}

// steady: within a life of a broker epochs don't go back (V18), nor does a
// leader's high watermark within its epoch (V24).
func (c *checker) steady(p *part, all []told) {
	type life struct{ broker, life int }
	last := map[life]told{}
	for _, t := range all {
		l := life{t.s.Broker, t.s.Life}
		before, known := last[l]
		last[l] = t
		if !known || before.s.Return > t.s.Call {
			continue
		}
		if t.r.LeaderEpoch < before.r.LeaderEpoch || t.r.PartitionEpoch < before.r.PartitionEpoch {
			c.fail("V18", "%s: an epoch went back from %s to %s", p, before, t)
		}
		if t.r.Role == leader && before.r.Role == leader && t.r.LeaderEpoch == before.r.LeaderEpoch && t.r.High < before.r.High {
			c.fail("V24", "%s: the high watermark of a leader went back from %s to %s", p, before, t)
		}
	}
}

// complete: nothing below the highest high watermark that any leader ever had is
// missing at a later leader (V22) or at a member of its ISR (V21), and none is
// above what the log has at the end (V24).
func (c *checker) complete(p *part, all []told) {
	var leaders []told
	var high marks
	epochs := map[*history.Op]int32{} // of the leaders behind the marks
	for _, t := range all {
		if p.truth != nil && t.r.High > p.truth.End {
			c.fail("V24", "%s: a high watermark above the end of the log at last, %d: %s", p, p.truth.End, t)
		}
		if t.r.Role != leader {
			continue
		}
		leaders = append(leaders, t)
		by := &history.Op{Broker: t.s.Broker, Call: t.s.Call, Return: t.s.Return}
		epochs[by] = t.r.LeaderEpoch
		high.add(t.s.Return, t.r.High, by)
	}
	high.rise()
	for _, t := range all {
		m, ok := high.before(t.s.Call)
		if !ok || epochs[m.by] > t.r.LeaderEpoch || t.r.End >= m.value {
			continue // a stale leader's log may lack what a newer one has
		}
		switch {
		case t.r.Role == leader:
			c.fail("V22", "%s: %s lacks what is below the high watermark %d of broker %d at %.3f s", p, t, m.value, m.by.Broker, float64(m.by.Call)/1e9)
		case memberThroughout(leaders, t):
			c.fail("V21", "%s: %s lacks what is below the high watermark %d of broker %d at %.3f s", p, t, m.value, m.by.Broker, float64(m.by.Call)/1e9)
		}
	}
}

// memberThroughout tells that a follower was in the ISR all the time that its
// sample was taken: the leader of its epoch said so before and after, at one
// partition epoch. leaders are in the order of their calls.
func memberThroughout(leaders []told, t told) bool {
	in := func(l told) bool {
		return l.r.LeaderEpoch == t.r.LeaderEpoch && slices.Contains(l.r.ISR, t.s.Broker)
	}
	at, _ := slices.BinarySearchFunc(leaders, t.s.Call, func(l told, call int64) int { return cmp.Compare(l.s.Call, call) })
	before, after := -1, -1
	for i := at - 1; i >= 0 && before < 0; i-- {
		if leaders[i].s.Return < t.s.Call && in(leaders[i]) {
			before = i
		} else if leaders[i].r.LeaderEpoch < t.r.LeaderEpoch {
			break
		}
	}
	for i := at; i < len(leaders) && after < 0; i++ {
		if leaders[i].s.Call > t.s.Return {
			after = i
		}
	}
	return before >= 0 && after >= 0 && in(leaders[after]) && leaders[before].s.Broker == leaders[after].s.Broker &&
		leaders[before].r.PartitionEpoch == leaders[after].r.PartitionEpoch && leaders[before].s.Life == leaders[after].s.Life
}
