package main

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Bounds of what waits for whoever takes the log: some seconds of a busy broker's.
const (
	maxQueuedLines = 4096
	maxQueuedBytes = 4 << 20
)

// logQueue stands between the broker and its log. A write to the log may take for ever
// (a pipe that nobody reads, a disk that stands still) or fail (a reader that is gone);
// requests must not wait for it. What is too much to be kept is dropped, counted and told
// of in the log.
//
// zerolog's own diode isn't it: it polls or misses wake-ups, and tells of trouble on the
// very stderr that may be stuck.
type logQueue struct {
	out     io.Writer
	lines   chan []byte
	bytes   atomic.Int64 // in lines
	dropped atomic.Int64 // lines so far
	closing chan struct{}
	done    chan struct{} // closed when nothing is written any more
}

func newLogQueue(out io.Writer) *logQueue {
	q := &logQueue{out: out, lines: make(chan []byte, maxQueuedLines), closing: make(chan struct{}), done: make(chan struct{})}
	go q.run()
	return q
}

// Write takes a line. It never waits and never fails.
func (q *logQueue) Write(line []byte) (int, error) {
	size := int64(len(line))
	if q.bytes.Add(size) > maxQueuedBytes {
		q.bytes.Add(-size)
		q.dropped.Add(1)
		return len(line), nil
	}
	select {
	case q.lines <- append([]byte(nil), line...): // the logger uses line again
	default:
		q.bytes.Add(-size)
		q.dropped.Add(1)
	}
	return len(line), nil
}

// run writes what is queued until close.
func (q *logQueue) run() {
	defer close(q.done)
	var told int64 // of dropped
	for {
		select {
		case line := <-q.lines:
			q.put(line)
		case <-q.closing:
			for len(q.lines) > 0 {
				q.put(<-q.lines)
			}
			q.tell(&told)
			return
		}
		if len(q.lines) == 0 {
			q.tell(&told)
		}
	}
}

func (q *logQueue) put(line []byte) {
	_, _ = q.out.Write(line) // there is nowhere else to say it
	q.bytes.Add(-int64(len(line)))
}

// tell says how many lines are missing since it was said last.
func (q *logQueue) tell(told *int64) {
	if n := q.dropped.Load(); n > *told {
		l := zerolog.New(q.out).Hook(stamp{})
		l.Warn().Int64("lines", n-*told).Msg("lines of this log were dropped: it wasn't taken as fast as it was written")
		*told = n
	}
}

// collector counts what was dropped.
func (q *logQueue) collector() prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "highwater_log_lines_dropped_total",
		Help: "Lines of this broker's own log that were dropped because nobody took them in time."}, func() float64 { return float64(q.dropped.Load()) })
}

// close writes what is queued, for as long as limit.
func (q *logQueue) close(limit time.Duration) {
	close(q.closing)
	select {
	case <-q.done:
	case <-time.After(limit):
	}
}
