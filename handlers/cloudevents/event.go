// Package cloudevents reads and writes events of the CloudEvents specification
// 1.0.2: what their attributes may hold, the JSON format, and the values of HTTP
// headers in binary mode. It does no I/O and knows nothing of records.
package cloudevents

import (
	"bytes"
	"cmp"
	"slices"
)

// SpecVersion is the only version that is read and written.
const SpecVersion = "1.0"

// Event is one event. Its slices may alias what it was read from.
type Event struct {
	// Attributes are all but datacontenttype; after Check in one order whatever order
	// they were given in: the core ones first, then the extensions by name.
	Attributes []Attribute
	// ContentType is datacontenttype; nil: the event has none.
	ContentType []byte
	Form        DataForm
	Data        []byte // nil only for NoData
	// Faults are what keeps it from being an event.
	Faults []Fault

	types   typeCache
	scratch []byte
}

// Attribute is one context attribute in its canonical string encoding.
type Attribute struct {
	Name, Value []byte
	// Bare: a Boolean or an Integer, which stands in JSON without quotes.
	Bare bool
}

// DataForm is how an event's data stand in the JSON format.
type DataForm uint8

const (
	// NoData: neither data nor data_base64.
	NoData DataForm = iota
	// JSONData is one JSON text, the value of the member data; null is a value.
	JSONData
	// TextData is UTF-8 text, the string in the member data.
	TextData
	// BinaryData are bytes, as base64 in data_base64.
	BinaryData
)

// Fault says what is wrong with one member of an event, "" being the event itself.
type Fault struct {
	Member, Detail string
	// Malformed: it breaks a rule of JSON or of HTTP headers, not one of CloudEvents.
	Malformed bool
}

// Reset empties the event for the next one.
func (e *Event) Reset() {
	e.Attributes, e.Faults = e.Attributes[:0], nil
	e.ContentType, e.Data, e.Form = nil, nil, NoData
	e.scratch = e.scratch[:0]
}

// maxKeptScratch bounds what a reset event holds on to, in bytes.
const maxKeptScratch = 1 << 20

// Release lets go of everything that the event aliases.
func (e *Event) Release() {
	e.Reset()
	clear(e.Attributes[:cap(e.Attributes)])
	if cap(e.scratch) > maxKeptScratch {
		e.scratch = nil
	}
}

// Add gives the event an attribute. datacontenttype is the ContentType.
func (e *Event) Add(name, value []byte, bare bool) {
	if string(name) == "datacontenttype" {
		e.ContentType = nonNil(value)
		return
	}
	e.Attributes = append(e.Attributes, Attribute{name, nonNil(value), bare})
}

// Get is an attribute's value, nil when the event has none of that name.
func (e *Event) Get(name string) []byte {
	for i := range e.Attributes {
		if string(e.Attributes[i].Name) == name {
			return e.Attributes[i].Value
		}
	}
	return nil
}

// MessageID appends what tells the event from every other one: source, a space and
// id. A source, as a URI-reference, holds no space, so two pairs never give one text.
func (e *Event) MessageID(dst []byte) []byte {
	dst = append(dst, e.Get("source")...)
	dst = append(dst, ' ')
	return append(dst, e.Get("id")...)
}

// Key is what events that belong together share: partitionkey, else subject, else nil.
func (e *Event) Key() []byte {
	if key := e.Get("partitionkey"); key != nil {
		return key
	}
	return e.Get("subject")
}

// required are the attributes that every event has.
var required = [...]string{"specversion", "id", "source", "type"}

// Check puts the attributes into their order and notes every fault of theirs.
func (e *Event) Check() {
	e.sort()
	for _, name := range required {
		if e.Get(name) == nil && !e.noted(name) {
			e.fault(name, "It is missing: every event has one.")
		}
	}
	for i := range e.Attributes {
		a := &e.Attributes[i]
		if text := AttributeFault(a.Name, a.Value); text != "" {
			e.fault(string(a.Name), text)
		}
		if i > 0 && bytes.Equal(a.Name, e.Attributes[i-1].Name) {
			e.fault(string(a.Name), "It is given more than once.")
		}
	}
	if e.ContentType != nil {
		if text := e.types.fault(e.ContentType); text != "" {
			e.fault("datacontenttype", text)
		}
	}
}

// Salvage is Check for what nobody can be told to mend: attributes that can't be
// some are left out. It reports whether what is left is an event.
func (e *Event) Salvage() bool {
	e.sort()
	kept := e.Attributes[:0]
	for i := range e.Attributes {
		a := e.Attributes[i]
		if n := len(kept); n > 0 && bytes.Equal(kept[n-1].Name, a.Name) || !ValidName(a.Name) || AttributeFault(a.Name, a.Value) != "" {
			continue
		}
		kept = append(kept, a)
	}
	e.Attributes = kept
	if e.ContentType != nil && e.types.fault(e.ContentType) != "" {
		e.ContentType = nil
	}
	for _, name := range required {
		if e.Get(name) == nil {
			return false
		}
	}
	return true
}

// SetBare marks the extensions that names lists, separated by spaces, as far as their
// text can stand without quotes. Both are in order, as Check leaves attributes: a name
// that isn't is passed over. The attributes must have been put in order.
func (e *Event) SetBare(names []byte) {
	rest := e.Attributes
	for name := range bytes.SplitSeq(names, []byte{' '}) {
		if !IsExtension(name) {
			continue
		}
		for len(rest) > 0 && (!IsExtension(rest[0].Name) || bytes.Compare(rest[0].Name, name) < 0) {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return
		}
		if at := &rest[0]; bytes.Equal(at.Name, name) && IsBare(at.Value) {
			at.Bare = true
		}
	}
}

func (e *Event) sort() {
	slices.SortStableFunc(e.Attributes, func(a, b Attribute) int {
		return cmp.Or(cmp.Compare(rank(a.Name), rank(b.Name)), bytes.Compare(a.Name, b.Name))
	})
}

// rank is the place of a core attribute; extensions come behind them.
func rank(name []byte) int {
	switch string(name) {
	case "specversion":
		return 0
	case "id":
		return 1
	case "source":
		return 2
	case "type":
		return 3
	case "subject":
		return 4
	case "time":
		return 5
	case "dataschema":
		return 6
	}
	return 7
}

// maxFaults bounds the faults of one event: more than anybody reads.
const maxFaults = 100

func (e *Event) fault(member, detail string) {
	if len(e.Faults) < maxFaults {
		e.Faults = append(e.Faults, Fault{Member: member, Detail: detail})
	}
}

// Malformed notes a fault that breaks a rule of JSON or of HTTP headers.
func (e *Event) Malformed(member, detail string) {
	if len(e.Faults) < maxFaults {
		e.Faults = append(e.Faults, Fault{member, detail, true})
	}
}

// noted says that a fault of the member is known already.
func (e *Event) noted(member string) bool {
	return slices.ContainsFunc(e.Faults, func(f Fault) bool { return f.Member == member })
}

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
