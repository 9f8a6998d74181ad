package storage

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// FuzzParseBatch feeds any bytes to the batch decoder: it must not panic, nor
// accept what doesn't survive being encoded again.
func FuzzParseBatch(f *testing.F) {
	for _, c := range []Compression{CompressionNone, CompressionGzip, CompressionZstd} {
		b := sealAll(f, c, &Producer{ID: 1, Epoch: 2, BaseSequence: 3}, oddRecords())
		f.Add([]byte(b), false)
		f.Add([]byte(b), true)
	}
	f.Add([]byte{}, true)
	f.Fuzz(func(t *testing.T, data []byte, fixCRC bool) {
		data = bytes.Clone(data)
		if size, err := batchSize(data); err == nil && size <= len(data) && fixCRC {
			b := Batch(data[:size]) // or the fuzzer never gets past the checksum
			putCRC(b)
		}
		b, rest, err := ParseBatch(data)
		if err != nil {
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) {
				t.Fatalf("%T", err)
			}
			return
		}
		if len(b)+len(rest) != len(data) || b.NextOffset() <= b.BaseOffset() {
			t.Fatalf("batch of %d bytes and rest of %d, offsets [%d, %d)", len(b), len(rest), b.BaseOffset(), b.NextOffset())
		}
		it, err := b.Records()
		if err != nil {
			return
		}
		var again BatchBuilder
		var r Record
		var offsets []int64
		for it.Next(&r) {
			if r.Offset < b.BaseOffset() || r.Offset > b.LastOffset() {
				t.Fatalf("record offset %d in a batch of [%d, %d)", r.Offset, b.BaseOffset(), b.NextOffset())
			}
			offsets = append(offsets, r.Offset)
			again.Append(&r)
		}
		if it.Err() != nil {
			return
		}
		if len(offsets) != int(b.RecordCount()) {
			t.Fatalf("%d records, header says %d", len(offsets), b.RecordCount())
		}
		sealed, err := again.Seal(CompressionNone, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(decodeAll(t, sealed)); n != len(offsets) {
			t.Fatalf("%d records after encoding them again, want %d", n, len(offsets))
		}
	})
}

func putCRC(b Batch) {
	crc := b.computeCRC()
	b[offCRC], b[offCRC+1], b[offCRC+2], b[offCRC+3] = byte(crc>>24), byte(crc>>16), byte(crc>>8), byte(crc)
}

// FuzzRecovery puts any bytes behind batches that were flushed, or in the place
// of a whole segment: opening must not panic, must keep every flushed batch, and
// must give a log that can be appended to and opened again.
func FuzzRecovery(f *testing.F) {
	valid := sealAll(f, CompressionNone, nil, oddRecords()[:3])
	valid.stamp(4, 1)
	f.Add([]byte{}, uint8(2), true)
	f.Add([]byte(valid), uint8(2), true)
	f.Add([]byte(valid[:70]), uint8(2), false)
	f.Add(append(bytes.Repeat([]byte{0}, 600), valid...), uint8(2), true)
	f.Add(append(bytes.Repeat([]byte{2}, 300), valid...), uint8(0), false)
	f.Fuzz(func(t *testing.T, tail []byte, flushed uint8, keepIndex bool) {
		if len(tail) > 1<<20 {
			return
		}
		n := int64(flushed % 8)
		fs := newMemFS(1)
		s := &memStore{t: t, fs: fs, ix: newMemIndex(fs)}
		s.open()
		for s.log.WrittenEnd() < 2*n {
			s.batches(1, 2)
		}
		s.log.checkpoint()
		s.kill()
		s.edit(0, func(d []byte) []byte { return append(d, tail...) })
		if !keepIndex {
			s.loseIndex()
		}
		end := int64(0)
		for range 2 {
			d := newDisk(s.fs, "/d", s.ix, Options{Fsync: FsyncCommit, Now: time.Now, Logger: zerolog.Nop()})
			l, err := openLog(d, testID, LogConfig{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			s.log = l
			if l.WrittenEnd() < 2*n || l.WrittenEnd() < end {
				t.Fatalf("log ends at %d, flushed were %d, before it was %d", l.WrittenEnd(), 2*n, end)
			}
			end = l.WrittenEnd()
			for o := int64(0); o < 2*n; o += 2 {
				res, err := l.Read(o, 2*n, 1, nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := decodeAll(t, res.Data); len(got) != 2 || number(t, got[0]) != int(o) {
					t.Fatalf("offset %d is lost", o)
				}
			}
			if end > maxInt64/2 {
				return // the input made offsets that leave no room
			}
			if _, _, err := l.OffsetForTimestamp(1, end); err != nil {
				var corrupt *CorruptError
				if !errors.As(err, &corrupt) {
					t.Fatal(err)
				}
			}
			st := mustAppend(t, l, sealAll(t, CompressionNone, nil, oddRecords()[:1]))
			if res, err := l.Read(st.BaseOffset, st.EndOffset, 1, nil); err != nil || len(decodeAll(t, res.Data)) != 1 {
				t.Fatalf("read of what was just appended: %v", err)
			}
			end = st.EndOffset
			l.checkpoint()
			s.kill()
		}
	})
}
