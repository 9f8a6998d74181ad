package dedupe

import "encoding/binary"

// An export is what a log below an offset can't tell any more: runs and a snapshot, each
// behind its length 8, after a version of 1 byte and the number of runs 4.
const exportVersion = 2

// Export gives all that is remembered of what lies below an offset, for a replica
// that can't learn it from the log: because its copy begins above, or was compacted below. It
// may be called without the lock. The error is read's or a *CorruptError.
//
// Below Covered the newest append time isn't known of every offset: below the batch that
// brought the newest of all it is that of the last message or batch that is remembered. That
// is right once a batch above is noted, as long as the leaders' clocks didn't go back.
func (v *View) Export(below int64, read Reader) ([]byte, error) {
	x := export{below: below, total: v.total}
	for _, r := range v.runs {
		if err := x.run(r, read); err != nil {
			return nil, err
		}
	}
	var part []Entry
	for i := range v.tail.list.n {
		part = x.entry(part, v.tail.entry(i))
	}
	if len(part) > 0 {
		x.runs = append(x.runs, buildOf(part[0].Offset, part[len(part)-1].Offset+1, part))
	}
	if x.told > 0 { // what comes above begins behind the last, also where ids in between were let go
		x.total = x.told
	}
	list := x.producers(v)
	out := binary.BigEndian.AppendUint32([]byte{exportVersion}, uint32(len(x.runs)))
	for _, part := range append(x.runs, appendSnapshot(nil, &snapshot{below, below, x.newest, x.total, list})) {
		out = binary.BigEndian.AppendUint64(out, uint64(len(part)))
		out = append(out, part...)
	}
	return out, nil
}

// export gathers what is below an offset.
type export struct {
	below  int64
	runs   [][]byte
	newest newestTime // of what is below
	total  int64      // the ordinal of the oldest that isn't
	told   int64      // that behind the newest that is; 0: there is none
}

// producers gives those that are below, as they were there, or, below covered, of
// what they were at covered: what came later may be cut off again.
func (x *export) producers(v *View) []*producer {
	marks := v.journal
	for len(marks) > 0 && marks[0].next <= x.below {
		x.newest.note(marks[0].time, marks[0].next)
		marks = marks[1:]
	}
	if x.below >= v.coveredNewest.from {
		x.newest.note(v.coveredNewest.time, v.coveredNewest.from)
	}
	var list []*producer
	for _, p := range without(v.producers, marks) {
		if p = p.upTo(x.below); p != nil {
			list = append(list, p)
			x.newest.note(p.newest().time, p.newest().next)
		}
	}
	return list
}

func (x *export) run(r *Run, read Reader) error {
	if r.First >= x.below {
		x.total = min(x.total, r.firstOrdinal)
		return nil
	}
	b, err := read(r, 0, r.Size)
	if err != nil {
		return err
	}
	var part []Entry
	if err := r.each(bytesOf(b), func(e Entry) { part = x.entry(part, e) }); err != nil {
		return err
	}
	if r.Next <= x.below {
		x.runs = append(x.runs, b)
	} else if len(part) > 0 {
		x.runs = append(x.runs, buildOf(r.First, min(r.Next, x.below), part))
	}
	return nil
}

func (x *export) entry(part []Entry, e Entry) []Entry {
	if e.Offset >= x.below {
		x.total = min(x.total, e.Ordinal)
		return part
	}
	x.newest.note(e.Time, e.Offset+1)
	x.told = max(x.told, e.Ordinal+1)
	return append(part, e)
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
		if err := r.each(bytesOf(part), func(Entry) {}); err != nil {
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
