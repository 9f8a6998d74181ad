package storage

import (
	"cmp"
	"slices"
	"sort"
)

// maxNotedEntries bounds the entries that wait in memory for a transaction: at 24
// bytes each, 6 MiB. Above it every second entry is given up, which costs readers
// a longer scan, instead of making a producer wait for the index.
const maxNotedEntries = 256 << 10

// layer is what goes into one transaction.
type layer struct {
	logs     map[PartitionID]*noted
	entries  int           // offset and time entries over all logs
	runBytes int           // of runs of message ids
	written  chan struct{} // closed when err is final and, if nil, the layer durable
	err      error         // valid after written is closed
}

// noted is what a layer holds of one log. Applied to the state below it, in this
// order: drop everything; drop entries at or above truncatedTo, those below
// deletedBelow and offsets in one of cleared; add offsets and times; replace the meta.
type noted struct {
	dropped      bool
	truncatedTo  int64 // maxInt64: not truncated
	deletedBelow int64 // 0: nothing deleted
	cleared      []span
	meta         *logMeta
	offsets      []indexEntry // ascending by Offset
	renoted      bool         // some of offsets may lie below entries of the layers below
	times        []timeEntry  // ascending by MaxTimestamp and Offset
	dedupe       dedupeNote
}

// span is a range of offsets [from, to).
type span struct{ from, to int64 }

// clear drops offset entries in [from, to) and returns how many.
func (n *noted) clear(from, to int64) (dropped int) {
	before := len(n.offsets)
	n.offsets = slices.DeleteFunc(n.offsets, func(e indexEntry) bool { return from <= e.Offset && e.Offset < to })
	n.cleared = append(n.cleared, span{from, to})
	return before - len(n.offsets)
}

func newLayer() *layer {
	return &layer{logs: map[PartitionID]*noted{}, written: make(chan struct{})}
}

// find returns nil for a nil layer or a log without notes.
func (l *layer) find(id PartitionID) *noted {
	if l == nil {
		return nil
	}
	return l.logs[id]
}

func (l *layer) note(id PartitionID) *noted {
	n := l.logs[id]
	if n == nil {
		n = &noted{truncatedTo: maxInt64}
		l.logs[id] = n
	}
	return n
}

// thin gives up every second entry of every log, but never a log's newest.
func (l *layer) thin() {
	l.entries = 0
	for _, n := range l.logs {
		n.offsets, n.times = everySecond(n.offsets), everySecond(n.times)
		l.entries += len(n.offsets) + len(n.times)
	}
}

func everySecond[E any](entries []E) []E {
	kept := entries[:0]
	for i := (len(entries) + 1) % 2; i < len(entries); i += 2 {
		kept = append(kept, entries[i])
	}
	return kept
}

func (n *noted) offsetFloor(offset int64) (indexEntry, bool) {
	i, found := slices.BinarySearchFunc(n.offsets, offset, func(e indexEntry, o int64) int { return cmp.Compare(e.Offset, o) })
	switch {
	case found:
		return n.offsets[i], true
	case i == 0:
		return indexEntry{}, false
	}
	return n.offsets[i-1], true
}

// timeFloor finds the last entry with MaxTimestamp below ms and Offset below end.
func (n *noted) timeFloor(ms, end int64) (timeEntry, bool) {
	i := sort.Search(len(n.times), func(i int) bool { return n.times[i].MaxTimestamp >= ms || n.times[i].Offset >= end })
	if i == 0 {
		return timeEntry{}, false
	}
	return n.times[i-1], true
}

// truncate drops entries at or above offset and returns how many.
func (n *noted) truncate(offset int64) (dropped int) {
	before := len(n.offsets) + len(n.times)
	n.truncatedTo = min(n.truncatedTo, offset)
	i, _ := slices.BinarySearchFunc(n.offsets, offset, func(e indexEntry, o int64) int { return cmp.Compare(e.Offset, o) })
	n.offsets = n.offsets[:i]
	i, _ = slices.BinarySearchFunc(n.times, offset, func(e timeEntry, o int64) int { return cmp.Compare(e.Offset, o) })
	n.times = n.times[:i]
	return before - len(n.offsets) - len(n.times)
}

// deleteBelow drops entries below offset and returns how many.
func (n *noted) deleteBelow(offset int64) (dropped int) {
	before := len(n.offsets) + len(n.times)
	n.deletedBelow = max(n.deletedBelow, offset)
	i, _ := slices.BinarySearchFunc(n.offsets, offset, func(e indexEntry, o int64) int { return cmp.Compare(e.Offset, o) })
	n.offsets = slices.Delete(n.offsets, 0, i)
	i, _ = slices.BinarySearchFunc(n.times, offset, func(e timeEntry, o int64) int { return cmp.Compare(e.Offset, o) })
	n.times = slices.Delete(n.times, 0, i)
	return before - len(n.offsets) - len(n.times)
}
