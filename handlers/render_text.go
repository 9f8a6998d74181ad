package handlers

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// maxJSONDepth bounds how deep arrays and objects may nest in what clients send
// and in what a fetch gives out as JSON. Parsers of clients are recursive, and
// ours must not be asked to be.
const maxJSONDepth = 512

// appendJSONString appends s, which must be valid UTF-8, as a JSON string. Only
// what RFC 8259 demands is escaped: every code point stays what it is, with no
// escaping for HTML, and the string holds no CR or LF, so it may stand in a line.
func appendJSONString[T string | []byte](dst []byte, s T) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// isJSONText reports whether b is exactly one JSON text that may stand in an
// answer as it is: strict (RFC 8259 and no repeated member, valid UTF-8, no lone
// surrogate), no white space around it, at most maxJSONDepth deep.
func isJSONText(b []byte) bool {
	if len(b) == 0 || isJSONSpace(b[0]) || isJSONSpace(b[len(b)-1]) {
		return false
	}
	switch c := b[0]; {
	case c == '{', c == '[', c == '"', c == '-', c >= '0' && c <= '9', c == 't', c == 'f', c == 'n':
	default:
		return false
	}
	return jsonDepth(b) <= maxJSONDepth && jsontext.Value(b).IsValid()
}

// jsonDepth is the deepest nesting of b if it is JSON, found without recursion.
func jsonDepth(b []byte) int {
	depth, deepest, inString := 0, 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '[', c == '{':
			depth++
			deepest = max(deepest, depth)
		case c == ']', c == '}':
			depth--
		}
	}
	return deepest
}

func isJSONSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// appendOneLine appends the JSON text b without its line breaks. In JSON a CR or
// LF is always white space between tokens; inside a string it is escaped.
func appendOneLine(dst, b []byte) []byte {
	for {
		i := bytes.IndexAny(b, "\r\n")
		if i < 0 {
			return append(dst, b...)
		}
		dst = append(dst, b[:i]...)
		b = b[i+1:]
	}
}
