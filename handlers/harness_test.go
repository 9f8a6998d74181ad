package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"highwater/replication"
	"highwater/replication/controller"
	"highwater/replication/group"
	"highwater/storage"
)

// testBroker is a whole broker in this process: real store, real raft, real
// broker, and a real listener in front of the handlers.
type testBroker struct {
	t    testing.TB
	dir  string
	opts brokerOptions
	log  *syncBuffer // what the broker logged, over all its lives

	url      string
	addr     string
	groups   *group.Groups
	broker   *replication.Broker
	metrics  *prometheus.Registry
	handler  http.Handler
	internal *Internal      // of a cluster's broker
	draining chan struct{}  // close it with drain
	streams  sync.WaitGroup // tails that have left their request
	patience atomic.Int64   // nanoseconds; see do

	server  *http.Server
	stop    context.CancelFunc
	stopped sync.WaitGroup // background Run loops
	ctl     *controller.Controller
	store   *storage.Store
	client  *http.Client
}

// brokerOptions change a test's broker.
type brokerOptions struct {
	handlers func(*Config)
	defaults func(*replication.Defaults)
	server   func(*http.Server)
}

// startBroker starts a broker that is stopped at the end of the test.
func startBroker(t testing.TB, opts ...func(*brokerOptions)) *testBroker {
	t.Helper()
	b := &testBroker{t: t, dir: t.TempDir(), log: &syncBuffer{}}
	for _, o := range opts {
		o(&b.opts)
	}
	b.start()
	t.Cleanup(b.close)
	return b
}

// withHandlers changes the handlers' Config.
func withHandlers(f func(*Config)) func(*brokerOptions) {
	return func(o *brokerOptions) { o.handlers = f }
}

// withDefaults changes the broker-wide topic defaults.
func withDefaults(f func(*replication.Defaults)) func(*brokerOptions) {
	return func(o *brokerOptions) { o.defaults = f }
}

// withServer changes the HTTP server before it serves.
func withServer(f func(*http.Server)) func(*brokerOptions) {
	return func(o *brokerOptions) { o.server = f }
}

func (b *testBroker) start() {
	t := b.t
	t.Helper()
	logger := zerolog.New(b.log)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	b.addr = listener.Addr().String()
	b.url = "http://" + b.addr
	b.store, err = storage.Open(storage.Options{Dir: b.dir, Fsync: storage.FsyncCommit, Logger: logger})
	must(t, err)
	b.ctl, err = controller.Open(controller.Config{Dir: filepath.Join(b.dir, "raft"), NodeID: 1, URL: b.url, Version: "test", Logger: logger})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	must(t, b.ctl.Start(ctx))
	defaults := replication.Defaults{Partitions: 1, ReplicationFactor: 1, MinInSyncReplicas: 1}
	if b.opts.defaults != nil {
		b.opts.defaults(&defaults)
	}
	b.broker = replication.New(replication.Config{NodeID: 1, URL: b.url, Store: b.store, Controller: b.ctl, Logger: logger, Defaults: defaults})
	must(t, b.broker.Start(ctx))
	b.groups = group.New(group.Config{NodeID: 1, Log: b.broker.GroupLog(), Metadata: b.ctl, Errors: replication.GroupErrors{}, Logger: logger})
	for _, run := range []func(context.Context) error{b.store.Run, b.ctl.Run, b.broker.Run, b.groups.Run} {
		b.stopped.Go(func() { _ = run(ctx) })
	}
	b.metrics = prometheus.NewRegistry()
	b.draining = make(chan struct{})
	cfg := Config{Broker: b.broker, Groups: b.groups, Logger: logger, Metrics: b.metrics, Version: "test", AdvertiseURL: b.url,
		DefaultAcks: replication.AcksLeader, Now: time.Now, Draining: b.draining, Streams: &b.streams}
	if b.opts.handlers != nil {
		b.opts.handlers(&cfg)
	}
	b.handler = New(cfg)
	b.server = &http.Server{Handler: b.handler, Protocols: bothProtocols(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, ErrorLog: nil}
	if b.opts.server != nil {
		b.opts.server(b.server)
	}
	b.stopped.Go(func() { _ = b.server.Serve(listener) })
	b.client = &http.Client{Transport: &http.Transport{DisableCompression: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// bothProtocols are HTTP/1.1 and HTTP/2 in clear text, as the real server speaks.
func bothProtocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// drain tells the broker that it is about to shut down.
func (b *testBroker) drain() {
	select {
	case <-b.draining:
	default:
		close(b.draining)
	}
}

func (b *testBroker) close() {
	b.drain()
	b.client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if b.server.Shutdown(ctx) != nil {
		_ = b.server.Close()
	}
	b.streams.Wait()
	b.stop()
	b.stopped.Wait()
	if err := b.ctl.Close(); err != nil {
		b.t.Errorf("controller close: %v", err)
	}
	if err := b.store.Close(); err != nil {
		b.t.Errorf("store close: %v", err)
	}
}

// restart stops the broker in order and starts it again on the same directory,
// under a new port.
func (b *testBroker) restart() {
	b.t.Helper()
	b.close()
	b.start()
}

// answer is a response with its body read.
type answer struct {
	t      testing.TB
	status int
	header http.Header
	body   []byte
	closes bool // Connection: close
}

// request changes a request before it is sent.
type request func(*http.Request)

func header(name, value string) request { return func(r *http.Request) { r.Header.Add(name, value) } }
func ofType(mediaType string) request   { return header("Content-Type", mediaType) }
func accept(mediaTypes string) request  { return header("Accept", mediaTypes) }

// do sends a request; body is nil, a string, []byte, an io.Reader, or anything
// else, which is sent as JSON. path may hold a query and is sent as it is. Where a broker
// of the cluster is gone, what was refused with nothing written after the time in which
// others take over is sent again, as clients do: a busy machine may need longer.
func (b *testBroker) do(method, path string, body any, change ...request) answer {
	b.t.Helper()
	for begun := time.Now(); ; {
		sent := time.Now()
		a := b.doOnce(method, path, body, change...)
		var p problemBody
		patience := time.Duration(b.patience.Load())
		if _, once := body.(io.Reader); once || patience == 0 || time.Since(sent) < patience || time.Since(begun) > time.Minute ||
			a.status != http.StatusServiceUnavailable || json.Unmarshal(a.body, &p) != nil || p.Outcome != "not_written" {
			return a
		}
	}
}

func (b *testBroker) doOnce(method, path string, body any, change ...request) answer {
	b.t.Helper()
	r, err := http.NewRequest(method, b.url+path, bodyReader(b.t, body))
	must(b.t, err)
	for _, c := range change {
		c(r)
	}
	return b.send(r)
}

func (b *testBroker) send(r *http.Request) answer {
	b.t.Helper()
	sent := sentBody(b.t, r)
	resp, err := b.client.Do(r)
	if err != nil {
		b.t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatalf("%s %s: body: %v", r.Method, r.URL, err)
	}
	a := answer{t: b.t, status: resp.StatusCode, header: resp.Header, body: data, closes: resp.Close}
	if err := loadContract().judge(r, sent, &a); err != nil {
		b.t.Errorf("%s %s: %d: %v", r.Method, r.URL, a.status, err)
	}
	return a
}

// sentBody is a copy of the request's body, nil when it can be read only once.
func sentBody(t testing.TB, r *http.Request) []byte {
	t.Helper()
	if r.GetBody == nil {
		return nil
	}
	body, err := r.GetBody()
	must(t, err)
	data, err := io.ReadAll(body)
	must(t, err)
	return data
}

func bodyReader(t testing.TB, body any) io.Reader {
	switch v := body.(type) {
	case nil:
		return nil
	case string:
		return strings.NewReader(v)
	case []byte:
		return bytes.NewReader(v)
	case io.Reader:
		return v
	}
	data, err := json.Marshal(body)
	must(t, err)
	return bytes.NewReader(data)
}

func (b *testBroker) get(path string, change ...request) answer {
	b.t.Helper()
	return b.do(http.MethodGet, path, nil, change...)
}

func (b *testBroker) post(path string, body any, change ...request) answer {
	b.t.Helper()
	return b.do(http.MethodPost, path, body, change...)
}

// topic creates a topic of n partitions, with configs as name, value pairs.
func (b *testBroker) topic(name string, n int, configs ...string) {
	b.t.Helper()
	c := map[string]string{}
	for i := 0; i < len(configs); i += 2 {
		c[configs[i]] = configs[i+1]
	}
	_, err := b.broker.CreateTopic(b.t.Context(), controller.CreateTopicRequest{Name: name, Partitions: n, Configs: c})
	must(b.t, err)
}

// end is a partition's log end offset.
func (b *testBroker) end(topic string, partition int32) int64 {
	b.t.Helper()
	o, err := b.broker.Offsets(b.t.Context(), topic, partition, nil)
	must(b.t, err)
	return o.LogEnd
}

// stored reads every record of a partition that consumers may see, past all
// rendering, waiting until it holds at least n.
func (b *testBroker) stored(topic string, partition int32, n int) []storage.Record {
	b.t.Helper()
	var out []storage.Record
	for next := int64(0); ; {
		wait := time.Duration(0)
		if len(out) < n {
			wait = 10 * time.Second
		}
		res, err := b.broker.Fetch(b.t.Context(), replication.FetchRequest{Topic: topic, Partition: partition, Offset: next, MaxBytes: 1 << 20, MinBytes: 1, MaxWait: wait})
		must(b.t, err)
		if len(res.Data) == 0 {
			if len(out) < n {
				b.t.Fatalf("%s-%d holds %d records, want %d", topic, partition, len(out), n)
			}
			return out
		}
		for data := res.Data; len(data) > 0; {
			batch, rest, err := storage.ParseBatch(data)
			must(b.t, err)
			data = rest
			it, err := batch.Records()
			must(b.t, err)
			for {
				var rec storage.Record
				if !it.Next(&rec) {
					break
				}
				if rec.Offset >= next {
					out = append(out, rec)
					next = rec.Offset + 1
				}
			}
			must(b.t, it.Err())
		}
	}
}

// want checks the status and returns the answer.
func (a answer) want(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("status %d, want %d; body: %.2000s", a.status, status, a.body)
	}
	return a
}

// into decodes the JSON body.
func (a answer) into(v any) answer {
	a.t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		a.t.Fatalf("body is no JSON: %v: %.2000s", err, a.body)
	}
	return a
}

// problemBody is an error as clients parse it.
type problemBody struct {
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Detail     string `json:"detail"`
	ErrorCode  int    `json:"error_code"`
	Message    string `json:"message"`
	KafkaError string `json:"kafka_error"`
	Retriable  bool   `json:"retriable"`
	Fix        string `json:"fix"`
	Outcome    string `json:"outcome"`
	Errors     []struct {
		Pointer   string `json:"pointer"`
		Detail    string `json:"detail"`
		ErrorCode int    `json:"error_code"`
	} `json:"errors"`
}

// problem checks that the answer is the one error body there is, with this
// error_code, and returns it.
func (a answer) problem(errorCode int) problemBody {
	a.t.Helper()
	a.want(errorCode / 100)
	var p problemBody
	if string(a.body) != "" {
		a.into(&p)
	}
	switch {
	case a.header.Get("Content-Type") != "application/problem+json" && !strings.HasPrefix(a.header.Get("Content-Type"), "application/vnd.kafka."):
		a.t.Fatalf("problem labelled %q", a.header.Get("Content-Type"))
	case p.ErrorCode != errorCode:
		a.t.Fatalf("error_code %d, want %d: %s", p.ErrorCode, errorCode, a.body)
	case p.Status != a.status || p.Message != p.Detail || p.Detail == "" || p.Title == "" || p.Fix == "" || p.KafkaError == "" || !strings.HasPrefix(p.Type, "/problems/"):
		a.t.Fatalf("incomplete problem: %s", a.body)
	}
	return p
}

// raw opens a bare connection for what a client library would mend.
func (b *testBroker) raw() net.Conn {
	b.t.Helper()
	c, err := net.Dial("tcp", b.addr)
	must(b.t, err)
	b.t.Cleanup(func() { _ = c.Close() })
	must(b.t, c.SetDeadline(time.Now().Add(30*time.Second)))
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// syncBuffer is a log sink that can be read while it is written to.
type syncBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// recordsBody is a native batch of n values.
func recordsBody(n int) string {
	var s strings.Builder
	s.WriteString(`{"records":[`)
	for i := range n {
		if i > 0 {
			s.WriteByte(',')
		}
		fmt.Fprintf(&s, `{"value":{"n":%d}}`, i)
	}
	return s.String() + `]}`
}
