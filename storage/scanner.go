package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"highwater/storage/vfs"
)

const (
	// scanBytes is how much of a segment a scan reads at once.
	scanBytes = 256 << 10
	// pageBytes is the unit in which unreadable places are passed over.
	pageBytes = 4 << 10
	// sectorBytes is the smallest unit that a disk writes whole.
	sectorBytes = 512
	// maxResyncFactor bounds the bytes that a search for the next valid batch
	// checksums, as a multiple of the segment's size: values can be made that look
	// like batch headers everywhere.
	maxResyncFactor = 16
)

// maxGap bounds the offsets that one damaged place may hide: more than any batch has.
const maxGap = 1 << 32

// scanner reads a segment from end to end and checks everything.
type scanner struct {
	file vfs.File
	size int64
	buf  []byte // the file's bytes from `from` on
	from int64
}

// stretch is a place that holds no valid batch.
type stretch struct {
	pos, end int64 // bytes
	from     int64 // the first offset that is missing
	to       int64 // the next offset that is there; -1: nothing valid follows
	reason   string
}

// window returns n bytes at pos, fewer at the file's end. Pages that can't be read
// come as 0xff: they are bad, and what lies behind them is still found.
func (sc *scanner) window(pos int64, n int) []byte {
	n = int(min(int64(n), sc.size-pos))
	if n <= 0 {
		return nil
	}
	if pos >= sc.from && pos+int64(n) <= sc.from+int64(len(sc.buf)) {
		return sc.buf[pos-sc.from:][:n]
	}
	want := int(min(int64(max(n, scanBytes)), sc.size-pos))
	if cap(sc.buf) < want {
		sc.buf = make([]byte, want)
	}
	sc.buf, sc.from = sc.buf[:want], pos
	if got, err := sc.file.ReadAt(sc.buf, pos); err != nil && !(errors.Is(err, io.EOF) && got == want) {
		for i := 0; i < want; i += pageBytes {
			page := sc.buf[i:min(i+pageBytes, want)]
			if got, err := sc.file.ReadAt(page, pos+int64(i)); err != nil && !(errors.Is(err, io.EOF) && got == len(page)) {
				for j := range page {
					page[j] = 0xff
				}
			}
		}
	}
	return sc.buf[:n]
}

// batch is the valid batch at pos; its bytes are good until the next call.
func (sc *scanner) batch(pos int64) (Batch, error) {
	size, err := batchSize(sc.window(pos, BatchHeaderSize))
	if err != nil {
		return nil, err
	}
	if int64(size) > sc.size-pos {
		return nil, &CorruptError{Reason: fmt.Sprintf("batch of %d bytes is cut off after %d", size, sc.size-pos)}
	}
	b, _, err := ParseBatch(sc.window(pos, size))
	return b, err
}

// scan goes from pos, where the batch of offset next is expected, to the file's
// end; batches are below limit. visit sees every valid batch. scan returns the
// stretches without valid batches, and the offset after the last batch.
func (sc *scanner) scan(pos, next, limit int64, visit func(b Batch, pos int64)) (bad []stretch, end int64) {
	for pos < sc.size {
		b, err := sc.batch(pos)
		if err == nil && !sc.fits(b, pos, next, limit) {
			err = &CorruptError{Reason: fmt.Sprintf("batch of offsets [%d, %d) stands where %d is expected", b.BaseOffset(), b.NextOffset(), next)}
		}
		if err != nil {
			s := stretch{pos: pos, end: sc.size, from: next, to: -1, reason: reasonOf(err)}
			if q := sc.resync(pos, next, limit); q >= 0 {
				s.end = q
				if b, err := sc.batch(q); err == nil {
					s.to = b.BaseOffset()
				}
			}
			bad = append(bad, s)
			pos = s.end
			if s.to < 0 {
				break
			}
			next = s.to
			continue
		}
		if b.BaseOffset() > next {
			if b, err = sc.batch(pos); err != nil { // fits has read on
				return bad, next
			}
			bad = append(bad, stretch{pos: pos, end: pos, from: next, to: b.BaseOffset(), reason: "offsets are missing"})
		}
		next = b.NextOffset()
		size := int64(len(b))
		visit(b, pos)
		pos += size
	}
	return bad, next
}

// fits tells that a valid batch has an offset that can be right at this place. No
// checksum covers the base offset: one that leaves a gap is believed only if the
// batch behind it goes on from there.
func (sc *scanner) fits(b Batch, pos, next, limit int64) bool {
	base, end, size := b.BaseOffset(), b.NextOffset(), int64(len(b))
	if base < next || end > limit || base == next {
		return base == next && end <= limit
	}
	follower, err := sc.batch(pos + size) // b's bytes are gone now
	return err == nil && follower.BaseOffset() == end
}

// resync finds the next valid batch after the bad one at pos, with offsets in
// [next, limit); -1: there is none. A record's value may hold anything, whole
// batches too; what looks like a batch inside the bad one is believed only when
// neither the bad one's length nor its checksum tells where it ends.
func (sc *scanner) resync(pos, next, limit int64) int64 {
	limit = min(limit, next+maxGap) // or one flipped bit could end the log at 2^60
	rs := resync{scanner: sc, next: next, limit: limit, budget: maxResyncFactor*sc.size + scanBytes}
	if b, err := sc.batch(pos); err == nil {
		// Whole, but not of these offsets: no checksum covers them.
		return rs.search(pos+int64(len(b)), false)
	}
	if end, ok := sc.claims(pos, next); ok {
		if rs.valid(end) {
			return end
		}
		// It may be the length that is damaged.
		rs.crcEnd, rs.sum = pos+offAttributes, Batch(sc.window(pos, BatchHeaderSize)).storedCRC()
		if q := rs.search(pos+1, true); q >= 0 {
			return q
		}
		if rs.crcTo(sc.size) == rs.sum {
			return -1
		}
	} else if size, err := batchSize(sc.window(pos, BatchHeaderSize)); err == nil && rs.valid(pos+int64(size)) {
		return pos + int64(size)
	}
	for {
		end, ok := sc.claims(pos, next)
		if !ok {
			return rs.search(pos+1, false)
		}
		after := Batch(sc.window(pos, BatchHeaderSize)).NextOffset()
		switch {
		case end >= sc.size:
			return -1 // a write that was cut off, or bad up to the end
		case rs.valid(end):
			return end
		}
		if _, ok := sc.claims(end, after); !ok {
			return rs.search(pos+1, false) // one of both headers is wrong
		}
		pos, next = end, after
	}
}

// claims tells that what is at pos says of itself to be the batch of offset next,
// and where it ends then. Whether it is valid is another question.
func (sc *scanner) claims(pos, next int64) (end int64, ok bool) {
	raw := sc.window(pos, BatchHeaderSize)
	if len(raw) < BatchHeaderSize {
		return 0, false
	}
	b := Batch(raw)
	size := b.Size()
	return pos + int64(size), b.BaseOffset() == next && size >= BatchHeaderSize && size <= MaxBatchSize
}

// resync is a search for a batch of offsets in [next, limit).
type resync struct {
	*scanner
	next, limit int64
	budget      int64  // bytes that may still be checksummed or read again
	sum         uint32 // what the bad batch's header says
	crc         uint32 // of its bytes up to crcEnd
	crcEnd      int64
}

func (rs *resync) valid(q int64) bool {
	b, err := rs.batch(q)
	return err == nil && b.BaseOffset() >= rs.next && b.NextOffset() <= rs.limit
}

// search finds a valid batch that begins at or after from; -1: there is none. If
// summed is set, the bad batch must end there by its checksum.
func (rs *resync) search(from int64, summed bool) int64 {
	for from+BatchHeaderSize <= rs.size && rs.budget > 0 {
		w := rs.window(from, scanBytes)
		i, last := 0, len(w)-BatchHeaderSize
		for i <= last {
			at := bytes.IndexByte(w[i+offMagic:last+offMagic+1], batchMagic)
			if at < 0 {
				i = last + 1
				break
			}
			i += at
			q := from + int64(i)
			size, ok := plausible(w[i:], rs.size-q, rs.next, rs.limit)
			if i++; !ok {
				continue
			}
			window := rs.from
			rs.budget -= size
			if rs.valid(q) && (!summed || rs.crcTo(q) == rs.sum) {
				return q
			}
			if rs.from != window { // w was overwritten
				rs.budget -= scanBytes
				break
			}
		}
		from += int64(i)
	}
	return -1
}

// crcTo is the checksum that the bad batch has if it ends at q, which grows from
// call to call.
func (rs *resync) crcTo(q int64) uint32 {
	for rs.crcEnd < q {
		w := rs.window(rs.crcEnd, int(min(scanBytes, q-rs.crcEnd)))
		rs.crc = crc32.Update(rs.crc, castagnoli, w)
		rs.crcEnd += int64(len(w))
	}
	return rs.crc
}

// plausible is a cheap look at whether a batch of offsets in [next, limit) and at
// most `left` bytes may begin at raw.
func plausible(raw []byte, left, next, limit int64) (size int64, ok bool) {
	n, err := batchSize(raw)
	if err != nil || int64(n) > left {
		return 0, false
	}
	b := Batch(raw)
	delta := int64(int32(binary.BigEndian.Uint32(raw[offLastDelta:])))
	base := b.BaseOffset()
	return int64(n), base >= next && base < limit && b.RecordCount() >= 0 && delta >= max(int64(b.RecordCount())-1, 0)
}

// lostWrite tells that bytes of the stretch were never written, rather than
// changed later: a sector that a crash kept from the disk ends in zeros, for
// nothing but zeros was there before. It may be wrong about values that hold
// zeros; therefore nobody throws bytes away for good because of it.
func (sc *scanner) lostWrite(s stretch) bool {
	for e := (s.pos/sectorBytes + 1) * sectorBytes; e-sectorBytes < s.end; e += sectorBytes {
		last := min(e, s.end) - 1 // the batch behind may begin in the same sector, and with zeros
		w := sc.window(last, int(e-last))
		if len(w) > 0 && len(bytes.Trim(w, "\x00")) == 0 {
			return true
		}
	}
	return false
}
