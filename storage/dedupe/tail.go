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
// It costs 48 bytes an entry and 12 to 24 for the table. Entries come at the end and go there, or
// all of the oldest at once; that is what keeps the table simple.
type tail struct {
	list  tailList
	first int64 // the ordinal of the first entry
	// slots is a hash table with linear probing: of an id's newest entry the ordinal, and
	// above it 32 bits of the id, its tag, so that hardly any other entry is looked at. 0: free. A slot is
	// stale when its entry is gone; sweep frees it. The table's length is a power of two. An id's place
	// follows from the tag's first bits, so that another table is made of this one from its begin to its
	// end, and no entry is looked at.
	slots []uint64
	shift uint8 // of a tag to its place
	used  int   // slots that are not free
	swept int   // the slot where sweep goes on
	// linked is how many of the oldest entries are in the table. The others come there when somebody looks
	// for one: nobody does at a follower.
	linked int
}

// sweptSlots is how many slots are swept for each entry that comes: a table of which half is in use is gone
// through before another fifth of it gets stale.
const sweptSlots = 5

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
	prev         uint32 // how far before it the entry before of the same id was; 0: there was none
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
	if in := t.slots[t.slot(id)]; in != 0 {
		return t.entry(int(t.index(in))), true
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
		in := t.slots[s]
		if in == 0 {
			return s
		}
		if uint32(in>>32) != tag {
			continue
		}
		if i := t.index(in); i < uint32(t.linked) && t.list.at(int(i)).id == *id {
			return s
		}
	}
}

// tag is never 0, so that no slot in use is.
func (id *ID) tag() uint32 { return binary.BigEndian.Uint32(id[8:]) | 1 }

func slotOf(id *ID, ordinal uint32) uint64 { return uint64(id.tag())<<32 | uint64(ordinal) }

// index is that of a slot's entry. It isn't below linked if the slot is stale; or, when ordinals have come
// round meanwhile, it is another id's.
func (t *tail) index(in uint64) uint32 { return uint32(in) - uint32(t.first) }

// place is the first slot that may be the one of what is in a slot.
func (t *tail) place(in uint64) int { return int(uint32(in>>32) >> t.shift) }

// push adds an entry above all others.
func (t *tail) push(id *ID, offset, time int64, content uint64) {
	*t.list.grow() = tailEntry{id: *id, offset: offset, time: time, content: content}
}

// link brings into the table what isn't there yet.
func (t *tail) link() {
	n := t.list.n - t.linked
	if n == 0 {
		return
	}
	if 4*(t.used+n) > 3*len(t.slots) {
		t.resize(slotsFor(t.list.n))
	}
	for ; t.linked < t.list.n; t.linked++ {
		e := t.list.at(t.linked)
		s, ordinal := t.slot(&e.id), uint32(t.first)+uint32(t.linked)
		if in := t.slots[s]; in != 0 {
			e.prev = ordinal - uint32(in)
		} else {
			e.prev = 0
			t.used++
		}
		t.slots[s] = slotOf(&e.id, ordinal)
	}
	if t.used > t.linked {
		t.sweep(sweptSlots * n)
	}
}

// slotsFor is the length of a table for n ids: a third of it stays free, a quarter with those that
// are stale.
func slotsFor(n int) int {
	size := minSlots
	for 2*size < 3*n {
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
	t.linked--
	if ordinal := uint32(t.first) + uint32(t.linked); e.prev == 0 {
		t.free(s)
	} else {
		t.slots[s] = slotOf(&e.id, ordinal-e.prev) // stale, if the one before is gone
	}
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

// drop removes the oldest n entries. Their slots get stale.
func (t *tail) drop(n int) {
	if n == 0 {
		return
	}
	t.list.drop(n)
	t.first += int64(n)
	if t.linked = max(t.linked-n, 0); t.linked == 0 {
		t.slots, t.used, t.swept = nil, 0, 0
	} else if size := slotsFor(t.list.n); 4*size < len(t.slots) {
		t.resize(size)
	}
}

// resize makes a table of that length, without stale slots.
func (t *tail) resize(size int) {
	old := t.slots
	t.slots, t.used, t.swept = make([]uint64, size), 0, 0
	t.shift = uint8(32 - bits.TrailingZeros(uint(size)))
	for _, in := range old {
		if in != 0 && t.index(in) < uint32(t.linked) {
			t.settle(in)
			t.used++
		}
	}
}

// settle puts what was in a slot into the first free one from its place on.
func (t *tail) settle(in uint64) {
	s := t.place(in)
	for t.slots[s] != 0 {
		s = (s + 1) & (len(t.slots) - 1)
	}
	t.slots[s] = in
}

// sweep goes through n slots, and on to a free one: what is in stale slots goes, what is behind them comes
// nearer to its place. It begins and ends between free slots, so that all that belongs together is seen.
func (t *tail) sweep(n int) {
	mask := len(t.slots) - 1
	s := t.swept & mask
	for t.slots[(s-1)&mask] != 0 {
		s = (s - 1) & mask
	}
	gap := false // something went since the last free slot
	for n = min(n, len(t.slots)); n > 0 || t.slots[s] != 0; n-- {
		switch in := t.slots[s]; {
		case in == 0:
			gap = false
		case t.index(in) >= uint32(t.linked):
			t.slots[s], gap = 0, true
			t.used--
		case gap:
			t.slots[s] = 0
			t.settle(in)
		}
		s = (s + 1) & mask
	}
	t.swept = s
}
