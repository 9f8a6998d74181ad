package handlers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"highwater/replication/controller"
)

// stream is a tail as a client reads it.
type stream struct {
	t      testing.TB
	b      *testBroker
	header http.Header
	body   io.ReadCloser
	lines  *bufio.Reader
	cancel context.CancelFunc
}

// event is one block of an event stream.
type event struct {
	id, name, data, retry string
	comment               bool
}

func (b *testBroker) tail(path string, change ...request) *stream {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+path, nil)
	must(b.t, err)
	for _, c := range change {
		c(r)
	}
	resp, err := b.client.Do(r)
	must(b.t, err)
	s := &stream{t: b.t, b: b, header: resp.Header, body: resp.Body, lines: bufio.NewReader(resp.Body), cancel: cancel}
	b.t.Cleanup(s.close)
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		b.t.Fatalf("%s: status %d: %s", path, resp.StatusCode, body)
	}
	return s
}

func (b *testBroker) events(path string, change ...request) *stream {
	b.t.Helper()
	s := b.tail(path, append(change, accept(typeSSE))...)
	if ct, buffering := s.header.Get("Content-Type"), s.header.Get("X-Accel-Buffering"); ct != typeSSE || buffering != "no" {
		b.t.Fatalf("Content-Type %q, X-Accel-Buffering %q", ct, buffering)
	}
	if e := s.block(); e.retry != "2000" || e.data != "" {
		b.t.Fatalf("the stream begins with %+v", e)
	}
	return s
}

func (s *stream) close() {
	s.cancel()
	_ = s.body.Close()
}

// block reads one block; io.EOF ends the test unless wanted by ended.
func (s *stream) block() event {
	s.t.Helper()
	e, err := s.read()
	if err != nil {
		s.t.Fatalf("stream: %v", err)
	}
	return e
}

func (s *stream) read() (e event, err error) {
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			return e, err
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "":
			return e, nil
		case ":":
			e.comment = true
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "retry":
			e.retry = value
		default:
			return e, fmt.Errorf("line %q", line)
		}
	}
}

// next is the next block that is no comment.
func (s *stream) next() event {
	s.t.Helper()
	for {
		if e := s.block(); !e.comment {
			return e
		}
	}
}

// record is the next block, which must be a record.
func (s *stream) record() (event, fetched) {
	s.t.Helper()
	e := s.next()
	var r fetched
	if e.name != "" || e.id == "" {
		s.t.Fatalf("no record: %+v", e)
	}
	must(s.t, json.Unmarshal([]byte(e.data), &r))
	return e, r
}

// ended checks that the stream ended in order.
func (s *stream) ended() {
	s.t.Helper()
	if e, err := s.read(); err != io.EOF {
		s.t.Fatalf("the stream goes on with %+v, or broke: %v", e, err)
	}
}

func TestTailOfOnePartition(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.append("t", 0, `{"records":[{"value":"<b>\u2028"},{"value":{"a":`+"\r\n"+`1}}]}`)
	b.post("/topics/t/partitions/0/records?acks=-1", "two\r\nlines\u2028").want(200)
	s := b.events("/topics/t/partitions/0/records?offset=0")
	for i, want := range []string{`"<b>\u2028"`, `{"a":1}`, `"two\r\nlines` + "\u2028\""} {
		if e, r := s.record(); e.id != fmt.Sprintf("0:%d", i+1) || string(r.Value) != want || r.Offset != int64(i) {
			t.Errorf("event %d is %+v", i, e)
		}
	}
	b.append("t", 0, recordsBody(2))
	for i := range 2 {
		if e, r := s.record(); e.id != fmt.Sprintf("0:%d", i+4) || string(r.Value) != fmt.Sprintf(`{"n":%d}`, i) {
			t.Errorf("new event %d is %+v", i, e)
		}
	}
	for query, want := range map[string]int64{"offset=-1": 4, "offset=3": 3, "timestamp=0&count=5": 0, "max_bytes=1&timeout=5": 0} {
		if _, r := b.events("/topics/t/partitions/0/records?" + query).record(); r.Offset != want {
			t.Errorf("%s begins at %d", query, r.Offset)
		}
	}
}

func TestTailAsLines(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.append("t", 0, `{"records":[{"value":{"a":`+"\n"+`[1,`+"\r\n"+`2]}}]}`)
	s := b.tail("/topics/t/partitions/0/records?follow=true")
	if s.header.Get("Content-Type") != typeNDJSON {
		t.Fatalf("Content-Type %q", s.header.Get("Content-Type"))
	}
	for i, want := range []string{`{"a":[1,2]}`, "7"} {
		line, err := s.lines.ReadString('\n')
		must(t, err)
		var r fetched
		must(t, json.Unmarshal([]byte(line), &r))
		if string(r.Value) != want || r.Offset != int64(i) {
			t.Errorf("line %q", line)
		}
		b.append("t", 0, `{"records":[{"value":7}]}`)
	}
	b.drain()
	if rest, err := io.ReadAll(s.lines); err != nil || strings.Contains(string(rest), "error") {
		t.Errorf("ended with %q, %v", rest, err)
	}
}

// TestTailOfCount ends in order after so many records.
func TestTailOfCount(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.append("t", 0, recordsBody(3))
	lines := b.tail("/topics/t/partitions/0/records?follow=true&count=2")
	if all, err := io.ReadAll(lines.lines); err != nil || strings.Count(string(all), "\n") != 2 {
		t.Errorf("got %q, %v", all, err)
	}
	s := b.events("/topics/t/partitions/0/records?count=2&offset=2")
	s.record()
	b.append("t", 0, recordsBody(3))
	s.record()
	if e := s.next(); e.name != "end" || e.data != `{"reason":"count"}` || e.id != "" {
		t.Errorf("got %+v", e)
	}
	s.ended()
}

func TestTailEnds(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.topic("gone", 2)
	b.append("t", 0, recordsBody(1))
	stays, deleted, mergedDeleted := b.events("/topics/t/partitions/0/records"), b.events("/topics/gone/partitions/0/records"), b.events("/topics/gone/records")
	stays.record()
	b.do("DELETE", "/topics/gone", nil).want(204)
	for _, s := range []*stream{deleted, mergedDeleted} {
		if e := s.next(); e.name != "end" || e.data != `{"reason":"topic_deleted"}` || e.id != "" {
			t.Errorf("deletion: %+v", e)
		}
		s.ended()
	}
	b.drain()
	if e := stays.next(); e.name != "end" || e.data != `{"reason":"shutting_down"}` || e.id != "" {
		t.Errorf("shutdown: %+v", e)
	}
	stays.ended()
}

// TestTailBelowTheLogStart: a tail whose place was deleted says so; it never jumps.
func TestTailBelowTheLogStart(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.append("t", 0, recordsBody(4))
	b.do("DELETE", "/topics/t/partitions/0/records?before_offset=2", nil).want(200)
	for _, path := range []string{"/topics/t/partitions/0/records", "/topics/t/records"} {
		for id, code := range map[string]int{"0:1": 41001, "0:5": 41601, "0:9223372036854775807": 41601} {
			b.get(path, accept(typeSSE), header("Last-Event-ID", id)).problem(code)
		}
		for _, bad := range []string{"x", "0", "0:", "0:-1", "0:01", "0:1,0:2", "0:9223372036854775808", "0:1, 1:2", "00:1"} {
			b.get(path, accept(typeSSE), header("Last-Event-ID", bad)).problem(40001)
		}
		b.get(path, accept(typeSSE), header("Last-Event-ID", "0:2"), header("Last-Event-ID", "0:3")).problem(40001)
		// It wins over the query, where that is nonsense too.
		if _, r := b.events(path+"?offset=earliest", header("Last-Event-ID", "0:3")).record(); r.Offset != 3 {
			t.Errorf("%s resumed at %d", path, r.Offset)
		}
	}
	b.get("/topics/t/partitions/0/records", accept(typeSSE), header("Last-Event-ID", "1:2")).problem(40001)
	b.get("/topics/t/records", accept(typeSSE), header("Last-Event-ID", "0:2,1:0")).problem(41601)
	if _, r := b.events("/topics/t/partitions/0/records?offset=2", header("Last-Event-ID", "")).record(); r.Offset != 2 {
		t.Errorf("an empty id resumed at %d", r.Offset)
	}
}

// TestTailBegunAtTheEndResumes: before its first record it has a position, too.
func TestTailBegunAtTheEndResumes(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 2)
	b.append("t", 0, recordsBody(3))
	for path, want := range map[string]string{"/topics/t/partitions/0/records?offset=latest": "0:3", "/topics/t/records?offset=latest": "0:3,1:0", "/topics/t/partitions/0/records?offset=3": ""} {
		s := b.tail(path, accept(typeSSE))
		if e := s.block(); e.retry != "2000" || e.id != want || e.data != "" {
			t.Errorf("%s begins with %+v", path, e)
		}
	}
}

// TestH21_StreamOutlivesTimeouts: neither the server's time-outs for headers and
// idle connections nor its own write deadline cut a stream, and it shows that it
// lives.
func TestH21_StreamOutlivesTimeouts(t *testing.T) {
	b := startBroker(t, withHandlers(func(c *Config) { c.TailHeartbeat = 5 * time.Millisecond }),
		withServer(func(s *http.Server) { s.ReadHeaderTimeout, s.IdleTimeout = 20*time.Millisecond, 20*time.Millisecond }))
	b.topic("t", 1)
	s, merged := b.events("/topics/t/partitions/0/records"), b.events("/topics/t/records")
	for range 20 { // 100 ms of silence
		if e := s.block(); !e.comment || e.id != "" {
			t.Fatalf("got %+v", e)
		}
	}
	b.append("t", 0, recordsBody(1))
	s.record()
	merged.record()
}

// TestTailResumesExactly: a client that is cut at every few events and comes back
// with the last id sees each record once, in order, while producers write and
// the broker restarts.
func TestTailResumesExactly(t *testing.T) {
	const partitions, perPartition = 3, 200
	b := startBroker(t)
	b.topic("t", partitions)
	var producers sync.WaitGroup
	for p := range partitions {
		producers.Go(func() {
			for i := 0; i < perPartition; i += 4 {
				b.append("t", p, fmt.Sprintf(`{"records":[{"value":%d},{"value":%d},{"value":%d},{"value":%d}]}`, i, i+1, i+2, i+3))
			}
		})
	}
	var seen [partitions]int
	id := ""
	read := func(most int) bool {
		var s *stream
		if id == "" {
			s = b.events("/topics/t/records")
		} else {
			s = b.events("/topics/t/records?offset=latest", header("Last-Event-ID", id))
		}
		defer s.close()
		for range most {
			if seen == [partitions]int{perPartition, perPartition, perPartition} {
				return false
			}
			e, r := s.record()
			if string(r.Value) != fmt.Sprint(seen[r.Partition]) || r.Offset != int64(seen[r.Partition]) {
				t.Fatalf("partition %d: got %s at %d, want %d", r.Partition, r.Value, r.Offset, seen[r.Partition])
			}
			seen[r.Partition]++
			if id = e.id; id != fmt.Sprintf("0:%d,1:%d,2:%d", seen[0], seen[1], seen[2]) {
				t.Fatalf("id %s after %v", id, seen)
			}
		}
		return true
	}
	for i := range 20 {
		read(i % 7)
	}
	producers.Wait()
	b.restart()
	for i := 1; read(i * 13); i++ {
	}
}

func TestTailJoinsNewPartitions(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	s := b.events("/topics/t/records")
	_, err := b.broker.AlterTopic(t.Context(), "t", nil, 3)
	must(t, err)
	b.append("t", 2, recordsBody(1))
	if e, r := s.record(); r.Partition != 2 || e.id != "0:0,1:0,2:1" {
		t.Errorf("got %+v", e)
	}
	// An id from before the partitions were added resumes with all of theirs.
	if e, _ := b.events("/topics/t/records", header("Last-Event-ID", "0:0")).record(); e.id != "0:0,1:0,2:1" {
		t.Errorf("resumed with %+v", e)
	}
}

func TestMergedRead(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 3)
	for p := range 3 {
		b.append("t", p, recordsBody(20+p))
	}
	// Small pages come to every partition before any is read to its end.
	var seen [3]int
	position, pages := "", 0
	for {
		path := "/topics/t/records?count=4"
		if position != "" {
			path += "&position=" + position
		}
		a := b.get(path).want(200)
		var got []fetched
		a.into(&got)
		for _, r := range got {
			if r.Offset != int64(seen[r.Partition]) {
				t.Fatalf("partition %d jumps from %d to %d", r.Partition, seen[r.Partition], r.Offset)
			}
			seen[r.Partition]++
		}
		if next := a.header.Get("Highwater-Next-Position"); next != fmt.Sprintf("0:%d,1:%d,2:%d", seen[0], seen[1], seen[2]) {
			t.Fatalf("next position %s after %v", next, seen)
		}
		if len(got) > 4 || len(got) == 0 && seen != [3]int{20, 21, 22} {
			t.Fatalf("%d records in a page, after %v", len(got), seen)
		}
		if pages++; pages == 3 && (seen[0] == 0 || seen[1] == 0 || seen[2] == 0) {
			t.Errorf("after %d pages: %v", pages, seen)
		}
		if len(got) == 0 {
			break
		}
		position = a.header.Get("Highwater-Next-Position")
	}
	var all []fetched
	if b.get("/topics/t/records").want(200).into(&all); len(all) != 63 {
		t.Errorf("one page holds %d of 63", len(all))
	}
	if lines := b.get("/topics/t/records?count=10", accept(typeNDJSON)).want(200).body; strings.Count(string(lines), "\n") != 10 {
		t.Errorf("lines: %s", lines)
	}
	if a := b.get("/topics/t/records?offset=latest").want(200); string(a.body) != "[]\n" || a.header.Get("Highwater-Next-Position") != "0:20,1:21,2:22" {
		t.Errorf("latest: %s %v", a.body, a.header)
	}
	for query, code := range map[string]int{"position=0:21": 41601, "position=3:0": 41601, "position=0:1,0:2": 40001, "position=": 40001, "offset=5": 40001,
		"position=0:1&offset=latest": 40001, "count=0": 40001, "leader_epoch=1": 40001} {
		b.get("/topics/t/records?" + query).problem(code)
	}
	b.get("/topics/x/records").problem(40401)
	b.do("DELETE", "/topics/t/partitions/1/records?before_offset=5", nil).want(200)
	if a := b.get("/topics/t/records?position=0:20,1:4"); !strings.Contains(a.problem(41001).Detail, "Partition 1:") {
		t.Errorf("which partition: %s", a.body)
	}
	wait := make(chan answer, 1)
	go func() { wait <- b.get("/topics/t/records?offset=latest&timeout=60000") }()
	b.eventually("it waits", func() bool { return b.waiting() == 1 })
	b.append("t", 2, recordsBody(1))
	if a := (<-wait).want(200); a.header.Get("Highwater-Next-Position") != "0:20,1:21,2:23" {
		t.Errorf("woken with %s", a.body)
	}
}

// TestMergedReadOfLargeRecords: a record larger than a fair share doesn't stop a
// reader.
func TestMergedReadOfLargeRecords(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 4)
	for p := range 4 {
		b.append("t", p, `{"records":[{"value":"`+strings.Repeat("x", 998)+`"},{"value":"`+strings.Repeat("x", 998)+`"}]}`)
	}
	position, n := "0:0", 0
	for pages := 0; n < 8; pages++ {
		a := b.get("/topics/t/records?max_bytes=2500&position=" + position).want(200)
		var got []fetched
		if a.into(&got); len(got) != 2 || pages > 4 {
			t.Fatalf("%d records of 1000 bytes in a page of 2500", len(got))
		}
		n += len(got)
		position = a.header.Get("Highwater-Next-Position")
	}
}

// TestF66_H18_ClientThatLeaves: its wait is dropped at once, also when its request
// had a body that nobody reads.
func TestF66_H18_ClientThatLeaves(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.get("/topics/t").want(200)
	before := runtime.NumGoroutine()
	const n = 20
	for _, body := range []string{"", "a body that no GET needs"} {
		for _, path := range []string{"/topics/t/partitions/0/records?timeout=60000", "/topics/t/records?timeout=60000", "/topics/t/partitions/0/records?follow=true", "/topics/t/records?follow=true"} {
			var conns []net.Conn
			for range n {
				c := b.raw()
				conns = append(conns, c)
				fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
			}
			b.eventually("all wait", func() bool { return b.waiting() == n })
			for _, c := range conns {
				must(t, c.Close())
			}
			b.eventually("none waits", func() bool { return b.waiting() == 0 })
		}
	}
	b.eventually("the goroutines end", func() bool { return runtime.NumGoroutine() <= before+2 })
	done := make(chan answer, 1)
	go func() { done <- b.get("/topics/t/partitions/0/records?timeout=60000") }()
	b.eventually("it waits", func() bool { return b.waiting() == 1 })
	b.append("t", 0, recordsBody(1))
	if a := (<-done).want(200); !strings.Contains(string(a.body), `"offset":0`) {
		t.Errorf("the live request got %s", a.body)
	}
}

// TestTooManyWaiters: the limit is a 503 that says so, and a place is free again
// when a waiter leaves.
func TestTooManyWaiters(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.handler.(*api).waiters.most = 1
	first := b.events("/topics/t/partitions/0/records")
	for _, path := range []string{"/topics/t/partitions/0/records?timeout=1000", "/topics/t/records?follow=true"} {
		if a := b.get(path); a.problem(50306).Retriable != true || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	first.close()
	b.eventually("the place is free", func() bool { return b.waiting() == 0 })
	b.events("/topics/t/partitions/0/records")
}

// TestTailsOfATopicMadeAnew: a tail doesn't slip over to another topic of its name.
func TestTailsOfATopicMadeAnew(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.append("t", 0, recordsBody(2))
	s := b.events("/topics/t/partitions/0/records")
	s.record()
	s.record()
	must(t, b.broker.DeleteTopic(t.Context(), "t"))
	_, err := b.broker.CreateTopic(t.Context(), controller.CreateTopicRequest{Name: "t", Partitions: 1})
	must(t, err)
	b.append("t", 0, recordsBody(3))
	if e := s.next(); e.name != "end" || e.data != `{"reason":"topic_deleted"}` {
		t.Errorf("got %+v", e)
	}
	s.ended()
}
