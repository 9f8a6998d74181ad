package storage

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A batch on disk and on the wire is a Kafka record batch v2, field for field
// (KIP-98; https://kafka.apache.org/documentation/#recordbatch), big endian:
//
//	 0        8        12       16  17       21   23       27        35
//	+--------+--------+--------+---+--------+----+--------+---------+---------+
//	| base   | batch  | leader |mag| CRC32C |attr| last   | base    | max     |
//	| offset | length | epoch  |ic2|        |    | offset | time-   | time-   |
//	|   8    |   4    |   4    | 1 |   4    | 2  | delta 4| stamp 8 | stamp 8 |
//	+--------+--------+--------+---+--------+----+--------+---------+---------+
//	 43         51         53         57         61
//	+----------+----------+----------+----------+-----------------------------+
//	| producer | producer | base     | record   | records, compressed as a    |
//	| id    8  | epoch 2  | sequence4| count  4 | whole if attr says so       |
//	+----------+----------+----------+----------+-----------------------------+
//
// "batch length" counts the bytes after itself; the CRC covers everything from
// attr to the end, so base offset and leader epoch can be stamped by the
// partition leader without touching what the producer's broker sealed.
const (
	offBaseOffset    = 0
	offBatchLength   = 8
	offLeaderEpoch   = 12
	offMagic         = 16
	offCRC           = 17
	offAttributes    = 21
	offLastDelta     = 23
	offBaseTimestamp = 27
	offMaxTimestamp  = 35
	offProducerID    = 43
	offProducerEpoch = 51
	offBaseSequence  = 53
	offRecordCount   = 57

	// BatchHeaderSize is the size in bytes of a batch without its records.
	BatchHeaderSize = 61
	// batchLogOverhead is the part of the header that batch length doesn't count.
	batchLogOverhead = 12

	batchMagic = 2
	// MaxBatchSize bounds a batch in bytes. A length field above it is taken for
	// damage, so that it never sizes an allocation.
	MaxBatchSize = 256 << 20
)

// Attribute bits of a batch.
const (
	attrCompressionMask = 0x07
	attrLogAppendTime   = 0x08
	attrTransactional   = 0x10
	attrControl         = 0x20
	attrDeleteHorizon   = 0x40 // KIP-534: the base timestamp is the time from which on tombstones may go
	// attrAppendTime: records have message ids, or the batch a producer, and the base
	// timestamp is the broker's time of the append. Kafka leaves bits 7 to 15 unused.
	attrAppendTime = 0x0100
)

// castagnoli is CRC-32C's table; it is read-only.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// NoProducer is the producer id of a batch that has none.
const NoProducer = -1

// Batch is one whole, sealed record batch. The zero Batch is invalid; get one
// from BatchBuilder.Seal or ParseBatch.
type Batch []byte

// ParseBatch takes the first batch of src after checking everything that can be
// checked without decoding records: magic, length, counts and CRC. It returns
// the rest of src. The error is a *CorruptError without a path.
func ParseBatch(src []byte) (b Batch, rest []byte, err error) {
	size, err := batchSize(src)
	if err != nil {
		return nil, nil, err
	}
	if size > len(src) {
		return nil, nil, &CorruptError{Reason: fmt.Sprintf("batch of %d bytes is cut off after %d", size, len(src))}
	}
	b = Batch(src[:size:size])
	if err := b.check(); err != nil {
		return nil, nil, err
	}
	return b, src[size:], nil
}

// batchSize reads the size of the batch that starts at src, which must hold at
// least a header.
func batchSize(src []byte) (int, error) {
	if len(src) < BatchHeaderSize {
		return 0, &CorruptError{Reason: fmt.Sprintf("%d bytes are no batch header", len(src))}
	}
	length := int32(binary.BigEndian.Uint32(src[offBatchLength:]))
	size := int64(length) + batchLogOverhead
	if length < BatchHeaderSize-batchLogOverhead || size > MaxBatchSize {
		return 0, &CorruptError{Reason: fmt.Sprintf("impossible batch length %d", length)}
	}
	if magic := src[offMagic]; magic != batchMagic {
		return 0, &CorruptError{Reason: fmt.Sprintf("magic byte is %d, not %d", magic, batchMagic)}
	}
	return int(size), nil
}

func (b Batch) check() error {
	if want, got := b.storedCRC(), b.computeCRC(); want != got {
		return &CorruptError{Reason: fmt.Sprintf("CRC32C is %08x, header says %08x", got, want)}
	}
	switch {
	case b.BaseOffset() < 0:
		return &CorruptError{Reason: fmt.Sprintf("negative base offset %d", b.BaseOffset())}
	case b.RecordCount() < 0 || b.lastOffsetDelta() < max(b.RecordCount()-1, 0):
		return &CorruptError{Reason: fmt.Sprintf("%d records up to offset delta %d", b.RecordCount(), b.lastOffsetDelta())}
	case b.BaseOffset() > maxInt64-int64(b.lastOffsetDelta())-1:
		return &CorruptError{Reason: fmt.Sprintf("base offset %d overflows", b.BaseOffset())}
	}
	return nil
}

const maxInt64 = 1<<63 - 1

// Size is the size of the batch in bytes, header and all, as its header says.
func (b Batch) Size() int {
	return int(int32(binary.BigEndian.Uint32(b[offBatchLength:]))) + batchLogOverhead
}

// BaseOffset is the offset of the batch's first record.
func (b Batch) BaseOffset() int64 { return int64(binary.BigEndian.Uint64(b[offBaseOffset:])) }

// LastOffset is the offset of the batch's last record.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.lastOffsetDelta()) }

// NextOffset is LastOffset()+1.
func (b Batch) NextOffset() int64 { return b.LastOffset() + 1 }

// LeaderEpoch is the epoch of the leader that appended the batch.
func (b Batch) LeaderEpoch() int32 { return int32(binary.BigEndian.Uint32(b[offLeaderEpoch:])) }

// Sparse tells that not every offset of the batch has a record: some were compacted away.
func (b Batch) Sparse() bool { return b.RecordCount() <= b.lastOffsetDelta() }

// RecordCount is the number of records; 0 only where compaction has left none.
func (b Batch) RecordCount() int32 { return int32(binary.BigEndian.Uint32(b[offRecordCount:])) }

// BaseTimestamp is the timestamp in ms from which records count theirs.
func (b Batch) BaseTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[offBaseTimestamp:])) }

// MaxTimestamp is the largest timestamp of the batch in ms.
func (b Batch) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[offMaxTimestamp:])) }

// ProducerID is the idempotent producer's id, or NoProducer.
func (b Batch) ProducerID() int64 { return int64(binary.BigEndian.Uint64(b[offProducerID:])) }

// ProducerEpoch is the idempotent producer's epoch, or -1.
func (b Batch) ProducerEpoch() int16 { return int16(binary.BigEndian.Uint16(b[offProducerEpoch:])) }

// BaseSequence is the sequence number of the first record, or -1.
func (b Batch) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(b[offBaseSequence:])) }

// Compression is the codec of the records.
func (b Batch) Compression() Compression { return Compression(b.attributes() & attrCompressionMask) }

// LogAppendTime says that every record's timestamp is MaxTimestamp, the leader's time of the append.
func (b Batch) LogAppendTime() bool { return b.attributes()&attrLogAppendTime != 0 }

// Marked tells that the batch holds message ids or has a producer, and that its base
// timestamp was the broker's time of the append. Other batches are never remembered.
func (b Batch) Marked() bool { return b.attributes()&attrAppendTime != 0 }

func (b Batch) attributes() int16      { return int16(binary.BigEndian.Uint16(b[offAttributes:])) }
func (b Batch) lastOffsetDelta() int32 { return int32(binary.BigEndian.Uint32(b[offLastDelta:])) }
func (b Batch) storedCRC() uint32      { return binary.BigEndian.Uint32(b[offCRC:]) }
func (b Batch) computeCRC() uint32     { return crc32.Checksum(b[offAttributes:], castagnoli) }

// stamp gives the batch its place in the log. The CRC doesn't cover these fields.
func (b Batch) stamp(baseOffset int64, leaderEpoch int32) {
	binary.BigEndian.PutUint64(b[offBaseOffset:], uint64(baseOffset))
	binary.BigEndian.PutUint32(b[offLeaderEpoch:], uint32(leaderEpoch))
}

// stampAppendTime turns the batch's timestamps into the leader's append time
// (message.timestamp.type=LogAppendTime) and renews the CRC.
func (b Batch) stampAppendTime(ms int64) {
	binary.BigEndian.PutUint16(b[offAttributes:], uint16(b.attributes()|attrLogAppendTime))
	binary.BigEndian.PutUint64(b[offMaxTimestamp:], uint64(ms))
	binary.BigEndian.PutUint32(b[offCRC:], b.computeCRC())
}

// Records walks over the batch's records; see RecordIterator.
func (b Batch) Records() (RecordIterator, error) {
	body := []byte(b[BatchHeaderSize:])
	if c := b.Compression(); c != CompressionNone && b.RecordCount() > 0 {
		plain, err := c.decompress(body)
		if err != nil {
			return RecordIterator{}, &CorruptError{Reason: fmt.Sprintf("%s records: %v", c, err)}
		}
		body = plain
	}
	it := RecordIterator{body: body, left: b.RecordCount(), baseOffset: b.BaseOffset(), baseTimestamp: b.BaseTimestamp(), last: b.LastOffset()}
	if b.LogAppendTime() {
		it.appendTime, it.hasAppendTime = b.MaxTimestamp(), true
	}
	return it, nil
}

// RecordIterator yields the records of one batch in offset order.
type RecordIterator struct {
	body          []byte
	left          int32
	baseOffset    int64
	baseTimestamp int64
	last          int64
	appendTime    int64
	hasAppendTime bool
	err           error
}

// Next decodes the next record into r and reports whether there was one. When
// it returns false, Err tells whether the batch ended or is malformed.
func (it *RecordIterator) Next(r *Record) bool {
	if it.err != nil {
		return false
	}
	if it.left == 0 {
		if len(it.body) != 0 {
			it.err = &CorruptError{Reason: fmt.Sprintf("%d bytes after the last record", len(it.body))}
		}
		return false
	}
	rest, err := decodeRecord(it.body, r, it.baseOffset, it.baseTimestamp)
	if err != nil {
		it.err = &CorruptError{Reason: fmt.Sprintf("%d records before the batch's end: %v", it.left, err)}
		return false
	}
	if r.Offset > it.last {
		it.err = &CorruptError{Reason: fmt.Sprintf("record offset %d is past the batch's last, %d", r.Offset, it.last)}
		return false
	}
	if it.hasAppendTime {
		r.Timestamp = it.appendTime
	}
	it.body = rest
	it.left--
	return true
}

// Err is nil when Next returned false because the batch ended.
func (it *RecordIterator) Err() error { return it.err }
