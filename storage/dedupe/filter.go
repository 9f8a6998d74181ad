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

// firstBits has the i-th bit set if the first two bits of the i-th id are. There are at most 64 ids.
func (f filter) firstBits(ids []ID) (set uint64) {
	for i := range ids {
		block, h, step := f.place(&ids[i])
		first := block[h>>26] >> (h >> 23 & 7)
		h += step
		second := block[h>>26] >> (h >> 23 & 7)
		set |= uint64(first&second&1) << i
	}
	return set
}

func (f filter) place(id *ID) (block *[filterBlock]byte, h, step uint32) {
	n, _ := bits.Mul64(binary.BigEndian.Uint64(id[:8]), uint64(len(f)/filterBlock))
	return (*[filterBlock]byte)(f[n*filterBlock:]), binary.BigEndian.Uint32(id[8:]), binary.BigEndian.Uint32(id[12:]) | 1
}
