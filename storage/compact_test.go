package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// compactConfig is a compacted topic's log with small segments.
func compactConfig(segmentBytes int64) LogConfig {
	return LogConfig{SegmentBytes: segmentBytes, RetentionBytes: -1, RetentionAge: -1, Compact: true, MinDirtyRatio: 0.5}
}

// keyed seals records "key=value"; "key" alone is a tombstone.
func keyed(t testing.TB, c Compression, p *Producer, timestamp int64, pairs ...string) Batch {
	t.Helper()
	var b BatchBuilder
	for _, pair := range pairs {
		r := Record{Timestamp: timestamp, Key: []byte(pair)}
		for i := range pair {
			if pair[i] == '=' {
				r.Key, r.Value = []byte(pair[:i]), []byte(pair[i+1:])
				break
			}
		}
		b.Append(&r)
	}
	sealed, err := b.Seal(c, p)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// contents are the records of the log as "offset key=value", tombstones without "=".
func contents(t testing.TB, l *Log) []string {
	t.Helper()
	var out []string
	for _, r := range decodeAll(t, rawLog(t, l)) {
		text := fmt.Sprintf("%d %s", r.Offset, r.Key)
		if r.Value != nil {
			text += "=" + string(r.Value)
		}
		out = append(out, text)
	}
	return out
}

func wantContents(t testing.TB, l *Log, want ...string) {
	t.Helper()
	if got := contents(t, l); !slices.Equal(got, want) {
		t.Fatalf("the log holds %q, want %q", got, want)
	}
	checkBatches(t, l)
}

// compactNow closes the active segment and compacts everything.
func compactNow(t testing.TB, l *Log) CompactResult {
	t.Helper()
	res, err := l.Compact(context.Background(), CompactOptions{HighWatermark: l.WrittenEnd(), AtOnce: true})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestH06_CompactionKeepsTheLastOfEachKey: offsets stay, what was replaced goes, "" and
// {} are values, a tombstone stays until its time is over and then goes too.
func TestH06_CompactionKeepsTheLastOfEachKey(t *testing.T) {
	s := newMemStore(t, compactConfig(1<<20))
	mustAppend(t, s.log, keyed(t, CompressionNone, nil, 7, "k1={}", "k1", "k3=", "k4={}"))
	mustAppend(t, s.log, keyed(t, CompressionNone, nil, 8, "k4={}"))
	res := compactNow(t, s.log)
	if res.Replaced != 2 || res.Tombstones != 0 || res.Keys != 3 || res.From != 0 || res.To != 5 {
		t.Errorf("result %+v", res)
	}
	wantContents(t, s.log, "1 k1", "2 k3=", "4 k4={}")
	s.kill()
	s.open()
	wantContents(t, s.log, "1 k1", "2 k3=", "4 k4={}")
	compactNow(t, s.log) // delete.retention.ms is 0
	wantContents(t, s.log, "2 k3=", "4 k4={}")
	mustAppend(t, s.log, keyed(t, CompressionNone, nil, 9, "k3=3"))
	compactNow(t, s.log)
	wantContents(t, s.log, "4 k4={}", "5 k3=3")
	if start, end := s.log.StartOffset(), s.log.WrittenEnd(); start != 0 || end != 6 {
		t.Errorf("log [%d, %d)", start, end)
	}
	for _, r := range decodeAll(t, rawLog(t, s.log)) {
		if want := map[int64]int64{4: 8, 5: 9}[r.Offset]; r.Timestamp != want {
			t.Errorf("offset %d: timestamp %d, want %d", r.Offset, r.Timestamp, want)
		}
	}
}

// TestCompactionLeavesWhatItMust: the active segment, what is at or above the high
// watermark, and logs of topics that aren't compacted.
func TestCompactionLeavesWhatItMust(t *testing.T) {
	s := newMemStore(t, compactConfig(1<<20))
	for range 3 {
		mustAppend(t, s.log, keyed(t, CompressionNone, nil, 1, "a=1", "a=2"))
	}
	compact := func(opts CompactOptions) {
		t.Helper()
		if _, err := s.log.Compact(t.Context(), opts); err != nil {
			t.Fatal(err)
		}
	}
	all := []string{"0 a=1", "1 a=2", "2 a=1", "3 a=2", "4 a=1", "5 a=2"}
	compact(CompactOptions{HighWatermark: 6})
	wantContents(t, s.log, all...)
	compact(CompactOptions{HighWatermark: 5, AtOnce: true})
	wantContents(t, s.log, all...)
	cfg := s.cfg
	cfg.Compact = false
	s.log.Configure(cfg)
	compact(CompactOptions{HighWatermark: 6, AtOnce: true})
	wantContents(t, s.log, all...)
	s.log.Configure(s.cfg)
	compact(CompactOptions{HighWatermark: 6, AtOnce: true})
	wantContents(t, s.log, "5 a=2")
}

// TestS4_ADiskThatFailsUnderACompaction: a failed fsync is final, as everywhere; a full
// disk isn't, and leaves nothing behind. The log is as it was both times.
func TestS4_ADiskThatFailsUnderACompaction(t *testing.T) {
	s := newMemStore(t, compactConfig(1<<20))
	mustAppend(t, s.log, keyed(t, CompressionNone, nil, 7, "a=1", "a=2", "b=1"))
	all := []string{"0 a=1", "1 a=2", "2 b=1"}
	s.fs.SetRoom(10)
	_, err := s.log.Compact(t.Context(), CompactOptions{HighWatermark: 3, AtOnce: true})
	if !errors.Is(err, ErrDiskNearlyFull) {
		t.Fatalf("a full disk: %v", err)
	}
	s.fs.SetRoom(-1)
	wantContents(t, s.log, all...)
	if files := s.fs.Files(); slices.ContainsFunc(files, func(name string) bool { return strings.HasSuffix(name, cleanedSuffix) }) {
		t.Errorf("files %v", files)
	}
	broken := errors.New("broken")
	s.fs.SetFault(func(op, name string) error {
		if op == "sync" && strings.HasSuffix(name, cleanedSuffix) {
			return broken
		}
		return nil
	})
	_, err = s.log.Compact(t.Context(), CompactOptions{HighWatermark: 3, AtOnce: true})
	if final := (*FailedError)(nil); !errors.As(err, &final) || !errors.Is(err, broken) || len(s.failures) == 0 {
		t.Fatalf("a failed fsync: %v, told %v", err, s.failures)
	}
	s.fs.SetFault(nil)
	s.kill()
	s.open()
	wantContents(t, s.log, all...)
	compactNow(t, s.log)
	wantContents(t, s.log, "1 a=2", "2 b=1")
}

// TestCompactionOfADamagedLog: it isn't touched before the damage is repaired, and
// then not mended in place: the replica begins anew (see Mend).
func TestCompactionOfADamagedLog(t *testing.T) {
	s := newMemStore(t, compactConfig(300))
	for i := range 12 {
		mustAppend(t, s.log, keyed(t, CompressionNone, nil, 7, fmt.Sprintf("k%d=%d", i%2, i), "x=1"))
	}
	raw := bytes.Clone(rawLog(t, s.log))
	flipAt(s, s.log.segments[1].base, func(size int) int { return size / 2 })
	_, err := s.log.Compact(t.Context(), CompactOptions{HighWatermark: 24})
	if damage := (*CorruptError)(nil); !errors.As(err, &damage) {
		t.Fatalf("%v", err)
	}
	if c := s.log.Compactable(24, false); !c.Damaged || c.Due {
		t.Errorf("%+v", c)
	}
	d := s.log.Damage()
	if len(d) != 1 {
		t.Fatalf("damage %v", d)
	}
	for len(raw) > 0 && Batch(raw).BaseOffset() < d[0].From {
		raw = raw[Batch(raw).Size():]
	}
	if err := s.log.Mend(bytes.Clone(raw[:Batch(raw).Size()])); err == nil {
		t.Error("a compacted log was mended in place")
	}
	if end, ok := s.log.SoundEnd(); !ok || end != 0 {
		t.Errorf("sound up to %d, %v", end, ok)
	}
	if end, err := s.log.DropDamage(); err != nil || end != 0 {
		t.Errorf("cut to %d, %v", end, err)
	}
}

// TestCompactionIsTold: when it is time for one.
func TestCompactionIsTold(t *testing.T) {
	cfg := compactConfig(1 << 20)
	cfg.MaxCompactionLag = time.Minute
	s := newMemStore(t, cfg)
	now := time.UnixMilli(1_000_000)
	s.d.now = func() time.Time { return now }
	due := func(want bool, ratio float64, keep bool) {
		t.Helper()
		if c := s.log.Compactable(s.log.WrittenEnd(), keep); c.Due != want || math.Abs(c.Ratio-ratio) > 0.01 {
			t.Errorf("due %v, ratio %.3f; want %v, %.3f", c.Due, c.Ratio, want, ratio)
		}
	}
	due(false, 0, false)
	mustAppend(t, s.log, keyed(t, CompressionNone, nil, 1, "a=1", "a=2"))
	due(false, 0, false) // all of it is in the active segment
	now = now.Add(time.Minute)
	due(true, 0, false) // and has been for max.compaction.lag.ms
	res, err := s.log.Compact(t.Context(), CompactOptions{HighWatermark: 2})
	if err != nil || res.Replaced != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	due(false, 0, false)
	mustAppend(t, s.log, keyed(t, CompressionNone, nil, 1, "b=1"))
	if err := s.log.maintain(s.log.rollNow); err != nil {
		t.Fatal(err)
	}
	due(false, 0.5, false) // not more than min.cleanable.dirty.ratio
	mustAppend(t, s.log, keyed(t, CompressionNone, nil, 1, "a"))
	if err := s.log.maintain(s.log.rollNow); err != nil {
		t.Fatal(err)
	}
	due(true, 0.66, false)
	s.cfg.MinCompactionLag, s.cfg.DeleteRetention = time.Second, time.Hour
	s.log.Configure(s.cfg)
	due(false, 0, false)
	now = now.Add(time.Second)
	due(true, 0.66, false)
	if _, err := s.log.Compact(t.Context(), CompactOptions{HighWatermark: 4}); err != nil {
		t.Fatal(err)
	}
	due(false, 0, false)
	now = now.Add(time.Hour)
	due(true, 0, false) // the tombstone may go
	due(false, 0, true)
	s.cfg.MinCompactionLag = 0 // without the index a segment is as old as its file
	s.kill()
	s.loseIndex()
	s.open()
	s.d.now = func() time.Time { return now }
	due(true, 1, false) // what isn't known to be compacted is dirty
}

// BenchmarkCompact: a log of 64 MiB of which a tenth of the keys stay.
func BenchmarkCompact(b *testing.B) {
	const total = 64 << 20
	for _, size := range []int{100, 1000} {
		b.Run(fmt.Sprintf("%d-byte values", size), func(b *testing.B) {
			b.SetBytes(total)
			for b.Loop() {
				b.StopTimer()
				store := openTestStore(b, b.TempDir())
				cfg := compactConfig(16 << 20)
				l := openTestLog(b, store, cfg)
				value := "=" + strings.Repeat("v", size)
				records := total / (size + 20)
				for i := 0; i < records; {
					pairs := make([]string, 0, 200)
					for range 200 {
						pairs = append(pairs, fmt.Sprintf("key%08d", i%(records/10))+value)
						i++
					}
					st, err := l.Stage([]Batch{keyed(b, CompressionNone, nil, 1, pairs...)}, 1)
					if err == nil {
						err = l.Write(st)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
				compactNow(b, l)
				b.StopTimer()
				if err := store.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
