// Package storage keeps partitions as segmented logs of Kafka record batches on
// one data directory. It knows no leader, no HTTP and no JSON.
//
// A data directory:
//
//	LOCK             held by the process that uses the directory; names its pid
//	meta.json        whose directory this is, and the index's generation
//	clean-shutdown   there only between a clean close and the next open (R71)
//	disk-failed      there only between a failed write or fsync and the next open
//	index.db         the index, a bbolt file: a cache, built anew when in doubt
//	index.db.damaged-<n>   what was in doubt; the newest two
//	ballast          room for deletes when the disk is full (S5)
//	partitions/<topic id>-<partition>/   one log each
//	partitions/<...>.deleted-<n>/        a deleted log that is being removed
//	partitions/<...>.stray-<n>/          a log whose topic nobody knows, kept for a person
package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"highwater/storage/vfs"
)

// TopicID names a topic for ever; a topic deleted and created again has a new one.
type TopicID = uuid.UUID

// PartitionID names a partition's directory. Topic names never reach the disk.
type PartitionID struct {
	Topic     TopicID
	Partition int32
}

func (id PartitionID) String() string { return fmt.Sprintf("%s-%d", id.Topic, id.Partition) }

// Fsync says when appended bytes are forced to disk.
type Fsync string

const (
	// FsyncCommit: every append is fsynced (group commit) before it counts as
	// durable. The default.
	FsyncCommit Fsync = "commit"
	// FsyncInterval: dirty segments are fsynced every Options.FsyncInterval; a
	// written byte counts as durable. Power loss costs up to the interval.
	FsyncInterval Fsync = "interval"
	// FsyncNever: the operating system writes back when it likes.
	FsyncNever Fsync = "never"
)

// defaultFsyncInterval is Options.FsyncInterval's default.
const defaultFsyncInterval = time.Second

// Options of a Store.
type Options struct {
	Dir string
	// FS is where everything is kept but the lock, the ballast and index.db, which
	// need real files; nil: the operating system's. On one that isn't OnDisk there is
	// no lock and no ballast, and the index is a simple one in a file of its own:
	// for simulations.
	FS            vfs.FS
	Fsync         Fsync
	FsyncInterval time.Duration // default 1 s; only for FsyncInterval
	ReserveBytes  int64         // produce is refused when less than this is free; also the ballast's size; 0: neither
	MaxIdleFiles  int           // open segment files that nobody uses; 0: 512
	ClusterID     string        // refuse a directory of another cluster; empty: don't check
	NodeID        int32         // refuse a directory of another node; 0: don't check
	Now           func() time.Time
	Logger        zerolog.Logger
	// OnFsync and OnIndexWrite, if not nil, are told how long each fsync of a
	// segment and each transaction of the index took. They must not block.
	OnFsync      func(time.Duration)
	OnIndexWrite func(time.Duration)

	freeSpace func() (int64, error) // a test's disk; nil: the file system's
}

// Store is one data directory, held exclusively by this process.
type Store struct {
	opts Options
	lock *os.File // nil: FS isn't OnDisk
	// index is the cache of everything that can be made again from segments.
	index    storeIndex
	guard    *diskGuard
	disk     *disk     // what the logs share
	clean    bool      // see CleanStart
	durable  bool      // see DurableStart
	previous cleanFile // what the last run left; zero if it wasn't clean
	vouches  bool      // see NeverHad

	fsyncs      atomic.Int64
	indexWrites atomic.Int64
	scrubbed    atomic.Int64 // bytes
	brokerEpoch atomic.Int64

	failure atomic.Pointer[FailedError] // the first one; final (S4)
	failed  chan struct{}               // closed by fail

	removals chan struct{} // buffered 1: there are deleted directories to remove

	identityMu sync.Mutex // guards identity, and serialises the writing of its file, which is rare
	identity   identityFile

	mu     sync.Mutex // guards logs and closed
	logs   map[PartitionID]*openedLog
	closed bool
}

// openedLog is a log that is open or about to be.
type openedLog struct {
	ready chan struct{} // closed when log and err are set
	log   *Log
	err   error
	adopt sync.Once // gives the log to the first that asks for it
}

// storeIndex is what a store asks of its index.
type storeIndex interface {
	logIndex
	// run writes what is noted now and then, until ctx ends; flush at once.
	run(ctx context.Context) error
	flush() error
	setGeneration(generation uint64, last bool) error
	close() error
}

// Open locks and opens the directory, making it if it is missing, and brings its
// index in order. It doesn't look at segments: OpenLog does. Errors: *LockedError
// (ErrLocked), *IdentityError, *FormatVersionError, *CorruptError for a damaged
// meta.json; then nothing was changed.
func Open(opts Options) (*Store, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.FsyncInterval <= 0 {
		opts.FsyncInterval = defaultFsyncInterval
	}
	if opts.FS == nil {
		opts.FS = vfs.OS{}
	}
	if err := vfs.MkdirAll(opts.FS, opts.Dir); err != nil {
		return nil, wrap(err)
	}
	s := &Store{opts: opts, failed: make(chan struct{}), removals: make(chan struct{}, 1), logs: map[PartitionID]*openedLog{}}
	if opts.FS.OnDisk() {
		var err error
		if s.lock, err = lockDir(opts.Dir); err != nil {
			return nil, err
		}
	}
	if err := s.open(); err != nil {
		if s.index != nil {
			err = errors.Join(err, s.index.close())
		}
		return nil, errors.Join(err, s.unlock())
	}
	return s, nil
}

// unlock gives the directory to others.
func (s *Store) unlock() error {
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
}

// open does what Open does after the lock is held.
func (s *Store) open() error {
	fs, dir := s.opts.FS, s.opts.Dir
	identity, found, err := readIdentity(fs, dir)
	if err != nil {
		return err
	}
	if err := identity.adopt(dir, s.opts.ClusterID, s.opts.NodeID); err != nil {
		return err
	}
	previous, clean, err := readClean(fs, dir)
	if err != nil {
		return err
	}
	// From here on this run counts as unclean, until Close (R71).
	if err := vfs.RemoveFile(fs, filepath.Join(dir, cleanFileName)); err != nil {
		return wrap(err)
	}
	if err := vfs.MkdirAll(fs, s.partitionsDir()); err != nil {
		return wrap(err)
	}
	logs, err := s.LogsOnDisk()
	if err != nil {
		return err
	}
	if !found && len(logs) > 0 {
		s.opts.Logger.Warn().Str("file", identityFileName).Msg("data directory holds logs but no identity, giving it a new one")
	}
	if !fs.OnDisk() {
		s.guard = noDiskGuard(s.opts.Logger)
	} else if s.guard, err = newDiskGuard(dir, max(s.opts.ReserveBytes, 0), s.opts.freeSpace, s.opts.Logger); err != nil {
		return err
	}
	clean = clean && previous.IndexGeneration == identity.IndexGeneration
	stored, rebuilt, err := s.openIndexWithSpace(indexConfig{dir: dir, generation: identity.IndexGeneration, expected: len(logs) > 0,
		clean: clean, log: s.opts.Logger, syncNames: func() error { return s.disk.syncNames() }, onWrite: s.indexWritten, outOfSpace: s.guard.outOfSpace})
	if err != nil {
		return err
	}
	s.disk = newDisk(fs, dir, s.index, s.opts)
	s.disk.indexLost = rebuilt && len(logs) > 0
	s.disk.failed = func(err error) { _ = s.fail(err) }
	s.disk.admit, s.disk.outOfSpace, s.disk.fsynced = s.admit, s.guard.outOfSpace, s.fsynced
	s.clean = clean && !rebuilt && stored == previous.IndexGeneration
	if s.clean {
		s.previous = previous
	}
	identity.FormatVersion = formatVersion
	if !found {
		identity.DirectoryID = uuid.NewString()
	}
	failed := filepath.Join(dir, failedFileName)
	diskFailed, err := vfs.Exists(fs, failed)
	if err != nil {
		return wrap(err)
	}
	identity.Unproven = identity.Unproven || diskFailed || len(logs) > 0 && (!found || identity.Fsync != FsyncCommit)
	identity.Fsync, s.durable = s.opts.Fsync, !identity.Unproven
	s.vouches = found && !identity.Forgetful && !rebuilt
	if s.identity = identity; rebuilt && !identity.Forgetful {
		// Before the new index counts as this directory's.
		s.identity.Forgetful = true
		if err := s.writeIdentity(s.identity); err != nil {
			return err
		}
	}
	if err := s.raiseGeneration(stored, false); err != nil {
		return err
	}
	return wrap(vfs.RemoveFile(fs, failed)) // the identity has it now
}

// openIndexWithSpace is openIndex, which makes a new index if need be: also on a full disk.
func (s *Store) openIndexWithSpace(cfg indexConfig) (stored uint64, rebuilt bool, err error) {
	err = withSpace(s.guard.outOfSpace, func() (err error) {
		stored, rebuilt, err = s.openIndex(cfg)
		return err
	})
	return stored, rebuilt, err
}

// openIndex opens the index that suits the file system.
func (s *Store) openIndex(cfg indexConfig) (stored uint64, rebuilt bool, err error) {
	if !s.opts.FS.OnDisk() {
		ix, stored, rebuilt, err := openMemIndex(s.opts.FS, cfg)
		if err == nil {
			s.index = ix
		}
		return stored, rebuilt, err
	}
	ix, stored, rebuilt, err := openIndex(cfg)
	if err == nil {
		s.index = ix
	}
	return stored, rebuilt, err
}

// raiseGeneration makes copies of the index that were taken before this moment
// recognisable; see checkGeneration. last: nothing follows but the clean marker.
func (s *Store) raiseGeneration(stored uint64, last bool) error {
	s.identityMu.Lock()
	defer s.identityMu.Unlock()
	next := max(s.identity.IndexGeneration, stored) + 1
	if err := withSpace(s.guard.outOfSpace, func() error { return s.index.setGeneration(next, last) }); err != nil {
		return err
	}
	s.identity.IndexGeneration = next
	return s.writeIdentity(s.identity)
}

// OpenLog opens a partition's log, making it if it is missing, and recovers it.
// onDurable is called, without locks held, after DurableEnd moved. Several logs
// may be opened at once.
func (s *Store) OpenLog(id PartitionID, cfg LogConfig, onDurable func()) (*Log, error) {
	o, mine, err := s.claim(id)
	if err != nil {
		return nil, err
	}
	if mine {
		s.recoverInto(o, id, cfg, onDurable)
	}
	if <-o.ready; o.err == nil {
		o.adopt.Do(func() { o.log.adopt(cfg, onDurable) })
	}
	return o.log, o.err
}

// claim finds the log's entry, or makes it: then the caller must recover the log.
func (s *Store) claim(id PartitionID) (o *openedLog, mine bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false, ErrClosed
	}
	if o = s.logs[id]; o != nil {
		return o, false, nil
	}
	o = &openedLog{ready: make(chan struct{})}
	s.logs[id] = o
	return o, true, nil
}

// recoverInto opens a log for its entry.
func (s *Store) recoverInto(o *openedLog, id PartitionID, cfg LogConfig, onDurable func()) {
	o.log, o.err = openLog(s.disk, id, cfg, onDurable)
	if o.err != nil { // the next caller may try again
		s.mu.Lock()
		if s.logs[id] == o {
			delete(s.logs, id)
		}
		s.mu.Unlock()
	}
	close(o.ready)
}

// opened returns the logs that are open now. Those that are being opened it leaves
// out, or waits for.
func (s *Store) opened(wait bool) []*Log {
	s.mu.Lock()
	all := make([]*openedLog, 0, len(s.logs))
	for _, o := range s.logs {
		all = append(all, o)
	}
	s.mu.Unlock()
	logs := make([]*Log, 0, len(all))
	for _, o := range all {
		if !wait {
			select {
			case <-o.ready:
			default:
				continue
			}
		}
		if <-o.ready; o.err == nil {
			logs = append(logs, o.log)
		}
	}
	return logs
}

// maxParallelCloses bounds the fsyncs in flight at Close.
const maxParallelCloses = 8

// Close flushes and closes everything; the store closes last of all rooms, after
// Run has ended. If all of it is on disk then, the clean-shutdown marker says so. Where
// a full disk leaves no room for that, not even the ballast's, nothing is lost, and the
// next start takes this run for one that was killed: no error.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()

	var mu sync.Mutex // guards errs
	var errs []error
	var closers errgroup.Group
	closers.SetLimit(maxParallelCloses)
	for _, l := range s.opened(true) {
		closers.Go(func() error {
			if err := l.close(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
			return nil
		})
	}
	_ = closers.Wait() // the errors are in errs
	if err := s.closeCleanly(errors.Join(errs...) == nil && s.Failure() == nil); foundNoRoom(err) {
		s.opts.Logger.Warn().Err(err).Msg("disk full: the end of this run could not be noted, the next start recovers the logs as after a kill")
	} else {
		errs = append(errs, err)
	}
	errs = append(errs, s.unlock())
	return errors.Join(errs...)
}

// closeCleanly closes the index and, if the logs were closed in order, says so.
func (s *Store) closeCleanly(clean bool) error {
	err := s.index.flush()
	if clean = clean && err == nil; clean {
		err = s.raiseGeneration(0, true)
	}
	if closeErr := s.index.close(); err == nil && clean {
		err = closeErr
	}
	if !clean || err != nil {
		return err
	}
	marker := cleanFile{IndexGeneration: s.identity.IndexGeneration, BrokerEpoch: s.brokerEpoch.Load()}
	return withSpace(s.guard.outOfSpace, func() error { return marker.write(s.opts.FS, s.opts.Dir) })
}
