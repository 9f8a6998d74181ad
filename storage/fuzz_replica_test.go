package storage

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// FuzzStageReplica gives a follower any bytes for a leader's answer: it must not
// panic, must take all of them or nothing, and what it takes must be batches that
// go on where the log ends, byte for byte, over a restart too (R17, V26, V27).
func FuzzStageReplica(f *testing.F) {
	sealed := func(base int64, n int, epoch int32) []byte { return stamped(f, base, n, epoch) }
	f.Add(sealed(5, 2, 4), int32(4))
	f.Add(slices.Concat(sealed(5, 2, 4), sealed(7, 1, 6), sealed(8, 3, 6)), int32(7))
	f.Add(slices.Concat(sealed(5, 2, 4), sealed(8, 1, 4)), int32(4))
	f.Add(sealed(0, 5, 4), int32(4))
	f.Add(sealed(5, 2, 4)[:70], int32(4))
	f.Add([]byte{0}, int32(-1))
	f.Add(bytes.Repeat([]byte{2}, 200), int32(1<<30))
	f.Fuzz(func(t *testing.T, raw []byte, epoch int32) {
		if len(raw) == 0 || len(raw) > 1<<20 {
			return
		}
		s := newMemStore(t, LogConfig{SegmentBytes: 400})
		mustReplicate(t, s.log, slices.Concat(stamped(t, 0, 3, 2), stamped(t, 3, 2, 4)), 4)
		before, epochs := rawLog(t, s.log), s.log.Epochs()
		given := slices.Clone(raw)
		st, err := s.log.StageReplica(given, epoch)
		if err != nil {
			var refused *ReplicaBatchError
			if !errors.As(err, &refused) || s.log.StagedEnd() != 5 || !slices.Equal(s.log.Epochs(), epochs) || refused.Offset < 0 {
				t.Fatalf("%v: ends at %d, epochs %v", err, s.log.StagedEnd(), s.log.Epochs())
			}
			return
		}
		if err := s.log.Sync(st); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got := rawLog(t, s.log); !bytes.Equal(got, slices.Concat(before, raw)) || s.log.WrittenEnd() != st.EndOffset {
				t.Fatalf("the log isn't what it was and what was given")
			}
			checkBatches(t, s.log)
			s.kill()
			s.open()
		}
		if s.log.Lossy() {
			t.Fatal(s.log.whyLossy())
		}
	})
}

// checkBatches checks V26 and V27 of a whole log.
func checkBatches(t testing.TB, l *Log) {
	t.Helper()
	next, epoch, epochs := l.StartOffset(), int32(-1), l.Epochs()
	for raw := rawLog(t, l); len(raw) > 0; {
		b, rest, err := ParseBatch(raw)
		if err != nil {
			t.Fatal(err)
		}
		i := len(epochs) - 1
		for i >= 0 && epochs[i].StartOffset > max(b.BaseOffset(), next) {
			i--
		}
		if b.BaseOffset() > next || b.NextOffset() <= next || b.LeaderEpoch() < epoch || i < 0 || epochs[i].Epoch != b.LeaderEpoch() {
			t.Fatalf("batch of [%d, %d) in epoch %d stands at %d after epoch %d; epochs %v", b.BaseOffset(), b.NextOffset(), b.LeaderEpoch(), next, epoch, epochs)
		}
		next, epoch, raw = b.NextOffset(), b.LeaderEpoch(), rest
	}
	if next != l.WrittenEnd() {
		t.Fatalf("batches end at %d, the log at %d", next, l.WrittenEnd())
	}
}
