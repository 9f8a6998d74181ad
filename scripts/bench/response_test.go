package main

import (
	"fmt"
	"strings"
	"testing"
)

// Every answer is fed whole and cut at every byte: the end must be found at the
// last byte and not before.
func TestResponseFindsItsEnd(t *testing.T) {
	for _, tc := range []struct {
		name, wire string
		status     int
		body       int64
	}{
		{"fixed", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, 5},
		{"fixed, odd case", "HTTP/1.1 201 Created\r\ncontent-length:2\r\nX: y\r\n\r\n{}", 201, 2},
		{"empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, 0},
		{"no content", "HTTP/1.1 204 No Content\r\nX: y\r\n\r\n", 204, 0},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", 200, 15},
		{"chunked with trailer", "HTTP/1.1 207 Multi\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n0\r\nA: b\r\n\r\n", 207, 1},
		{"refusal", "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnope", 404, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var r response
			for cut := range len(tc.wire) {
				r.reset()
				if cut > 0 {
					if done, err := r.feed([]byte(tc.wire[:cut])); done || err != nil {
						t.Fatalf("cut at %d: done %v, error %v before the end", cut, done, err)
					}
				}
				done, err := r.feed([]byte(tc.wire[cut:]))
				if !done || err != nil || r.status != tc.status || r.body != tc.body {
					t.Fatalf("cut at %d: done %v, error %v, status %d, body %d", cut, done, err, r.status, r.body)
				}
				if tc.status >= 300 && string(r.kept) != "nope" {
					t.Fatalf("kept %q of the refusal", r.kept)
				}
			}
		})
	}
}

func TestResponseRefusesWhatIsNoAnswer(t *testing.T) {
	for _, wire := range []string{
		"SSH-2.0-OpenSSH\r\n\r\n",
		"HTTP/1.1 abc\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", maxHeaderBytes+1),
	} {
		var r response
		if done, err := r.feed([]byte(wire)); err == nil {
			t.Errorf("%.40q: done %v without an error", wire, done)
		}
	}
}

// A stream has no end, but its status and bytes are known as they come.
func TestResponseOfAStream(t *testing.T) {
	var r response
	for i, part := range []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "4\r\n: a\n\r\n", "6\r\ndata:x\r\n"} {
		if done, err := r.feed([]byte(part)); done || err != nil {
			t.Fatalf("part %d: done %v, error %v", i, done, err)
		}
	}
	if r.status != 200 || r.body != 10 {
		t.Fatalf("status %d, %d bytes", r.status, r.body)
	}
}

func TestMarksAcrossReads(t *testing.T) {
	const mark = "mark-00000000017"
	wire := "data: {\"mark\":\"" + mark + "\"}\n\n"
	for cut := range len(wire) {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			m := newMarks(1)
			first, second := m.find(0, []byte(wire[:cut]), mark), m.find(0, []byte(wire[cut:]), mark)
			if first == second {
				t.Fatalf("found in both or neither part: %v", first)
			}
			if m.find(0, []byte(wire), mark) {
				t.Fatal("counted twice")
			}
		})
	}
}
