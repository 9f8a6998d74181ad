// Package proxy stands in the way between brokers. Each directed link (who
// dials, who is dialled) has an address of its own, so that one direction can be
// cut, slowed or reset while the other stands.
//
// A direction is the dialling one: cutting 1 -> 2 stops every connection that 1
// opened to 2, requests and answers alike, and lets those that 2 opened to 1
// live. OneWay drops only the bytes that flow from the dialler, so that the other
// side sees a silent peer: what a broken route looks like.
package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Fault is what a link does to traffic. The zero value lets all through.
type Fault struct {
	Cut    bool          // nothing passes: open connections hang, new ones are taken and hang
	OneWay bool          // bytes from the dialler vanish; those to it pass
	Delay  time.Duration // each piece of data, both ways, is that late
	Rate   int           // bytes a second each way; 0: any
}

// Link is one directed link.
type Link struct {
	listener net.Listener
	target   string

	mu      sync.Mutex // guards what follows
	fault   Fault
	changed chan struct{}         // closed and renewed when fault changes
	conns   map[net.Conn]struct{} // of both sides
	passed  int64                 // bytes
	closed  bool

	wg sync.WaitGroup
}

// Listen opens a link to target on a free port of loopback.
func Listen(target string) (*Link, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	link := &Link{listener: l, target: target, changed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	link.wg.Go(link.accept)
	return link, nil
}

// Addr is where the dialler goes.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Passed is how many bytes went through.
func (l *Link) Passed() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.passed
}

// Set changes what the link does from now on. Open connections stay: when a cut
// heals, what they were about to send goes on, as with a real network.
func (l *Link) Set(f Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = f
	close(l.changed)
	l.changed = make(chan struct{})
}

// Reset breaks every open connection.
func (l *Link) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset, no orderly end
		}
		_ = c.Close()
	}
}

// Close ends the link and all that goes through it.
func (l *Link) Close() {
	l.mu.Lock()
	l.closed = true
	close(l.changed)
	l.changed = make(chan struct{})
	l.mu.Unlock()
	_ = l.listener.Close()
	l.Reset()
	l.wg.Wait()
}

func (l *Link) accept() {
	for {
		c, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // out of descriptors: the dialler waits
			continue
		}
		l.wg.Go(func() { l.serve(c) })
	}
}

// serve carries one connection. The far side is dialled only when the link lets
// anything through.
func (l *Link) serve(near net.Conn) {
	if !l.track(near) {
		return
	}
	defer l.untrack(near)
	if !l.await(func(f Fault) bool { return !f.Cut && !f.OneWay }) {
		return
	}
	far, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(context.Background(), "tcp4", l.target)
	if err != nil {
		if tcp, ok := near.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // nobody listens there: as close to a refusal as can be
		}
		return
	}
	if !l.track(far) {
		return
	}
	defer l.untrack(far)
	var both sync.WaitGroup
	both.Go(func() { l.pump(far, near, func(f Fault) bool { return f.OneWay }) })
	both.Go(func() { l.pump(near, far, func(Fault) bool { return false }) })
	both.Wait()
}

// pump carries bytes one way until either end closes.
func (l *Link) pump(to, from net.Conn, lost func(Fault) bool) {
	defer func() {
		if tcp, ok := to.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		l.mu.Lock()
		piece := len(buf)
		if l.fault.Rate > 0 { // small, so that a healed link is fast again soon
			piece = max(l.fault.Rate/20, 64)
		}
		l.mu.Unlock()
		n, err := from.Read(buf[:min(piece, len(buf))])
		if n > 0 {
			if !l.await(func(f Fault) bool { return !f.Cut }) {
				return
			}
			l.mu.Lock()
			f := l.fault
			l.passed += int64(n)
			l.mu.Unlock()
			if lost(f) {
				// A byte that vanished in the middle of a connection makes the rest of
				// it useless: hold it until the link heals, then break it.
				l.await(func(f Fault) bool { return !f.OneWay })
				_ = from.Close()
				return
			}
			wait := f.Delay
			if f.Rate > 0 {
				wait += time.Duration(n) * time.Second / time.Duration(f.Rate)
			}
			if wait > 0 {
				time.Sleep(wait)
			}
			if _, err := to.Write(buf[:n]); err != nil {
				_ = from.Close()
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				_ = to.Close()
			}
			return
		}
	}
}

// await waits until the fault lets something happen; false: the link is closed.
func (l *Link) await(ok func(Fault) bool) bool {
	for {
		l.mu.Lock()
		fault, changed, closed := l.fault, l.changed, l.closed
		l.mu.Unlock()
		if closed {
			return false
		}
		if ok(fault) {
			return true
		}
		<-changed
	}
}

func (l *Link) track(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = c.Close()
		return false
	}
	l.conns[c] = struct{}{}
	return true
}

func (l *Link) untrack(c net.Conn) {
	l.mu.Lock()
	delete(l.conns, c)
	l.mu.Unlock()
	_ = c.Close()
}
