package main

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Bounds of what waits for whoever takes the log.
const (
	maxQueuedLines = 4096
	maxQueuedBytes = 4 << 20
)

// stuckAfter is how long a line may take to be written before the log counts as stuck.
const stuckAfter = 100 * time.Millisecond

// tellEvery is how often a log that can't keep up is told what it lacks.
const tellEvery = time.Second

// logQueue stands between the broker and its log. A write to the log may take for ever
// (a pipe that nobody reads, a disk that stands still) or fail (a reader that is gone);
// requests must not wait for it. While all is well a line is written before its logger
// goes on, so that it is there if the process dies in the next moment. What is too much
// to be kept is dropped, counted and told of in the log.
//
// zerolog's own diode isn't it: it polls or misses wake-ups, and tells of trouble on the
// very stderr that may be stuck.
type logQueue struct {
	out     zerolog.Logger // for what the queue has to say itself
	w       io.Writer
	lines   chan logLine
	bytes   atomic.Int64 // in lines
	dropped atomic.Int64 // lines so far
	stuck   atomic.Bool  // nobody waits for lines to be written
	closing chan struct{}
	done    chan struct{} // closed when nothing is written any more

	told   int64     // of dropped; run's own
	toldAt time.Time // run's own
}

// logLine is one line on its way.
type logLine struct {
	text    []byte
	gap     int64 // dropped when it was taken
	written chan struct{}
}

func newLogQueue(w io.Writer, level zerolog.Level) *logQueue {
	q := &logQueue{out: zerolog.New(w).Level(level).Hook(stamp{}), w: w, lines: make(chan logLine, maxQueuedLines),
		closing: make(chan struct{}), done: make(chan struct{})}
	go q.run()
	return q
}

// Write takes a line. It never fails, and waits for it to be written no longer than
// stuckAfter, and not at all while the log is stuck.
func (q *logQueue) Write(text []byte) (int, error) {
	size := int64(len(text))
	line := logLine{text: append([]byte(nil), text...), gap: q.dropped.Load(), written: make(chan struct{})} // the logger uses text again
	if q.bytes.Add(size) > maxQueuedBytes || !q.take(line) {
		q.bytes.Add(-size)
		q.dropped.Add(1)
		return len(text), nil
	}
	if !q.stuck.Load() {
		timer := time.NewTimer(stuckAfter)
		defer timer.Stop()
		select {
		case <-line.written:
		case <-q.done:
		case <-timer.C:
			q.stuck.Store(true)
		}
	}
	return len(text), nil
}

func (q *logQueue) take(line logLine) bool {
	select {
	case q.lines <- line:
		return true
	default:
		return false
	}
}

// run writes what is queued until close.
func (q *logQueue) run() {
	defer close(q.done)
	for {
		select {
		case line := <-q.lines:
			q.put(line)
		case <-q.closing:
			for len(q.lines) > 0 {
				q.put(<-q.lines)
			}
			q.tell(q.dropped.Load())
			return
		}
		if len(q.lines) == 0 {
			q.tell(q.dropped.Load())
			q.stuck.Store(false)
		}
	}
}

func (q *logQueue) put(line logLine) {
	if time.Since(q.toldAt) > tellEvery {
		q.tell(line.gap)
	}
	_, _ = q.w.Write(line.text) // there is nowhere else to say it
	q.bytes.Add(-int64(len(line.text)))
	close(line.written)
}

// tell says how many lines are missing here since it was said last.
func (q *logQueue) tell(dropped int64) {
	if dropped > q.told {
		q.out.Warn().Int64("lines", dropped-q.told).Msg("lines of this log were dropped: it wasn't taken as fast as it was written")
		q.told, q.toldAt = dropped, time.Now()
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
