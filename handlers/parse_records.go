package handlers

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"highwater/handlers/cloudevents"
	"highwater/storage"
)

// recordParser reads the records of a JSON body in one pass into a plan. Keys and
// values stay slices of the body where they can; nothing is allocated per record.
//
// Broken JSON ends the parse with a 40001. What is JSON but no good record is
// noted as a fault and the parse goes on, so that the client sees every fault.
type recordParser struct {
	*plan
	dec     jsontext.Decoder
	src     bytes.Buffer // what dec reads: the body itself, not a copy
	body    []byte
	lines   bool // NDJSON: faults name lines
	line    int  // of the record being read, from 1; only for NDJSON
	scratch []byte
	headers []storage.Header
	rec     storage.Record
	depth   int // tokens of a pointer that don't enter a record's content
	ev      cloudevents.Event
	id      []byte // of rec; nil: it has none
}

// recordsDepth is depth in {"records":[…]}: /records/3/value.
const recordsDepth = 3

func newRecordParser(p *plan, body []byte) *recordParser {
	rp := borrow[recordParser](&p.pools.parsers)
	rp.plan, rp.body, rp.depth = p, body, recordsDepth
	rp.src = *bytes.NewBuffer(body)
	rp.dec.Reset(&rp.src)
	return rp
}

func (rp *recordParser) release() {
	rp.src = bytes.Buffer{}
	rp.dec.Reset(&rp.src) // lets go of the body
	rp.ev.Release()
	clear(rp.headers[:cap(rp.headers)])
	if cap(rp.scratch) > maxPooledBody {
		rp.scratch = nil
	}
	ps := rp.pools
	rp.plan, rp.body, rp.lines, rp.line, rp.rec, rp.id = nil, nil, false, 0, storage.Record{}, nil
	ps.parsers.Put(rp)
}

// parseBatchBody reads {"records":[…]}.
func parseBatchBody(p *plan, body []byte) error {
	if err := checkEncoding(body); err != nil {
		return err
	}
	rp := newRecordParser(p, body)
	defer rp.release()
	if rp.dec.PeekKind() != '{' {
		return rp.notAnObject()
	}
	if err := rp.document(); err != nil {
		return err
	}
	if _, err := rp.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return malformed("Bytes follow the JSON document, from byte %d on. For one record a line send Content-Type: %s.", rp.dec.InputOffset(), typeNDJSON)
	}
	return rp.verdict()
}

// checkEncoding refuses what is text, but not plain UTF-8.
func checkEncoding(body []byte) error {
	switch {
	case bytes.HasPrefix(body, []byte("\xef\xbb\xbf")):
		return malformed("The body begins with a byte-order mark. The encoding must be UTF-8 without one.")
	case bytes.HasPrefix(body, []byte("\xff\xfe")), bytes.HasPrefix(body, []byte("\xfe\xff")):
		return malformed("The body is UTF-16. The encoding must be UTF-8.")
	}
	return nil
}

func (rp *recordParser) notAnObject() error {
	v, err := rp.dec.ReadValue()
	if errors.Is(err, io.EOF) {
		return malformed(`The body is empty. Send {"records":[{"value":…}]}.`)
	}
	if err != nil {
		return rp.syntax(err)
	}
	return unprocessable(`The body is %s. It must be an object: {"records":[{"value":…}]}.`, kindName(v.Kind()))
}

// document reads the outer object.
func (rp *recordParser) document() error {
	if _, err := rp.dec.ReadToken(); err != nil {
		return rp.syntax(err)
	}
	seen := false
	var producer producerFields
	for rp.dec.PeekKind() != '}' {
		name, err := rp.dec.ReadValue()
		if err != nil {
			return rp.syntax(err)
		}
		switch string(rp.memberName(name)) {
		case `"records"`:
			seen = true
			if err := rp.records(); err != nil {
				return err
			}
			continue
		case `"key_schema"`, `"value_schema"`, `"key_schema_id"`, `"value_schema_id"`:
			err = rp.onlyNull(name, "There are no schemas here: leave it out or null.")
		case `"` + memberProducerID + `"`:
			err = rp.readProducerField(0, &producer)
		case `"` + memberProducerEpoch + `"`:
			err = rp.readProducerField(1, &producer)
		case `"` + memberBaseSequence + `"`:
			err = rp.readProducerField(2, &producer)
		default:
			rp.note(fault{"/" + pointerToken(name), "Unknown member; known here: records, producer_id, producer_epoch, base_sequence.", codeUnprocessable})
			_, err = rp.dec.ReadValue()
		}
		if err != nil {
			return rp.syntax(err)
		}
	}
	if _, err := rp.dec.ReadToken(); err != nil {
		return rp.syntax(err)
	}
	rp.finishProducer(&producer)
	if !seen && rp.faultCount == 0 {
		return &requestError{code: codeUnprocessable, detail: `The member "records" is missing: {"records":[{"value":…}]}.`,
			faults: []fault{{"/records", "The member is missing.", codeUnprocessable}}}
	}
	return nil
}

func (rp *recordParser) onlyNull(name jsontext.Value, otherwise string) error {
	pointer := "/" + pointerToken(name)
	v, err := rp.dec.ReadValue()
	if err == nil && v.Kind() != 'n' {
		rp.note(fault{pointer, otherwise, codeUnprocessable})
	}
	return err
}

// records reads the array.
func (rp *recordParser) records() error {
	if k := rp.dec.PeekKind(); k != '[' {
		v, err := rp.dec.ReadValue()
		if err != nil {
			return rp.syntax(err)
		}
		rp.note(fault{"/records", "It is " + kindName(v.Kind()) + ", and must be an array of records.", codeUnprocessable})
		return nil
	}
	if _, err := rp.dec.ReadToken(); err != nil {
		return rp.syntax(err)
	}
	for rp.dec.PeekKind() != ']' {
		if err := rp.record(); err != nil {
			return err
		}
	}
	_, err := rp.dec.ReadToken()
	return rp.syntax(err)
}

// memberName is a name as it stands in the body, quotes included, with its
// escapes resolved if it has any.
func (rp *recordParser) memberName(raw jsontext.Value) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	plain, _ := jsontext.AppendUnquote([]byte{'"'}, []byte(raw)) // dec found it well-formed
	return append(plain, '"')
}

// syntax turns the decoder's error into a 40001 that says where.
func (rp *recordParser) syntax(err error) error {
	if err == nil {
		return nil
	}
	at := rp.dec.InputOffset()
	what := "unexpected end of the body"
	pointer := ""
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		at, pointer = syntactic.ByteOffset, envelopePointer(syntactic.JSONPointer, rp.depth)
		switch {
		case errors.Is(syntactic.Err, jsontext.ErrDuplicateName):
			what = "a member is repeated"
			if pointer == string(syntactic.JSONPointer) {
				what = "the member " + shown(syntactic.JSONPointer.LastToken()) + " is repeated"
			}
		case errors.Is(syntactic.Err, io.ErrUnexpectedEOF):
		default:
			what = syntaxText(syntactic.Err)
		}
	}
	if rp.lines {
		e := malformed("Line %d is no JSON record: %s (at byte %d of the body). Nothing was written.", rp.line, what, at)
		e.faults = []fault{{"/records/" + strconv.Itoa(rp.count), e.detail, codeMalformed}}
		return e
	}
	e := malformed("The body is not well-formed JSON: %s, at byte %d.", what, at)
	e.faults = []fault{{pointer, what + ", at byte " + strconv.FormatInt(at, 10) + ".", codeMalformed}}
	return e
}

// syntaxText is what the decoder says, but for the bytes it quotes of a string:
// they are a record's content.
func syntaxText(err error) string {
	text := err.Error()
	if i, j := strings.IndexByte(text, '`'), strings.LastIndexByte(text, '`'); 0 < i && i < j {
		text = text[:i] + text[j+1:]
	}
	return strings.Join(strings.Fields(text), " ")
}

// envelopePointer cuts a pointer where it would enter a record's content.
func envelopePointer(p jsontext.Pointer, depth int) string {
	out := string(p)
	for i, n := 0, 0; i < len(out); i++ {
		if out[i] == '/' {
			if n++; n > depth {
				return out[:i]
			}
		}
	}
	if len(out) > maxShownBytes {
		out = out[:maxShownBytes]
	}
	return strings.ToValidUTF8(out, "")
}

// pointerToken is a raw member name as a token of a JSON pointer.
func pointerToken(raw jsontext.Value) string {
	plain, _ := jsontext.AppendUnquote(nil, []byte(raw))
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(strings.Trim(shown(string(plain)), `"`))
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
