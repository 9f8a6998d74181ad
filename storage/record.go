package storage

import (
	"encoding/binary"
	"errors"
)

// Record is one record of a batch. Its slices alias the batch (or the
// decompressed copy of it) and are valid as long as that is.
type Record struct {
	// Offset is the record's offset in its partition. It is ignored by
	// BatchBuilder.Append: offsets are given by the log.
	Offset int64
	// Timestamp is in milliseconds since the Unix epoch.
	Timestamp int64
	// Attributes holds RecordFlag bits. Kafka leaves the byte unused and its
	// readers skip it.
	Attributes RecordFlag
	// Key is nil for "no key"; an empty, non-nil key is a key.
	Key []byte
	// Value is nil for a tombstone; an empty, non-nil value is a value.
	Value []byte
	// Headers keep the order in which they were given; names may repeat.
	Headers []Header
}

// Header is a record header. A nil Value is Kafka's null header value.
type Header struct {
	Key   []byte
	Value []byte
}

// RecordFlag bits are facts about the record's bytes that were proved when it
// was produced, so that a fetch need not prove them again. A cleared bit means
// "not known", never "no": records written by another Kafka tool have none.
type RecordFlag uint8

const (
	// FlagValueJSON: the value is one strict JSON text (RFC 8259, no repeated
	// member, valid UTF-8, depth within the limit) with no white space around it.
	FlagValueJSON RecordFlag = 1 << 0
	// FlagValueOneLine: the value holds neither CR nor LF, so line framing
	// (NDJSON, SSE) may copy it as it is.
	FlagValueOneLine RecordFlag = 1 << 1
	// FlagValueBinary: the producer gave the value as bytes and not as text (data_base64
	// of a CloudEvent), and readers who can tell the two apart get it so.
	FlagValueBinary RecordFlag = 1 << 2
)

// errRecordMalformed is wrapped into a CorruptError by whoever knows the place.
var errRecordMalformed = errors.New("storage: malformed record")

// appendRecord encodes r as offset delta `offsetDelta` of a batch whose base
// timestamp is baseTimestamp:
//
//	length varint | attributes int8 | timestampDelta varlong | offsetDelta varint
//	keyLength varint (-1 null) | key | valueLength varint (-1 null) | value
//	headerCount varint | { keyLength varint | key | valueLength varint | value }*
func appendRecord(dst []byte, r *Record, offsetDelta int32, baseTimestamp int64) []byte {
	timestampDelta := r.Timestamp - baseTimestamp
	body := 1 + varintLen(timestampDelta) + varintLen(int64(offsetDelta)) +
		bytesFieldLen(r.Key) + bytesFieldLen(r.Value) + varintLen(int64(len(r.Headers)))
	for i := range r.Headers {
		body += varintLen(int64(len(r.Headers[i].Key))) + len(r.Headers[i].Key) + bytesFieldLen(r.Headers[i].Value)
	}
	dst = binary.AppendVarint(dst, int64(body))
	dst = append(dst, byte(r.Attributes))
	dst = binary.AppendVarint(dst, timestampDelta)
	dst = binary.AppendVarint(dst, int64(offsetDelta))
	dst = appendBytesField(dst, r.Key)
	dst = appendBytesField(dst, r.Value)
	dst = binary.AppendVarint(dst, int64(len(r.Headers)))
	for i := range r.Headers {
		dst = binary.AppendVarint(dst, int64(len(r.Headers[i].Key)))
		dst = append(dst, r.Headers[i].Key...)
		dst = appendBytesField(dst, r.Headers[i].Value)
	}
	return dst
}

// decodeRecord reads one record from src into r (reusing r.Headers) and returns
// the rest of src.
func decodeRecord(src []byte, r *Record, baseOffset, baseTimestamp int64) ([]byte, error) {
	length, n := varint(src)
	if n <= 0 || length < 0 || length > int64(len(src)-n) {
		return nil, errRecordMalformed
	}
	body, rest := src[n:n+int(length)], src[n+int(length):]
	if len(body) < 1 {
		return nil, errRecordMalformed
	}
	r.Attributes = RecordFlag(body[0])
	body = body[1:]

	timestampDelta, n := varint(body)
	if n <= 0 {
		return nil, errRecordMalformed
	}
	body = body[n:]
	offsetDelta, n := varint(body)
	if n <= 0 || offsetDelta < 0 || offsetDelta > maxInt32 {
		return nil, errRecordMalformed
	}
	body = body[n:]
	r.Offset = baseOffset + offsetDelta
	r.Timestamp = baseTimestamp + timestampDelta

	var err error
	if r.Key, body, err = takeBytesField(body); err != nil {
		return nil, err
	}
	if r.Value, body, err = takeBytesField(body); err != nil {
		return nil, err
	}
	headerCount, n := varint(body)
	// Each header takes two bytes at least: a count above that is a lie, and
	// must not size an allocation.
	if n <= 0 || headerCount < 0 || headerCount > int64(len(body)-n)/2 {
		return nil, errRecordMalformed
	}
	body = body[n:]
	r.Headers = r.Headers[:0]
	for range headerCount {
		var h Header
		if h.Key, body, err = takeBytesField(body); err != nil {
			return nil, err
		}
		if h.Key == nil {
			return nil, errRecordMalformed
		}
		if h.Value, body, err = takeBytesField(body); err != nil {
			return nil, err
		}
		r.Headers = append(r.Headers, h)
	}
	if len(body) != 0 {
		return nil, errRecordMalformed
	}
	return rest, nil
}

// varint is binary.Varint, with short cuts for one and two bytes: nearly every
// field of a record has no more.
func varint(b []byte) (int64, int) {
	if len(b) > 1 {
		if b[0] < 0x80 {
			return int64(b[0]>>1) ^ -int64(b[0]&1), 1
		}
		if b[1] < 0x80 {
			u := uint16(b[0]&0x7f) | uint16(b[1])<<7
			return int64(u>>1) ^ -int64(u&1), 2
		}
	}
	return binary.Varint(b)
}

const maxInt32 = 1<<31 - 1

func varintLen(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	n := 1
	for u >= 0x80 {
		u >>= 7
		n++
	}
	return n
}

// bytesFieldLen is the encoded size of a nullable byte string.
func bytesFieldLen(b []byte) int {
	if b == nil {
		return 1
	}
	return varintLen(int64(len(b))) + len(b)
}

func appendBytesField(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 1) // varint -1
	}
	dst = binary.AppendVarint(dst, int64(len(b)))
	return append(dst, b...)
}

func takeBytesField(src []byte) (field, rest []byte, err error) {
	length, n := varint(src)
	switch {
	case n <= 0 || length < -1 || length > int64(len(src)-n):
		return nil, nil, errRecordMalformed
	case length == -1:
		return nil, src[n:], nil
	}
	end := n + int(length)
	return src[n:end:end], src[end:], nil
}
