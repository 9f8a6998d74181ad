package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"highwater/replication"
)

// defaultFindWait is how long a look-up takes at most, unless it says otherwise.
const defaultFindWait = 10 * time.Second

// getMessage finds a record by its message id.
//
//	@ID				getMessage
//	@Summary		Find a record by its message id
//	@Description	Did it arrive? Gives the one record with that id, whichever partition has it: every partition's leader is asked. An id that stands in the index but isn't committed yet is waited for.
//	@Description	404 says that no partition knows the id: it was never written, or is forgotten by now (dedupe.window.ms, dedupe.window.count), or its record is no longer kept, and then the detail tells where it was. As long as some partition's leader can't be asked the answer is 503, never 404.
//	@Description	The message id of a CloudEvent is its source, a space and its id.
//	@Tags			fetch
//	@Param			topic			path	string	true	"Topic name"	minlength(1)	maxlength(249)	example(orders)
//	@Param			id				path	string	true	"The message id, percent-encoded: a slash is %2F"	minlength(1)	example(order-4711)
//	@Param			timeout			query	int		false	"Milliseconds to wait at most, for the leaders and for a record that isn't committed yet; more than 60000 counts as that"	minimum(1)	default(10000)	example(10000)
//	@Param			key_format		query	string	false	"How the key stands in the answer"		Enums(string,json,binary)	example(string)
//	@Param			value_format	query	string	false	"How the value stands in the answer"	Enums(string,json,binary)	example(json)
//	@Success		200		{object}	schema.Record	"The record."
//	@Header			200		{integer}	Highwater-Leader-Epoch	"Leader epoch of the record."
//	@x-media-200	{"application/json":"Record","application/vnd.kafka.json.v2+json":"DialectRecord","application/vnd.kafka.binary.v2+json":"DialectRecord","application/vnd.kafka.text.v2+json":"DialectRecord","application/cloudevents+json":"CloudEvent"}
//	@x-errors		[40401,40404,40601,42201,50001,50302,50305,50401]
//	@Router			/topics/{topic}/messages/{id} [get]
func (a *api) getMessage(w http.ResponseWriter, r *http.Request) error {
	topic, err := topicName(r)
	if err != nil {
		return err
	}
	q := queryParams(r, "timeout", "key_format", "value_format")
	wait := q.milliseconds("timeout", defaultFindWait, time.Millisecond, maxWait)
	media, format, err := oneRecordFormat(r, q)
	if err != nil {
		return err
	}
	id := pathSegment(r, "id")
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	found, err := a.cfg.Broker.FindMessage(ctx, topic, id)
	if err != nil {
		return a.notFound(r, topic, err)
	}
	h := w.Header()
	h["Cache-Control"] = []string{"no-store"}
	h["Highwater-Leader-Epoch"] = []string{strconv.Itoa(int(found.LeaderEpoch))}
	out := newRecordRenderer(format, topic, found.Partition).append(a.buffers.get(), &found.Record)
	out = append(out, '\n')
	defer a.buffers.put(out)
	return writeBody(w, r, media, out)
}

// oneRecordFormat is the representation of a record that stands alone, and checks q.
func oneRecordFormat(r *http.Request, q *params) (media string, f recordFormat, err error) {
	key, hasKey := q.payloadFormat("key_format")
	value, hasValue := q.payloadFormat("value_format")
	if err = q.err(); err != nil {
		return "", f, err
	}
	if media, err = negotiate(r, typeJSON, typeKafkaJSON, typeKafkaBinary, typeKafkaText, typeEvent); err != nil {
		return "", f, err
	}
	switch f = nativeFormat(); media {
	case typeKafkaJSON:
		f = vndJSONFormat()
	case typeKafkaBinary:
		f = vndBinaryFormat()
	case typeKafkaText:
		f = vndTextFormat()
	case typeEvent:
		f = eventFormat()
	}
	if f.event && (hasKey || hasValue) {
		return "", f, noEventPayload()
	}
	if hasKey {
		f = f.withKey(key)
	}
	if hasValue {
		f = f.withValue(value)
	}
	return media, f, nil
}

// notFound says why a look-up found nothing, where that is not what the table of
// errors would say: that speaks of appends.
func (a *api) notFound(r *http.Request, topic string, err error) error {
	unknown := (*replication.UnknownMessageError)(nil)
	switch {
	case errors.Is(err, replication.ErrTimeout):
		return &requestError{code: codeTimedOut, detail: "There is a record with this message id, but it wasn't committed in time: it may be lost yet.",
			fix: "Ask again, with a longer timeout."}
	case errors.Is(err, context.DeadlineExceeded):
		return &requestError{code: codeNoLeader, detail: "Not every partition's leader answered in time, so whether there is such a record isn't known.",
			fix: "Ask again after a pause, or with a longer timeout."}
	case errors.As(err, &unknown) && unknown.Offset < 0:
		if _, c, failed := a.cfg.Broker.TopicConfig(topic); failed == nil && c.DedupeWindowMs == 0 {
			return &requestError{code: codeNotFound, detail: "The topic " + shown(topic) + " does not remember message ids: its dedupe.window.ms is 0.",
				fix: fmt.Sprintf(`Have it remember them: curl -X PATCH %s/topics/%s --json '{"configs":{"dedupe.window.ms":"3600000"}}'`, a.baseURL(r), topic)}
		}
	}
	return err
}
