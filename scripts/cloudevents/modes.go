package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
)

const allAcks = "?acks=all"

// request is the event as the SDK sends it.
func request(ctx context.Context, url string, e event.Event, structured bool) (*http.Request, error) {
	if structured {
		ctx = binding.WithForceStructured(ctx)
	}
	return cehttp.NewHTTPRequestFromEvent(ctx, url, e)
}

func binaryMode(ctx context.Context, b *broker) error { return eachAlone(ctx, b, "binary", false) }
func structuredMode(ctx context.Context, b *broker) error {
	return eachAlone(ctx, b, "structured", true)
}

// eachAlone sends every event on every produce path in turn and reads it back at once.
func eachAlone(ctx context.Context, b *broker, name string, structured bool) error {
	topic, err := b.topic(ctx, name)
	if err != nil {
		return err
	}
	events, err := sample()
	if err != nil {
		return err
	}
	paths := []string{topic, topic + "/records", topic + "/partitions/0", topic + "/partitions/0/records"}
	for i, e := range events {
		r, err := request(ctx, paths[i%len(paths)]+allAcks, e, structured)
		if err != nil {
			return err
		}
		res, err := b.produce(r)
		if err != nil {
			return fmt.Errorf("%q: %w", e.ID(), err)
		}
		got, err := b.one(ctx, fmt.Sprintf("%s/partitions/0/records?offset=%d", topic, res.Offsets[0].Offset))
		if err != nil {
			return err
		}
		if err := same(*got, e, structured); err != nil {
			return err
		}
		if structured && got.DataBase64 != e.DataBase64 {
			return fmt.Errorf("the data of %q come as base64: %v, sent so: %v", e.ID(), got.DataBase64, e.DataBase64)
		}
	}
	return nil
}

func (b *broker) one(ctx context.Context, url string) (*event.Event, error) {
	resp, err := b.get(ctx, url, event.ApplicationCloudEventsJSON)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return cehttp.NewEventFromHTTPResponse(resp)
}

func (b *broker) batch(ctx context.Context, url string) ([]event.Event, error) {
	resp, err := b.get(ctx, url, event.ApplicationCloudEventsBatchJSON)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return cehttp.NewEventsFromHTTPResponse(resp)
}

func allSame(got, want []event.Event) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d events, want %d", len(got), len(want))
	}
	for i := range got {
		if err := same(got[i], want[i], true); err != nil {
			return err
		}
	}
	return nil
}

func batchedMode(ctx context.Context, b *broker) error {
	topic, err := b.topic(ctx, "batched")
	if err != nil {
		return err
	}
	events, err := sample()
	if err != nil {
		return err
	}
	for _, some := range [][]event.Event{{}, events} { // an empty batch is one
		r, err := cehttp.NewHTTPRequestFromEvents(ctx, topic+allAcks, some)
		if err != nil {
			return err
		}
		res, err := b.produce(r)
		if err != nil {
			return err
		}
		if len(res.Offsets) != len(some) {
			return fmt.Errorf("%d offsets for %d events", len(res.Offsets), len(some))
		}
	}
	for _, url := range []string{topic + "/partitions/0/records", topic + "/records"} {
		got, err := b.batch(ctx, url)
		if err != nil {
			return err
		}
		if err := allSame(got, events); err != nil {
			return fmt.Errorf("%s: %w", url, err)
		}
	}
	return nil
}

func clientSends(ctx context.Context, b *broker) error {
	topic, err := b.topic(ctx, "client")
	if err != nil {
		return err
	}
	c, err := cloudevents.NewClientHTTP(cloudevents.WithTarget(topic + allAcks))
	if err != nil {
		return err
	}
	e := cloudevents.NewEvent()
	e.SetSource("/client")
	e.SetType("t")
	e.SetTime(time.UnixMilli(1764424000000)) // else the client sets it
	if err := e.SetData(cloudevents.ApplicationJSON, map[string]int{"n": 1}); err != nil {
		return err
	}
	var sent []event.Event
	for _, with := range []context.Context{cloudevents.WithEncodingBinary(ctx), cloudevents.WithEncodingStructured(ctx)} {
		e := e.Clone()
		e.SetID(fmt.Sprint(len(sent)))
		if result := c.Send(with, e); !cloudevents.IsACK(result) {
			return fmt.Errorf("not acknowledged: %w", result)
		}
		sent = append(sent, e)
	}
	refused := e.Clone()
	refused.SetID("0") // with other content: 409 is no acknowledgement
	refused.SetSubject("other")
	if result := c.Send(ctx, refused); cloudevents.IsACK(result) {
		return fmt.Errorf("another event under the same id is acknowledged")
	}
	got, err := b.batch(ctx, topic+"/records")
	if err != nil {
		return err
	}
	return allSame(got, sent)
}

func consumed(ctx context.Context, b *broker) error {
	got, err := b.batch(ctx, b.url+"/consumers/g/records?member=m&topics=batched&timeout=30000")
	if err != nil {
		return err
	}
	events, err := sample()
	if err != nil {
		return err
	}
	return allSame(got, events)
}

func standIn(ctx context.Context, b *broker) error {
	topic, err := b.topic(ctx, "plain")
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, topic+"/records"+allAcks+"&key=k", strings.NewReader("hello"))
	if err != nil {
		return err
	}
	if _, err := b.produce(r); err != nil {
		return err
	}
	got, err := b.one(ctx, topic+"/partitions/0/records")
	if err != nil {
		return err
	}
	if err := got.Validate(); err != nil {
		return err
	}
	if got.ID() != "plain-0-0" || got.Source() != "/topics/plain/partitions/0" || got.Type() != "highwater.record" || got.Extensions()["partitionkey"] != "k" || string(got.Data()) != "hello" {
		return fmt.Errorf("got %s", got)
	}
	return nil
}

// sentAgain sends events once more, in the same mode and in the other one: it is the
// same record all the same.
func sentAgain(ctx context.Context, b *broker) error {
	topic, err := b.topic(ctx, "again")
	if err != nil {
		return err
	}
	events, err := sample()
	if err != nil {
		return err
	}
	events = slices.DeleteFunc(events, typed) // headers tell no types: they are other events there
	for round, structured := range []bool{true, true, false} {
		for i, e := range events {
			r, err := request(ctx, topic+allAcks, e, structured)
			if err != nil {
				return err
			}
			res, err := b.produce(r)
			if err != nil {
				return fmt.Errorf("%q: %w", e.ID(), err)
			}
			if o := res.Offsets[0]; o.Offset != int64(i) || o.Duplicate != (round > 0) {
				return fmt.Errorf("%q in round %d: offset %d, duplicate %v", e.ID(), round, o.Offset, o.Duplicate)
			}
		}
	}
	changed := events[1].Clone()
	changed.SetType("com.example.order.changed")
	r, err := request(ctx, topic+allAcks, changed, true)
	if err != nil {
		return err
	}
	_, err = b.do(r, http.StatusConflict)
	return err
}

// typed says that an extension is no string.
func typed(e event.Event) bool {
	for _, value := range e.Extensions() {
		switch value.(type) {
		case bool, int32:
			return true
		}
	}
	return false
}
