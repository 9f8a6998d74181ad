package handlers

// payloadFormat says how the bytes of a key or a value stand in JSON. It is what
// the query parameters key_format and value_format choose.
type payloadFormat uint8

const (
	// formatString: a JSON string that holds the bytes as UTF-8 text.
	formatString payloadFormat = iota
	// formatJSON: the bytes are JSON text and stand there as they are.
	formatJSON
	// formatBinary: a JSON string with the base64 (RFC 4648 §4) of the bytes.
	formatBinary
)

// recordFormat is the representation of one record in an answer.
type recordFormat struct {
	key, value payloadFormat
	// native records are lossless: what doesn't fit its format is given in
	// another one, named by key_encoding and value_encoding. The others (the
	// vnd.kafka types) give null and say what happened in decode_error.
	native bool
	// overridden: the client chose a format that is not the native default, so
	// the encoding is named for every record, or posting it back would change it.
	keyOverridden, valueOverridden bool
	// oneLine removes line breaks inside JSON values (NDJSON, SSE). They are white
	// space there, for a JSON string can't hold one unescaped.
	oneLine bool
	// event: each record is a CloudEvent, and nothing of the above counts.
	event bool
}

// Names of the encodings in key_encoding and value_encoding.
const (
	encodingText   = "text"
	encodingBase64 = "base64"
	encodingJSON   = "json"
)

// nativeFormat, vndJSONFormat, … are the defaults of the media types.
func nativeFormat() recordFormat {
	return recordFormat{key: formatString, value: formatJSON, native: true}
}
func vndJSONFormat() recordFormat   { return recordFormat{key: formatJSON, value: formatJSON} }
func vndBinaryFormat() recordFormat { return recordFormat{key: formatBinary, value: formatBinary} }
func vndTextFormat() recordFormat   { return recordFormat{key: formatString, value: formatString} }
func eventFormat() recordFormat     { return recordFormat{event: true} }

// withKey and withValue are f after key_format=… and value_format=….
func (f recordFormat) withKey(p payloadFormat) recordFormat {
	f.keyOverridden = f.native && p != formatString
	f.key = p
	return f
}

func (f recordFormat) withValue(p payloadFormat) recordFormat {
	f.valueOverridden = f.native && p != formatJSON
	f.value = p
	return f
}

// tag names the format inside an ETag: two representations of the same records
// must not share one.
func (f recordFormat) tag() string {
	if f.event {
		return "event"
	}
	t := [...]byte{'v', "sjb"[f.key], "sjb"[f.value], 'a'}
	if f.native {
		t[0] = 'n'
	}
	if f.oneLine {
		t[3] = 'l'
	}
	return string(t[:])
}
