package cloudevents

import (
	"bytes"
	"encoding/base64"

	"github.com/go-json-experiment/json/jsontext"
)

// maxJSONDepth bounds how deep arrays and objects may nest in data: readers are
// recursive.
const maxJSONDepth = 512

// ReadJSON reads one event of the JSON format, which dec must read from a
// *bytes.Buffer: what needs no unescaping aliases its bytes. What is JSON but no event
// is noted in Faults; the error is dec's own.
func (e *Event) ReadJSON(dec *jsontext.Decoder) error {
	e.Reset()
	if dec.PeekKind() != '{' {
		v, err := dec.ReadValue()
		if err == nil {
			e.fault("", "It is "+kindName(v.Kind())+", and must be an event, which is an object.")
		}
		return err
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	var data, data64 jsontext.Value
	for dec.PeekKind() != '}' {
		raw, err := dec.ReadValue()
		if err != nil {
			return err
		}
		name := e.unquote(raw)
		value, err := dec.ReadValue()
		switch {
		case err != nil:
			return err
		case string(name) == "data":
			data = value
		case string(name) == "data_base64":
			data64 = value
		default:
			e.readAttribute(name, value)
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	e.Check()
	e.readData(data, data64)
	return nil
}

// readAttribute takes one member over. null is the same as absent.
func (e *Event) readAttribute(name []byte, value jsontext.Value) {
	if !ValidName(name) {
		e.fault(string(name), "It can't be an attribute. "+nameRule)
		return
	}
	kind := value.Kind()
	switch {
	case kind == 'n':
	case kind == '"':
		e.Add(name, e.unquote(value), false)
	case !IsExtension(name):
		e.fault(string(name), "It is "+kindName(kind)+", and must be a string.")
	case kind == 't', kind == 'f':
		e.Add(name, value, true)
	case kind == '0':
		if !validInteger(value) {
			e.fault(string(name), "A number must be an integer of 32 bits, without fraction or exponent; anything else is a string.")
			return
		}
		e.Add(name, value, true)
	default:
		e.fault(string(name), "It is "+kindName(kind)+"; an extension is a string, a boolean or an integer.")
	}
}

// readData takes the payload over; nil: the member is absent.
func (e *Event) readData(data, data64 jsontext.Value) {
	if data64 != nil && data64.Kind() == 'n' {
		data64 = nil
	}
	switch {
	case data != nil && data64 != nil:
		e.fault("data_base64", "An event has either data or data_base64.")
	case data64 != nil:
		e.readBase64(data64)
	case data != nil:
		e.readValue(data)
	}
}

func (e *Event) readBase64(value jsontext.Value) {
	if value.Kind() != '"' {
		e.fault("data_base64", "It is "+kindName(value.Kind())+", and must be a string of base64.")
		return
	}
	text := e.unquote(value)
	start := len(e.scratch)
	out, err := base64.StdEncoding.Strict().AppendDecode(e.scratch, text)
	if err != nil || bytes.ContainsAny(text, "\r\n") { // which the decoder skips
		e.fault("data_base64", "It is no base64 (RFC 4648, section 4, with padding).")
		return
	}
	e.scratch = out
	e.Form, e.Data = BinaryData, nonNil(out[start:len(out):len(out)])
}

func (e *Event) readValue(value jsontext.Value) {
	kind := e.types.of(e.ContentType)
	if kind.json || !kind.known {
		if depth(value) > maxJSONDepth {
			e.Malformed("data", "It nests deeper than 512 levels.")
			return
		}
		if !kind.charset.fits(value) {
			e.fault("data", "Its characters can't be written in the charset of datacontenttype: send the bytes as data_base64.")
			return
		}
		e.Form, e.Data = JSONData, value
		return
	}
	if value.Kind() != '"' {
		e.fault("data", "It is "+kindName(value.Kind())+", and must be a string, as datacontenttype is no JSON.")
		return
	}
	text := e.unquote(value)
	if !kind.charset.fits(text) {
		e.fault("data", "Its characters can't be written in the charset of datacontenttype: send the bytes as data_base64.")
		return
	}
	e.Form, e.Data = TextData, text
}

// unquote is the text of a JSON string that the decoder found valid: a slice of it,
// or of scratch when it holds escapes.
func (e *Event) unquote(raw jsontext.Value) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return nonNil(raw[1 : len(raw)-1 : len(raw)-1])
	}
	start := len(e.scratch)
	e.scratch, _ = jsontext.AppendUnquote(e.scratch, []byte(raw))
	return nonNil(e.scratch[start:len(e.scratch):len(e.scratch)])
}

// depth is how deep the JSON text nests; without a scan where it can't be too deep.
func depth(b []byte) int {
	if len(b) <= 2*maxJSONDepth || bytes.Count(b, []byte{'['})+bytes.Count(b, []byte{'{'}) <= maxJSONDepth {
		return 0
	}
	open, deepest, inString := 0, 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '[', c == '{':
			open++
			deepest = max(deepest, open)
		case c == ']', c == '}':
			open--
		}
	}
	return deepest
}

func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return "no JSON value"
}
