package storage_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"highwater/storage"
)

// smallSegments make many of them.
var smallSegments = storage.LogConfig{SegmentBytes: 16 << 10, RetentionBytes: -1, RetentionAge: -1}

func mustOpenLog(t *testing.T, s *storage.Store, id storage.PartitionID) *storage.Log {
	t.Helper()
	l, err := s.OpenLog(id, smallSegments, func() {})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// recordValue is what record n holds.
func recordValue(n int64) string { return fmt.Sprintf("value of record %d", n) }

// recordTime is record n's timestamp in ms.
func recordTime(n int64) int64 { return 1_700_000_000_000 + n*10 }

// appendRecords appends records [from, to), in batches of 1 to 7, durably.
func appendRecords(t *testing.T, l *storage.Log, from, to int64) {
	t.Helper()
	for from < to {
		b := storage.NewBatchBuilder(nil)
		for range min(1+from%7, to-from) {
			b.Append(&storage.Record{Timestamp: recordTime(from), Key: []byte("k"), Value: []byte(recordValue(from))})
			from++
		}
		batch, err := b.Seal(storage.CompressionNone, nil)
		if err != nil {
			t.Fatal(err)
		}
		staged, err := l.Stage([]storage.Batch{batch}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Write(staged); err != nil {
			t.Fatal(err)
		}
		if from >= to {
			if err := l.Sync(staged); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// readRecord reads record n from the log, by offset.
func readRecord(l *storage.Log, n int64) (storage.Record, error) {
	res, err := l.Read(n, l.WrittenEnd(), 1, nil)
	if err != nil {
		return storage.Record{}, err
	}
	for rest := res.Data; len(rest) > 0; {
		batch, next, err := storage.ParseBatch(rest)
		if err != nil {
			return storage.Record{}, err
		}
		it, err := batch.Records()
		if err != nil {
			return storage.Record{}, err
		}
		var r storage.Record
		for it.Next(&r) {
			if r.Offset == n {
				return r, nil
			}
		}
		if it.Err() != nil {
			return storage.Record{}, it.Err()
		}
		rest = next
	}
	return storage.Record{}, fmt.Errorf("offset %d isn't in the %d bytes read", n, len(res.Data))
}

// checkRecords reads every record of [start, end) by its offset, and some by time.
func checkRecords(t *testing.T, l *storage.Log, start, end int64) {
	t.Helper()
	if l.StartOffset() != start || l.WrittenEnd() != end || l.DurableEnd() != end {
		t.Fatalf("log is [%d, %d), durable to %d; want [%d, %d)", l.StartOffset(), l.WrittenEnd(), l.DurableEnd(), start, end)
	}
	for n := start; n < end; n++ {
		r, err := readRecord(l, n)
		if err != nil {
			t.Fatal(err)
		}
		if string(r.Value) != recordValue(n) || r.Timestamp != recordTime(n) {
			t.Fatalf("offset %d holds %q at %d", n, r.Value, r.Timestamp)
		}
	}
	for n := start; n < end; n += 97 {
		if got, ok, err := l.OffsetForTimestamp(recordTime(n)-9, end); err != nil || !ok || got != n {
			t.Fatalf("first record after %d is %d %v %v, want %d", recordTime(n)-9, got, ok, err, n)
		}
	}
}

// runStore starts the store's loops; the function returned ends them.
func runStore(t *testing.T, s *storage.Store) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stopped := false
	stop = func() error {
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() {
		if !stopped {
			_ = stop()
		}
	})
	return stop
}

// waitFor returns when done says so; a test that waits in vain ends by a deadline
// that is far beyond any slowness.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("waited a minute in vain")
		}
	}
}
