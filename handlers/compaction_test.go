package handlers

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"highwater/replication/wire"
)

// compact has the broker compact a topic, as an operator does.
func (b *testBroker) compact(topic string) string {
	b.t.Helper()
	in := NewInternal(InternalConfig{Logger: zerolog.Nop(), Secret: "s3cret"})
	in.SetBroker(b.broker)
	r := httptest.NewRequest(http.MethodPost, wire.PathPrefix+wire.PathCompact, strings.NewReader(`{"topic":"`+topic+`"}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(wire.HeaderSecret, "s3cret")
	w := httptest.NewRecorder()
	in.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		b.t.Fatalf("compact %s: %d %s", topic, w.Code, w.Body)
	}
	return strings.TrimSpace(w.Body.String())
}

// TestH06_TombstonesThroughACompaction: null is a tombstone and read back as null; ""
// and {} are values; a record without a value is refused. After a compaction k1 is
// its tombstone, and gone once its time is over; k3 and k4 remain, at their offsets.
func TestH06_TombstonesThroughACompaction(t *testing.T) {
	b := startBroker(t)
	b.topic("c6", 1, "cleanup.policy", "compact", "delete.retention.ms", "0")
	b.post("/topics/c6", `{"records":[{"key":"k1","value":{"a":1}},{"key":"k1","value":null},{"key":"k2"},{"key":"k3","value":""},{"key":"k4","value":{}}]}`).problem(42201)
	b.post("/topics/c6?acks=-1", `{"records":[{"key":"k1","value":{"a":1}},{"key":"k1","value":null},{"key":"k3","value":""},{"key":"k4","value":{}}]}`).want(200)
	read := func(from string) string {
		t.Helper()
		return string(b.get("/topics/c6/partitions/0/records?offset=" + from).want(200).body)
	}
	holds := func(got string, parts ...string) {
		t.Helper()
		at := 0
		for _, part := range parts {
			i := strings.Index(got[at:], part)
			if i < 0 {
				t.Fatalf("%s lacks %s, or has it elsewhere", got, part)
			}
			at += i
		}
		if n := strings.Count(got, `"offset":`); n != len(parts)/2 {
			t.Fatalf("%s: %d records, want %d", got, n, len(parts)/2)
		}
	}
	holds(read("0"), `"key":"k1"`, `"value":{"a":1}`, `"key":"k1"`, `"value":null`, `"key":"k3"`, `"value":""`, `"key":"k4"`, `"value":{}`)
	if got, want := b.compact("c6"), `{"partitions":[{"partition":0,"compacted_before":4,"records":4,"removed":1,`; !strings.HasPrefix(got, want) {
		t.Errorf("compaction says %s, want %s…", got, want)
	}
	holds(read("0"), `"key":"k1"`, `"value":null`, `"key":"k3"`, `"value":""`, `"key":"k4"`, `"value":{}`)
	b.compact("c6")                                // the tombstone's time is over: delete.retention.ms is 0
	for _, from := range []string{"0", "1", "2"} { // an offset without a record gives the next that there is
		holds(read(from), `"key":"k3"`, `"value":""`, `"key":"k4"`, `"value":{}`)
	}
	one := b.get("/topics/c6/partitions/0/records?offset=0", accept("application/octet-stream")).want(200)
	if one.header.Get("Record-Offset") != "2" || one.header.Get("Highwater-Next-Offset") != "3" {
		t.Errorf("one record from 0 on: %v", one.header)
	}
	first := b.get("/topics/c6/partitions/0/records?offset=0&count=1").want(200)
	holds(string(first.body), `"key":"k3"`, `"value":""`)
	if next := first.header.Get("Highwater-Next-Offset"); next != "3" {
		t.Errorf("one of a count of one: the next offset is %s", next)
	}
	holds(string(b.get("/topics/c6/records?position=0:0").want(200).body), `"key":"k3"`, `"value":""`, `"key":"k4"`, `"value":{}`)
	events := string(b.get("/topics/c6/partitions/0/records?offset=0&count=2", accept("text/event-stream")).want(200).body)
	holds(events, `"key":"k3"`, `"value":""`, `"key":"k4"`, `"value":{}`)
	for _, id := range []string{"id: 0:3\n", "id: 0:4\n"} { // the position after each record
		if !strings.Contains(events, id) {
			t.Errorf("%q lacks %q", events, id)
		}
	}
	if end := b.end("c6", 0); end != 4 {
		t.Errorf("log end %d", end)
	}
}
