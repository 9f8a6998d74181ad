package peer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"highwater/replication/controller"
	"highwater/replication/wire"
)

// Stream carries raft's connections over the brokers' one port (K3, K4): dialled
// ones begin as an HTTP request that asks for an upgrade; those of peers come from
// the HTTP handler by Deliver. It is a controller.StreamLayer.
type Stream struct {
	client *Client
	accept chan net.Conn // Deliver → Accept
	// open ends with Close: it is of all that is on its way, in and out.
	open  context.Context
	close context.CancelFunc

	mu    sync.Mutex // guards conns and down
	conns map[*streamConn]struct{}
	down  bool
}

var _ controller.StreamLayer = (*Stream)(nil)

// acceptQueue is how many connections may wait for raft to take them.
const acceptQueue = 16

// NewStream makes a Stream that signs and dials as c does.
func NewStream(c *Client) *Stream {
	s := &Stream{client: c, accept: make(chan net.Conn, acceptQueue), conns: map[*streamConn]struct{}{}}
	s.open, s.close = context.WithCancel(context.Background())
	return s
}

// Dial connects to the raft member of another broker. Close ends it, also while the
// other one doesn't answer.
func (s *Stream) Dial(to controller.RaftTarget, timeout time.Duration) (net.Conn, error) {
	at, err := url.Parse(to.URL)
	if err != nil || at.Scheme != "http" || at.Host == "" {
		return nil, fmt.Errorf("peer: raft member %s has no usable URL: %q", to.Server, to.URL)
	}
	address := at.Host
	if at.Port() == "" {
		address = net.JoinHostPort(at.Hostname(), "80")
	}
	if timeout <= 0 || timeout > dialTimeout {
		timeout = dialTimeout
	}
	ctx, cancel := context.WithTimeout(s.open, timeout)
	defer cancel()
	conn, err := s.client.cfg.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("peer: raft: %w", err)
	}
	cut := context.AfterFunc(s.open, func() { _ = conn.Close() })
	defer cut()
	upgraded, err := s.upgrade(ctx, conn, at.Host, to)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return s.track(upgraded)
}

// upgrade turns an HTTP connection into one of raft.
func (s *Stream) upgrade(ctx context.Context, conn net.Conn, host string, to controller.RaftTarget) (net.Conn, error) {
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, fmt.Errorf("peer: raft: %w", err)
	}
	req := &http.Request{Method: http.MethodGet, Host: host, URL: &url.URL{Path: wire.PathPrefix + wire.PathRaft}, Header: http.Header{}}
	req.Header["Connection"] = []string{"Upgrade"}
	req.Header["Upgrade"] = []string{wire.UpgradeRaft}
	s.client.sign(req.Header)
	req.Header[wire.HeaderRaftServer] = []string{to.Server}
	delete(req.Header, wire.HeaderClusterID)
	if to.ClusterID != "" {
		req.Header[wire.HeaderClusterID] = []string{to.ClusterID}
	}
	if err := req.Write(conn); err != nil {
		return nil, fmt.Errorf("peer: raft: %w", err)
	}
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, req)
	if err != nil {
		return nil, fmt.Errorf("peer: raft: %w", err)
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		text, _ := io.ReadAll(io.LimitReader(res.Body, maxRefusalBytes))
		_ = res.Body.Close()
		return nil, &RefusedError{URL: to.URL, Status: res.StatusCode, Code: wire.Code(res.Header.Get(wire.HeaderCode)), Detail: string(text)}
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("peer: raft: %w", err)
	}
	return buffered(conn, r), nil
}

// buffered is conn, read through r as long as r holds bytes of it: what came
// behind an upgrade may be there already.
func buffered(conn net.Conn, r *bufio.Reader) net.Conn {
	if r.Buffered() == 0 {
		return conn
	}
	return &bufferedConn{Conn: conn, r: r}
}

type bufferedConn struct {
	net.Conn
	r *bufio.Reader
}

func (c *bufferedConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// Deliver hands a peer's connection, upgraded and with no deadline, to Accept; read
// may hold its first bytes. It never blocks: false says that nobody takes it, and the
// caller keeps it.
func (s *Stream) Deliver(conn net.Conn, read *bufio.Reader) bool {
	tracked, err := s.track(buffered(conn, read))
	if err != nil {
		return false
	}
	select {
	case s.accept <- tracked:
		return true
	default:
		tracked.forget()
		return false
	}
}

// Accept waits for a peer's connection.
func (s *Stream) Accept() (net.Conn, error) {
	select {
	case <-s.open.Done():
		return nil, net.ErrClosed
	default:
	}
	select {
	case conn := <-s.accept:
		return conn, nil
	case <-s.open.Done():
		return nil, net.ErrClosed
	}
}

// Close ends Accept and cuts every connection: nobody else knows of them (K4).
func (s *Stream) Close() error {
	s.mu.Lock()
	if s.down {
		s.mu.Unlock()
		return nil
	}
	s.down = true
	s.close()
	conns := make([]*streamConn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
	return nil
}

// Addr is not asked for: members know each other by their URLs.
func (s *Stream) Addr() net.Addr { return noAddr{} }

type noAddr struct{}

func (noAddr) Network() string { return "http" }
func (noAddr) String() string  { return "by URL" }

// track remembers an open connection.
func (s *Stream) track(conn net.Conn) (*streamConn, error) {
	c := &streamConn{Conn: conn, of: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	s.conns[c] = struct{}{}
	return c, nil
}

type streamConn struct {
	net.Conn
	of *Stream
}

func (c *streamConn) forget() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	delete(c.of.conns, c)
}

// Close closes the connection.
func (c *streamConn) Close() error {
	c.forget()
	return c.Conn.Close()
}
