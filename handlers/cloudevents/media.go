package cloudevents

import (
	"mime"
	"strings"
)

// mediaKind is what a datacontenttype says about how data stand in the JSON format.
type mediaKind struct {
	known bool // it is a media type
	json  bool // */json or */*+json
	text  bool // people read it
	// charset is what a string must be encoded in.
	charset charset
}

// maxMediaBytes bounds a media type: far more than any has, and little to remember.
const maxMediaBytes = 4096

type charset uint8

const (
	charsetUTF8 charset = iota // or none is named
	charsetASCII
	charsetOther // which nobody here can write
)

// typeCache remembers the last type that was looked at: events mostly have the same.
type typeCache struct {
	last string
	kind mediaKind
}

func (c *typeCache) of(contentType []byte) mediaKind {
	if contentType == nil || string(contentType) == "application/json" {
		return mediaKind{known: true, json: true} // none means JSON in the JSON format
	}
	if len(contentType) > maxMediaBytes {
		return mediaKind{}
	}
	if c.last == "" || c.last != string(contentType) {
		c.last = string(contentType)
		c.kind = parseMedia(c.last)
	}
	return c.kind
}

// fault says why b is no media type (RFC 2046).
func (c *typeCache) fault(b []byte) string {
	if text := stringFault(b); text != "" {
		return text
	}
	if !c.of(b).known {
		return "It must be a media type, such as application/json."
	}
	return ""
}

func parseMedia(text string) mediaKind {
	name, parameters, err := mime.ParseMediaType(text)
	if err != nil || strings.Count(name, "/") != 1 || strings.HasPrefix(name, "/") || strings.HasSuffix(name, "/") {
		return mediaKind{}
	}
	kind, subtype, _ := strings.Cut(name, "/")
	k := mediaKind{known: true, json: subtype == "json" || strings.HasSuffix(subtype, "+json")}
	switch set := parameters["charset"]; {
	case set == "" || strings.EqualFold(set, "utf-8"):
	case strings.EqualFold(set, "us-ascii"):
		k.charset = charsetASCII
	default:
		k.charset = charsetOther
	}
	k.text = kind == "text" || parameters["charset"] != "" || strings.HasSuffix(subtype, "+xml") || strings.HasSuffix(subtype, "+yaml")
	switch subtype {
	case "xml", "yaml", "toml", "javascript", "x-www-form-urlencoded", "x-ndjson", "sql", "graphql", "jwt":
		k.text = true
	}
	return k
}

// fits says whether a string of this text stands for the very same bytes.
func (c charset) fits(text []byte) bool {
	switch c {
	case charsetUTF8:
		return true
	case charsetASCII:
		for _, b := range text {
			if b >= 0x80 {
				return false
			}
		}
		return true
	}
	return false
}
