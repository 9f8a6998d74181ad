package main

import (
	"net/netip"
	"time"
)

// load is what one side of a comparison is asked for.
type load struct {
	addr    netip.AddrPort
	conns   int
	request func(i int) []byte // the i-th request, prebuilt; must be cheap
	status  int                // the only right answer
	warm    time.Duration      // runs before the clock, unmeasured
	measure time.Duration
	pids    []int // of the servers, whose CPU time is counted
}

// sample is what came of it.
type sample struct {
	requests int64
	bytes    int64 // of answer bodies
	elapsed  time.Duration
	cpu      time.Duration // of the server, user and system
	own      time.Duration // the same of this process, the load generator
	latency  latencies
}

func (s *sample) perSecond() float64 { return float64(s.requests) / s.elapsed.Seconds() }

func (s *sample) bytesPerSecond() float64 { return float64(s.bytes) / s.elapsed.Seconds() }

// closedLoop keeps every connection busy: a new request goes out as soon as the
// last one is answered. It gives throughput; its latencies hide queueing.
func (l load) closedLoop() (sample, error) {
	c, err := dial(l.addr, l.conns)
	if err != nil {
		return sample{}, err
	}
	defer c.close()
	run := closedRun{load: l, client: c}
	for _, cn := range c.conns {
		if err := run.next(cn); err != nil {
			return sample{}, err
		}
	}
	for run.open > 0 {
		_, quiet, err := c.poll(stallLimit, run.onData)
		if err != nil {
			return sample{}, err
		}
		if quiet {
			return sample{}, errStalled
		}
	}
	return run.sample, nil
}

// closedRun is one closed loop under way.
type closedRun struct {
	load
	*client
	sample
	sent     int
	open     int // requests on their way
	counting bool
	ended    bool
	from     time.Duration // the measured span began
	cpuFrom  time.Duration
	ownFrom  time.Duration
}

func (r *closedRun) next(cn *conn) error {
	cn.sentAt = r.now()
	r.open++
	r.sent++
	return r.send(cn, r.request(r.sent-1))
}

func (r *closedRun) onData(cn *conn, data []byte) error {
	done, err := cn.answer.feed(data)
	if err != nil || !done {
		return err
	}
	if err := cn.expect(r.status); err != nil {
		return err
	}
	r.open--
	if err := r.note(cn); err != nil || r.ended {
		return err
	}
	return r.next(cn)
}

// note counts an answer and moves from warm-up to measuring to the end.
func (r *closedRun) note(cn *conn) (err error) {
	now := r.now()
	switch {
	case r.ended:
	case !r.counting:
		if now >= r.warm {
			r.counting, r.from = true, now
			r.ownFrom = ownCPU()
			r.cpuFrom, err = cpuTimes(r.pids)
		}
	default:
		r.requests++
		r.bytes += cn.answer.body
		r.latency.add(now - cn.sentAt)
		if now-r.from >= r.measure {
			r.ended, r.elapsed = true, now-r.from
			r.cpu, err = cpuTimes(r.pids)
			r.cpu -= r.cpuFrom
			r.own = ownCPU() - r.ownFrom
		}
	}
	return err
}

// openLoop sends at a fixed rate whatever the server does. A request's latency
// counts from the moment when it was due, also when no connection was free then:
// a server that stalls is charged for all that should have been sent meanwhile
// (no coordinated omission).
func (l load) openLoop(perSecond int) (sample, error) {
	c, err := dial(l.addr, l.conns)
	if err != nil {
		return sample{}, err
	}
	defer c.close()
	run := openRun{load: l, client: c, gap: time.Second / time.Duration(perSecond), idle: append([]*conn(nil), c.conns...)}
	run.first = c.now()
	run.total = int((l.warm + l.measure) / run.gap)
	cpuFrom, err := cpuTimes(l.pids)
	if err != nil {
		return sample{}, err
	}
	for run.sent < run.total || len(run.idle) < len(c.conns) {
		if err := run.sendDue(); err != nil {
			return sample{}, err
		}
		if _, quiet, err := c.poll(stallLimit, run.onData); err != nil {
			return sample{}, err
		} else if quiet {
			return sample{}, errStalled
		}
	}
	run.elapsed = c.now() - run.first
	cpuTo, err := cpuTimes(l.pids)
	run.cpu = cpuTo - cpuFrom
	return run.sample, err
}

// openRun is one open loop under way.
type openRun struct {
	load
	*client
	sample
	gap         time.Duration // between two due times
	first       time.Duration // the first due time
	sent, total int
	idle        []*conn // connections without a request, used like a stack
}

func (r *openRun) due(i int) time.Duration { return r.first + time.Duration(i)*r.gap }

// sendDue sends all that is due and sets the timer for what comes next. When no
// connection is free the next answer brings it back here.
func (r *openRun) sendDue() error {
	for r.sent < r.total && len(r.idle) > 0 {
		due := r.due(r.sent)
		if r.now() < due {
			return r.tickAt(due)
		}
		cn := r.idle[len(r.idle)-1]
		r.idle = r.idle[:len(r.idle)-1]
		cn.sentAt = due
		r.sent++
		if err := r.send(cn, r.request(r.sent-1)); err != nil {
			return err
		}
	}
	return nil
}

func (r *openRun) onData(cn *conn, data []byte) error {
	done, err := cn.answer.feed(data)
	if err != nil || !done {
		return err
	}
	if err := cn.expect(r.status); err != nil {
		return err
	}
	r.idle = append(r.idle, cn)
	if cn.sentAt-r.first >= r.warm {
		r.requests++
		r.bytes += cn.answer.body
		r.latency.add(r.now() - cn.sentAt)
	}
	return nil
}
