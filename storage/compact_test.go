package storage

import (
	"context"
	"fmt"
	"slices"
	"testing"
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
