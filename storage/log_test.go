package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// testID is a fixed partition.
var testID = PartitionID{Topic: uuid.UUID{0x0f, 15: 0x01}, Partition: 3}

// makeBatch seals n records that tell their number: first, first+1 ...
func makeBatch(t testing.TB, c Compression, first, n, size int, timestamp func(i int) int64) Batch {
	t.Helper()
	var b BatchBuilder
	for i := first; i < first+n; i++ {
		value := fmt.Appendf(nil, `{"n":%d,"pad":"%s"}`, i, bytes.Repeat([]byte{'x'}, size))
		b.Append(&Record{Timestamp: timestamp(i), Key: fmt.Appendf(nil, "k%d", i), Value: value,
			Headers: []Header{{Key: []byte("n"), Value: fmt.Append(nil, i)}, {Key: []byte("null")}}})
	}
	sealed, err := b.Seal(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func steady(i int) int64 { return 1_700_000_000_000 + int64(i) }

// readAll reads the log from offset on, page by page, and returns the records.
func readAll(t testing.TB, l *Log, offset int64, maxBytes int) []Record {
	t.Helper()
	var all []Record
	for end := l.WrittenEnd(); offset < end; {
		res, err := l.Read(offset, end, maxBytes, nil)
		if err != nil {
			t.Fatalf("read at %d: %v", offset, err)
		}
		got := decodeAll(t, res.Data)
		for _, r := range got {
			if r.Offset >= offset {
				all = append(all, r)
			}
		}
		offset = got[len(got)-1].Offset + 1
	}
	return all
}

// decodeAll decodes whole batches into records that share no memory with them.
func decodeAll(t testing.TB, data []byte) []Record {
	t.Helper()
	var all []Record
	for len(data) > 0 {
		b, rest, err := ParseBatch(data)
		if err != nil {
			t.Fatal(err)
		}
		it, err := b.Records()
		if err != nil {
			t.Fatal(err)
		}
		for {
			var r Record
			if !it.Next(&r) {
				break
			}
			all = append(all, r)
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
		data = rest
	}
	return all
}

// number is what makeBatch put into the record.
func number(t testing.TB, r Record) int {
	t.Helper()
	var n int
	if _, err := fmt.Sscanf(string(r.Value), `{"n":%d,`, &n); err != nil {
		t.Fatalf("record %d: value %.40q: %v", r.Offset, r.Value, err)
	}
	if want := fmt.Sprintf("k%d", n); string(r.Key) != want {
		t.Fatalf("record %d: key %q, want %q", r.Offset, r.Key, want)
	}
	return n
}

func mustAppend(t testing.TB, l *Log, batches ...Batch) Staged {
	t.Helper()
	s, err := l.Stage(batches, 1)
	if err == nil {
		err = l.Sync(s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openTestStore(t testing.TB, dir string, change ...func(*Options)) *Store {
	t.Helper()
	opts := Options{Dir: dir, Fsync: FsyncCommit}
	for _, c := range change {
		c(&opts)
	}
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openTestLog(t testing.TB, s *Store, cfg LogConfig) *Log {
	t.Helper()
	l, err := s.OpenLog(testID, cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestAppendReadReopen(t *testing.T) {
	dir := t.TempDir()
	cfg := LogConfig{SegmentBytes: 2000}
	const total = 500
	r := rand.New(rand.NewPCG(1, 2))
	s := openTestStore(t, dir)
	l := openTestLog(t, s, cfg)
	for n := 0; n < total; {
		k := min(1+r.IntN(9), total-n)
		st := mustAppend(t, l, makeBatch(t, CompressionNone, n, k, r.IntN(60), steady))
		if st.BaseOffset != int64(n) || st.EndOffset != int64(n+k) {
			t.Fatalf("staged [%d, %d), want [%d, %d)", st.BaseOffset, st.EndOffset, n, n+k)
		}
		n += k
	}
	check := func() {
		t.Helper()
		if l.StartOffset() != 0 || l.WrittenEnd() != total || l.DurableEnd() != total || l.StagedEnd() != total {
			t.Fatalf("ends: %d %d %d %d", l.StartOffset(), l.DurableEnd(), l.WrittenEnd(), l.StagedEnd())
		}
		for _, size := range []int{1, 300, 5000, 1 << 20} {
			got := readAll(t, l, 0, size)
			if len(got) != total {
				t.Fatalf("%d records in pages of %d, want %d", len(got), size, total)
			}
			for i := range got {
				if number(t, got[i]) != i || got[i].Offset != int64(i) {
					t.Fatalf("record %d is number %d at offset %d", i, number(t, got[i]), got[i].Offset)
				}
			}
		}
	}
	check()
	for range 3 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openTestStore(t, dir)
		l = openTestLog(t, s, cfg)
		check()
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Read(0, total, 1, nil); !errors.Is(err, ErrClosed) {
		t.Fatalf("read after close: %v", err)
	}
	if _, err := l.Stage([]Batch{makeBatch(t, CompressionNone, 0, 1, 0, steady)}, 1); !errors.Is(err, ErrClosed) {
		t.Fatalf("stage after close: %v", err)
	}
}

func TestConcurrentAppends(t *testing.T) {
	for _, mode := range []Fsync{FsyncCommit, FsyncInterval, FsyncNever} {
		t.Run(string(mode), func(t *testing.T) {
			dir := t.TempDir()
			s := openTestStore(t, dir, func(o *Options) { o.Fsync = mode })
			l := openTestLog(t, s, LogConfig{SegmentBytes: 20000})
			const workers, each = 16, 60
			done := make(chan error, workers)
			for w := range workers {
				go func() {
					for i := range each {
						st, err := l.Stage([]Batch{makeBatch(t, CompressionNone, w*each+i, 1, 20, steady)}, 1)
						switch {
						case err != nil:
						case i%3 == 0:
							l.SyncSoon()
						case i%3 == 1:
							err = l.Write(st)
							l.SyncSoon()
						default:
							if err = l.Sync(st); err == nil && l.DurableEnd() < st.EndOffset {
								err = fmt.Errorf("durable end %d after Sync of %d", l.DurableEnd(), st.EndOffset)
							}
						}
						if err != nil {
							done <- err
							return
						}
					}
					done <- nil
				}()
			}
			for range workers {
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openTestStore(t, dir)
			l = openTestLog(t, s, LogConfig{})
			defer func() { must(t, s.Close()) }()
			last := make([]int, workers)
			got := readAll(t, l, 0, 4000)
			if len(got) != workers*each {
				t.Fatalf("%d records, want %d", len(got), workers*each)
			}
			for i, r := range got {
				n := number(t, r)
				if r.Offset != int64(i) || n%each != last[n/each] {
					t.Fatalf("offset %d holds %d, want the %dth of worker %d", r.Offset, n, last[n/each], n/each)
				}
				last[n/each]++
			}
		})
	}
}

func TestLogAppendTimeNeverGoesBack(t *testing.T) { // D3
	now := time.UnixMilli(5000)
	s := openTestStore(t, t.TempDir(), func(o *Options) { o.Now = func() time.Time { return now } })
	defer func() { must(t, s.Close()) }()
	l := openTestLog(t, s, LogConfig{LogAppendTime: true})
	for i, at := range []int64{5000, 4000, 6000} {
		now = time.UnixMilli(at)
		mustAppend(t, l, makeBatch(t, CompressionNone, i*2, 2, 5, steady))
	}
	want := []int64{5000, 5000, 5000, 5000, 6000, 6000}
	for i, r := range readAll(t, l, 0, 1<<20) {
		if r.Timestamp != want[i] {
			t.Fatalf("record %d has timestamp %d, want %d", i, r.Timestamp, want[i])
		}
	}
	if o, found, err := l.OffsetForTimestamp(5001, 6); o != 4 || !found || err != nil {
		t.Fatalf("offset at 5001: %d %v %v", o, found, err)
	}
}

// TestEverythingAtOnce lets appends, reads, retention and the end of the log meet.
func TestEverythingAtOnce(t *testing.T) {
	s := openTestStore(t, t.TempDir())
	l := openTestLog(t, s, LogConfig{SegmentBytes: 3000, RetentionBytes: 20_000})
	const workers, each = 6, 40
	var appends, others sync.WaitGroup
	stop := make(chan struct{})
	for w := range workers {
		appends.Go(func() {
			for i := range each {
				st, err := l.Stage([]Batch{makeBatch(t, CompressionNone, w*each+i, 2, 30, steady)}, 1)
				switch {
				case err != nil:
				case i%2 == 0:
					err = l.Sync(st)
				default:
					err = l.Write(st)
					l.SyncSoon()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	again := func(work func() error) {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				var outside *OffsetOutOfRangeError
				if err := work(); err != nil && !errors.As(err, &outside) {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 2 {
		offset := int64(0)
		again(func() error {
			offset = max(offset, l.StartOffset())
			res, err := l.Read(offset, l.DurableEnd(), 2000, nil)
			for data := res.Data; err == nil && len(data) > 0; {
				var b Batch
				if b, data, err = ParseBatch(data); err == nil {
					offset = b.NextOffset()
				}
			}
			return err
		})
	}
	again(func() error { _, err := l.Retain(l.DurableEnd()); return err })
	again(func() error { _, _, err := l.OffsetForTimestamp(steady(40), l.DurableEnd()); return err })
	again(func() error { l.checkpoint(); return l.AdvanceStart(l.StartOffset()) })
	appends.Wait()
	close(stop)
	others.Wait()
	if l.StagedEnd() != workers*each*2 {
		t.Fatalf("log ends at %d", l.StagedEnd())
	}
	readAll(t, l, l.StartOffset(), 5000)
	others.Go(func() { _ = l.AdvanceStart(l.WrittenEnd()) }) // may find the log closed
	must(t, s.Close())
	others.Wait()
	if _, err := l.Retain(0); !errors.Is(err, ErrClosed) {
		t.Fatalf("retain after close: %v", err)
	}
}

// TestDiscardReleasesWaiters: whoever waits for a log that is deleted hears of it.
func TestDiscardReleasesWaiters(t *testing.T) {
	s := newMemStore(t, LogConfig{})
	s.batches(1, 1)
	st, err := s.log.Stage([]Batch{makeBatch(t, CompressionNone, 1, 1, 5, steady)}, 1)
	must(t, err)
	s.log.discard()
	if err := s.log.Sync(st); !errors.Is(err, ErrClosed) {
		t.Fatalf("sync: %v", err)
	}
	if err := s.log.Write(st); !errors.Is(err, ErrClosed) {
		t.Fatalf("write: %v", err)
	}
}
