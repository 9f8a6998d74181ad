package replication

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"highwater/replication/wire"
	"highwater/storage"
)

// testCaller is how one broker of a testCluster forwards to others: real messages,
// as bytes, over the links that the test rules.
type testCaller struct {
	peers testPeers
	net   *forwardNet
}

// forwardNet is what a test does to forwarded requests.
type forwardNet struct {
	mu    sync.Mutex // guards what follows
	calls []string   // "1>2 append"
	// fault is asked for each request, if set.
	fault func(from, to int32, path string) forwardFault
}

type forwardFault int

const (
	noFault      forwardFault = iota
	refused                   // nothing is sent
	loseAnswer                // it is served, and the connection is cut
	hang                      // it arrives, is never served and never answered
	serveAndHang              // it is served and never answered
	comeLate                  // it is on its way for arrivalDelay, whatever becomes of who sent it, and never answered
)

// arrivalDelay is how long a request takes that comes late.
const arrivalDelay = 5 * time.Second

// inForwardingCluster is inCluster with brokers that forward.
func inForwardingCluster(net *forwardNet) clusterOptions {
	return clusterOptions{config: func(c *Config) {
		c.Forward = &testCaller{peers: *c.Peers.(*testPeers), net: net}
	}}
}

func (n *forwardNet) note(from, to int32, path string) forwardFault {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, fmt.Sprintf("%d>%d %s", from, to, path))
	if n.fault == nil {
		return noFault
	}
	return n.fault(from, to, path)
}

// count tells how many requests there were, and forgets them.
func (n *forwardNet) count(call string) (found int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.calls {
		if c == call {
			found++
		}
	}
	n.calls = slices.DeleteFunc(n.calls, func(c string) bool { return c == call })
	return found
}

func (n *forwardNet) faults(f func(from, to int32, path string) forwardFault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fault = f
}

func (c *testCaller) Call(ctx context.Context, url, path string, wait time.Duration, in, out wire.Message, buf *[]byte) error {
	ctx, cancel := context.WithTimeout(ctx, wait+time.Minute)
	defer cancel()
	target, ctx, end, err := c.peers.dial(ctx, url)
	if err != nil {
		return fmt.Errorf("%w: %w", wire.ErrNotSent, err)
	}
	fault := c.net.note(c.peers.m.id, target.id, path)
	switch fault {
	case refused:
		_ = end()
		return wire.ErrNotSent
	case hang:
		<-ctx.Done()
		return end()
	}
	request := asBytes(in)
	if fault == comeLate {
		target.loops.Go(func() {
			time.Sleep(arrivalDelay)
			_, _ = target.serve(context.WithoutCancel(ctx), path, request)
		})
		<-ctx.Done()
		return end()
	}
	type served struct {
		answer []byte
		err    error
	}
	done := make(chan served, 1)
	target.loops.Go(func() { // goes on without the caller
		answer, err := target.serve(ctx, path, request)
		done <- served{answer, err}
	})
	select {
	case s := <-done:
		switch {
		case fault == loseAnswer:
			_ = end()
			return errCut
		case fault == serveAndHang:
			<-ctx.Done()
		}
		if err := end(); err != nil {
			return err
		}
		if s.err != nil {
			return fmt.Errorf("%w: %w", wire.ErrNotSent, s.err)
		}
		return wire.DecodeBody(s.answer, out)
	case <-ctx.Done():
		return end()
	}
}

func asBytes(m wire.Message) []byte {
	out := wire.AppendFrame(nil, m)
	for _, p := range m.Payload() {
		out = append(out, p...)
	}
	return out
}

// serve is the server's side.
func (m *member) serve(ctx context.Context, path string, request []byte) ([]byte, error) {
	switch path {
	case wire.PathAppend:
		req := &wire.AppendRequest{}
		err := wire.DecodeBody(request, req)
		if err != nil {
			return nil, err
		}
		return asBytes(&wire.JSON[wire.AppendAnswer]{V: m.ServeAppend(ctx, req)}), nil
	case wire.PathRead:
		req := &wire.JSON[wire.ReadRequest]{}
		if err := wire.DecodeBody(request, req); err != nil {
			return nil, err
		}
		var buf []byte
		return asBytes(m.ServeRead(ctx, req.V, &buf)), nil
	case wire.PathWatch:
		return serveJSON(request, func(req *wire.WatchRequest) *wire.WatchAnswer { return m.ServeWatch(ctx, req) })
	case wire.PathOffsets:
		return serveJSON(request, func(req *wire.OffsetsRequest) *wire.OffsetsAnswer { return m.ServeOffsets(ctx, req) })
	case wire.PathDeleteRecords:
		return serveJSON(request, func(q *wire.DeleteRecordsRequest) *wire.DeleteRecordsAnswer {
			return m.ServeDeleteRecords(context.Background(), q)
		})
	case wire.PathFindMessage:
		req := &wire.JSON[wire.FindRequest]{}
		if err := wire.DecodeBody(request, req); err != nil {
			return nil, err
		}
		return asBytes(m.ServeFind(ctx, req.V)), nil
	case wire.PathStatus:
		return serveJSON(request, func(req *wire.StatusRequest) *wire.StatusAnswer { return m.ServeStatus(req) })
	}
	if m.groups != nil {
		return m.groups.serve(ctx, path, request)
	}
	return nil, fmt.Errorf("no path %s", path)
}

func serveJSON[Q, A any](request []byte, serve func(*Q) *A) ([]byte, error) {
	req := &wire.JSON[Q]{}
	if err := wire.DecodeBody(request, req); err != nil {
		return nil, err
	}
	return asBytes(&wire.JSON[A]{V: serve(req.V)}), nil
}

// produce appends through any broker, within a client's time.
func (m *member) produce(timeout time.Duration, acks Acks, topic string, num int32, values ...string) AppendResult {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return m.Append(ctx, acks, []AppendRequest{{Topic: topic, Partition: num, Batches: []storage.Batch{batch(m.c.t, values...)}}})[0]
}
