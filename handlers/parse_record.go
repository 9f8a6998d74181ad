package handlers

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"highwater/storage"
)

// rawRecord is a record's members as they stand in the body; nil: absent.
type rawRecord struct {
	key, value, keyEncoding, valueEncoding, partition, timestamp, id jsontext.Value
}

const recordMembers = "key, value, partition, timestamp, headers, id, key_encoding, value_encoding (topic and offset are ignored)"

// record reads one record object and puts it into the plan. It returns only what
// ends the parse.
func (rp *recordParser) record() error {
	i := rp.count
	rp.scratch, rp.headers = rp.scratch[:0], rp.headers[:0]
	if k := rp.dec.PeekKind(); k != '{' {
		v, err := rp.dec.ReadValue()
		if err != nil {
			return rp.syntax(err)
		}
		rp.bad(codeUnprocessable, "", "It is "+kindName(v.Kind())+", and must be a record object.")
		rp.count++
		return nil
	}
	if _, err := rp.dec.ReadToken(); err != nil {
		return rp.syntax(err)
	}
	var raw rawRecord
	good := true
	for rp.dec.PeekKind() != '}' {
		name, err := rp.dec.ReadValue()
		if err != nil {
			return rp.syntax(err)
		}
		var into *jsontext.Value
		switch string(rp.memberName(name)) {
		case `"value"`:
			into = &raw.value
		case `"key"`:
			into = &raw.key
		case `"headers"`:
			ok, err := rp.readHeaders()
			if err != nil {
				return rp.syntax(err)
			}
			good = good && ok
			continue
		case `"partition"`:
			into = &raw.partition
		case `"timestamp"`:
			into = &raw.timestamp
		case `"id"`:
			into = &raw.id
		case `"key_encoding"`:
			into = &raw.keyEncoding
		case `"value_encoding"`:
			into = &raw.valueEncoding
		case `"topic"`, `"offset"`: // of a record that was fetched: ignored
			into = new(jsontext.Value)
		default:
			rp.bad(codeUnprocessable, "/"+pointerToken(name), "Unknown member. Known: "+recordMembers+".")
			good, into = false, new(jsontext.Value)
		}
		if *into, err = rp.dec.ReadValue(); err != nil {
			return rp.syntax(err)
		}
	}
	if _, err := rp.dec.ReadToken(); err != nil {
		return rp.syntax(err)
	}
	partition, ok := rp.understand(&raw, i)
	rp.count++
	if !good || !ok || rp.faultCount > 0 {
		return nil
	}
	if rp.hashing {
		rp.hash.add(&rp.rec, rp.id)
		return nil
	}
	return rp.add(partition, &rp.rec, rp.id != nil)
}

// bad notes a fault of the record being read.
func (rp *recordParser) bad(c code, member, detail string) {
	if rp.lines {
		rp.faultf(c, rp.count, member, "line %d: %s", rp.line, detail)
		return
	}
	rp.faultf(c, rp.count, member, "%s", detail)
}

// understand turns the raw members into rp.rec and says where it goes.
func (rp *recordParser) understand(raw *rawRecord, i int) (partition int32, ok bool) {
	faults := rp.faultCount
	rec := &rp.rec
	rec.Attributes = 0
	rec.Key = rp.keyBytes(raw)
	rec.Value = rp.valueBytes(raw)
	rec.Timestamp = rp.now
	if raw.timestamp != nil && raw.timestamp.Kind() != 'n' {
		ms, ok := plainInteger(raw.timestamp, MaxTimestampMs)
		if !ok {
			rp.bad(codeUnprocessable, "/timestamp", "It must be a whole number of milliseconds since 1970, from 0 to 253402300799999.")
		}
		rec.Timestamp = ms
	}
	rp.id = rp.idBytes(raw, i)
	rec.Headers = rp.headers
	partition = rp.choose(raw, rp.id)
	if rp.faultCount > faults {
		return 0, false
	}
	if rp.needKey && rec.Key == nil {
		rp.bad(codeUnprocessable, "/key", "The topic is compacted (cleanup.policy): every record needs a key.")
		return 0, false
	}
	if size := recordBytes(rec); size > rp.maxRecordBytes {
		rp.bad(codeRecordTooLarge, "", tooLargeText(size, rp.maxRecordBytes))
		return 0, false
	}
	if rp.idPrefix != "" && !rp.hashing {
		rp.headers = append(rp.headers, rp.hash.header())
		rec.Headers = rp.headers
	}
	return partition, true
}

// choose picks the partition: named, by key, by id, or the request's.
func (rp *recordParser) choose(raw *rawRecord, id []byte) int32 {
	named := rp.fixed
	if raw.partition != nil && raw.partition.Kind() != 'n' {
		n, ok := plainInteger(raw.partition, 1<<31-1)
		switch {
		case !ok:
			rp.bad(codeUnprocessable, "/partition", "It must be a whole number, 0 or more.")
			return 0
		case rp.fixed != anyPartition && int32(n) != rp.fixed:
			rp.bad(codeUnprocessable, "/partition", "It differs from the partition in the path.")
			return 0
		case n >= int64(rp.partitions):
			rp.beyond = max(rp.beyond, int32(n))
			rp.bad(codeUnknownPartition, "/partition", unknownPartitionText(rp.topic, n, rp.partitions))
			return 0
		}
		named = int32(n)
	}
	switch {
	case named != anyPartition:
		return named
	case rp.rec.Key != nil:
		return partitionForKey(rp.rec.Key, rp.partitions)
	case id != nil:
		return partitionForKey(id, rp.partitions)
	}
	return rp.sticky
}

// idBytes reads the message id, stores it as a record header and returns it.
func (rp *recordParser) idBytes(raw *rawRecord, i int) []byte {
	var id []byte
	if raw.id != nil && raw.id.Kind() != 'n' {
		if raw.id.Kind() != '"' {
			rp.bad(codeUnprocessable, "/id", "It is "+kindName(raw.id.Kind())+", and must be a string.")
			return nil
		}
		id = rp.unquote(raw.id)
		if f := idFault(id); f != "" {
			rp.bad(codeUnprocessable, "/id", f)
			return nil
		}
	}
	if rp.idPrefix != "" {
		if id != nil {
			rp.bad(codeUnprocessable, "/id", "The request has an Idempotency-Key, which gives every record its id: send one of the two.")
			return nil
		}
		id = rp.prefixedID(i)
	}
	if id != nil {
		rp.headers = append(rp.headers, storage.Header{Key: idHeaderBytes, Value: id})
	}
	return id
}

// keyBytes is the key to store; nil for none.
func (rp *recordParser) keyBytes(raw *rawRecord) []byte {
	format, ok := rp.encoding(raw.keyEncoding, "/key_encoding", rp.key)
	if !ok || raw.key == nil || raw.key.Kind() == 'n' {
		return nil
	}
	if format == formatJSON {
		rp.deepEnough(raw.key, "/key")
		return raw.key
	}
	if raw.key.Kind() != '"' {
		rp.bad(codeUnprocessable, "/key", "A key must be a string here, and this one is "+kindName(raw.key.Kind())+". With ?key_format=json any JSON is a key.")
		return nil
	}
	return rp.stringOrBinary(raw.key, format, "/key")
}

// valueBytes is the value to store; nil for a tombstone.
func (rp *recordParser) valueBytes(raw *rawRecord) []byte {
	format, ok := rp.encoding(raw.valueEncoding, "/value_encoding", rp.value)
	switch {
	case !ok:
		return nil
	case raw.value == nil:
		rp.bad(codeUnprocessable, "/value", `The member "value" is missing. For a tombstone send "value":null.`)
		return nil
	case raw.value.Kind() == 'n':
		return nil
	case format == formatJSON:
		rp.deepEnough(raw.value, "/value")
		rp.rec.Attributes = storage.FlagValueJSON
		if !hasLineBreak(raw.value) {
			rp.rec.Attributes |= storage.FlagValueOneLine
		}
		return raw.value
	case raw.value.Kind() != '"':
		rp.bad(codeUnprocessable, "/value", "A value must be a string in this format, and this one is "+kindName(raw.value.Kind())+".")
		return nil
	}
	return rp.stringOrBinary(raw.value, format, "/value")
}

func (rp *recordParser) stringOrBinary(raw jsontext.Value, format payloadFormat, member string) []byte {
	text := rp.unquote(raw)
	if format == formatString {
		return text
	}
	start := len(rp.scratch)
	out, ok := parseBase64(rp.scratch, text)
	if !ok {
		rp.bad(codeUnprocessable, member, "It is no base64 (RFC 4648, section 4, with padding).")
		return nil
	}
	rp.scratch = out
	return nonNil(out[start:len(out):len(out)])
}

// encoding is what key_encoding or value_encoding says, def without one.
func (rp *recordParser) encoding(raw jsontext.Value, member string, def payloadFormat) (payloadFormat, bool) {
	if raw == nil {
		return def, true
	}
	switch string(raw) {
	case "null":
		return def, true
	case `"` + encodingText + `"`:
		return formatString, true
	case `"` + encodingBase64 + `"`:
		return formatBinary, true
	case `"` + encodingJSON + `"`:
		return formatJSON, true
	}
	rp.bad(codeUnprocessable, member, `It must be "text", "base64" or "json".`)
	return def, false
}

// deepEnough refuses JSON that readers could not parse.
func (rp *recordParser) deepEnough(v jsontext.Value, member string) {
	if len(v) > 2*maxJSONDepth && bytes.Count(v, []byte{'['})+bytes.Count(v, []byte{'{'}) > maxJSONDepth && jsonDepth(v) > maxJSONDepth {
		rp.bad(codeMalformed, member, "It nests deeper than 512 levels.")
	}
}

// unquote is the text of a JSON string that the decoder found valid: a slice of
// the body, or of scratch when it holds escapes. It is never nil.
func (rp *recordParser) unquote(raw jsontext.Value) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return nonNil(raw[1 : len(raw)-1 : len(raw)-1])
	}
	start := len(rp.scratch)
	rp.scratch, _ = jsontext.AppendUnquote(rp.scratch, []byte(raw))
	return nonNil(rp.scratch[start:len(rp.scratch):len(rp.scratch)])
}

// plainInteger reads a JSON number written as digits alone, from 0 to most.
func plainInteger(v jsontext.Value, most int64) (int64, bool) {
	const longest = 15 // digits of the largest that anybody asks for
	if v.Kind() != '0' || len(v) > longest {
		return 0, false
	}
	n := int64(0)
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, n <= most
}

func hasLineBreak(b []byte) bool {
	return bytes.IndexByte(b, '\n') >= 0 || bytes.IndexByte(b, '\r') >= 0
}

// nonNil keeps an empty key or value from being taken for none.
func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
