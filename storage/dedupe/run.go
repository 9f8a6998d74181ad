package dedupe

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"sort"
)

// A run holds entries sorted by id, the newest of an id first, in bytes that never
// change (big endian):
//
//	 0 version 1
//	 4 count 4           entries
//	 8 first 8           the offsets that the run covers: from here …
//	16 next 8            … to before here
//	24 first ordinal 8   no entry has a smaller one
//	32 next ordinal 8    above the largest
//	40 min time 8        ms, no entry has a smaller one
//	48 max time 8        ms, the largest
//	56 filter size 4     bytes, a multiple of 64
//	60 filter
//	   CRC-32C 4         of all before it
//	   blocks            of 64 entries, the last one of those that are left, each with its CRC-32C 4
//
// An entry has 40 bytes:
//
//	 0 id 16
//	16 offset 6          minus first
//	22 time 6            minus min time
//	28 ordinal 4         minus first ordinal
//	32 content 8
//
// The checksums let a look-up read a few pages of a run only, and yet trust
// nothing that it didn't check.
const (
	runVersion    = 1
	runHeaderSize = 60
	entrySize     = 40
	ordinalAt     = 28
	blockEntries  = 64
	blockSize     = blockEntries*entrySize + 4
	maxRunEntries = 1 << 26
)

// castagnoli is CRC-32C's table; it is read-only.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Run is an immutable sorted set of entries, of which header and filter are in
// memory (2.7 bytes an id and about 150). Its methods, and functions on runs, may be called
// without a lock.
type Run struct {
	First, Next      int64 // offsets: it covers [First, Next)
	Count            int   // of entries
	Size             int   // bytes, as stored
	MinTime, MaxTime int64 // ms, of its entries

	firstOrdinal, nextOrdinal int64
	filter                    filter
}

// Reader gives the bytes [from, to) of a run, as they were built. They have to stay
// what they are until the function that got the Reader returns. Its error ends
// that function, which returns it as it is.
type Reader func(r *Run, from, to int) ([]byte, error)

// bytesOf reads a run that is in memory.
func bytesOf(b []byte) Reader {
	return func(_ *Run, from, to int) ([]byte, error) {
		if to > len(b) {
			return nil, corrupt("run of %d bytes or more has %d", to, len(b))
		}
		return b[from:to], nil
	}
}

// OpenRun is ReadRun of a run's bytes, whole.
func OpenRun(b []byte) (*Run, error) {
	r, err := ReadRun(bytesOf(b))
	if err == nil && len(b) != r.Size {
		return nil, corrupt("run of %d entries has %d bytes", r.Count, len(b))
	}
	return r, err
}

// ReadRun reads header and filter of a run and copies what it needs; the entries
// are not read. The error is read's, who gets no Run, or a *CorruptError.
func ReadRun(read Reader) (*Run, error) {
	b, err := read(nil, 0, runHeaderSize)
	if err != nil {
		return nil, err
	}
	if b[0] != runVersion {
		return nil, corrupt("no run of version %d", runVersion)
	}
	u64 := func(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
	r := &Run{
		Count: int(binary.BigEndian.Uint32(b[4:])),
		First: u64(8), Next: u64(16), firstOrdinal: u64(24), nextOrdinal: u64(32), MinTime: u64(40), MaxTime: u64(48),
	}
	filterSize := int(binary.BigEndian.Uint32(b[56:]))
	if r.Count < 1 || r.Count > maxRunEntries || filterSize < filterBlock || filterSize%filterBlock != 0 || filterSize > maxFilterSize {
		return nil, corrupt("run of %d entries with a filter of %d bytes", r.Count, filterSize)
	}
	end := runHeaderSize + filterSize
	r.Size = end + 4 + blocksSize(r.Count)
	if b, err = read(nil, 0, end+4); err != nil {
		return nil, err
	}
	if crc32.Checksum(b[:end], castagnoli) != binary.BigEndian.Uint32(b[end:]) {
		return nil, corrupt("checksum of a run's header")
	}
	if r.First < 0 || r.Next <= r.First || r.MinTime < 0 || r.MaxTime < r.MinTime || r.MaxTime > maxTime || r.nextOrdinal <= r.firstOrdinal || r.Next-r.First > maxSpan {
		return nil, corrupt("header of a run [%d, %d)", r.First, r.Next)
	}
	r.filter = bytes.Clone(b[runHeaderSize:end])
	return r, nil
}

func blocksSize(count int) int {
	return count*entrySize + (count+blockEntries-1)/blockEntries*4
}

// block gives the entries of the i-th block, after checking them.
func (r *Run) block(read Reader, i int) ([]byte, error) {
	at := runHeaderSize + len(r.filter) + 4 + i*blockSize
	b, err := read(r, at, min(at+blockSize, r.Size))
	if err != nil {
		return nil, err
	}
	end := len(b) - 4
	if crc32.Checksum(b[:end], castagnoli) != binary.BigEndian.Uint32(b[end:]) {
		return nil, corrupt("checksum of block %d of run [%d, %d)", i, r.First, r.Next)
	}
	return b[:end], nil
}

func (r *Run) blocks() int { return (r.Count + blockEntries - 1) / blockEntries }

func (r *Run) decode(b []byte) Entry {
	return Entry{
		ID:      ID(b[:16]),
		Offset:  r.First + int64(binary.BigEndian.Uint64(b[14:])&maxSpan),
		Time:    r.MinTime + int64(binary.BigEndian.Uint64(b[20:])&maxSpan),
		Ordinal: r.firstOrdinal + int64(binary.BigEndian.Uint32(b[ordinalAt:])),
		Content: binary.BigEndian.Uint64(b[32:]),
	}
}

// find looks for the id's newest entry in the run. IDs are spread evenly, so that the
// first guess is a few blocks off at most.
func (r *Run) find(read Reader, id ID) (Entry, bool, error) {
	lo, hi := 0, r.blocks()
	hit, _ := bits.Mul64(id.head(), uint64(r.Count))
	guess, step := int(hit)/blockEntries, 1
	var after []byte // of a block, whose first entry has the id
	for lo < hi {
		i := min(max(guess, lo), hi-1)
		block, err := r.block(read, i)
		if err != nil {
			return Entry{}, false, err
		}
		last := block[len(block)-entrySize:]
		switch c := bytes.Compare(id[:], block[:16]); {
		case c == 0 && i > 0:
			after = block // but it may begin in the block before
			fallthrough
		case c < 0:
			hi = i
			guess = max(i-step, (lo+hi)/2)
		case bytes.Compare(id[:], last[:16]) > 0:
			lo = i + 1
			guess = min(i+step, (lo+hi)/2)
		default:
			e, ok := r.findIn(block, id)
			return e, ok, nil
		}
		step *= 2
	}
	if after != nil {
		return r.decode(after), true, nil
	}
	return Entry{}, false, nil
}

// findIn looks in one block.
func (r *Run) findIn(block []byte, id ID) (Entry, bool) {
	n := len(block) / entrySize
	i := sort.Search(n, func(i int) bool { return bytes.Compare(block[i*entrySize:i*entrySize+16], id[:]) >= 0 })
	if i == n || ID(block[i*entrySize:]) != id {
		return Entry{}, false
	}
	return r.decode(block[i*entrySize:]), true
}

// each yields all entries in the order of their ids.
func (r *Run) each(read Reader, yield func(Entry)) error {
	b, err := read(r, 0, r.Size)
	if err != nil {
		return err
	}
	for i := range r.blocks() {
		block, err := r.block(bytesOf(b), i)
		if err != nil {
			return err
		}
		for ; len(block) > 0; block = block[entrySize:] {
			yield(r.decode(block))
		}
	}
	return nil
}

// MaybeIn gives those of the ids, by index and ascending, that the filter of some run
// doesn't rule out. It is pure, and may run without a lock.
func MaybeIn(runs []*Run, ids []ID) (list []int) {
	var p probes
	for from := 0; from < len(ids) && len(runs) > 0; from += len(p.heads) {
		part := ids[from:min(from+len(p.heads), len(ids))]
		p.of(part)
		maybe := uint64(0)
		for _, r := range runs {
			for set := p.firstBits(r.filter) &^ maybe; set != 0; set &= set - 1 {
				if i := bits.TrailingZeros64(set); r.filter.has(&part[i]) {
					maybe |= 1 << i
				}
			}
		}
		for ; maybe != 0; maybe &= maybe - 1 {
			list = append(list, from+bits.TrailingZeros64(maybe))
		}
	}
	return list
}

// FindRuns looks for the newest entry of the id in runs, the newest of which is
// the last, live or not: ask State.Live. read is called for those few runs whose
// filter doesn't rule the id out. It is pure, and may run without a lock. The error
// is read's or a *CorruptError.
func FindRuns(runs []*Run, id ID, read Reader) (e Entry, found bool, err error) {
	for i := len(runs) - 1; i >= 0; i-- {
		r := runs[i]
		if !r.filter.has(&id) {
			continue
		}
		if e, found, err = r.find(read, id); found || err != nil {
			return e, found, err
		}
	}
	return Entry{}, false, nil
}
