package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// load is a set of producers that know every broker of a cluster, as clients do:
// one whose broker takes no connection goes on at the next. Each sends one request
// at a time, to partitions in turn, and books every record.
type load struct {
	c      *cluster
	ledger *ledger
	topic  string
	parts  int
	acks   string
	via    func() []*node // the brokers that a producer tries

	writers int
	seqs    []atomic.Int64
	stop    context.CancelFunc
	wg      sync.WaitGroup

	mu       sync.Mutex  // guards the fields below
	last     []time.Time // by partition: the last success
	gap      []time.Duration
	failures []string // answers that weren't a success, and requests that were cut
	answered int
}

// startLoad begins to produce; end stops it.
func startLoad(c *cluster, topic string, parts, writers int, acks string, via func() []*node) *load {
	if via == nil {
		via = func() []*node { return c.nodes }
	}
	l := &load{c: c, ledger: newLedger(), topic: topic, parts: parts, acks: acks, via: via, writers: writers, seqs: make([]atomic.Int64, writers),
		last: make([]time.Time, parts), gap: make([]time.Duration, parts)}
	l.ledger.unordered = true
	l.resume()
	return l
}

// resume begins anew with the same ledger.
func (l *load) resume() {
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.mu.Lock()
	for p := range l.last {
		l.last[p] = time.Time{}
	}
	l.mu.Unlock()
	for w := range l.writers {
		rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(w)))
		l.wg.Go(func() {
			for at := w; ctx.Err() == nil; {
				nodes := l.via()
				if !l.send(ctx, l.c.client(nodes[at%len(nodes)]), w, rnd) {
					at++
				}
			}
		})
	}
}

// end stops the producers behind their present request.
func (l *load) end() {
	l.stop()
	l.wg.Wait()
}

// send makes one request. It is false when the broker took no connection.
func (l *load) send(ctx context.Context, c *client, w int, rnd *rand.Rand) bool {
	entries := make([]*entry, 1+rnd.IntN(3))
	partition := rnd.IntN(l.parts)
	var body strings.Builder
	for i := range entries {
		e := &entry{writer: w, seq: l.seqs[w].Add(1), topic: l.topic, partition: partition}
		e.value = fmt.Sprintf(`{"writer":%d,"seq":%d,"pad":"%s"}`, w, e.seq, strings.Repeat("x", rnd.IntN(200)))
		entries[i] = e
		fmt.Fprintf(&body, "{\"value\":%s}\n", e.value)
	}
	l.ledger.book(entries)
	path := fmt.Sprintf("/topics/%s/partitions/%d?response=full&acks=%s", l.topic, partition, l.acks)
	limit, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	status, answer, err := c.do(limit, "POST", path, "application/x-ndjson", []byte(body.String()))
	if bad := l.ledger.settle(entries, status, answer, err); bad != nil {
		l.fail(fmt.Sprintf("POST %s%s: %v", c.base, path, bad))
		return true
	}
	if err != nil && neverSent(err) {
		select { // another broker may be about to come up
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
		return false
	}
	if err != nil || status >= 300 {
		l.fail(fmt.Sprintf("POST %s%s: %d %v %s", c.base, path, status, err, answer))
		return err == nil
	}
	l.succeed(partition)
	return true
}

func (l *load) succeed(partition int) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered++
	if last := l.last[partition]; !last.IsZero() {
		l.gap[partition] = max(l.gap[partition], now.Sub(last))
	}
	l.last[partition] = now
}

func (l *load) fail(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures = append(l.failures, fmt.Sprintf("%s %s", time.Now().Format("15:04:05.000"), what))
}

// await returns after n further successes in each of the given partitions; none
// given: in all together.
func (l *load) await(n int, partitions ...int) {
	l.c.t.Helper()
	if len(partitions) == 0 {
		l.mu.Lock()
		target := l.answered + n
		l.mu.Unlock()
		until(l.c.t, fmt.Sprintf("%d further answers", n), func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.answered >= target
		})
		return
	}
	for _, p := range partitions {
		for range n {
			l.mu.Lock()
			before := l.last[p]
			l.mu.Unlock()
			until(l.c.t, fmt.Sprintf("an answer of partition %d", p), func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				return l.last[p].After(before)
			})
		}
	}
}

// longestGap is the longest time without a success in a partition since the last call.
func (l *load) longestGap() (longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p, gap := range l.gap {
		longest = max(longest, gap)
		l.gap[p] = 0
	}
	return longest
}

// noFailures fails the test for every answer that wasn't a success.
func (l *load) noFailures() {
	l.c.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, f := range l.failures {
		if i < 5 {
			l.c.t.Error(f)
		}
	}
	if n := len(l.failures); n > 5 {
		l.c.t.Errorf("%d requests failed", n)
	}
}

// verify reads all partitions through each running broker: every record that was
// acknowledged is there once, where its answer said, and nothing is there that an
// answer called not written.
func (l *load) verify() {
	l.c.t.Helper()
	for _, m := range l.c.running() {
		client := l.c.client(m)
		for p := range l.parts {
			last := map[int]int64{}
			client.read(l.c.t, l.topic, p, 0, func(r *stored) { l.ledger.see(l.c.t, l.topic, r, last) })
		}
		acked := l.ledger.missing(l.c.t)
		l.c.t.Logf("through broker %d: %d acknowledged records, %d answers that were no success", m.id, acked, len(l.failures))
	}
}

// tail follows a partition through one broker and checks that offsets have neither
// gap nor repeat.
type tail struct {
	next  atomic.Int64
	ended chan error
	stop  context.CancelFunc
}

// startTail opens a tail from the partition's start.
func startTail(t *testing.T, c *client, topic string, partition int) *tail {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	tl := &tail{ended: make(chan error, 1), stop: stop}
	go func() { tl.ended <- tl.follow(ctx, c, topic, partition) }()
	t.Cleanup(stop)
	return tl
}

func (tl *tail) follow(ctx context.Context, c *client, topic string, partition int) error {
	req, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("%s/topics/%s/partitions/%d/records?follow=true", c.base, topic, partition), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/x-ndjson")
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != 200 {
		return fmt.Errorf("the tail is answered with %s", res.Status)
	}
	lines := bufio.NewReader(res.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue // a sign of life
		}
		var r struct {
			Offset *int64 `json:"offset"`
		}
		if err := json.Unmarshal(line, &r); err != nil || r.Offset == nil {
			return fmt.Errorf("the tail prints %q", line)
		}
		if *r.Offset != tl.next.Load() {
			return fmt.Errorf("the tail has offset %d where %d is due", *r.Offset, tl.next.Load())
		}
		tl.next.Add(1)
	}
}

// reach waits until the tail has shown everything below offset end.
func (tl *tail) reach(t *testing.T, end int64) {
	t.Helper()
	until(t, fmt.Sprintf("the tail shows everything below %d", end), func() bool {
		select {
		case err := <-tl.ended:
			t.Fatalf("the tail ended at offset %d: %v", tl.next.Load(), err)
		default:
		}
		return tl.next.Load() >= end
	})
}
