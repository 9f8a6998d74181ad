package storage

import (
	"encoding/binary"
)

// noRecordTime is the timestamp of a batch that has no records: Kafka's NO_TIMESTAMP.
const noRecordTime = -1

// control tells that the batch holds marks of a transaction's end, not records.
func (b Batch) control() bool { return b.attributes()&attrControl != 0 }

func (b Batch) transactional() bool { return b.attributes()&attrTransactional != 0 }

// deleteHorizon is the time in ms from which on the batch's tombstones may go (KIP-534).
func (b Batch) deleteHorizon() (ms int64, ok bool) {
	return b.BaseTimestamp(), b.attributes()&attrDeleteHorizon != 0
}

// placeholder tells that all the batch does is to cover its offsets.
func (b Batch) placeholder() bool {
	return b.RecordCount() == 0 && b.ProducerID() == NoProducer && !b.control() && !b.transactional()
}

// newPlaceholder is a batch without records for the offsets [base, next).
func newPlaceholder(base, next int64, epoch int32) Batch {
	b := Batch(make([]byte, BatchHeaderSize))
	b[offMagic] = batchMagic
	binary.BigEndian.PutUint64(b[offBaseTimestamp:], ^uint64(0))
	binary.BigEndian.PutUint64(b[offMaxTimestamp:], ^uint64(0))
	binary.BigEndian.PutUint64(b[offProducerID:], ^uint64(0))
	binary.BigEndian.PutUint16(b[offProducerEpoch:], ^uint16(0))
	binary.BigEndian.PutUint32(b[offBaseSequence:], ^uint32(0))
	b.stamp(base, epoch)
	b.finish(0, next)
	return b
}

// emptied is the batch without its records, for the producer's sake (R92): who it
// was, and its last sequence number, which follows from base sequence and offsets.
func (b Batch) emptied() Batch {
	e := Batch(append([]byte(nil), b[:BatchHeaderSize]...))
	const kept = attrLogAppendTime | attrTransactional | attrControl | attrAppendTime
	binary.BigEndian.PutUint16(e[offAttributes:], uint16(b.attributes()&kept))
	if _, horizon := b.deleteHorizon(); horizon || !b.Marked() { // else it is the time of the append
		binary.BigEndian.PutUint64(e[offBaseTimestamp:], ^uint64(0))
	}
	e.finish(0, b.NextOffset())
	return e
}

// finish sets length, record count, last offset and checksum.
func (b Batch) finish(records int32, next int64) {
	binary.BigEndian.PutUint32(b[offBatchLength:], uint32(len(b)-batchLogOverhead))
	binary.BigEndian.PutUint32(b[offRecordCount:], uint32(records))
	b.cover(next)
}

// cover makes the batch reach to next, which is at most 2^31 offsets away.
func (b Batch) cover(next int64) {
	binary.BigEndian.PutUint32(b[offLastDelta:], uint32(next-1-b.BaseOffset()))
	binary.BigEndian.PutUint32(b[offCRC:], b.computeCRC())
}

// from is a batch without records, cut so that it begins at offset, which it covers:
// a copy. ok is false for one that holds records.
func (b Batch) from(offset int64) (rest Batch, ok bool) {
	it, err := b.Records()
	if err != nil {
		return nil, false
	}
	it.SkipTo(offset)
	if it.left > 0 {
		return nil, false
	}
	return newPlaceholder(offset, b.NextOffset(), b.LeaderEpoch()), true
}

// fate is what becomes of one record.
type fate int

const (
	keepRecord fate = iota
	dropRecord
)

// rewriter makes batches anew without some of their records. It keeps its buffers.
type rewriter struct {
	kept    []byte // encoded records
	scratch []byte
	rec     Record
}

// rewritten is what became of a batch.
type rewritten struct {
	batch      Batch // nil: nothing is left of it
	changed    bool
	records    int // that are left
	tombstones int // of these
	horizon    int64
}

// rewrite asks for each record what becomes of it, in order. A tombstone that stays
// in a batch without a delete horizon gives it this one.
func (rw *rewriter) rewrite(b Batch, horizon int64, decide func(r *Record) fate) (rewritten, error) {
	it, err := b.Records()
	if err != nil {
		return rewritten{}, err
	}
	it.hasAppendTime = false // the timestamps as they were encoded
	out := rewritten{batch: b}
	rw.kept = rw.kept[:0]
	newest := int64(noRecordTime)
	for body := it.body; it.Next(&rw.rec); body = it.body {
		if decide(&rw.rec) == dropRecord {
			out.changed = true
			continue
		}
		rw.kept = append(rw.kept, body[:len(body)-len(it.body)]...)
		out.records++
		newest = max(newest, rw.rec.Timestamp)
		if rw.rec.Value == nil {
			out.tombstones++
		}
	}
	if err := it.Err(); err != nil {
		return rewritten{}, err
	}
	had, has := b.deleteHorizon()
	switch {
	case has:
		horizon = had
	case out.tombstones > 0:
		out.changed = true
	}
	if out.tombstones > 0 {
		out.horizon = horizon
	}
	switch {
	case !out.changed:
		return out, nil
	case out.records == 0:
		out.batch = nil
		return out, nil
	}
	out.batch, err = rw.seal(b, &out, newest, has, horizon)
	return out, err
}

// seal makes the batch of what was kept.
func (rw *rewriter) seal(b Batch, out *rewritten, newest int64, has bool, horizon int64) (Batch, error) {
	body := rw.kept
	base := b.BaseTimestamp()
	if out.tombstones > 0 && !has {
		var err error
		if body, err = rw.rebase(b, horizon); err != nil {
			return nil, err
		}
		base, has = horizon, true
	}
	buf := append(make([]byte, 0, BatchHeaderSize+len(body)), b[:BatchHeaderSize]...)
	if c := b.Compression(); c != CompressionNone {
		var err error
		if buf, err = c.compress(buf, body); err != nil {
			return nil, err
		}
	} else {
		buf = append(buf, body...)
	}
	if len(buf) > MaxBatchSize {
		return nil, ErrBatchTooLarge
	}
	sealed := Batch(buf)
	attributes := b.attributes()
	if has {
		attributes |= attrDeleteHorizon
	}
	binary.BigEndian.PutUint16(sealed[offAttributes:], uint16(attributes))
	binary.BigEndian.PutUint64(sealed[offBaseTimestamp:], uint64(base))
	if !b.LogAppendTime() {
		binary.BigEndian.PutUint64(sealed[offMaxTimestamp:], uint64(newest))
	}
	sealed.finish(int32(out.records), b.NextOffset())
	return sealed, nil
}

// rebase encodes what was kept against another base timestamp.
func (rw *rewriter) rebase(b Batch, base int64) ([]byte, error) {
	rw.scratch = rw.scratch[:0]
	var err error
	for rest := rw.kept; len(rest) > 0; {
		if rest, err = decodeRecord(rest, &rw.rec, b.BaseOffset(), b.BaseTimestamp()); err != nil {
			return nil, err
		}
		rw.scratch = appendRecord(rw.scratch, &rw.rec, int32(rw.rec.Offset-b.BaseOffset()), base)
	}
	return rw.scratch, nil
}
