package storage

import (
	"fmt"
	"math"
	"path/filepath"
	"sort"
	"sync"
	"time"

	"highwater/storage/dedupe"
)

// LogConfig is the part of a topic's configs that its logs obey. It may be
// changed while the log is open (Configure).
type LogConfig struct {
	SegmentBytes   int64         // roll a segment before it would grow beyond this; 0: never
	SegmentAge     time.Duration // roll a segment whose first append is older; 0: never
	RetentionBytes int64         // -1 (or 0): no limit
	RetentionAge   time.Duration // -1 (or 0): no limit
	LogAppendTime  bool          // timestamps are the leader's append time
	// Of compaction:
	Compact          bool
	MinDirtyRatio    float64       // compact when more than this part of the log is dirty
	MinCompactionLag time.Duration // leave segments alone whose last append is younger
	MaxCompactionLag time.Duration // compact what is older, whatever the ratio; 0: never because of that
	DeleteRetention  time.Duration // keep tombstones that long after the compaction that first met them
	// Of what is remembered of records (dedupe.go):
	DedupeAge   time.Duration // message ids that are older, by append time in the log, are forgotten; 0: ids aren't looked at; -1: as long as the record is there
	DedupeCount int64         // no more ids than that; -1: no bound; 0: DefaultDedupeCount
	ProducerAge time.Duration // producers whose last batch is older are forgotten; 0: DefaultProducerAge; -1: never
}

// Log is one partition's log. Its ends, from left to right:
//
//	start ≤ durable ≤ written ≤ staged
//
// staged: offsets given out; written: in the segment file (the LEO of a reader);
// durable: fsynced, or written where the fsync mode doesn't promise more.
//
// An append is three steps, so that no lock is held across a write or fsync and
// everything that waits shares one of each: Stage (memory only, called under the
// partition's lock), Write, Sync.
//
// # Who may touch what
//
// Log.mu is held for a few memory accesses, never across I/O, a wait or a call
// out of the package; under it nothing is locked. What a mutex can't be held
// for, three roles do, each held by one goroutine at a time:
//
//   - The writer alone changes segment files and the list of them: it writes what
//     is staged, rolls, truncates, and removes. Whoever calls Write while the role
//     is free takes it, writes all that is staged and, when more came meanwhile,
//     leaves the role to a goroutine of its own that goes on until nothing is
//     staged; nobody writes for others longer than one round, and who has a deadline
//     leaves a round that waits for the disk to that goroutine, too. Maintenance (Retain,
//     AdvanceStart, TruncateTo, close) queues for the role, and takes turns with the rounds.
//
//   - The syncer alone fsyncs the active segment and moves the durable end, in the
//     same pattern: one fsync covers all that was written before it began, and who
//     comes later joins the next. A roll syncs the segment it closes itself, as the
//     writer, so the syncer never needs any but the active one.
//
//   - The remover alone changes or removes the files of closed segments. It is taken
//     before the writer.
//
//   - The cleaner alone compacts the log (compact.go). It is taken before the
//     remover, whose role it needs for the moment in which a segment is replaced.
//
// Who needs writer and syncer takes the writer first. They publish what they did under Log.mu.
// Readers hold neither: they look up segment and size under Log.mu and read below
// that size, where bytes never change except by TruncateTo and Mend, and stay what
// they are in a file that a compaction replaces (see Log.cuts). The
// goroutines that a log starts are in bg, and close waits for them.
//
// onDurable is called by whoever moved the durable end, as the syncer or writer
// still: it must not wait for anything of this log.
//
// Order of locks in this package: Store.mu → Log.mu; handles.mu and the index's
// are leaves and never taken under Log.mu.
type Log struct {
	disk      *disk
	id        PartitionID
	dir       string
	onDurable func()
	// Touched by the writer alone:
	dirSynced bool  // the directory's own name is durable
	rollNoted int64 // ms, when a roll was last told to the index

	bg sync.WaitGroup // the goroutines that this log started

	mu       sync.Mutex // guards everything below
	cfg      LogConfig
	segments []*segment // ascending; the last one is active
	start    int64
	written  int64
	synced   int64 // fsynced, whatever the mode
	cuts     int64 // counts what moves bytes that readers look for: truncations, replaced segments
	closed   bool  // nothing can be staged or read any more
	gone     bool  // nothing is written or synced any more
	failed   *FailedError

	// Appending, see append.go.
	writer      role
	maintained  bool // the writer's role was last given to maintenance
	staged      []group
	spare       []group // the other one of two buffers for staged
	round       *round  // that will write what is staged; nil when nothing is
	writing     *round  // that is being written
	stagedBytes int
	stagedEnd   int64
	appendTime  int64 // of the last staged batch
	// The largest timestamp of the log, and of the last time entry in the index.
	maxTimestamp, notedTimestamp int64

	// Syncing, see sync.go.
	syncer   role
	syncEnd  int64         // what the running fsync covers; 0: none runs
	current  chan struct{} // closed after the running fsync; nil when nobody waits
	next     chan struct{} // closed after the fsync that comes then
	wantSync bool          // SyncSoon asked and no fsync has covered it yet
	// syncBegan is when the last fsync began; pausing: a goroutine waits to start the next.
	syncBegan time.Time
	pausing   bool

	remover role

	cleaner         role
	compactMapBytes int   // bound on a compaction's keys; the cleaner's
	cleaned         int64 // below it the log was compacted
	horizon         int64 // ms, when the first of the tombstones below cleaned may go; 0: unknown, or there are none

	epochs       []EpochEntry // ascending in both
	unsettled    bool         // the index may not know the log as it is, durably
	epochTold    bool         // that some batch's epoch is damaged
	epochPending bool         // the newest epochs are not durable yet
	resetting    bool         // ResetTo is at work on the files
	ownEpoch     int32        // the newest in which this replica led, since the log was opened
	damage       []damage     // ascending, by Segment and Position
	hw           int64        // noted for the next checkpoint
	checkpointed checkpoint   // what the index was told last
	lossTold     bool         // Held has told lossReason
	lossReason   string       // why the log was found to be incomplete; empty: it wasn't
	// What is remembered of message ids and producers, see dedupe.go.
	memory    *dedupe.State // nil: nothing
	stored    bool          // the index has a snapshot of it
	recalled  bool          // recovery is done with it: until then the index knows better
	learning  bool          // it is being made from the log, and lacks what is staged
	imported  int64         // offset below which another replica told what is remembered
	forgot    bool          // the index was lost, and what only it told of records that are gone; no replica was asked yet
	hole      int64         // the first offset that could not be looked through; maxInt64: there is none
	doubted   int64         // it is wrong from this offset on; maxInt64: nowhere
	flushing  bool          // a goroutine brings it to the index, or will
	unmerged  bool          // a run can't be read, so they stay as they are
	rolled    bool          // a segment was closed since the last flush
	unflushed int64         // about how many bytes were written behind what a flush covered
	flushMu   sync.Mutex    // one flush of the memory at a time; taken before mu
	held      int           // ids in memory, as they were counted last (disk.heldIDs)
	hits      uint64        // records that were duplicates

	examining  bool      // a reader looks through a damaged segment
	cursors    [4]cursor // where readers stopped
	nextCursor int
}

// role is held by one goroutine at a time; the Log's mu guards it.
type role struct {
	held    bool
	waiting []chan struct{} // maintenance, first come first served
}

// take waits for the role. Give it back with releaseWriter or releaseSyncer.
func (l *Log) take(r *role) {
	l.mu.Lock()
	if !r.held {
		r.held = true
		l.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	r.waiting = append(r.waiting, turn)
	l.mu.Unlock()
	<-turn
}

// pass hands the role to who waits for it longest; false: nobody does.
func (r *role) pass() bool {
	if len(r.waiting) == 0 {
		return false
	}
	close(r.waiting[0])
	r.waiting = r.waiting[1:]
	return true
}

// OpenLog's work: a log that recover fills in.
func openLog(d *disk, id PartitionID, cfg LogConfig, onDurable func()) (*Log, error) {
	l := &Log{disk: d, id: id, dir: filepath.Join(d.partitionsDir(), id.String()), cfg: cfg, onDurable: onDurable, compactMapBytes: compactMapBytes}
	if err := l.recover(); err != nil {
		return nil, err
	}
	return l, nil
}

// Configure applies changed topic configs.
func (l *Log) Configure(cfg LogConfig) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cfg = cfg
	if l.memory != nil {
		l.memory.Configure(cfg.memoryConfig())
	}
}

// StartOffset is the log start offset: the first offset that can be read.
func (l *Log) StartOffset() int64 { l.mu.Lock(); defer l.mu.Unlock(); return l.start }

// StagedEnd is the offset that the next staged batch will get.
func (l *Log) StagedEnd() int64 { l.mu.Lock(); defer l.mu.Unlock(); return l.stagedEnd }

// WrittenEnd is the log end offset (LEO) as readers on this machine see it.
func (l *Log) WrittenEnd() int64 { l.mu.Lock(); defer l.mu.Unlock(); return l.written }

// DurableEnd is the LEO that this replica may report to others.
func (l *Log) DurableEnd() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.disk.mode == FsyncCommit {
		return l.synced
	}
	return l.written
}

// whyLossy says why the log may have held more than was found when it was opened, or
// what is damaged: its replica must not count as complete (R34). Damage is mended by
// repair; the rest is forgotten when the controller knows it (Store.SetBrokerEpoch).
// Empty: nothing is missing.
func (l *Log) whyLossy() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := l.reachable(); len(d) > 0 && l.lossReason == "" {
		return fmt.Sprintf("offsets [%d, %d) are damaged", d[0].From, d[0].To)
	}
	return l.lossReason
}

// SizeBytes is the size of all segments.
func (l *Log) SizeBytes() int64 { bytes, _ := l.figures(); return bytes }

// figures are the size of all segments and the number of damaged ranges that a reader can meet.
func (l *Log) figures() (bytes int64, damaged int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.segments {
		bytes += s.size
	}
	return bytes, len(l.reachable())
}

// active is the segment that appends go to; nil in a log that never had one.
// Call it under mu or as the writer.
func (l *Log) active() *segment {
	if len(l.segments) == 0 {
		return nil
	}
	return l.segments[len(l.segments)-1]
}

// segmentAt finds the segment that holds offset, and the base of the one after it
// (the largest int64 if there is none). Call it under mu; the log has a segment.
func (l *Log) segmentAt(offset int64) (s *segment, nextBase int64) {
	i := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].base > offset })
	nextBase = math.MaxInt64
	if i < len(l.segments) {
		nextBase = l.segments[i].base
	}
	return l.segments[max(i-1, 0)], nextBase
}

// fail latches the first failure of a write, fsync or close: it is final, since
// the kernel may have dropped the bytes and a second try would report success
// (S4). Everybody who waits fails. Call it without mu.
func (l *Log) fail(err error) *FailedError {
	l.mu.Lock()
	if l.failed == nil {
		l.failed = &FailedError{Cause: err}
	}
	failed := l.failed
	l.dropStaged(failed)
	l.wakeSynced()
	l.mu.Unlock()
	l.disk.failed(failed)
	return failed
}
