package storage

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/google/uuid"
)

func benchLog(b *testing.B, mode Fsync) *Log {
	s := openTestStore(b, b.TempDir(), func(o *Options) { o.Fsync = mode })
	b.Cleanup(func() { must(b, s.Close()) })
	return openTestLog(b, s, LogConfig{SegmentBytes: 128 << 20})
}

// BenchmarkAppend appends batches of 100 records of 200 bytes, the caller waiting
// for the write, or for the fsync.
func BenchmarkAppend(b *testing.B) {
	sealed := makeBatch(b, CompressionNone, 0, 100, 170, steady)
	for _, c := range []struct {
		name string
		mode Fsync
		wait func(*Log, Staged) error
	}{
		{"written", FsyncNever, (*Log).Write},
		{"written, synced behind", FsyncCommit, func(l *Log, s Staged) error { err := l.Write(s); l.SyncSoon(); return err }},
		{"synced", FsyncCommit, (*Log).Sync},
	} {
		for _, callers := range []int{1, 16} {
			b.Run(c.name+map[int]string{1: "", 16: ", 16 callers"}[callers], func(b *testing.B) {
				l := benchLog(b, c.mode)
				b.SetBytes(int64(len(sealed)))
				b.ReportAllocs()
				b.SetParallelism(max(callers/runtime.GOMAXPROCS(0), 1))
				work := func() {
					batch := append(Batch(nil), sealed...)
					st, err := l.Stage([]Batch{batch}, 1)
					if err == nil {
						err = c.wait(l, st)
					}
					if err != nil {
						b.Error(err)
					}
				}
				if callers == 1 {
					for b.Loop() {
						work()
					}
					return
				}
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						work()
					}
				})
			})
		}
	}
}

// BenchmarkRead reads pages from a log of 1 GB in the page cache: one after the
// other, and at random offsets.
func BenchmarkRead(b *testing.B) {
	l := benchLog(b, FsyncNever)
	const batches = 45_000
	sealed := makeBatch(b, CompressionNone, 0, 100, 170, steady)
	for range batches {
		st, err := l.Stage([]Batch{append(Batch(nil), sealed...)}, 1)
		must(b, err)
		must(b, l.Write(st))
	}
	end := l.WrittenEnd()
	buf := make([]byte, 0, 2<<20)
	for _, page := range []int{1, 64 << 10, 1 << 20} {
		name := map[int]string{1: "one batch", 64 << 10: "64 KiB", 1 << 20: "1 MiB"}[page]
		run := func(b *testing.B, next func(offset int64, got []byte) int64) {
			b.ReportAllocs()
			n, offset := int64(0), int64(0)
			for b.Loop() {
				res, err := l.Read(offset, end, page, buf)
				if err != nil {
					b.Fatal(err)
				}
				n += int64(len(res.Data))
				offset = next(offset, res.Data)
			}
			b.SetBytes(n / int64(b.N))
		}
		b.Run("sequential, "+name, func(b *testing.B) {
			run(b, func(offset int64, got []byte) int64 {
				offset += int64(len(got)/len(sealed)) * 100
				if offset >= end {
					return 0
				}
				return offset
			})
		})
		b.Run("random, "+name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			run(b, func(int64, []byte) int64 { return rng.Int64N(end) })
		})
	}
}

// BenchmarkIdleLog tells the heap that an open log costs that nobody uses.
func BenchmarkIdleLog(b *testing.B) {
	s := openTestStore(b, b.TempDir(), func(o *Options) { o.Fsync = FsyncNever })
	defer func() { must(b, s.Close()) }()
	sealed := makeBatch(b, CompressionNone, 0, 10, 100, steady)
	before := heap()
	n := 0
	for b.Loop() {
		id := PartitionID{Topic: uuid.UUID{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, Partition: 0}
		l, err := s.OpenLog(id, LogConfig{SegmentBytes: 128 << 20}, func() {})
		must(b, err)
		for range 3 {
			st, err := l.Stage([]Batch{append(Batch(nil), sealed...)}, 1)
			must(b, err)
			must(b, l.Write(st))
		}
		n++
	}
	s.disk.files.closeIdle()
	b.ReportMetric(float64(heap()-before)/float64(n), "heap-B/log")
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}
