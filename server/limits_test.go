package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// raw opens a connection and sends text on it.
func raw(t *testing.T, b *brokerProcess, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		t.Logf("write: %v", err) // a refusal may come before the end of a long text
	}
	return c
}

// closed waits until the broker has ended the connection, and returns what it said.
func closed(t *testing.T, c net.Conn) string {
	t.Helper()
	answer, err := io.ReadAll(c)
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Error("the broker leaves the connection open")
	}
	return string(answer)
}

// TestF66_H17_SlowHeadersAndHugeHeaders: connections that send half a header are
// closed, oversized heads are refused, and meanwhile a producer and an idle tail
// are not disturbed. Slow bodies are the handlers' own: their test is there.
func TestF66_H17_SlowHeadersAndHugeHeaders(t *testing.T) {
	t.Parallel()
	const slow = 100
	b := start(t, t.TempDir(), "--read-header-timeout=1s")
	c := newClient(t, b.url)
	c.must(t, 201, "PUT", "/topics/t", "", "")

	req, err := http.NewRequestWithContext(t.Context(), "GET", b.url+"/topics/t/partitions/0/records?offset=latest", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	tail, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tail.Body.Close() }()

	var stuck []net.Conn
	for i := range slow {
		text := "GET /topics HTTP/1.1\r\nHost: x\r\nX-Slow: a"
		if i%2 == 0 {
			text = "G"
		}
		stuck = append(stuck, raw(t, b, text))
	}
	produced := 0
	for _, conn := range stuck {
		c.must(t, 200, "POST", "/topics/t?acks=1", "application/json", fmt.Sprintf(`{"records":[{"value":%d}]}`, produced))
		produced++
		closed(t, conn)
	}

	for name, head := range map[string]string{
		"one header of 2 MB":  "GET /topics HTTP/1.1\r\nHost: x\r\nX-Big: " + strings.Repeat("a", 2<<20) + "\r\n\r\n",
		"20,000 header lines": "GET /topics HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-A: b\r\n", 20_000) + "\r\n",
		"a 128 KB path":       "GET /topics/" + strings.Repeat("a", 128<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		answer := closed(t, raw(t, b, head))
		status, _, _ := strings.Cut(answer, "\r\n")
		if answer != "" && !strings.Contains(status, " 431 ") && !strings.Contains(status, " 414 ") && !strings.Contains(status, " 400 ") {
			t.Errorf("%s: %q", name, status)
		}
	}
	if answer := closed(t, raw(t, b, "GET /topics HTTP/1.1\r\nHost: x\r\nX-Big: "+strings.Repeat("a", 70_000)+"\r\n\r\n")); !strings.Contains(answer, " 431 ") {
		t.Errorf("a header just above the limit: %.100q", answer)
	}
	c.must(t, 200, "POST", "/topics/t?acks=-1", "application/json", `{"records":[{"value":"last"}]}`)
	seen, err := readLines(bufio.NewReader(tail.Body), "data:", produced+1)
	if err != nil || !strings.Contains(seen[len(seen)-1], "last") {
		t.Errorf("the tail saw %d of %d records: %v", len(seen), produced+1, err)
	}
	_ = tail.Body.Close()
	b.stop()
}

// TestF50_FewDescriptors: with a low descriptor limit further connections are
// told 503 or closed, those that are in work on, nothing is lost, and places that
// become free are used again.
func TestF50_FewDescriptors(t *testing.T) {
	t.Parallel()
	const limit, many = 160, 300
	dir := t.TempDir()
	b := launchCommand(t, exec.Command("sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, limit), os.Getenv(envBinary),
		"--listen=127.0.0.1:0", "--data-dir="+dir, "--log-format=json")).waitServing()
	c := newClient(t, b.url)
	c.http.Transport.(*http.Transport).MaxConnsPerHost = 1 // a second one might find no place
	c.must(t, 201, "PUT", "/topics/t", "application/json", `{"partitions":100,"configs":{"segment.bytes":"1024"}}`)
	for round := range 3 {
		for p := range 100 {
			c.must(t, 200, "POST", fmt.Sprintf("/topics/t/partitions/%d?acks=-1", p), "application/json",
				fmt.Sprintf(`{"records":[{"value":"%d %s"}]}`, round, strings.Repeat("x", 900)))
		}
	}
	var open []net.Conn
	refused := 0
	for range many {
		conn := raw(t, b, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		status, err := bufio.NewReader(conn).ReadString('\n')
		switch {
		case err == nil && strings.Contains(status, " 200 "):
			open = append(open, conn)
		case err != nil || strings.Contains(status, " 503 "):
			refused++
			_ = conn.Close()
		default:
			t.Fatalf("%q", status)
		}
	}
	if refused == 0 || len(open) < limit/3 {
		t.Errorf("%d connections, %d refused with %d descriptors", len(open), refused, limit)
	}
	c.must(t, 200, "POST", "/topics/t/partitions/7?acks=-1", "application/json", `{"records":[{"value":"full house"}]}`)
	for p := range 100 {
		n := 0
		c.read(t, "t", p, 0, func(*stored) { n++ })
		if want := 3 + map[bool]int{true: 1}[p == 7]; n != want {
			t.Errorf("partition %d has %d records, want %d", p, n, want)
		}
	}
	for _, conn := range open {
		_ = conn.Close()
	}
	until(t, "places are free again", func() bool {
		conn := raw(t, b, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		defer func() { _ = conn.Close() }()
		status, _ := bufio.NewReader(conn).ReadString('\n')
		return strings.Contains(status, " 200 ")
	})
	b.stop()
}
