package check

import (
	"cmp"
	"fmt"
	"slices"

	"chaos/history"
)

// ident names a message over all attempts to send it.
type ident struct{ topic, message string }

func (i ident) String() string { return fmt.Sprintf("%s of %s", i.message, i.topic) }

// spot is where a record stands.
type spot struct {
	partition int
	offset    int64
}

func (p spot) String() string { return fmt.Sprintf("%d at %d", p.partition, p.offset) }

// try is one item of one attempt.
type try struct {
	a    *history.Attempt
	item *history.Item
}

func (t try) String() string {
	return fmt.Sprintf("attempt %d (%s of %s at broker %d, acks=%d, %.3f-%.3f s)", t.a.ID, t.a.Form, t.a.Client, t.a.Broker, t.a.Acks,
		float64(t.a.Call)/1e9, float64(t.a.Return)/1e9)
}

// acked tells that the answer vouches for the record, whatever brokers die.
func (t try) acked() bool { return t.item.Outcome == history.OK && t.a.Acks == -1 }

// fate is everything that was said of one message.
type fate struct {
	ident
	value string
	tries []try     // by the time of the call
	where []spot    // in the log at the end, over all partitions of the topic
	acked try       // the first acknowledgement at acks=-1 that names a place, else any; a is nil: none
	known mark      // the first time that somebody was told that it is there, at acks=-1 or by a look-up
	first try       // that was called
	views []sighted // of any replica
}

type sighted struct {
	source string
	spot
}

// again are the messages of a history, by ident, and what was refused.
type again struct {
	*checker
	fates  map[ident]*fate
	order  []*fate
	values map[[2]string]*fate // by topic and value
	foul   map[[2]string]try   // values that have to be refused
}

// attempts checks what clients were told that send everything again: each id is
// stored once (V4), where every answer says (V5), and so on.
func (c *checker) attempts() {
	g := c.gather()
	if len(g.fates) == 0 {
		return
	}
	for _, f := range g.order {
		g.once(f)
		g.placed(f)
		g.nowhere(f)
	}
	g.refusals()
	g.lookups()
	g.inOrder()
	g.sequences()
	g.memories()
	down := c.down()
	for _, a := range c.h.Attempts {
		if a.NoAnswer && !overlaps(down[a.Broker], a.Call, a.Return) {
			c.fail("V15", "no answer came to %s: %s", try{a, &a.Items[0]}, a.Error)
		}
	}
	for _, l := range c.h.Lookups {
		if l.NoAnswer && !overlaps(down[l.Broker], l.Call, l.Return) {
			c.fail("V15", "no answer came to %s: %s", lookName(l), l.Error)
		}
	}
}

func (c *checker) gather() *again {
	g := &again{checker: c, fates: map[ident]*fate{}, values: map[[2]string]*fate{}, foul: map[[2]string]try{}}
	byCall := slices.SortedFunc(slices.Values(c.h.Attempts), func(a, b *history.Attempt) int { return cmp.Compare(a.Call, b.Call) })
	for _, a := range byCall {
		for i := range a.Items {
			t := try{a, &a.Items[i]}
			value := [2]string{a.Topic, t.item.Value}
			id := ident{a.Topic, t.item.Message}
			if t.item.Refuse {
				g.foul[value] = t
				continue
			}
			f := g.fates[id]
			if f == nil {
				f = &fate{ident: id, value: t.item.Value, first: t}
				g.fates[id], g.values[value] = f, f
				g.order = append(g.order, f)
			}
			f.tries = append(f.tries, t)
			if t.acked() {
				if f.acked.a == nil || f.acked.item.Offset < 0 && t.item.Offset >= 0 {
					f.acked = t
				}
				if f.known.at == 0 || a.Return < f.known.at {
					f.known = mark{at: a.Return, by: &history.Op{ID: a.ID, Client: a.Client, Broker: a.Broker, Call: a.Call, Return: a.Return, Kind: history.Produce}}
				}
			}
		}
	}
	for _, p := range c.parts {
		g.sight(p)
	}
	return g
}

// sight notes where each message was seen at the end.
func (g *again) sight(p *part) {
	for _, v := range p.views {
		for _, r := range v.Records {
			f := g.values[[2]string{p.key.Topic, r.Value}]
			if f == nil {
				continue
			}
			at := spot{p.key.Index, r.Offset}
			f.views = append(f.views, sighted{v.Source, at})
			if v == p.truth {
				f.where = append(f.where, at)
			}
		}
	}
}

// gone tells that a record of that place may have been deleted on purpose.
func (g *again) gone(f *fate, at spot) bool {
	p := g.parts[history.Partition{Topic: f.topic, Index: at.partition}]
	return p != nil && p.purged(at.offset)
}

// once: an id has one record, whatever partition it is in, and only one answer
// claims to have written it (V4).
func (g *again) once(f *fate) {
	if len(f.where) > 1 {
		g.fail("V4", "%s is stored %d times, in partitions %v; first sent by %s", f, len(f.where), f.where, f.first)
	}
	var wrote try
	for _, t := range f.tries {
		if !t.acked() || t.item.Duplicate {
			continue
		}
		if wrote.a != nil {
			g.fail("V4", "%s: two answers say that they wrote it: to %s and to %s", f, wrote, t)
			return
		}
		wrote = t
	}
}

// placed: what was acknowledged is there (V1), at the place that every answer of
// every attempt names (V5). An acknowledgement by the leader alone may name the
// place of a copy that was lost with it, but not once the record is known to all.
func (g *again) placed(f *fate) {
	if g.o.Deleted[f.topic] {
		return
	}
	at := spot{-1, -1} // where it has to be
	if len(f.where) > 0 {
		at = f.where[0]
	} else if f.acked.a != nil {
		at = spot{f.acked.item.Partition, f.acked.item.Offset}
		if !g.gone(f, at) {
			said := ""
			if f.acked.item.Duplicate {
				said = ", as a duplicate"
			}
			g.fail("V1", "%s is lost: %s was answered with partition %s%s", f, f.acked, at, said)
			return
		}
	}
	for _, t := range f.tries {
		if t.item.Outcome != history.OK || at.partition < 0 {
			continue
		}
		told := spot{t.item.Partition, t.item.Offset}
		switch {
		case told == at, t.item.Offset < 0 && told.partition == at.partition && t.a.Form == history.FormProducer && t.item.Duplicate:
		case told.partition != at.partition, t.acked():
			g.fail("V5", "%s is in partition %s; %s was answered with %s (duplicate: %v)", f, at, t, told, t.item.Duplicate)
		case f.known.at > 0 && t.a.Call > f.known.at:
			g.fail("V5", "%s is in partition %s, known to all since %s; later %s was answered with %s", f, at, name(f.known.by), t, told)
		}
	}
}

// nowhere: if every attempt was answered as not written, no replica has it (V17).
// Of several attempts one that isn't proves nothing about the others.
func (g *again) nowhere(f *fate) {
	if len(f.views) == 0 {
		return
	}
	for _, t := range f.tries {
		if t.item.Outcome != history.NotWritten {
			return
		}
	}
	g.fail("V17", "%s is in partition %s of %s, but all %d attempts were answered as not written, the first of them %s (%d/%d)",
		f, f.views[0].spot, f.views[0].source, len(f.tries), f.first, f.first.a.Status, f.first.item.Code)
}

// inOrder: a message that was first sent after another was acknowledged stands
// behind it (V6).
func (g *again) inOrder() {
	type stands struct {
		f  *fate
		at spot
	}
	by := map[history.Partition][]stands{}
	for _, f := range g.order {
		if len(f.where) == 1 {
			key := history.Partition{Topic: f.topic, Index: f.where[0].partition}
			by[key] = append(by[key], stands{f, f.where[0]})
		}
	}
	for _, all := range by {
		var known marks
		for _, x := range all {
			if x.f.acked.a != nil {
				known.add(x.f.known.at, x.at.offset, x.f.known.by)
			}
		}
		known.rise()
		for _, x := range all {
			if m, ok := known.before(x.f.first.a.Call); ok && m.value >= x.at.offset {
				g.fail("V6", "%s stands at %s; %s had been acknowledged at %d before it was first sent by %s", x.f, x.at, name(m.by), m.value, x.f.first)
			}
		}
	}
}

// memories: what each replica remembers is what its log tells (V29), so replicas of
// one log remember the same.
func (g *again) memories() {
	first := map[history.Partition]*history.Memory{}
	for _, m := range g.h.Memories {
		what := fmt.Sprintf("%s-%d at broker %d, log end %d, %d ids, %d producers", m.Partition.Topic, m.Partition.Index, m.Broker, m.LogEnd, m.IDs, m.Producers)
		if m.Digest != m.Recomputed {
			g.fail("V29", "%s: what it remembers (%s) is not what its log tells (%s)", what, m.Digest, m.Recomputed)
		}
		other := first[m.Partition]
		if other == nil {
			first[m.Partition] = m
		} else if other.LogEnd == m.LogEnd && other.Digest != m.Digest {
			g.fail("V29", "%s: remembers other things (%s) than broker %d (%s, %d ids, %d producers)", what, m.Digest, other.Broker, other.Digest, other.IDs, other.Producers)
		}
	}
}
