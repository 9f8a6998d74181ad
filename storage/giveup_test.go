package storage

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// givesUp calls f with a context that ends after a second, and tells whether f has
// given up.
func givesUp(t *testing.T, f func(ctx context.Context) error) (gaveUp bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	err := f(ctx)
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %v", took)
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	return err != nil
}

// slowDisk has everything but writes take ten seconds.
func slowDisk(op, _ string) time.Duration {
	if op == "write" {
		return 0
	}
	return 10 * time.Second
}

// TestF49_WhoGivesUpLeavesTheWrite: neither who would have to roll nor who waits for
// that is held longer than it wants, and what they staged is written all the same.
func TestF49_WhoGivesUpLeavesTheWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore(t, LogConfig{SegmentBytes: 4000})
		s.batches(1, 1)
		s.fs.SetDelay(slowDisk)
		var last Staged
		for i, size := range []int{100, 5000, 5000, 100} {
			st, err := s.log.Stage([]Batch{makeBatch(t, CompressionNone, i+1, 1, size, steady)}, 1)
			must(t, err)
			gaveUp := givesUp(t, func(ctx context.Context) error { return s.log.WriteContext(ctx, st) })
			if rolls := i > 0; gaveUp != rolls {
				t.Errorf("write %d: gave up %v, want %v", i, gaveUp, rolls)
			}
			last = st
		}
		must(t, s.log.Write(last))
		if n := len(readAll(t, s.log, 0, 1<<20)); n != 5 {
			t.Errorf("%d records are there, want 5", n)
		}
		must(t, s.log.close())
	})
}

// TestF49_ABacklogIsBounded: who gave up and comes again fills no memory while the disk
// stands.
func TestF49_ABacklogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore(t, LogConfig{SegmentBytes: 4000})
		st, err := s.log.Stage([]Batch{makeBatch(t, CompressionNone, 0, 1, 100, steady)}, 1)
		must(t, err)
		must(t, s.log.Write(st))
		s.fs.SetDelay(slowDisk) // before the next segment that one has to be synced
		s.d.backlog = 10_000
		value := make([]byte, s.d.backlog/2)
		offer := func() error {
			var b BatchBuilder
			b.Append(&Record{Timestamp: steady(1), Value: value})
			batch, err := b.Seal(CompressionNone, nil)
			must(t, err)
			o, err := NewOffer([]Batch{batch}, nil)
			must(t, err)
			must(t, s.log.Prepare(o))
			st, _, err := s.log.StageOffer(-1, o, 1)
			if err == nil {
				givesUp(t, func(ctx context.Context) error { return s.log.WriteContext(ctx, st) })
			}
			return err
		}
		must(t, offer())
		must(t, offer())
		if err := offer(); !errors.Is(err, ErrBacklogged) {
			t.Errorf("with %d bytes staged: %v", s.log.stagedBytes, err)
		}
		if !givesUp(t, s.log.AwaitRoom) {
			t.Error("there is room while the disk stands")
		}
		must(t, s.log.AwaitRoom(t.Context()))
		must(t, offer())
		s.fs.SetDelay(nil)
		must(t, s.log.close())
	})
}
