package handlers

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"highwater/replication"
	"highwater/storage"
)

// FuzzProduceBody feeds bodies of every media type to the parser. It must never
// panic, refuse only with a client's error, and what it accepts must come back
// byte for byte when it is rendered natively and posted again.
func FuzzProduceBody(f *testing.F) {
	types := []string{typeJSON, typeNDJSON, typeKafkaJSON, typeKafkaBinary, typeKafkaText}
	for i := range types {
		for _, body := range []string{
			``, ` `, `null`, `[]`, `{}`, `{"records":[]}`, `{"records":[{}]}`, `{"records":[null]}`, `{"records":{}}`,
			`{"records":[{"value":1}]}`, `{"records":[{"key":"a\u00e9","value":{"a":[1.0,1e400,"\ud83d\ude00"]},"partition":0,"timestamp":5,"headers":[{"key":"h","value":"AP8="},{"key":"","value":null}],"id":"x"}]}`,
			`{"value":1}` + "\n" + `{"key":"k","value":null}`, `{"value":"AP8=","value_encoding":"base64","key":"","key_encoding":"text"}`,
			`{"records":[{"value":"\ud800"}]}`, "{\"records\":[{\"value\":\"\xff\"}]}", "\xef\xbb\xbf{}", `{"records":[{"value":1,"value":2}]}`,
			`{"records":[{"v\u0061lue":[` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `]}]}`, `{"records":[{"value":1}]}x`,
			`{"records":[{"key":"YQ==","value":"YQ=="}]}`, `{"records":[{"topic":1,"offset":{},"value":` + "\n" + `{ "a" : 1 }}]}`,
		} {
			f.Add(uint8(i), []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		media := types[int(kind)%len(types)]
		given := bytes.Clone(body)
		p := planOf(t, "", media)
		defer p.release()
		if err := parseBody(p, body, media); err != nil {
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
		renderer := newRecordRenderer(nativeFormat(), "t", 0)
		rendered := []byte(`{"records":[`)
		for i := range first {
			if first[i].Attributes&storage.FlagValueJSON != 0 && !bytes.Contains(given, first[i].Value) {
				t.Fatalf("value %q does not stand in the body", first[i].Value)
			}
			if i > 0 {
				rendered = append(rendered, ',')
			}
			rendered = renderer.append(rendered, &first[i])
		}
		rendered = append(rendered, `]}`...)
		again := planOf(t, "", typeJSON)
		defer again.release()
		if err := parseBody(again, rendered, typeJSON); err != nil {
			t.Fatalf("what was accepted is refused when it comes back: %v\n%s", err, rendered)
		}
		sameRecords(t, plannedRecords(t, again), first)
	})
}

func sameRecords(t *testing.T, got, want []storage.Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range got {
		g, w := got[i], want[i]
		checkBytes(t, "key", g.Key, w.Key)
		checkBytes(t, "value", g.Value, w.Value)
		if g.Timestamp != w.Timestamp || len(g.Headers) != len(w.Headers) {
			t.Fatalf("record %d: %+v, want %+v", i, g, w)
		}
		for j := range g.Headers {
			checkBytes(t, "header key", g.Headers[j].Key, w.Headers[j].Key)
			checkBytes(t, "header value", g.Headers[j].Value, w.Headers[j].Value)
		}
	}
}

// FuzzQuery feeds queries to the parameter parser. What it lets through is known,
// stands there once and is inside its bounds; every refusal is a 40001.
func FuzzQuery(f *testing.F) {
	for _, q := range []string{"", "acks=1", "acks=all&timeout=5", "count=1&count=2", "a;b", "acks=%", "timeout=9223372036854775808", "timestamp=-15m",
		"timestamp=2026-01-01T00:00:00Z", "count=05", "count=+5", "flag=true", "ack=-1", "&&", "=", "timeout=99999999999999999999", "count=-0"} {
		f.Add(q)
	}
	now := time.UnixMilli(1_764_424_000_000)
	f.Fuzz(func(t *testing.T, raw string) {
		q := parseQuery(raw, "acks", "timeout", "count", "timestamp", "flag", "mode")
		acks := q.acks(replication.AcksLeader)
		timeout := q.milliseconds("timeout", 0, 0, time.Minute)
		count := q.integer("count", 1, 1, math.MaxInt64)
		at := q.timestamp("timestamp", now)
		_ = q.boolean("flag")
		mode := q.enum("mode", "a", "a", "b")
		if err := q.err(); err != nil {
			p := explain(err, place{})
			if p.code != codeMalformed || !json.Valid(p.append(nil, false)) || !utf8.ValidString(p.detail) {
				t.Fatalf("%q: %d %q", raw, p.code, p.detail)
			}
			return
		}
		if acks < -1 || acks > 1 || timeout < 0 || timeout > time.Minute || count < 1 || mode != "a" && mode != "b" {
			t.Fatalf("%q: acks %d timeout %s count %d mode %s", raw, acks, timeout, count, mode)
		}
		if at != nil && (*at < 0 || *at > MaxTimestampMs) {
			t.Fatalf("%q: timestamp %d", raw, *at)
		}
		// The standard parser must see the same parameters, each once.
		std, err := url.ParseQuery(raw)
		if err != nil {
			t.Fatalf("%q: accepted, but the standard parser says %v", raw, err)
		}
		for name, values := range std {
			if got, ok := q.text(name); len(values) != 1 || !ok || got != values[0] {
				t.Fatalf("%q: %s is %q, want %q", raw, name, got, values)
			}
		}
	})
}
