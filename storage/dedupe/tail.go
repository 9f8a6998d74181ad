package dedupe

import (
	"encoding/binary"
	"slices"
	"sort"
)

// tail holds the newest entries in offset order, and finds the newest of an id.
// It costs 44 bytes an entry and 4 to 11 for the table, plus what the slices
// have in reserve. Entries come and go at the end, in that order; that is what keeps the
// table simple.
type tail struct {
	entries []tailEntry
	prev    []uint32 // of each entry: 1 + the index of the one before it of the same id; 0: none
	first   int64    // the ordinal of entries[0]
	// slots is a hash table with linear probing: 1 + the index of an id's newest entry; 0:
	// free. Its length is a power of two.
	slots []uint32
	used  int // slots that are not free
}

type tailEntry struct {
	id           ID
	offset, time int64
	content      uint64
}

func (e *tailEntry) entry(ordinal int64) Entry {
	return Entry{ID: e.id, Offset: e.offset, Time: e.time, Content: e.content, Ordinal: ordinal}
}

func (t *tail) entry(i int) Entry { return t.entries[i].entry(t.first + int64(i)) }

// find gives the newest entry of the id.
func (t *tail) find(id ID) (Entry, bool) {
	if len(t.slots) == 0 {
		return Entry{}, false
	}
	if i := t.slots[t.slot(id)]; i != 0 {
		return t.entry(int(i) - 1), true
	}
	return Entry{}, false
}

// slot is the id's slot, or the free one that it would get.
func (t *tail) slot(id ID) int {
	mask := len(t.slots) - 1
	for s := int(binary.BigEndian.Uint32(id[4:])) & mask; ; s = (s + 1) & mask {
		if i := t.slots[s]; i == 0 || t.entries[i-1].id == id {
			return s
		}
	}
}

// push adds an entry above all others.
func (t *tail) push(e tailEntry) {
	if 4*(t.used+1) > 3*len(t.slots) {
		t.rehash(max(16, 2*len(t.slots)))
	}
	t.entries = append(t.entries, e)
	t.prev = append(t.prev, 0)
	t.link(len(t.entries) - 1)
}

func (t *tail) link(i int) {
	s := t.slot(t.entries[i].id)
	t.prev[i] = t.slots[s]
	if t.slots[s] == 0 {
		t.used++
	}
	t.slots[s] = uint32(i + 1)
}

// pop removes the newest entry. Its slot was free when the first entry of its id
// came, and all that came later are gone: so freeing it breaks nobody's probing.
func (t *tail) pop() {
	i := len(t.entries) - 1
	s := t.slot(t.entries[i].id)
	t.slots[s] = t.prev[i]
	if t.prev[i] == 0 {
		t.used--
	}
	t.entries, t.prev = t.entries[:i], t.prev[:i]
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
	t.prev = make([]uint32, len(t.entries))
	t.first += int64(n)
	size := 16
	for 3*size < 4*(len(t.entries)+1) {
		size *= 2
	}
	t.rehash(size)
}

func (t *tail) rehash(size int) {
	t.slots, t.used = make([]uint32, size), 0
	for i := range t.entries {
		t.link(i)
	}
}
