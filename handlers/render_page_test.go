package handlers

import (
	"fmt"
	"strings"
	"testing"

	"highwater/storage"
)

// sealed makes a batch of n records with values of size bytes at offset base.
func sealed(t testing.TB, c storage.Compression, base int64, n, size int) []byte {
	t.Helper()
	b := storage.NewBatchBuilder(nil)
	for i := range n {
		b.Append(&storage.Record{Timestamp: int64(i / 1000), Value: []byte(`"` + strings.Repeat("x", size-2) + `"`), Attributes: storage.FlagValueJSON | storage.FlagValueOneLine})
	}
	batch, err := b.Seal(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		batch[7-i] = byte(base >> (8 * i)) // base offset, which the CRC doesn't cover
	}
	return batch
}

// TestH46_PageFromEveryOffset: from every offset inside and at the ends of plain
// and compressed batches exactly the records from there on are given.
func TestH46_PageFromEveryOffset(t *testing.T) {
	var data []byte
	end := int64(0)
	for i, n := range []int{1, 7, 100, 1} {
		data = append(data, sealed(t, []storage.Compression{storage.CompressionNone, storage.CompressionGzip, storage.CompressionZstd}[i%3], end, n, 10)...)
		end += int64(n)
	}
	for offset := range end {
		p, next := newPage(data, offset, end), offset
		var rec storage.Record
		for {
			ok, err := p.take(&rec)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			if rec.Offset != next || p.next != next+1 {
				t.Fatalf("from %d: got record %d with next %d, want %d", offset, rec.Offset, p.next, next)
			}
			next++
		}
		if next != end || p.next != end {
			t.Fatalf("from %d: ended at %d (%d), want %d", offset, next, p.next, end)
		}
	}
}

// TestH37_BudgetOfAPage: the first record always passes, then the smaller bound
// ends the page, and the next page begins with the record that didn't fit.
func TestH37_BudgetOfAPage(t *testing.T) {
	data := append(sealed(t, storage.CompressionNone, 0, 3, 100), sealed(t, storage.CompressionNone, 3, 3, 100)...)
	for _, c := range []struct {
		offset         int64
		records, bytes int
		want           string
	}{
		{0, 10, 1, "0 next 1"},
		{2, 10, 1, "2 next 3"},
		{0, 10, 200, "0 1 next 2"},
		{0, 10, 299, "0 1 next 2"},
		{0, 4, 1 << 20, "0 1 2 3 next 4"},
		{1, 1 << 30, 1 << 20, "1 2 3 4 5 next 6"},
	} {
		p, b, rec := newPage(data, c.offset, 6), budget{records: c.records, bytes: c.bytes}, storage.Record{}
		out, err := renderPage(nil, &p, newRecordRenderer(nativeFormat(), "t", 0), &b, frameLines, maxRenderedBytes, nil, &rec)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for line := range strings.Lines(string(out)) {
			var offset int
			if _, err := fmt.Sscanf(line, `{"topic":"t","partition":0,"offset":%d,`, &offset); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&got, "%d ", offset)
		}
		fmt.Fprintf(&got, "next %d", p.next)
		if got.String() != c.want {
			t.Errorf("from %d, %d records, %d bytes: got %s, want %s", c.offset, c.records, c.bytes, got.String(), c.want)
		}
	}
}

func TestRenderAllocatesNothingPerRecord(t *testing.T) {
	data, rr := sealed(t, storage.CompressionNone, 0, 5000, 200), newRecordRenderer(nativeFormat(), "t", 0)
	buf, rec := make([]byte, 0, 4<<20), storage.Record{}
	got := testing.AllocsPerRun(10, func() {
		p, b := newPage(data, 0, 5000), budget{records: 1 << 30, bytes: 1 << 30}
		if out, err := renderPage(buf, &p, rr, &b, frameArray, maxRenderedBytes, nil, &rec); err != nil || b.taken != 5000 || len(out) == 0 {
			t.Fatal(b.taken, err)
		}
	})
	if got > 4 {
		t.Errorf("%v allocations for a page of 5000 records", got)
	}
}

func BenchmarkRenderPage(b *testing.B) {
	data, rr := sealed(b, storage.CompressionNone, 0, 5000, 200), newRecordRenderer(nativeFormat(), "t", 0)
	buf, rec := make([]byte, 0, 4<<20), storage.Record{}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		p, lim := newPage(data, 0, 5000), budget{records: 1 << 30, bytes: 1 << 30}
		if _, err := renderPage(buf, &p, rr, &lim, frameArray, maxRenderedBytes, nil, &rec); err != nil {
			b.Fatal(err)
		}
	}
}
