package handlers

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"highwater/storage"
)

// fill appends so many MiB to a partition, more than sockets hold for a client
// that doesn't read.
func (b *testBroker) fill(topic string, mib int) {
	b.t.Helper()
	line := `{"value":"` + strings.Repeat("x", 1000) + `"}` + "\n"
	for range mib {
		b.post("/topics/"+topic+"/partitions/0?acks=-1", strings.Repeat(line, 1024), ofType(typeNDJSON)).want(200)
	}
}

// stuck opens a tail that isn't read from.
func (b *testBroker) stuck(path string) net.Conn {
	b.t.Helper()
	c := b.raw()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
	b.eventually("the tail lives", func() bool { return b.waiting() > 0 })
	return c
}

// TestStuckReaderIsCut: a client that takes nothing is cut after the write
// time-out; one with nothing to take isn't.
func TestStuckReaderIsCut(t *testing.T) {
	b := startBroker(t, withHandlers(func(c *Config) { c.WriteTimeout = 50 * time.Millisecond }))
	b.topic("t", 1)
	b.topic("idle", 1)
	idle, lines := b.events("/topics/idle/partitions/0/records"), b.tail("/topics/idle/records?follow=true")
	b.fill("t", 20)
	c := b.raw()
	fmt.Fprintf(c, "GET /topics/t/partitions/0/records?follow=true HTTP/1.1\r\nHost: x\r\n\r\n")
	b.eventually("it lives", func() bool { return b.waiting() == 3 })
	b.eventually("it is cut", func() bool { return b.waiting() == 2 })
	if rest, err := io.ReadAll(c); err == nil && strings.HasSuffix(string(rest), "0\r\n\r\n") {
		t.Error("the cut looks like an orderly end")
	}
	b.append("idle", 0, recordsBody(1))
	idle.record()
	if line, err := lines.lines.ReadString('\n'); err != nil || !strings.Contains(line, `"offset":0`) {
		t.Errorf("got %q, %v", line, err)
	}
}

// TestLogStartPassesATail: a slow reader whose records are deleted before it came
// to them is told so; what it got until then is without a gap.
func TestLogStartPassesATail(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.fill("t", 20)
	end := b.end("t", 0)
	c := b.stuck("/topics/t/partitions/0/records?follow=true")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	must(t, err)
	next, told := int64(0), false
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if next == 0 { // the tail is under way, and far more is to come than sockets hold
			b.do("DELETE", "/topics/t/partitions/0/records?before_offset=high_watermark", nil).want(200)
		}
		var r struct {
			Offset         *int64 `json:"offset"`
			ErrorCode      int    `json:"error_code"`
			LogStartOffset int64  `json:"log_start_offset"`
		}
		must(t, json.Unmarshal(lines.Bytes(), &r))
		switch {
		case r.ErrorCode == 41001 && r.LogStartOffset == end && r.Offset == nil && !told:
			told = true
		case r.Offset != nil && *r.Offset == next && !told:
			next++
		default:
			t.Fatalf("after %d: %s", next, lines.Text())
		}
	}
	if must(t, lines.Err()); !told || next == 0 || next == end {
		t.Errorf("ended after %d of %d records, told why: %v", next, end, told)
	}
}

// TestDamageIsNoGap: a damaged range is an error on every reading path, never a
// skip; what stands around it is served.
func TestDamageIsNoGap(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	for i := range 3 {
		b.append("t", 0, fmt.Sprintf(`{"records":[{"value":"batch %d"},{"value":"batch %d"}]}`, i, i))
	}
	b.close()
	files, err := filepath.Glob(filepath.Join(b.dir, "partitions", "*", "*.log"))
	must(t, err)
	if len(files) != 1 {
		t.Fatalf("segments: %v", files)
	}
	data, err := os.ReadFile(files[0])
	must(t, err)
	_, rest, err := storage.ParseBatch(data)
	must(t, err)
	data[len(data)-len(rest)+storage.BatchHeaderSize+8] ^= 1
	must(t, os.WriteFile(files[0], data, 0o600))
	b.start()
	if got := b.fetch("t", 0, "offset=0"); len(got) != 2 {
		t.Errorf("before the damage: %v", got)
	}
	for _, path := range []string{"/topics/t/partitions/0/records?offset=2", "/topics/t/partitions/0/records?offset=3&count=1", "/topics/t/records?position=0:2"} {
		b.get(path).problem(50001)
		b.get(path, accept(typeSSE)).problem(50001)
	}
	b.get("/topics/t/partitions/0/records?offset=2", accept(typeOctets)).problem(50001)
	if got := b.fetch("t", 0, "offset=4"); len(got) != 2 || string(got[0].Value) != `"batch 2"` {
		t.Errorf("behind the damage: %v", got)
	}
	c1 := b.subscriber("g", `{"name":"c1"}`, "t")
	for _, poll := range []string{c1 + "/records?timeout=20000", "/consumers/g2/records?topics=t&member=m&timeout=20000"} {
		if a := b.get(poll).want(200); strings.Count(string(a.body), `"offset":`) != 2 {
			t.Errorf("before the damage: %s", a.body)
		}
		if !strings.HasPrefix(poll, c1) {
			b.post("/consumers/g2/offsets?member=m", nil).want(204)
		}
		b.get(poll).problem(50001)
	}
	s := b.events("/topics/t/partitions/0/records?offset=0")
	s.record()
	s.record()
	if e := s.next(); e.name != "problem" || e.id != "" || !strings.Contains(e.data, `"error_code":50001`) {
		t.Errorf("the tail says %+v", e)
	}
	s.ended()
	if log := b.log.String(); strings.Contains(log, "batch 1") {
		t.Error("a record's value is in the log")
	}
}

// A merged tail that is cut after every few records comes to all partitions.
func TestH21_ResumedTailsStarveNoPartition(t *testing.T) {
	const parts, rounds = 3, 6
	b := startBroker(t)
	b.topic("t", parts)
	for p := range parts {
		b.append("t", p, recordsBody(rounds))
	}
	at := "0:0,1:0,2:0"
	for range rounds {
		s := b.events("/topics/t/records?count=1", header("Last-Event-ID", at))
		for e := s.block(); e.name != "end"; e = s.block() {
			if e.id != "" {
				at = e.id
			}
		}
		s.close()
	}
	if at != "0:2,1:2,2:2" {
		t.Errorf("after %d tails of one record each: %s", rounds, at)
	}
}
