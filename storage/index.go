package storage

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"go.etcd.io/bbolt"
)

// index is the data directory's one bbolt file. It keeps, per partition, what is
// cheap to look up and can be made again from the segments: the offset and time
// index, leader epochs, flushed offset, log start, checkpointed high watermark
// and the segments' vital figures. Nothing in it is trusted blindly (S9-S12).
//
// Writes go to memory first, into the dirty layer, and from there to bbolt in one
// transaction for all logs (commit); one writer at a time, never on the produce
// path. Look-ups ask the dirty layer, the layer being written, then bbolt, so
// what was noted is found at once. An idle log costs no memory here.
//
// Entries of one log are added in ascending order; after truncate they go on from
// there. Slices handed in stay the caller's, what is handed out is a copy.
type index struct {
	db         *bbolt.DB
	log        zerolog.Logger
	syncNames  func() error        // called before each layer written
	onWrite    func(time.Duration) // called after it
	outOfSpace func()              // makes room on a full disk
	writing    chan struct{}       // holds one token: whoever has it may write to db
	wake       chan struct{}       // buffered 1: run has something to do before its tick

	mu      sync.RWMutex // guards everything below
	dirty   *layer       // what the next transaction will write
	inWrite *layer       // what is being written now; nil between transactions
	commits uint64       // layers written
	err     error        // the first write that failed; final (S4)
	closed  bool

	damaged sync.Once // one warning about entries that fail their checksum
}

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
	Cleaned       int64        // below it the log was compacted
	Horizon       int64        // ms, when the first tombstone below Cleaned may go; 0: unknown, or there is none
	Epochs        []EpochEntry // ascending
	Segments      []segmentMeta
	Damage        []damage // ranges of offsets that are known to be unreadable
	Resetting     bool     // whatever files there are belong to the log before ResetTo
	Lossy         bool     // the log lost something, and the controller wasn't told yet
	// Covered: what is remembered of the marked batches below it is in the state entry
	// and the runs. Remembers: there is such an entry.
	Covered   int64
	Remembers bool
	Runs      []runKey // oldest first
	Imported  int64    // offset below which another replica told what is remembered
	// Sound: what is remembered is right for a log that ends there, or above. It is below what ids were judged
	// by (dedupe.State.Judged) when the log was cut there.
	Sound int64
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
	c.Epochs, c.Segments, c.Damage, c.Runs = slices.Clone(m.Epochs), slices.Clone(m.Segments), slices.Clone(m.Damage), slices.Clone(m.Runs)
	return c
}

// meta returns a copy of what is known of the log; false means nothing is, and
// the log must be rebuilt from its segments.
func (ix *index) meta(id PartitionID) (logMeta, bool) {
	ix.mu.RLock()
	for _, l := range [...]*layer{ix.dirty, ix.inWrite} {
		n := l.find(id)
		if n == nil {
			continue
		}
		if n.meta != nil {
			m := n.meta.clone()
			ix.mu.RUnlock()
			return m, true
		}
		if n.dropped {
			ix.mu.RUnlock()
			return logMeta{}, false
		}
	}
	ix.mu.RUnlock()
	return ix.storedMeta(id)
}

// offsetFloor finds the entry with the largest Offset at or below offset.
func (ix *index) offsetFloor(id PartitionID, offset int64) (best indexEntry, found bool) {
	below := int64(0)
	var cleared []span // by the layers looked at; copied, as they change without mu
	better := func(e indexEntry, ok bool) {
		if ok && e.Offset >= below && (!found || e.Offset > best.Offset) {
			best, found = e, true
		}
	}
	ix.mu.RLock()
	for _, l := range [...]*layer{ix.dirty, ix.inWrite} {
		n := l.find(id)
		if n == nil {
			continue
		}
		e, ok := floorBelow(cleared, offset, n.offsetFloor)
		better(e, ok)
		cleared = append(cleared, n.cleared...)
		if n.dropped || ok && !n.renoted { // else a lower layer may know a later entry
			ix.mu.RUnlock()
			return best, found
		}
		offset, below = min(offset, n.truncatedTo-1), max(below, n.deletedBelow)
	}
	ix.mu.RUnlock()
	if offset >= below {
		better(floorBelow(cleared, offset, func(offset int64) (indexEntry, bool) { return ix.storedOffsetFloor(id, offset) }))
	}
	return best, found
}

// floorBelow is the last entry at or below offset of a layer, but for those that the
// layers over it have cleared.
func floorBelow(cleared []span, offset int64, floor func(offset int64) (indexEntry, bool)) (indexEntry, bool) {
	for {
		e, ok := floor(offset)
		hidden := false
		for _, s := range cleared {
			if ok && !hidden && s.from <= e.Offset && e.Offset < s.to {
				offset, hidden = s.from-1, true
			}
		}
		if !hidden {
			return e, ok
		}
	}
}

// timeFloor finds the last entry with MaxTimestamp below ms: a search for the
// first record at or after ms may begin at its Offset.
func (ix *index) timeFloor(id PartitionID, ms int64) (timeEntry, bool) {
	below, end := int64(0), int64(maxInt64)
	ix.mu.RLock()
	for _, l := range [...]*layer{ix.dirty, ix.inWrite} {
		n := l.find(id)
		if n == nil {
			continue
		}
		if e, ok := n.timeFloor(ms, end); ok {
			ix.mu.RUnlock()
			return e, e.Offset >= below
		}
		if n.dropped {
			ix.mu.RUnlock()
			return timeEntry{}, false
		}
		end, below = min(end, n.truncatedTo), max(below, n.deletedBelow)
	}
	ix.mu.RUnlock()
	e, ok := ix.storedTimeFloor(id, ms, end)
	return e, ok && e.Offset >= below
}

// addOffsets notes entries, ascending by Offset. It does no I/O and never waits
// for any: when the writer falls behind, entries are thinned instead.
func (ix *index) addOffsets(id PartitionID, entries []indexEntry) {
	if len(entries) == 0 {
		return
	}
	ix.mu.Lock()
	n := ix.dirty.note(id)
	n.offsets = append(n.offsets, entries...)
	ix.added(len(entries))
}

// renoteOffsets notes entries, ascending by Offset, that a reader found to be
// missing or wrong anywhere in the log.
func (ix *index) renoteOffsets(id PartitionID, entries []indexEntry) {
	ix.mu.Lock()
	n := ix.dirty.note(id)
	before := len(n.offsets)
	all := append(slices.Clone(entries), n.offsets...) // in this order: the new ones win
	slices.SortStableFunc(all, func(a, b indexEntry) int { return cmp.Compare(a.Offset, b.Offset) })
	n.offsets = slices.CompactFunc(all, func(a, b indexEntry) bool { return a.Offset == b.Offset })
	n.renoted = true
	ix.added(len(n.offsets) - before)
}

// replaceOffsets drops the offset entries in [from, to) and notes entries, ascending
// by Offset, instead: a segment was written anew.
func (ix *index) replaceOffsets(id PartitionID, from, to int64, entries []indexEntry) {
	ix.mu.Lock()
	ix.dirty.entries -= ix.dirty.note(id).clear(from, to)
	ix.mu.Unlock()
	ix.renoteOffsets(id, entries)
}

// addTimes notes entries, ascending by MaxTimestamp and Offset. It does no I/O
// and never waits for any.
func (ix *index) addTimes(id PartitionID, entries []timeEntry) {
	if len(entries) == 0 {
		return
	}
	ix.mu.Lock()
	n := ix.dirty.note(id)
	n.times = append(n.times, entries...)
	ix.added(len(entries))
}

// added accounts for count new entries in the dirty layer and unlocks mu.
func (ix *index) added(count int) {
	ix.dirty.entries += count
	if ix.dirty.entries > maxNotedEntries {
		ix.dirty.thin()
	}
	urgent := ix.dirty.entries > maxNotedEntries/4
	ix.mu.Unlock()
	if urgent {
		ix.wakeWriter()
	}
}

// update changes the log's meta in memory, from the zero meta if nothing is known
// of the log, and queues it for the next transaction. change is called once; it
// must not block, nor call the index.
func (ix *index) update(id PartitionID, change func(*logMeta)) { ix.change(id, change) }

// updateNow is update that returns when the change, and everything noted before
// it, is durable. Concurrent callers share a transaction. An error is final (S4).
func (ix *index) updateNow(id PartitionID, change func(*logMeta)) error {
	return ix.await(ix.change(id, change))
}

// settle returns when all that was noted of the log is durable: at once if nothing
// waits, and else with everything else that was noted.
func (ix *index) settle(id PartitionID) error {
	ix.mu.RLock()
	l, err := ix.dirty, ix.err
	if l.find(id) == nil {
		l = ix.inWrite
	}
	waits := l.find(id) != nil
	ix.mu.RUnlock()
	if err != nil || !waits {
		return err
	}
	return ix.await(l)
}

// change applies change to the meta in the dirty layer, which it returns.
func (ix *index) change(id PartitionID, change func(*logMeta)) *layer {
	return ix.changeNoted(id, func(_ *layer, n *noted) { change(n.meta) })
}

// changeNoted applies change to what the dirty layer, which it returns, has of the
// log: with its meta.
func (ix *index) changeNoted(id PartitionID, change func(*layer, *noted)) *layer {
	var stored logMeta
	var asOf uint64
	read := false
	for {
		ix.mu.Lock()
		n := ix.dirty.note(id)
		switch older := ix.inWrite.find(id); {
		case n.meta != nil:
		case n.dropped:
			n.meta = &logMeta{}
		case older != nil && older.meta != nil:
			m := older.meta.clone()
			n.meta = &m
		case older != nil && older.dropped:
			n.meta = &logMeta{}
		case read && asOf == ix.commits:
			n.meta = &stored
		default:
			// Read the file without the lock, and again if it was written meanwhile.
			asOf = ix.commits
			ix.mu.Unlock()
			stored, _ = ix.storedMeta(id)
			read = true
			continue
		}
		l := ix.dirty
		change(l, n)
		ix.mu.Unlock()
		return l
	}
}

// truncate drops entries at or above offset; the meta is the caller's to update.
func (ix *index) truncate(id PartitionID, offset int64) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.dirty.entries -= ix.dirty.note(id).truncate(offset)
}

// deleteBelow drops entries below offset; the meta is the caller's to update.
func (ix *index) deleteBelow(id PartitionID, offset int64) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.dirty.entries -= ix.dirty.note(id).deleteBelow(offset)
}

// drop forgets the log, meta and all. It is durable with the next transaction:
// losing it costs only space, as the id of a deleted log is never used again.
func (ix *index) drop(id PartitionID) error {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if ix.err != nil {
		return ix.err
	}
	if ix.closed {
		return ErrClosed
	}
	n := ix.dirty.note(id)
	ix.dirty.entries -= len(n.offsets) + len(n.times)
	*n = noted{dropped: true, truncatedTo: maxInt64}
	return nil
}
