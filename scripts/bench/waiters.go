package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// measuredWaiters wait for each append of P12's second half.
	measuredWaiters = 100
	// appendGap lies between two appends: far more than one takes to arrive.
	appendGap = 10 * time.Millisecond
	// longPollMs is the longest wait the contract allows.
	longPollMs = 60_000
	markBytes  = 16
)

// waiterKind is one of the two ways to wait for a record.
type waiterKind struct {
	name   string
	stream bool // stays open after a record
	wait   func(topic string, offset int64) []byte
}

func waiterKinds() []waiterKind {
	return []waiterKind{
		{"SSE tail", true, func(topic string, offset int64) []byte {
			return get(fmt.Sprintf("/topics/%s/partitions/0/records?offset=%d", topic, offset), "text/event-stream")
		}},
		{"long-poll", false, func(topic string, offset int64) []byte {
			return get(fmt.Sprintf("/topics/%s/partitions/0/records?offset=%d&timeout=%d", topic, offset, longPollMs), "application/json")
		}},
	}
}

// measureWaiters fills P12: what an idle waiter holds, and how fast a record
// gets to those who wait.
func (b *bench) measureWaiters() error {
	for i, kind := range waiterKinds() {
		if i > 0 { // memory is counted from a fresh broker's
			if err := errors.Join(b.stopBroker(), b.startBroker()); err != nil {
				return err
			}
		}
		topic := fmt.Sprintf("waiters%d", i)
		if _, err := b.createTopic(topic, 1); err != nil {
			return err
		}
		perWaiter, err := b.idleWaiters(topic, kind)
		if err != nil {
			return fmt.Errorf("%d idle: %w", b.waiters, err)
		}
		b.report.add(row{id: "P12", work: fmt.Sprintf("%d idle %ss: RSS each", b.waiters, kind.name), target: 24 << 10, stretch: 18 << 10, unit: kibibytes,
			rounds: []float64{perWaiter}})
		if err := b.delivery(topic, kind); err != nil {
			return fmt.Errorf("delivery: %w", err)
		}
	}
	return nil
}

// idleWaiters opens b.waiters of a kind, counts their memory, and then has one
// record reach every one of them: proof that they all waited.
func (b *bench) idleWaiters(topic string, kind waiterKind) (perWaiter float64, err error) {
	pid := b.broker.pid()
	if err := waitIdle(pid); err != nil {
		return 0, err
	}
	before, err := rssBytes(pid)
	if err != nil {
		return 0, err
	}
	c, err := dial(b.broker.addr, b.waiters)
	if err != nil {
		return 0, err
	}
	defer c.close()
	for _, cn := range c.conns {
		if err := c.send(cn, kind.wait(topic, 0)); err != nil {
			return 0, err
		}
	}
	if err := waitIdle(pid); err != nil {
		return 0, err
	}
	after, err := rssBytes(pid)
	if err != nil {
		return 0, err
	}
	if err := b.reachAll(c, topic); err != nil {
		return 0, err
	}
	return float64(after-before) / float64(b.waiters), nil
}

func (b *bench) reachAll(c *client, topic string) error {
	w := newWorkload()
	mark := fmt.Sprintf("mark-%0*d", markBytes-5, 1)
	body := append(w.value([]byte(`{"records":[{"value":`), mark), `}]}`...)
	if _, _, err := b.call(http.MethodPost, "/topics/"+topic+"?acks=1", body); err != nil {
		return err
	}
	seen := newMarks(len(c.conns))
	for missing := len(c.conns); missing > 0; {
		_, quiet, err := c.poll(stallLimit, func(cn *conn, data []byte) error {
			if _, err := cn.answer.feed(data); err != nil {
				return err
			}
			if err := cn.expect(http.StatusOK); err != nil {
				return err
			}
			if seen.find(cn.index, data, mark) {
				missing--
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%d waiters without the record: %w", missing, err)
		}
		if quiet {
			return fmt.Errorf("%d waiters without the record: %w", missing, errStalled)
		}
	}
	return nil
}

// marks looks for a record's mark in what connections bring, also when it is cut
// between two reads. Each mark counts once a connection.
type marks struct {
	tails [][]byte
	seen  []string
}

func newMarks(conns int) *marks { return &marks{make([][]byte, conns), make([]string, conns)} }

func (m *marks) find(conn int, data []byte, mark string) bool {
	if m.seen[conn] == mark {
		return false
	}
	joined := append(m.tails[conn], data...)
	if bytes.Contains(joined, []byte(mark)) {
		m.seen[conn], m.tails[conn] = mark, joined[:0]
		return true
	}
	m.tails[conn] = append(joined[:0], joined[max(0, len(joined)-len(mark)):]...)
	return false
}

// delivery measures how long a record takes from the moment its produce request
// is sent (acks=-1, so it includes the fsync that makes it visible) until each of
// measuredWaiters waiting consumers has it.
func (b *bench) delivery(topic string, kind waiterKind) error {
	run := deliveryRun{bench: b, kind: kind, topic: topic, waiters: measuredWaiters}
	var p50, p99, own []float64
	var all, acked latencies
	for range b.rounds {
		if err := settle(b.dir); err != nil {
			return err
		}
		arrived, ack, err := run.round()
		if err != nil {
			return err
		}
		p50 = append(p50, arrived.quantile(0.5).Seconds())
		p99 = append(p99, arrived.quantile(0.99).Seconds())
		own = append(own, (arrived.quantile(0.99) - ack.quantile(0.99)).Seconds())
		all = append(all, arrived...)
		acked = append(acked, ack...)
	}
	b.report.note("P12, %s: p50 / p99 / p99.9 ms until a waiting consumer has the record %s, until the producer has its answer %s", kind.name, quantiles(all), quantiles(acked))
	b.report.add(row{id: "P12", work: fmt.Sprintf("append sent → each of %d waiting %ss has it: p99", measuredWaiters, kind.name), target: 0.005, stretch: 0.002, unit: milliseconds, rounds: p99})
	b.report.add(row{id: "P12", work: "the same: p50", unit: milliseconds, rounds: p50})
	b.report.add(row{id: "P12", work: "the same: p99 beyond the p99 of the append's own answer (acks=-1)", unit: milliseconds, rounds: own})
	return nil
}

// deliveryRun is a set of waiters and one producer on one thread.
type deliveryRun struct {
	*bench
	kind    waiterKind
	topic   string
	waiters int
	serial  int
}

// round opens the waiters at the log's end and appends b.appends records, each
// after the one before has reached everybody.
func (r *deliveryRun) round() (arrived, acked latencies, err error) {
	end, err := r.endOffset(r.topic)
	if err != nil {
		return nil, nil, err
	}
	c, err := dial(r.broker.addr, r.waiters+1)
	if err != nil {
		return nil, nil, err
	}
	defer c.close()
	producer := c.conns[r.waiters]
	for _, cn := range c.conns[:r.waiters] {
		if err := c.send(cn, r.kind.wait(r.topic, end)); err != nil {
			return nil, nil, err
		}
	}
	seen, w := newMarks(r.waiters), newWorkload()
	for range r.appends {
		time.Sleep(appendGap) // lets every waiter settle again
		r.serial++
		mark := fmt.Sprintf("mark-%0*d", markBytes-5, r.serial+1)
		body := append(w.value([]byte(`{"records":[{"value":`), mark), `}]}`...)
		end++
		sent := c.now()
		if err := c.send(producer, post("/topics/"+r.topic+"?acks=-1", "application/json", body)); err != nil {
			return nil, nil, err
		}
		onData := func(cn *conn, data []byte) error {
			done, err := cn.answer.feed(data)
			if err != nil {
				return err
			}
			if err := cn.expect(http.StatusOK); err != nil {
				return err
			}
			if cn == producer {
				if done {
					acked.add(c.now() - sent)
				}
				return nil
			}
			if seen.find(cn.index, data, mark) {
				arrived.add(c.now() - sent)
			}
			if done {
				return c.send(cn, r.kind.wait(r.topic, end))
			}
			return nil
		}
		want := len(arrived) + r.waiters
		for ackedBefore := len(acked); len(arrived) < want || len(acked) == ackedBefore; {
			if _, quiet, err := c.poll(stallLimit, onData); err != nil {
				return nil, nil, err
			} else if quiet {
				return nil, nil, errStalled
			}
		}
	}
	return arrived, acked, nil
}
