package dedupe

import (
	"encoding/binary"
	"math"
)

// An export is what a log below an offset can't tell any more: runs and a snapshot, each
// behind its length 8, after a version 1 and the number of runs 4.
const exportVersion = 1

// Export gives all that is remembered of what lies below an offset, for a replica
// that can't learn it from the log: because its copy begins above, or was compacted below. It
// may be called without the lock. The error is read's or a *CorruptError.
func (v *View) Export(below int64, read Reader) ([]byte, error) {
	var runs [][]byte
	// What is above: its oldest time and ordinal are what newest and total were below.
	newest, total := v.newest, v.total
	above := func(time, ordinal int64) { newest, total = min(newest, time), min(total, ordinal) }
	for _, r := range v.runs {
		if r.First >= below {
			above(r.MinTime, r.firstOrdinal)
			continue
		}
		b, err := read(r)
		if err != nil {
			return nil, err
		}
		if r.Next <= below {
			if err := r.each(b, func(Entry) {}); err != nil { // nothing damaged goes out
				return nil, err
			}
			runs = append(runs, b)
			continue
		}
		var part []Entry
		if err := r.each(b, func(e Entry) {
			if e.Offset < below {
				part = append(part, e)
			} else {
				above(e.Time, e.Ordinal)
			}
		}); err != nil {
			return nil, err
		}
		if run := buildRun(r.First, below, part); run != nil {
			runs = append(runs, run)
		}
	}
	var part []Entry
	for _, e := range v.tail {
		if e.Offset < below {
			part = append(part, e)
		} else {
			above(e.Time, e.Ordinal)
		}
	}
	if len(part) > 0 {
		runs = append(runs, buildRun(part[0].Offset, part[len(part)-1].Offset+1, part))
	}
	var list []*producer
	for _, p := range v.producers {
		kept := p.upTo(below)
		if kept != p {
			above(p.firstAbove(below), math.MaxInt64)
		}
		if kept != nil {
			list = append(list, kept)
		}
	}
	out := binary.BigEndian.AppendUint32([]byte{exportVersion}, uint32(len(runs)))
	for _, part := range append(runs, appendSnapshot(nil, below, newest, total, list)) {
		out = binary.BigEndian.AppendUint64(out, uint64(len(part)))
		out = append(out, part...)
	}
	return out, nil
}

// upTo is the producer without batches that reach above the offset; nil if none is left.
func (p *producer) upTo(offset int64) *producer {
	if p.newest().next <= offset {
		return p
	}
	cut := *p
	for cut.n > 0 && cut.newest().next > offset {
		cut.n--
		cut.batches[cut.n] = sequenced{}
	}
	if cut.n == 0 {
		return nil
	}
	return &cut
}

// firstAbove is the time of the first batch that reaches above the offset.
func (p *producer) firstAbove(offset int64) int64 {
	for _, s := range p.batches[:p.n] {
		if s.next > offset {
			return s.time
		}
	}
	return math.MaxInt64
}

// Import is an export, taken apart: store runs and snapshot as a flush's, then
// Restore from them with Covered. The runs' bytes lie in what was parsed.
type Import struct {
	Covered  int64
	Runs     []*Run
	Bytes    [][]byte // of each run
	Snapshot []byte
}

// ParseImport checks all of an export. It is pure. The error is a *CorruptError.
func ParseImport(b []byte) (*Import, error) {
	if len(b) < 5 || b[0] != exportVersion {
		return nil, corrupt("no export of version %d", exportVersion)
	}
	count := int(binary.BigEndian.Uint32(b[1:]))
	b = b[5:]
	if count > len(b)/runHeaderSize {
		return nil, corrupt("export of %d runs in %d bytes", count, len(b))
	}
	im := &Import{}
	for i := 0; i <= count; i++ {
		if len(b) < 8 || binary.BigEndian.Uint64(b) > uint64(len(b)-8) {
			return nil, corrupt("part of an export is cut off")
		}
		n := 8 + int(binary.BigEndian.Uint64(b))
		part := b[8:n:n]
		b = b[n:]
		if i == count {
			im.Snapshot = part
			break
		}
		r, err := OpenRun(part)
		if err != nil {
			return nil, err
		}
		if err := r.each(part, func(Entry) {}); err != nil {
			return nil, err
		}
		im.Runs, im.Bytes = append(im.Runs, r), append(im.Bytes, part)
	}
	if len(b) > 0 {
		return nil, corrupt("%d bytes behind an export", len(b))
	}
	snap, err := parseSnapshot(im.Snapshot)
	if err != nil {
		return nil, err
	}
	im.Covered = snap.below
	return im, New(Config{}).Restore(im.Covered, im.Snapshot, im.Runs)
}
