package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// echo answers each line with the same line.
func echo(t *testing.T) string {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	return l.Addr().String()
}

type conn struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, l *Link) *conn {
	c, err := net.Dial("tcp4", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &conn{t, c, bufio.NewReader(c)}
}

func (c *conn) say(line string) {
	if _, err := io.WriteString(c.Conn, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *conn) hear(want string) {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if got, err := c.in.ReadString('\n'); err != nil || got != want+"\n" {
		c.t.Fatalf("%q, %v; want %q", got, err, want)
	}
}

func (c *conn) silent() {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if got, err := c.in.ReadString('\n'); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("%q, %v; want silence", got, err)
	}
}

// connected is a link and a connection over it that works.
func connected(t *testing.T) (*Link, *conn) {
	t.Helper()
	l, err := Listen(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	c := dial(t, l)
	c.say("one")
	c.hear("one")
	return l, c
}

func TestLink(t *testing.T) {
	l, c := connected(t)

	l.Set(Fault{Cut: true})
	c.say("two")
	c.silent()
	late := dial(t, l)
	late.say("three")
	late.silent()
	l.Set(Fault{})
	c.hear("two")
	late.hear("three")

	begin := time.Now()
	l.Set(Fault{Delay: 50 * time.Millisecond})
	c.say("four")
	c.hear("four")
	if took := time.Since(begin); took < 100*time.Millisecond {
		t.Errorf("50 ms each way took %v", took)
	}
	begin = time.Now()
	l.Set(Fault{Rate: 100})
	c.say("0123456789")
	c.hear("0123456789")
	if took := time.Since(begin); took < 200*time.Millisecond {
		t.Errorf("11 bytes each way at 100 a second took %v", took)
	}
	if l.Passed() == 0 {
		t.Error("nothing is counted")
	}
}

func TestOneWay(t *testing.T) {
	l, c := connected(t)
	l.Set(Fault{OneWay: true})
	c.say("lost")
	c.silent()
	l.Set(Fault{})
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if got, err := c.in.ReadString('\n'); err == nil {
		t.Fatalf("%q arrived on a connection that lost bytes", got)
	}
	again := dial(t, l)
	again.say("two")
	again.hear("two")
}

func TestReset(t *testing.T) {
	l, c := connected(t)
	l.Reset()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.in.ReadString('\n'); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%v; want a broken connection", err)
	}
	dial(t, l).say("a new one is taken")
}

// A target that is not there breaks the connection; a link that is closed takes
// none, and leaves nothing running.
func TestGone(t *testing.T) {
	l, err := Listen("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("tcp4", l.Addr()); err == nil { // else it was broken before Dial returned
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%v; want a broken connection", err)
		}
		_ = c.Close()
	}
	l.Set(Fault{Cut: true})
	hung := dial(t, l)
	l.Close()
	_ = hung.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := hung.in.ReadString('\n'); err == nil {
		t.Fatal("still open")
	}
	if c, err := net.Dial("tcp4", l.Addr()); err == nil {
		_ = c.Close()
		t.Fatal("a closed link takes connections")
	}
}
