package dedupe

import (
	"encoding/binary"
	"math/bits"
)

const (
	filterBlock   = 64 // bytes: all bits of an id lie in one cache line
	filterIDs     = 24 // ids a block: 21 bits an id
	filterBits    = 8  // bits an id sets
	maxFilterSize = 1 << 28
)

// filter is a Bloom filter of IDs. About 1 in 2,000 ids that it doesn't hold seem to be in
// it. IDs are hashes already; the filter takes their bits as they are.
type filter []byte

// filterSize is that of a filter for count ids, in bytes. It is empty when it is all zeros.
func filterSize(count int) int { return max(1, (count+filterIDs-1)/filterIDs) * filterBlock }

func (f filter) add(id *ID) {
	block, h, step := f.place(id)
	for range filterBits {
		block[h>>26] |= 1 << (h >> 23 & 7)
		h += step
	}
}

func (f filter) has(id *ID) bool {
	block, h, step := f.place(id)
	for range filterBits {
		if block[h>>26]&(1<<(h>>23&7)) == 0 {
			return false
		}
		h += step
	}
	return true
}

func (f filter) place(id *ID) (block *[filterBlock]byte, h, step uint32) {
	n, _ := bits.Mul64(id.head(), uint64(len(f)/filterBlock))
	return (*[filterBlock]byte)(f[n*filterBlock:]), binary.BigEndian.Uint32(id[8:]), binary.BigEndian.Uint32(id[12:]) | 1
}

// probes ask a filter for the first bit of many ids. Most of the time of a look goes into
// waiting for memory: where there is little more than loads, it waits for all of them at once.
type probes struct {
	n     int
	heads [64]uint64
	bits  [64]uint16 // of the block
	bytes [64]byte   // that have these bits
}

// of takes at most 64 ids.
func (p *probes) of(ids []ID) {
	p.n = len(ids)
	for i := range ids {
		p.heads[i], p.bits[i] = ids[i].head(), uint16(binary.BigEndian.Uint32(ids[i][8:])>>23)
	}
}

// firstBits has the i-th bit set if the first bit of the i-th id is.
func (p *probes) firstBits(f filter) (set uint64) {
	blocks := uint64(len(f) / filterBlock)
	for i, head := range p.heads[:p.n] {
		n, _ := bits.Mul64(head, blocks)
		p.bytes[i] = f[n*filterBlock+uint64(p.bits[i]>>3)]
	}
	for i, b := range p.bytes[:p.n] {
		set |= uint64(b>>(p.bits[i]&7)&1) << i
	}
	return set
}
