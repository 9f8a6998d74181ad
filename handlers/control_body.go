package handlers

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// maxControlBody bounds the body of a request that manages something.
const maxControlBody = 1 << 20

// controlBody reads the small JSON object that manages something, as strictly as
// a produce: exact members, none twice, nothing after it. Faults of its content
// are collected; err tells all of them.
type controlBody struct {
	members []controlMember // in the order of the body
	faults  []fault
	now     time.Time // what relative times count from
	absent  bool      // there was no body, and it was allowed not to be
}

type controlMember struct {
	name  string
	value jsontext.Value
}

// controlBody reads r's body; known are the members that it may have. An empty
// body is an object without members if that is allowed.
func (a *api) controlBody(w http.ResponseWriter, r *http.Request, emptyAllowed bool, known ...string) (*controlBody, error) {
	media, err := contentType(r)
	if err != nil {
		return nil, err
	}
	body, err := a.readBody(w, r, maxControlBody)
	if err != nil {
		return nil, err
	}
	defer body.release()
	if emptyAllowed && len(body.data) == 0 {
		return &controlBody{now: a.cfg.Now(), absent: true}, nil
	}
	if err := acceptedTypes(media, []string{"", typeJSON, typeKafka, typeKafkaJSON}, "With curl send JSON by --json instead of -d."); err != nil {
		return nil, err
	}
	c, err := parseControlBody(bytes.Clone(body.data))
	if err != nil {
		return nil, err
	}
	c.now = a.cfg.Now()
	for _, m := range c.members {
		if i := indexString(known, m.name); i < 0 {
			c.faultf("/"+pointerEscape(m.name), "Unknown member. Known here: %s.", strings.Join(known, ", "))
		}
	}
	return c, nil
}

func indexString(list []string, s string) int {
	for i := range list {
		if list[i] == s {
			return i
		}
	}
	return -1
}

// parseControlBody splits an object into its members.
func parseControlBody(data []byte) (*controlBody, error) {
	if err := checkEncoding(data); err != nil {
		return nil, err
	}
	members, kind, err := splitObject(data)
	switch {
	case err != nil:
		return nil, err
	case kind != '{':
		return nil, unprocessable("The body is %s. It must be an object.", kindName(kind))
	}
	return &controlBody{members: members}, nil
}

// splitObject checks that data is one JSON text and, if that is an object, splits
// it into its members. Errors are 40001 with the place.
func splitObject(data []byte) ([]controlMember, jsontext.Kind, error) {
	if jsonDepth(data) > maxJSONDepth {
		return nil, 0, malformed("The body nests deeper than %d levels.", maxJSONDepth)
	}
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	whole, err := dec.ReadValue()
	if err != nil {
		return nil, 0, controlSyntax(err, int64(len(data)))
	}
	whole = whole.Clone()
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, 0, malformed("Bytes follow the JSON document, from byte %d on.", dec.InputOffset())
	}
	if whole.Kind() != '{' {
		return nil, whole.Kind(), nil
	}
	members, err := objectMembers(whole)
	return members, '{', err
}

// objectMembers splits a JSON object that was found valid.
func objectMembers(object jsontext.Value) ([]controlMember, error) {
	var out []controlMember
	dec := jsontext.NewDecoder(bytes.NewReader(object))
	if _, err := dec.ReadToken(); err != nil {
		return nil, controlSyntax(err, dec.InputOffset())
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, controlSyntax(err, dec.InputOffset())
		}
		text := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			return nil, controlSyntax(err, dec.InputOffset())
		}
		out = append(out, controlMember{text, value.Clone()})
	}
	return out, nil
}

// controlSyntax says what is wrong with JSON that ends at the byte end.
func controlSyntax(err error, end int64) error {
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF):
		return malformed("The body is empty; a JSON object must stand there.")
	case errors.As(err, &syntactic) && errors.Is(syntactic.Err, jsontext.ErrDuplicateName):
		return malformed("The body is not well-formed JSON: the member %s is repeated, at byte %d.", shown(syntactic.JSONPointer.LastToken()), syntactic.ByteOffset)
	case errors.As(err, &syntactic) && !errors.Is(syntactic.Err, io.ErrUnexpectedEOF):
		return malformed("The body is not well-formed JSON: %s, at byte %d.", syntaxText(syntactic.Err), syntactic.ByteOffset)
	}
	return malformed("The body is not well-formed JSON: unexpected end of the body, at byte %d.", end)
}

func (c *controlBody) faultf(pointer, format string, args ...any) {
	f := unprocessable(format, args...)
	c.faults = append(c.faults, fault{pointer: pointer, detail: f.detail, code: codeUnprocessable})
}

// err is nil, or a 42201 with every fault.
func (c *controlBody) err() error {
	if len(c.faults) == 0 {
		return nil
	}
	first := c.faults[0]
	detail := first.detail
	if first.pointer != "" { // "" is the whole body
		detail = first.pointer + ": " + detail
	}
	if n := len(c.faults) - 1; n > 0 {
		detail += " (and " + strconv.Itoa(n) + " more)"
	}
	return &requestError{code: codeUnprocessable, detail: detail, faults: c.faults}
}

// value is a member's JSON, nil when it is absent.
func (c *controlBody) value(name string) jsontext.Value {
	for i := range c.members {
		if c.members[i].name == name {
			return c.members[i].value
		}
	}
	return nil
}

// integer is a whole number from low to high, def when it is absent or null.
func (c *controlBody) integer(name string, def, low, high int64) int64 {
	v := c.value(name)
	if v == nil || v.Kind() == 'n' {
		return def
	}
	n, ok := int64(0), false
	if v.Kind() == '0' {
		n, ok = parseInteger(string(v))
	}
	if !ok || n < low || n > high {
		c.faultf("/"+name, "It must be a whole number from %d to %d, without a fraction or exponent.", low, high)
		return def
	}
	return n
}

// text is a string, "" when it is absent.
func (c *controlBody) text(name string) string {
	v := c.value(name)
	if v == nil {
		return ""
	}
	if v.Kind() != '"' {
		c.faultf("/"+name, "It is %s, and must be a string.", kindName(v.Kind()))
		return ""
	}
	return unquoted(v)
}

// configs reads a topic's configs: an object, or a list of {"name","value"}. A
// value is text; numbers and booleans are taken by their spelling. null stands
// for "the default" (a nil pointer).
func (c *controlBody) configs(name string) map[string]*string {
	v := c.value(name)
	if v == nil || v.Kind() == 'n' {
		return nil
	}
	out := map[string]*string{}
	switch v.Kind() {
	case '{':
		members, err := objectMembers(v)
		if err != nil {
			panic(err) // it was found valid
		}
		for _, m := range members {
			c.config(out, "/"+name+"/"+pointerEscape(m.name), m.name, m.value)
		}
	case '[':
		c.configList(out, "/"+name, v)
	default:
		c.faultf("/"+name, `It is %s, and must be an object {"name":"value"} or a list [{"name":…,"value":…}].`, kindName(v.Kind()))
	}
	return out
}

func (c *controlBody) configList(out map[string]*string, pointer string, list jsontext.Value) {
	dec := jsontext.NewDecoder(bytes.NewReader(list))
	if _, err := dec.ReadToken(); err != nil {
		panic(err) // it was found valid
	}
	for i := 0; dec.PeekKind() != ']'; i++ {
		v, err := dec.ReadValue()
		if err != nil {
			panic(err) // it was found valid
		}
		at := pointer + "/" + strconv.Itoa(i)
		if v.Kind() != '{' {
			c.faultf(at, `It must be {"name":…,"value":…}.`)
			continue
		}
		members, err := objectMembers(v.Clone())
		if err != nil {
			panic(err) // it was found valid
		}
		entry := &controlBody{members: members}
		known := entry.value("name") != nil && entry.value("value") != nil && len(members) == 2
		if !known || entry.value("name").Kind() != '"' {
			c.faultf(at, `It must be {"name":…,"value":…}, the name a string.`)
			continue
		}
		c.config(out, at+"/value", unquoted(entry.value("name")), entry.value("value"))
	}
}

func (c *controlBody) config(out map[string]*string, pointer, name string, v jsontext.Value) {
	if _, twice := out[name]; twice {
		c.faultf(pointer, "The config %s is given twice.", shown(name))
		return
	}
	switch v.Kind() {
	case 'n':
		out[name] = nil
	case '"':
		text := unquoted(v)
		out[name] = &text
	case '0', 't', 'f':
		text := string(v)
		out[name] = &text
	default:
		c.faultf(pointer, "It is %s, and must be a string.", kindName(v.Kind()))
	}
}

// unquoted is the text of a valid JSON string.
func unquoted(v jsontext.Value) string {
	text, err := jsontext.AppendUnquote(nil, []byte(v))
	if err != nil {
		panic(err) // it was found valid
	}
	return string(text)
}

// pointerEscape makes a member name a token of a JSON pointer, cut to a bounded
// length.
func pointerEscape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(shownBare(name))
}
