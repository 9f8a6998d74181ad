package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// replicas of the stream: as many as Highwater's topics have.
const replicas = 3

// result is what load prints.
type result struct {
	Requests    int64   `json:"requests"` // acknowledged: single publishes or whole batches
	Records     int64   `json:"records"`
	ElapsedNs   int64   `json:"elapsed_ns"`
	LatenciesNs []int64 `json:"latencies_ns"`
}

// worker publishes on a connection of its own.
type worker struct {
	conn      *nats.Conn
	js        jetstream.JetStream
	latencies []int64
}

func load(args []string) error {
	f := flag.NewFlagSet("load", flag.ContinueOnError)
	servers := f.String("servers", "", "NAME=URL,.. of all servers")
	stream := f.String("stream", "bench", "name of the stream, which is made if it isn't there")
	conns := f.Int("conns", 16, "connections")
	batch := f.Int("batch", 1, "publishes that are sent before their acknowledgements are awaited")
	size := f.Int("bytes", 200, "of a message")
	warm := f.Duration("warm", time.Second, "unmeasured time")
	measure := f.Duration("measure", 3*time.Second, "measured time")
	if err := f.Parse(args); err != nil {
		return err
	}
	workers, err := connect(*servers, *conns, *stream)
	if err != nil {
		return err
	}
	payload := bytes.Repeat([]byte{'x'}, *size)
	var counting, ended atomic.Bool
	errs := make(chan error, *conns)
	var wg sync.WaitGroup
	for _, w := range workers {
		wg.Go(func() {
			for !ended.Load() {
				counted, begun := counting.Load(), time.Now()
				if err := w.publish(*stream, payload, *batch); err != nil {
					errs <- err
					return
				}
				if counted && !ended.Load() {
					w.latencies = append(w.latencies, int64(time.Since(begun)))
				}
			}
		})
	}
	time.Sleep(*warm)
	counting.Store(true)
	begun := time.Now()
	time.Sleep(*measure)
	ended.Store(true)
	res := result{ElapsedNs: int64(time.Since(begun))}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
	}
	for _, w := range workers {
		w.conn.Close()
		res.LatenciesNs = append(res.LatenciesNs, w.latencies...)
	}
	slices.Sort(res.LatenciesNs)
	res.Requests = int64(len(res.LatenciesNs))
	res.Records = res.Requests * int64(*batch)
	return json.NewEncoder(os.Stdout).Encode(res)
}

// connect makes the stream, three copies in files, and the connections, to the
// server that leads it: the shortest road there is, as for Highwater.
func connect(servers string, conns int, stream string) (workers []*worker, err error) {
	urls := map[string]string{}
	var first string
	for pair := range strings.SplitSeq(servers, ",") {
		name, url, _ := strings.Cut(pair, "=")
		urls[name] = url
		first = url
	}
	w, err := dial(first)
	if err != nil {
		return nil, err
	}
	defer w.conn.Close()
	leader, err := w.stream(stream)
	if err != nil {
		return nil, err
	}
	for range conns {
		if w, err = dial(urls[leader]); err != nil {
			return nil, err
		}
		workers = append(workers, w)
	}
	return workers, nil
}

func dial(url string) (w *worker, err error) {
	w = &worker{}
	if w.conn, err = nats.Connect(url, nats.Timeout(10*time.Second)); err != nil {
		return nil, err
	}
	w.js, err = jetstream.New(w.conn)
	return w, err
}

// stream makes the stream, if it isn't there, and tells which server leads it.
func (w *worker) stream(name string) (leader string, err error) {
	deadline := time.Now().Add(time.Minute)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		s, err := w.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{name}, Replicas: replicas, Storage: jetstream.FileStorage})
		cancel()
		if err == nil && s.CachedInfo().Cluster != nil && s.CachedInfo().Cluster.Leader != "" {
			return s.CachedInfo().Cluster.Leader, nil
		}
		if time.Now().After(deadline) {
			return "", errors.Join(errors.New("the stream has no leader"), err)
		}
		time.Sleep(200 * time.Millisecond) // the servers are still electing one
	}
}

// publish sends a batch and waits for all of its acknowledgements.
func (w *worker) publish(subject string, payload []byte, batch int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if batch == 1 {
		_, err := w.js.Publish(ctx, subject, payload)
		return err
	}
	acks := make([]jetstream.PubAckFuture, 0, batch)
	for range batch {
		ack, err := w.js.PublishAsync(subject, payload)
		if err != nil {
			return err
		}
		acks = append(acks, ack)
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return err
		case <-ctx.Done():
			return errors.New("no acknowledgement")
		}
	}
	return nil
}
