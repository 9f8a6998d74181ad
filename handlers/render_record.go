package handlers

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"highwater/storage"
)

// recordRenderer appends records of one partition in one representation. It
// keeps no reference to what it rendered and allocates nothing per record.
type recordRenderer struct {
	format recordFormat
	// prefix is everything of a record object up to its offset.
	prefix []byte
}

func newRecordRenderer(f recordFormat, topic string, partition int32) *recordRenderer {
	prefix := appendJSONString([]byte(`{"topic":`), topic)
	prefix = append(prefix, `,"partition":`...)
	prefix = strconv.AppendInt(prefix, int64(partition), 10)
	prefix = append(prefix, `,"offset":`...)
	return &recordRenderer{format: f, prefix: prefix}
}

// append appends r as one JSON object. It never fails: bytes that don't fit the
// format are given in another way (see recordFormat).
func (rr *recordRenderer) append(dst []byte, r *storage.Record) []byte {
	dst = append(dst, rr.prefix...)
	dst = strconv.AppendInt(dst, r.Offset, 10)
	dst = append(dst, `,"timestamp":`...)
	dst = strconv.AppendInt(dst, r.Timestamp, 10)

	f := &rr.format
	dst = append(dst, `,"key":`...)
	dst, keyAs := f.appendPayload(dst, f.key, r.Key, 0)
	dst, keyFault := f.appendEncoding(dst, "key", r.Key, f.key, keyAs, f.keyOverridden)
	dst = append(dst, `,"value":`...)
	dst, valueAs := f.appendPayload(dst, f.value, r.Value, r.Attributes)
	dst, valueFault := f.appendEncoding(dst, "value", r.Value, f.value, valueAs, f.valueOverridden)
	if keyFault || valueFault {
		dst = f.appendDecodeError(dst, keyFault, valueFault)
	}
	id := recordID(r)
	dst = appendHeaders(dst, r.Headers, id)
	if id >= 0 {
		dst = append(dst, `,"id":`...)
		dst = appendJSONString(dst, r.Headers[id].Value)
	}
	return append(dst, '}')
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

// appendEncoding appends the member that names the form of a payload where the
// reader couldn't know it, and reports whether the payload doesn't fit.
func (f *recordFormat) appendEncoding(dst []byte, member string, b []byte, want payloadFormat, as rendered, overridden bool) ([]byte, bool) {
	var encoding string
	switch {
	case as == asMisfit:
		dst = append(dst, `,"`...)
		dst = append(dst, member...)
		dst = append(dst, `_base64":`...)
		return appendBase64(dst, b), true
	case !f.native || as == asNull:
		return dst, false
	case as == asText && (overridden || want == formatJSON):
		encoding = encodingText
	case as == asBase64:
		encoding = encodingBase64
	case as == asJSON && overridden:
		encoding = encodingJSON
	default:
		return dst, false
	}
	dst = append(dst, `,"`...)
	dst = append(dst, member...)
	dst = append(dst, `_encoding":"`...)
	dst = append(dst, encoding...)
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

// appendHeaders appends the member "headers" with all headers but the one at skip.
// A null header value is null; a name that isn't UTF-8 (no produce lets one in,
// but other tools write segments too) is given as base64 with "key_encoding".
func appendHeaders(dst []byte, headers []storage.Header, skip int) []byte {
	dst = append(dst, `,"headers":[`...)
	first := true
	for i := range headers {
		if i == skip {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		h := &headers[i]
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
