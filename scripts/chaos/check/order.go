package check

import (
	"cmp"
	"slices"

	"chaos/history"
)

// mark is a figure that became known at a time.
type mark struct {
	at    int64
	value int64
	by    *history.Op
}

// marks tells the highest figure that was known before a time.
type marks []mark

func (m *marks) add(at, value int64, by *history.Op) { *m = append(*m, mark{at, value, by}) }

// rise sorts the marks by time and leaves only those that are new maxima.
func (m *marks) rise() {
	slices.SortFunc(*m, func(a, b mark) int { return cmp.Compare(a.at, b.at) })
	kept := (*m)[:0]
	for _, x := range *m {
		if len(kept) == 0 || x.value > kept[len(kept)-1].value {
			kept = append(kept, x)
		}
	}
	*m = kept
}

// before is the highest mark that was known before a time; ok is false if none was.
func (m marks) before(at int64) (mark, bool) {
	i, _ := slices.BinarySearchFunc(m, at, func(x mark, at int64) int { return cmp.Compare(x.at, at) })
	if i == 0 {
		return mark{}, false
	}
	return m[i-1], true
}

// order: a produce that began after another was acknowledged stands behind it (V6).
func (c *checker) order(p *part) {
	type placed struct {
		op          *history.Op
		first, last int64
	}
	var all []placed
	var known marks
	for _, op := range p.produces {
		if op.Outcome != history.OK || op.Acks == 0 || len(op.Offsets) == 0 || len(op.Offsets) != len(op.Values) {
			continue
		}
		if op.Acks == 1 && len(p.where[op.Values[0]]) == 0 {
			continue // may be lost
		}
		x := placed{op, op.Offsets[0], op.Offsets[len(op.Offsets)-1]}
		all = append(all, x)
		known.add(op.Return, x.last, op)
	}
	if c.o.Unclean {
		return
	}
	known.rise()
	for _, x := range all {
		if m, ok := known.before(x.op.Call); ok && m.value >= x.first {
			c.fail("V6", "%s: %s got offset %d, but %s had been acknowledged at %d before it began", p, name(x.op), x.first, name(m.by), m.value)
		}
	}
}

// producers: one client that sends one request after the other finds its
// acknowledged records in that order in each partition (V10).
func (c *checker) producers() {
	type lane struct {
		client string
		key    history.Partition
	}
	last := map[lane]*history.Op{}
	for _, op := range c.h.Ops {
		if op.Kind != history.Produce || op.Outcome != history.OK || op.Acks != -1 || len(op.Offsets) == 0 {
			continue
		}
		l := lane{op.Client, op.Partition}
		if before := last[l]; before != nil && !c.o.Unclean && before.Offsets[len(before.Offsets)-1] >= op.Offsets[0] {
			c.fail("V10", "%s-%d: %s stands at %d, before the same client's earlier %s at %d", op.Partition.Topic, op.Partition.Index,
				name(op), op.Offsets[0], name(before), before.Offsets[0])
		}
		for i := 1; i < len(op.Offsets); i++ {
			if op.Offsets[i] <= op.Offsets[i-1] {
				c.fail("V10", "%s-%d: offsets %d and %d in this order in one answer: %s", op.Partition.Topic, op.Partition.Index,
					op.Offsets[i-1], op.Offsets[i], name(op))
			}
		}
		last[l] = op
	}
}

// acked is the end of what was acknowledged at acks=-1, over time.
func (p *part) acked() (m marks) {
	for _, op := range p.produces {
		if op.Outcome == history.OK && op.Acks == -1 && len(op.Offsets) > 0 {
			m.add(op.Return, slices.Max(op.Offsets)+1, op)
		}
	}
	m.rise()
	return m
}

// recency: a read that began after a record was acknowledged sees it, unless the
// broker said that it can't vouch for its answer (V7).
func (c *checker) recency(p *part) {
	if c.o.Unclean {
		return
	}
	acked := p.acked()
	for _, op := range slices.Concat(p.reads, p.ends) {
		if op.Outcome != history.OK || op.Stale || op.High < 0 || op.Kind == history.Tail {
			continue
		}
		m, ok := acked.before(op.Call)
		switch {
		case !ok:
		case op.High < m.value:
			c.fail("V7", "%s: %s says that the log ends at %d, but %s had been acknowledged at %d before it began", p, name(op), op.High, name(m.by), m.value-1)
		case op.Kind == history.Fetch && op.From < m.value && len(op.Records) == 0:
			c.fail("V7", "%s: %s found nothing at %d, but %s had been acknowledged at %d before it began", p, name(op), op.From, name(m.by), m.value-1)
		}
	}
}

// ends: the end of a log that clients are told never goes back, whoever is asked
// (V11), and records that were deleted don't come back (R89).
func (c *checker) ends(p *part) {
	if c.o.Unclean {
		return
	}
	var high, start marks
	var told []*history.Op
	for _, op := range slices.Concat(p.reads, p.ends) {
		if op.Outcome != history.OK || op.Stale || op.High < 0 || op.Kind == history.Tail {
			continue
		}
		told = append(told, op)
		high.add(op.Return, op.High, op)
	}
	for _, op := range p.trims {
		if op.Outcome == history.OK {
			start.add(op.Return, op.Start, op)
		}
	}
	high.rise()
	start.rise()
	for _, op := range told {
		if m, ok := high.before(op.Call); ok && op.High < m.value {
			c.fail("V11", "%s: %s says that the log ends at %d; %s had said %d before it began", p, name(op), op.High, name(m.by), m.value)
		}
		if m, ok := start.before(op.Call); ok && op.Start < m.value {
			c.fail("R89", "%s: %s says that the log starts at %d; %s had moved it to %d before it began", p, name(op), op.Start, name(m.by), m.value)
		}
		if p.truth != nil && op.High > p.truth.End {
			c.fail("V11", "%s: %s said that the log ends at %d; at the end of the run it ends at %d", p, name(op), op.High, p.truth.End)
		}
	}
}

// reads: what one answer or stream holds is dense, from the offset that was asked
// for (V8), and is still there at the end (V9).
func (c *checker) reads(p *part) {
	for _, op := range p.reads {
		next := op.From
		for _, r := range op.Records {
			if r.Offset > next && p.compact {
				next = r.Offset
			}
			if r.Offset != next {
				c.fail("V8", "%s: %d comes where %d was due in %s", p, r.Offset, next, name(op))
				break
			}
			next++
		}
		if op.Kind == history.Fetch && op.Outcome == history.OK && op.High >= 0 && next > op.High && len(op.Records) > 0 {
			c.fail("V8", "%s: %s reads up to %d but says that the log ends at %d", p, name(op), next, op.High)
		}
		if p.truth == nil || c.o.Unclean {
			continue
		}
		for _, r := range op.Records {
			if now, there := p.at[r.Offset]; !p.purged(r.Offset) && (!there || now != r.Value) {
				c.fail("V9", "%s: %s read %s at %d; at the end of the run %q is there", p, name(op), r.Value, r.Offset, now)
				break
			}
		}
	}
}
