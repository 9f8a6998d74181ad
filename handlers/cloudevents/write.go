package cloudevents

import (
	"encoding/base64"

	"github.com/go-json-experiment/json/jsontext"
)

// AppendJSON appends the event in the JSON format. It must be without fault.
func (e *Event) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	for i := range e.Attributes {
		a := &e.Attributes[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '"')
		dst = append(dst, a.Name...)
		dst = append(dst, '"', ':')
		if a.Bare {
			dst = append(dst, a.Value...)
		} else {
			dst = appendString(dst, a.Value)
		}
	}
	if e.ContentType != nil {
		dst = appendString(append(dst, `,"datacontenttype":`...), e.ContentType)
	}
	switch e.Form {
	case JSONData:
		dst = append(append(dst, `,"data":`...), e.Data...)
	case TextData:
		dst = appendString(append(dst, `,"data":`...), e.Data)
	case BinaryData:
		dst = append(dst, `,"data_base64":"`...)
		dst = append(base64.StdEncoding.AppendEncode(dst, e.Data), '"')
	}
	return append(dst, '}')
}

// appendString appends valid UTF-8 as a JSON string.
func appendString(dst, text []byte) []byte {
	dst, _ = jsontext.AppendQuote(dst, text) // fails on invalid UTF-8 only
	return dst
}
