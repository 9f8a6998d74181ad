package handlers

import (
	"bufio"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// foundRecord is a record as clients parse it.
type foundRecord struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Value     any    `json:"value"`
	ID        string `json:"id"`
	Headers   []any  `json:"headers"`
}

// hostileIDs are ids that somebody will use.
var hostileIDs = []string{
	"a", "order-4711", "a/b", "/", "//", "a//b/", "..%2f", "a b", " ", "+", "a+b", "%", "%25", "%2F", "100%", `"`, `'`, `\`, `\\u0000`, "?", "a?b=c", "#", "a#b", "&;=", ":", "*",
	"é", "日本", "😀", "a\u00a0b", "\u2028", "\ufeff", "\ufffd", "e\u0301", "...", "a.", "{id}", "messages", "<script>", "$(rm)", strings.Repeat("x", 1024), strings.Repeat("é", 512),
	"0", "-1", "null", "A", "a\u200b",
}

// What was given as an id finds the record, byte for byte, through a path that decodes
// once; every id is another message.
func TestEveryIDCanBeLookedUp(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 3)
	for i, id := range hostileIDs {
		b.post("/topics/t", map[string]any{"records": []any{map[string]any{"id": id, "value": i}}}).want(200)
	}
	for i, id := range hostileIDs {
		var got foundRecord
		b.get("/topics/t/messages/" + url.PathEscape(id)).want(200).into(&got)
		if got.ID != id || got.Value != float64(i) || got.Topic != "t" || len(got.Headers) != 0 {
			t.Errorf("%q: %+v", id, got)
		}
		again := b.produced(200, "/topics/t", map[string]any{"records": []any{map[string]any{"id": id, "value": i}}})
		if !again.Offsets[0].Duplicate || again.Offsets[0].Offset != got.Offset || again.Offsets[0].Partition != got.Partition {
			t.Errorf("%q again: %+v, found at %+v", id, again.Offsets[0], got)
		}
		head := b.do(http.MethodHead, "/topics/t/messages/"+url.PathEscape(id), nil).want(200)
		if len(head.body) != 0 || head.header.Get("Content-Length") == "" {
			t.Errorf("%q: HEAD %q, %v", id, head.body, head.header)
		}
	}
	// %2F stays in its segment, and a plain slash parts segments.
	b.get("/topics/t/messages/a%2Fb").want(200)
	if p := b.get("/topics/t/messages/a/b?x").problem(40001); !strings.HasSuffix(p.Fix, "/topics/t/messages/a%2Fb") { // not "there is none"
		t.Errorf("%+v", p)
	}
	b.get("/topics/t/messages/a%252Fb").problem(40404) // decoded once
	b.get("/topics/t/partitions/messages/a/b").problem(40404)
	b.get("/topics/t/messages/a/").want(200) // a trailing slash is nothing
	for _, path := range []string{"a%00", "%0a", "%ff", "%ed%a0%80", "%c0%af"} {
		b.get("/topics/t/messages/" + path).problem(40001)
	}
	b.get("/topics/t/messages/" + strings.Repeat("x", 1025)).problem(40404)
	b.get("/topics/t/messages/" + strings.Repeat("x", 40_000)).problem(40404)
	b.get("/topics/t/messages").problem(40404)
	b.get("/topics/nope/messages/a").problem(40401)
	b.get("/topics/a%20b/messages/a").problem(42201)
}

// What can be no id is refused wherever it comes, and writes nothing.
func TestIDsThatAreNone(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	for id, code := range map[string]int{
		`""`: 42201, `"a\u0000"`: 42201, `"a\nb"`: 42201, `"\u007f"`: 42201, `7`: 42201, `true`: 42201, `["a"]`: 42201, `{}`: 42201,
		`"\ud800"`: 40001, `"\udc00x"`: 40001, "\"\xff\"": 40001, "\"a\nb\"": 40001,
		`"` + strings.Repeat("x", 1025) + `"`: 42201, `"` + strings.Repeat("é", 513) + `"`: 42201, `"` + strings.Repeat("x", 1<<20) + `"`: 42201,
	} {
		if p := b.post("/topics/t", `{"records":[{"value":1},{"value":2,"id":`+id+`}]}`).problem(code); p.Outcome != "not_written" {
			t.Errorf("%.40s: %+v", id, p)
		}
	}
	b.post("/topics/t", `{"records":[{"value":1,"id":"a","id":"a"}]}`).problem(40001)
	for _, name := range []string{"Message-Id", "Idempotency-Key"} {
		for _, value := range []string{"a\tb", "\xff", strings.Repeat("x", 1025)} {
			b.post("/topics/t/records", "x", func(r *http.Request) { r.Header[name] = []string{value} }).want(400)
		}
		b.post("/topics/t/records", "x", header(name, "")).problem(40001)
		b.post("/topics/t/records", "x", header(name, "a"), header(name, "a")).problem(40001)
	}
	b.post("/topics/t/records", "x", header("Idempotency-Key", `""`)).problem(40001)
	b.post("/topics/t/records", "x", header("Idempotency-Key", "a"), header("Message-Id", "b")).problem(40001)
	for _, name := range []string{"highwater.id", "highwater.request"} {
		b.post("/topics/t", `{"records":[{"value":1,"headers":[{"key":"`+name+`","value":"AAAAAAAAAAA="}]}]}`).problem(42201)
		b.post("/topics/t/records", "x", header("Record-Header-"+name, "x")).problem(40001)
	}
	if end := b.end("t", 0); end != 0 {
		t.Errorf("the log ends at %d", end)
	}
}

// A look-up renders a record as a fetch does, in every form, and what it prints is the
// record alone.
func TestALookUpRendersTheRecord(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 2)
	b.post("/topics/t/records?acks=all&key=k&partition=1", "\x00\xff", header("Message-Id", "bytes"), ofType("image/png")).want(200)
	b.post("/topics/t?acks=all", `{"records":[{"value":{"n":1.0},"key":"k","partition":0,"timestamp":5,"headers":[{"key":"h","value":"eA=="},{"key":"h","value":null}]}]}`, header("Idempotency-Key", "K")).want(200)
	for _, media := range []string{"", typeJSON, typeKafkaJSON, typeKafkaBinary, typeKafkaText} {
		for id, partition := range map[string]int{"bytes": 1, "K%2F0": 0} {
			var change []request
			if media != "" {
				change = append(change, accept(media))
			}
			page := b.get(fmt.Sprintf("/topics/t/partitions/%d/records?count=1", partition), change...).want(200)
			one := b.get("/topics/t/messages/"+id, change...).want(200)
			if got, want := strings.TrimSpace(string(one.body)), strings.TrimSpace(string(page.body)); "["+got+"]" != want {
				t.Errorf("%s as %q:\n%s\n%s", id, media, got, want)
			}
			if one.header.Get("Content-Type") != page.header.Get("Content-Type") || one.header.Get("Cache-Control") != "no-store" || one.header.Get("Highwater-Leader-Epoch") != "0" {
				t.Errorf("%s as %q: %v", id, media, one.header)
			}
			if strings.Contains(string(one.body), requestHeader) || strings.Contains(string(one.body), idHeader) {
				t.Errorf("%s as %q shows the broker's own headers: %s", id, media, one.body)
			}
		}
	}
	b.get("/topics/t/messages/bytes?value_format=binary&key_format=binary").want(200)
	b.get("/topics/t/messages/bytes", accept("text/csv")).problem(40601)
	for _, query := range []string{"x=1", "timeout=0", "timeout=-1", "timeout=x", "key_format=xml", "timeout=5&timeout=5"} {
		b.get("/topics/t/messages/bytes?" + query).problem(40001)
	}
	b.do(http.MethodPost, "/topics/t/messages/bytes", "{}").problem(40501)
}

// highwater.request is nobody's to see: not in a page, a tail, a poll, or as headers.
func TestTheRequestHeaderIsHidden(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.post("/topics/t/records", "x", header("Idempotency-Key", "K"), header("Record-Header-Trace", "y")).want(200)
	if r := b.stored("t", 0, 1)[0]; len(r.Headers) != 3 || len(r.Headers[2].Value) != requestHashBytes {
		t.Fatalf("stored %+v: nothing to hide", r.Headers)
	}
	for _, path := range []string{"/topics/t/partitions/0/records", "/topics/t/records", "/consumers/g/records?topics=t&member=m&timeout=10000"} {
		a := b.get(path).want(200)
		if text := string(a.body); strings.Contains(text, requestHeader) || !strings.Contains(text, `"id":"K/0"`) || !strings.Contains(text, `"key":"trace"`) {
			t.Errorf("%s: %s", path, text)
		}
	}
	one := b.get("/topics/t/partitions/0/records?offset=0", accept(typeOctets)).want(200)
	if one.header.Get("Message-Id") != "K/0" || one.header.Get("Record-Header-trace") != "y" || one.header.Get("Record-Headers-Omitted") != "" || strings.Contains(fmt.Sprint(one.header), "Highwater.request") {
		t.Errorf("as bytes: %v", one.header)
	}
	for media, query := range map[string]string{typeSSE: "", typeNDJSON: "?follow=true"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+"/topics/t/partitions/0/records"+query, nil)
		must(t, err)
		r.Header.Set("Accept", media)
		res, err := http.DefaultClient.Do(r)
		must(t, err)
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() && !strings.Contains(lines.Text(), `"offset":0`) {
		}
		if text := lines.Text(); strings.Contains(text, requestHeader) || !strings.Contains(text, `"id":"K/0"`) {
			t.Errorf("%s: %s", media, text)
		}
		must(t, res.Body.Close())
	}
}

// A record that is gone isn't found, but that it was there is told, as long as its id is
// remembered: a retry isn't appended anew (D11).
func TestD11_AMessageThatIsNoLongerKept(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.post("/topics/t?acks=-1", `{"records":[{"value":1,"id":"a"},{"value":2,"id":"b"}]}`).want(200)
	b.do(http.MethodDelete, "/topics/t/partitions/0/records?before_offset=1", nil).want(200)
	a := b.get("/topics/t/messages/a")
	p := a.problem(40404)
	var more struct {
		Partition   *int32 `json:"partition"`
		FirstOffset *int64 `json:"first_offset"`
	}
	a.into(&more)
	if !strings.Contains(p.Detail, "was at offset 0") || more.Partition == nil || more.FirstOffset == nil || *more.FirstOffset != 0 {
		t.Errorf("%s", a.body)
	}
	b.get("/topics/t/messages/b").want(200)
	if p := b.produced(200, "/topics/t", `{"records":[{"value":1,"id":"a"}]}`); p.places() != "0d" {
		t.Errorf("sent again: %s", p.places())
	}
	if p := b.get("/topics/t/messages/never").problem(40404); !strings.Contains(p.Detail, "never written") {
		t.Errorf("%+v", p)
	}
}

// GET of a topic and of a partition tells what is remembered, and what of it was used.
func TestATopicTellsWhatItRemembers(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 2, "dedupe.window.ms", "60000", "dedupe.window.count", "2")
	topic := func() (out topicView) {
		t.Helper()
		b.get("/topics/t").want(200).into(&out)
		return out
	}
	if d := topic().Dedupe; d.WindowMs != 60000 || d.WindowCount != 2 || d.EffectiveWindowMs != 60000 || d.IDs != 0 {
		t.Errorf("at first: %+v", d)
	}
	var me producerAnswer
	b.post("/producers", nil).want(200).into(&me)
	b.post("/topics/t/partitions/0?acks=-1", sequenced(me.ProducerID, 0, 0, 1)).want(200)
	for range 2 {
		b.post("/topics/t/partitions/1?acks=-1", `{"records":[{"value":1,"id":"a"},{"value":2,"id":"b"}]}`).want(200)
	}
	got := topic()
	if d := got.Dedupe; d.IDs != 2 || d.Producers != 1 || d.Hits != 2 || d.EvictedEarly != 0 {
		t.Errorf("then: %+v", d)
	}
	if d := got.Partitions[1].Dedupe; d == nil || d.IDs != 2 || d.OldestMs == nil || d.NewestMs == nil || *d.OldestMs > *d.NewestMs {
		t.Errorf("partition 1: %+v", d)
	}
	var p partitionView
	b.get("/topics/t/partitions/0").want(200).into(&p)
	if d := p.Dedupe; d == nil || d.Producers != 1 || d.IDs != 0 || d.OldestMs != nil {
		t.Errorf("partition 0: %+v", d)
	}
	b.post("/topics/t/partitions/1?acks=-1", `{"records":[{"value":3,"id":"c"}]}`).want(200)
	if d := topic().Dedupe; d.EvictedEarly != 1 || d.IDs != 2 || d.EffectiveWindowMs >= 60000 {
		t.Errorf("one was forgotten early: %+v", d)
	}
	if p := b.produced(200, "/topics/t/partitions/1", `{"records":[{"value":1,"id":"a"}]}`); p.Offsets[0].Duplicate {
		t.Errorf("D4: more than the count: %+v", p.Offsets[0])
	}
}

// What says something of a raw record would be dropped silently with a batch, and the client
// would think that it may send it again.
func TestHeadersOfARawRecordAreRefusedWithABatch(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	for _, path := range []string{"/topics/t", "/topics/t/partitions/0"} {
		for name, member := range map[string]string{"Message-Id": "own id", "Record-Header-Trace": "own headers"} {
			p := b.post(path, `{"records":[{"value":1}]}`, header(name, "x")).problem(40001)
			if !strings.Contains(p.Detail, name) || !strings.Contains(p.Fix, member) || !strings.HasSuffix(p.Fix, path+"/records") {
				t.Errorf("%s with %s: %+v", path, name, p)
			}
		}
	}
	var records []any
	b.get("/topics/t/partitions/0/records").want(200).into(&records)
	if len(records) != 0 {
		t.Errorf("%v", records)
	}
}

// A key that comes again with another body is counted and told as that, however many partitions
// there are; so is a producer that was never given out.
func TestRefusalsThatNoPartitionMadeAreCounted(t *testing.T) {
	b := startBroker(t)
	must(t, b.metrics.Register(b.broker.Collector()))
	for i, topic := range []string{"one", "three"} {
		b.topic(topic, 1+2*i)
		b.post("/topics/"+topic, `{"records":[{"value":1}]}`, header("Idempotency-Key", "k")).want(200)
		p := b.post("/topics/"+topic, `{"records":[{"value":1},{"value":2}]}`, header("Idempotency-Key", "k")).problem(40908)
		if !strings.Contains(p.Detail, "Idempotency-Key") || !strings.Contains(p.Fix, "a key of its own") {
			t.Errorf("%s: %+v", topic, p)
		}
		b.post("/topics/"+topic+"/partitions/0", sequenced(77, 0, 0, 1)).problem(40904)
		metrics := string(b.get("/metrics").want(200).body)
		for _, line := range []string{`highwater_dedupe_reused_total{topic="` + topic + `"} 1`, `highwater_sequence_errors_total{topic="` + topic + `"} 1`} {
			if !strings.Contains(metrics, line+"\n") {
				t.Errorf("no %s", line)
			}
		}
	}
}
