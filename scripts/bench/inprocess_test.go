package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"highwater/handlers"
	"highwater/replication"
	"highwater/replication/controller"
	"highwater/storage"
)

// wholeBroker is a broker in this process, real down to the disk, without its port.
func wholeBroker(b *testing.B) http.Handler {
	b.Helper()
	dir := b.TempDir()
	const url = "http://127.0.0.1:1"
	store, err := storage.Open(storage.Options{Dir: dir, Fsync: storage.FsyncCommit, Now: time.Now, Logger: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	ctl, err := controller.Open(controller.Config{Dir: filepath.Join(dir, "raft"), NodeID: 1, URL: url, Version: "bench", Logger: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	loop := func(run func(context.Context) error) {
		loops.Go(func() {
			if err := run(ctx); err != nil {
				b.Error(err)
			}
		})
	}
	loop(store.Run)
	loop(ctl.Run)
	if err := ctl.Start(ctx); err != nil {
		b.Fatal(err)
	}
	broker := replication.New(replication.Config{NodeID: 1, URL: url, Store: store, Controller: ctl, Logger: zerolog.Nop(),
		Defaults: replication.Defaults{Partitions: 1, ReplicationFactor: 1, MinInSyncReplicas: 1}})
	if err := broker.Start(ctx); err != nil {
		b.Fatal(err)
	}
	loop(broker.Run)
	b.Cleanup(func() {
		broker.Drain()
		if err := broker.Close(ctx); err != nil {
			b.Error(err)
		}
		stop()
		loops.Wait()
		if err := ctl.Close(); err != nil {
			b.Error(err)
		}
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	})
	return handlers.New(handlers.Config{Broker: broker, Logger: zerolog.Nop(), Metrics: prometheus.NewRegistry(), Version: "bench", AdvertiseURL: url,
		DefaultAcks: replication.AcksLeader, MaxRequestBytes: 128 << 20, Now: time.Now,
		Draining: make(chan struct{}), Ready: func() error { return nil }})
}

// sink is a ResponseWriter that only counts, so that what is allocated is the broker's.
type sink struct {
	header http.Header
	status int
	bytes  int
	kept   []byte // of a refusal
}

func (s *sink) Header() http.Header { return s.header }

func (s *sink) WriteHeader(status int) { s.status = status }

func (s *sink) Write(p []byte) (int, error) {
	if s.status == 0 {
		s.status = http.StatusOK
	}
	if s.status >= 300 {
		s.kept = append(s.kept, p...)
	}
	s.bytes += len(p)
	return len(p), nil
}

// SetReadDeadline and SetWriteDeadline are there as on a real connection.
func (*sink) SetReadDeadline(time.Time) error { return nil }

func (*sink) SetWriteDeadline(time.Time) error { return nil }

func (s *sink) reset() {
	clear(s.header)
	s.status, s.bytes, s.kept = 0, 0, s.kept[:0]
}

// caller sends one request after the other without allocating for it.
type caller struct {
	handler http.Handler
	request *http.Request
	body    *bytes.Reader
	answer  sink
}

func newCaller(b *testing.B, h http.Handler, method, target string) *caller {
	b.Helper()
	c := &caller{handler: h, body: bytes.NewReader(nil), answer: sink{header: http.Header{}}}
	var err error
	if c.request, err = http.NewRequestWithContext(b.Context(), method, target, io.NopCloser(c.body)); err != nil {
		b.Fatal(err)
	}
	c.request.Header.Set("Content-Type", "application/json")
	c.request.RemoteAddr = "127.0.0.1:2"
	return c
}

func (c *caller) call(b *testing.B, body []byte) {
	c.body.Reset(body)
	c.request.ContentLength = int64(len(body))
	c.answer.reset()
	c.handler.ServeHTTP(&c.answer, c.request)
	if c.answer.status != http.StatusOK && c.answer.status != http.StatusCreated {
		b.Fatalf("%s %s: %d %s", c.request.Method, c.request.URL, c.answer.status, c.answer.kept)
	}
}

// perRecord runs op b.N times and reports what it costs per record.
func perRecord(b *testing.B, records int, op func(i int)) {
	b.Helper()
	b.ReportAllocs()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.ResetTimer()
	for i := range b.N {
		op(i)
	}
	b.StopTimer()
	runtime.ReadMemStats(&after)
	all := float64(b.N * records)
	b.ReportMetric(all/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/all, "allocs/record")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/all, "B/record")
}

func benchmarkBodies(records int) [][]byte {
	w := newWorkload()
	bodies := make([][]byte, distinctBodies)
	for i := range bodies {
		bodies[i] = w.batch(records)
	}
	return bodies
}

func BenchmarkProduce(b *testing.B) {
	for _, bm := range []struct {
		acks    string
		records int
	}{{"1", 1}, {"1", batchRecords}, {"-1", 1}, {"-1", batchRecords}} {
		b.Run(fmt.Sprintf("acks=%s/records=%d", bm.acks, bm.records), func(b *testing.B) {
			h := wholeBroker(b)
			newCaller(b, h, http.MethodPut, "/topics/t").call(b, nil)
			c, bodies := newCaller(b, h, http.MethodPost, "/topics/t?acks="+bm.acks), benchmarkBodies(bm.records)
			perRecord(b, bm.records, func(i int) { c.call(b, bodies[i%len(bodies)]) })
		})
	}
}

func BenchmarkParseOnly(b *testing.B) {
	for _, records := range []int{1, batchRecords} {
		b.Run(fmt.Sprintf("records=%d", records), func(b *testing.B) {
			c, bodies := newCaller(b, handlers.NewParseOnly(), http.MethodPost, "/parse"), benchmarkBodies(records)
			perRecord(b, records, func(i int) { c.call(b, bodies[i%len(bodies)]) })
		})
	}
}

func BenchmarkFetch(b *testing.B) {
	h := wholeBroker(b)
	newCaller(b, h, http.MethodPut, "/topics/t").call(b, nil)
	produce, bodies := newCaller(b, h, http.MethodPost, "/topics/t?acks=-1"), benchmarkBodies(batchRecords)
	const stored = 10_000
	for i := range stored / batchRecords {
		produce.call(b, bodies[i%len(bodies)])
	}
	for _, count := range []int{1, batchRecords, 3000} {
		b.Run(fmt.Sprintf("records=%d", count), func(b *testing.B) {
			calls := make([]*caller, 16)
			for i := range calls {
				calls[i] = newCaller(b, h, http.MethodGet, fmt.Sprintf("/topics/t/partitions/0/records?offset=%d&count=%d", i*431%(stored-count), count))
			}
			perRecord(b, count, func(i int) { calls[i%len(calls)].call(b, nil) })
		})
	}
}
