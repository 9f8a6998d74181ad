// Package check holds a history against the invariants of a replicated log. It
// knows no broker: histories made by hand are checked like real ones, and its
// tests show that each invariant, broken, is found.
//
// Every value is sent once, or always under the same id, so a value names its record. "Truth" is a
// partition's log at the end of the run, when all faults are mended: the view
// with the highest end. An invariant that can't be judged by a history (the
// topic was deleted, the records were purged) is left out, never guessed.
package check

import (
	"fmt"
	"slices"
	"strings"

	"chaos/history"
)

// Violation is one invariant, broken.
type Violation struct {
	Invariant string // V1, V2, ...
	Detail    string
}

func (v Violation) String() string { return v.Invariant + ": " + v.Detail }

// Options of a check.
type Options struct {
	// FinalWithin bounds how long after EventFinal each partition has to take a
	// produce at acks=-1, in ns (V15). 0: not asked.
	FinalWithin int64
	// Brokers that every partition must take a produce through after EventFinal.
	Brokers []int
	// Deleted topics, by id: their logs are not looked for.
	Deleted map[string]bool
	// Unclean elections were allowed, so records may be lost and rewritten; only
	// what holds in spite of them is checked.
	Unclean bool
}

// maxEach is how many violations of one invariant are told.
const maxEach = 20

// Check tells everything that is wrong with a history.
func Check(h *history.History, o Options) []Violation {
	c := newChecker(h, o)
	c.values()
	for _, key := range c.keys {
		p := c.parts[key]
		c.acknowledged(p)
		c.refused(p)
		c.oneValueEach(p)
		c.atomic(p)
		c.order(p)
		c.recency(p)
		c.reads(p)
		c.ends(p)
		c.logs(p)
	}
	c.producers()
	c.answers()
	c.final()
	c.samples()
	c.groups()
	c.attempts()
	return c.found
}

// part is what the history has of one partition.
type part struct {
	key      history.Partition
	produces []*history.Op
	reads    []*history.Op // fetches and tails
	ends     []*history.Op
	trims    []*history.Op
	views    []*history.View
	truth    *history.View      // nil: none
	compact  bool               // any of its records may go, but the last of its key
	at       map[int64]string   // truth by offset
	where    map[string][]int64 // truth by value
}

func (p *part) String() string { return fmt.Sprintf("%s-%d", p.key.Topic, p.key.Index) }

// purged tells that the record of an offset may be gone on purpose.
func (p *part) purged(offset int64) bool {
	return p.compact || p.truth != nil && offset < p.truth.Start
}

type checker struct {
	h     *history.History
	o     Options
	keys  []history.Partition // sorted
	parts map[history.Partition]*part
	sent  map[string]*history.Op // by value
	again map[[2]string]bool     // topic and value that were sent any number of times
	found []Violation
	count map[string]int
}

func newChecker(h *history.History, o Options) *checker {
	c := &checker{h: h, o: o, parts: map[history.Partition]*part{}, sent: map[string]*history.Op{}, again: map[[2]string]bool{}, count: map[string]int{}}
	for _, op := range h.Ops {
		p := c.part(op.Partition)
		switch op.Kind {
		case history.Produce:
			p.produces = append(p.produces, op)
		case history.Fetch, history.Tail:
			p.reads = append(p.reads, op)
		case history.End:
			p.ends = append(p.ends, op)
		case history.Trim:
			p.trims = append(p.trims, op)
		}
	}
	for _, op := range h.Groups {
		if op.Kind != history.Poll || op.Outcome != history.OK {
			continue
		}
		for _, read := range asReads(op) {
			c.part(read.Partition).reads = append(c.part(read.Partition).reads, read)
		}
	}
	for _, a := range h.Attempts {
		for i := range a.Items {
			c.again[[2]string{a.Topic, a.Items[i].Value}] = true
		}
	}
	for _, v := range h.Views {
		p := c.part(v.Partition)
		p.views = append(p.views, v)
		if !v.Disk && (p.truth == nil || v.End > p.truth.End) {
			p.truth = v
		}
	}
	compacted := map[string]bool{}
	for _, e := range h.Events {
		if e.What == history.EventCompacted {
			compacted[e.Detail] = true
		}
	}
	for key, p := range c.parts {
		c.keys = append(c.keys, key)
		p.compact = compacted[key.Topic]
		if p.truth == nil {
			continue
		}
		p.at, p.where = map[int64]string{}, map[string][]int64{}
		for _, r := range p.truth.Records {
			p.at[r.Offset] = r.Value
			p.where[r.Value] = append(p.where[r.Value], r.Offset)
		}
	}
	slices.SortFunc(c.keys, func(a, b history.Partition) int {
		return strings.Compare(fmt.Sprintf("%s-%05d", a.Topic, a.Index), fmt.Sprintf("%s-%05d", b.Topic, b.Index))
	})
	return c
}

func (c *checker) part(key history.Partition) *part {
	if c.parts[key] == nil {
		c.parts[key] = &part{key: key}
	}
	return c.parts[key]
}

func (c *checker) fail(invariant, format string, args ...any) {
	c.count[invariant]++
	if n := c.count[invariant]; n <= maxEach {
		c.found = append(c.found, Violation{invariant, fmt.Sprintf(format, args...)})
	} else if n == maxEach+1 {
		c.found = append(c.found, Violation{invariant, "and more of these"})
	}
}

// name of an operation, to be found in the history's file.
func name(op *history.Op) string {
	return fmt.Sprintf("op %d (%s of %s at broker %d, %.3f-%.3f s)", op.ID, op.Kind, op.Client, op.Broker,
		float64(op.Call)/1e9, float64(op.Return)/1e9)
}

// values: each is sent once, or nothing can be told about it.
func (c *checker) values() {
	for _, op := range c.h.Ops {
		if op.Kind != history.Produce {
			continue
		}
		for _, v := range op.Values {
			if first := c.sent[v]; first != nil {
				c.fail("history", "%s is sent by %s and by %s", v, name(first), name(op))
			}
			c.sent[v] = op
		}
	}
}
