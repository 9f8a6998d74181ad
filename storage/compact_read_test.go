package storage

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"highwater/storage/vfs"
)

// TestReadersDuringCompactions: who reads from the begin while segments are replaced
// meets no error, no record twice and none out of order, and ends with just the last
// value of each key, none that was overwritten or deleted.
func TestReadersDuringCompactions(t *testing.T) {
	const appends, keys = 600, 20
	dir := t.TempDir()
	store := openTestStore(t, dir)
	t.Cleanup(func() { _ = store.Close() })
	cfg := compactConfig(2000)
	cfg.DeleteRetention = time.Hour // no reader here takes that long
	l := openTestLog(t, store, cfg)
	var done atomic.Bool
	var work sync.WaitGroup
	last := map[string]string{}
	work.Go(func() {
		defer done.Store(true)
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range appends {
			key := fmt.Sprintf("k%d", rng.IntN(keys))
			pair := fmt.Sprintf("%s=%d", key, i)
			last[key] = fmt.Sprint(i)
			if rng.IntN(4) == 0 {
				pair = key
				delete(last, key)
			}
			mustAppend(t, l, keyed(t, CompressionNone, nil, int64(i), pair))
		}
	})
	var compacted atomic.Int64
	work.Go(func() {
		for !done.Load() {
			res, err := l.Compact(context.Background(), CompactOptions{HighWatermark: l.DurableEnd(), AtOnce: true})
			if err != nil {
				t.Error(err)
				return
			}
			compacted.Add(res.Replaced)
		}
	})
	for range 3 {
		work.Go(func() {
			for whole := false; !whole; {
				whole = done.Load() // a whole walk after the last append
				if got := replay(t, l); whole && !sameMap(got, last) {
					t.Errorf("a reader ends with %v, want %v", got, last)
				}
			}
		})
	}
	work.Wait()
	if compacted.Load() == 0 {
		t.Error("nothing was compacted away")
	}
	if got := replay(t, l); !sameMap(got, last) {
		t.Errorf("a reader ends with %v, want %v", got, last)
	}
}

func sameMap(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

// replay reads the log from its start to its end and tells what a table made of it holds.
func replay(t testing.TB, l *Log) map[string]string {
	table, next := map[string]string{}, l.StartOffset()
	for next < l.DurableEnd() {
		res, err := l.Read(next, l.DurableEnd(), 500, nil)
		if err != nil {
			t.Errorf("read at %d: %v", next, err)
			return table
		}
		for data := res.Data; len(data) > 0; {
			b, rest, err := ParseBatch(data)
			if err != nil || b.BaseOffset() > next {
				t.Errorf("read at %d: %v, batch of [%d, %d)", next, err, b.BaseOffset(), b.NextOffset())
				return table
			}
			for _, r := range decodeAll(t, b) {
				switch {
				case r.Offset < next:
				case r.Value == nil:
					delete(table, string(r.Key))
				default:
					table[string(r.Key)] = string(r.Value)
				}
			}
			next, data = b.NextOffset(), rest
		}
	}
	return table
}

// TestCompactedSegmentsDecodeWithFranzGo: an independent reader takes batches with
// holes, with a delete horizon and without records, and all codecs.
func TestCompactedSegmentsDecodeWithFranzGo(t *testing.T) {
	s := newMemStore(t, compactConfig(1<<20))
	p := &Producer{ID: 7, Epoch: 1, BaseSequence: 40}
	for _, c := range []Compression{CompressionNone, CompressionGzip, CompressionZstd} {
		mustAppend(t, s.log, keyed(t, c, nil, 1_000, "a=1", "b=1", "c"+c.String()+"=1", "gone"+c.String()))
		mustAppend(t, s.log, keyed(t, c, p, 2_000, "a=2", "b=2"))
	}
	if err := s.log.BeginEpoch(4); err != nil {
		t.Fatal(err)
	}
	st, err := s.log.Stage([]Batch{keyed(t, CompressionNone, nil, 3_000, "a=3", "b=3")}, 4)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.log.Sync(st); err != nil {
		t.Fatal(err)
	}
	compactNow(t, s.log)
	var got []string
	next, empty := int64(0), 0
	for _, g := range s.log.segments {
		for data := s.fs.Content(s.path(g.base)); len(data) > 0; {
			size := 12 + int(uint32(data[8])<<24|uint32(data[9])<<16|uint32(data[10])<<8|uint32(data[11]))
			var rb kmsg.RecordBatch
			if err := rb.ReadFrom(data[:size]); err != nil {
				t.Fatal(err)
			}
			if sum := int32(crc32.Checksum(data[21:size], crc32.MakeTable(crc32.Castagnoli))); sum != rb.CRC || rb.FirstOffset != next {
				t.Fatalf("batch at %d: CRC %x, header %x; want offset %d", rb.FirstOffset, sum, rb.CRC, next)
			}
			next, data = rb.FirstOffset+int64(rb.LastOffsetDelta)+1, data[size:]
			if rb.NumRecords == 0 {
				empty++
				if rb.ProducerID == 7 && (rb.FirstSequence != 40 || rb.LastOffsetDelta != 1) {
					t.Errorf("the producer's last batch: %+v", rb)
				}
				continue
			}
			for _, r := range kafkaRecords(t, &rb) {
				got = append(got, fmt.Sprintf("%d %s=%s @%d", rb.FirstOffset+int64(r.OffsetDelta), r.Key, r.Value, rb.FirstTimestamp+r.TimestampDelta64))
			}
		}
	}
	want := "2 cnone=1 @1000|3 gonenone= @1000|8 cgzip=1 @1000|9 gonegzip= @1000|14 czstd=1 @1000|15 gonezstd= @1000|18 a=3 @3000|19 b=3 @3000"
	if strings.Join(got, "|") != want || next != 20 || empty != 1 {
		t.Errorf("%d offsets, %d batches without records: %q", next, empty, got)
	}
	checkBatches(t, s.log)
}

// TestFollowersOfCompactedLogs: a follower from scratch, one that stops in the middle
// of what is a single batch at the leader by now, and one that has compacted its own
// log differently end with what the leader holds, in the same leader epochs (R17, V26).
func TestFollowersOfCompactedLogs(t *testing.T) {
	leader := newMemStore(t, compactConfig(600))
	stages := func(epoch int32, from, to int) {
		t.Helper()
		if err := leader.log.BeginEpoch(epoch); err != nil {
			t.Fatal(err)
		}
		for i := from; i < to; i++ {
			st, err := leader.log.Stage([]Batch{keyed(t, CompressionNone, nil, int64(i), fmt.Sprintf("k%d=%d", i%3, i))}, epoch)
			if err == nil {
				err = leader.log.Sync(st)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	stages(1, 0, 20)
	early := newMemStore(t, compactConfig(600))
	mustReplicate(t, early.log, bytes.Clone(rawLog(t, leader.log)), 1)
	stages(3, 20, 31)
	halfway := newMemStore(t, compactConfig(400))
	mustReplicate(t, halfway.log, bytes.Clone(rawLog(t, leader.log)), 3)
	compactNow(t, halfway.log)
	stages(4, 31, 40)
	compactNow(t, leader.log)
	scratch := newMemStore(t, compactConfig(600))
	for name, f := range map[string]*memStore{"early": early, "halfway": halfway, "scratch": scratch} {
		for f.log.WrittenEnd() < leader.log.WrittenEnd() {
			res, err := leader.log.Read(f.log.WrittenEnd(), leader.log.WrittenEnd(), 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			mustReplicate(t, f.log, bytes.Clone(res.Data), 4)
		}
		checkBatches(t, f.log)
		if got, want := fmt.Sprint(f.log.Epochs()), fmt.Sprint(leader.log.Epochs()); got != want {
			t.Errorf("%s: epochs %s, the leader's are %s", name, got, want)
		}
		compactNow(t, f.log)
		wantContents(t, f.log, contents(t, leader.log)...)
		f.kill()
		f.loseIndex()
		f.open()
		if got, want := fmt.Sprint(f.log.Epochs()), fmt.Sprint(leader.log.Epochs()); got != want {
			t.Errorf("%s without its index: epochs %s, the leader's are %s", name, got, want)
		}
		wantContents(t, f.log, contents(t, leader.log)...)
	}
}

// TestFollowerRefusesWhatOverlaps: a batch that begins before the log's end is cut only
// if no record of it is left there (R17).
func TestFollowerRefusesWhatOverlaps(t *testing.T) {
	s := newMemStore(t, compactConfig(1<<20))
	mustAppend(t, s.log, keyed(t, CompressionNone, nil, 1, "a=1", "b=1"))
	b := keyed(t, CompressionNone, nil, 1, "a=1", "b=1", "c=1")
	var rw rewriter
	out, err := rw.rewrite(b, 0, func(r *Record) fate {
		if r.Offset == 1 {
			return dropRecord
		}
		return keepRecord
	})
	if err != nil {
		t.Fatal(err)
	}
	out.batch.stamp(0, 1)
	if _, err := s.log.StageReplica(out.batch, 1); err == nil {
		t.Fatal("records [0, 3) were taken at 2")
	}
	mustReplicate(t, s.log, newPlaceholder(0, 5, 1), 1)
	wantContents(t, s.log, "0 a=1", "1 b=1")
	if end := s.log.WrittenEnd(); end != 5 {
		t.Errorf("log end %d", end)
	}
}

// TestKeyOffsets against a map, with keys that differ little.
func TestKeyOffsets(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	m, want := newKeyOffsets(1<<20), map[string]int64{}
	for offset := range int64(20_000) {
		key := bytes.Repeat([]byte{byte(rng.IntN(3))}, rng.IntN(200))
		key = append(key, byte(rng.IntN(40)))
		m.put(key, offset)
		want[string(key)] = offset
	}
	if m.count != len(want) {
		t.Errorf("%d keys, want %d", m.count, len(want))
	}
	for key, offset := range want {
		if got := m.last([]byte(key)); got != offset {
			t.Fatalf("key %x: %d, want %d", key, got, offset)
		}
	}
	if got := m.last([]byte("nobody's")); got != -1 {
		t.Errorf("an unknown key is at %d", got)
	}
}

// TestF51_CrashAtEveryStepOfASwap: whatever of it reached the disk, the next start
// finds every key's last value, a log without a gap or damage, and goes on.
func TestF51_CrashAtEveryStepOfASwap(t *testing.T) {
	for seed := range uint64(12) {
		for mode := range vfs.CrashModes {
			for at := 1; ; at++ {
				s := newMemStore(t, compactConfig(250))
				for i := range 9 {
					mustAppend(t, s.log, keyed(t, CompressionNone, nil, 1, fmt.Sprintf("k%d=%d", i%2, i), "x=1"))
				}
				must(t, s.ix.flush())
				s.cfg.SegmentBytes = 1 << 20 // all of them become one
				s.log.Configure(s.cfg)
				s.fs.Reseed(rand.New(rand.NewPCG(seed, 5)))
				s.fs.CrashAt(at)
				_, err := s.log.Compact(context.Background(), CompactOptions{HighWatermark: s.log.WrittenEnd()})
				done := !s.fs.Crashed()
				if done && err != nil {
					t.Fatal(err)
				}
				s.crash(mode)
				if damage := s.log.Damage(); len(damage) > 0 {
					t.Fatalf("seed %d, mode %d, crash at operation %d: damage %v", seed, mode, at, damage)
				}
				checkBatches(t, s.log)
				compactNow(t, s.log)
				wantContents(t, s.log, "14 k1=7", "16 k0=8", "17 x=1")
				if done {
					break
				}
			}
		}
	}
}
