package handlers

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"highwater/storage"
)

// recordRenderer appends records of one partition in one representation. It
// keeps no reference to what it rendered and allocates nothing per record. It
// serves one goroutine.
type recordRenderer struct {
	format recordFormat
	// prefix is everything of a record object up to its offset.
	prefix []byte
	offset decimal
	// stamp is everything between offset and key: records of a batch mostly share
	// their timestamp.
	stamp     []byte
	timestamp int64          // in stamp
	events    *eventRenderer // of the event format, else nil
}

func newRecordRenderer(f recordFormat, topic string, partition int32) *recordRenderer {
	if f.event {
		return &recordRenderer{format: f, events: &eventRenderer{topic: topic, partition: partition}}
	}
	prefix := make([]byte, 0, len(topic)+48)
	prefix = appendJSONString(append(prefix, `{"topic":`...), topic)
	prefix = append(prefix, `,"partition":`...)
	prefix = strconv.AppendInt(prefix, int64(partition), 10)
	return &recordRenderer{format: f, prefix: append(prefix, `,"offset":`...)}
}

// append appends r as one JSON object. It never fails: bytes that don't fit the
// format are given in another way (see recordFormat).
func (rr *recordRenderer) append(dst []byte, r *storage.Record) []byte {
	if rr.events != nil {
		return rr.events.append(dst, r)
	}
	dst = append(dst, rr.prefix...)
	dst = rr.offset.append(dst, r.Offset)
	if r.Timestamp != rr.timestamp || rr.stamp == nil {
		rr.timestamp = r.Timestamp
		rr.stamp = append(rr.stamp[:0], `,"timestamp":`...)
		rr.stamp = strconv.AppendInt(rr.stamp, r.Timestamp, 10)
		rr.stamp = append(rr.stamp, `,"key":`...)
	}
	dst = append(dst, rr.stamp...)

	f := &rr.format
	dst, keyAs := f.appendPayload(dst, f.keyForm(r.Key), r.Key, 0)
	keyFault := false
	if !f.evident(f.key, keyAs, f.keyOverridden) {
		dst, keyFault = appendEncoding(dst, "key", r.Key, keyAs)
	}
	dst = append(dst, `,"value":`...)
	dst, valueAs := f.appendPayload(dst, f.value, r.Value, r.Attributes)
	valueFault := false
	if !f.evident(f.value, valueAs, f.valueOverridden) {
		dst, valueFault = appendEncoding(dst, "value", r.Value, valueAs)
	}
	if keyFault || valueFault {
		dst = f.appendDecodeError(dst, keyFault, valueFault)
	}
	if len(r.Headers) == 0 {
		return append(dst, `,"headers":[]}`...)
	}
	id := recordID(r)
	dst = appendHeaders(dst, r.Headers, id)
	if id >= 0 {
		dst = append(dst, `,"id":`...)
		dst = appendJSONString(dst, r.Headers[id].Value)
	}
	return append(dst, '}')
}

// keyForm is how a key is given: as the format says, but a JSON key with line breaks
// is text where lines must be kept. Without them it would be another key.
func (f *recordFormat) keyForm(key []byte) payloadFormat {
	if f.oneLine && f.key == formatJSON && bytes.ContainsAny(key, "\r\n") {
		return formatString
	}
	return f.key
}

// rendered says in which form a payload was given.
type rendered uint8

const (
	asNull   rendered = iota // no key, or a tombstone
	asText                   // a string of the bytes' text
	asJSON                   // the bytes as they are
	asBase64                 // a string of the bytes' base64
	asMisfit                 // null, because the bytes don't fit a vnd format
)

// appendPayload appends a key or value as JSON and tells how it did it. flags
// are the record's for a value, 0 for a key.
func (f *recordFormat) appendPayload(dst []byte, want payloadFormat, b []byte, flags storage.RecordFlag) ([]byte, rendered) {
	if b == nil {
		return append(dst, "null"...), asNull
	}
	switch want {
	case formatJSON:
		// The four bytes "null" are a value, but as JSON they would read as a tombstone.
		if (flags&storage.FlagValueJSON != 0 || isJSONText(b)) && string(b) != "null" {
			if f.oneLine && flags&storage.FlagValueOneLine == 0 {
				return appendOneLine(dst, b), asJSON
			}
			return append(dst, b...), asJSON
		}
	case formatString:
		if utf8.Valid(b) {
			return appendJSONString(dst, b), asText
		}
	case formatBinary:
		return appendBase64(dst, b), asBase64
	}
	switch {
	case !f.native:
		return append(dst, "null"...), asMisfit
	case want == formatJSON && utf8.Valid(b):
		return appendJSONString(dst, b), asText
	default:
		return appendBase64(dst, b), asBase64
	}
}

// evident says that a reader who knows the format knows the form of a payload.
func (f *recordFormat) evident(want payloadFormat, as rendered, overridden bool) bool {
	switch {
	case as == asNull:
		return true
	case as == asMisfit:
		return false
	case !f.native:
		return true
	}
	return !overridden && (as == asText && want == formatString || as == asJSON)
}

// appendEncoding appends the member that names the form of a payload, or gives
// the bytes that don't fit; it reports whether they don't.
func appendEncoding(dst []byte, member string, b []byte, as rendered) (out []byte, misfit bool) {
	dst = append(dst, `,"`...)
	dst = append(dst, member...)
	if as == asMisfit {
		dst = append(dst, `_base64":`...)
		return appendBase64(dst, b), true
	}
	dst = append(dst, `_encoding":"`...)
	dst = append(dst, [...]string{asText: encodingText, asJSON: encodingJSON, asBase64: encodingBase64}[as]...)
	return append(dst, '"'), false
}

// appendDecodeError says why a vnd record has null in place of bytes.
func (f *recordFormat) appendDecodeError(dst []byte, key, value bool) []byte {
	reason := func(dst []byte, name string, want payloadFormat) []byte {
		dst = append(dst, name...)
		if want == formatString {
			return append(dst, " is not UTF-8 text"...)
		}
		return append(dst, " is not a JSON text other than null"...)
	}
	dst = append(dst, `,"decode_error":"`...)
	if key {
		dst = reason(dst, "key", f.key)
	}
	if key && value {
		dst = append(dst, "; "...)
	}
	if value {
		dst = reason(dst, "value", f.value)
	}
	return append(dst, '"')
}

// recordID is the index of the header that carries the record's message id, or -1.
func recordID(r *storage.Record) int {
	for i := range r.Headers {
		h := &r.Headers[i]
		if string(h.Key) == idHeader && h.Value != nil && utf8.Valid(h.Value) {
			return i
		}
	}
	return -1
}

// hidden tells that a header is the broker's own and no client's matter.
func hidden(h *storage.Header) bool {
	return len(h.Value) == requestHashBytes && string(h.Key) == requestHeader
}

// appendHeaders appends the member "headers" with all headers but the one at skip and
// those that are hidden.
// A null header value is null; a name that isn't UTF-8 (no produce lets one in,
// but other tools write segments too) is given as base64 with "key_encoding".
func appendHeaders(dst []byte, headers []storage.Header, skip int) []byte {
	dst = append(dst, `,"headers":[`...)
	first := true
	for i := range headers {
		h := &headers[i]
		if i == skip || hidden(h) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, `{"key":`...)
		if utf8.Valid(h.Key) {
			dst = appendJSONString(dst, h.Key)
		} else {
			dst = appendBase64(dst, h.Key)
			dst = append(dst, `,"key_encoding":"base64"`...)
		}
		dst = append(dst, `,"value":`...)
		if h.Value == nil {
			dst = append(dst, "null}"...)
			continue
		}
		dst = append(appendBase64(dst, h.Value), '}')
	}
	return append(dst, ']')
}

func appendBase64(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}
