package cloudevents

import (
	"bytes"
	"net/netip"
	"strings"
)

// uriFault says why b is no URI-reference (RFC 3986, 4.1), or, with absolute, no URI
// (a scheme is there). The text never repeats b: it is a record's content.
func uriFault(b []byte, absolute bool) string {
	if len(b) == 0 {
		return "It can't be empty."
	}
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '%':
			if i+2 >= len(b) || unhex(b[i+1]) < 0 || unhex(b[i+2]) < 0 {
				return "It is no URI-reference: a % is not followed by two hexadecimal digits."
			}
			i += 2
		case c == ' ':
			return "It is no URI-reference: it holds a space, which is %20 there."
		case c >= 0x80:
			return "It is no URI-reference: what is not ASCII must be percent-encoded."
		case !uriByte(c):
			return "It is no URI-reference: it holds a character that must be percent-encoded."
		}
	}
	rest, fragment, _ := bytes.Cut(b, []byte{'#'})
	rest, query, _ := bytes.Cut(rest, []byte{'?'})
	if bytes.IndexByte(fragment, '#') >= 0 {
		return "It is no URI-reference: it holds more than one #."
	}
	hasScheme := false
	if i := bytes.IndexAny(rest, ":/"); i >= 0 && rest[i] == ':' {
		if !validScheme(rest[:i]) {
			return "It is no URI-reference: what stands before the first : is no scheme."
		}
		hasScheme, rest = true, rest[i+1:]
	}
	if absolute && !hasScheme {
		return "It must be a URI with its scheme."
	}
	if bytes.HasPrefix(rest, []byte("//")) {
		authority, path := rest[2:], []byte(nil)
		if i := bytes.IndexByte(authority, '/'); i >= 0 {
			authority, path = authority[:i], authority[i:]
		}
		if !validAuthority(authority) {
			return "It is no URI-reference: the host or the port after // is none."
		}
		rest = path
	}
	for _, part := range [][]byte{rest, query, fragment} {
		if bytes.ContainsAny(part, "[]") {
			return "It is no URI-reference: [ and ] must be percent-encoded."
		}
	}
	return ""
}

// uriByte: unreserved or reserved (RFC 3986, 2.2 and 2.3).
func uriByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~:/?#[]@!$&'()*+,;=", c) >= 0
}

func validScheme(b []byte) bool {
	for i, c := range b {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return len(b) > 0
}

// validAuthority: [ userinfo "@" ] host [ ":" port ].
func validAuthority(b []byte) bool {
	if i := bytes.IndexByte(b, '@'); i >= 0 {
		if bytes.ContainsAny(b[:i], "[]") {
			return false
		}
		b = b[i+1:]
	}
	host, port := b, []byte(nil)
	if bytes.HasPrefix(b, []byte{'['}) {
		end := bytes.IndexByte(b, ']')
		if end < 0 || !validLiteral(string(b[1:end])) {
			return false
		}
		if host, port = nil, b[end+1:]; len(port) > 0 && port[0] != ':' {
			return false
		}
	} else if i := bytes.IndexByte(b, ':'); i >= 0 {
		host, port = b[:i], b[i:]
	}
	if len(port) > 0 && number(port[1:]) < 0 {
		return false
	}
	return !bytes.ContainsAny(host, "[]@:")
}

// validLiteral: an IPv6 address, or an address of a version to come.
func validLiteral(text string) bool {
	if len(text) > 0 && (text[0] == 'v' || text[0] == 'V') {
		version, rest, found := strings.Cut(text[1:], ".")
		for i := range len(version) {
			if unhex(version[i]) < 0 {
				return false
			}
		}
		return found && version != "" && rest != "" && !strings.ContainsAny(rest, "%/?#[]@")
	}
	addr, err := netip.ParseAddr(text)
	return err == nil && addr.Is6() && addr.Zone() == ""
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
