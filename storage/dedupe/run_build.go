package dedupe

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/bits"
	"slices"
)

// runWriter makes a run from entries that come in the order of their ids, the
// newest of an id first.
type runWriter struct {
	frame               Run // First, and the bases of what entries say: firstOrdinal, MinTime
	buf                 []byte
	blocks              []byte // of buf, behind room for header and filter of as many entries as may come
	maxTime, maxOrdinal int64  // of the entries
}

// newRunWriter takes a run's first offset, a time and an ordinal below which no entry has one, and
// the number of entries that will come at most.
func newRunWriter(first, minTime, minOrdinal int64, capacity int) *runWriter {
	front := runHeaderSize + filterSize(capacity) + 4
	buf := make([]byte, front+blocksSize(capacity))
	return &runWriter{
		frame:  Run{First: first, MinTime: minTime, firstOrdinal: minOrdinal},
		buf:    buf,
		blocks: buf[front:front],
	}
}

func (w *runWriter) add(e *Entry) {
	if w.frame.Count > 0 && w.frame.Count%blockEntries == 0 {
		w.closeBlock()
	}
	w.frame.Count++
	w.maxTime, w.maxOrdinal = max(w.maxTime, e.Time), max(w.maxOrdinal, e.Ordinal)
	n := len(w.blocks)
	w.blocks = w.blocks[:n+entrySize]
	b := w.blocks[n:]
	copy(b, e.ID[:])
	offset, time := uint64(e.Offset-w.frame.First), uint64(e.Time-w.frame.MinTime) // 6 bytes each
	binary.BigEndian.PutUint64(b[16:], offset<<16|time>>32)
	binary.BigEndian.PutUint32(b[24:], uint32(time))
	binary.BigEndian.PutUint32(b[28:], uint32(e.Ordinal-w.frame.firstOrdinal))
	binary.BigEndian.PutUint64(b[32:], e.Content)
}

func (w *runWriter) closeBlock() {
	at := len(w.blocks) - (w.frame.Count-1)%blockEntries*entrySize - entrySize
	w.blocks = binary.BigEndian.AppendUint32(w.blocks, crc32.Checksum(w.blocks[at:], castagnoli))
}

// finish gives the run's bytes; nil if there was no entry.
func (w *runWriter) finish(next int64) []byte {
	if w.frame.Count == 0 {
		return nil
	}
	w.closeBlock()
	end := runHeaderSize + filterSize(w.frame.Count)
	b := append(w.buf[:end+4], w.blocks...) // where they are, unless fewer have come
	f := filter(b[runHeaderSize:end])
	for i, blocks := 0, b[end+4:]; i < w.frame.Count; i++ {
		f.add((*ID)(blocks[i*entrySize+i/blockEntries*4:]))
	}
	h := append(b[:0], runVersion, 0, 0, 0)
	h = binary.BigEndian.AppendUint32(h, uint32(w.frame.Count))
	for _, v := range []int64{w.frame.First, next, w.frame.firstOrdinal, w.maxOrdinal + 1, w.frame.MinTime, w.maxTime} {
		h = binary.BigEndian.AppendUint64(h, uint64(v))
	}
	binary.BigEndian.AppendUint32(h, uint32(len(f)))
	binary.BigEndian.PutUint32(b[end:], crc32.Checksum(b[:end], castagnoli))
	return b
}

// buildRun makes a run of entries in any order. nil if there are none.
func buildRun(first, next int64, entries []Entry) []byte {
	if len(entries) == 0 {
		return nil
	}
	minTime, minOrdinal := int64(math.MaxInt64), int64(math.MaxInt64)
	for i := range entries {
		minTime, minOrdinal = min(minTime, entries[i].Time), min(minOrdinal, entries[i].Ordinal)
	}
	w := newRunWriter(first, minTime, minOrdinal, len(entries))
	for _, p := range inOrder(entries) {
		w.add(&entries[p.at])
	}
	return w.finish(next)
}

// ordered is an entry's place in a list.
type ordered struct {
	head uint64 // of the id
	at   int32
}

// inOrder gives the places of the entries in the order of byID. IDs are spread evenly:
// dealt out by their first bits they are nearly sorted, a few to a heap.
func inOrder(entries []Entry) []ordered {
	heaps := 1 << bits.Len(uint(len(entries)/4))
	shift := 64 - bits.Len(uint(heaps)) + 1
	ends := make([]int32, heaps+1) // of the heaps before; while they are dealt out, of each so far
	for i := range entries {
		ends[binary.BigEndian.Uint64(entries[i].ID[:])>>shift+1]++
	}
	for h := range heaps {
		ends[h+1] += ends[h]
	}
	out := make([]ordered, len(entries))
	for i := range entries {
		head := binary.BigEndian.Uint64(entries[i].ID[:])
		end := &ends[head>>shift]
		out[*end] = ordered{head, int32(i)}
		*end++
	}
	begin := int32(0)
	for h := range heaps {
		slices.SortFunc(out[begin:ends[h]], func(a, b ordered) int {
			switch {
			case a.head < b.head:
				return -1
			case a.head > b.head:
				return 1
			}
			return byID(&entries[a.at], &entries[b.at])
		})
		begin = ends[h]
	}
	return out
}

// byID orders entries by id, the newest of an id first.
func byID(a, b *Entry) int {
	if c := bytes.Compare(a.ID[:], b.ID[:]); c != 0 {
		return c
	}
	switch {
	case a.Ordinal > b.Ordinal:
		return -1
	case a.Ordinal < b.Ordinal:
		return 1
	}
	return 0
}
