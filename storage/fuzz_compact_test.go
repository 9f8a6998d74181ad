package storage

import (
	"bytes"
	"testing"
)

// FuzzRewrite: whatever a batch holds, making it anew without some of its records
// doesn't fall over, keeps its place, and leaves just the others.
func FuzzRewrite(f *testing.F) {
	for _, c := range []Compression{CompressionNone, CompressionGzip, CompressionZstd} {
		b := keyed(f, c, nil, 7, "a=1", "b", "c=", "a=2")
		f.Add([]byte(b), uint8(5), int64(9))
		f.Add([]byte(b[:len(b)-3]), uint8(1), int64(-1))
	}
	f.Add([]byte(newPlaceholder(4, 9, 2)), uint8(0), int64(0))
	f.Add([]byte(sealAll(f, CompressionNone, &Producer{ID: 3, Epoch: 1, BaseSequence: 9}, oddRecords())), uint8(0xaa), int64(1_700_000_000_000))
	f.Fuzz(func(t *testing.T, data []byte, drop uint8, horizon int64) {
		b, _, err := ParseBatch(data)
		if err != nil {
			// A fuzzer seldom meets a checksum: what is behind it must hold as well.
			if len(data) < BatchHeaderSize {
				return
			}
			b = Batch(bytes.Clone(data))
			b[offMagic] = batchMagic
			b.finish(b.RecordCount(), b.NextOffset())
			if b, _, err = ParseBatch(b); err != nil {
				return
			}
		}
		before := bytes.Clone(b)
		var want []Record
		i := 0
		var rw rewriter
		out, err := rw.rewrite(b, horizon, func(r *Record) fate {
			if i++; drop&(1<<(i%8)) != 0 {
				return dropRecord
			}
			want = append(want, Record{Offset: r.Offset, Timestamp: r.Timestamp, Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), Attributes: r.Attributes})
			return keepRecord
		})
		if !bytes.Equal(b, before) {
			t.Fatal("the batch was changed")
		}
		if err != nil {
			return
		}
		if out.batch == nil {
			if len(want) > 0 {
				t.Fatalf("%d records are gone", len(want))
			}
			out.batch = b.emptied()
		}
		got, rest, err := ParseBatch(out.batch)
		if err != nil || len(rest) > 0 {
			t.Fatalf("%d bytes left, %v", len(rest), err)
		}
		if got.BaseOffset() != b.BaseOffset() || got.NextOffset() != b.NextOffset() || got.LeaderEpoch() != b.LeaderEpoch() ||
			got.ProducerID() != b.ProducerID() || got.ProducerEpoch() != b.ProducerEpoch() || got.BaseSequence() != b.BaseSequence() {
			t.Fatalf("%x became %x", b[:BatchHeaderSize], got[:BatchHeaderSize])
		}
		it, err := got.Records()
		if err != nil {
			t.Fatal(err)
		}
		it.hasAppendTime = false
		var r Record
		for n := 0; ; n++ {
			if !it.Next(&r) {
				if n != len(want) || it.Err() != nil {
					t.Fatalf("%d records, want %d: %v", n, len(want), it.Err())
				}
				return
			}
			w := want[n]
			if r.Offset != w.Offset || r.Timestamp != w.Timestamp || !same(r.Key, w.Key) || !same(r.Value, w.Value) || r.Attributes != w.Attributes {
				t.Fatalf("record %d is %+v, want %+v", n, r, w)
			}
		}
	})
}

// FuzzSwapName: a name is taken for a swap only if it is written just so.
func FuzzSwapName(f *testing.F) {
	f.Add(swapName(0, 17))
	f.Add("00000000000000000000-00000000000000000000.swap")
	f.Add("00000000000000000000.log.cleaned")
	f.Add("-0000000000000000001-00000000000000000002.swap")
	f.Fuzz(func(t *testing.T, name string) {
		if base, next, ok := parseSwapName(name); ok && (swapName(base, next) != name || base < 0 || next <= base) {
			t.Errorf("%q is [%d, %d)", name, base, next)
		}
		if _, ok := parseSegmentName(name); ok && isCleanedName(name) {
			t.Errorf("%q is two things", name)
		}
	})
}
