package storage

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// memIndex is the index in the simplest form: everything in memory, and what is
// durable is written whole. It serves a Store on a file system that is no real one
// (Options.FS), where bbolt can't work; look-ups cost a walk over a log's entries.
type memIndex struct {
	// save makes the state given durable; nil: it is kept in memory alone.
	save func(map[PartitionID]*memIndexed) error

	// saving holds one value while the state is saved, so that an older one can't
	// overtake. It is no mutex because simulated time goes on while one waits for it.
	saving  chan struct{}
	changes atomic.Int64 // made so far
	saved   int64        // of them, those that are durable; guarded by saving

	mu      sync.Mutex // guards everything below
	current map[PartitionID]*memIndexed
	durable map[PartitionID]*memIndexed // what a crash leaves; never changed, only replaced
}

// memIndexed is what a memIndex has of one log.
type memIndexed struct {
	meta    *logMeta
	offsets []indexEntry
	times   []timeEntry
	state   []byte            // of ids and producers; never changed, only replaced
	runs    map[runKey][]byte // the same holds for each
}

func newMemoryIndex(save func(map[PartitionID]*memIndexed) error) *memIndex {
	return &memIndex{save: save, saving: make(chan struct{}, 1), current: map[PartitionID]*memIndexed{}, durable: map[PartitionID]*memIndexed{}}
}

func cloneIndexed(logs map[PartitionID]*memIndexed) map[PartitionID]*memIndexed {
	c := map[PartitionID]*memIndexed{}
	for id, l := range logs {
		n := &memIndexed{offsets: slices.Clone(l.offsets), times: slices.Clone(l.times), state: l.state, runs: maps.Clone(l.runs)}
		if l.meta != nil {
			m := l.meta.clone()
			n.meta = &m
		}
		c[id] = n
	}
	return c
}

func (ix *memIndex) log(id PartitionID) *memIndexed {
	l := ix.current[id]
	if l == nil {
		l = &memIndexed{}
		ix.current[id] = l
	}
	return l
}

func (ix *memIndex) meta(id PartitionID) (logMeta, bool) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if l := ix.log(id); l.meta != nil {
		return l.meta.clone(), true
	}
	return logMeta{}, false
}

func (ix *memIndex) offsetFloor(id PartitionID, offset int64) (e indexEntry, ok bool) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	for _, have := range ix.log(id).offsets {
		if have.Offset <= offset && (!ok || have.Offset >= e.Offset) {
			e, ok = have, true
		}
	}
	return e, ok
}

func (ix *memIndex) timeFloor(id PartitionID, ms int64) (e timeEntry, ok bool) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	for _, have := range ix.log(id).times {
		if have.MaxTimestamp < ms && (!ok || have.MaxTimestamp > e.MaxTimestamp) {
			e, ok = have, true
		}
	}
	return e, ok
}

func (ix *memIndex) addOffsets(id PartitionID, entries []indexEntry) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.changes.Add(1)
	l := ix.log(id)
	l.offsets = append(l.offsets, entries...)
}

func (ix *memIndex) renoteOffsets(id PartitionID, entries []indexEntry) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.changes.Add(1)
	l := ix.log(id)
	l.offsets = slices.DeleteFunc(l.offsets, func(e indexEntry) bool {
		return slices.ContainsFunc(entries, func(n indexEntry) bool { return n.Offset == e.Offset })
	})
	l.offsets = append(l.offsets, entries...)
}

func (ix *memIndex) replaceOffsets(id PartitionID, from, to int64, entries []indexEntry) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.changes.Add(1)
	l := ix.log(id)
	l.offsets = slices.DeleteFunc(l.offsets, func(e indexEntry) bool { return from <= e.Offset && e.Offset < to })
	l.offsets = append(l.offsets, entries...)
}

func (ix *memIndex) addTimes(id PartitionID, entries []timeEntry) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.changes.Add(1)
	l := ix.log(id)
	l.times = append(l.times, entries...)
}

func (ix *memIndex) truncate(id PartitionID, offset int64) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.changes.Add(1)
	l := ix.log(id)
	l.offsets = slices.DeleteFunc(l.offsets, func(e indexEntry) bool { return e.Offset >= offset })
	l.times = slices.DeleteFunc(l.times, func(e timeEntry) bool { return e.Offset >= offset })
}

func (ix *memIndex) deleteBelow(id PartitionID, offset int64) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.changes.Add(1)
	l := ix.log(id)
	l.offsets = slices.DeleteFunc(l.offsets, func(e indexEntry) bool { return e.Offset < offset })
	l.times = slices.DeleteFunc(l.times, func(e timeEntry) bool { return e.Offset < offset })
}

func (ix *memIndex) update(id PartitionID, change func(*logMeta)) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.changes.Add(1)
	l := ix.log(id)
	if l.meta == nil {
		l.meta = &logMeta{}
	}
	change(l.meta)
}

func (ix *memIndex) updateNow(id PartitionID, change func(*logMeta)) error {
	ix.update(id, change)
	return ix.flush()
}

func (ix *memIndex) noteDedupe(id PartitionID, make func(*logMeta) (dedupeNote, bool)) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	l := ix.log(id)
	if l.meta == nil {
		l.meta = &logMeta{}
	}
	note, ok := make(l.meta)
	if !ok {
		return
	}
	ix.changes.Add(1)
	if note.dropped {
		l.state, l.runs = nil, nil
	}
	if note.state != nil {
		l.state = note.state
	}
	if l.runs == nil {
		l.runs = map[runKey][]byte{}
	}
	for k, run := range note.runs {
		if run == nil {
			delete(l.runs, k)
		} else {
			l.runs[k] = run
		}
	}
}

func (ix *memIndex) dedupeState(id PartitionID) []byte {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return ix.log(id).state
}

func (ix *memIndex) viewRuns(id PartitionID, _ []runKey, read func(get readPiece)) bool {
	ix.mu.Lock()
	runs := maps.Clone(ix.log(id).runs)
	ix.mu.Unlock()
	read(func(k runKey, from, to int) ([]byte, error) { return cutRun(runs[k], from, to) })
	return true
}

func (ix *memIndex) copyRun(id PartitionID, k runKey) []byte {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return bytes.Clone(ix.log(id).runs[k])
}

func (ix *memIndex) settle(PartitionID) error { return ix.flush() }

// flush makes all that was noted durable.
func (ix *memIndex) flush() error {
	ix.saving <- struct{}{}
	defer func() { <-ix.saving }()
	ix.mu.Lock()
	next, changes := cloneIndexed(ix.current), ix.changes.Load()
	ix.mu.Unlock()
	if changes == ix.saved {
		return nil
	}
	if ix.save != nil {
		if err := ix.save(next); isDiskFull(err) {
			return ErrDiskNearlyFull // it stays noted
		} else if err != nil {
			return err
		}
	}
	ix.saved = changes
	ix.mu.Lock()
	ix.durable = next
	ix.mu.Unlock()
	return nil
}

func (ix *memIndex) drop(id PartitionID) error {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.changes.Add(1)
	delete(ix.current, id)
	return nil
}
