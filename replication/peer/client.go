// Package peer is the client side of what brokers say to each other: calls over
// HTTP/1.1 to another broker's /internal/ paths, and the connections of raft.
package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"highwater/replication/wire"
)

const (
	// dialTimeout bounds a connection's making. Brokers are near each other; one
	// that drops packets must not hold up the work for the others.
	dialTimeout = 3 * time.Second
	// answerTimeout is what a call gets beyond the time that the peer was asked to
	// wait, where the caller's context doesn't end first.
	answerTimeout = 10 * time.Second
	// A pool has so many idle connections to a broker, for so long: less than the
	// two minutes after which a broker closes an idle one, so that few requests meet
	// a connection that is being closed.
	idleConns   = 64
	idleTimeout = 30 * time.Second
	// maxJoinedBytes is the size up to which a request is copied into one piece: a
	// second write costs more, and another wake-up of the peer.
	maxJoinedBytes = 16 << 10
	// firstRead is how much is allocated for an answer at once. More comes as its
	// bytes do: a length is only a promise.
	firstRead = 1 << 20
	// maxAnswerBytes bounds an answer; a fetch asks for far less.
	maxAnswerBytes = 1 << 30
	// maxRefusalBytes is how much of a refusal's text is read.
	maxRefusalBytes = 4 << 10

	keepAliveIdle     = 5 * time.Second // a peer that vanished is known after about 20 s
	keepAliveInterval = 5 * time.Second
	keepAliveCount    = 3
)

// Config of a Client.
type Config struct {
	// Secret proves that the sender is a broker of the cluster; empty: the cluster
	// has none, and only loopback addresses are answered. It is never logged.
	Secret string
	// ClusterID tells the cluster's id, "" while it isn't known. nil: never known.
	ClusterID func() string
	// Dial makes connections; nil: TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Transport replaces HTTP over connections of Dial; nil: it is that. An error of
	// it that wraps wire.ErrNotSent says that nothing was sent.
	Transport http.RoundTripper
}

// Client calls other brokers. It is safe for concurrent use.
type Client struct {
	cfg       Config
	transport http.RoundTripper
	own       *http.Transport // nil when Config brought one
}

// New makes a Client.
func New(cfg Config) *Client {
	if cfg.ClusterID == nil {
		cfg.ClusterID = func() string { return "" }
	}
	if cfg.Dial == nil {
		cfg.Dial = defaultDial()
	}
	c := &Client{cfg: cfg, transport: cfg.Transport}
	if c.transport == nil {
		var protocols http.Protocols
		protocols.SetHTTP1(true)
		c.own = &http.Transport{
			Proxy:               nil, // never by way of a proxy of the environment
			DialContext:         countingDial(cfg.Dial),
			Protocols:           &protocols,
			DisableCompression:  true,
			MaxIdleConnsPerHost: idleConns,
			IdleConnTimeout:     idleTimeout,
			WriteBufferSize:     32 << 10,
			ReadBufferSize:      32 << 10,
		}
		c.transport = c.own
	}
	return c
}

func defaultDial() func(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount}}
	return d.DialContext
}

// Close closes the idle connections. Calls under way end with their contexts.
func (c *Client) Close() error {
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
	return nil
}

// RefusedError: the peer answered, and refused to look at the request: nothing
// came of it. It counts as wire.ErrNotSent.
type RefusedError struct {
	URL    string
	Status int
	Code   wire.Code
	Detail string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("peer: %s refused: %d %s %s", e.URL, e.Status, e.Code, e.Detail)
}

// Is says that nothing came of the request.
func (e *RefusedError) Is(target error) bool { return target == wire.ErrNotSent }

// Call sends in to a path of the broker at url and reads its answer into out,
// which may keep parts of *buf; wait is how long the peer was asked to wait at
// most. Errors: *RefusedError; one that wraps wire.ErrNotSent; any other one
// leaves open whether the peer acted.
func (c *Client) Call(ctx context.Context, url, path string, wait time.Duration, in, out wire.Message, buf *[]byte) error {
	ctx, cancel := context.WithTimeout(ctx, wait+answerTimeout)
	defer cancel()
	var sent sentConns
	req, err := c.request(sent.trace(ctx), url, path, in)
	if err != nil {
		return fmt.Errorf("peer: %w: %w", wire.ErrNotSent, err)
	}
	res, err := c.transport.RoundTrip(req)
	if err != nil {
		if c.own != nil && !sent.any() {
			err = fmt.Errorf("%w: %w", wire.ErrNotSent, err)
		}
		return fmt.Errorf("peer: %s: %w", url, err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return refusal(url, res)
	}
	body, err := readBody(res, buf)
	if err == nil {
		err = wire.DecodeBody(body, out)
	}
	if err != nil {
		return fmt.Errorf("peer: answer of %s: %w", url, err)
	}
	return nil
}

// request is a POST of the message. Its body can be had again: a request of which
// not a byte was written may go over another connection.
func (c *Client) request(ctx context.Context, url, path string, in wire.Message) (*http.Request, error) {
	frame, payload := wire.AppendFrame(nil, in), in.Payload()
	length := len(frame)
	for _, p := range payload {
		length += len(p)
	}
	var whole io.Reader // in one piece: net/http sends that together with the header
	if length <= maxJoinedBytes {
		for _, p := range payload {
			frame = append(frame, p...)
		}
		whole = bytes.NewReader(frame)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(url, "/")+wire.PathPrefix+path, whole)
	if err != nil {
		return nil, err
	}
	if whole == nil {
		pieces := append([][]byte{frame}, payload...)
		req.ContentLength = int64(length)
		req.GetBody = func() (io.ReadCloser, error) { return &body{pieces: pieces}, nil }
		req.Body = &body{pieces: pieces}
	}
	req.Header["Content-Type"] = contentType
	c.sign(req.Header)
	return req, nil
}

// body reads pieces one after the other, without changing them.
type body struct {
	pieces [][]byte
	at     int // of the first piece
}

// Read copies as much as fits.
func (b *body) Read(p []byte) (n int, err error) {
	for len(b.pieces) > 0 && n < len(p) {
		k := copy(p[n:], b.pieces[0][b.at:])
		n, b.at = n+k, b.at+k
		if b.at == len(b.pieces[0]) {
			b.pieces, b.at = b.pieces[1:], 0
		}
	}
	if n == 0 && len(b.pieces) == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Close does nothing: the pieces are the caller's.
func (b *body) Close() error { return nil }

var contentType = []string{wire.ContentType}

// sign says who is asking.
func (c *Client) sign(h http.Header) {
	if c.cfg.Secret != "" {
		h[wire.HeaderSecret] = []string{c.cfg.Secret}
	}
	if id := c.cfg.ClusterID(); id != "" {
		h[wire.HeaderClusterID] = []string{id}
	}
}

// refusal is the error for an answer other than 200. A peer answers 500 when it
// failed in the middle of it; every other status is a no from before.
func refusal(url string, res *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxRefusalBytes)) // whatever there is of it
	if res.StatusCode == http.StatusInternalServerError {
		return fmt.Errorf("peer: %s failed: %q", url, text)
	}
	code := wire.Code(res.Header.Get(wire.HeaderCode))
	if code == wire.OK {
		code = wire.CodeOther
	}
	return &RefusedError{URL: url, Status: res.StatusCode, Code: code, Detail: string(bytes.TrimSpace(text))}
}

// readBody reads an answer, into *buf where it fits.
func readBody(res *http.Response, buf *[]byte) ([]byte, error) {
	length := res.ContentLength
	if length < 0 || length > maxAnswerBytes {
		return nil, fmt.Errorf("%w: an answer of %d bytes", wire.ErrMalformed, length)
	}
	var body []byte
	if buf != nil {
		body = (*buf)[:0]
	}
	for int64(len(body)) < length {
		if len(body) == cap(body) {
			grown := make([]byte, len(body), min(max(2*int64(len(body)), firstRead), length))
			copy(grown, body)
			body = grown
		}
		n, err := res.Body.Read(body[len(body):min(int64(cap(body)), length)])
		body = body[:len(body)+n]
		if err != nil && int64(len(body)) < length {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	// To its end, or the connection couldn't be used again.
	if _, err := res.Body.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: an answer longer than it says", wire.ErrMalformed)
	}
	if buf != nil {
		*buf = body
	}
	return body, nil
}

// sentConns notes how far the connections were written to that a request got: only
// a request of which nothing was written is known not to have arrived.
type sentConns struct {
	mu    sync.Mutex // guards conns; the transport calls from its goroutines
	conns []connMark
}

type connMark struct {
	conn  *countingConn
	start int64
}

func (s *sentConns) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if conn, ok := info.Conn.(*countingConn); ok {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.conns = append(s.conns, connMark{conn, conn.written.Load()})
		}
	}})
}

func (s *sentConns) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.conns {
		if m.conn.written.Load() > m.start {
			return true
		}
	}
	return false
}

// countingConn counts the bytes that were given to the connection. They are
// counted before, as a call may end while they are written; what a write that
// failed didn't give is taken off again.
type countingConn struct {
	net.Conn
	written atomic.Int64
}

func (c *countingConn) Write(p []byte) (int, error) {
	c.written.Add(int64(len(p)))
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n - len(p)))
	return n, err
}

func countingDial(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &countingConn{Conn: conn}, nil
	}
}
