package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestH36_AdvertisedURLIsTheBoundAddress: the URL has the real port and works as
// it is, on IPv4, on IPv6 and on all addresses.
func TestH36_AdvertisedURLIsTheBoundAddress(t *testing.T) {
	t.Parallel()
	for address, prefix := range map[string]string{
		"127.0.0.1:0": "http://127.0.0.1:", "[::1]:0": "http://[::1]:", "localhost:0": "http://", "0.0.0.0:0": "http://", ":0": "http://",
	} {
		l, err := listen(t.Context(), address, 10, newMetrics())
		if err != nil {
			if address == "[::1]:0" {
				t.Log("no IPv6 here: ", err)
				continue
			}
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		if url := l.url(); !strings.HasPrefix(url, prefix) || !strings.HasSuffix(url, ":"+port) || port == "0" ||
			strings.Contains(url, "0.0.0.0") || strings.Contains(url, "[::]") {
			t.Errorf("%s gives %s", address, url)
		}
		if _, err := baseURL(l.url()); err != nil {
			t.Errorf("%s: %v", l.url(), err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestListenerRefusesInWords: above the limit a client reads a 503, and a place
// that becomes free is given out again.
func TestListenerRefusesInWords(t *testing.T) {
	t.Parallel()
	const most = 3
	l, err := listen(t.Context(), "127.0.0.1:0", most, newMetrics())
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	get := func() (net.Conn, string) {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		status, _ := bufio.NewReader(c).ReadString('\n')
		return c, status
	}
	var open []net.Conn
	for range most {
		c, status := get()
		if !strings.Contains(status, "200") {
			t.Fatalf("within the limit: %q", status)
		}
		open = append(open, c)
	}
	c, status := get()
	if !strings.Contains(status, "503") {
		t.Errorf("above the limit: %q", status)
	}
	_ = c.Close()
	_ = open[0].Close()
	until(t, "the place is free again", func() bool {
		c, status := get()
		defer func() { _ = c.Close() }()
		return strings.Contains(status, "200")
	})
	for _, c := range open {
		_ = c.Close()
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	<-served
	until(t, "every connection is counted out", func() bool { return l.open.Load() == 0 })
}

// TestPortClosesWithoutReset: clients that make a connection for each request are all
// answered or turned away when the port closes under them, however busy it is.
func TestPortClosesWithoutReset(t *testing.T) {
	t.Parallel()
	for range 20 {
		l, err := listen(t.Context(), "127.0.0.1:0", 1000, newMetrics())
		if err != nil {
			t.Fatal(err)
		}
		g := newGate()
		g.open(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Connection", "close")
		}))
		server := &http.Server{Handler: g}
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		var clients sync.WaitGroup
		var answers atomic.Int64
		for range 16 {
			clients.Go(func() {
				for {
					err := exchangeOnce(l.Addr().String())
					if err == nil {
						answers.Add(1)
						continue
					}
					if !neverSent(err) {
						t.Error(err)
					}
					return
				}
			})
		}
		until(t, "the clients are at work", func() bool { return answers.Load() > 100 })
		release := g.hold()
		l.closeStill(t.Context())
		release()
		clients.Wait()
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if !l.ended.Load() {
			t.Error("the end of Accept went unnoticed")
		}
	}
}

// exchangeOnce makes a connection, sends a request and reads the answer.
func exchangeOnce(address string) error {
	c, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"); err != nil {
		return err
	}
	answer, err := io.ReadAll(c)
	if err == nil && !bytes.HasPrefix(answer, []byte("HTTP/1.1 200 ")) {
		err = fmt.Errorf("answered %q", answer)
	}
	return err
}
