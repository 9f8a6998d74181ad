package check

import (
	"fmt"

	"chaos/history"
)

// acknowledged: what was acknowledged by all in-sync replicas is in the log (V1),
// where the answer said (V5). A record acknowledged by the leader alone may be
// gone, but not be elsewhere.
func (c *checker) acknowledged(p *part) {
	if c.o.Deleted[p.key.Topic] {
		return
	}
	for _, op := range p.produces {
		if op.Outcome != history.OK || op.Acks == 0 {
			continue
		}
		if p.truth == nil {
			if op.Acks == -1 {
				c.fail("V1", "%s: nobody could show the log at the end, but %s was acknowledged", p, name(op))
			}
			continue
		}
		if len(op.Offsets) != len(op.Values) {
			c.fail("V5", "%s: %d offsets for the %d records of %s", p, len(op.Offsets), len(op.Values), name(op))
			continue
		}
		for i, v := range op.Values {
			c.acknowledgedValue(p, op, v, op.Offsets[i])
		}
	}
}

func (c *checker) acknowledgedValue(p *part, op *history.Op, value string, offset int64) {
	where := p.where[value]
	switch {
	case len(where) == 0 && p.purged(offset):
	case len(where) == 0 && op.Acks == -1 && !c.o.Unclean:
		c.fail("V1", "%s: %s is lost; %s was acknowledged at offset %d, where %q is now", p, value, name(op), offset, p.at[offset])
	case len(where) > 0 && where[0] != offset:
		c.fail("V5", "%s: %s stands at %d; %s was answered with %d", p, value, where[0], name(op), offset)
	}
}

// refused: what was answered as not written is never read (V2) and stands in no
// log, be it of a replica that nobody reads (V17).
func (c *checker) refused(p *part) {
	lied := func(invariant, value, seen string) {
		if op := c.sent[value]; op != nil && op.Outcome == history.NotWritten {
			c.fail(invariant, "%s: %s is %s, but %s was answered as not written (%d/%d)", p, value, seen, name(op), op.Status, op.Code)
		}
	}
	for _, op := range p.reads {
		for _, r := range op.Records {
			lied("V2", r.Value, "read by "+name(op))
		}
	}
	for _, v := range p.views {
		for _, r := range v.Records {
			lied("V17", r.Value, fmt.Sprintf("at %d of %s", r.Offset, v.Source))
		}
	}
}

// seen is where something was first said.
type seen struct {
	value string
	by    string
}

// oneValueEach: an offset has one value for ever, whoever says so (V3), a value
// has one offset (V4), and everything is something that somebody sent, whole, to
// this partition (V16).
func (c *checker) oneValueEach(p *part) {
	at, where := map[int64]seen{}, map[string]int64{}
	says := func(offset int64, value, by string) {
		if first, known := at[offset]; !known {
			at[offset] = seen{value, by}
		} else if first.value != value && !c.o.Unclean {
			c.fail("V3", "%s: offset %d is %s in %s and %s in %s", p, offset, first.value, first.by, value, by)
		}
		if first, known := where[value]; !known {
			where[value] = offset
		} else if first != offset {
			c.fail("V4", "%s: %s is at %d and, in %s, at %d", p, value, first, by, offset)
		}
		switch op := c.sent[value]; {
		case op == nil && c.again[[2]string{p.key.Topic, value}]:
		case op == nil:
			c.fail("V16", "%s: %q at %d of %s was never sent", p, value, offset, by)
		case op.Partition != p.key:
			c.fail("V16", "%s: %s at %d of %s was sent to %s-%d", p, value, offset, by, op.Partition.Topic, op.Partition.Index)
		}
	}
	for _, op := range p.produces {
		if op.Outcome == history.OK && op.Acks == -1 && len(op.Offsets) == len(op.Values) {
			for i, v := range op.Values {
				says(op.Offsets[i], v, name(op))
			}
		}
	}
	for _, op := range p.reads {
		for _, r := range op.Records {
			says(r.Offset, r.Value, name(op))
		}
	}
	for _, v := range p.views {
		for _, r := range v.Records {
			if v.Disk && p.truth != nil && r.Offset >= p.truth.End {
				continue // an uncommitted tail of a replica that has not yet cut it
			}
			says(r.Offset, r.Value, v.Source)
		}
	}
}

// atomic: the records of one request to a partition stand together and in their
// order, or not at all (V16).
func (c *checker) atomic(p *part) {
	if p.truth == nil {
		return
	}
	for _, op := range p.produces {
		if len(op.Values) < 2 {
			continue
		}
		first, found := -1, 0
		for i, v := range op.Values {
			if len(p.where[v]) == 0 {
				continue
			}
			if found++; first < 0 {
				first = i
			}
		}
		if found == 0 {
			continue
		}
		base := p.where[op.Values[first]][0] - int64(first)
		if first > 0 && !p.purged(base+int64(first)-1) || first+found < len(op.Values) {
			c.fail("V16", "%s: %d of the %d records of %s are there", p, found, len(op.Values), name(op))
			continue
		}
		for i, v := range op.Values[first:] {
			if w := p.where[v]; len(w) > 0 && w[0] != base+int64(first+i) {
				c.fail("V16", "%s: record %d of %s stands at %d, its first at %d", p, first+i, name(op), w[0], base)
				break
			}
		}
	}
}
