package storage

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"

	"highwater/storage/vfs"
)

// forged is a value that holds whole, valid batches with the offsets from next
// on, as if it were a piece of the log; a client can send such bytes.
func forged(t testing.TB, next int64, n int) []byte {
	var out []byte
	for i := range n {
		b := makeBatch(t, CompressionNone, 0, 1, 10, steady)
		b.stamp(next+int64(i), 0)
		out = append(out, b...)
	}
	return out
}

// mustAppendValue appends one record.
func mustAppendValue(t testing.TB, l *Log, value []byte) {
	var b BatchBuilder
	b.Append(&Record{Value: value, Timestamp: steady(0)})
	batch, err := b.Seal(CompressionNone, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, batch)
}

// wantNoForgery reads all that can be read: nothing may come out but records of
// the batches that were appended.
func wantNoForgery(t testing.TB, l *Log, appended [][]byte) {
	t.Helper()
	for o := l.StartOffset(); o < l.WrittenEnd(); o++ {
		res, err := l.Read(o, l.WrittenEnd(), 1, nil)
		if err != nil {
			continue
		}
		for _, r := range decodeAll(t, res.Data) {
			if r.Offset >= int64(len(appended)) || !bytes.Equal(r.Value, appended[r.Offset]) {
				t.Fatalf("offset %d gives a record that was never appended, or not there", r.Offset)
			}
		}
	}
}

func TestS6_BatchesInsideAValueAreNoPartOfTheLog(t *testing.T) {
	const flushed = 3
	for _, loseIndex := range []bool{false, true} {
		for _, second := range []bool{false, true} {
			s := newMemStore(t, LogConfig{})
			var values [][]byte
			add := func(v []byte) { values = append(values, v); mustAppendValue(t, s.log, v) }
			for i := range flushed {
				add(fmt.Appendf(nil, "plain %d", i))
			}
			outer := len(s.fs.Content(s.path(0)))
			add(forged(t, flushed, 5))
			if second {
				add(forged(t, flushed+1, 5))
			}
			whole := len(s.fs.Content(s.path(0)))
			s.kill()
			if loseIndex {
				s.loseIndex()
			}
			data := s.fs.Content(s.path(0))

			for cut := outer + 1; cut < whole; cut += 7 {
				s.edit(0, func([]byte) []byte { return data[:cut] })
				s.open()
				wantNoForgery(t, s.log, values)
				if end := s.log.WrittenEnd(); end > int64(len(values))-1 {
					t.Fatalf("cut at %d of %d: the log ends at %d", cut, whole, end)
				}
				s.kill()
				s.loseIndex()
			}
			for at := outer + BatchHeaderSize; at < whole; at += 13 {
				s.edit(0, func([]byte) []byte {
					bad := slices.Clone(data)
					bad[at] ^= 0x10
					return bad
				})
				s.open()
				wantNoForgery(t, s.log, values)
				s.kill()
				s.loseIndex()
			}
			// Damage to both of two neighbours.
			s.edit(0, func([]byte) []byte {
				bad := slices.Clone(data)
				bad[outer+BatchHeaderSize+1] ^= 0x10
				bad[whole-1] ^= 0x10
				return bad
			})
			s.open()
			wantNoForgery(t, s.log, values)
		}
	}
}

// A search that reads its window again for every byte that could begin a batch
// takes minutes for a value of such bytes.
func TestS6_AStartAfterATornWriteReadsLittle(t *testing.T) {
	const size = 1 << 20
	s := newMemStore(t, LogConfig{})
	mustAppendValue(t, s.log, bytes.Repeat([]byte{batchMagic}, size))
	s.kill()
	s.edit(0, func(data []byte) []byte { return data[:size] })
	f, err := s.fs.Open(s.path(0), os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	counted := &countingFile{File: f}
	sc := scanner{file: counted, size: size}
	if bad, _ := sc.scan(0, 0, maxInt64, func(Batch, int64) {}); len(bad) != 1 || bad[0].to >= 0 {
		t.Fatalf("bad stretches: %+v", bad)
	}
	if most := int64(8 * size); counted.read > most {
		t.Errorf("a torn batch of %d bytes made recovery read %d", size, counted.read)
	}
}

// countingFile counts what is read.
type countingFile struct {
	vfs.File
	read int64
}

func (f *countingFile) ReadAt(p []byte, off int64) (int, error) {
	f.read += int64(len(p))
	return f.File.ReadAt(p, off)
}
