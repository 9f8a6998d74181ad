package check

import (
	"slices"

	"chaos/history"
)

// span is a stretch of time in ns.
type span struct{ from, to int64 }

func overlaps(spans []span, from, to int64) bool {
	return slices.ContainsFunc(spans, func(s span) bool { return s.from < to && from < s.to })
}

// down is when each broker did not run.
func (c *checker) down() map[int][]span {
	spans := map[int][]span{}
	for _, e := range c.h.Events {
		s := spans[e.Broker]
		switch e.What {
		case history.EventDown:
			if len(s) == 0 || s[len(s)-1].to != never {
				spans[e.Broker] = append(s, span{e.At, never})
			}
		case history.EventUp:
			if len(s) > 0 && s[len(s)-1].to == never {
				s[len(s)-1].to = e.At
			}
		}
	}
	return spans
}

// answers: a broker that ran all the while answered within the operation's
// timeout (V15).
func (c *checker) answers() {
	down := c.down()
	for _, op := range c.h.Ops {
		if op.NoAnswer && !overlaps(down[op.Broker], op.Call, op.Return) {
			c.fail("V15", "%s-%d: no answer came to %s: %s", op.Partition.Topic, op.Partition.Index, name(op), op.Error)
		}
	}
}

// final: when all faults are mended, every partition takes a produce at acks=-1
// through every broker within a bound (V15).
func (c *checker) final() {
	if c.o.FinalWithin == 0 {
		return
	}
	begin := int64(-1)
	for _, e := range c.h.Events {
		if e.What == history.EventFinal {
			begin = e.At
		}
	}
	if begin < 0 {
		c.fail("V15", "the run never came to its last produces")
		return
	}
	for _, key := range c.keys {
		if c.o.Deleted[key.Topic] || len(c.parts[key].views) == 0 {
			continue
		}
		for _, broker := range c.o.Brokers {
			if !slices.ContainsFunc(c.parts[key].produces, func(op *history.Op) bool {
				return op.Call >= begin && op.Return <= begin+c.o.FinalWithin && op.Acks == -1 && op.Outcome == history.OK && op.Broker == broker
			}) {
				c.fail("V15", "%s: no produce at acks=-1 through broker %d succeeded within %.0f s of all faults being mended",
					c.parts[key], broker, float64(c.o.FinalWithin)/1e9)
			}
		}
	}
}
