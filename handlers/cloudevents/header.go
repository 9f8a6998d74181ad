package cloudevents

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// HeaderPrefix begins the names of the HTTP headers that hold attributes, in the
// canonical form of net/http.
const HeaderPrefix = "Ce-"

// AddHeader gives the event the attribute of one HTTP header of binary mode (HTTP
// binding, 3.1.3): name is the header's without its prefix.
func (e *Event) AddHeader(name, value string) {
	name = strings.ToLower(name)
	switch {
	case name == "datacontenttype":
		e.Malformed(name, "In binary mode datacontenttype is the Content-Type of the request.")
		return
	case !ValidName([]byte(name)):
		e.Malformed(name, "It can't be an attribute. "+nameRule)
		return
	}
	plain, text := decodeHeader([]byte(value))
	if text != "" {
		e.Malformed(name, text)
		return
	}
	e.Add([]byte(name), plain, false)
}

// decodeHeader undoes what a header's value was encoded with: being a quoted string, as
// of older senders, then percent escapes, once (HTTP binding, 3.1.3.2). UTF-8 that is
// not escaped is taken as it is: it can mean nothing else, and SDKs send it.
func decodeHeader(value []byte) (plain []byte, fault string) {
	for _, c := range value {
		if c < 0x20 || c == 0x7f {
			return nil, "The header holds a control character."
		}
	}
	if bytes.IndexByte(value, '"') >= 0 {
		if value, fault = unquoteHeader(value); fault != "" {
			return nil, fault
		}
	}
	plain = make([]byte, 0, len(value))
	for i := 0; i < len(value); i++ {
		c := value[i]
		if c == '%' {
			if i+2 >= len(value) || unhex(value[i+1]) < 0 || unhex(value[i+2]) < 0 {
				return nil, "The header holds a % without two hexadecimal digits; a % of the value itself is %25."
			}
			c = byte(unhex(value[i+1])<<4 | unhex(value[i+2]))
			i += 2
		}
		plain = append(plain, c)
	}
	if !utf8.Valid(plain) {
		return nil, "The header is no UTF-8 after percent-decoding."
	}
	return plain, ""
}

// unquoteHeader resolves a value that is one quoted string (RFC 7230, 3.2.6). Other
// quotes could be meant either way.
func unquoteHeader(value []byte) ([]byte, string) {
	const ambiguous = `The header holds a " and is no quoted string as a whole; a " of the value itself is %22.`
	last := len(value) - 1
	if last < 1 || value[0] != '"' || value[last] != '"' {
		return nil, ambiguous
	}
	out := make([]byte, 0, last)
	for i := 1; i < last; i++ {
		switch c := value[i]; {
		case c == '"', c == '\\' && i+1 == last:
			return nil, ambiguous
		case c == '\\':
			i++
			out = append(out, value[i])
		default:
			out = append(out, c)
		}
	}
	return out, ""
}

// SetBody takes the body of a request in binary mode for the data. What no body says
// of itself follows from the type: none, or a JSON one, with an empty body is no data,
// for nothing is no JSON text. isJSON says whether a text is JSON that may stand in an
// answer as it is.
func (e *Event) SetBody(body []byte, isJSON func([]byte) bool) {
	kind := e.types.of(e.ContentType)
	switch {
	case len(body) == 0 && kind.json:
	case e.ContentType == nil, !kind.json && !kind.text:
		e.Form, e.Data = BinaryData, body
	default:
		e.Recall(body, isJSON)
	}
}

// Recall takes stored bytes, nil for none, for the data of the event, in the form that
// its type asks for, and base64 where they don't fit it.
func (e *Event) Recall(data []byte, isJSON func([]byte) bool) {
	kind := e.types.of(e.ContentType)
	e.Data = data
	switch {
	case data == nil:
		e.Form = NoData
	case kind.json && isJSON(data):
		e.Form = JSONData
	case !kind.json && kind.known && utf8.Valid(data) && kind.charset.fits(data):
		e.Form = TextData
	default:
		e.Form = BinaryData
	}
}
