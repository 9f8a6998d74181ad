package controller

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// storeTimeout bounds one write to raft's file. A disk that hangs for longer
// blocks a leader's loop while its heartbeats go on, so that nobody else is
// elected (K13): better to fail. It is far above any fsync that ends well.
const storeTimeout = 10 * time.Second

// raftStore is what raft-boltdb gives.
type raftStore interface {
	raft.LogStore
	raft.StableStore
	Close() error
}

// latchedStore makes the first failed or hung write final. raft itself would
// step down and write again later, and bbolt's next commit after a failed fsync
// reports success for bytes that are gone (K14, S4).
type latchedStore struct {
	raftStore
	timeout time.Duration

	mu     sync.Mutex    // guards err
	err    error         // the first failure; nil while all is well
	failed chan struct{} // closed when err is set

	// frozen says that raft runs: from then on a failed vote or term write stops
	// raft's loop instead of being returned, because raft panics on it.
	frozen   bool
	closed   chan struct{} // closed by release
	released sync.Once     // closes closed

	// snapshots is raft's; nil: none are installed.
	snapshots raft.SnapshotStore
	installed atomic.Bool   // a leader's snapshot took the state machine's place
	overtaken chan struct{} // closed when raft must be started again: see DeleteRange
	once      sync.Once     // closes overtaken
}

func newLatchedStore(s raftStore, timeout time.Duration) *latchedStore {
	return &latchedStore{raftStore: s, timeout: timeout, failed: make(chan struct{}), closed: make(chan struct{}), overtaken: make(chan struct{})}
}

// Err is the failure that latched the store, nil while there is none.
func (s *latchedStore) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *latchedStore) latch(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = fmt.Errorf("%w: %w", ErrStoreFailed, err)
		close(s.failed)
	}
	return s.err
}

// errStoreHung is the cause when a write didn't return in time.
var errStoreHung = errors.New("a write did not return in time")

// write runs one write, in a goroutine that outlives this call only when the
// disk hangs; then nothing waits for it, since the process is about to exit.
func (s *latchedStore) write(op func() error) error {
	if err := s.Err(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- op() }()
	select {
	case err := <-done:
		if err != nil {
			return s.latch(err)
		}
		return nil
	case <-time.After(s.timeout):
		return s.latch(fmt.Errorf("%w (%s)", errStoreHung, s.timeout))
	}
}

// StoreLog is StoreLogs of one entry.
func (s *latchedStore) StoreLog(log *raft.Log) error { return s.StoreLogs([]*raft.Log{log}) }

// StoreLogs writes entries; one transaction and fsync for all of them.
func (s *latchedStore) StoreLogs(logs []*raft.Log) error {
	return s.write(func() error { return s.raftStore.StoreLogs(logs) })
}

// DeleteRange deletes the entries from first to last, both inclusive.
//
// When a leader's snapshot takes the place of a log that reached as far or
// further, raft 1.7.3 drops the log, but goes on believing in its last entry: it
// refuses what follows the snapshot, gets the snapshot again, and so on for ever,
// and votes by an entry that is gone (F70, hashicorp/raft#697). So its loop is
// held here until raft has been started anew from the file.
func (s *latchedStore) DeleteRange(first, last uint64) error {
	if err := s.write(func() error { return s.raftStore.DeleteRange(first, last) }); err != nil {
		return err
	}
	if !s.installed.Load() || s.snapshots == nil {
		return nil
	}
	have, err := s.snapshots.List() // the newest comes first
	if err != nil {
		return s.latch(err)
	}
	if len(have) > 0 && first <= have[0].Index && have[0].Index <= last {
		s.once.Do(func() { close(s.overtaken) })
		<-s.closed
		runtime.Goexit()
	}
	return nil
}

// Set stores votes: see stable.
func (s *latchedStore) Set(key, val []byte) error {
	return s.stable(func() error { return s.raftStore.Set(key, val) })
}

// SetUint64 stores terms: see stable.
func (s *latchedStore) SetUint64(key []byte, val uint64) error {
	return s.stable(func() error { return s.raftStore.SetUint64(key, val) })
}

// stable writes a vote or a term. raft panics when that fails; a failed member
// must neither vote nor lead, so its loop is held here until Close and then
// ended, and the owner of the process learns of it from Controller.Run.
func (s *latchedStore) stable(op func() error) error {
	err := s.write(op)
	if err != nil && s.frozen {
		<-s.closed
		runtime.Goexit()
	}
	return err
}

// IsMonotonic says that entries have no gaps, so that raft drops the whole old
// log when it installs a snapshot, and with it an entry that conflicts (K11).
func (s *latchedStore) IsMonotonic() bool { return true }

// release ends a loop that stable or DeleteRange holds.
func (s *latchedStore) release() { s.released.Do(func() { close(s.closed) }) }

// Close closes the file, unless a write hangs in it: closing would hang, too.
func (s *latchedStore) Close() error {
	if errors.Is(s.Err(), errStoreHung) {
		return s.Err()
	}
	return s.raftStore.Close()
}
