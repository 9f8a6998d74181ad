package dedupe

import (
	"encoding/binary"
	"math/bits"
)

const (
	filterBlock   = 64 // bytes: all bits of an id lie in one cache line
	filterIDs     = 32 // ids a block: 16 bits an id
	filterBits    = 8  // bits an id sets
	maxFilterSize = 1 << 28
)

// filter is a Bloom filter of IDs. About 2 in 1,000 ids that it doesn't hold seem to be in
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

// probes ask a filter for the first two bits of many ids. Most of the time of a look goes into
// waiting for memory: what is little more than loads waits for all of them at once.
type probes struct {
	n   int
	ids [64]probe
}

type probe struct {
	head          uint64
	first, second uint16 // bits of the block
}

// of takes at most 64 ids.
func (p *probes) of(ids []ID) {
	p.n = len(ids)
	for i := range ids {
		id := &ids[i]
		h := binary.BigEndian.Uint32(id[8:])
		p.ids[i] = probe{id.head(), uint16(h >> 23), uint16((h + (binary.BigEndian.Uint32(id[12:]) | 1)) >> 23)}
	}
}

// firstBits has the i-th bit set if the first two bits of the i-th id are.
func (p *probes) firstBits(f filter) (set uint64) {
	blocks := uint64(len(f) / filterBlock)
	for i := range p.ids[:p.n] {
		q := &p.ids[i]
		n, _ := bits.Mul64(q.head, blocks)
		block := (*[filterBlock]byte)(f[n*filterBlock:])
		both := block[q.first>>3%filterBlock] >> (q.first & 7) & (block[q.second>>3%filterBlock] >> (q.second & 7))
		set |= uint64(both&1) << i
	}
	return set
}
