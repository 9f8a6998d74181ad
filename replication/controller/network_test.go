package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"highwater/replication/wire"
)

// network joins controllers in one process: calls are function calls whose
// messages went through their encoding, raft's connections are pipes. Each
// directed link can be cut.
type network struct {
	t *testing.T

	mu    sync.Mutex // guards the fields below
	at    map[string]*Controller
	accs  map[string]*streamEnd
	cuts  map[[2]string]bool // from, to
	deaf  map[string]bool    // answers to it are lost, all else arrives
	conns map[*pipeEnd]struct{}
}

func newNetwork(t *testing.T) *network {
	return &network{t: t, at: map[string]*Controller{}, accs: map[string]*streamEnd{}, cuts: map[[2]string]bool{}, deaf: map[string]bool{}, conns: map[*pipeEnd]struct{}{}}
}

// listen makes the URL's stream layer.
func (n *network) listen(url string) *streamEnd {
	s := &streamEnd{net: n, url: url, in: make(chan net.Conn), done: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.accs[url] = s
	return s
}

func (n *network) place(url string, c *Controller) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at[url] = c
}

// remove makes the URL a port that nobody listens on.
func (n *network) remove(url string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.at, url)
	delete(n.accs, url)
}

// cut cuts the directed link: what is sent is lost, connections over it break.
func (n *network) cut(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[[2]string{from, to}] = true
	for c := range n.conns {
		if c.from == from && c.to == to || c.from == to && c.to == from {
			_ = c.Conn.Close()
			delete(n.conns, c)
		}
	}
}

// isolate cuts a node off all others, both ways.
func (n *network) isolate(url string) {
	n.mu.Lock()
	var others []string
	for u := range n.at {
		if u != url {
			others = append(others, u)
		}
	}
	n.mu.Unlock()
	for _, u := range others {
		n.cut(url, u)
		n.cut(u, url)
	}
}

// deafen loses the answers to a node's calls, until undeafened.
func (n *network) deafen(url string, deaf bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deaf[url] = deaf
}

func (n *network) isDeaf(url string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.deaf[url]
}

func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cuts)
}

func (n *network) open(from, to string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.cuts[[2]string{from, to}]
}

// streamEnd is one node's StreamLayer.
type streamEnd struct {
	net  *network
	url  string
	in   chan net.Conn
	done chan struct{}
	once sync.Once
}

var errNoRoute = errors.New("no route")

func (s *streamEnd) Dial(to RaftTarget, _ time.Duration) (net.Conn, error) {
	s.net.mu.Lock()
	target, acc := s.net.at[to.URL], s.net.accs[to.URL]
	s.net.mu.Unlock()
	if target == nil || !s.net.open(s.url, to.URL) || !s.net.open(to.URL, s.url) {
		return nil, errNoRoute
	}
	if err := target.AcceptRaft(to); err != nil {
		return nil, err
	}
	a, b := net.Pipe()
	mine, theirs := &pipeEnd{a, s.net, s.url, to.URL}, &pipeEnd{b, s.net, to.URL, s.url}
	s.net.mu.Lock()
	s.net.conns[mine], s.net.conns[theirs] = struct{}{}, struct{}{}
	s.net.mu.Unlock()
	select {
	case acc.in <- theirs:
		return mine, nil
	case <-acc.done:
		return nil, errNoRoute
	case <-time.After(time.Second):
		return nil, errNoRoute
	}
}

func (s *streamEnd) Accept() (net.Conn, error) {
	select {
	case c := <-s.in:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

func (s *streamEnd) Close() error {
	s.once.Do(func() { close(s.done) })
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	for c := range s.net.conns {
		if c.from == s.url || c.to == s.url {
			_ = c.Conn.Close()
			delete(s.net.conns, c)
		}
	}
	return nil
}

func (s *streamEnd) Addr() net.Addr { return streamAddr(s.url) }

type pipeEnd struct {
	net.Conn
	net      *network
	from, to string
}

func (p *pipeEnd) Close() error {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	delete(p.net.conns, p)
	return p.Conn.Close()
}

// link is one node's Peers.
type link struct {
	net *network
	url string
}

// through is a message after its way over the wire.
func through[T any](m *T) *T {
	data, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	out := new(T)
	if err := json.Unmarshal(data, out); err != nil {
		panic(err)
	}
	return out
}

// call has serve answer at url, unless a link is cut: there, or on the way back.
func call[Q, A any](ctx context.Context, l link, url string, req *Q, serve func(*Controller, context.Context, *Q) *A) (*A, error) {
	l.net.mu.Lock()
	target := l.net.at[url]
	l.net.mu.Unlock()
	if target == nil || !l.net.open(l.url, url) {
		return nil, fmt.Errorf("%w: %s", wire.ErrNotSent, url)
	}
	type got struct{ answer *A }
	done := make(chan got, 1)
	go func() { done <- got{serve(target, ctx, through(req))} }()
	select {
	case g := <-done:
		if !l.net.open(url, l.url) || l.net.isDeaf(l.url) {
			return nil, errNoRoute
		}
		return through(g.answer), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l link) Propose(ctx context.Context, url string, req *wire.Propose) (*wire.ProposeAnswer, error) {
	return call(ctx, l, url, req, (*Controller).ServePropose)
}

func (l link) Heartbeat(ctx context.Context, url string, req *wire.Heartbeat) (*wire.HeartbeatAnswer, error) {
	return call(ctx, l, url, req, (*Controller).ServeHeartbeat)
}

func (l link) Join(ctx context.Context, url string, req *wire.Join) (*wire.JoinAnswer, error) {
	return call(ctx, l, url, req, (*Controller).ServeJoin)
}

func (l link) Founding(ctx context.Context, url string, req *wire.Founding) (*wire.Founding, error) {
	return call(ctx, l, url, req, (*Controller).ServeFounding)
}
