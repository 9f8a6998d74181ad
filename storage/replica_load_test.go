package storage

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// TestR36_TruncationUnderReplicationAndReaders (F3, F4, R35-R40, R90): a follower
// appends, is cut back where a new leader's log diverges, and begun anew, as fast as
// it can, while others read, sync and checkpoint. A reader sees whole batches that
// the log held at some time, dense from the offset it asked for, and no error but
// that the offset isn't there.
func TestR36_TruncationUnderReplicationAndReaders(t *testing.T) {
	s := openTestStore(t, t.TempDir())
	defer func() { must(t, s.Close()) }()
	var durable atomic.Int64
	l, err := s.OpenLog(testID, LogConfig{SegmentBytes: 3000}, func() { durable.Add(1) })
	must(t, err)
	rounds := 400
	if raceDetector {
		rounds = 100
	}
	var mu sync.Mutex // guards known
	known := map[heldBatch]bool{}
	stop := make(chan struct{})
	var others sync.WaitGroup
	for reader := range 3 {
		others.Go(func() { readWildly(t, l, uint64(reader), stop, &mu, known) })
	}
	tick := make(chan struct{}, 1)
	others.Go(func() {
		for range tick {
			l.checkpoint()
			l.CheckpointHighWatermark(l.DurableEnd())
			_, _, _ = l.OffsetForTimestamp(steady(rounds), l.WrittenEnd())
		}
	})
	rng := rand.New(rand.NewPCG(3, 4))
	epoch := int32(1)
	for range rounds {
		select {
		case tick <- struct{}{}:
		default:
		}
		switch what := rng.IntN(10); {
		case what < 7:
			var raw []byte
			for base := l.StagedEnd(); len(raw) < 2000; {
				n := 1 + rng.IntN(5)
				b := makeBatch(t, CompressionNone, rng.IntN(1<<20), n, rng.IntN(200), steady)
				b.stamp(base, epoch)
				base += int64(n)
				raw = append(raw, b...)
				mu.Lock()
				known[heldBatch{b.BaseOffset(), epoch, b.storedCRC()}] = true
				mu.Unlock()
			}
			mustReplicate(t, l, raw, epoch)
		case what < 9:
			start, end := l.StartOffset(), l.WrittenEnd()
			to := start + rng.Int64N(end-start+1)
			if got, err := l.TruncateTo(to); err != nil || got > to || l.StagedEnd() != got || l.DurableEnd() > got {
				t.Fatalf("truncated to %d, asked for %d: %v", got, to, err)
			}
			epoch++
		default:
			to := l.WrittenEnd() + rng.Int64N(10)
			if rng.IntN(2) == 0 {
				to = rng.Int64N(to + 1)
			}
			must(t, l.ResetTo(to))
			if l.StartOffset() != to || l.WrittenEnd() != to || len(l.Epochs()) != 0 {
				t.Fatalf("reset to %d: [%d, %d), epochs %v", to, l.StartOffset(), l.WrittenEnd(), l.Epochs())
			}
			epoch++
		}
	}
	close(stop)
	close(tick)
	others.Wait()
	if t.Failed() {
		return
	}
	checkBatches(t, l)
	if l.Lossy() || durable.Load() == 0 {
		t.Errorf("lossy: %q, told %d times of durable records", l.whyLossy(), durable.Load())
	}
}

// heldBatch names a batch's place and content.
type heldBatch struct {
	base  int64
	epoch int32
	crc   uint32
}

func readWildly(t *testing.T, l *Log, seed uint64, stop chan struct{}, mu *sync.Mutex, known map[heldBatch]bool) {
	rng := rand.New(rand.NewPCG(seed, 9))
	var buf []byte
	for {
		select {
		case <-stop:
			return
		default:
		}
		start, end := l.StartOffset(), l.WrittenEnd()
		offset := start + rng.Int64N(max(end-start, 0)+1)
		res, err := l.Read(offset, end, []int{1, 1000, 100_000}[rng.IntN(3)], buf)
		var outside *OffsetOutOfRangeError
		if err != nil && !errors.As(err, &outside) {
			t.Errorf("read at %d of [%d, %d): %v", offset, start, end, err)
			return
		}
		buf = res.Data
		next := offset
		for data := slices.Clone(res.Data); len(data) > 0; {
			b, rest, err := ParseBatch(data)
			if err != nil {
				t.Errorf("read at %d: %v", offset, err)
				return
			}
			mu.Lock()
			ours := known[heldBatch{b.BaseOffset(), b.LeaderEpoch(), b.storedCRC()}]
			mu.Unlock()
			if !ours || b.BaseOffset() > next || b.NextOffset() <= next || next > offset && b.BaseOffset() != next {
				t.Errorf("read at %d brought a batch of [%d, %d) in epoch %d for offset %d; once there: %v", offset, b.BaseOffset(), b.NextOffset(), b.LeaderEpoch(), next, ours)
				return
			}
			next, data = b.NextOffset(), rest
		}
	}
}
