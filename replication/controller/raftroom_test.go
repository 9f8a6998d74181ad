package controller

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
)

// fullStore finds no room while full is set.
type fullStore struct {
	raftStore
	full  atomic.Bool
	times atomic.Int64 // that it found none
}

var errFull = &os.PathError{Op: "write", Path: raftFile, Err: syscall.ENOSPC}

func (s *fullStore) do(op func() error) error {
	if s.full.Load() {
		s.times.Add(1)
		return errFull
	}
	return op()
}

func (s *fullStore) StoreLogs(l []*raft.Log) error {
	return s.do(func() error { return s.raftStore.StoreLogs(l) })
}
func (s *fullStore) DeleteRange(a, b uint64) error {
	return s.do(func() error { return s.raftStore.DeleteRange(a, b) })
}
func (s *fullStore) Set(k, v []byte) error {
	return s.do(func() error { return s.raftStore.Set(k, v) })
}
func (s *fullStore) SetUint64(k []byte, v uint64) error {
	return s.do(func() error { return s.raftStore.SetUint64(k, v) })
}

// TestS5_RaftFindsNoRoom: a full disk fails no metadata store. Entries are refused,
// and written when the ballast has made room; what raft must not be told of waits.
func TestS5_RaftFindsNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := &fullStore{raftStore: openBolt(t)}
		s := newLatchedStore(full, storeTimeout)
		s.frozen = true
		store := func(index uint64) error { return s.StoreLog(&raft.Log{Index: index, Term: 1}) }
		for i := range uint64(3) {
			if err := store(1 + i); err != nil {
				t.Fatal(err)
			}
		}
		full.full.Store(true)
		if err := store(4); !errors.Is(err, syscall.ENOSPC) || s.Err() != nil {
			t.Fatalf("without room: %v, latched: %v", err, s.Err())
		}
		s.outOfSpace = func() { full.full.Store(false) }
		if err := store(4); err != nil {
			t.Fatalf("with the ballast's: %v", err)
		}

		for name, write := range map[string]func() error{
			"a vote":                     func() error { return s.Set([]byte("LastVoteCand"), []byte("x")) },
			"a term":                     func() error { return s.SetUint64([]byte("CurrentTerm"), 9) },
			"a cut":                      func() error { return s.DeleteRange(3, 4) },
			"what takes the cut's place": func() error { return store(3) },
		} {
			if name == "what takes the cut's place" {
				if err := errors.Join(store(3), store(4), s.DeleteRange(3, 4)); err != nil {
					t.Fatal(err)
				}
			}
			asked := 0
			s.outOfSpace = func() {
				if asked++; asked == 3 {
					full.full.Store(false)
				}
			}
			full.full.Store(true)
			if err := write(); err != nil || asked != 3 || s.Err() != nil {
				t.Errorf("%s: %v after room was asked for %d times, latched: %v", name, err, asked, s.Err())
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestS4_RaftsFsyncWithoutRoomIsFinal: nobody knows what became of the bytes.
func TestS4_RaftsFsyncWithoutRoomIsFinal(t *testing.T) {
	flaky := &flakyStore{raftStore: openBolt(t), fail: &os.PathError{Op: "sync", Path: raftFile, Err: syscall.ENOSPC}}
	s := newLatchedStore(flaky, storeTimeout)
	if err := s.StoreLog(&raft.Log{Index: 1, Term: 1}); !errors.Is(err, ErrStoreFailed) || s.Err() == nil {
		t.Errorf("%v, latched: %v", err, s.Err())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestS5_ControllerOnAFullDisk: it changes nothing while raft finds no room, lives on,
// can be closed then, and works when there is room.
func TestS5_ControllerOnAFullDisk(t *testing.T) {
	for _, close := range []bool{false, true} {
		c := open(t, Config{Dir: t.TempDir(), NodeID: 1})
		start(t, c)
		store := c.member.Load().store
		full := &fullStore{raftStore: store.raftStore}
		full.full.Store(true)
		store.mu.Lock()
		store.raftStore = full
		store.mu.Unlock()
		create := func() error {
			_, err := c.CreateTopic(context.Background(), CreateTopicRequest{Name: "a", Partitions: 1, ReplicationFactor: 1})
			return err
		}
		if err := create(); err == nil {
			t.Fatal("a topic was made without room")
		}
		if !close {
			full.full.Store(false)
			for err := create(); err != nil && !errors.As(err, new(*TopicExistsError)); err = create() {
				if store.Err() != nil {
					t.Fatal(store.Err())
				}
			}
		}
		if store.Err() != nil || full.times.Load() == 0 {
			t.Errorf("latched: %v, %d times without room", store.Err(), full.times.Load())
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}
