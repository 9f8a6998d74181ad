package peer

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/uuid"

	"highwater/replication/wire"
)

// server answers every call with answer.
func server(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL
}

func newClient(t *testing.T, cfg Config) *Client {
	c := New(cfg)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func reply(w http.ResponseWriter, m wire.Message) {
	body := wire.AppendFrame(nil, m)
	for _, p := range m.Payload() {
		body = append(body, p...)
	}
	_, _ = w.Write(body)
}

func TestACallBringsMessagesThereAndBack(t *testing.T) {
	id := uuid.New()
	var asked wire.FetchRequest
	url := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/internal/v1/fetch" || r.Method != http.MethodPost || r.Header.Get(wire.HeaderSecret) != "s3cret" || r.Header.Get(wire.HeaderClusterID) != "c1" {
			t.Errorf("%s %s %v", r.Method, r.URL.Path, r.Header)
		}
		body, _ := io.ReadAll(r.Body)
		if err := wire.DecodeBody(body, &asked); err != nil {
			t.Error(err)
		}
		reply(w, &wire.FetchResponse{Version: wire.Version, Partitions: []wire.FetchedPartition{
			{TopicPartition: wire.TopicPartition{Topic: id, Partition: 2}, HighWatermark: 7, Batches: []byte("batches")}}})
	})
	c := newClient(t, Config{Secret: "s3cret", ClusterID: func() string { return "c1" }})
	var buf []byte
	for range 2 {
		res, err := c.Fetch(context.Background(), url, &wire.FetchRequest{Version: wire.Version, Replica: 3, Full: true}, &buf)
		if err != nil {
			t.Fatal(err)
		}
		p := res.Partitions[0]
		if asked.Replica != 3 || !asked.Full || p.Topic != id || p.HighWatermark != 7 || string(p.Batches) != "batches" {
			t.Fatalf("asked %+v, got %+v", asked, res)
		}
	}
}

func TestAClientKnowsWhetherARequestWasSent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + l.Addr().String()
	_ = l.Close()
	cut := server(t, func(w http.ResponseWriter, r *http.Request) {
		conn, _, _ := w.(http.Hijacker).Hijack()
		_ = conn.Close()
	})
	status := func(s int) string {
		return server(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(s) })
	}
	garbage := server(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("\xff\xff\xff\xffx")) })
	for name, tc := range map[string]struct {
		url     string
		notSent bool
	}{
		"nobody listens":          {closed, true},
		"no such URL":             {"http://[", true},
		"cut after it was read":   {cut, false},
		"refused as a stranger":   {status(http.StatusForbidden), true},
		"not up yet":              {status(http.StatusServiceUnavailable), true},
		"failed in the middle":    {status(http.StatusInternalServerError), false},
		"an answer that is noise": {garbage, false},
	} {
		_, err := newClient(t, Config{}).Heartbeat(context.Background(), tc.url, &wire.Heartbeat{Version: wire.Version})
		if err == nil || errors.Is(err, wire.ErrNotSent) != tc.notSent {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A connection out of the pool may have ended without the client's having noticed: what
// couldn't be written to it at all was not sent.
func TestARequestThatAClosedConnectionDidNotTakeWasNotSent(t *testing.T) {
	url := server(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	broken := make(chan struct{})
	c := newClient(t, Config{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		select {
		case <-broken:
			return nil, errors.New("the link is cut")
		default:
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &deafConn{Conn: conn, broken: broken}, err
	}})
	_, _ = c.Heartbeat(context.Background(), url, &wire.Heartbeat{Version: wire.Version}) // its answer says nothing, and leaves a connection
	close(broken)
	if _, err := c.Heartbeat(context.Background(), url, &wire.Heartbeat{Version: wire.Version}); !errors.Is(err, wire.ErrNotSent) {
		t.Fatal(err)
	}
}

// deafConn is closed for writing once it is broken; its reader hears nothing of that.
type deafConn struct {
	net.Conn
	broken chan struct{}
}

func (c *deafConn) Write(p []byte) (int, error) {
	select {
	case <-c.broken:
		return 0, net.ErrClosed
	default:
		return c.Conn.Write(p)
	}
}

func TestALongAnswerIsNotBelieved(t *testing.T) {
	url := server(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1099511627776")
		w.WriteHeader(http.StatusOK)
	})
	if _, err := newClient(t, Config{}).Heartbeat(context.Background(), url, &wire.Heartbeat{}); !errors.Is(err, wire.ErrMalformed) {
		t.Fatal(err)
	}
}
