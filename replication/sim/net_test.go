package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// network joins the brokers by pipes with a delay. What goes over a dark link
// waits until it is lit again, as TCP sends again what was lost.
type network struct {
	mu        sync.Mutex // guards what follows
	rng       *rand.Rand
	listeners map[int32]*listener
	dark      map[[2]int32]chan struct{} // from, to: closed when the link is lit again
	slow      map[[2]int32]time.Duration
	conns     map[*conn]struct{}
	pumps     sync.WaitGroup
}

func newNetwork(rng *rand.Rand) *network {
	return &network{rng: rng, listeners: map[int32]*listener{}, dark: map[[2]int32]chan struct{}{}, slow: map[[2]int32]time.Duration{}, conns: map[*conn]struct{}{}}
}

func urlOf(id int32) string { return fmt.Sprintf("http://b%d:80", id) }

var (
	errRefused = errors.New("connection refused")
	errReset   = errors.New("connection reset")
)

// conn is one connection: the ends that programs hold, and what joins them.
type conn struct {
	from, to int32
	ends     [4]net.Conn
	done     chan struct{}
	once     sync.Once
}

func (c *conn) close() {
	c.once.Do(func() {
		close(c.done)
		for _, e := range c.ends {
			_ = e.Close()
		}
	})
}

// listen gives a broker its port.
func (n *network) listen(id int32) *listener {
	l := &listener{id: id, in: make(chan net.Conn), done: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[id] = l
	return l
}

// unplug takes a broker's port away and resets all its connections.
func (n *network) unplug(id int32) {
	n.mu.Lock()
	delete(n.listeners, id)
	n.mu.Unlock()
	n.reset(func(c *conn) bool { return c.from == id || c.to == id })
}

func (n *network) reset(which func(*conn) bool) {
	n.mu.Lock()
	var ended []*conn
	for c := range n.conns {
		if which(c) {
			ended = append(ended, c)
		}
	}
	n.mu.Unlock()
	for _, c := range ended {
		c.close()
	}
}

// setDark cuts a directed link, or lights it again.
func (n *network) setDark(from, to int32, dark bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := [2]int32{from, to}
	lit := n.dark[key]
	switch {
	case dark && lit == nil:
		n.dark[key] = make(chan struct{})
	case !dark && lit != nil:
		close(lit)
		delete(n.dark, key)
	}
}

func (n *network) setSlow(from, to int32, delay time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slow[[2]int32{from, to}] = delay
}

func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, lit := range n.dark {
		close(lit)
	}
	clear(n.dark)
	clear(n.slow)
}

// pass waits until a link carries something; false: not before done.
func (n *network) pass(from, to int32, done <-chan struct{}) bool {
	for {
		n.mu.Lock()
		lit := n.dark[[2]int32{from, to}]
		delay := n.slow[[2]int32{from, to}] + time.Duration(50+n.rng.IntN(500))*time.Microsecond
		n.mu.Unlock()
		if lit == nil {
			select {
			case <-time.After(delay):
				return true
			case <-done:
				return false
			}
		}
		select {
		case <-lit:
		case <-done:
			return false
		}
	}
}

// dial is what a broker's programs make connections with.
func (n *network) dial(from int32) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		number, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(address, "b"), ":80"))
		if err != nil {
			return nil, err
		}
		to := int32(number)
		if !n.pass(from, to, ctx.Done()) || !n.pass(to, from, ctx.Done()) {
			return nil, ctx.Err()
		}
		c := &conn{from: from, to: to, done: make(chan struct{})}
		c.ends[0], c.ends[1] = net.Pipe()
		c.ends[2], c.ends[3] = net.Pipe()
		n.mu.Lock()
		l := n.listeners[to]
		if _, up := n.listeners[from]; !up || l == nil {
			n.mu.Unlock()
			c.close()
			return nil, errRefused
		}
		n.conns[c] = struct{}{}
		n.pumps.Add(2)
		n.mu.Unlock()
		go n.pump(c, c.ends[1], c.ends[2], from, to)
		go n.pump(c, c.ends[2], c.ends[1], to, from)
		select {
		case l.in <- &end{c.ends[3], c}:
			return &end{c.ends[0], c}, nil
		case <-l.done:
		case <-ctx.Done():
		case <-c.done:
		}
		c.close()
		return nil, errReset
	}
}

func (n *network) pump(c *conn, src, dst net.Conn, from, to int32) {
	defer n.pumps.Done()
	defer func() {
		c.close()
		n.mu.Lock()
		delete(n.conns, c)
		n.mu.Unlock()
	}()
	buf := make([]byte, 64<<10)
	for {
		k, err := src.Read(buf)
		if k > 0 {
			if !n.pass(from, to, c.done) {
				return
			}
			if _, err := dst.Write(buf[:k]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// end is a program's end of a connection.
type end struct {
	net.Conn
	c *conn
}

// Close lets what was written arrive: the pump sees the end behind it.
func (e *end) Close() error { return e.Conn.Close() }

type listener struct {
	id   int32
	in   chan net.Conn
	done chan struct{}
	once sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.in:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *listener) Addr() net.Addr { return address(l.id) }

type address int32

func (address) Network() string  { return "sim" }
func (a address) String() string { return fmt.Sprintf("b%d:80", int32(a)) }
