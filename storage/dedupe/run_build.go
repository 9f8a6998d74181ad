package dedupe

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
)

// runWriter makes a run from entries that come in the order of their ids, the
// newest of an id first.
type runWriter struct {
	frame               Run // First, and the bases of what entries say: firstOrdinal, MinTime
	blocks              []byte
	maxTime, maxOrdinal int64 // of the entries
}

// newRunWriter takes a run's first offset, a time and an ordinal below which no entry has one, and
// the number of entries that will come at most.
func newRunWriter(first, minTime, minOrdinal int64, capacity int) *runWriter {
	return &runWriter{
		frame:  Run{First: first, MinTime: minTime, firstOrdinal: minOrdinal},
		blocks: make([]byte, 0, blocksSize(capacity)),
	}
}

func (w *runWriter) add(e Entry) {
	if w.frame.Count > 0 && w.frame.Count%blockEntries == 0 {
		w.closeBlock()
	}
	w.frame.Count++
	w.maxTime, w.maxOrdinal = max(w.maxTime, e.Time), max(w.maxOrdinal, e.Ordinal)
	b := append(w.blocks, e.ID[:]...)
	b = appendUint48(b, e.Offset-w.frame.First)
	b = appendUint48(b, e.Time-w.frame.MinTime)
	b = binary.BigEndian.AppendUint32(b, uint32(e.Ordinal-w.frame.firstOrdinal))
	w.blocks = binary.BigEndian.AppendUint64(b, e.Content)
}

func appendUint48(b []byte, v int64) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(v>>32))
	return binary.BigEndian.AppendUint32(b, uint32(v))
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
	f := newFilter(w.frame.Count)
	for at, i := 0, 0; i < w.frame.Count; i++ {
		if i > 0 && i%blockEntries == 0 {
			at += 4
		}
		f.add((*ID)(w.blocks[at:]))
		at += entrySize
	}
	b := make([]byte, 0, runHeaderSize+len(f)+4+len(w.blocks))
	b = append(b, runVersion, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(w.frame.Count))
	for _, v := range []int64{w.frame.First, next, w.frame.firstOrdinal, w.maxOrdinal + 1, w.frame.MinTime, w.maxTime} {
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(f)))
	b = append(b, f...)
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return append(b, w.blocks...)
}

// buildRun makes a run of entries in any order; it sorts them. nil if there are none.
func buildRun(first, next int64, entries []Entry) []byte {
	if len(entries) == 0 {
		return nil
	}
	// Sorted are their places: to move entries around takes most of the time.
	type place struct {
		head uint64 // of the id
		at   int32
	}
	places := make([]place, len(entries))
	minTime, minOrdinal := int64(math.MaxInt64), int64(math.MaxInt64)
	for i := range entries {
		e := &entries[i]
		minTime, minOrdinal = min(minTime, e.Time), min(minOrdinal, e.Ordinal)
		places[i] = place{binary.BigEndian.Uint64(e.ID[:]), int32(i)}
	}
	slices.SortFunc(places, func(a, b place) int {
		switch {
		case a.head < b.head:
			return -1
		case a.head > b.head:
			return 1
		}
		return byID(entries[a.at], entries[b.at])
	})
	w := newRunWriter(first, minTime, minOrdinal, len(entries))
	for _, p := range places {
		w.add(entries[p.at])
	}
	return w.finish(next)
}

// byID orders entries by id, the newest of an id first.
func byID(a, b Entry) int {
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
