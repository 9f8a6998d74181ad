// Package storage keeps partitions as segmented logs of Kafka record batches on
// one data directory. It knows no leader, no HTTP and no JSON.
package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
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

// Options of a Store.
type Options struct {
	Dir           string
	Fsync         Fsync
	FsyncInterval time.Duration // default 1 s; only for FsyncInterval
	ReserveBytes  int64         // produce is refused when less than this is free; also the ballast's size
	Now           func() time.Time
	Logger        zerolog.Logger
}

// Store is one data directory, held exclusively by this process.
type Store struct {
	opts Options
	lock *os.File
	// index is the cache of everything that can be made again from segments.
	index *index

	mu   sync.Mutex // guards logs
	logs map[PartitionID]*Log
}

// Open locks and opens the directory, making it if it is missing. ErrLocked says
// that another process has it.
func Open(opts Options) (*Store, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if err := os.MkdirAll(filepath.Join(opts.Dir, "partitions"), 0o750); err != nil {
		return nil, fmt.Errorf("storage: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(opts.Dir, "LOCK"), os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, fmt.Errorf("storage: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, ErrLocked
	}
	return &Store{opts: opts, lock: lock, index: newIndex(), logs: map[PartitionID]*Log{}}, nil
}

// Run does the store's background work until ctx ends. An error is final (S4):
// the caller must stop serving.
func (s *Store) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// OpenLog opens a partition's log, making it if it is missing, and recovers it.
// onDurable is called, without locks held, after DurableEnd moved.
func (s *Store) OpenLog(id PartitionID, cfg LogConfig, onDurable func()) (*Log, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.logs[id]; ok {
		return l, nil
	}
	l, err := openLog(s, id, cfg, onDurable)
	if err != nil {
		return nil, err
	}
	s.logs[id] = l
	return l, nil
}

// DeleteLog removes a partition's log from disk. The log must not be used after.
func (s *Store) DeleteLog(id PartitionID) error {
	s.mu.Lock()
	l := s.logs[id]
	delete(s.logs, id)
	s.mu.Unlock()
	if l != nil {
		if err := l.close(); err != nil {
			return err
		}
	}
	return os.RemoveAll(s.logDir(id))
}

// LogsOnDisk lists every partition directory there is, opened or not.
func (s *Store) LogsOnDisk() ([]PartitionID, error) {
	return nil, nil
}

func (s *Store) logDir(id PartitionID) string {
	return filepath.Join(s.opts.Dir, "partitions", id.String())
}

// Close flushes and closes everything; the store closes last of all rooms.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, l := range s.logs {
		errs = append(errs, l.close())
	}
	errs = append(errs, s.index.close(), s.lock.Close())
	return errors.Join(errs...)
}
