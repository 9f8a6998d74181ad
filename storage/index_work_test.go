package storage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"go.etcd.io/bbolt"
)

// TestIndexConcurrently has many logs note and look up while the writer writes;
// what a goroutine noted it finds at once.
func TestIndexConcurrently(t *testing.T) {
	dir := t.TempDir()
	ix := testIndex(t, dir)
	ctx, cancel := context.WithCancel(context.Background())
	var writer, noters sync.WaitGroup
	writer.Go(func() {
		if err := ix.run(ctx); err != nil {
			t.Error(err)
		}
	})
	const logs, rounds = 8, 60
	for n := range logs {
		noters.Go(func() {
			id := testPartition(n)
			for i := range int64(rounds) {
				ix.addOffsets(id, []indexEntry{{Offset: i * 10, Segment: 0, Position: i}})
				ix.addTimes(id, []timeEntry{{MaxTimestamp: i, Offset: i * 10}})
				if i%10 == 3 {
					if err := ix.updateNow(id, func(m *logMeta) { m.HighWatermark = i }); err != nil {
						t.Error(err)
					}
				} else {
					ix.update(id, func(m *logMeta) { m.HighWatermark = i })
				}
				if i%7 == 6 {
					if err := ix.flush(); err != nil {
						t.Error(err)
					}
				}
				if e, ok := ix.offsetFloor(id, i*10+5); !ok || e.Position != i {
					t.Errorf("offsetFloor: %+v %v, want position %d", e, ok, i)
				}
				if e, ok := ix.timeFloor(id, i+1); !ok || e.Offset != i*10 {
					t.Errorf("timeFloor: %+v %v, want offset %d", e, ok, i*10)
				}
				if m, ok := ix.meta(id); !ok || m.HighWatermark != i {
					t.Errorf("meta: %+v %v, want %d", m, ok, i)
				}
			}
		})
	}
	noters.Wait()
	cancel()
	writer.Wait()
	if err := ix.close(); err != nil {
		t.Fatal(err)
	}
	ix = testIndex(t, dir)
	for n := range logs {
		if m, ok := ix.meta(testPartition(n)); !ok || m.HighWatermark != rounds-1 {
			t.Fatalf("log %d: %+v %v after reopening", n, m, ok)
		}
	}
}

// TestUpdateNowIsDurable looks into the file behind the index's back.
func TestUpdateNowIsDurable(t *testing.T) {
	dir := t.TempDir()
	ix := testIndex(t, dir)
	id := testPartition(1)
	ix.addOffsets(id, []indexEntry{{Offset: 5, Position: 50}})
	if err := ix.updateNow(id, func(m *logMeta) { m.Epochs = append(m.Epochs, EpochEntry{3, 5}) }); err != nil {
		t.Fatal(err)
	}
	err := ix.db.View(func(tx *bbolt.Tx) error {
		key := appendLogKey(nil, id)
		if m, err := parseMeta(key, tx.Bucket(bucketMeta).Get(key)); err != nil || len(m.Epochs) != 1 {
			return fmt.Errorf("meta is %+v, %w", m, err)
		}
		key = appendOffsetKey(nil, id, 5)
		_, err := parseOffsetEntry(key, tx.Bucket(bucketOffset).Get(key))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(ix.dirty.logs) != 0 || ix.inWrite != nil {
		t.Fatal("memory is held for a log that is written")
	}
}

// TestIndexWithoutWorkWritesNothing: no transaction for nothing, nor for an update
// that changes nothing.
func TestIndexWithoutWorkWritesNothing(t *testing.T) {
	ix := testIndex(t, t.TempDir())
	id := testPartition(0)
	if err := ix.updateNow(id, func(m *logMeta) { m.HighWatermark = 7 }); err != nil {
		t.Fatal(err)
	}
	committed := func() (n int) {
		_ = ix.db.View(func(tx *bbolt.Tx) error { n = tx.ID(); return nil })
		return n
	}
	before := committed()
	for range 3 {
		if err := ix.flush(); err != nil {
			t.Fatal(err)
		}
		if err := ix.updateNow(id, func(m *logMeta) { m.HighWatermark = 7 }); err != nil {
			t.Fatal(err)
		}
	}
	if after := committed(); after != before {
		t.Fatalf("%d transactions for nothing", after-before)
	}
}

// TestS4_FailedIndexWriteIsFinal: nothing after a failed write succeeds, and the
// store says so to whoever runs it.
func TestS4_FailedIndexWriteIsFinal(t *testing.T) {
	s, err := Open(Options{Dir: t.TempDir(), Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background()) }()
	if err := s.index.(*index).db.Close(); err != nil { // as good as a broken disk
		t.Fatal(err)
	}
	failed := (*FailedError)(nil)
	for range 2 {
		if err := s.index.updateNow(testPartition(0), func(m *logMeta) { m.Start++ }); !errors.As(err, &failed) {
			t.Fatalf("got %v", err)
		}
	}
	if m, ok := s.index.meta(testPartition(0)); !ok || m.Start == 0 {
		t.Fatalf("what was noted is lost: %+v %v", m, ok)
	}
	if err := <-ended; !errors.As(err, &failed) {
		t.Fatalf("Run ended with %v", err)
	}
	<-s.Failed()
	if err := s.Failure(); !errors.As(err, &failed) {
		t.Fatalf("Failure is %v", err)
	}
	if err := s.admit(1); !errors.As(err, &failed) {
		t.Fatalf("produce is admitted: %v", err)
	}
	_ = s.Close()
	s, err = Open(Options{Dir: s.opts.Dir, Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	if s.CleanStart() {
		t.Fatal("a failed run counts as clean")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDropOfALargeLog takes several transactions; a log that is made again under
// the same id, as a rebuild does, starts from nothing at once.
func TestDropOfALargeLog(t *testing.T) {
	dir := t.TempDir()
	ix := testIndex(t, dir)
	large, other := testPartition(1), testPartition(2)
	for at := int64(0); at < 3*maxDeletesPerTx; at += 10_000 {
		var entries []indexEntry
		for i := range int64(10_000) {
			entries = append(entries, indexEntry{Offset: at + i, Position: i})
		}
		ix.addOffsets(large, entries)
		if err := ix.flush(); err != nil {
			t.Fatal(err)
		}
	}
	ix.addOffsets(other, []indexEntry{{Offset: 1, Position: 11}})
	if err := ix.updateNow(large, func(m *logMeta) { m.Start = 9 }); err != nil {
		t.Fatal(err)
	}
	if err := ix.drop(large); err != nil {
		t.Fatal(err)
	}
	ix.addOffsets(large, []indexEntry{{Offset: 70, Position: 7}})
	check := func() {
		t.Helper()
		if e, ok := ix.offsetFloor(large, 1<<40); !ok || e.Position != 7 {
			t.Fatalf("large log: %+v %v", e, ok)
		}
		if e, ok := ix.offsetFloor(large, 69); ok {
			t.Fatalf("large log: %+v", e)
		}
		if _, ok := ix.meta(large); ok {
			t.Fatal("the meta is still there")
		}
		if e, ok := ix.offsetFloor(other, 50); !ok || e.Position != 11 {
			t.Fatalf("other log: %+v %v", e, ok)
		}
	}
	check()
	if err := ix.flush(); err != nil {
		t.Fatal(err)
	}
	check()
	if err := ix.close(); err != nil {
		t.Fatal(err)
	}

	// Most of the file is free now: the next clean open makes it small.
	path := filepath.Join(dir, indexFileName)
	before, err := checkIndexFile(path)
	if err != nil || before.freePages < before.pages/2 {
		t.Fatalf("%+v, %v", before, err)
	}
	if err := compactIndex(dir); err != nil {
		t.Fatal(err)
	}
	after, err := checkIndexFile(path)
	if err != nil || after.pages >= before.pages/2 {
		t.Fatalf("%+v after %+v, %v", after, before, err)
	}
	ix = testIndex(t, dir)
	check()
}

// TestIndexThinsInsteadOfWaiting: with a writer that never comes, entries are
// given up but not the order of those that stay.
func TestIndexThinsInsteadOfWaiting(t *testing.T) {
	ix := testIndex(t, t.TempDir())
	id := testPartition(0)
	const chunk = 1000
	end := int64(0)
	for end < 3*maxNotedEntries {
		entries := make([]indexEntry, chunk)
		for i := range entries {
			entries[i] = indexEntry{Offset: end, Position: end}
			end++
		}
		ix.addOffsets(id, entries)
	}
	kept := ix.dirty.logs[id].offsets
	if len(kept) > maxNotedEntries || len(kept) < maxNotedEntries/4 || ix.dirty.entries != len(kept) {
		t.Fatalf("%d entries kept, %d counted", len(kept), ix.dirty.entries)
	}
	if kept[len(kept)-1].Offset != end-1 || !slices.IsSortedFunc(kept, func(a, b indexEntry) int { return int(a.Offset - b.Offset) }) {
		t.Fatal("the newest entry or the order is lost")
	}
}

// FuzzIndexValues gives the decoders arbitrary values, with a right checksum: no
// panic, no allocation beyond the input's size, and what decodes encodes to the same meaning.
func FuzzIndexValues(f *testing.F) {
	rng := rand.New(rand.NewPCG(9, 9))
	id := PartitionID{Topic: uuid.NewSHA1(uuid.NameSpaceOID, []byte("fuzz")), Partition: 1}
	for range 20 {
		m := randomMeta(rng)
		value := appendMeta(nil, appendLogKey(nil, id), &m)
		f.Add(int64(1), value[:len(value)-checksumSize])
	}
	f.Add(int64(900), []byte{100, 7})
	f.Add(int64(-1), []byte{})
	f.Fuzz(func(t *testing.T, at int64, payload []byte) {
		key := appendLogKey(nil, id)
		if m, err := parseMeta(key, seal(bucketMeta, key, slices.Clone(payload), 0)); err == nil {
			again, err := parseMeta(key, appendMeta(nil, key, &m))
			if err != nil || fmt.Sprint(again) != fmt.Sprint(m) {
				t.Fatalf("%+v became %+v, %v", m, again, err)
			}
		}
		key = appendOffsetKey(nil, id, at)
		if e, err := parseOffsetEntry(key, seal(bucketOffset, key, slices.Clone(payload), 0)); err == nil {
			if again, err := parseOffsetEntry(key, appendOffsetValue(nil, key, e)); err != nil || again != e {
				t.Fatalf("%+v became %+v, %v", e, again, err)
			}
			if e.Segment < 0 || e.Segment > e.Offset || e.Position < 0 {
				t.Fatalf("impossible entry %+v", e)
			}
		}
		key = appendTimeKey(nil, id, at)
		if e, err := parseTimeEntry(key, seal(bucketTime, key, slices.Clone(payload), 0)); err == nil {
			if again, err := parseTimeEntry(key, appendTimeValue(nil, key, e)); err != nil || again != e || e.MaxTimestamp != at {
				t.Fatalf("%+v became %+v, %v", e, again, err)
			}
		}
		_, _ = parseMeta(key, payload) // without the right checksum
		_, _ = parseGeneration(payload)
	})
}

func BenchmarkIndexLookups(b *testing.B) {
	ix := testIndex(b, b.TempDir())
	const logs, entries = 100, 2000
	for n := range logs {
		id := PartitionID{Topic: uuid.NewSHA1(uuid.NameSpaceOID, []byte{byte(n)})}
		var offsets []indexEntry
		var times []timeEntry
		for i := range int64(entries) {
			offsets = append(offsets, indexEntry{Offset: i * 100, Position: i * 4096})
			times = append(times, timeEntry{MaxTimestamp: i, Offset: i * 100})
		}
		ix.addOffsets(id, offsets)
		ix.addTimes(id, times)
		ix.update(id, func(m *logMeta) { m.Segments = make([]segmentMeta, 3) })
		if err := ix.flush(); err != nil {
			b.Fatal(err)
		}
	}
	ids := make([]PartitionID, logs)
	for n := range ids {
		ids[n] = PartitionID{Topic: uuid.NewSHA1(uuid.NameSpaceOID, []byte{byte(n)})}
	}
	b.Run("offset", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, ok := ix.offsetFloor(ids[i%logs], int64(i*7919%(entries*100))); !ok {
				b.Fatal("not found")
			}
		}
	})
	b.Run("time", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, ok := ix.timeFloor(ids[i%logs], int64(1+i*7919%entries)); !ok {
				b.Fatal("not found")
			}
		}
	})
	b.Run("meta", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, ok := ix.meta(ids[i%logs]); !ok {
				b.Fatal("not found")
			}
		}
	})
	b.Run("offset-parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				if _, ok := ix.offsetFloor(ids[i%logs], int64(i*7919%(entries*100))); !ok {
					b.Error("not found")
				}
			}
		})
	})
}

// TestIndexFileAfterLargeDeletes checks the file after each of many large changes:
// what the check relies on must hold for every file that bbolt writes.
func TestIndexFileAfterLargeDeletes(t *testing.T) {
	dir := memoryDir(t)
	ix := testIndex(t, dir)
	rng := rand.New(rand.NewPCG(3, 3))
	ends := map[PartitionID]int64{}
	for step := range 60 {
		id := testPartition(rng.IntN(4))
		switch rng.IntN(4) {
		case 0:
			ends[id] = rng.Int64N(ends[id] + 1)
			ix.truncate(id, ends[id])
		case 1:
			ix.deleteBelow(id, rng.Int64N(ends[id]+1))
		default:
			offsets, times := make([]indexEntry, 4000), make([]timeEntry, 4000)
			for i := range offsets {
				ends[id]++
				offsets[i] = indexEntry{Offset: ends[id], Position: ends[id]}
				times[i] = timeEntry{MaxTimestamp: ends[id] - 7, Offset: ends[id]}
			}
			ix.addOffsets(id, offsets)
			ix.addTimes(id, times)
			ix.update(id, func(m *logMeta) { m.Segments = make([]segmentMeta, rng.IntN(3000)) })
		}
		if err := ix.flush(); err != nil {
			t.Fatal(err)
		}
		if facts, err := checkIndexFile(filepath.Join(dir, indexFileName)); err != nil || len(facts.damaged) > 0 {
			t.Fatalf("step %d: %+v, %v", step, facts, err)
		}
	}
}
