package check

import (
	"cmp"
	"slices"

	"chaos/history"
)

// Fact is how often something happened that a storm of retries is there for.
type Fact struct {
	What string
	N    int
	// Rare: it needs luck, so that a run without any may be evidence all the same.
	Rare bool
}

// Again counts what happened in a storm of retries; nil: there was none.
func Again(h *history.History) []Fact {
	if len(h.Attempts) == 0 {
		return nil
	}
	g := newChecker(h, Options{}).gather()
	var f facts
	for _, x := range g.order {
		f.message(x)
	}
	f.attempts(h)
	f.lookups(h)
	return []Fact{
		{"messages sent again after they were acknowledged", f.afterSuccess, false},
		{"duplicates answered", f.duplicates, false},
		{"duplicates answered in a later leader epoch than the first", f.otherLeader, false},
		{"duplicates answered while the first was under way", f.inFlight, false},
		{"requests of duplicates and new records in one", f.mixed, false},
		{"sent again after an unknown outcome: it had been written", f.unknownWritten, false},
		{"sent again after an unknown outcome: it had not been written", f.unknownNew, false},
		{"acknowledged by a leader alone, lost with it, and written by a later attempt", f.lostWithLeader, true},
		{"sent again to the partition of the first attempt, by its number", f.pinned, false},
		{"ids with other content refused (40908)", f.reused, false},
		{"producers' batches recognised", f.producers, false},
		{"producers' batches recognised, too old for their offset", f.old, true},
		{"producers' gaps refused (40904)", f.gaps, false},
		{"producers fenced (40303)", f.fenced, true},
		{"messages found by their id", f.found, false},
		{"messages not found by their id", f.absent, false},
		{"look-ups that couldn't tell", f.failed, true},
	}
}

type facts struct {
	afterSuccess, duplicates, otherLeader, inFlight, mixed, unknownWritten, unknownNew, lostWithLeader, pinned, reused int
	producers, old, gaps, fenced, found, absent, failed                                                                int
}

// message counts what came of one message.
func (f *facts) message(x *fate) {
	slices.SortFunc(x.tries, func(a, b try) int { return cmp.Compare(a.a.Call, b.a.Call) })
	var ok []try
	unknown := false // since the last attempt that was answered
	acked := int64(0)
	for _, t := range x.tries {
		item := t.item
		if acked > 0 && t.a.Call > acked {
			f.afterSuccess++
		}
		switch {
		case item.Outcome == history.Unknown:
			unknown = true
			continue
		case item.Outcome != history.OK:
			continue
		case unknown && item.Duplicate && len(ok) == 0:
			f.unknownWritten++
		case unknown && !item.Duplicate && len(ok) == 0:
			f.unknownNew++
		}
		unknown = false
		if item.Duplicate {
			f.duplicate(t, ok)
		}
		if t.a.Acks == 1 && len(x.where) > 0 && item.Offset >= 0 && item.Offset != x.where[0].offset {
			f.lostWithLeader++
		}
		if acked == 0 || t.a.Return < acked {
			acked = t.a.Return
		}
		ok = append(ok, t)
	}
}

// duplicate counts one that was answered after these.
func (f *facts) duplicate(t try, before []try) {
	f.duplicates++
	if t.a.Form == history.FormProducer {
		if f.producers++; t.item.Offset < 0 {
			f.old++
		}
	}
	if len(before) > 0 && before[0].item.LeaderEpoch >= 0 && t.item.LeaderEpoch > before[0].item.LeaderEpoch {
		f.otherLeader++
	}
	if slices.ContainsFunc(before, func(b try) bool { return b.a.Return > t.a.Call && !b.item.Duplicate }) {
		f.inFlight++
	}
}

// attempts counts what requests were like.
func (f *facts) attempts(h *history.History) {
	for _, a := range h.Attempts {
		fresh, duplicate := false, false
		for i := range a.Items {
			item := &a.Items[i]
			fresh = fresh || item.Outcome == history.OK && !item.Duplicate
			duplicate = duplicate || item.Outcome == history.OK && item.Duplicate
			if item.Refuse && item.Code == codeReused {
				f.reused++
			}
		}
		if fresh && duplicate {
			f.mixed++
		}
		if a.Pinned && duplicate {
			f.pinned++
		}
		switch a.Items[0].Code {
		case codeGap:
			f.gaps++
		case codeFenced:
			f.fenced++
		}
	}
}

func (f *facts) lookups(h *history.History) {
	for _, l := range h.Lookups {
		switch l.Outcome {
		case history.OK:
			f.found++
		case history.NotWritten:
			f.absent++
		default:
			f.failed++
		}
	}
}
