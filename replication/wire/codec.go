package wire

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Heads of fetches, big endian; str8 is a length byte and so many bytes.
//
//	FetchRequest
//	version u16 | flags u8 (1: full, 2: ahead) | cluster id str8 | replica i32 | broker epoch i64 |
//	fetcher i32 | seq i64 | metadata index u64 | max wait ms i32 | min bytes i32 | max bytes i32 |
//	n u32, n × { topic 16 | partition i32 | leader epoch i32 | offset i64 | last epoch i32 |
//	             log start i64 | max bytes i32 } |
//	m u32, m × { topic 16 | partition i32 }
//
//	FetchResponse
//	version u16 | code str8 |
//	n u32, n × { topic 16 | partition i32 | code str8 | leader epoch i32 | leader i32 |
//	             high watermark i64 | log start i64 | leader end i64 |
//	             flags u8 (1: diverging) | [ epoch i32 | end offset i64 ] | batch bytes u32 }
//
// The payload of a response is the batches of its partitions, one after the other.

const (
	requestPartitionBytes = 16 + 4 + 4 + 8 + 8 + 4 + 8 + 4
	topicPartitionBytes   = 16 + 4
	// leastResponsePartitionBytes is one without a code and divergence.
	leastResponsePartitionBytes = 16 + 4 + 1 + 4 + 4 + 8 + 8 + 8 + 1 + 4

	flagFull      = 1
	flagAhead     = 2
	flagDiverging = 1
)

// AppendHead appends the encoded request.
func (r *FetchRequest) AppendHead(dst []byte) []byte {
	be := binary.BigEndian
	dst = be.AppendUint16(dst, uint16(r.Version))
	flags := byte(0)
	if r.Full {
		flags |= flagFull
	}
	if r.Ahead {
		flags |= flagAhead
	}
	dst = append(dst, flags)
	dst = appendString8(dst, r.ClusterID)
	dst = be.AppendUint32(dst, uint32(r.Replica))
	dst = be.AppendUint64(dst, uint64(r.BrokerEpoch))
	dst = be.AppendUint32(dst, uint32(r.Fetcher))
	dst = be.AppendUint64(dst, uint64(r.Seq))
	dst = be.AppendUint64(dst, r.MetadataIndex)
	dst = be.AppendUint32(dst, uint32(r.MaxWaitMs))
	dst = be.AppendUint32(dst, uint32(r.MinBytes))
	dst = be.AppendUint32(dst, uint32(r.MaxBytes))
	dst = be.AppendUint32(dst, uint32(len(r.Partitions)))
	for i := range r.Partitions {
		p := &r.Partitions[i]
		dst = appendTopicPartition(dst, p.TopicPartition)
		dst = be.AppendUint32(dst, uint32(p.LeaderEpoch))
		dst = be.AppendUint64(dst, uint64(p.Offset))
		dst = be.AppendUint64(dst, uint64(p.From))
		dst = be.AppendUint32(dst, uint32(p.LastEpoch))
		dst = be.AppendUint64(dst, uint64(p.LogStart))
		dst = be.AppendUint32(dst, uint32(p.MaxBytes))
	}
	dst = be.AppendUint32(dst, uint32(len(r.Forgotten)))
	for _, tp := range r.Forgotten {
		dst = appendTopicPartition(dst, tp)
	}
	return dst
}

// Payload is nil.
func (r *FetchRequest) Payload() [][]byte { return nil }

// Decode reads an encoded request. Errors: ErrMalformed, *VersionError.
func (r *FetchRequest) Decode(head, payload []byte) error {
	d := decoder{b: head}
	version, flags := int(d.u16()), byte(0)
	if d.bad {
		return d.end("fetch request", payload)
	}
	if err := CheckVersion(version); err != nil {
		return err
	}
	*r = FetchRequest{Version: version}
	flags = d.u8()
	r.Full, r.Ahead = flags&flagFull != 0, flags&flagAhead != 0
	r.ClusterID = string(d.string8())
	r.Replica = d.i32()
	r.BrokerEpoch = d.i64()
	r.Fetcher = d.i32()
	r.Seq = d.i64()
	r.MetadataIndex = uint64(d.i64())
	r.MaxWaitMs, r.MinBytes, r.MaxBytes = d.i32(), d.i32(), d.i32()
	if n := d.count(requestPartitionBytes); n > 0 {
		r.Partitions = make([]FetchPartition, n)
		for i := range r.Partitions {
			r.Partitions[i] = FetchPartition{TopicPartition: d.topicPartition(), LeaderEpoch: d.i32(), Offset: d.i64(), From: d.i64(),
				LastEpoch: d.i32(), LogStart: d.i64(), MaxBytes: d.i32()}
		}
	}
	if n := d.count(topicPartitionBytes); n > 0 {
		r.Forgotten = make([]TopicPartition, n)
		for i := range r.Forgotten {
			r.Forgotten[i] = d.topicPartition()
		}
	}
	if flags&^(flagFull|flagAhead) != 0 {
		d.bad = true
	}
	return d.end("fetch request", payload)
}

// AppendHead appends the encoded response without the batches.
func (r *FetchResponse) AppendHead(dst []byte) []byte {
	be := binary.BigEndian
	dst = be.AppendUint16(dst, uint16(r.Version))
	dst = appendString8(dst, string(r.Code))
	dst = be.AppendUint32(dst, uint32(len(r.Partitions)))
	for i := range r.Partitions {
		p := &r.Partitions[i]
		dst = appendTopicPartition(dst, p.TopicPartition)
		dst = appendString8(dst, string(p.Code))
		dst = be.AppendUint32(dst, uint32(p.LeaderEpoch))
		dst = be.AppendUint32(dst, uint32(p.Leader))
		dst = be.AppendUint64(dst, uint64(p.HighWatermark))
		dst = be.AppendUint64(dst, uint64(p.LogStart))
		dst = be.AppendUint64(dst, uint64(p.LeaderEnd))
		if d := p.Diverging; d != nil {
			dst = append(dst, flagDiverging)
			dst = be.AppendUint32(dst, uint32(d.Epoch))
			dst = be.AppendUint64(dst, uint64(d.EndOffset))
		} else {
			dst = append(dst, 0)
		}
		if len(p.Batches) > math.MaxUint32 {
			panic("wire: 4 GiB of batches of one partition")
		}
		dst = be.AppendUint32(dst, uint32(len(p.Batches)))
	}
	return dst
}

// Payload is the batches, as they are.
func (r *FetchResponse) Payload() [][]byte {
	var out [][]byte
	for i := range r.Partitions {
		if b := r.Partitions[i].Batches; len(b) > 0 {
			out = append(out, b)
		}
	}
	return out
}

// Decode reads an encoded response; its batches alias payload. Errors:
// ErrMalformed, *VersionError.
func (r *FetchResponse) Decode(head, payload []byte) error {
	d := decoder{b: head}
	version := int(d.u16())
	if d.bad {
		return d.end("fetch response", nil)
	}
	if err := CheckVersion(version); err != nil {
		return err
	}
	*r = FetchResponse{Version: version, Code: d.code()}
	if n := d.count(leastResponsePartitionBytes); n > 0 {
		r.Partitions = make([]FetchedPartition, n)
		for i := range r.Partitions {
			p := &r.Partitions[i]
			*p = FetchedPartition{TopicPartition: d.topicPartition(), Code: d.code(), LeaderEpoch: d.i32(), Leader: d.i32(),
				HighWatermark: d.i64(), LogStart: d.i64(), LeaderEnd: d.i64()}
			switch d.u8() {
			case 0:
			case flagDiverging:
				p.Diverging = &EpochEnd{Epoch: d.i32(), EndOffset: d.i64()}
			default:
				d.bad = true
			}
			p.Batches, payload = d.cut(payload)
		}
	}
	return d.end("fetch response", payload)
}

func appendString8(dst []byte, s string) []byte {
	if len(s) > math.MaxUint8 {
		panic("wire: a name of more than 255 bytes")
	}
	return append(append(dst, byte(len(s))), s...)
}

func appendTopicPartition(dst []byte, tp TopicPartition) []byte {
	dst = append(dst, tp.Topic[:]...)
	return binary.BigEndian.AppendUint32(dst, uint32(tp.Partition))
}

// decoder reads a head. What isn't there reads as zero and is told by end.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n int) []byte {
	if d.bad || len(d.b) < n {
		d.bad = true
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) u8() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) u16() uint16 {
	if b := d.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (d *decoder) i32() int32 {
	if b := d.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (d *decoder) i64() int64 {
	if b := d.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (d *decoder) string8() []byte { return d.take(int(d.u8())) }

// code reads a Code; those that are known cost no allocation.
func (d *decoder) code() Code {
	b := d.string8()
	if len(b) == 0 {
		return OK
	}
	for _, c := range &codes {
		if string(c) == string(b) {
			return c
		}
	}
	return Code(b)
}

func (d *decoder) topicPartition() (tp TopicPartition) {
	copy(tp.Topic[:], d.take(len(tp.Topic)))
	tp.Partition = d.i32()
	return tp
}

// count reads the length of a list whose elements take at least so many bytes
// each: one that can't be there is refused before anything is allocated for it.
func (d *decoder) count(least int) int {
	n := uint32(d.i32())
	if d.bad || int64(n)*int64(least) > int64(len(d.b)) {
		d.bad = true
		return 0
	}
	return int(n)
}

// cut reads a length and takes so much off the payload.
func (d *decoder) cut(payload []byte) (out, rest []byte) {
	n := uint32(d.i32())
	if d.bad || int64(n) > int64(len(payload)) {
		d.bad = true
		return nil, payload
	}
	if n == 0 {
		return nil, payload
	}
	return payload[:n:n], payload[n:]
}

// end is nil when everything was there, and nothing else.
func (d *decoder) end(what string, payload []byte) error {
	switch {
	case d.bad:
		return fmt.Errorf("%w: %s", ErrMalformed, what)
	case len(d.b) > 0:
		return fmt.Errorf("%w: %d bytes after a %s", ErrMalformed, len(d.b), what)
	case len(payload) > 0:
		return fmt.Errorf("%w: %d bytes of payload after a %s", ErrMalformed, len(payload), what)
	}
	return nil
}
