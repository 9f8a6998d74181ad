package handlers

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"highwater/handlers/cloudevents"
)

// parseHeaders plans an event in binary mode.
func (e *eventRequest) parseHeaders(plan *plan, r *http.Request, body []byte) error {
	rp := newRecordParser(plan, nil)
	defer rp.release()
	ev := &rp.ev
	ev.Reset()
	var names []string
	for name := range r.Header {
		if strings.HasPrefix(name, cloudevents.HeaderPrefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names) // so that faults always come in one order
	for _, name := range names {
		for _, value := range r.Header[name] {
			ev.AddHeader(name[len(cloudevents.HeaderPrefix):], value)
		}
	}
	if lines := r.Header["Content-Type"]; len(lines) > 0 && lines[0] != "" {
		ev.ContentType = []byte(lines[0])
	}
	ev.Check()
	ev.SetBody(nonNil(body), isJSONText)
	if err := rp.planEvent(e); err != nil {
		return err
	}
	return rp.verdict()
}

// parseBody plans one event, or a batch of events, of the JSON format.
func (e *eventRequest) parseBody(plan *plan, body []byte) error {
	if err := checkEncoding(body); err != nil {
		return err
	}
	rp := newRecordParser(plan, body)
	defer rp.release()
	want, wanted, hint := byte('{'), "an event, which is an object", `{"specversion":"1.0","id":…,"source":…,"type":…,"data":…}`
	if rp.depth = 1; rp.events == batchedEvents {
		want, wanted, hint, rp.depth = '[', "an array of events", "[event, …]", 2
	}
	if k := rp.dec.PeekKind(); byte(k) != want {
		v, err := rp.dec.ReadValue()
		switch {
		case errors.Is(err, io.EOF):
			return malformed("The body is empty. Send %s.", hint)
		case err != nil:
			return rp.syntax(err)
		}
		return unprocessable("The body is %s. It must be %s: %s.", kindName(v.Kind()), wanted, hint)
	}
	if err := rp.readEvents(e); err != nil {
		return err
	}
	if _, err := rp.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return malformed("Bytes follow the JSON document, from byte %d on. Several events are an array, sent as %s.", rp.dec.InputOffset(), typeEvents)
	}
	if rp.count == 0 {
		return nil // an empty batch is one
	}
	return rp.verdict()
}

// readEvents reads the one event, or the array.
func (rp *recordParser) readEvents(e *eventRequest) error {
	if rp.events != batchedEvents {
		return rp.readEvent(e)
	}
	if _, err := rp.dec.ReadToken(); err != nil {
		return rp.syntax(err)
	}
	for rp.dec.PeekKind() != ']' {
		if err := rp.readEvent(e); err != nil {
			return err
		}
	}
	_, err := rp.dec.ReadToken()
	return rp.syntax(err)
}

func (rp *recordParser) readEvent(e *eventRequest) error {
	if err := rp.ev.ReadJSON(&rp.dec); err != nil {
		return rp.syntax(err)
	}
	return rp.planEvent(e)
}

// eventFault notes a fault of the event being read.
func (rp *recordParser) eventFault(c code, member, detail string) {
	if len(rp.faults) >= maxShownFaults {
		rp.faultCount++
		return
	}
	rp.note(fault{pointer: rp.eventPointer(rp.count, member), detail: detail, code: c})
}

// eventPointer names a member of the request's i-th event, or with "" the event itself.
// In binary mode a member is a header.
func (p *plan) eventPointer(i int, member string) string {
	pointer := ""
	switch {
	case p.events == batchedEvents:
		pointer = "/" + strconv.Itoa(i)
	case p.events == binaryEvent && (member == contentTypeHeader || member == ""):
		return member
	case p.events == binaryEvent:
		return strings.ToLower(cloudevents.HeaderPrefix) + shownBare(member)
	}
	if member != "" {
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(shownBare(member))
	}
	return pointer
}
