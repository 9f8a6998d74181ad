package handlers

import (
	"net/http"
	"slices"
	"strings"

	"highwater/handlers/cloudevents"
	"highwater/replication"
)

// Media types of events in the JSON format.
const (
	typeEvent  = "application/cloudevents+json"
	typeEvents = "application/cloudevents-batch+json"
	// eventTypePrefix begins every media type of an event format.
	eventTypePrefix = "application/cloudevents"
)

// eventMode is how a request brings CloudEvents (HTTP binding, 1.3).
type eventMode uint8

const (
	noEvent         eventMode = iota
	binaryEvent               // attributes in headers, the body is the data
	structuredEvent           // the body is one event
	batchedEvents             // the body is an array of events
	unknownEvent              // of a format that isn't read here
)

// eventModeOf tells by Content-Type and by the headers that hold attributes.
func eventModeOf(r *http.Request) eventMode {
	lines := r.Header["Content-Type"]
	if len(lines) == 1 && len(lines[0]) >= len(eventTypePrefix) && strings.EqualFold(lines[0][:len(eventTypePrefix)], eventTypePrefix) {
		name, _, _ := strings.Cut(lines[0], ";")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case typeEvent:
			return structuredEvent
		case typeEvents:
			return batchedEvents
		}
		return unknownEvent
	}
	for name := range r.Header {
		if strings.HasPrefix(name, cloudevents.HeaderPrefix) {
			return binaryEvent
		}
	}
	return noEvent
}

// eventRequest is a produce of events.
type eventRequest struct {
	*produceRequest
	key       []byte // ?key=, which comes before what the event says; nil: not given
	timestamp int64  // of the records
}

// produceEvents appends CloudEvents, on every produce endpoint alike. known are the
// query parameters of the endpoint.
func (a *api) produceEvents(w http.ResponseWriter, r *http.Request, mode eventMode, known []string) error {
	p, err := a.produceTarget(r)
	if err != nil {
		return err
	}
	if err := checkEventHeaders(r, mode); err != nil {
		return err
	}
	q := queryParams(r, eventParams(known, mode)...)
	p.ask(q, a, false)
	p.rules.events = mode
	e := &eventRequest{produceRequest: p, key: rawKey(q), timestamp: p.rules.now}
	if ms := q.timestamp("timestamp", a.cfg.Now()); ms != nil {
		e.timestamp = *ms
	}
	p.rules.producer = q.producerQuery(false)
	p.rules.fixed = int32(q.integer("partition", int64(p.rules.fixed), 0, 1<<31-1))
	if err := q.err(); err != nil {
		return err
	}
	if err := a.checkPartition(r.Context(), p, p.rules.fixed); err != nil {
		return err
	}
	if size := r.ContentLength; mode == binaryEvent && r.Header["Content-Encoding"] == nil && size > int64(p.rules.maxRecordBytes) {
		return &replication.RecordTooLargeError{Topic: p.rules.topic, Size: int(size), Most: p.rules.maxRecordBytes}
	}
	body, err := a.readBody(w, r, a.cfg.MaxRequestBytes)
	if err != nil {
		return err
	}
	plan := a.pools.newPlan(&p.rules, len(body.data))
	defer plan.release()
	if mode == binaryEvent {
		err = e.parseHeaders(plan, r, body.data)
	} else {
		err = e.parseBody(plan, body.data)
	}
	body.release()
	if err != nil {
		return err
	}
	return a.appendPlan(w, r, p, plan)
}

// checkEventHeaders refuses what would be dropped silently: an event has its own id,
// and its attributes are its headers.
func checkEventHeaders(r *http.Request, mode eventMode) error {
	if mode == unknownEvent {
		e := unsupportedType("Events of the type " + shown(r.Header["Content-Type"][0]) + " are not read here. Accepted: " + typeEvent + ", " + typeEvents + ".")
		e.fix = "Send the event in the JSON format, or in binary mode: attributes as headers ce-id, ce-source, …, the data as the body."
		return e
	}
	if mode != binaryEvent {
		if _, err := contentType(r); err != nil { // a charset, say
			return err
		}
	} else if len(r.Header["Content-Type"]) > 1 {
		return unsupportedType("The request has several Content-Type lines.")
	}
	for _, name := range []string{"Message-Id", "Idempotency-Key"} {
		if r.Header[name] != nil {
			return malformed("The header %s can't be given with a CloudEvent, whose source and id are the message id.", name)
		}
	}
	for name := range r.Header {
		if strings.HasPrefix(name, recordHeaderPrefix) {
			return malformed("The header %s can't be given with a CloudEvent, whose attributes are its record headers: send an extension attribute.", shown(name))
		}
	}
	return nil
}

// eventParams are the query parameters of an endpoint that mean something for events:
// of a single one also what they mean for a raw record.
func eventParams(known []string, mode eventMode) []string {
	of := slices.Concat(produceParams, []string{"expected_offset"}, producerParams)
	if mode != batchedEvents && slices.Contains(known, "key") {
		of = append(of, "key", "key_format", "timestamp", "partition")
	}
	return slices.DeleteFunc(of, func(name string) bool { return !slices.Contains(known, name) })
}
