package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// measureReplicated fills P6 and P7: three brokers that all fsync, against three
// JetStream servers that do, and that don't.
func (b *bench) measureReplicated(c *brokers) error {
	leader, err := c.topic("replicated", 1)
	if err != nil {
		return err
	}
	synced, err := b.startJetstream("always", "on disk (sync_interval: always) at a majority of three servers")
	if err != nil {
		return err
	}
	defer func() { _ = synced.stop() }()
	lazy, err := b.startJetstream("default", "in the page cache of a majority of three servers; fsync every two minutes")
	if err != nil {
		return err
	}
	defer func() { _ = lazy.stop() }()
	target := "/topics/replicated?acks=-1"
	s, err := b.interleave(
		c.produceSide("three brokers, acks=-1, one record", leader, connections, 1, target),
		synced.side("JetStream R3, sync always, one message", connections, 1),
		lazy.side("JetStream R3, default sync, one message", connections, 1),
		c.produceSide("three brokers, acks=-1, batches of 100", leader, connections, batchRecords, target),
		synced.side("JetStream R3, sync always, async x100", connections, batchRecords),
		lazy.side("JetStream R3, default sync, async x100", connections, batchRecords))
	if err != nil {
		return err
	}
	rate := func(i int) []float64 { return each(s[i], (*sample).perSecond) }
	b.report.add(row{id: "P6", work: "three brokers, acks=-1 (all three fsync), one record: requests/s against JetStream R3 with `sync_interval: always`", target: 1, stretch: 1.5, unit: times, atLeast: true,
		rounds: perRound(rate(0), rate(1))})
	b.report.add(row{id: "P6", work: "the same against JetStream R3 by default, which doesn't fsync", target: 1, stretch: 1.5, unit: times, atLeast: true,
		rounds: perRound(rate(0), rate(2))})
	b.report.add(row{id: "P7", work: "three brokers, acks=-1, batches of 100: records/s against JetStream R3 async x100, `sync_interval: always`", target: 2, stretch: 3, unit: times, atLeast: true,
		rounds: perRound(rate(3), rate(4))})
	b.report.add(row{id: "P7", work: "the same against JetStream R3 by default, which doesn't fsync", target: 2, stretch: 3, unit: times, atLeast: true,
		rounds: perRound(rate(3), rate(5))})
	return nil
}

// measureReplicatedLone fills P8: what a lone producer waits for when three disks
// have to have its record.
func (b *bench) measureReplicatedLone(c *brokers) error {
	leader, err := c.topic("lone", 1)
	if err != nil {
		return err
	}
	s, err := b.interleave(b.rawSide(), c.produceSide("three brokers, acks=-1, one record, one connection", leader, 1, 1, "/topics/lone?acks=-1"))
	if err != nil {
		return err
	}
	b.report.add(row{id: "P8", work: "three brokers, acks=-1, one connection: p50 against one raw write+fdatasync", target: 2.5, stretch: 1.6, unit: times,
		rounds: perRound(each(s[1], medianLatency), each(s[0], medianLatency))})
	return nil
}

// measureCatchUp fills P14: a follower that was away gets what it missed, while
// producers go on.
func (b *bench) measureCatchUp(c *brokers) error {
	leader, err := c.topic("missed", 1)
	if err != nil {
		return err
	}
	follower := (leader + 1) % clusterBrokers
	var shares, after, growth []float64
	for range b.catchUps {
		if err := settle(b.dir); err != nil {
			return err
		}
		disk, err := appendRate(b.dir, b.catchUpBytes)
		if err != nil {
			return err
		}
		calm, err := c.trickle(leader)()
		if err != nil {
			return err
		}
		if err := c.killNode(follower); err != nil {
			return err
		}
		missed, err := c.fill(leader, "missed", b.catchUpBytes)
		if err != nil {
			return err
		}
		// Until the dead follower has left the ISR, producers wait for that alone.
		if err := c.await("the follower has left the ISR", startLimit, func() (bool, error) {
			views, err := c.partitions(leader, "missed")
			return err == nil && len(views[0].ISR) == clusterBrokers-1, err
		}); err != nil {
			return err
		}
		trickle := c.trickle(leader) // before the brokers change
		busy := make(chan sample, 1)
		failed := make(chan error, 2)
		go func() {
			s, err := trickle()
			busy <- s
			failed <- err
		}()
		go func() { failed <- c.startNode(follower) }()
		took, err := c.catchUp(leader, follower)
		if err != nil {
			return err
		}
		under := <-busy
		if err := errors.Join(<-failed, <-failed); err != nil {
			return err
		}
		// A disk may be far slower once it was written to for a second.
		busyDisk, err := appendRate(b.dir, b.catchUpBytes)
		if err != nil {
			return err
		}
		shares = append(shares, float64(missed)/took.Seconds()/disk)
		after = append(after, float64(missed)/took.Seconds()/busyDisk)
		growth = append(growth, under.latency.quantile(0.99).Seconds()/calm.latency.quantile(0.99).Seconds())
		b.report.note("P14: a follower got %s in %.2f s; the disk appends %.0f MB/s before the outage, %.0f MB/s right after; produce p99 %s ms before, %s ms meanwhile", sizeText(missed), took.Seconds(), disk/1e6,
			busyDisk/1e6, millis(calm.latency.quantile(0.99)), millis(under.latency.quantile(0.99)))
	}
	b.report.add(row{id: "P14", work: fmt.Sprintf("follower catch-up of %s after an outage, producers going on: bytes/s against the disk's sequential append", sizeText(b.catchUpBytes)),
		target: 0.6, stretch: 0.8, unit: percent, atLeast: true, rounds: shares})
	b.report.add(row{id: "P14", work: "the same against the disk's sequential append right after", unit: percent, rounds: after})
	b.report.add(row{id: "P14", work: "the same: produce (acks=-1, open loop) p99 meanwhile against before", target: 2, stretch: 1.3, unit: times, rounds: growth})
	return nil
}

// catchUp measures the time from a follower's first new record to the one that
// ended the leader's log when it began, or a later one.
func (c *brokers) catchUp(leader, follower int) (time.Duration, error) {
	end := func(node int) (int64, error) {
		var replicas []struct {
			Topic string `json:"topic"`
			End   int64  `json:"durable_end"`
		}
		err := askJSON(c.b.ctx, "http://"+c.addrs[node].String()+"/internal/v1/debug/partitions", &replicas)
		for _, r := range replicas {
			if r.Topic == "missed" {
				return r.End, err
			}
		}
		return -1, errors.Join(err, errors.New("it has no such replica"))
	}
	target, err := end(leader)
	if err != nil {
		return 0, err
	}
	first := int64(-1)
	var begun time.Time
	err = c.await("the follower has caught up", startLimit, func() (bool, error) {
		at, err := end(follower)
		switch {
		case err != nil:
			return false, err
		case first < 0:
			first, begun = at, time.Now()
		case at == first:
			begun = time.Now()
		}
		return at >= target, nil
	})
	return time.Since(begun), err
}

// trickle is a steady load at acks=-1, an open loop.
func (c *brokers) trickle(leader int) func() (sample, error) {
	l := load{addr: c.addrs[leader], conns: connections, request: produceRequests("/topics/missed?acks=-1", 1), status: http.StatusOK,
		warm: c.b.warm, measure: c.b.measure, pids: c.pids()}
	return func() (sample, error) { return l.openLoop(max(c.b.rate/10, 20)) }
}

// fill produces about that many bytes to a topic, and tells how many were sent.
func (c *brokers) fill(leader int, topic string, size int64) (sent int64, err error) {
	body := newWorkload().batch(5000)
	b := c.b.broker
	defer func() { c.b.broker = b }()
	c.b.broker = c.nodes[leader]
	for sent < size {
		if _, _, err := c.b.call(http.MethodPost, "/topics/"+topic+"?acks=1&response=summary", body); err != nil {
			return sent, err
		}
		sent += int64(len(body))
	}
	return sent, nil
}

// appendRate is how fast a file grows: 1 MiB at a time, on disk at the end of each
// 16th, in bytes a second.
func appendRate(dir string, size int64) (rate float64, err error) {
	f, err := os.OpenFile(filepath.Join(dir, "append"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i * 7)
	}
	begun := time.Now()
	for done := int64(0); done < size; done += int64(len(block)) {
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if done>>20%16 == 15 {
			if err := unix.Fdatasync(int(f.Fd())); err != nil {
				return 0, err
			}
		}
	}
	if err := unix.Fdatasync(int(f.Fd())); err != nil {
		return 0, err
	}
	return float64(size) / time.Since(begun).Seconds(), nil
}

// measureFailover fills P15 and P16 on a cluster of many partitions: what it costs
// when nothing happens, and how long partitions are without a leader when one
// that leads a thousand dies.
func (b *bench) measureFailover(c *brokers) error {
	const topic = "many"
	total := b.failoverPartitions * clusterBrokers // leaders are spread evenly
	if _, err := c.topic(topic, total); err != nil {
		return err
	}
	var shares []float64
	time.Sleep(2 * time.Second) // the last fetches of the creation
	for range b.rounds {
		before := make([]time.Duration, clusterBrokers)
		for i, p := range c.nodes {
			t, err := cpuTime(p.pid())
			if err != nil {
				return err
			}
			before[i] = t
		}
		time.Sleep(b.measure)
		worst := 0.0
		for i, p := range c.nodes {
			t, err := cpuTime(p.pid())
			if err != nil {
				return err
			}
			worst = max(worst, (t-before[i]).Seconds()/b.measure.Seconds())
		}
		shares = append(shares, worst)
	}
	b.report.add(row{id: "P16", work: fmt.Sprintf("idle cluster of three with %d partitions of three copies: CPU of the busiest broker, of one core", total), target: 0.03, stretch: 0.01, unit: percent, rounds: shares})
	victim := 1
	leads := func(v partitionView) bool { return v.Leader == victim+1 }
	views, err := c.partitions(0, topic)
	if err != nil {
		return err
	}
	led := 0
	for _, v := range views {
		if leads(v) {
			led++
		}
	}
	if err := c.killNode(victim); err != nil {
		return err
	}
	begun := time.Now()
	if err := c.await("every partition has another leader", startLimit, func() (bool, error) {
		views, err := c.partitions(0, topic)
		return err == nil && !slices.ContainsFunc(views, func(v partitionView) bool { return v.Leader < 1 || leads(v) }), err
	}); err != nil {
		return err
	}
	beyond := time.Since(begun) - defaultSession
	b.report.add(row{id: "P15", work: fmt.Sprintf("kill -9 of the leader of %d partitions: until all lead again, beyond the broker session timeout (%s)", led, defaultSession),
		target: 2, stretch: 0.5, unit: milliseconds, rounds: []float64{beyond.Seconds()}})
	return nil
}

// defaultSession is --broker-session-timeout.
const defaultSession = 6 * time.Second
