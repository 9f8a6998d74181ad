package dedupe

import (
	"encoding/binary"
	"hash/crc32"
)

// A snapshot holds what runs don't tell of the log below an offset (big endian):
//
//	 0 version 1
//	 1 below 8     offset
//	 9 judged 8    offset, not less: ids that had left the window there may be missing
//	17 newest 8    ms, the newest append time below `below`
//	25 from 8      offset, for which and all above newest is known to be that
//	33 total 8     the ordinal of the next entry
//	41 count 4     producers, from the one that has been silent longest
//	45 producers   each: id 8, epoch 2, before 4, batches 1, then each
//	               first sequence 4, last sequence 4, base offset 8, next offset 8, time 8
//	   CRC-32C 4   of all before it
const (
	snapshotVersion    = 2
	snapshotHeaderSize = 45
	producerHeaderSize = 15
	sequencedSize      = 32
)

type snapshot struct {
	below, judged int64
	newest        newestTime
	total         int64
	producers     []*producer
}

// appendSnapshot sorts the producers.
func appendSnapshot(b []byte, s *snapshot) []byte {
	byLastOffset(s.producers)
	at := len(b)
	b = append(b, snapshotVersion)
	for _, n := range [...]int64{s.below, s.judged, s.newest.time, s.newest.from, s.total} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(s.producers)))
	for _, p := range s.producers {
		b = binary.BigEndian.AppendUint64(b, uint64(p.id))
		b = binary.BigEndian.AppendUint16(b, uint16(p.epoch))
		b = binary.BigEndian.AppendUint32(b, p.before)
		b = append(b, p.n)
		for _, w := range p.batches[:p.n] {
			b = binary.BigEndian.AppendUint32(b, uint32(w.first))
			b = binary.BigEndian.AppendUint32(b, uint32(w.last))
			b = binary.BigEndian.AppendUint64(b, uint64(w.base))
			b = binary.BigEndian.AppendUint64(b, uint64(w.next))
			b = binary.BigEndian.AppendUint64(b, uint64(w.time))
		}
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[at:], castagnoli))
}

func parseSnapshot(b []byte) (*snapshot, error) {
	if len(b) < snapshotHeaderSize+4 || b[0] != snapshotVersion {
		return nil, corrupt("no snapshot of version %d", snapshotVersion)
	}
	end := len(b) - 4
	if crc32.Checksum(b[:end], castagnoli) != binary.BigEndian.Uint32(b[end:]) {
		return nil, corrupt("checksum of a snapshot")
	}
	u64 := func(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
	s := &snapshot{below: u64(1), judged: u64(9), newest: newestTime{time: u64(17), from: u64(25)}, total: u64(33)}
	count := int(binary.BigEndian.Uint32(b[41:]))
	b = b[snapshotHeaderSize:end]
	if s.below < 0 || s.judged < s.below || s.newest.time < 0 || s.newest.time > maxTime || s.newest.from < 0 || s.newest.from > s.below || s.total < 0 || count > len(b)/(producerHeaderSize+sequencedSize) {
		return nil, corrupt("header of a snapshot of %d producers", count)
	}
	s.producers = make([]*producer, 0, count)
	for range count {
		p, rest := parseProducer(b)
		if p == nil {
			return nil, corrupt("producer in a snapshot")
		}
		s.producers, b = append(s.producers, p), rest
	}
	if len(b) > 0 {
		return nil, corrupt("%d bytes behind a snapshot's producers", len(b))
	}
	return s, nil
}

// parseProducer takes one producer from b; nil if it isn't one.
func parseProducer(b []byte) (p *producer, rest []byte) {
	if len(b) < producerHeaderSize {
		return nil, nil
	}
	p = &producer{
		id: int64(binary.BigEndian.Uint64(b)), epoch: int16(binary.BigEndian.Uint16(b[8:])),
		before: binary.BigEndian.Uint32(b[10:]), n: b[14],
	}
	b = b[producerHeaderSize:]
	if p.n < 1 || p.n > RetainedBatches || len(b) < int(p.n)*sequencedSize || p.before > maxBehind {
		return nil, nil
	}
	for i := range p.n {
		s := sequenced{
			first: int32(binary.BigEndian.Uint32(b)), last: int32(binary.BigEndian.Uint32(b[4:])),
			base: int64(binary.BigEndian.Uint64(b[8:])), next: int64(binary.BigEndian.Uint64(b[16:])), time: int64(binary.BigEndian.Uint64(b[24:])),
		}
		if s.first < 0 || s.last < 0 || s.base < 0 || s.next <= s.base || s.time < 0 || s.time > maxTime {
			return nil, nil
		}
		p.batches[i], b = s, b[sequencedSize:]
	}
	return p, b
}

// Restore makes the state what snapshot and runs say, and forgets what it knew; the log
// is noted from covered on then. covered isn't below what the snapshot says, and may be above
// it, where the log carries nothing in between. Without runs the snapshot may be nil: all
// that is below covered is unknown then. On an error, a *CorruptError, the state is empty, with covered
// 0: note the log from its start.
func (s *State) Restore(covered int64, snapshotBytes []byte, runs []*Run) error {
	*s = State{cfg: s.cfg, start: s.start, producers: producers{max: s.producers.max}, merges: s.merges, generation: s.generation + 1, evictedEarly: s.evictedEarly}
	snap := &snapshot{}
	if snapshotBytes != nil {
		var err error
		if snap, err = parseSnapshot(snapshotBytes); err != nil {
			return err
		}
	}
	end, ordinal := int64(0), int64(0)
	for _, r := range runs {
		if r.First < end || r.firstOrdinal < ordinal {
			return corrupt("run [%d, %d) after offset %d", r.First, r.Next, end)
		}
		end, ordinal = r.Next, r.nextOrdinal
	}
	if end > snap.below || ordinal > snap.total || snap.below > covered {
		return corrupt("runs up to %d, snapshot at %d, covered %d", end, snap.below, covered)
	}
	for _, p := range snap.producers {
		if s.producers.get(p.id) == nil {
			s.producers.set(p)
		}
	}
	s.runs = append([]*Run(nil), runs...)
	s.next, s.newest, s.total = covered, snap.newest.time, snap.total
	s.covered, s.coveredNewest, s.coveredTotal, s.judged = covered, snap.newest, snap.total, snap.judged
	return nil
}
