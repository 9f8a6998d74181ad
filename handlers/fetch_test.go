package handlers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// fetched is a native record as a client parses it.
type fetched struct {
	Topic         string          `json:"topic"`
	Partition     int32           `json:"partition"`
	Offset        int64           `json:"offset"`
	Timestamp     int64           `json:"timestamp"`
	Key           json.RawMessage `json:"key"`
	KeyEncoding   string          `json:"key_encoding"`
	Value         json.RawMessage `json:"value"`
	ValueEncoding string          `json:"value_encoding"`
	Headers       []struct {
		Key   string  `json:"key"`
		Value *string `json:"value"`
	} `json:"headers"`
	ID string `json:"id"`
}

// append writes records to a partition, durably and visibly.
func (b *testBroker) append(topic string, partition int, body string) {
	b.t.Helper()
	b.post(fmt.Sprintf("/topics/%s/partitions/%d?acks=-1", topic, partition), body).want(http.StatusOK)
}

// fetch reads a partition and checks what must always hold of the answer.
func (b *testBroker) fetch(topic string, partition int, query string) []fetched {
	b.t.Helper()
	a := b.get(fmt.Sprintf("/topics/%s/partitions/%d/records?%s", topic, partition, query)).want(http.StatusOK)
	var out []fetched
	a.into(&out)
	for i, r := range out {
		if r.Topic != topic || r.Partition != int32(partition) || i > 0 && r.Offset != out[i-1].Offset+1 {
			b.t.Fatalf("record %d: %+v", i, r)
		}
	}
	return out
}

func values(records []fetched) string {
	var s []string
	for _, r := range records {
		s = append(s, string(r.Value))
	}
	return strings.Join(s, " ")
}

func TestH01H09_NumbersKeepTheirText(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	numbers := []string{"9007199254740993", "-9223372036854775808", "18446744073709551615", `{"id":123456789012345678901234567890}`,
		"1.0", "1", "0.1", "1000000.0", "1e6", "1E+2", "-0", "5e-324", "0.30000000000000004", "1e400"}
	b.append("t", 0, `{"records":[{"value":`+strings.Join(numbers, `},{"value":`)+`}]}`)
	want := strings.Join(numbers, " ")
	if got := values(b.fetch("t", 0, "")); got != want {
		t.Errorf("array: %s", got)
	}
	for _, mediaType := range []string{typeNDJSON, typeKafkaJSON} {
		body := string(b.get("/topics/t/partitions/0/records", accept(mediaType)).want(200).body)
		for _, n := range numbers {
			if !strings.Contains(body, `"value":`+n+",") {
				t.Errorf("%s: %s is missing in %s", mediaType, n, body)
			}
		}
	}
}

func TestH07_NothingIsEscapedForHTML(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	records := []string{"\"<b>&amp; \u2028 \u2029 é 😀 \\ud83d\\ude00\"", `{"<k>":"&"}`}
	b.append("t", 0, `{"records":[{"value":`+strings.Join(records, `},{"value":`)+`}]}`)
	if got := values(b.fetch("t", 0, "")); got != strings.Join(records, " ") {
		t.Errorf("got %s", got)
	}
	b.post("/topics/t/partitions/0/records?acks=-1", "<b>&\u2028 \r\n plain").want(200)
	var text string
	r := b.fetch("t", 0, "offset=2")[0]
	must(t, json.Unmarshal(r.Value, &text))
	if text != "<b>&\u2028 \r\n plain" || r.ValueEncoding != "text" || strings.Contains(string(r.Value), `\u003c`) {
		t.Errorf("text came back as %s (%s)", r.Value, r.ValueEncoding)
	}
}

func TestH10_KeyTypesAreKept(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	keys := []string{`"1"`, "1", "1.0", "true", "null", `{"a":1}`, "[1]"}
	b.post("/topics/t/partitions/0?acks=-1&key_format=json", `{"records":[{"value":"x","key":`+strings.Join(keys, `},{"value":"x","key":`)+`},{"value":"x"}]}`).want(200)
	got := b.fetch("t", 0, "key_format=json")
	for i, k := range append(keys, "null") {
		if string(got[i].Key) != k {
			t.Errorf("key %s came back as %s", k, got[i].Key)
		}
	}
	b.topic("plain", 1)
	b.append("plain", 0, `{"records":[{"value":1,"key":"1"},{"value":1,"key":""},{"value":1,"key":null},{"value":1}]}`)
	want := []string{`"1"`, `""`, "null", "null"}
	for i, r := range b.fetch("plain", 0, "") {
		if string(r.Key) != want[i] {
			t.Errorf("plain key %d came back as %s, want %s", i, r.Key, want[i])
		}
	}
}

func TestH20_OffsetsAtTheEdges(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.append("t", 0, recordsBody(10))
	const path = "/topics/t/partitions/0/records?"
	for query, want := range map[string]string{
		"offset=9": "9", "offset=10": "", "offset=10&timeout=20": "", "": "0 1 2 3 4 5 6 7 8 9", "offset=earliest&count=2": "0 1", "offset=latest": "",
		"offset=-1": "9", "offset=-2": "8 9", "offset=-100&count=1": "0", "offset=-9223372036854775807&count=1": "0",
		"offset=7&count=1000000000": "7 8 9", "offset=3&count=2147483648": "3 4 5 6 7 8 9", "offset=0&count=3": "0 1 2",
	} {
		var got []string
		a := b.get(path + query).want(200)
		var records []fetched
		a.into(&records)
		for _, r := range records {
			got = append(got, strconv.FormatInt(r.Offset, 10))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: got %s, want %s", query, s, want)
		}
		next := int64(10)
		if len(records) > 0 {
			next = records[len(records)-1].Offset + 1
		}
		for name, value := range map[string]int64{"Highwater-Next-Offset": next, "Highwater-High-Watermark": 10, "Highwater-Log-Start-Offset": 0} {
			if h := a.header.Get(name); h != strconv.FormatInt(value, 10) {
				t.Errorf("%s: %s is %q, want %d", query, name, h, value)
			}
		}
		if a.header.Get("Highwater-Leader") != b.url || a.header.Get("Highwater-Leader-Epoch") == "" {
			t.Errorf("%s: leader %q, epoch %q", query, a.header.Get("Highwater-Leader"), a.header.Get("Highwater-Leader-Epoch"))
		}
	}
	for _, query := range []string{"offset=11", "offset=11&timeout=60000", "offset=9223372036854775807"} {
		var p struct {
			LogStartOffset int64 `json:"log_start_offset"`
			HighWatermark  int64 `json:"high_watermark"`
		}
		a := b.get(path + query)
		a.problem(41601)
		if a.into(&p); p.LogStartOffset != 0 || p.HighWatermark != 10 {
			t.Errorf("%s: the range is missing in %s", query, a.body)
		}
	}
	for _, bad := range []string{"offset=9223372036854775808", "offset=0x5", "offset=+5", "offset=05", "offset=5.0", "offset=", "offset=3&offset=7", "offset=%2B5", "offset=first",
		"count=0", "count=-1", "count=", "count=1e3", "max_bytes=0", "max_bytes=-1", "min_bytes=0", "offset=1&timestamp=5", "ofset=1", "isolation=dirty", "leader_epoch=-1", "timestamp=-1", "follow=yes"} {
		b.get(path + bad).problem(40001)
	}
}

// TestH19_AbsurdTimeouts: each is refused or cut to the documented maximum; a
// drained broker answers those that wait.
func TestH19_AbsurdTimeouts(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	const path = "/topics/t/partitions/0/records?timeout="
	for _, bad := range []string{"-1", "1e3", "5s", "1.5", "", "%2010", "10&timeout=99999", "5;x=1", "+5", "0x10"} {
		b.get(path + bad).problem(40001)
	}
	for _, good := range []string{"0", "1"} {
		if a := b.get(path + good).want(200); string(a.body) != "[]\n" {
			t.Errorf("%s: %s", good, a.body)
		}
	}
	absurd := []string{"9223372036855", "18446744073709552", "9223372036854775807", "99999999999999999999"}
	done := make(chan answer, len(absurd))
	for _, wait := range absurd {
		go func() { done <- b.get(path + wait) }()
	}
	b.eventually("all wait", func() bool { return b.waiting() == len(absurd) })
	b.append("t", 0, recordsBody(1))
	for range absurd {
		if a := (<-done).want(200); !strings.Contains(string(a.body), `"offset":0`) {
			t.Errorf("woken with %s", a.body)
		}
	}
}

// waiting is the number of requests that wait for records.
func (b *testBroker) waiting() int {
	return int(b.handler.(*api).waiters.used.Load())
}

// eventually polls for what no event tells.
func (b *testBroker) eventually(what string, ok func() bool) {
	b.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			b.t.Fatalf("not in 20 s: %s", what)
		}
		<-tick.C
	}
}

func TestH37_MaxBytesSmallerThanTheNextRecord(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	long := strings.Repeat("x", 5000)
	b.append("t", 0, `{"records":[{"value":"12345678"},{"value":"`+long+`"},{"value":"12345678"}]}`)
	for _, maxBytes := range []int{1, 100, 5000} {
		for next := int64(0); next < 3; {
			got := b.fetch("t", 0, fmt.Sprintf("offset=%d&max_bytes=%d", next, maxBytes))
			if len(got) == 0 || got[0].Offset != next {
				t.Fatalf("max_bytes=%d from %d: no progress", maxBytes, next)
			}
			if maxBytes < 5000 && len(got) != 1 {
				t.Errorf("max_bytes=%d from %d: %d records", maxBytes, next, len(got))
			}
			next += int64(len(got))
		}
	}
}

func TestFetchByTime(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	for _, ms := range []int{1010, 1020, 1030, 1040} {
		b.append("t", 0, fmt.Sprintf(`{"records":[{"value":%d,"timestamp":%d}]}`, ms, ms))
	}
	for query, want := range map[string]string{
		"timestamp=1005": "1010 1020 1030 1040", "timestamp=1010&count=1": "1010", "timestamp=1011&count=1": "1020", "timestamp=1040": "1040", "timestamp=1041": "",
		"timestamp=1970-01-01T00:00:01.03Z": "1030 1040", "timestamp=-15m": "",
	} {
		if got := values(b.fetch("t", 0, query)); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

// TestH44_OffsetForTimestamp also after all records went away.
func TestH44_OffsetForTimestamp(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	type offsets struct {
		Beginning int64  `json:"beginning_offset"`
		End       int64  `json:"end_offset"`
		LogEnd    int64  `json:"log_end_offset"`
		At        *int64 `json:"offset_for_timestamp"`
	}
	ask := func(timestamp string) (o offsets) {
		t.Helper()
		b.get("/topics/t/partitions/0/offsets?timestamp=" + timestamp).want(200).into(&o)
		return o
	}
	none := int64(-1)
	expect := func(timestamp string, want int64) {
		t.Helper()
		switch o := ask(timestamp); {
		case o.At == nil && want != none, o.At != nil && *o.At != want:
			t.Errorf("%s: got %v, want %d", timestamp, o.At, want)
		}
	}
	expect("1000", none)
	for _, ms := range []int{1010, 1020, 1030, 1040} {
		b.append("t", 0, fmt.Sprintf(`{"records":[{"value":1,"timestamp":%d}]}`, ms))
	}
	for _, when := range []string{"fresh", "restarted"} {
		t.Log(when)
		for timestamp, want := range map[string]int64{"1005": 0, "1010": 0, "1011": 1, "1040": 3, "1041": none} {
			expect(timestamp, want)
		}
		b.restart()
	}
	b.do("DELETE", "/topics/t/partitions/0/records?before_offset=high_watermark", nil).want(200)
	expect("1005", none)
	b.restart()
	expect("1005", none)
	if o := ask("0"); o != (offsets{4, 4, 4, nil}) {
		t.Errorf("after the deletion: %+v", o)
	}
	b.get("/topics/t/partitions/0/offsets?timestamp=-1").problem(40001)
	b.get("/topics/t/partitions/1/offsets").problem(40402)
	b.get("/topics/x/partitions/0/offsets").problem(40401)
}

func TestBelowTheLogStart(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.append("t", 0, recordsBody(10))
	var answer struct {
		Beginning int64 `json:"beginning_offset"`
	}
	b.do("DELETE", "/topics/t/partitions/0/records?before_offset=4", nil).want(200).into(&answer)
	if answer.Beginning != 4 {
		t.Errorf("begins at %d", answer.Beginning)
	}
	a := b.get("/topics/t/partitions/0/records?offset=3")
	a.problem(41001)
	if !strings.Contains(string(a.body), `"log_start_offset":4`) {
		t.Errorf("no range in %s", a.body)
	}
	if got := b.fetch("t", 0, "offset=earliest&count=1"); len(got) != 1 || got[0].Offset != 4 {
		t.Errorf("earliest is %v", got)
	}
	for _, below := range []string{"0", "4"} { // it only grows
		b.do("DELETE", "/topics/t/partitions/0/records?before_offset="+below, nil).want(200).into(&answer)
		if answer.Beginning != 4 {
			t.Errorf("before_offset=%s: begins at %d", below, answer.Beginning)
		}
	}
	b.do("DELETE", "/topics/t/partitions/0/records?before_offset=11", nil).problem(41601)
	for _, bad := range []string{"", "?before_offset=", "?before_offset=-1", "?before_offset=latest", "?before=1"} {
		b.do("DELETE", "/topics/t/partitions/0/records"+bad, nil).problem(40001)
	}
}

// TestETagRule: closed and committed ranges are cacheable, nothing else is.
func TestETagRule(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.append("t", 0, recordsBody(10))
	const path = "/topics/t/partitions/0/records?"
	closed := b.get(path + "offset=2&count=3").want(200)
	etag := closed.header.Get("Etag")
	topic, err := b.broker.Topic("t")
	must(t, err)
	if !strings.HasPrefix(etag, `"`+topic.ID.String()) || !strings.HasPrefix(closed.header.Get("Cache-Control"), "private, max-age=") {
		t.Fatalf("ETag %q, Cache-Control %q", etag, closed.header.Get("Cache-Control"))
	}
	for _, match := range []string{etag, `"x", W/` + etag, "*"} {
		a := b.get(path+"offset=2&count=3", header("If-None-Match", match)).want(http.StatusNotModified)
		if len(a.body) != 0 || a.header.Get("Etag") != etag || a.header.Get("Highwater-Next-Offset") != "5" {
			t.Errorf("%s: 304 with %q, %q", match, a.body, a.header)
		}
	}
	b.get(path+"offset=2&count=3", header("If-None-Match", `"other"`)).want(200)
	seen := map[string]string{etag: "first"}
	for _, other := range []string{"offset=2&count=2", "offset=3&count=3", "offset=2&count=3&value_format=binary", "offset=2&count=3&key_format=json"} {
		tag := b.get(path + other).want(200).header.Get("Etag")
		if tag == "" || seen[tag] != "" {
			t.Errorf("%s has the ETag %q of %s", other, tag, seen[tag])
		}
		seen[tag] = other
	}
	for _, mediaType := range []string{typeNDJSON, typeKafkaJSON, typeKafkaBinary, typeKafkaText} {
		tag := b.get(path+"offset=2&count=3", accept(mediaType)).want(200).header.Get("Etag")
		if tag == "" || seen[tag] != "" {
			t.Errorf("%s has the ETag %q of %s", mediaType, tag, seen[tag])
		}
		seen[tag] = mediaType
	}
	for _, open := range []string{"", "offset=2", "count=3", "offset=8&count=3", "offset=earliest&count=3", "offset=-5&count=2", "offset=10&count=1"} {
		a := b.get(path + open).want(200)
		if a.header.Get("Etag") != "" || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: ETag %q, Cache-Control %q", open, a.header.Get("Etag"), a.header.Get("Cache-Control"))
		}
	}
	b.topic("compacted", 1, "cleanup.policy", "compact")
	b.append("compacted", 0, `{"records":[{"key":"k","value":1},{"key":"k","value":2}]}`)
	if tag := b.get("/topics/compacted/partitions/0/records?offset=0&count=1").want(200).header.Get("Etag"); tag != "" {
		t.Errorf("a compacted topic has the ETag %s", tag)
	}
	// The same name again is another topic, and no cached answer of the old one.
	b.do("DELETE", "/topics/t", nil).want(204)
	b.topic("t", 1)
	b.append("t", 0, recordsBody(10))
	b.get(path+"offset=2&count=3", header("If-None-Match", etag)).want(200)
}

// TestH15_HeadOfReads: the headers of GET, no body, no waiting for a stream.
func TestH15_HeadOfReads(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.append("t", 0, recordsBody(3))
	for _, c := range []struct{ path, accept string }{
		{"/topics", ""}, {"/topics/t", ""}, {"/topics/t/partitions", ""}, {"/topics/t/partitions/0", ""}, {"/topics/t/partitions/0/offsets", ""},
		{"/topics/t/partitions/0/records", ""}, {"/topics/t/partitions/0/records?offset=1&count=1", ""}, {"/topics/t/partitions/0/records?count=1", typeOctets}, {"/topics/t/records", ""}, {"/cluster", ""}, {"/brokers", ""}, {"/", ""}, {"/healthz", ""}, {"/readyz", ""},
	} {
		get, head := b.get(c.path, accept(c.accept)).want(200), b.do(http.MethodHead, c.path, nil, accept(c.accept)).want(200)
		if len(head.body) != 0 {
			t.Errorf("%s: HEAD has a body", c.path)
		}
		for _, h := range []http.Header{get.header, head.header} {
			h.Del("Date")
			h.Del("X-Request-Id")
		}
		if g, h := fmt.Sprint(get.header), fmt.Sprint(head.header); g != h {
			t.Errorf("%s: GET has %s\nHEAD has %s", c.path, g, h)
		}
	}
	for _, stream := range []string{"/topics/t/partitions/0/records", "/topics/t/records"} {
		if a := b.do(http.MethodHead, stream, nil, accept(typeSSE)).want(200); a.header.Get("Content-Type") != typeSSE {
			t.Errorf("%s: HEAD of a stream is %v", stream, a.header)
		}
	}
}

func TestPreferWait(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	done := make(chan answer, 1)
	go func() { done <- b.get("/topics/t/partitions/0/records", header("Prefer", "respond-async, wait=30")) }()
	b.eventually("it waits", func() bool { return b.waiting() == 1 })
	b.append("t", 0, recordsBody(1))
	if a := (<-done).want(200); a.header.Get("Preference-Applied") != "wait=30" || !strings.Contains(string(a.body), `"offset":0`) {
		t.Errorf("got %s with %v", a.body, a.header)
	}
	for _, ignored := range []string{"wait=x", "wait=-1", "wait", "return=minimal"} {
		if a := b.get("/topics/t/partitions/0/records?offset=latest", header("Prefer", ignored)).want(200); a.header.Get("Preference-Applied") != "" {
			t.Errorf("%s was applied: %v", ignored, a.header)
		}
	}
}

// TestMinBytes: a poll waits for so much, but gives what there is at its end.
func TestMinBytes(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.append("t", 0, `{"records":[{"value":"12345678"}]}`)
	if got := b.fetch("t", 0, "min_bytes=1000&timeout=20"); len(got) != 1 {
		t.Errorf("after the wait: %v", got)
	}
	done := make(chan answer, 1)
	go func() { done <- b.get("/topics/t/partitions/0/records?min_bytes=15&timeout=60000") }()
	b.eventually("it waits", func() bool { return b.waiting() == 1 })
	b.append("t", 0, `{"records":[{"value":"12345678"}]}`)
	var got []fetched
	if (<-done).want(200).into(&got); len(got) != 2 {
		t.Errorf("got %d records", len(got))
	}
}

// TestPollEndsAtShutdownAndDeletion: neither leaves a poll waiting.
func TestPollEndsAtShutdownAndDeletion(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.topic("gone", 2)
	done, gone := make(chan answer, 1), make(chan answer, 2)
	go func() { done <- b.get("/topics/t/partitions/0/records?timeout=60000") }()
	go func() { gone <- b.get("/topics/gone/partitions/0/records?timeout=60000") }()
	go func() { gone <- b.get("/topics/gone/records?timeout=60000") }()
	b.eventually("all wait", func() bool { return b.waiting() == 3 })
	b.do("DELETE", "/topics/gone", nil).want(204)
	(<-gone).problem(40401)
	(<-gone).problem(40401)
	b.drain()
	if a := (<-done).want(200); string(a.body) != "[]\n" || a.header.Get("Highwater-Next-Offset") != "0" {
		t.Errorf("got %s", a.body)
	}
}

// TestV8_TheEndIsNeverBeforeWhatIsGiven: a read that was answered in two steps, the
// second by a leader that is new or stale and knows of a lower high watermark, tells
// the higher one: it gives records up to there.
func TestV8_TheEndIsNeverBeforeWhatIsGiven(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.append("t", 0, `{"records":[{"value":1},{"value":2}]}`)
	a := &api{cfg: Config{Broker: b.broker}}
	r := httptest.NewRequest(http.MethodGet, "/topics/t/partitions/0/records", nil)
	q := &readQuery{}
	rd, err := a.newReader(r, "t", q)
	if err != nil {
		t.Fatal(err)
	}
	rd.add(position{0, 0}, -1)
	res, err := rd.fetch(t.Context(), &rd.cursors[0], 1<<20)
	if err != nil || res.HighWatermark != 2 {
		t.Fatal(res.HighWatermark, err)
	}
	res.HighWatermark = 1 // as a later read from a leader that knows less
	h := http.Header{}
	a.describe(h, rd, &rd.cursors[0], &res, q)
	if got := h.Get("Highwater-High-Watermark"); got != "2" {
		t.Errorf("Highwater-High-Watermark %s, want 2", got)
	}
}
