package check

import (
	"fmt"

	"chaos/history"
)

// Error codes that refuse an id or a producer.
const (
	codeReused = 40908
	codeGap    = 40904
	codeFenced = 40303
)

// refusals: an id that has a record is refused with other content, with its whole
// part of the request, and that content is nowhere (D7). The same content isn't
// refused.
func (g *again) refusals() {
	for _, p := range g.parts {
		for _, v := range p.views {
			for _, r := range v.Records {
				key := [2]string{p.key.Topic, r.Value}
				if t, foul := g.foul[key]; foul && g.values[key] == nil {
					g.fail("D7", "%s: %s is at %d of %s, but it had to be refused: %s", p, r.Value, r.Offset, v.Source, t)
				}
			}
		}
	}
	for _, a := range g.h.Attempts {
		refused := map[int]bool{}
		must := false
		for i := range a.Items {
			item := &a.Items[i]
			must = must || item.Refuse
			if item.Refuse && item.Outcome == history.OK {
				g.fail("D7", "%s was taken with other content, or of a fenced producer: %s", item.Message, try{a, item})
			}
			if item.Refuse && item.Code == codeReused {
				refused[item.Partition] = true
			}
		}
		for i := range a.Items {
			item := &a.Items[i]
			if !item.Refuse && item.Outcome == history.OK && refused[item.Partition] {
				g.fail("D7", "%s was taken beside what was refused in partition %d: %s", item.Message, item.Partition, try{a, item})
			}
			if !must && item.Code == codeReused {
				g.fail("D7", "%s was refused as reused, with the content that it always had: %s: %s", item.Message, try{a, item}, a.Error)
			}
		}
	}
}

func lookName(l *history.Lookup) string {
	return fmt.Sprintf("look-up %d (of %s by %s at broker %d, %.3f-%.3f s)", l.ID, l.Message, l.Client, l.Broker, float64(l.Call)/1e9, float64(l.Return)/1e9)
}

// lookups: a message that somebody was told of before is found (V7), at its place
// (V5), with its content (V3), and what was found stays (V9).
func (g *again) lookups() {
	for _, l := range g.h.Lookups {
		f := g.fates[ident{l.Topic, l.Message}]
		at := spot{l.Partition, l.Offset}
		switch {
		case l.Outcome == history.OK && f == nil:
			g.fail("V16", "%s found %s at %s, which nobody sent", lookName(l), l.Value, at)
		case l.Outcome == history.OK && l.Value != f.value:
			g.fail("V3", "%s found %s at %s; it is %s", lookName(l), l.Value, at, f.value)
		case l.Outcome == history.OK && len(f.where) == 0 && !g.gone(f, at):
			g.fail("V9", "%s found it in partition %s, where it isn't at the end", lookName(l), at)
		case l.Outcome == history.OK && len(f.where) > 0 && f.where[0] != at:
			g.fail("V5", "%s found it in partition %s; it stands at %s", lookName(l), at, f.where[0])
		case l.Outcome == history.NotWritten && f != nil:
			g.absent(f, l)
		}
	}
}

// absent judges an answer that there is no such message.
func (g *again) absent(f *fate, l *history.Lookup) {
	at := spot{-1, -1}
	if f.acked.a != nil {
		at = spot{f.acked.item.Partition, f.acked.item.Offset}
	} else if len(f.where) > 0 {
		at = f.where[0]
	}
	if at.partition >= 0 && g.gone(f, at) {
		return // it may have been deleted by then, or compacted away where the look-up was, for each replica compacts by itself
	}
	if f.known.at > 0 && f.known.at < l.Call {
		g.fail("V7", "%s found nothing, but %s had been told that it is there, in partition %s: %s", lookName(l), name(f.known.by), at, l.Error)
	}
}
