package storage

import (
	"encoding/binary"
	"errors"

	"highwater/storage/dedupe"
)

// ErrBatchTooLarge is returned by Seal for a batch above MaxBatchSize.
var ErrBatchTooLarge = errors.New("storage: batch is larger than 256 MiB")

// BatchBuilder encodes records, one by one, into one batch. The zero value is
// ready; it is not safe for concurrent use.
type BatchBuilder struct {
	// AppendTime is the broker's time in ms, if the log is to remember the batch's message
	// ids and producer: it becomes the base timestamp of every batch, and batches that
	// have such a thing are marked. Set it before the first Append. 0: no batch is marked.
	AppendTime int64
	// KeepFacts has Facts tell of the batches that are marked. Set it before the first Append.
	KeepFacts bool

	buf           []byte
	count         int32
	baseTimestamp int64
	maxTimestamp  int64
	hasID         bool // some record has a message id
	messages      []dedupe.Message
	facts         *Facts
	reader        *factsReader
}

// smallMessage is about what a small record with an id takes in a batch, in bytes.
const smallMessage = 160

// Facts are what a log remembers of a batch. Who has them needn't read the batch again.
type Facts = dedupe.Batch

// NewBatchBuilder builds into buf's memory, which the sealed batch keeps.
func NewBatchBuilder(buf []byte) *BatchBuilder { return &BatchBuilder{buf: buf[:0]} }

// Append adds a copy of r. Its offset is ignored.
func (b *BatchBuilder) Append(r *Record) {
	if b.count == 0 {
		if cap(b.buf) < BatchHeaderSize {
			b.buf = make([]byte, 0, 512)
		}
		b.buf = b.buf[:BatchHeaderSize]
		b.baseTimestamp, b.maxTimestamp = r.Timestamp, r.Timestamp
		if b.AppendTime != 0 {
			b.baseTimestamp = b.AppendTime
		}
	}
	if id := messageIDOf(r); id != nil {
		b.hasID = true
		b.keepMessage(r)
	}
	b.maxTimestamp = max(b.maxTimestamp, r.Timestamp)
	b.buf = appendRecord(b.buf, r, b.count, b.baseTimestamp)
	b.count++
}

// keepMessage notes what the log will remember of a record with an id.
func (b *BatchBuilder) keepMessage(r *Record) {
	if !b.KeepFacts {
		return
	}
	if b.messages == nil {
		b.messages = make([]dedupe.Message, 0, 1+cap(b.buf)/smallMessage)
		b.reader = factsReaders.Get().(*factsReader)
	}
	m, _ := b.reader.message(r, b.count)
	b.messages = append(b.messages, m)
}

// Len is the number of records so far.
func (b *BatchBuilder) Len() int { return int(b.count) }

// Size is the encoded size so far in bytes, before compression.
func (b *BatchBuilder) Size() int { return len(b.buf) }

// Producer is what an idempotent producer stamps on a batch.
type Producer struct {
	ID           int64
	Epoch        int16
	BaseSequence int32
}

// Seal writes the header and returns the batch: base offset 0 and leader epoch
// 0 until the log stamps them. The builder is empty afterwards and no longer
// owns the memory. p may be nil. Seal of no records panics: an empty batch
// can't be told from damage.
func (b *BatchBuilder) Seal(c Compression, p *Producer) (Batch, error) {
	if b.count == 0 {
		panic("storage: Seal of an empty batch")
	}
	buf, count := b.buf, b.count
	attributes := uint16(c)
	marked := b.AppendTime != 0 && (b.hasID || p != nil)
	if marked {
		attributes |= attrAppendTime
	}
	messages := b.messages
	if b.reader != nil {
		factsReaders.Put(b.reader)
		b.reader = nil
	}
	b.buf, b.count, b.hasID, b.messages, b.facts = nil, 0, false, nil, nil
	if c != CompressionNone {
		packed, err := c.compress(make([]byte, BatchHeaderSize, BatchHeaderSize+len(buf)/2), buf[BatchHeaderSize:])
		if err != nil {
			return nil, err
		}
		buf = packed
	}
	if len(buf) > MaxBatchSize {
		return nil, ErrBatchTooLarge
	}
	if p == nil {
		p = &Producer{ID: NoProducer, Epoch: -1, BaseSequence: -1}
	}
	h := buf[:BatchHeaderSize]
	clear(h)
	binary.BigEndian.PutUint32(h[offBatchLength:], uint32(len(buf)-batchLogOverhead))
	h[offMagic] = batchMagic
	binary.BigEndian.PutUint16(h[offAttributes:], attributes)
	binary.BigEndian.PutUint32(h[offLastDelta:], uint32(count-1))
	binary.BigEndian.PutUint64(h[offBaseTimestamp:], uint64(b.baseTimestamp))
	binary.BigEndian.PutUint64(h[offMaxTimestamp:], uint64(b.maxTimestamp))
	binary.BigEndian.PutUint64(h[offProducerID:], uint64(p.ID))
	binary.BigEndian.PutUint16(h[offProducerEpoch:], uint16(p.Epoch))
	binary.BigEndian.PutUint32(h[offBaseSequence:], uint32(p.BaseSequence))
	binary.BigEndian.PutUint32(h[offRecordCount:], uint32(count))
	sealed := Batch(buf)
	binary.BigEndian.PutUint32(h[offCRC:], sealed.computeCRC())
	if marked && b.KeepFacts {
		b.facts = sealed.facts()
		b.facts.Messages = messages
	}
	return sealed, nil
}

// Facts are those of the batch that was sealed last, or nil. They are the caller's.
func (b *BatchBuilder) Facts() *Facts { return b.facts }
