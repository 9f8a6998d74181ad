package storage

import (
	"errors"
	"syscall"
	"testing"
)

// TestF47_FailedFsyncIsFinal lets one fsync fail: the kernel says that the next
// one succeeds, and the bytes are not there after a restart.
func TestF47_FailedFsyncIsFinal(t *testing.T) {
	s := newMemStore(t, LogConfig{})
	s.batches(3, 2)
	s.log.checkpoint()
	fail := true
	s.fs.SetFault(func(op, name string) error {
		if op == "sync" && fail {
			fail = false
			return syscall.EIO
		}
		return nil
	})
	st, err := s.log.Stage([]Batch{makeBatch(t, CompressionNone, 6, 2, 5, steady)}, 1)
	if err != nil {
		t.Fatal(err)
	}
	var failed *FailedError
	if err := s.log.Sync(st); !errors.As(err, &failed) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("sync: %v", err)
	}
	if err := s.log.Sync(st); !errors.As(err, &failed) {
		t.Fatalf("second sync: %v", err)
	}
	if _, err := s.log.Stage([]Batch{makeBatch(t, CompressionNone, 8, 2, 5, steady)}, 1); !errors.As(err, &failed) {
		t.Fatalf("stage: %v", err)
	}
	for what, err := range map[string]error{"advance": s.log.AdvanceStart(2), "begin": s.log.BeginEpoch(9), "close": s.log.close()} {
		if !errors.As(err, &failed) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	if len(s.failures) == 0 || s.log.DurableEnd() != 6 {
		t.Fatalf("store heard %v, durable end %d", s.failures, s.log.DurableEnd())
	}
	// The next process finds the bytes in the page cache, and must not believe it.
	s.fs.SetFault(nil)
	s.open()
	s.expect(6, none)
	s.batches(1, 2)
	s.expect(8, none)
}

// TestF46_DiskFullMidAppend fills the disk in the middle of a batch: that group is refused
// and nowhere, the log and its readers go on.
func TestF46_DiskFullMidAppend(t *testing.T) {
	for _, cfg := range []LogConfig{{}, {SegmentBytes: 600}} {
		for room := int64(0); room < 1500; room += 37 {
			s := newMemStore(t, cfg)
			s.batches(2, 2)
			s.fs.SetRoom(room)
			var groups []Staged
			for i := range 3 { // one round of three groups, the last of two batches
				n := 4 + i*2
				b := []Batch{makeBatch(t, CompressionNone, n, 2, 100, steady)}
				if i == 2 {
					b = append(b, makeBatch(t, CompressionNone, n+2, 2, 100, steady))
				}
				st, err := s.log.Stage(b, 1)
				if err != nil {
					t.Fatal(err)
				}
				groups = append(groups, st)
			}
			end := int64(4)
			for i, st := range groups {
				err := s.log.Write(st)
				switch {
				case err == nil && end == st.BaseOffset:
					end = st.EndOffset
				case !errors.Is(err, ErrDiskNearlyFull):
					t.Fatalf("room %d, group %d: %v, log ends at %d", room, i, err, end)
				}
			}
			if end < 12 && s.log.StagedEnd() != end {
				t.Fatalf("room %d: next offset %d, want %d", room, s.log.StagedEnd(), end)
			}
			s.expect(end, none)
			s.fs.SetRoom(-1)
			s.batches(2, 2)
			s.expect(end+4, none)
			if len(s.failures) > 0 {
				t.Fatal(s.failures)
			}
			for _, known := range []bool{true, false} {
				s.kill()
				if !known {
					s.loseIndex()
				}
				s.open()
				s.expect(end+4, none)
			}
		}
	}
}

// TestS4_FailedWriteIsFinal: a write that fails for another reason than room.
func TestS4_FailedWriteIsFinal(t *testing.T) {
	for _, op := range []string{"write", "create", "syncdir", "truncate"} {
		t.Run(op, func(t *testing.T) {
			s := newMemStore(t, LogConfig{SegmentBytes: 600})
			s.batches(2, 2)
			s.fs.SetFault(func(did, name string) error {
				switch {
				case did == op:
					return syscall.EIO
				case did == "write" && op == "truncate":
					return syscall.ENOSPC
				}
				return nil
			})
			st, err := s.log.Stage([]Batch{makeBatch(t, CompressionNone, 4, 2, 600, steady)}, 1)
			if err != nil {
				t.Fatal(err)
			}
			var failed *FailedError
			if err := s.log.Write(st); !errors.As(err, &failed) || !errors.Is(err, syscall.EIO) {
				t.Fatalf("write: %v", err)
			}
			if len(s.failures) == 0 {
				t.Fatal("the store wasn't told")
			}
		})
	}
}

// TestS5_FlushLeavesOutWhatHasNoRoom: a full disk keeps no replica from its role.
func TestS5_FlushLeavesOutWhatHasNoRoom(t *testing.T) {
	s := newMemStore(t, LogConfig{})
	s.batches(1, 2)
	s.fs.SetRoom(10)
	staged, err := s.log.Stage([]Batch{makeBatch(t, CompressionNone, 2, 2, 5, steady)}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.log.Flush(); err != nil {
		t.Fatal(err)
	}
	if end := s.log.StagedEnd(); end != 2 || s.log.DurableEnd() != end {
		t.Errorf("the next offset is %d, the durable end %d", end, s.log.DurableEnd())
	}
	if err := s.log.Sync(staged); !errors.Is(err, ErrDiskNearlyFull) {
		t.Errorf("who staged it is told %v", err)
	}
}

// TestS5_LateWriterIsNotFooled: offsets that were refused are given out again and
// written; whoever held the refused ones hears of the refusal all the same.
func TestS5_LateWriterIsNotFooled(t *testing.T) {
	s := newMemStore(t, LogConfig{})
	s.batches(1, 2)
	s.fs.SetRoom(10)
	first, _ := s.log.Stage([]Batch{makeBatch(t, CompressionNone, 2, 2, 5, steady)}, 1)
	late, _ := s.log.Stage([]Batch{makeBatch(t, CompressionNone, 4, 2, 5, steady)}, 1)
	if err := s.log.Write(first); !errors.Is(err, ErrDiskNearlyFull) {
		t.Fatal(err)
	}
	s.fs.SetRoom(-1)
	s.batches(2, 2)
	if s.log.WrittenEnd() != late.EndOffset {
		t.Fatalf("log ends at %d, want %d", s.log.WrittenEnd(), late.EndOffset)
	}
	if err := s.log.Sync(late); !errors.Is(err, ErrDiskNearlyFull) {
		t.Fatalf("late sync of refused offsets: %v", err)
	}
}
