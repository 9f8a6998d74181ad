package storage

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"flag"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// oddRecords are records that use every freedom of the format.
func oddRecords() []Record {
	return []Record{
		{Timestamp: 1_700_000_000_000, Key: []byte("key"), Value: []byte(`{"a":1}`), Attributes: FlagValueJSON | FlagValueOneLine},
		{Timestamp: 1_700_000_000_001, Key: nil, Value: []byte("no key")},
		{Timestamp: 1_699_999_999_000, Key: []byte{}, Value: []byte("empty key, older than the first")},
		{Timestamp: 0, Key: []byte("tombstone"), Value: nil},
		{Timestamp: 253_402_300_799_999, Key: []byte("empty value"), Value: []byte{}},
		{Timestamp: 5, Value: bytes.Repeat([]byte{0, 0xff}, 3000), Headers: []Header{
			{Key: []byte("h"), Value: []byte("v")}, {Key: []byte("h"), Value: []byte("again")},
			{Key: []byte("null"), Value: nil}, {Key: []byte{}, Value: []byte{}}}},
	}
}

func sealAll(t testing.TB, c Compression, p *Producer, records []Record) Batch {
	t.Helper()
	var b BatchBuilder
	for i := range records {
		b.Append(&records[i])
	}
	sealed, err := b.Seal(c, p)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// TestSegmentsDecodeWithFranzGo reads segment files with an independent reader.
func TestSegmentsDecodeWithFranzGo(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, dir)
	l := openTestLog(t, s, LogConfig{SegmentBytes: 700})
	var want []Record
	for i := range 12 {
		c := []Compression{CompressionNone, CompressionGzip, CompressionZstd}[i%3]
		var p *Producer
		if i%2 == 1 {
			p = &Producer{ID: 4711, Epoch: 3, BaseSequence: int32(i)}
		}
		records := oddRecords()[:1+i%6]
		mustAppend(t, l, sealAll(t, c, p, records))
		want = append(want, records...)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "partitions", testID.String(), "*"))
	if err != nil || len(files) < 3 {
		t.Fatalf("segments %v, %v", files, err)
	}
	n := 0
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for len(data) > 0 {
			var rb kmsg.RecordBatch
			size := 12 + int(uint32(data[8])<<24|uint32(data[9])<<16|uint32(data[10])<<8|uint32(data[11]))
			if err := rb.ReadFrom(data[:size]); err != nil {
				t.Fatal(err)
			}
			if got := int32(crc32.Checksum(data[21:size], crc32.MakeTable(crc32.Castagnoli))); got != rb.CRC {
				t.Fatalf("CRC of batch at offset %d: %x, header %x", rb.FirstOffset, got, rb.CRC)
			}
			if rb.Magic != 2 || rb.PartitionLeaderEpoch != 1 || rb.FirstOffset != int64(n) || rb.LastOffsetDelta != rb.NumRecords-1 {
				t.Fatalf("batch %+v, want offset %d", rb, n)
			}
			maxTimestamp := int64(math.MinInt64)
			for i, r := range kafkaRecords(t, &rb) {
				w := want[n]
				equal := rb.FirstTimestamp+r.TimestampDelta64 == w.Timestamp && r.OffsetDelta == int32(i) &&
					same(r.Key, w.Key) && same(r.Value, w.Value) && len(r.Headers) == len(w.Headers)
				for j := range w.Headers {
					equal = equal && r.Headers[j].Key == string(w.Headers[j].Key) && same(r.Headers[j].Value, w.Headers[j].Value)
				}
				if !equal {
					t.Fatalf("offset %d decodes to %+v, want %+v", n, r, w)
				}
				maxTimestamp = max(maxTimestamp, w.Timestamp)
				n++
			}
			if rb.MaxTimestamp != maxTimestamp {
				t.Fatalf("max timestamp %d, want %d", rb.MaxTimestamp, maxTimestamp)
			}
			data = data[size:]
		}
	}
	if n != len(want) {
		t.Fatalf("%d records, want %d", n, len(want))
	}
}

// same tells nil from empty.
func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func kafkaRecords(t *testing.T, rb *kmsg.RecordBatch) []kmsg.Record {
	t.Helper()
	body := rb.Records
	var err error
	switch rb.Attributes & 7 {
	case 1:
		var r *gzip.Reader
		if r, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, err = io.ReadAll(r)
		}
	case 4:
		var d *zstd.Decoder
		if d, err = zstd.NewReader(nil); err == nil {
			body, err = d.DecodeAll(body, nil)
			d.Close()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	records := make([]kmsg.Record, rb.NumRecords)
	for i := range records {
		if err := records[i].ReadFrom(body); err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
		body = body[len(records[i].AppendTo(nil)):]
	}
	if len(body) != 0 {
		t.Fatalf("%d bytes left", len(body))
	}
	return records
}

// TestParseBatchOfAnotherWriter decodes a batch that franz-go encoded.
func TestParseBatchOfAnotherWriter(t *testing.T) {
	rec := kmsg.Record{OffsetDelta: 0, TimestampDelta64: 7, Key: []byte("k"), Value: nil, Headers: []kmsg.Header{{Key: "h", Value: []byte("v")}}}
	rec.Length = int32(len(rec.AppendTo(nil)) - 1)
	rb := kmsg.RecordBatch{FirstOffset: 42, PartitionLeaderEpoch: 5, Magic: 2, FirstTimestamp: 1000, MaxTimestamp: 1007,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: 1, Records: rec.AppendTo(nil)}
	rb.Length = int32(49 + len(rb.Records))
	raw := rb.AppendTo(nil)
	rb.CRC = int32(crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	b, rest, err := ParseBatch(append(rb.AppendTo(nil), "rest"...))
	if err != nil || string(rest) != "rest" {
		t.Fatalf("%q %v", rest, err)
	}
	got := decodeAll(t, b)
	if len(got) != 1 || got[0].Offset != 42 || got[0].Timestamp != 1007 || string(got[0].Key) != "k" || got[0].Value != nil ||
		len(got[0].Headers) != 1 || string(got[0].Headers[0].Value) != "v" || b.LeaderEpoch() != 5 || b.ProducerID() != NoProducer {
		t.Fatalf("%+v", got)
	}
}

var updateGolden = flag.Bool("update", false, "write the golden files anew")

// TestGoldenSegment pins the format byte by byte: a change of it is a change for
// every data directory there is.
func TestGoldenSegment(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, dir, func(o *Options) { o.Now = func() time.Time { return time.UnixMilli(1_700_000_001_000) } })
	l := openTestLog(t, s, LogConfig{})
	records := oddRecords()[:5]
	mustAppend(t, l, sealAll(t, CompressionNone, nil, records))
	mustAppend(t, l, sealAll(t, CompressionNone, &Producer{ID: 9, Epoch: 1, BaseSequence: 5}, []Record{{Timestamp: 1_700_000_000_500, Value: []byte("x"),
		Headers: []Header{{Key: []byte("a"), Value: []byte("1")}, {Key: []byte("b")}}}}))
	l.Configure(LogConfig{LogAppendTime: true})
	mustAppend(t, l, sealAll(t, CompressionNone, nil, records[:1]))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "partitions", testID.String(), segmentName(0)))
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for rest := data; len(rest) > 0; rest = rest[min(32, len(rest)):] {
		lines.WriteString(hex.EncodeToString(rest[:min(32, len(rest))]) + "\n")
	}
	golden := filepath.Join("testdata", "segment.hex")
	if *updateGolden {
		if err := os.WriteFile(golden, []byte(lines.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if lines.String() != string(want) {
		t.Fatalf("the segment's bytes are\n%swant\n%s", lines.String(), want)
	}
	// And it reads back as what went in.
	got := decodeAll(t, data)
	if len(got) != 7 || got[6].Timestamp != 1_700_000_001_000 || got[5].Headers[1].Value != nil || got[3].Value != nil || got[2].Key == nil {
		t.Fatalf("%+v", got)
	}
}
