package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// client talks to one broker, on connections of its own.
type client struct {
	http *http.Client
	base string
}

func newClient(t *testing.T, base string) *client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{http: &http.Client{Transport: transport}, base: base}
}

// do sends a request and reads the whole answer.
func (c *client) do(ctx context.Context, method, path, contentType string, body []byte, header ...string) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err = io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

// must is do with an expected status.
func (c *client) must(t *testing.T, status int, method, path, contentType, body string, header ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, answer, err := c.do(ctx, method, path, contentType, []byte(body), header...)
	if err != nil || got != status {
		t.Fatalf("%s %s: %d (%v), want %d\n%s", method, path, got, err, status, answer)
	}
	return answer
}

// neverSent says that a request failed before any of it reached a broker.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" || errors.Is(err, syscall.ECONNREFUSED)
}

// stored is a record as an NDJSON fetch shows it. Key and value are the bytes
// of the answer.
type stored struct {
	Partition int             `json:"partition"`
	Offset    int64           `json:"offset"`
	Timestamp int64           `json:"timestamp"`
	Key       json.RawMessage `json:"key"`
	Value     json.RawMessage `json:"value"`
	Encoding  string          `json:"value_encoding"`
	Headers   json.RawMessage `json:"headers"`
}

// end is a partition's high watermark.
func (c *client) end(t *testing.T, topic string, partition int) (beginning, end int64) {
	t.Helper()
	var offsets struct {
		Beginning *int64 `json:"beginning_offset"`
		End       *int64 `json:"end_offset"`
	}
	answer := c.must(t, 200, "GET", fmt.Sprintf("/topics/%s/partitions/%d/offsets", topic, partition), "", "")
	if err := json.Unmarshal(answer, &offsets); err != nil || offsets.Beginning == nil || offsets.End == nil {
		t.Fatalf("offsets: %v\n%s", err, answer)
	}
	return *offsets.Beginning, *offsets.End
}

// read calls each for every record from offset `from` to the end, and checks
// that offsets are dense.
func (c *client) read(t *testing.T, topic string, partition int, from int64, each func(*stored)) (next int64) {
	t.Helper()
	_, end := c.end(t, topic, partition)
	for next = from; next < end; {
		path := fmt.Sprintf("/topics/%s/partitions/%d/records?offset=%d&max_bytes=1048576", topic, partition, next)
		answer := c.must(t, 200, "GET", path, "", "", "Accept", "application/x-ndjson")
		before := next
		for line := range strings.Lines(string(answer)) {
			var r stored
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("%s: %v in %q", path, err, line)
			}
			if r.Offset != next {
				t.Fatalf("%s-%d: offset %d follows %d", topic, partition, r.Offset, next-1)
			}
			next++
			each(&r)
		}
		if next == before {
			t.Fatalf("%s-%d: nothing at offset %d, but the end is %d", topic, partition, next, end)
		}
	}
	return next
}

// until polls f until it is true, without a fixed sleep.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
