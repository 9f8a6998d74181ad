package check

import (
	"cmp"
	"slices"
	"strconv"

	"chaos/history"
)

// place is where a member is in a partition, as far as its client knows.
type place struct {
	at    *history.GroupOp // the answer or the seek that says so; nil: never there
	next  int64
	maybe []int64 // targets of seeks without an answer
	// since is when the first poll after that began: from then on its position may be
	// another, such as the committed one after the coordinator's death.
	since int64
}

// starts: where an answer begins in a partition is where the member was, or what is
// committed: what the answer passes over has been given to somebody (V8).
func (c *checker) starts(g *groups, l *life) {
	places := map[history.Partition]*place{}
	first := int64(-1)
	var last *history.GroupOp // ok poll
	for _, op := range l.ops {
		switch op.Kind {
		case history.Seek:
			seek(places, op)
		case history.Poll:
			if first < 0 {
				first = op.Call
			}
			for _, p := range places {
				if p.since < 0 {
					p.since = op.Call
				}
			}
			if op.Outcome != history.OK {
				continue
			}
			again := isRepeat(op, last)
			if again && sameRecords(op, last) {
				continue
			}
			if again && c.quiet(g, op.Group, last.Call, op.Return, op.Session) {
				c.fail("V8", "group %s: %s has not the records of %s, whose request id it repeats", op.Group, gname(op), gname(last))
			}
			for key, r := range runsOf(op) {
				p := places[key]
				if p == nil {
					p = &place{since: first}
					places[key] = p
				}
				c.start(g, g.lane(op.Group, key), l, p, r)
				*p = place{at: op, next: r.end, since: -1}
			}
			last = op
		}
	}
}

func seek(places map[history.Partition]*place, op *history.GroupOp) {
	for _, o := range op.Offsets {
		p := places[o.Partition]
		switch {
		case op.Outcome == history.OK:
			places[o.Partition] = &place{at: op, next: o.Offset, since: -1}
		case op.Outcome == history.Unknown && p != nil:
			p.maybe = append(p.maybe, o.Offset)
		case op.Outcome == history.Unknown:
			places[o.Partition] = &place{at: op, next: o.Offset, since: -1}
		}
	}
}

// start judges where one answer begins in one partition.
func (c *checker) start(g *groups, l *lane, who *life, p *place, r run) {
	from := p.since
	if who.once {
		from = r.op.Call // a one-call poll always begins at what is committed
	}
	may := l.commits.inForce(from, r.op.Return)
	at := slices.Index(may, nothing)
	if at >= 0 {
		may[at] = 0 // where the log starts
	}
	here := p.at != nil && !who.once
	moved := here && l.moved(who.name, p.at.Return, r.op.Call)
	if here && !moved && (r.first == p.next || slices.Contains(p.maybe, r.first)) {
		return
	}
	if !slices.Contains(may, r.first) {
		c.fail("V8", "%s: %s begins at %d; its member was at %s, and what is committed is one of %v%s", l, gname(r.op), r.first, p, may, l.lastCertain(r.op.Call))
		return
	}
	if !here || moved {
		return
	}
	g.facts.FellBack++
	if c.quiet(g, l.group, p.at.Call, r.op.Return, r.op.Session) {
		c.fail("V8", "%s: %s begins at %d, which is committed, though its member was at %s and nothing had happened", l, gname(r.op), r.first, p)
	}
}

func (p *place) String() string {
	if p.at == nil {
		return "no place yet"
	}
	return gname(p.at) + " up to " + strconv.FormatInt(p.next, 10)
}

// moved tells that another life had the partition in between.
func (l *lane) moved(life string, from, to int64) bool {
	at, _ := slices.BinarySearchFunc(l.holds, from, func(r run, at int64) int { return cmp.Compare(r.op.Return, at) })
	for _, h := range l.holds[at:] {
		if h.op.Return >= to {
			return false
		}
		if h.op.Call > from && h.op.Life != life {
			return true
		}
	}
	return false
}

// quiet tells that nothing happened for a while before and in a stretch of time that
// moves partitions or has a coordinator forget: no fault, and nobody came or went.
func (c *checker) quiet(g *groups, group string, from, to, session int64) bool {
	from -= 2 * session
	for _, s := range g.trouble {
		if s.from < to && from < s.to {
			return false
		}
	}
	for _, l := range g.lives {
		if l.group != group {
			continue
		}
		silent := int64(-never)
		for _, op := range l.ops {
			comes := gives(op.Kind) && op.Kind != history.Poll || op.Kind == history.Poll && l.once && op.Call > silent+session/2
			if comes && op.Call < to && op.Return > from {
				return false
			}
			silent = op.Call
		}
		if expires := silent + session; expires < to+session && expires > from {
			return false
		}
	}
	return true
}
