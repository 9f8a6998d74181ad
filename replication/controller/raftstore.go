package controller

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
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
// reports success for bytes that are gone (K14, S4). A full disk is another matter
// (see insist).
type latchedStore struct {
	raftStore
	timeout time.Duration
	after   func(time.Duration) <-chan time.Time // time.After

	mu     sync.Mutex    // guards err
	err    error         // the first failure; nil while all is well
	failed chan struct{} // closed when err is set

	// frozen says that raft runs: from then on a failed vote or term write stops
	// raft's loop instead of being returned, because raft panics on it.
	frozen   bool
	closed   chan struct{} // closed by release
	released sync.Once     // closes closed

	// outOfSpace makes room on a full disk, if it can. cut: the log's end was deleted
	// and nothing stored since, which raft takes no note of before that.
	outOfSpace func()
	cut        atomic.Bool

	// snapshots is raft's; nil: none are installed.
	snapshots raft.SnapshotStore
	installed atomic.Bool   // a leader's snapshot took the state machine's place
	overtaken chan struct{} // closed when raft must be started again: see DeleteRange
	once      sync.Once     // closes overtaken
}

func newLatchedStore(s raftStore, timeout time.Duration) *latchedStore {
	return &latchedStore{raftStore: s, timeout: timeout, after: time.After, outOfSpace: func() {}, failed: make(chan struct{}), closed: make(chan struct{}), overtaken: make(chan struct{})}
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

// noRoom: a write found the disk full. bbolt has taken the transaction back, so that
// nothing is in doubt (S5); of an fsync that fails nobody knows (S4).
func noRoom(err error) bool {
	path := (*os.PathError)(nil)
	return errors.As(err, &path) && path.Op != "sync" && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT))
}

// roomPause is how long insist waits before it tries again.
const roomPause = 200 * time.Millisecond

// write runs one write. One that finds no room isn't final: it is tried once more
// when some was made, and returned.
func (s *latchedStore) write(op func() error) error {
	err := s.attempt(op)
	if noRoom(err) && s.Err() == nil {
		s.outOfSpace()
		err = s.attempt(op)
	}
	return err
}

// insist is write for what raft must not be told to have failed, be it for want of
// room: then its loop is held here until there is some, or Close ends it. Such a
// member doesn't vote, nor lead, and the others go on.
func (s *latchedStore) insist(op func() error) error {
	err := s.write(op)
	for s.frozen && noRoom(err) && s.Err() == nil {
		select {
		case <-s.closed:
			runtime.Goexit()
		case <-time.After(roomPause):
		}
		err = s.write(op)
	}
	return err
}

// hangParts: the time that a write has is waited for in so many parts, so that one in
// which this whole process stood still (SIGSTOP, a suspended machine) isn't taken for
// a disk that hangs.
const hangParts = 10

// attempt runs one write, in a goroutine that outlives this call only when the
// disk hangs; then nothing waits for it, since the process is about to exit.
func (s *latchedStore) attempt(op func() error) error {
	if err := s.Err(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- op() }()
	for range hangParts {
		select {
		case err := <-done:
			if err != nil && !noRoom(err) {
				return s.latch(err)
			}
			return err
		case <-s.after(s.timeout / hangParts):
		}
	}
	return s.latch(fmt.Errorf("%w (%s)", errStoreHung, s.timeout))
}

// StoreLog is StoreLogs of one entry.
func (s *latchedStore) StoreLog(log *raft.Log) error { return s.StoreLogs([]*raft.Log{log}) }

// StoreLogs writes entries; one transaction and fsync for all of them. On a full disk
// it is an error at which a leader steps down and a follower refuses, and raft goes
// on; but after the log's end was deleted raft 1.7.3 would believe in that for ever.
func (s *latchedStore) StoreLogs(logs []*raft.Log) error {
	write := s.write
	if s.cut.Load() {
		write = s.insist
	}
	err := write(func() error { return s.raftStore.StoreLogs(logs) })
	if err == nil {
		s.cut.Store(false)
	}
	return err
}

// DeleteRange deletes the entries from first to last, both inclusive.
//
// When a leader's snapshot takes the place of a log that reached as far or
// further, raft 1.7.3 drops the log, but goes on believing in its last entry: it
// refuses what follows the snapshot, gets the snapshot again, and so on for ever,
// and votes by an entry that is gone (F70, hashicorp/raft#697). So its loop is
// held here until raft has been started anew from the file.
func (s *latchedStore) DeleteRange(first, last uint64) error {
	end, err := s.LastIndex()
	if err != nil {
		return s.latch(err)
	}
	if err := s.insist(func() error { return s.raftStore.DeleteRange(first, last) }); err != nil {
		return err
	}
	if last >= end {
		s.cut.Store(true)
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
	err := s.insist(op)
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
