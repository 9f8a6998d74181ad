package handlers

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"highwater/replication/wire"
)

// hostile sends raw bytes to a broker and returns the status of the answer, 0 when
// the connection was closed without one.
func (n *clusterNode) hostile(request string) (int, http.Header) {
	n.t.Helper()
	c := n.raw()
	defer c.Close()
	_, err := io.WriteString(c, request)
	must(n.t, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, nil
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header
}

// H54: a stranger can neither join, fetch, write, nor push metadata, on any path.
func TestH54_AStrangerGetsNothing(t *testing.T) {
	c := startCluster(t)
	c.create("secret", 1)
	n := c.node(1)
	before := n.ctl.State()
	for _, call := range internalCalls {
		path := wire.PathPrefix + call.path
		for name, headers := range map[string]string{
			"nothing":           "",
			"a wrong secret":    wire.HeaderSecret + ": wrong\r\n",
			"an empty one":      wire.HeaderSecret + ":\r\n",
			"one in lower case": strings.ToLower(wire.HeaderSecret) + ": wrong\r\n",
			"a spoofed address": "X-Forwarded-For: 127.0.0.1\r\nX-Real-IP: 127.0.0.1\r\nTrue-Client-IP: ::1\r\n",
			"an upgrade":        "Connection: Upgrade\r\nUpgrade: raft/1\r\n",
			"a body":            "Content-Type: application/octet-stream\r\nContent-Length: 4\r\n",
		} {
			if status, _ := n.hostile(call.method + " " + path + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n\x00\x00\x00\x00"); status != http.StatusForbidden {
				t.Errorf("%s with %s: %d", path, name, status)
			}
		}
		for _, spelled := range []string{strings.ToUpper(path), "/%69nternal/v1/" + call.path, "//internal/v1/" + call.path, "/topics/../internal/v1/" + call.path, path + "/"} {
			status, _ := n.hostile(call.method + " " + spelled + " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
			if status < 300 || status >= 500 {
				t.Errorf("%s: %d", spelled, status)
			}
		}
	}
	if n.ctl.State() != before {
		t.Error("the metadata has changed")
	}
	if strings.Contains(n.log.String(), clusterSecret) {
		t.Error("the secret is in the log")
	}
}

const peerSigned = "Host: x\r\n" + wire.HeaderSecret + ": " + clusterSecret + "\r\n"

// peerHead is the head of a peer's request with so long a body; more is further lines.
func peerHead(path string, length int64, more string) string {
	return fmt.Sprintf("POST %s%s HTTP/1.1\r\n%sContent-Type: %s\r\nContent-Length: %d\r\n%s\r\n", wire.PathPrefix, path, peerSigned, wire.ContentType, length, more)
}

func peerRequest(path string, body []byte) string {
	return peerHead(path, int64(len(body)), "") + string(body)
}

// framed is a message that says that its head has so many bytes.
func framed(length uint32, rest string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, length), rest...)
}

// strangeFrames sends, to each path, what is no message.
func strangeFrames(t *testing.T, leader *clusterNode) {
	t.Helper()
	posts := []string{wire.PathFetch, wire.PathAppend, wire.PathRead, wire.PathWatch, wire.PathOffsets, wire.PathDeleteRecords, wire.PathStatus, wire.PathFindMessage, wire.PathDedupe,
		wire.PathHeartbeat, wire.PathPropose, wire.PathJoin, wire.PathFounding, wire.PathLeaderEpoch}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, path := range posts {
		for name, tc := range map[string]struct {
			request string
			status  int
			code    wire.Code
		}{
			"a terabyte":            {peerHead(path, 1<<40, ""), 413, wire.CodeInvalidRequest},
			"no length":             {"POST " + wire.PathPrefix + path + " HTTP/1.1\r\n" + peerSigned + "Content-Type: " + wire.ContentType + "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, wire.CodeInvalidRequest},
			"no body":               {peerRequest(path, nil), 400, wire.CodeInvalidRequest},
			"a head of 4 GiB":       {peerRequest(path, framed(0xffffffff, "{}")), 400, wire.CodeInvalidRequest},
			"a head that is longer": {peerRequest(path, framed(3, "{}")), 400, wire.CodeInvalidRequest},
			"noise":                 {peerRequest(path, framed(8, "\xff\xfe\x00\x01\x02\x03\x04\x05")), 400, ""},
			"JSON of another kind":  {peerRequest(path, framed(2, "[]")), 400, ""},
			"another version":       {peerRequest(path, framed(13, `{"version":2}`)), 400, ""},
			"another type":          {strings.Replace(peerRequest(path, framed(2, "{}")), wire.ContentType, "text/plain", 1), 415, wire.CodeInvalidRequest},
			"another cluster":       {peerHead(path, 2, wire.HeaderClusterID+": other\r\n") + "{}", 403, wire.CodeClusterID},
		} {
			status, h := leader.hostile(tc.request)
			if status != tc.status || tc.code != "" && wire.Code(h.Get(wire.HeaderCode)) != tc.code {
				t.Errorf("%s, %s: %d %s, want %d %s", path, name, status, h.Get(wire.HeaderCode), tc.status, tc.code)
			}
		}
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.TotalAlloc - before.TotalAlloc); grown > 512<<20 {
		t.Errorf("%d bytes were allocated", grown)
	}
}

// A peer that has the secret and has gone mad: nothing that it says crashes a
// broker, has it allocate what was only promised, or is half done.
func TestHostilePeers(t *testing.T) {
	c := startCluster(t)
	c.create("sane", 1)
	leader, _ := c.leader("sane", 0)
	topic, _ := leader.ctl.State().Topic("sane")
	strangeFrames(t, leader)
	// R100, in its own code.
	for _, body := range [][]byte{framed(13, `{"version":2}`), framed(13, `{"version":0}`)} {
		if _, h := leader.hostile(peerRequest(wire.PathAppend, body)); wire.Code(h.Get(wire.HeaderCode)) != wire.CodeVersion {
			t.Errorf("%q is answered with %q", body, h.Get(wire.HeaderCode))
		}
	}
	// Batches that are none are not written.
	for _, batches := range [][]byte{{}, []byte("not a batch"), bytes.Repeat([]byte{0}, 200)} {
		req := &wire.AppendRequest{Version: wire.Version, Acks: 1, TimeoutMs: 1000, Partitions: []wire.AppendPartition{{TopicPartition: wire.TopicPartition{Topic: topic.ID}, Batches: [][]byte{batches}}}}
		answer := &wire.JSON[wire.AppendAnswer]{}
		if err := c.node(leader.id%3+1).peers.Call(t.Context(), leader.url, wire.PathAppend, 0, req, answer, nil); err != nil {
			t.Fatal(err)
		}
		if r := answer.V.Results[0]; r.Error == nil || r.Unknown {
			t.Errorf("%q was appended: %+v", batches, r)
		}
	}
	if end := leader.end("sane", 0); end != 0 {
		t.Errorf("%d records were written", end)
	}
	// Limits that are none, negative ones, partitions that aren't.
	for _, req := range []*wire.ReadRequest{
		{Version: wire.Version, MaxBytes: -1, MinBytes: -1, MaxWaitMs: -1, Positions: []wire.ReadPosition{{TopicPartition: wire.TopicPartition{Topic: topic.ID, Partition: -1}, Offset: -1}}},
		{Version: wire.Version, MaxBytes: 1 << 62, MinBytes: 1 << 62, MaxWaitMs: 1, Positions: []wire.ReadPosition{{TopicPartition: wire.TopicPartition{Topic: topic.ID}}, {TopicPartition: wire.TopicPartition{Topic: topic.ID, Partition: 1 << 30}}}},
		{Version: wire.Version},
	} {
		answer := &wire.ReadAnswer{}
		if err := leader.peers.Call(t.Context(), leader.url, wire.PathRead, 0, &wire.JSON[wire.ReadRequest]{V: req}, answer, nil); err != nil && !errors.Is(err, wire.ErrNotSent) {
			t.Errorf("%+v: %v", req, err)
		}
	}
	leader.post("/topics/sane/records?acks=-1", "v").want(200) // it lives
	if strings.Contains(leader.log.String(), "panicked") {
		t.Error("a handler panicked")
	}
}
