package check

import (
	"cmp"
	"slices"

	"chaos/history"
)

// gives tells that an operation may make its member give partitions back.
func gives(k history.Kind) bool {
	return k == history.Poll || k == history.Leave || k == history.Subscribe || k == history.Join || k == history.TakeOver
}

// released tells that a life that owned a partition while op was under way may have
// lost it before `until`: it polled again, left, was silent for too long, or its
// name was taken over.
func (g *groups) released(l *life, op *history.GroupOp, until int64) bool {
	if until >= op.Call+op.Session {
		return true
	}
	first, _ := slices.BinarySearchFunc(l.ops, op.Call-lateness, func(x *history.GroupOp, at int64) int { return cmp.Compare(x.Call, at) })
	for _, x := range l.ops[first:] {
		switch {
		case x == op || !gives(x.Kind) || x.Call >= until:
		case x.Call > op.Call:
			return true
		case x.Outcome == history.Unknown && x.Call > op.Call-lateness:
			return true // it may arrive late
		}
	}
	return g.replaced(l, op.Call, until)
}

// replaced tells that somebody may have taken the name of a life between two times.
func (g *groups) replaced(l *life, from, until int64) bool {
	for _, o := range g.byName[l.group+"/"+l.member] {
		if o == l {
			continue
		}
		for _, x := range o.ops {
			if (x.Kind == history.TakeOver || x.Kind == history.Join) && x.Outcome != history.NotWritten && x.Call < until &&
				(x.Return > from || x.Outcome == history.Unknown) {
				return true
			}
		}
	}
	return false
}

// owners: a partition has one owner at a time. What a life could not have lost is
// neither given to another (G6) nor committed by another (V12).
func (c *checker) owners(g *groups, l *lane) {
	acts := slices.Clone(l.holds)
	slices.SortFunc(acts, func(a, b run) int { return cmp.Compare(a.op.Call, b.op.Call) })
	held := map[string]*history.GroupOp{} // newest proof by life
	next := 0
	was := ""
	for _, act := range acts {
		for ; next < len(l.holds) && l.holds[next].op.Return < act.op.Call; next++ {
			held[l.holds[next].op.Life] = l.holds[next].op
		}
		for _, name := range sortedKeys(held) {
			proof := held[name]
			if name == act.op.Life {
				continue
			}
			if g.released(g.lives[name], proof, act.op.Return) {
				delete(held, name)
				continue
			}
			invariant, did := "G6", "was given it"
			if act.op.Kind == history.Commit {
				invariant, did = "V12", "committed it"
			}
			c.fail(invariant, "%s: it belonged to %s, and by no means had moved, when another %s: %s", l, gname(proof), did, gname(act.op))
		}
		if act.op.Kind == history.Poll {
			if was != "" && was != act.op.Life {
				g.facts.Moved++
			}
			was = act.op.Life
		}
	}
}

// takenOver: an incarnation whose name was taken over commits nothing any more (V12).
func (c *checker) takenOver(g *groups) {
	for _, key := range sortedKeys(g.byName) {
		same := g.byName[key]
		for _, newer := range same {
			at := int64(-1)
			for _, x := range newer.ops {
				if x.Kind == history.TakeOver && x.Outcome == history.OK {
					at = x.Return
				}
			}
			if at < 0 {
				continue
			}
			for _, older := range same {
				if older == newer || older.ops[0].Call > newer.ops[0].Call {
					continue
				}
				for _, x := range older.ops {
					if x.Call > at && x.Outcome == history.OK && (x.Kind == history.Commit || x.Kind == history.Poll) {
						c.fail("V12", "group %s: %s was accepted though %s had taken over at %.3f s", older.group, gname(x), newer.name, float64(at)/1e9)
					}
				}
			}
		}
	}
}

// expelled: a member that was heard of within its session isn't told that it is
// none (G6), nor is it refused a commit for what it certainly owns (G4).
func (c *checker) expelled(g *groups, l *life) {
	var heard *history.GroupOp
	holds := map[history.Partition]*history.GroupOp{}
	left := -never
	for _, op := range l.ops {
		gone := op.Code == 40403 || op.Code == 40906 && op.Kind != history.Commit
		if gone && heard != nil && left < heard.Call-lateness && op.Return < heard.Call+heard.Session && !g.replaced(l, l.ops[0].Call, op.Return) {
			c.fail("G6", "group %s: %s was told %d, though %s was answered well: %s", l.group, gname(op), op.Code, gname(heard), op.Error)
		}
		if op.Code == 40906 && op.Kind == history.Commit && op.Body && len(op.Offsets) > 0 &&
			!slices.ContainsFunc(op.Offsets, func(o history.GroupOffset) bool {
				proof := holds[o.Partition]
				return proof == nil || proof.Return >= op.Call || g.released(l, proof, op.Return)
			}) {
			c.fail("G4", "group %s: %s was refused, though nothing of it can have moved: %s", l.group, gname(op), op.Error)
		}
		if op.Kind == history.Leave {
			left = op.Call
			if op.Outcome != history.Unknown { // else it may come late
				left, heard = -never, nil
			}
		}
		if op.Outcome != history.OK {
			continue
		}
		if op.Kind != history.Leave {
			heard = op
		}
		for _, r := range op.Records {
			holds[r.Partition] = op
		}
		if op.Kind == history.Commit && op.Body {
			for _, o := range op.Offsets {
				holds[o.Partition] = op
			}
		}
	}
}
