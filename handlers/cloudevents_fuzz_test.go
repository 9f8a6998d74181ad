package handlers

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
)

// eventPlan plans what a body of events says.
func eventPlan(t testing.TB, body string, mode eventMode) *plan {
	t.Helper()
	p, err := tryEvents([]byte(body), mode)
	must(t, err)
	return p
}

func tryEvents(body []byte, mode eventMode) (*plan, error) {
	rules := produceRules{topic: "t", partitions: 1, fixed: anyPartition, maxRecordBytes: 1 << 20, now: 1000, events: mode}
	p := new(pools).newPlan(&rules, len(body))
	e := &eventRequest{produceRequest: &produceRequest{rules: rules}, timestamp: rules.now}
	return p, e.parseBody(p, body)
}

// FuzzEvents feeds bodies of events to the road in. It must never panic, refuse only
// with a client's error, and what it accepts must be the same records when it is
// rendered as events and posted again.
func FuzzEvents(f *testing.F) {
	for _, body := range []string{``, `[]`, `[1]`, `{}`, `[` + eventIn("1", `"data":null`) + `,` + eventIn("2", `"n":5,"b":true,"s":"5","data_base64":"AP8="`) + `]`, eventIn("1", `"subject":"s","data":{"a":[1.0]}`),
		eventIn("1", `"datacontenttype":"text/plain","data":"x"`), `[` + eventIn("1", `"datacontenttype":"application/json","data_base64":"e30="`) + `]`, eventIn("1", "") + "x"} {
		f.Add(body[:min(1, len(body))] == "[", []byte(body))
	}
	f.Fuzz(func(t *testing.T, batch bool, body []byte) {
		mode := structuredEvent
		if batch {
			mode = batchedEvents
		}
		given := bytes.Clone(body)
		p, err := tryEvents(body, mode)
		defer p.release()
		if err != nil {
			var refusal *requestError
			if !errors.As(err, &refusal) || refusal.code.status() >= 500 {
				t.Fatalf("refused with %v", err)
			}
			if !json.Valid(explain(err, place{}).append(nil, true)) {
				t.Fatalf("the refusal is no JSON: %q", explain(err, place{}).append(nil, true))
			}
			return
		}
		if !bytes.Equal(given, body) {
			t.Fatal("the parser changed the body")
		}
		first := plannedRecords(t, p)
		renderer := newRecordRenderer(eventFormat(), "t", 0)
		rendered := []byte{'['}
		for i := range first {
			if i > 0 {
				rendered = append(rendered, ',')
			}
			rendered = renderer.append(rendered, &first[i])
		}
		again, err := tryEvents(append(rendered, ']'), batchedEvents)
		defer again.release()
		if err != nil {
			t.Fatalf("what was accepted is refused when it comes back: %v\n%s", err, rendered)
		}
		got := plannedRecords(t, again)
		sameRecords(t, got, first)
		for i := range got {
			if got[i].Attributes != first[i].Attributes {
				t.Fatalf("record %d: attributes %d, want %d", i, got[i].Attributes, first[i].Attributes)
			}
		}
	})
}
