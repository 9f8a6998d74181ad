package storage

import (
	"slices"
	"sync"
)

// memIndex is a logIndex whose queued changes a crash can lose.
type memIndex struct {
	fs *memFS // a crash stops the index too

	mu      sync.Mutex
	current map[PartitionID]*memIndexed
	durable map[PartitionID]*memIndexed
}

type memIndexed struct {
	meta    *logMeta
	offsets []indexEntry
	times   []timeEntry
}

func newMemIndex(fs *memFS) *memIndex {
	return &memIndex{fs: fs, current: map[PartitionID]*memIndexed{}, durable: map[PartitionID]*memIndexed{}}
}

func cloneIndexed(logs map[PartitionID]*memIndexed) map[PartitionID]*memIndexed {
	c := map[PartitionID]*memIndexed{}
	for id, l := range logs {
		n := &memIndexed{offsets: slices.Clone(l.offsets), times: slices.Clone(l.times)}
		if l.meta != nil {
			m := l.meta.clone()
			n.meta = &m
		}
		c[id] = n
	}
	return c
}

// commit makes all that is queued durable.
func (ix *memIndex) commit() {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.durable = cloneIndexed(ix.current)
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
	l := ix.log(id)
	l.offsets = append(l.offsets, entries...)
}

func (ix *memIndex) renoteOffsets(id PartitionID, entries []indexEntry) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	l := ix.log(id)
	l.offsets = slices.DeleteFunc(l.offsets, func(e indexEntry) bool {
		return slices.ContainsFunc(entries, func(n indexEntry) bool { return n.Offset == e.Offset })
	})
	l.offsets = append(l.offsets, entries...)
}

func (ix *memIndex) addTimes(id PartitionID, entries []timeEntry) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	l := ix.log(id)
	l.times = append(l.times, entries...)
}

func (ix *memIndex) truncate(id PartitionID, offset int64) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	l := ix.log(id)
	l.offsets = slices.DeleteFunc(l.offsets, func(e indexEntry) bool { return e.Offset >= offset })
	l.times = slices.DeleteFunc(l.times, func(e timeEntry) bool { return e.Offset >= offset })
}

func (ix *memIndex) deleteBelow(id PartitionID, offset int64) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	l := ix.log(id)
	l.offsets = slices.DeleteFunc(l.offsets, func(e indexEntry) bool { return e.Offset < offset })
	l.times = slices.DeleteFunc(l.times, func(e timeEntry) bool { return e.Offset < offset })
}

func (ix *memIndex) update(id PartitionID, change func(*logMeta)) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	l := ix.log(id)
	if l.meta == nil {
		l.meta = &logMeta{}
	}
	change(l.meta)
}

func (ix *memIndex) updateNow(id PartitionID, change func(*logMeta)) error {
	ix.update(id, change)
	ix.fs.mu.Lock()
	err := ix.fs.step("index", "")
	ix.fs.mu.Unlock()
	if err == nil {
		ix.commit()
	}
	return err
}

func (ix *memIndex) drop(id PartitionID) error {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	delete(ix.current, id)
	return nil
}
