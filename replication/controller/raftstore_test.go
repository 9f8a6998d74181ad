package controller

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// flakyStore fails or hangs on demand; all else is its embedded store's.
type flakyStore struct {
	raftStore
	fail   error         // returned by writes while it is set
	hang   chan struct{} // writes wait for it while it is set
	writes int
}

func (s *flakyStore) do(op func() error) error {
	s.writes++
	if s.hang != nil {
		<-s.hang
	}
	if s.fail != nil {
		return s.fail
	}
	return op()
}

func (s *flakyStore) StoreLogs(l []*raft.Log) error {
	return s.do(func() error { return s.raftStore.StoreLogs(l) })
}
func (s *flakyStore) DeleteRange(a, b uint64) error {
	return s.do(func() error { return s.raftStore.DeleteRange(a, b) })
}
func (s *flakyStore) Set(k, v []byte) error {
	return s.do(func() error { return s.raftStore.Set(k, v) })
}
func (s *flakyStore) SetUint64(k []byte, v uint64) error {
	return s.do(func() error { return s.raftStore.SetUint64(k, v) })
}

func openBolt(t *testing.T) raftStore {
	t.Helper()
	d := &raftDir{path: t.TempDir()}
	s, err := d.openStore()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var errDisk = errors.New("input/output error")

func TestK14_TheFirstFailedWriteIsFinal(t *testing.T) {
	flaky := &flakyStore{raftStore: openBolt(t)}
	s := newLatchedStore(flaky, storeTimeout)
	if err := s.StoreLog(&raft.Log{Index: 1, Term: 1}); err != nil {
		t.Fatal(err)
	}
	flaky.fail = errDisk
	if err := s.StoreLogs([]*raft.Log{{Index: 2, Term: 1}}); !errors.Is(err, errDisk) || !errors.Is(err, ErrStoreFailed) {
		t.Fatalf("write on a broken disk: %v", err)
	}
	flaky.fail = nil // as bbolt after a failed fsync: the next one "works"
	before := flaky.writes
	for name, write := range map[string]func() error{
		"StoreLogs":   func() error { return s.StoreLogs([]*raft.Log{{Index: 2, Term: 1}}) },
		"DeleteRange": func() error { return s.DeleteRange(1, 1) },
		"Set":         func() error { return s.Set([]byte("LastVoteTerm"), []byte("x")) },
		"SetUint64":   func() error { return s.SetUint64([]byte("CurrentTerm"), 9) },
	} {
		if err := write(); !errors.Is(err, errDisk) || !errors.Is(err, ErrStoreFailed) {
			t.Errorf("%s after the failure: %v", name, err)
		}
	}
	if flaky.writes != before {
		t.Errorf("%d writes reached the disk after the failure", flaky.writes-before)
	}
	<-s.failed
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestK13_AHungWriteIsAFailure(t *testing.T) {
	hang := make(chan struct{})
	flaky := &flakyStore{raftStore: openBolt(t), hang: hang}
	s := newLatchedStore(flaky, 1)
	if err := s.StoreLog(&raft.Log{Index: 1, Term: 1}); !errors.Is(err, errStoreHung) || !errors.Is(err, ErrStoreFailed) {
		t.Fatalf("hung write: %v", err)
	}
	if err := s.Close(); !errors.Is(err, errStoreHung) {
		t.Errorf("Close of a hung store: %v", err)
	}
	close(hang)
	if !s.IsMonotonic() {
		t.Error("K11")
	}
}

// When a process that was stopped goes on, timers that ran out meanwhile come first.
func TestK13_AProcessThatStoodStillHasNoHungDisk(t *testing.T) {
	resume := make(chan struct{})
	s := newLatchedStore(&flakyStore{raftStore: openBolt(t), hang: resume}, time.Hour)
	waits := 0
	s.after = func(time.Duration) <-chan time.Time {
		if waits++; waits > 1 {
			close(resume) // the write goes on, too
			return nil
		}
		out := make(chan time.Time, 1)
		out <- time.Time{}
		return out
	}
	if err := s.StoreLog(&raft.Log{Index: 1, Term: 1}); err != nil {
		t.Fatalf("a write during which the process stood still: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A controller whose disk fails says so, proposes nothing more and can be closed.
func TestS4_AFailedStoreEndsTheController(t *testing.T) {
	for name, whileLeading := range map[string]bool{"at a proposal": true, "at a vote": false} {
		t.Run(name, func(t *testing.T) {
			c := open(t, Config{Dir: t.TempDir(), NodeID: 1})
			start(t, c)
			flaky := &flakyStore{raftStore: c.member.Load().store.raftStore, fail: errDisk}
			c.member.Load().store.mu.Lock()
			c.member.Load().store.raftStore = flaky
			c.member.Load().store.mu.Unlock()
			if whileLeading {
				_, err := c.CreateTopic(context.Background(), CreateTopicRequest{Name: "a", Partitions: 1, ReplicationFactor: 1})
				if !errors.Is(err, ErrOutcomeUnknown) {
					t.Errorf("K12: proposal on a broken disk: %v", err)
				}
				// It steps down and stands for election, which needs a new term on
				// disk: raft panics if it is told that this failed.
				for c.member.Load().raft.State() != raft.Candidate {
					runtime.Gosched()
				}
			} else if err := c.member.Load().store.latch(errDisk); err == nil {
				t.Fatal("not latched")
			}
			if err := c.Run(context.Background()); !errors.Is(err, errDisk) || !errors.Is(err, ErrStoreFailed) {
				t.Errorf("Run: %v", err)
			}
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			_, err := c.CreateTopic(context.Background(), CreateTopicRequest{Name: "a", Partitions: 1, ReplicationFactor: 1})
			if !errors.Is(err, ErrNoController) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}
