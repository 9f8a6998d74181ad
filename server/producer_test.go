package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fleet is a set of concurrent producers. Each keeps sending until its context
// ends or its broker is gone, and books every record in the ledger.
type fleet struct {
	t       *testing.T
	ledger  *ledger
	topics  []string
	parts   int            // partitions of each topic
	acks    []string       // writer i uses acks[i%len]
	seqs    []atomic.Int64 // last sequence number, by writer
	padding int            // bytes of filling in a value, at most

	answered chan struct{} // one token for each answered request, if anybody takes it
	wg       sync.WaitGroup
}

func newFleet(t *testing.T, writers int, topics []string, parts int, acks ...string) *fleet {
	return &fleet{t: t, ledger: newLedger(), topics: topics, parts: parts, acks: acks, seqs: make([]atomic.Int64, writers),
		padding: 600, answered: make(chan struct{}, 1)}
}

// launch starts the writers against the broker at base. wait returns when all
// of them have ended: at the first error of their connection, or with ctx.
func (f *fleet) launch(ctx context.Context, base string, round uint64) (wait func()) {
	for w := range f.seqs {
		c := newClient(f.t, base)
		rnd := rand.New(rand.NewPCG(round, uint64(w)))
		f.wg.Go(func() {
			for ctx.Err() == nil && f.send(c, w, rnd) {
			}
		})
	}
	return f.wg.Wait
}

// await returns after n answered requests of the running writers.
func (f *fleet) await(b *brokerProcess, n int) {
	f.t.Helper()
	for range n {
		select {
		case <-f.answered:
		case <-b.exited:
			f.t.Fatalf("the broker died by itself: %v\n%s", b.err, b.output())
		case <-time.After(patience):
			f.t.Fatalf("no answers\n%s", b.output())
		}
	}
}

// send makes one request, in one of the forms there are, and books it. It is
// false when the broker is gone.
func (f *fleet) send(c *client, w int, rnd *rand.Rand) bool {
	topic := f.topics[rnd.IntN(len(f.topics))]
	count := 1
	if rnd.IntN(2) == 0 {
		count += rnd.IntN(20)
	}
	entries := make([]*entry, count)
	onePartition := rnd.IntN(f.parts)
	form := rnd.IntN(4)
	for i := range entries {
		e := &entry{writer: w, seq: f.seqs[w].Add(1), topic: topic, partition: onePartition}
		if form == 0 {
			e.partition = rnd.IntN(f.parts)
		}
		e.value = fmt.Sprintf(`{"writer":%d,"seq":%d,"pad":"%s"}`, w, e.seq, strings.Repeat("x", rnd.IntN(f.padding)))
		entries[i] = e
	}
	path, contentType, body := f.request(form, entries)
	f.ledger.book(entries)
	path += "acks=" + f.acks[w%len(f.acks)]
	// The request's own context never ends it: what was sent is answered or cut by the broker.
	status, answer, err := c.do(context.Background(), "POST", path, contentType, []byte(body))
	if bad := f.ledger.settle(entries, status, answer, err); bad != nil {
		f.t.Errorf("POST %s: %v", path, bad)
		return false
	}
	if err != nil {
		return false
	}
	select {
	case f.answered <- struct{}{}:
	default:
	}
	return status < 500
}

func (f *fleet) request(form int, entries []*entry) (path, contentType, body string) {
	var b strings.Builder
	first := entries[0]
	switch {
	case form == 1 && len(entries) == 1: // the body is the value
		return fmt.Sprintf("/topics/%s/partitions/%d/records?", first.topic, first.partition), "application/json", first.value
	case form == 2: // NDJSON
		for _, e := range entries {
			fmt.Fprintf(&b, "{\"key\":\"w%d\",\"value\":%s}\n", e.writer, e.value)
		}
		return fmt.Sprintf("/topics/%s/partitions/%d?response=full&", first.topic, first.partition), "application/x-ndjson", b.String()
	default: // a batch; form 0 spreads it over the partitions
		b.WriteString(`{"records":[`)
		for i, e := range entries {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"key":"w%d","value":%s,"partition":%d}`, e.writer, e.value, e.partition)
		}
		b.WriteString(`]}`)
		return fmt.Sprintf("/topics/%s?", first.topic), "application/json", b.String()
	}
}

// verifier reads what is stored and holds it against the ledger, from where it
// stopped the last time.
type verifier struct {
	next map[string]int64         // by partition
	last map[string]map[int]int64 // by partition and writer
}

func newVerifier() *verifier {
	return &verifier{next: map[string]int64{}, last: map[string]map[int]int64{}}
}

func (v *verifier) check(t *testing.T, f *fleet, c *client) {
	t.Helper()
	for _, topic := range f.topics {
		for p := range f.parts {
			key := fmt.Sprintf("%s-%d", topic, p)
			if v.last[key] == nil {
				v.last[key] = map[int]int64{}
			}
			v.next[key] = c.read(t, topic, p, v.next[key], func(r *stored) { f.ledger.see(t, topic, r, v.last[key]) })
		}
	}
}
