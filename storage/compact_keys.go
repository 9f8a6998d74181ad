package storage

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
)

// compactMapBytes bounds the memory in which one compaction keeps the keys of the
// part that wasn't compacted before, in bytes: some 1.3 million keys of 20 bytes.
// (Kafka's log.cleaner.dedupe.buffer.size is 128 MiB for all its threads.) When it is
// full, the log is compacted as far as the keys are known, and the rest next time.
const compactMapBytes = 64 << 20

// keySlotBytes is the size of one slot of the table.
const keySlotBytes = 24

// keyOffsets maps keys to the last offset at which they stand. It keeps the keys
// themselves: Kafka's cleaner keeps their MD5 sums and takes two keys for one if
// those are equal; here a hash decides only where to look.
//
// Nothing in it is a pointer that the garbage collector would have to follow, and it
// grows with what it holds, so that a small log costs little.
type keyOffsets struct {
	limit int // bytes, table and keys together
	seed  maphash.Seed
	slots []keySlot // open addressing; the length is a power of two
	count int
	keys  []byte // each as its length, uvarint, and its bytes
}

// keySlot is empty if offset is -1.
type keySlot struct {
	hash   uint64
	key    int64 // where it begins in keys
	offset int64
}

// minKeySlots is the table's size at first.
const minKeySlots = 256

func newKeyOffsets(limit int) *keyOffsets {
	return &keyOffsets{limit: limit, seed: maphash.MakeSeed(), slots: emptySlots(minKeySlots)}
}

func emptySlots(n int) []keySlot {
	slots := make([]keySlot, n)
	for i := range slots {
		slots[i].offset = -1
	}
	return slots
}

// put notes that key stands at offset, which is above all that were put before.
func (m *keyOffsets) put(key []byte, offset int64) {
	hash := maphash.Bytes(m.seed, key)
	slot := m.find(hash, key)
	if slot.offset < 0 {
		if m.count >= len(m.slots)*3/4 {
			m.grow()
			slot = m.find(hash, key)
		}
		slot.hash, slot.key = hash, int64(len(m.keys))
		m.keys = binary.AppendUvarint(m.keys, uint64(len(key)))
		m.keys = append(m.keys, key...)
		m.count++
	}
	slot.offset = offset
}

// last is the largest offset at which key stands; -1: it isn't known.
func (m *keyOffsets) last(key []byte) int64 {
	if m.count == 0 {
		return -1
	}
	return m.find(maphash.Bytes(m.seed, key), key).offset
}

// full tells that no more should be put.
func (m *keyOffsets) full() bool { return m.bytes() > m.limit }

// bytes is the memory that is used.
func (m *keyOffsets) bytes() int { return len(m.slots)*keySlotBytes + len(m.keys) }

// find is the slot that holds key, or the empty one where it belongs.
func (m *keyOffsets) find(hash uint64, key []byte) *keySlot {
	mask := uint64(len(m.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &m.slots[i]
		if s.offset < 0 || s.hash == hash && bytes.Equal(m.keyAt(s.key), key) {
			return s
		}
	}
}

func (m *keyOffsets) keyAt(at int64) []byte {
	n, size := binary.Uvarint(m.keys[at:])
	return m.keys[at+int64(size):][:n]
}

func (m *keyOffsets) grow() {
	old := m.slots
	m.slots = emptySlots(2 * len(old))
	mask := uint64(len(m.slots) - 1)
	for _, s := range old {
		if s.offset < 0 {
			continue
		}
		i := s.hash & mask
		for m.slots[i].offset >= 0 {
			i = (i + 1) & mask
		}
		m.slots[i] = s
	}
}
