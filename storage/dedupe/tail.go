package dedupe

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"sort"
)

// chunkEntries is the number of entries in a chunk of the tail: 48 KB.
const chunkEntries = 1 << 10

// tail holds the newest entries in offset order, and finds the newest of an id.
// It costs 48 bytes an entry and 11 to 21 for the table. Entries come at the end and go there, or
// all of the oldest at once; that is what keeps the table simple.
type tail struct {
	list  tailList
	first int64 // the ordinal of the first entry
	// slots is a hash table with linear probing: of an id's newest entry 1 + the index, and
	// above it 32 bits of the id, its tag, so that hardly any other entry is looked at. 0: free. Its
	// length is a power of two. An id's place follows from the tag's first bits, so that another
	// table is made of this one from its begin to its end, and no entry is looked at.
	slots []uint64
	shift uint8 // of a tag to its place
	used  int   // slots that are not free
	// linked is how many of the oldest entries are in the table. The others come there when somebody looks
	// for one: nobody does at a follower.
	linked int
}

// minSlots is the least length of a table. The largest is of 2^32, which no tail comes near.
const minSlots = 16

// tailList are entries in offset order, in chunks that never move once they are full. A copy of the
// struct, with chunks of its own, stays what it is while the original grows at the end.
type tailList struct {
	chunks [][]tailEntry
	skip   int // entries of the first chunk that aren't in the list any more
	n      int
}

type tailEntry struct {
	id           ID
	offset, time int64
	content      uint64
	prev         uint32 // 1 + the index of the entry before it of the same id; 0: none
}

func (e *tailEntry) entry(ordinal int64) Entry {
	return Entry{ID: e.id, Offset: e.offset, Time: e.time, Content: e.content, Ordinal: ordinal}
}

func (l *tailList) at(i int) *tailEntry {
	i += l.skip
	return &l.chunks[i/chunkEntries][i%chunkEntries]
}

func (l *tailList) last() *tailEntry { return l.at(l.n - 1) }

// grow adds an entry, which the caller fills in.
func (l *tailList) grow() *tailEntry {
	at := l.skip + l.n
	if at%chunkEntries == 0 {
		l.chunks = append(l.chunks, nil)
	}
	c := &l.chunks[at/chunkEntries]
	if len(*c) == cap(*c) {
		grown := 16 // few for a log that has few
		if at >= chunkEntries {
			grown = chunkEntries
		}
		*c = append(make([]tailEntry, 0, min(max(grown, 2*len(*c)), chunkEntries)), *c...)
	}
	l.n++
	*c = (*c)[:len(*c)+1]
	return &(*c)[len(*c)-1]
}

// pop removes the newest entry. unshare comes before the next push.
func (l *tailList) pop() {
	l.n--
	at := l.skip + l.n
	l.chunks = l.chunks[:at/chunkEntries+1]
	last := len(l.chunks) - 1
	if l.chunks[last] = l.chunks[last][:at%chunkEntries]; at%chunkEntries == 0 {
		l.chunks = l.chunks[:last]
	}
}

// unshare has what is pushed from now on leave alone what is in copies of the list.
func (l *tailList) unshare() {
	if n := len(l.chunks); n > 0 {
		l.chunks = slices.Clone(l.chunks)
		l.chunks[n-1] = slices.Clone(l.chunks[n-1])
	}
}

// drop removes the oldest n entries.
func (l *tailList) drop(n int) {
	if n == l.n {
		*l = tailList{}
		return
	}
	l.skip += n
	l.n -= n
	l.chunks = slices.Clone(l.chunks[l.skip/chunkEntries:])
	l.skip %= chunkEntries
}

// head is a copy of the oldest n entries.
func (l *tailList) head(n int) tailList {
	return tailList{chunks: slices.Clone(l.chunks[:(l.skip+n+chunkEntries-1)/chunkEntries]), skip: l.skip, n: n}
}

// below is the number of entries below the offset.
func (l *tailList) below(offset int64) int {
	return sort.Search(l.n, func(i int) bool { return l.at(i).offset >= offset })
}

// since is the number of entries whose time is below ms.
func (l *tailList) since(ms int64) int {
	return sort.Search(l.n, func(i int) bool { return l.at(i).time >= ms })
}

func (t *tail) entry(i int) Entry { return t.list.at(i).entry(t.first + int64(i)) }

// find gives the newest entry of the id.
func (t *tail) find(id *ID) (Entry, bool) {
	t.link()
	if len(t.slots) == 0 {
		return Entry{}, false
	}
	if i := uint32(t.slots[t.slot(id)]); i != 0 {
		return t.entry(int(i) - 1), true
	}
	return Entry{}, false
}

// findAll gives the newest entries of those of the ids that have one. Slots of new ids are free, or
// hold another one's: what waits for memory is asked for many at once.
func (t *tail) findAll(ids []ID) (list []Found) {
	t.link()
	if len(t.slots) == 0 {
		return nil
	}
	var slots [64]uint64
	for from := 0; from < len(ids); from += len(slots) {
		part := ids[from:min(from+len(slots), len(ids))]
		for i := range part {
			slots[i] = t.slots[part[i].tag()>>t.shift]
		}
		for i := range part {
			if slots[i] == 0 {
				continue
			}
			if e, ok := t.find(&part[i]); ok {
				list = append(list, Found{from + i, e})
			}
		}
	}
	return list
}

// slot is the id's slot, or the free one that it would get.
func (t *tail) slot(id *ID) int {
	mask, tag := len(t.slots)-1, id.tag()
	for s := int(tag >> t.shift); ; s = (s + 1) & mask {
		if in := t.slots[s]; in == 0 || uint32(in>>32) == tag && t.list.at(int(uint32(in))-1).id == *id {
			return s
		}
	}
}

func (id *ID) tag() uint32 { return binary.BigEndian.Uint32(id[8:]) }

func slotOf(id *ID, i int) uint64 { return uint64(id.tag())<<32 | uint64(i+1) }

// push adds an entry above all others.
func (t *tail) push(id *ID, offset, time int64, content uint64) {
	*t.list.grow() = tailEntry{id: *id, offset: offset, time: time, content: content}
}

// link brings into the table what isn't there yet.
func (t *tail) link() {
	if t.linked == t.list.n {
		return
	}
	if size := slotsFor(t.used + t.list.n - t.linked); size > len(t.slots) {
		t.resize(size, 0)
	}
	for ; t.linked < t.list.n; t.linked++ {
		e := t.list.at(t.linked)
		s := t.slot(&e.id)
		if e.prev = uint32(t.slots[s]); e.prev == 0 {
			t.used++
		}
		t.slots[s] = slotOf(&e.id, t.linked)
	}
}

// slotsFor is the length of a table for n ids: at least a quarter of it stays free.
func slotsFor(n int) int {
	size := minSlots
	for 3*size < 4*n {
		size *= 2
	}
	return size
}

// cut removes the entries at or above the offset, the newest first.
func (t *tail) cut(offset int64) (n int) {
	for ; t.list.n > 0 && t.list.last().offset >= offset; n++ {
		if t.linked == t.list.n {
			t.unlink(t.list.last())
		}
		t.list.pop()
	}
	if n > 0 {
		t.list.unshare()
	}
	return n
}

// unlink takes the newest entry out of the table.
func (t *tail) unlink(e *tailEntry) {
	s := t.slot(&e.id)
	if e.prev == 0 {
		t.free(s)
	} else {
		t.slots[s] = slotOf(&e.id, int(e.prev)-1)
	}
	t.linked--
}

// free empties a slot, and moves those behind it that are further from their place than need be: looking
// for them ends at a free one.
func (t *tail) free(s int) {
	mask := len(t.slots) - 1
	t.used--
	for next := (s + 1) & mask; t.slots[next] != 0; next = (next + 1) & mask {
		if place := t.place(t.slots[next]); (next-place)&mask >= (next-s)&mask {
			t.slots[s] = t.slots[next]
			s = next
		}
	}
	t.slots[s] = 0
}

// place is the first slot that may be the one of what is in a slot.
func (t *tail) place(in uint64) int { return int(uint32(in>>32) >> t.shift) }

// drop removes the oldest n entries.
func (t *tail) drop(n int) {
	if n == 0 {
		return
	}
	t.list.drop(n)
	t.first += int64(n)
	if t.linked = max(t.linked-n, 0); t.linked == 0 {
		t.slots, t.used = nil, 0
		return
	}
	for i := range t.linked {
		if e := t.list.at(i); e.prev != 0 {
			e.prev -= min(e.prev, uint32(n))
		}
	}
	t.resize(slotsFor(t.linked), n)
}

// resize makes a table of that length without the oldest n entries, which are gone.
func (t *tail) resize(size, n int) {
	old := t.slots
	t.slots, t.used = make([]uint64, size), 0
	t.shift = uint8(32 - bits.TrailingZeros(uint(size)))
	for _, in := range old {
		if uint32(in) <= uint32(n) {
			continue
		}
		s := t.place(in)
		for t.slots[s] != 0 {
			s = (s + 1) & (size - 1)
		}
		t.slots[s] = in - uint64(n)
		t.used++
	}
}
