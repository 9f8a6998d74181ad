package check

import (
	"fmt"
	"maps"
	"slices"

	"chaos/history"
)

// sequenceLane is what one producer sent to one partition.
type sequenceLane struct {
	topic     string
	partition int
	producer  int64
	epoch     int
}

func (l sequenceLane) String() string {
	return fmt.Sprintf("producer %d, epoch %d, in %s-%d", l.producer, l.epoch, l.topic, l.partition)
}

// sequences: a producer's records stand in the order of their numbers, without a
// gap (V10), those of an epoch before those of the next; and what was acknowledged
// is no gap.
func (g *again) sequences() {
	lanes := map[sequenceLane]map[int64]*fate{}
	var gaps []*history.Attempt
	laneOf := func(a *history.Attempt) sequenceLane {
		return sequenceLane{a.Topic, a.Items[0].Partition, a.Producer.ID, a.Producer.Epoch}
	}
	for _, a := range g.h.Attempts {
		if a.Producer == nil || a.Items[0].Refuse {
			continue
		}
		l := laneOf(a)
		if lanes[l] == nil {
			lanes[l] = map[int64]*fate{}
		}
		for i := range a.Items {
			lanes[l][a.Producer.Sequence+int64(i)] = g.fates[ident{a.Topic, a.Items[i].Message}]
		}
		if a.Items[0].Code == codeGap {
			gaps = append(gaps, a)
		}
	}
	ends := map[sequenceLane]int64{} // offset behind the lane's last record
	for l, sent := range lanes {
		ends[l] = g.contiguous(l, sent)
	}
	for l, sent := range lanes {
		before := l
		before.epoch--
		for _, f := range sent {
			if len(f.where) > 0 && f.where[0].offset < ends[before] {
				g.fail("V10", "%s: %s stands at %s, before the end of the former epoch at %d", l, f, f.where[0], ends[before])
				break
			}
		}
	}
	for _, a := range gaps {
		g.gap(laneOf(a), lanes[laneOf(a)], a)
	}
}

// contiguous checks one lane; it returns the offset behind its last record.
func (g *again) contiguous(l sequenceLane, sent map[int64]*fate) (end int64) {
	var missing *fate
	for _, sequence := range slices.Sorted(maps.Keys(sent)) {
		f := sent[sequence]
		switch {
		case len(f.where) == 0:
			missing = f
		case missing != nil:
			g.fail("V10", "%s: sequence %d, %s, is at %s, but %s before it is nowhere", l, sequence, f, f.where[0], missing)
			return end
		case f.where[0].offset < end:
			g.fail("V10", "%s: sequence %d, %s, stands at %s, before the one before it at %d", l, sequence, f, f.where[0], end-1)
			return end
		default:
			end = f.where[0].offset + 1
		}
	}
	return end
}

// gap: the answer says that something before these numbers is missing.
func (g *again) gap(l sequenceLane, sent map[int64]*fate, a *history.Attempt) {
	ackedBefore := func(f *fate) bool { return f != nil && f.known.at > 0 && f.known.at < a.Call }
	expected := a.Items[0].Expected
	whole := true
	for sequence, f := range sent {
		if sequence < a.Producer.Sequence && !ackedBefore(f) {
			whole = false
		}
		if expected >= 0 && sequence >= expected && ackedBefore(f) {
			g.fail("V10", "%s: %s was told that sequence %d is expected, but %d had been acknowledged before: %s", l, try{a, &a.Items[0]}, expected, sequence, a.Error)
			return
		}
	}
	if whole {
		g.fail("V10", "%s: %s was refused as a gap, but all before it was acknowledged: %s", l, try{a, &a.Items[0]}, a.Error)
	}
}
