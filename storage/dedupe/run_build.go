package dedupe

import (
	"encoding/binary"
	"hash/crc32"
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

func (w *runWriter) add(e *Entry) { w.encode(w.next(), e) }

// next is room for the next entry.
func (w *runWriter) next() []byte {
	if w.frame.Count > 0 && w.frame.Count%blockEntries == 0 {
		w.closeBlock()
	}
	w.frame.Count++
	n := len(w.blocks)
	w.blocks = w.blocks[:n+entrySize]
	return w.blocks[n:]
}

func (w *runWriter) encode(b []byte, e *Entry) {
	w.maxTime, w.maxOrdinal = max(w.maxTime, e.Time), max(w.maxOrdinal, e.Ordinal)
	copy(b[:16], e.ID[:])
	offset, time := uint64(e.Offset-w.frame.First), uint64(e.Time-w.frame.MinTime) // 6 bytes each
	binary.BigEndian.PutUint64(b[16:], offset<<16|time>>32)
	binary.BigEndian.PutUint32(b[24:], uint32(time))
	binary.BigEndian.PutUint32(b[ordinalAt:], uint32(e.Ordinal-w.frame.firstOrdinal))
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
		f.add((*ID)(blocks[placeOf(i):]))
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

// placeOf is where the i-th entry is in a run's blocks.
func placeOf(i int) int { return i*entrySize + i/blockEntries*4 }
