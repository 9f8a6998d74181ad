package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// connectionShare of the descriptors may be connections; the rest is for
	// segments, the index and raft.
	connectionShareNum, connectionShareDen = 3, 4
	// minFiles is what a small broker needs besides connections: raft, index, lock,
	// log, epoll, and a few segments.
	minFiles = 32
	// maxIdleFiles: keeping more segments open was not measured to help.
	maxIdleFiles = 512
	// refusals at once are told 503 in words; beyond that the connection is just closed.
	maxRefusals    = 64
	refusalTimeout = time.Second // for a refused client to take its answer
	// Before the port closes no connection may have come for stillFor; that is waited
	// for no longer than stillWait.
	stillFor, stillWait = 25 * time.Millisecond, 300 * time.Millisecond
	// silentAfter is how long a connection may be open before its first request and
	// still be waited for at the end.
	silentAfter = 300 * time.Millisecond

	keepAliveIdle     = 30 * time.Second // a dead peer is known after about 90 s
	keepAliveInterval = 15 * time.Second
	keepAliveCount    = 4
)

const rawRefusal = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"

// listener hands out at most `most` open connections. Beyond that a connection
// is accepted, told 503 and closed: a client waiting in the kernel's queue would
// know nothing.
type listener struct {
	*net.TCPListener
	most int

	open     atomic.Int64 // connections handed out and not yet closed
	gauge    prometheus.Gauge
	refusals prometheus.Counter
	refusing sync.WaitGroup
	slots    chan struct{} // one token for each refusal under way

	accepted atomic.Int64 // Unix ns, the last connection
	ended    atomic.Bool  // the port is closed, and what Accept took is in conns

	mu    sync.Mutex // leaf lock; guards conns and busy
	conns map[*conn]struct{}
	busy  map[net.Conn]use // those that are new, or in a request; see track
}

// use is what a connection is about.
type use struct {
	active bool      // in a request; else nothing has come yet
	since  time.Time // of a new one
}

// shareDescriptors divides the process's descriptors, whose limit the Go runtime
// has raised to the hard one already, among connections and segment files that
// nobody uses at the moment; what is left is for files in use. wanted is the
// number of connections that was asked for, 0 for the usual share.
func shareDescriptors(wanted int) (connections, idleFiles int, err error) {
	var rlimit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &rlimit); err != nil {
		return 0, 0, fmt.Errorf("descriptor limit: %w", err)
	}
	limit := int(min(rlimit.Cur, 1<<20))
	if connections = wanted; connections == 0 {
		connections = limit * connectionShareNum / connectionShareDen
	}
	if connections+minFiles > limit {
		return 0, 0, fmt.Errorf("%d connections and %d files need more than the %d descriptors that this process may have: "+
			"raise the limit (ulimit -n) or lower --max-connections", connections, minFiles, limit)
	}
	return connections, min(max((limit-connections)/3, 4), maxIdleFiles), nil
}

// listen binds address. The metrics are told of connections that are open and of
// those that were refused.
func listen(ctx context.Context, address string, most int, m *metrics) (*listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount}}
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("--listen %s: another process has this port, perhaps a broker that still runs (ss -ltnp and lsof -i tell which): stop it, or choose another port with --listen (port 0 takes any free one)", address)
		}
		return nil, fmt.Errorf("--listen %s: %w", address, err)
	}
	return &listener{TCPListener: l.(*net.TCPListener), most: most, gauge: m.connections, refusals: m.refused, slots: make(chan struct{}, maxRefusals), conns: map[*conn]struct{}{}, busy: map[net.Conn]use{}}, nil
}

// Accept waits for the next connection that may stay.
func (l *listener) Accept() (net.Conn, error) {
	for {
		tcp, err := l.AcceptTCP()
		if err != nil {
			l.ended.Store(errors.Is(err, net.ErrClosed))
			return nil, err
		}
		l.accepted.Store(time.Now().UnixNano())
		if l.open.Add(1) <= int64(l.most) {
			c := &conn{TCPConn: tcp, from: l}
			l.mu.Lock()
			l.conns[c], l.busy[c] = struct{}{}, use{since: time.Now()} // track goes on from here
			l.mu.Unlock()
			l.gauge.Inc()
			return c, nil
		}
		l.open.Add(-1)
		l.refuse(tcp)
	}
}

// refuse answers 503 without holding up Accept.
func (l *listener) refuse(tcp *net.TCPConn) {
	l.refusals.Inc()
	select {
	case l.slots <- struct{}{}:
	default:
		_ = tcp.Close()
		return
	}
	l.refusing.Go(func() {
		defer func() { <-l.slots }()
		defer func() { _ = tcp.Close() }()
		_ = tcp.SetDeadline(time.Now().Add(refusalTimeout))
		body := whenFull().body()
		if _, err := fmt.Fprintf(tcp, rawRefusal, len(body), body); err != nil {
			return
		}
		// Closing with unread bytes would reset the connection under the answer.
		_ = tcp.CloseWrite()
		_, _ = io.Copy(io.Discard, io.LimitReader(tcp, 64<<10))
	})
}

// closeStill closes the port in a still moment, or when there was none for a while.
// Connections that wait in the kernel then, or are half made, would be reset, and their
// clients can't know whether the requests that they have sent were read. Not every
// kernel can be told to let nobody in first.
func (l *listener) closeStill(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stillWait)
	defer cancel()
	tick := time.NewTicker(stillFor / 5)
	defer tick.Stop()
	for began := time.Now(); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		quiet := time.Since(began) >= stillFor && time.Since(time.Unix(0, l.accepted.Load())) >= stillFor
		if quiet && queued(l.TCPListener) == 0 || ctx.Err() != nil {
			break
		}
	}
	_ = l.Close()
}

// Close stops accepting and waits for refusals under way.
func (l *listener) Close() error {
	err := l.TCPListener.Close()
	l.refusing.Wait()
	return err
}

// track is the HTTP server's ConnState: it keeps apart connections that lie idle
// and those that must be waited for.
func (l *listener) track(c net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state {
	case http.StateNew: // Accept has noted it
	case http.StateActive:
		l.busy[c] = use{active: true}
	default:
		delete(l.busy, c)
	}
}

// settled tells that Accept has ended and no connection is in a request, or so new
// that its first one may be on the way. Clients and browsers open some ahead, and
// these stay silent.
func (l *listener) settled() bool {
	if !l.ended.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range l.busy {
		if u.active || time.Since(u.since) < silentAfter {
			return false
		}
	}
	return true
}

// closeSilent closes connections that nothing has come through. The HTTP server
// would keep them for a while, and drop what comes then.
func (l *listener) closeSilent() {
	l.mu.Lock()
	var silent []net.Conn
	for c, u := range l.busy {
		if !u.active && time.Since(u.since) >= silentAfter {
			silent = append(silent, c)
		}
	}
	l.mu.Unlock()
	for _, c := range silent {
		_ = c.Close()
	}
}

// closeConnections cuts what is still open: hijacked connections, which
// http.Server has forgotten, and clients that did not end in time.
func (l *listener) closeConnections() (n int) {
	l.mu.Lock()
	left := make([]*conn, 0, len(l.conns))
	for c := range l.conns {
		left = append(left, c)
	}
	l.mu.Unlock()
	for _, c := range left {
		_ = c.Close()
	}
	return len(left)
}

// url is how the bound address is reached by HTTP: the real port, IPv6 in
// brackets, and for a wildcard address this machine's name.
func (l *listener) url() string {
	addr := l.Addr().(*net.TCPAddr)
	host := addr.IP.String()
	if addr.Zone != "" {
		host += "%25" + addr.Zone
	}
	if addr.IP.IsUnspecified() {
		name, err := os.Hostname()
		if err != nil || name == "" {
			name = "localhost"
		}
		host = name
	}
	return "http://" + net.JoinHostPort(host, fmt.Sprint(addr.Port))
}

// conn counts itself out when it is closed. It embeds the TCP connection so that
// net/http still finds ReadFrom, and with it sendfile.
type conn struct {
	*net.TCPConn
	from *listener
	once sync.Once
}

// Close closes the connection.
func (c *conn) Close() error {
	err := c.TCPConn.Close()
	c.once.Do(func() {
		c.from.open.Add(-1)
		c.from.gauge.Dec()
		c.from.mu.Lock()
		delete(c.from.conns, c)
		c.from.mu.Unlock()
		c.from.track(c, http.StateClosed)
	})
	return err
}
