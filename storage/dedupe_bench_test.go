package storage

import (
	"encoding/binary"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
)

// BenchmarkIDs is what a log does with batches of 100 records of 100 bytes, built as a
// gate builds them: without ids, with them, and with a full window of them.
func BenchmarkIDs(b *testing.B) {
	for _, c := range []struct {
		name   string
		ids    bool
		before int
	}{{"without", false, 0}, {"with", true, 0}, {"with a million before", true, 1_000_000}} {
		b.Run(c.name, func(b *testing.B) { benchmarkIDs(b, c.ids, c.before) })
	}
}

func benchmarkIDs(b *testing.B, ids bool, before int) {
	s, err := Open(Options{Dir: b.TempDir(), Fsync: FsyncNever, Logger: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	l, err := s.OpenLog(PartitionID{Topic: uuid.UUID{3}}, LogConfig{SegmentBytes: 128 << 20, RetentionBytes: -1, RetentionAge: -1, DedupeAge: time.Hour}, func() {})
	if err != nil {
		b.Fatal(err)
	}
	n := uint64(0)
	value := make([]byte, 100)
	append100 := func(ids bool) {
		builder := NewBatchBuilder(make([]byte, 0, 20_000))
		builder.AppendTime, builder.KeepFacts = time.Now().UnixMilli(), true
		var id [16]byte
		rec := Record{Timestamp: builder.AppendTime, Value: value}
		if ids {
			rec.Headers = []Header{{[]byte(MessageIDHeader), id[:]}}
		}
		for range 100 {
			n++
			binary.BigEndian.PutUint64(id[:], n*0x9e3779b97f4a7c15)
			binary.BigEndian.PutUint64(value, n)
			builder.Append(&rec)
		}
		batch, err := builder.Seal(CompressionNone, nil)
		if err != nil {
			b.Fatal(err)
		}
		for {
			o, err := NewOffer([]Batch{batch}, []*Facts{builder.Facts()})
			if err == nil {
				err = l.Prepare(o)
			}
			if err != nil {
				b.Fatal(err)
			}
			staged, _, err := l.StageOffer(-1, o, 1)
			if err == ErrStale {
				continue
			}
			if err == nil {
				err = l.Write(staged)
			}
			if err != nil {
				b.Fatal(err)
			}
			break
		}
		l.CheckpointHighWatermark(l.WrittenEnd())
	}
	for range before / 100 {
		append100(true)
	}
	b.ResetTimer()
	used := processorTime(b)
	for range b.N {
		append100(ids)
	}
	b.ReportMetric(float64(processorTime(b)-used)/float64(b.N*100), "cpu-ns/record") // of all goroutines: tells more on a busy machine
}

// processorTime is what the process has used of processors, in ns.
func processorTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
