package handlers

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"highwater/replication"
	"highwater/storage"
)

func TestOneRecordAsBytes(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.post("/topics/t/partitions/0/records?acks=-1&key=a%2Fb%20%C3%A9", []byte("\x00raw\xff"), ofType("text/html"), header("Record-Header-Trace", "abc")).want(200)
	b.append("t", 0, `{"records":[{"key":"","value":null},{"value":{"n":1},"id":"guid-1"}]}`)
	one := func(offset string) answer {
		t.Helper()
		return b.get("/topics/t/partitions/0/records?count=1&offset="+offset, accept(typeOctets))
	}
	a := one("0").want(200)
	if string(a.body) != "\x00raw\xff" || a.header.Get("Content-Type") != typeOctets || a.header.Get("Record-Key") != "a%2Fb%20%C3%A9" ||
		a.header.Get("Record-Offset") != "0" || a.header.Get("Highwater-Next-Offset") != "1" || a.header.Get("X-Content-Type-Options") != "nosniff" ||
		a.header.Get("Record-Header-content-type") != "text/html" || a.header.Get("Record-Header-trace") != "abc" {
		t.Errorf("got %q with %v", a.body, a.header)
	}
	a = one("1").want(204)
	if key, given := a.header["Record-Key"]; a.header.Get("Record-Tombstone") != "true" || !given || key[0] != "" || a.header.Get("Record-Offset") != "1" {
		t.Errorf("tombstone: %v", a.header)
	}
	a = one("2").want(200)
	if string(a.body) != `{"n":1}` || a.header.Get("Message-Id") != "guid-1" || a.header["Record-Key"] != nil {
		t.Errorf("got %q with %v", a.body, a.header)
	}
	a = one("3").want(204)
	if a.header.Get("Record-Offset") != "" || a.header.Get("Record-Tombstone") != "" || a.header.Get("Highwater-Next-Offset") != "3" {
		t.Errorf("nothing there: %v", a.header)
	}
	b.get("/topics/t/partitions/0/records?count=2", accept(typeOctets)).problem(40001)
	if etag := one("0").header.Get("Etag"); etag == "" {
		t.Error("a single record has no ETag")
	} else {
		b.get("/topics/t/partitions/0/records?count=1&offset=0", accept(typeOctets), header("If-None-Match", etag)).want(304)
	}
}

func TestNegotiationOfReads(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.append("t", 0, recordsBody(1))
	for accepts, want := range map[string]string{
		"": typeJSON, "*/*": typeJSON, "application/*": typeJSON, "Application/X-NDJSON; charset=utf-8": typeNDJSON, "text/html, */*;q=0.1": typeJSON,
		typeKafkaText + ";q=0.5, " + typeKafkaBinary: typeKafkaBinary, "application/json;q=0, */*;q=0.1": typeNDJSON, "garbage": typeJSON,
	} {
		a := b.get("/topics/t/partitions/0/records", accept(accepts)).want(200)
		if got := a.header.Get("Content-Type"); got != want {
			t.Errorf("%s: got %s, want %s", accepts, got, want)
		}
		if a.header.Get("Vary") != "Accept" {
			t.Errorf("%s: Vary is %q", accepts, a.header.Get("Vary"))
		}
	}
	b.get("/topics/t/partitions/0/records", accept("text/html")).problem(40601)
	b.get("/topics/t/partitions/0/records?follow=true", accept(typeJSON)).problem(40601)
	b.get("/topics/t/partitions/1/records", accept("text/html")).problem(40601)
	a := b.get("/topics/nope/partitions/0/records", accept(typeKafkaJSON))
	a.problem(40401)
}

// TestH46_EveryOffset: in small segments and batches of 1, 7 and 100, plain and
// compressed, each offset gives exactly its record, also after a restart.
func TestH46_EveryOffset(t *testing.T) {
	b := startBroker(t)
	for _, compression := range []string{"producer", "gzip", "zstd"} {
		b.topic(compression, 1, "segment.bytes", "1024", "compression.type", compression)
		n := 0
		for n < 324 {
			for _, size := range []int{1, 7, 100} {
				var body strings.Builder
				for i := range size {
					fmt.Fprintf(&body, `{"value":{"n":%d,"pad":"%s"}}`+"\n", n+i, strings.Repeat("x", (n+i)%200))
				}
				b.post("/topics/"+compression+"/partitions/0?acks=-1", body.String(), ofType(typeNDJSON)).want(200)
				n += size
			}
		}
		for range 2 {
			for offset := range n {
				got := b.fetch(compression, 0, fmt.Sprintf("offset=%d&count=1", offset))
				if len(got) != 1 || got[0].Offset != int64(offset) || !strings.HasPrefix(string(got[0].Value), fmt.Sprintf(`{"n":%d,`, offset)) {
					t.Fatalf("%s, offset %d: %v", compression, offset, got)
				}
			}
			if all := b.fetch(compression, 0, "count=1000"); len(all) != n {
				t.Errorf("%s: a count of 1000 gave %d of %d records", compression, len(all), n)
			}
			b.restart()
		}
	}
}

// TestLosslessRoundTrip: what any representation shows can be posted back and
// gives the same bytes.
func TestLosslessRoundTrip(t *testing.T) {
	b := startBroker(t)
	b.topic("from", 1)
	text := func(s string) []byte { return []byte(s) }
	records := []storage.Record{
		{Key: text("k"), Value: text(`{ "a" : [1, 2.0] }`), Timestamp: 5}, {Value: text("null")}, {Key: text(""), Value: text("")}, {Key: text("k")},
		{Key: []byte{0xff, 0}, Value: []byte{0xfe, 0xff}}, {Key: text("\x00"), Value: text("a\r\nb\u2028\"\\")}, {Key: text("null"), Value: text(`{"a":1,"a":2}`)},
		{Key: text(`{"k":1}`), Value: text(`"text"`), Headers: []storage.Header{{Key: text("h"), Value: []byte{1, 255}}, {Key: text("h")}, {Key: text(""), Value: text("")}}},
		{Key: text(`"k"`), Value: text(" 1 "), Headers: []storage.Header{{Key: text(idHeader), Value: text("id-1")}}},
	}
	b.appendRecords("from", records)
	for i, c := range []struct{ mediaType, formats string }{
		{typeJSON, ""}, {typeNDJSON, ""}, {typeKafkaBinary, ""},
		{typeJSON, "key_format=json"}, {typeJSON, "value_format=string"}, {typeJSON, "key_format=binary&value_format=binary"}, {typeNDJSON, "key_format=json&value_format=json"},
	} {
		to := fmt.Sprintf("to%d", i)
		b.topic(to, 1)
		a := b.get("/topics/from/partitions/0/records?"+c.formats, accept(c.mediaType)).want(200)
		body := string(a.body)
		if c.mediaType != typeNDJSON {
			body = `{"records":` + body + `}`
		}
		if c.mediaType == typeKafkaBinary {
			body = strings.ReplaceAll(body, `"topic":"from",`, "")
		}
		// The formats are named in the records themselves, so the plain call takes them.
		b.post("/topics/"+to+"/partitions/0?acks=-1", body, ofType(c.mediaType)).want(200)
		got := b.stored(to, 0, len(records))
		for j := range records {
			if err := sameRecord(&got[j], &records[j]); err != "" {
				t.Errorf("%s %s: record %d: %s\nfrom %s", c.mediaType, c.formats, j, err, body)
			}
		}
	}
}

// appendRecords writes records past the handlers.
func (b *testBroker) appendRecords(topic string, records []storage.Record) {
	b.t.Helper()
	builder := storage.NewBatchBuilder(nil)
	for i := range records {
		builder.Append(&records[i])
	}
	b.appendBatch(topic, builder)
}

func sameRecord(got, want *storage.Record) string {
	switch {
	case !sameBytes(got.Key, want.Key):
		return fmt.Sprintf("key %q became %q", want.Key, got.Key)
	case !sameBytes(got.Value, want.Value):
		return fmt.Sprintf("value %q became %q", want.Value, got.Value)
	case got.Timestamp != want.Timestamp:
		return fmt.Sprintf("timestamp %d became %d", want.Timestamp, got.Timestamp)
	case len(got.Headers) != len(want.Headers):
		return fmt.Sprintf("%d headers became %d", len(want.Headers), len(got.Headers))
	}
	for i := range want.Headers {
		if !sameBytes(got.Headers[i].Key, want.Headers[i].Key) || !sameBytes(got.Headers[i].Value, want.Headers[i].Value) {
			return fmt.Sprintf("header %q=%q became %q=%q", want.Headers[i].Key, want.Headers[i].Value, got.Headers[i].Key, got.Headers[i].Value)
		}
	}
	return ""
}

func (b *testBroker) appendBatch(topic string, builder *storage.BatchBuilder) {
	b.t.Helper()
	batch, err := builder.Seal(storage.CompressionNone, nil)
	must(b.t, err)
	res := b.broker.Append(b.t.Context(), replication.AcksAll, []replication.AppendRequest{{Topic: topic, Batches: []storage.Batch{batch}}})
	must(b.t, res[0].Err)
}

// TestLargePages: pages that are rendered while they are sent hold the same as
// small ones, begin inside a batch if asked, and end at a batch.
func TestLargePages(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	const n = 8000
	var body strings.Builder
	for i := range n {
		fmt.Fprintf(&body, `{"key":"k%d","value":{"n":%d,"pad":"%s"}}`+"\n", i, i, strings.Repeat("x", i%300))
	}
	b.post("/topics/t/partitions/0?acks=-1", body.String(), ofType(typeNDJSON)).want(200)
	for _, mediaType := range []string{typeJSON, typeNDJSON} {
		seen, pages, streamed := 3, 0, false
		for seen < n {
			path := fmt.Sprintf("/topics/t/partitions/0/records?offset=%d", seen)
			a := b.get(path, accept(mediaType)).want(200)
			head := b.do(http.MethodHead, path, nil, accept(mediaType)).want(200)
			for _, name := range []string{"Highwater-Next-Offset", "Highwater-Leader-Epoch", "Content-Length", "Content-Type"} {
				if a.header.Get(name) != head.header.Get(name) {
					t.Errorf("%s: GET has %q, HEAD has %q", name, a.header.Get(name), head.header.Get(name))
				}
			}
			streamed = streamed || a.header.Get("Content-Length") == ""
			text := string(a.body)
			if mediaType == typeNDJSON {
				text = "[" + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", ",") + "]"
			}
			var got []fetched
			must(t, json.Unmarshal([]byte(text), &got))
			for _, r := range got {
				if r.Offset != int64(seen) || !strings.HasPrefix(string(r.Value), fmt.Sprintf(`{"n":%d,`, seen)) || string(r.Key) != fmt.Sprintf(`"k%d"`, seen) {
					t.Fatalf("at %d: %+v", seen, r)
				}
				seen++
			}
			if a.header.Get("Highwater-Next-Offset") != strconv.Itoa(seen) || len(got) == 0 {
				t.Fatalf("next offset %q after %d", a.header.Get("Highwater-Next-Offset"), seen)
			}
			pages++
		}
		if pages < 2 || pages > 3 || !streamed {
			t.Errorf("%s: %d pages, streamed: %v", mediaType, pages, streamed)
		}
	}
}

// TestReadsShareTheirMemory: when the memory for answers is used up, pages get
// small, but nobody is refused and nothing is left out; nothing is held by those
// who wait, nor after the answers.
func TestReadsShareTheirMemory(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 2)
	for p := range 2 {
		for range 4 {
			b.append("t", p, `{"records":[{"value":"`+strings.Repeat("x", 20<<10)+`"},{"value":"`+strings.Repeat("y", 20<<10)+`"}]}`)
		}
	}
	reads := &b.handler.(*api).reads
	for _, most := range []int64{maxReadBytesInFlight, 0} {
		reads.most = most
		pages := 0
		for next := 0; next < 8; pages++ {
			got := b.fetch("t", 0, fmt.Sprintf("max_bytes=16777216&offset=%d", next))
			if len(got) == 0 || got[0].Offset != int64(next) {
				t.Fatalf("at %d: %v", next, len(got))
			}
			next += len(got)
		}
		if small := pages > 1; small != (most == 0) {
			t.Errorf("%d pages with %d bytes for all", pages, most)
		}
		merged := b.get("/topics/t/records").want(200)
		if next := merged.header.Get("Highwater-Next-Position"); (next == "0:8,1:8") != (most > 0) || next == "0:0,1:0" {
			t.Errorf("merged to %s with %d bytes for all", next, most)
		}
		if lines := b.get("/topics/t/records?follow=true&count=16").want(200); strings.Count(string(lines.body), "\n") != 16 {
			t.Errorf("a tail gave %d lines with %d bytes for all", strings.Count(string(lines.body), "\n"), most)
		}
	}
	done := make(chan answer, 2)
	go func() { done <- b.get("/topics/t/partitions/0/records?offset=latest&timeout=60000") }()
	go func() { done <- b.get("/topics/t/records?offset=latest&timeout=60000") }()
	tail := b.events("/topics/t/records?offset=latest")
	b.eventually("all wait", func() bool { return b.waiting() == 3 })
	b.eventually("nothing is held", func() bool { return reads.used.Load() == 0 })
	b.append("t", 0, recordsBody(1))
	(<-done).want(200)
	(<-done).want(200)
	tail.record()
	b.eventually("nothing is held", func() bool { return reads.used.Load() == 0 })
}

// TestLeaderEpochOfAFormerAnswer: sent back it is good, over restarts too, which
// bring new epochs; one that never was is an explicit 409.
func TestLeaderEpochOfAFormerAnswer(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	next, epoch, restarts := "0", "", 0
	for i := range 9 {
		b.append("t", 0, recordsBody(2))
		path := "/topics/t/partitions/0/records?count=1&offset=" + next
		if epoch != "" {
			path += "&leader_epoch=" + epoch
		}
		a := b.get(path).want(200)
		next, epoch = a.header.Get("Highwater-Next-Offset"), a.header.Get("Highwater-Leader-Epoch")
		if next != strconv.Itoa(i+1) {
			t.Fatalf("read %d ends at %s", i, next)
		}
		if i%3 == 2 {
			b.restart()
			restarts++
		}
	}
	if a := b.get("/topics/t/partitions/0/records?count=20&offset=" + next + "&leader_epoch=" + epoch).want(200); a.header.Get("Highwater-Leader-Epoch") == epoch {
		t.Errorf("%d restarts made no new epoch: %s", restarts, epoch)
	}
	b.get("/topics/t/partitions/0/records?offset=3&leader_epoch=2147483647").problem(40905)
}

// A record whose key or headers an HTTP head can't hold isn't given as if it had
// none, nor in a head that clients refuse.
func TestFetchOneOfWhatNoHeadHolds(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	long := strings.Repeat("k", maxKeyInHeader)
	headers := `{"key":"a","value":"eA=="},{"key":"n","value":null},{"key":"b\r\nc","value":"eA=="},{"key":"long","value":"` +
		base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", maxRecordHeaderBytes))) + `"},{"key":"z","value":"eQ=="}`
	b.post("/topics/t?acks=-1", `{"records":[{"key":"`+long+`","value":1},{"key":"`+long+`k","value":2},{"key":"k","value":3,"headers":[`+headers+`]}]}`).want(200)
	one := func(offset string) answer {
		return b.get("/topics/t/partitions/0/records?count=1&offset="+offset, accept(typeOctets))
	}
	if a := one("0").want(200); a.header.Get("Record-Key") != long || a.header.Get("Record-Headers-Omitted") != "" {
		t.Errorf("a key of %d bytes: %d came back", len(long), len(a.header.Get("Record-Key")))
	}
	a := one("1")
	a.problem(40601)
	if next := a.header.Get("Highwater-Next-Offset"); next != "" {
		t.Errorf("an answer without the record says that the next one is %s", next)
	}
	a = one("2").want(200)
	if h := a.header; h.Get("Record-Header-A") != "x" || h.Get("Record-Header-Z") != "y" || h.Get("Record-Header-Long") != "" || h.Get("Record-Headers-Omitted") != "3" {
		t.Errorf("headers: %v", h)
	}
}
