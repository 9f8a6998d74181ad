package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"
)

const dialect = "application/vnd.kafka.v2+json"

// worker is a consumer that polls, processes and commits, each call by way of any
// broker that runs.
type worker struct {
	c    *cluster
	name string

	mu        sync.Mutex // guards what follows
	processed map[string]bool
	commits   int
}

// call asks a random broker until one answers, within a time.
func (w *worker) call(ctx context.Context, method, path, body string) (status int, answer []byte) {
	for ctx.Err() == nil {
		running := w.c.running()
		m := running[rand.IntN(len(running))]
		try, cancel := context.WithTimeout(ctx, 20*time.Second)
		status, answer, err := w.c.client(m).do(try, method, path, dialect, []byte(body), "Accept", "application/vnd.kafka.json.v2+json, application/problem+json")
		cancel()
		if err == nil && status < 500 {
			return status, answer
		}
	}
	return 0, nil
}

// work goes on until ctx ends.
func (w *worker) work(ctx context.Context) {
	for ctx.Err() == nil {
		status, answer := w.call(ctx, "GET", "/consumers/workers/records?topics=orders&timeout=1000&member="+w.name, "")
		var records []struct {
			Topic     string `json:"topic"`
			Partition int    `json:"partition"`
			Offset    int64  `json:"offset"`
		}
		if status != 200 || json.Unmarshal(answer, &records) != nil {
			continue // it polls already, by a broker that died: again
		}
		w.mu.Lock()
		for _, r := range records {
			w.processed[fmt.Sprintf("%d/%d", r.Partition, r.Offset)] = true
		}
		w.mu.Unlock()
		if len(records) == 0 {
			continue
		}
		if status, _ := w.call(ctx, "POST", "/consumers/workers/offsets?member="+w.name, ""); status == 204 {
			w.mu.Lock()
			w.commits++
			w.mu.Unlock()
		}
	}
}

// TestCluster_GroupsSurviveBrokers: workers of one group go on, through any broker,
// while brokers die, one of them their coordinator, and end in order; what they
// committed stays committed, and together they process all that was acknowledged.
// HIGHWATER_FAILOVERS sets how often.
func TestCluster_GroupsSurviveBrokers(t *testing.T) {
	c := newCluster(t, 3)
	c.topic("orders", 4, 3, "min.insync.replicas", "2")
	l := startLoad(c, "orders", 4, 2, "-1", nil)
	l.await(20)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var workers []*worker
	for i := range 2 {
		w := &worker{c: c, name: fmt.Sprintf("w%d", i), processed: map[string]bool{}}
		workers = append(workers, w)
		running.Go(func() { w.work(ctx) })
	}
	commits := func() (n int) {
		for _, w := range workers {
			w.mu.Lock()
			n += w.commits
			w.mu.Unlock()
		}
		return n
	}
	goOn := func() {
		t.Helper()
		from := commits()
		until(t, "the workers commit on", func() bool { return commits() >= from+4 })
	}
	goOn()
	for range number(t, "HIGHWATER_FAILOVERS", 2) {
		m := c.coordinator("workers")
		m.kill()
		goOn()
		c.start(m)
		c.waitInSync("orders", 3)
		m = c.coordinator("workers")
		m.signal(syscall.SIGTERM)
		if code := m.exit(); code != exitOK {
			t.Errorf("broker %d ended with %d", m.id, code)
		}
		goOn()
		c.start(m)
		c.waitInSync("orders", 3)
	}
	l.end()
	l.verify()
	until(t, "the group has processed all", func() bool { return c.lag("workers") == 0 })
	stop()
	running.Wait()
	processed := map[string]bool{}
	for _, w := range workers {
		maps.Copy(processed, w.processed)
	}
	for partition := range 4 {
		_, end := c.client(c.nodes[0]).end(t, "orders", partition)
		for offset := range end {
			if !processed[fmt.Sprintf("%d/%d", partition, offset)] {
				t.Errorf("nobody processed %d of %d, and the group has gone past it", offset, partition)
			}
		}
	}
	c.stopAll()
}

// coordinator is a group's, as soon as there is one that runs.
func (c *cluster) coordinator(group string) (m *node) {
	c.t.Helper()
	until(c.t, "group "+group+" has a coordinator", func() bool {
		var view struct {
			Coordinator int `json:"coordinator"`
		}
		ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
		defer cancel()
		status, body, err := c.client(c.running()[0]).do(ctx, "GET", "/consumers/"+group, "", nil)
		if err != nil || status != 200 || json.Unmarshal(body, &view) != nil {
			return false
		}
		m = c.nodes[view.Coordinator-1]
		return m.runs()
	})
	return m
}

// lag is what a group has left to process, -1 while nobody can tell.
func (c *cluster) lag(group string) (sum int64) {
	var views []struct {
		Lag int64 `json:"lag"`
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	status, body, err := c.client(c.running()[0]).do(ctx, "GET", "/consumers/"+group+"/offsets", "", nil)
	if err != nil || status != 200 || json.Unmarshal(body, &views) != nil {
		return -1
	}
	for _, v := range views {
		sum += v.Lag
	}
	return sum
}
