package handlers

import (
	"github.com/go-json-experiment/json/jsontext"

	"highwater/storage"
)

// readHeaders reads [{"key":…,"value":…},…] or null. ok is false when a fault was
// noted; err ends the parse.
func (rp *recordParser) readHeaders() (ok bool, err error) {
	faults := rp.faultCount
	switch rp.dec.PeekKind() {
	case '[':
	case 'n':
		_, err = rp.dec.ReadValue()
		return true, err
	default:
		if _, err = rp.dec.ReadValue(); err == nil {
			rp.bad(codeUnprocessable, "/headers", `It must be an array of {"key":"name","value":"base64"}.`)
		}
		return false, err
	}
	if _, err = rp.dec.ReadToken(); err != nil {
		return false, err
	}
	for rp.dec.PeekKind() != ']' {
		if err = rp.readHeader(); err != nil {
			return false, err
		}
	}
	_, err = rp.dec.ReadToken()
	return rp.faultCount == faults, err
}

func (rp *recordParser) readHeader() error {
	if rp.dec.PeekKind() != '{' {
		_, err := rp.dec.ReadValue()
		if err == nil {
			rp.bad(codeUnprocessable, "/headers", `A header must be an object: {"key":"name","value":"base64"}.`)
		}
		return err
	}
	if _, err := rp.dec.ReadToken(); err != nil {
		return err
	}
	var key, value jsontext.Value
	for rp.dec.PeekKind() != '}' {
		name, err := rp.dec.ReadValue()
		if err != nil {
			return err
		}
		into := new(jsontext.Value)
		switch string(rp.memberName(name)) {
		case `"key"`:
			into = &key
		case `"value"`:
			into = &value
		default:
			rp.bad(codeUnprocessable, "/headers", "A header has an unknown member "+shown(pointerToken(name))+". Known: key, value.")
		}
		if *into, err = rp.dec.ReadValue(); err != nil {
			return err
		}
	}
	rp.addHeader(key, value)
	_, err := rp.dec.ReadToken()
	return err
}

func (rp *recordParser) addHeader(key, value jsontext.Value) {
	switch {
	case key.Kind() != '"':
		rp.bad(codeUnprocessable, "/headers", "A header's key must be a string.")
		return
	case value == nil || value.Kind() != 'n' && value.Kind() != '"':
		rp.bad(codeUnprocessable, "/headers", "A header's value must be a string of base64, or null.")
		return
	}
	h := storage.Header{Key: rp.unquote(key)}
	if reserved(h.Key) {
		rp.bad(codeUnprocessable, "/headers", "The header "+string(h.Key)+` is the broker's own: a message id is sent as the member "id".`)
		return
	}
	if value.Kind() == '"' {
		faults := rp.faultCount
		h.Value = rp.stringOrBinary(value, formatBinary, "/headers")
		if rp.faultCount > faults {
			return
		}
	}
	rp.headers = append(rp.headers, h)
}
