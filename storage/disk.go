package storage

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"highwater/storage/dedupe"
	"highwater/storage/vfs"
)

const (
	// maxParallelSyncs bounds the fsyncs that run at once in one data directory, so
	// that the metadata log on the same disk waits for a few of them at most (K19).
	maxParallelSyncs = 2
	// chunkBytes is the size of the buffers in which headers are looked through.
	chunkBytes = 64 << 10
)

// disk is what all logs of one data directory share.
type disk struct {
	fs    vfs.FS
	dir   string // the data directory
	index logIndex
	// indexLost: the index was begun anew, or lost a log's entry, over logs that were there before.
	indexLost bool
	files     *handles
	mode      Fsync
	now       func() time.Time
	logger    zerolog.Logger
	// newNames: a log's directory was made and its name may not be durable yet.
	newNames atomic.Bool
	// backlog is how much may be staged in a log before it takes nothing more.
	backlog int
	// syncs holds a token per fsync that runs.
	syncs chan struct{}
	// flushes holds a token for the log that brings what it remembers to the index.
	flushes chan struct{}
	// flushIDs is how many ids a log holds in memory at most until it brings them to the index, beyond
	// keepIDs where it has so many that these stay there.
	flushIDs, keepIDs int
	// heldIDs counts the message ids that logs hold in memory (Log.countHeld).
	heldIDs atomic.Int64
	// chunks pools *[chunkBytes]byte.
	chunks sync.Pool
	// failed latches the whole store when a write, fsync or close failed (S4). It
	// may be called more than once.
	failed func(error)
	// admit is asked before so many bytes are staged; ErrDiskNearlyFull refuses them.
	admit func(bytes int64) error
	// outOfSpace is told of each write that found no room.
	outOfSpace func()
	// fsynced is told how long each fsync of a segment took.
	fsynced func(time.Duration)
}

// logIndex is what a log asks of the data directory's index (see index).
type logIndex interface {
	meta(id PartitionID) (logMeta, bool)
	offsetFloor(id PartitionID, offset int64) (indexEntry, bool)
	timeFloor(id PartitionID, ms int64) (timeEntry, bool)
	addOffsets(id PartitionID, entries []indexEntry)
	renoteOffsets(id PartitionID, entries []indexEntry)
	// replaceOffsets drops the offset entries in [from, to) and notes these instead.
	replaceOffsets(id PartitionID, from, to int64, entries []indexEntry)
	addTimes(id PartitionID, entries []timeEntry)
	truncate(id PartitionID, offset int64)
	deleteBelow(id PartitionID, offset int64)
	update(id PartitionID, change func(*logMeta))
	updateNow(id PartitionID, change func(*logMeta)) error
	// settle returns when all that was noted of the log is durable; at once if it is.
	settle(id PartitionID) error
	drop(id PartitionID) error
	// noteDedupe, dedupeState, viewRuns and copyRun keep what is remembered of ids and
	// producers (index_dedupe.go).
	noteDedupe(id PartitionID, make func(*logMeta) (dedupeNote, bool))
	dedupeState(id PartitionID) []byte
	viewRuns(id PartitionID, keys []runKey, read func(get readPiece)) (done bool)
	copyRun(id PartitionID, k runKey) []byte
}

func newDisk(fs vfs.FS, dir string, index logIndex, opts Options) *disk {
	d := &disk{
		fs: fs, dir: dir, index: index, mode: opts.Fsync, now: opts.Now, logger: opts.Logger,
		backlog:    maxBacklogBytes,
		syncs:      make(chan struct{}, maxParallelSyncs),
		flushes:    make(chan struct{}, 1),
		flushIDs:   dedupe.FlushEntries,
		keepIDs:    dedupe.KeptEntries,
		chunks:     sync.Pool{New: func() any { return new([chunkBytes]byte) }},
		failed:     func(error) {},
		admit:      func(int64) error { return nil },
		outOfSpace: func() {},
		fsynced:    func(time.Duration) {},
	}
	d.files = newHandles(fs, opts.MaxIdleFiles, func(err error) { d.failed(err) })
	return d
}

func (d *disk) partitionsDir() string { return filepath.Join(d.dir, "partitions") }

// syncNames makes the names of new logs' directories durable, before the index says
// that there are such logs: after a power cut an entry without a directory is a log
// that was lost (NeverHad). One fsync serves all that one transaction tells of.
func (d *disk) syncNames() error {
	if !d.newNames.Swap(false) {
		return nil
	}
	err := d.files.withRoom(func() error { return d.fs.SyncDir(d.partitionsDir()) })
	if err != nil {
		d.newNames.Store(true)
	}
	if isOutOfFiles(err) {
		return nil // the disk isn't to blame (F50); the next transaction tries again
	}
	return err
}

// sync fsyncs a file within the store's bound on parallel fsyncs.
func (d *disk) sync(f vfs.File) error {
	d.syncs <- struct{}{}
	defer func() { <-d.syncs }()
	return d.syncNow(f)
}

// syncNow is sync for who holds a token of syncs.
func (d *disk) syncNow(f vfs.File) error {
	began := time.Now()
	err := f.Sync()
	if err == nil {
		d.fsynced(time.Since(began))
	}
	return err
}

// chunk lends a buffer; give it back with d.chunks.Put.
func (d *disk) chunk() *[chunkBytes]byte { return d.chunks.Get().(*[chunkBytes]byte) }

// nowMs is the broker's clock in ms.
func (d *disk) nowMs() int64 { return d.now().UnixMilli() }
