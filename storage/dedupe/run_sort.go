package dedupe

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// bucketEntries is about how many entries are put in order at once: so few that the processor's
// cache holds them.
const bucketEntries = 4096

// buildRun makes a run of n entries in any order. nil if there are none.
//
// IDs are spread evenly. So the entries are dealt out by their first bits to where they
// will be, but for their order within a bucket, which comes then.
func buildRun(first, next int64, n int, at func(int, *Entry)) []byte {
	if n == 0 {
		return nil
	}
	var e Entry
	depth := bits.Len(uint(n / bucketEntries)) // bits of the id that tell the bucket
	ends := make([]int, 1<<depth+1)            // of the buckets before; while they are dealt out, of each so far
	minTime, minOrdinal := int64(math.MaxInt64), int64(math.MaxInt64)
	for i := range n {
		at(i, &e)
		minTime, minOrdinal = min(minTime, e.Time), min(minOrdinal, e.Ordinal)
		ends[e.ID.head()>>(64-depth)+1]++
	}
	for i := range 1 << depth {
		ends[i+1] += ends[i]
	}
	w := newRunWriter(first, minTime, minOrdinal, n)
	room := w.blocks[:blocksSize(n)]
	for i := range n {
		at(i, &e)
		end := &ends[e.ID.head()>>(64-depth)]
		w.encode(room[placeOf(*end):], &e)
		*end++
	}
	b, begin := bucket{depth: depth}, 0
	for i := range 1 << depth {
		b.take(room, begin, ends[i])
		for _, o := range b.inOrder() {
			copy(w.next(), b.entry(o.at))
		}
		begin = ends[i]
	}
	return w.finish(next)
}

// buildOf is buildRun of a list.
func buildOf(first, next int64, entries []Entry) []byte {
	return buildRun(first, next, len(entries), func(i int, e *Entry) { *e = entries[i] })
}

// bucket has encoded entries that are to be put in order, those of one bucket after the other.
type bucket struct {
	depth   int // the first bits of their ids are the same
	entries []byte
	order   []ordered
	ends    []int32
}

// ordered is an entry's place in a bucket.
type ordered struct {
	head uint64 // of the id
	at   int32
}

// take copies entries out of a run's blocks.
func (b *bucket) take(blocks []byte, from, to int) {
	b.entries = b.entries[:0]
	for i := from; i < to; i++ {
		b.entries = append(b.entries, blocks[placeOf(i):placeOf(i)+entrySize]...)
	}
}

func (b *bucket) entry(i int32) []byte { return b.entries[i*entrySize : (i+1)*entrySize] }

func (b *bucket) head(i int) uint64 { return binary.BigEndian.Uint64(b.entries[i*entrySize:]) }

// inOrder gives the places of the entries in the order of their ids. Dealt out by their next bits
// they are nearly sorted, a few to a heap.
func (b *bucket) inOrder() []ordered {
	n := len(b.entries) / entrySize
	heaps := 1 << bits.Len(uint(n/4))
	shift := 64 - bits.Len(uint(heaps)) + 1
	b.ends = append(b.ends[:0], make([]int32, heaps+1)...) // as in buildRun
	b.order = slices.Grow(b.order[:0], n)[:n]
	for i := range n {
		b.ends[b.head(i)<<b.depth>>shift+1]++
	}
	for h := range heaps {
		b.ends[h+1] += b.ends[h]
	}
	for i := range n {
		head := b.head(i)
		end := &b.ends[head<<b.depth>>shift]
		b.order[*end] = ordered{head, int32(i)}
		*end++
	}
	begin := int32(0)
	for h := range heaps {
		if end := b.ends[h]; end-begin > 1 {
			slices.SortFunc(b.order[begin:end], b.compare)
		}
		begin = b.ends[h]
	}
	return b.order
}

// compare orders entries by id, the newest of an id first.
func (b *bucket) compare(x, y ordered) int {
	switch {
	case x.head < y.head:
		return -1
	case x.head > y.head:
		return 1
	}
	ex, ey := b.entry(x.at), b.entry(y.at)
	if c := bytes.Compare(ex[:16], ey[:16]); c != 0 {
		return c
	}
	return bytes.Compare(ey[ordinalAt:ordinalAt+4], ex[ordinalAt:ordinalAt+4])
}
