package check

import (
	"cmp"
	"fmt"
	"slices"

	"chaos/history"
)

// never is a time that doesn't come.
const never = int64(1) << 62

// nothing is the committed offset of a partition for which nothing was committed.
const nothing = int64(-1)

// commit is what one operation commits of one partition, unless it was refused.
type commit struct {
	op     *history.GroupOp
	offset int64
	// call and ret bound when it came into force. An operation without an answer may
	// do so at any time: some broker may still have it.
	call, ret int64
	certain   bool
}

// commits are all of one partition by one group.
type commits struct {
	known []commit // by ret
	open  []commit // without an answer
	last  []int64  // of known[:i+1]: the latest call of a certain one
}

func (c *commits) add(x commit) {
	if x.op.Outcome == history.Unknown {
		x.ret, x.certain = never, false
		c.open = append(c.open, x)
		return
	}
	c.known = append(c.known, x)
}

func (c *commits) sort() {
	slices.SortFunc(c.known, func(a, b commit) int { return cmp.Compare(a.ret, b.ret) })
	latest := int64(-1)
	for _, x := range c.known {
		if x.certain {
			latest = max(latest, x.call)
		}
		c.last = append(c.last, latest)
	}
}

// inForce are the offsets of which each may have been the committed one at some
// time in [from, to].
func (c *commits) inForce(from, to int64) (offsets []int64) {
	before, _ := slices.BinarySearchFunc(c.known, from, func(x commit, at int64) int { return cmp.Compare(x.ret, at) })
	over := int64(-1) // what was done before this was overwritten before from
	if before > 0 {
		over = c.last[before-1]
	}
	if over < 0 {
		offsets = append(offsets, nothing)
	}
	first, _ := slices.BinarySearchFunc(c.known, over, func(x commit, at int64) int { return cmp.Compare(x.ret, at) })
	for _, x := range c.known[first:] {
		if x.call <= to {
			offsets = append(offsets, x.offset)
		}
	}
	for _, x := range c.open {
		if x.call <= to {
			offsets = append(offsets, x.offset)
		}
	}
	slices.Sort(offsets)
	return slices.Compact(offsets)
}

// committed: a committed offset that is read back is the last that was
// acknowledged, or one that may have come into force since (V12).
func (c *checker) committed(g *groups) {
	for _, op := range c.h.Groups {
		if op.Kind != history.Committed || op.Outcome != history.OK {
			continue
		}
		for _, o := range op.Offsets {
			l := g.lane(op.Group, o.Partition)
			may := l.commits.inForce(op.Call, op.Return)
			if o.Offset == 0 && slices.Contains(may, nothing) {
				continue // a commit of all says where its member was, be it at the start
			}
			if !slices.Contains(may, o.Offset) {
				c.fail("V12", "%s: %s reads %d as committed; it can only be one of %v%s", l, gname(op), o.Offset, may, l.lastCertain(op.Call))
			}
		}
	}
}

// lastCertain tells of the last commit that was acknowledged before a time.
func (l *lane) lastCertain(at int64) string {
	var last *commit
	for i, x := range l.commits.known {
		if x.ret >= at {
			break
		}
		if x.certain {
			last = &l.commits.known[i]
		}
	}
	if last == nil {
		return ""
	}
	return fmt.Sprintf("; %d was acknowledged by %s", last.offset, gname(last.op))
}

// processed: what a commit passes has been given to some member, whole, before the
// commit was sent (V13).
func (c *checker) processed(l *lane) {
	at := func(x commit) {
		covered := int64(0)
		if m, ok := l.covered.before(x.call + 1); ok {
			covered = m.value
		}
		if x.offset > covered {
			c.fail("V13", "%s: %s commits %d, but nobody had been given what is at %d", l, gname(x.op), x.offset, covered)
		}
	}
	for _, x := range l.commits.known {
		at(x)
	}
	for _, x := range l.commits.open {
		at(x)
	}
}

// drained: when fresh members have read what was left, all there is has been given
// to some member (V13).
func (c *checker) drained(g *groups) {
	if !slices.ContainsFunc(c.h.Events, func(e history.Event) bool { return e.What == history.EventDrain }) {
		c.fail("V15", "the run never came to reading what the groups had left")
		return
	}
	for _, l := range g.lanes {
		truth := c.part(l.key).truth
		if truth == nil {
			continue
		}
		covered := int64(0)
		if len(l.covered) > 0 {
			covered = l.covered[len(l.covered)-1].value
		}
		if covered < truth.End {
			c.fail("V13", "%s: nobody was ever given what is at %d (%s); the log ends at %d", l, covered, c.part(l.key).at[covered], truth.End)
		}
	}
}

// cover finds up to where everything was given to some member, over time, and counts
// what was given again.
func (l *lane) cover() (repeats int) {
	given := map[int64]bool{}
	next := int64(0)
	for _, r := range l.runs { // by return
		for o := r.first; o < r.end; o++ {
			if (o < next || given[o]) && !r.repeat {
				repeats++
			}
			given[o] = true
		}
		was := next
		for given[next] {
			delete(given, next)
			next++
		}
		if next > was {
			l.covered = append(l.covered, mark{at: r.op.Return, value: next})
		}
	}
	return repeats
}
