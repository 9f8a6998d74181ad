package handlers

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestTailKeptInItsRequest: where nobody waits for streams, over HTTP/1.0 and over
// HTTP/2, a tail stays net/http's and reads the same.
func TestTailKeptInItsRequest(t *testing.T) {
	b := startBroker(t, withHandlers(func(cfg *Config) { cfg.Streams = nil }))
	b.topic("t", 1)
	b.append("t", 0, recordsBody(1))
	s := b.events("/topics/t/partitions/0/records")
	s.record()
	b.append("t", 0, recordsBody(1))
	if e, r := s.record(); e.id != "0:2" || r.Offset != 1 {
		t.Errorf("the new event is %+v", e)
	}
	b.drain()
	if e := s.next(); e.name != "end" {
		t.Errorf("shutdown: %+v", e)
	}
	s.ended()
}

// TestDetachedTailOnTheWire: a tail that took its connection over looks as
// net/http's answers do, and is counted and logged when it ends.
func TestDetachedTailOnTheWire(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.append("t", 0, recordsBody(1))
	c := b.raw()
	fmt.Fprint(c, "GET /topics/t/partitions/0/records?offset=0 HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nX-Request-Id: tail-1\r\n\r\n")
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	must(t, err)
	for name, want := range map[string]string{"Content-Type": typeSSE, "X-Accel-Buffering": "no", "X-Request-Id": "tail-1", "X-Content-Type-Options": "nosniff",
		"Cache-Control": "no-cache, no-store", "Content-Security-Policy": lockedDown[0], "Vary": "Accept", "Content-Length": ""} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	if _, err := http.ParseTime(resp.Header.Get("Date")); err != nil || resp.StatusCode != 200 || !resp.Close || len(resp.TransferEncoding) != 1 {
		t.Errorf("%d, date %v, close %v, %v", resp.StatusCode, err, resp.Close, resp.TransferEncoding)
	}
	if in := b.get("/metrics"); !strings.Contains(string(in.body), "highwater_http_requests_in_flight 2\n") {
		t.Error("the tail isn't in flight")
	}
	b.drain()
	body, err := io.ReadAll(resp.Body)
	must(t, err) // to the last chunk
	if want := "id: 0:1\ndata: {"; !strings.Contains(string(body), want) || !strings.HasSuffix(string(body), "event: end\ndata: {\"reason\":\"shutting_down\"}\n\n") {
		t.Errorf("body %q", body)
	}
	if rest, err := io.ReadAll(in); err != nil || len(rest) != 0 {
		t.Errorf("after the end: %q, %v", rest, err)
	}
	b.eventually("it is no longer in flight", func() bool {
		return strings.Contains(string(b.get("/metrics").body), "highwater_http_requests_in_flight 1\n")
	})
	line := fmt.Sprintf(`"status":200,"bytes":%d`, len(body))
	b.eventually("it is in the log", func() bool { return strings.Contains(b.log.String(), line) })
}

// TestTailOverHTTP10 has no chunks: the stream ends with the connection.
func TestTailOverHTTP10(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.append("t", 0, recordsBody(1))
	c := b.raw()
	fmt.Fprint(c, "GET /topics/t/partitions/0/records?follow=true HTTP/1.0\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	must(t, err)
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil || len(resp.TransferEncoding) != 0 || !strings.Contains(line, `"offset":0`) {
		t.Errorf("%v, %v, line %q", err, resp.TransferEncoding, line)
	}
}

// TestDetachedTailThatPanics ends one stream, by a cut, and nothing else.
func TestDetachedTailThatPanics(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	release := make(chan struct{})
	a := b.handler.(*api)
	c := b.raw()
	d := &detached{conn: c, release: func() { close(release) }}
	d.reader = &reader{api: a}
	d.ctx, d.cancel = t.Context(), func() {}
	a.cfg.Streams.Add(1)
	a.metrics.inFlight.Inc()
	if !d.guarded(func() (bool, error) { panic("no matter what") }) {
		t.Error("it goes on")
	}
	<-release
	if _, err := c.Write([]byte("x")); err == nil {
		t.Error("the connection is still open")
	}
	if !strings.Contains(b.log.String(), `"panic":"string"`) || strings.Contains(b.log.String(), "no matter what") {
		t.Error("the panic isn't logged, or in its own words")
	}
	b.get("/topics/t").want(200)
}
