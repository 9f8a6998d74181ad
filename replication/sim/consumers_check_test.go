package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"highwater/replication/group"
)

// observe reads what is committed, from any broker.
func (k *consumers) observe(ctx context.Context, c *cluster, rng *rand.Rand) {
	m := &client{k: k, c: c, rng: rng}
	for ctx.Err() == nil {
		pause(ctx, time.Duration(rng.IntN(200))*time.Millisecond)
		k.look(m)
	}
}

// look reads what is committed once; false: nobody answered.
func (k *consumers) look(m *client) bool {
	k.mu.Lock()
	start := k.tick()
	k.mu.Unlock()
	answer, err, heard := m.do(group.Call{Committed: &group.Committed{}})
	if !heard || err != nil {
		m.c.count("committed: refused")
		return false
	}
	m.c.count("committed: told")
	told := map[int32]int64{}
	for _, o := range answer.Offsets {
		told[o.Partition] = o.Offset
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	end := k.tick()
	for num, part := range k.parts {
		offset, ok := told[int32(num)]
		if !ok {
			offset = -1
		}
		part.reads = append(part.reads, commitRead{offset: offset, start: start, end: end})
	}
	return true
}

// check holds what was told as committed against the commits (V12).
func (k *consumers) check(c *cluster) {
	for num, part := range k.parts {
		for _, r := range part.reads {
			if !part.explains(r) {
				c.history.violate("V12: %d of %d was told as committed, at %d to %d, which isn't the last commit: %s", r.offset, num, r.start, r.end, part.around(r))
			}
		}
	}
}

// around lists the commits that a read has to do with.
func (p *consumed) around(r commitRead) (out string) {
	for _, op := range p.commits {
		if op.offset == r.offset || op.ok && op.end > r.start-20 && op.start < r.end {
			out += fmt.Sprintf("%+v ", *op)
		}
	}
	return out
}

// explains tells whether a commit that no other one followed before the read has this
// offset.
func (p *consumed) explains(r commitRead) bool {
	last := int64(0) // the latest start of those that were done before the read began
	for _, op := range p.commits {
		if op.ok && op.end < r.start {
			last = max(last, op.start)
		}
	}
	if r.offset < 0 {
		return last == 0
	}
	return slices.ContainsFunc(p.commits, func(op *commitOp) bool {
		return op.offset == r.offset && !op.failed && op.start < r.end && op.end >= last
	})
}

// finish has a last member read all that is left, and looks at what is there (V12, V13).
func (k *consumers) finish(c *cluster) {
	m := &client{k: k, c: c, rng: rand.New(rand.NewPCG(c.seed, 50))}
	steady := func() bool { // not by the luck of one moment
		for range 3 {
			if !k.look(m) {
				return false
			}
		}
		return true
	}
	if !c.await(30*time.Second, steady) {
		c.history.violate("V15: no coordinator after the faults")
		return
	}
	for end := time.Now().Add(2 * time.Minute); ; {
		if m.instance == "" {
			m.join("last")
		} else {
			m.work()
		}
		if m.instance != "" && k.whole(c, m) {
			break
		}
		if time.Now().After(end) {
			c.history.violate("V15: the last member doesn't come to the end: %v", m.next)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.check(c)
	for num, part := range k.parts {
		for offset, value := range c.history.parts[num].acked {
			if !part.processed[offset] {
				c.history.violate("V13: nobody was given %q at %d of %d, and the group has gone on", value, offset, num)
			}
		}
	}
}

// whole tells whether the last member has everything to itself, up to the end.
func (k *consumers) whole(c *cluster, m *client) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for num := range k.parts {
		next, ok := m.next[int32(num)]
		if !ok {
			return false
		}
		for offset := range c.history.parts[num].acked {
			if offset >= next {
				return false
			}
		}
	}
	return true
}
