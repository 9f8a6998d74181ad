package dedupe

import (
	"encoding/binary"
	"slices"
	"sort"
)

// tail holds the newest entries in offset order, and finds the newest of an id.
// It costs 48 bytes an entry and 11 to 21 for the table, plus what the slice
// has in reserve. Entries come and go at the end, in that order; that is what keeps the
// table simple.
type tail struct {
	entries []tailEntry
	first   int64 // the ordinal of entries[0]
	// slots is a hash table with linear probing: of an id's newest entry 1 + the index, and
	// above it 32 bits of the id, so that hardly any other entry is looked at. 0: free. Its
	// length is a power of two.
	slots []uint64
	used  int // slots that are not free
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

func (t *tail) entry(i int) Entry { return t.entries[i].entry(t.first + int64(i)) }

// find gives the newest entry of the id.
func (t *tail) find(id *ID) (Entry, bool) {
	if len(t.slots) == 0 {
		return Entry{}, false
	}
	if i := uint32(t.slots[t.slot(id)]); i != 0 {
		return t.entry(int(i) - 1), true
	}
	return Entry{}, false
}

// slot is the id's slot, or the free one that it would get.
func (t *tail) slot(id *ID) int {
	mask, tag := len(t.slots)-1, tagOf(id)
	for s := int(binary.BigEndian.Uint32(id[4:])) & mask; ; s = (s + 1) & mask {
		if in := t.slots[s]; in == 0 || in>>32 == tag && t.entries[uint32(in)-1].id == *id {
			return s
		}
	}
}

func tagOf(id *ID) uint64 { return uint64(binary.BigEndian.Uint32(id[8:])) }

// push adds an entry above all others.
func (t *tail) push(e *tailEntry) {
	if 4*(t.used+1) > 3*len(t.slots) {
		t.rehash(max(16, 2*len(t.slots)))
	}
	if len(t.entries) == cap(t.entries) {
		// Twice as many, where append would grow it by a quarter time and again.
		t.entries = append(make([]tailEntry, 0, max(16, 2*len(t.entries))), t.entries...)
	}
	t.entries = append(t.entries, *e)
	t.link(len(t.entries) - 1)
}

func (t *tail) link(i int) {
	e := &t.entries[i]
	s := t.slot(&e.id)
	e.prev = uint32(t.slots[s])
	if e.prev == 0 {
		t.used++
	}
	t.slots[s] = tagOf(&e.id)<<32 | uint64(i+1)
}

// pop removes the newest entry. Its slot was free when the first entry of its id
// came, and all that came later are gone: so freeing it breaks nobody's probing.
func (t *tail) pop() {
	e := &t.entries[len(t.entries)-1]
	s := t.slot(&e.id)
	if e.prev == 0 {
		t.slots[s] = 0
		t.used--
	} else {
		t.slots[s] = tagOf(&e.id)<<32 | uint64(e.prev)
	}
	t.entries = t.entries[:len(t.entries)-1]
}

// below is the number of entries below the offset.
func (t *tail) below(offset int64) int {
	return sort.Search(len(t.entries), func(i int) bool { return t.entries[i].offset >= offset })
}

// since is the number of entries whose time is below ms.
func (t *tail) since(ms int64) int {
	return sort.Search(len(t.entries), func(i int) bool { return t.entries[i].time >= ms })
}

// drop removes the oldest n entries.
func (t *tail) drop(n int) {
	if n == 0 {
		return
	}
	// Into new memory: what a busy time took is given back.
	t.entries = slices.Clone(t.entries[n:])
	t.first += int64(n)
	size := 16
	for 3*size < 4*(len(t.entries)+1) {
		size *= 2
	}
	t.rehash(size)
}

func (t *tail) rehash(size int) {
	t.slots, t.used = make([]uint64, size), 0
	for i := range t.entries {
		t.link(i)
	}
}
