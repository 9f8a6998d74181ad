package handlers

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"highwater/replication"
	"highwater/replication/controller"
	"highwater/storage"
)

const (
	// defaultHeartbeat keeps proxies from cutting a silent event stream, and finds
	// readers that have gone without a word.
	defaultHeartbeat = 15 * time.Second
	// tailReadBytes is what a tail takes from one partition in its turn, so that one
	// busy partition doesn't hold up the others.
	tailReadBytes = 256 << 10
	// A tail whose partition has no leader looks again after firstStall, then after
	// twice as long each time up to lastStall: it is woken, too, when there is one.
	firstStall, lastStall = 50 * time.Millisecond, 2 * time.Second
	// retryPreamble asks an EventSource to come back 2 s after a cut.
	retryPreamble = "retry: 2000\n"
)

// errEnough ends a tail that has given the asked count.
var errEnough = errors.New("handlers: count reached")

// tail is an answer that follows the log until the client leaves. It lives in
// the request's own goroutine, or detached from it; while nothing happens it
// holds no buffer.
type tail struct {
	*reader
	w      http.ResponseWriter
	rc     *http.ResponseController
	send   func(p []byte) error // sends p at once
	budget budget
	signal *replication.Signal
	// unnamed: the request named no position, so the client is told one at once,
	// or a cut before the first record would lose where it began.
	unnamed bool
	// stall is the pause before the next look at a partition whose leader is missing,
	// or not ready yet; 0: each of them could be read.
	stall time.Duration
}

// tailPartition follows one partition.
func (a *api) tailPartition(w http.ResponseWriter, r *http.Request, rd *reader, partition int32, q *readQuery) error {
	s := q.start
	if q.resumed {
		if len(q.positions) != 1 || q.positions[0].partition != partition {
			return malformed("Last-Event-ID is not a position in partition %d alone.", partition)
		}
		s = start{kind: startAt, n: q.positions[0].next}
	}
	offset, err := a.resolve(r.Context(), rd.topic, partition, s)
	if err != nil {
		return err
	}
	rd.add(position{partition, offset}, q.epoch)
	return a.follow(w, r, rd, q)
}

// follow is the life of a tail. Errors before the first byte are answered as any
// other; later ones are told in the stream.
func (a *api) follow(w http.ResponseWriter, r *http.Request, rd *reader, q *readQuery) error {
	release, err := a.enterWait()
	if err != nil {
		return err
	}
	detached := false
	defer func() {
		if !detached {
			rd.close()
			release()
		}
	}()
	b := q.budget()
	b.bytes = math.MaxInt // max_bytes bounds an answer, and a tail has no end
	t := &tail{reader: rd, w: w, rc: http.NewResponseController(w), budget: b, signal: replication.NewSignal(),
		unnamed: q.positions == nil && q.start.kind != startAt}
	t.send = t.write
	if err := t.subscribe(t.signal); err != nil {
		return err
	}
	// A position that can't be honoured is a status, not an event.
	for i := range t.cursors {
		if err := t.probe(r.Context(), i); err != nil {
			return err
		}
	}
	t.patience = -1 // from here on one partition must not hold up the others
	t.header()
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	if detached = t.detach(r, release); detached {
		return nil
	}
	if over, err := t.open(r.Context()); over {
		return err
	}
	return t.follow(r.Context())
}

// probe fails when cursor i can't be read from.
func (rd *reader) probe(ctx context.Context, i int) error {
	none := budget{bytes: 1, taken: 1} // admits nothing
	_, _, err := rd.read(ctx, i, nil, &none, 1)
	return err
}

func (t *tail) header() {
	h := t.w.Header()
	h["Content-Type"] = []string{typeNDJSON}
	if t.frame == frameEvents {
		h["Content-Type"] = []string{typeSSE}
	}
	h["Cache-Control"] = []string{"no-cache, no-store"}
	h["X-Accel-Buffering"] = []string{"no"} // nginx would hold the stream back
	h["Vary"] = []string{"Accept"}
}

// open begins the stream and gives what is there already. over says that it has
// ended with that.
func (t *tail) open(ctx context.Context) (over bool, err error) {
	if err := t.send(t.preamble()); err != nil {
		return true, err
	}
	if _, err := t.pump(ctx); err != nil {
		return true, t.end(err)
	}
	return false, nil
}

// follow is wait, read, over and over. The subscription is older than open's
// read, so no wake-up is lost.
func (t *tail) follow(ctx context.Context) error {
	interval := t.api.cfg.TailHeartbeat
	heartbeat := time.NewTimer(interval)
	defer heartbeat.Stop()
	for {
		var again <-chan time.Time
		if t.stall > 0 {
			again = time.After(t.stall)
		}
		select {
		case <-t.signal.C:
			if err := t.refresh(); err != nil {
				return t.end(err)
			}
		case <-again:
		case <-heartbeat.C:
			if err := t.beat(); err != nil {
				return t.end(err)
			}
			heartbeat.Reset(interval)
		case <-ctx.Done():
			return nil
		case <-t.api.cfg.Draining:
			return t.end(replication.ErrShuttingDown)
		}
		wrote, err := t.pump(ctx)
		if err != nil {
			return t.end(err)
		}
		if wrote {
			heartbeat.Reset(interval)
		}
	}
}

// preamble is what stands before the first event.
func (t *tail) preamble() []byte {
	if t.frame != frameEvents {
		return nil
	}
	out := []byte(retryPreamble)
	if t.unnamed {
		// A block without data is no event; it only sets Last-Event-ID.
		out = append(out, "id: "...)
		out = append(appendVector(out, t.cursors), '\n')
	}
	return append(out, '\n')
}

// pump writes all there is: what is available together is written together.
func (t *tail) pump(ctx context.Context) (wrote bool, err error) {
	out := t.api.buffers.get()
	defer func() { t.api.buffers.put(out) }()
	held := ration{of: &t.api.reads}
	defer held.giveBack()
	// One half for what is read, one for what it is rendered to.
	most := int(held.draw(2*tailReadBytes)) / 2
	for {
		var readErr error
		more, stalled := false, false
		// Not always the first partition first: readers that come back after few
		// records must reach the others too.
		first := t.turn()
		for k := range t.cursors {
			i := (first + k) % len(t.cursors)
			before := t.budget.taken
			if out, _, readErr = t.read(ctx, i, out, &t.budget, most); replication.IsTransient(readErr) {
				stalled, readErr = true, nil // the others go on
				continue
			}
			if readErr != nil {
				break
			}
			more = more || t.budget.taken > before
			if len(out) >= most {
				wrote = true
				if err := t.send(out); err != nil {
					return wrote, errors.Join(errAborted, err)
				}
				out = out[:0]
			}
			if t.budget.full() {
				readErr = errEnough
				break
			}
		}
		if len(out) > 0 {
			wrote = true
			if err := t.send(out); err != nil {
				return wrote, errors.Join(errAborted, err)
			}
			out = out[:0]
		}
		if readErr != nil || !more || ctx.Err() != nil || t.api.draining() {
			t.stalled(stalled)
			return wrote, readErr
		}
	}
}

// stalled notes whether a partition couldn't be read for want of a leader.
func (t *tail) stalled(yes bool) {
	switch {
	case !yes:
		t.stall = 0
	case t.stall == 0:
		t.stall = firstStall
	default:
		t.stall = min(2*t.stall, lastStall)
	}
}

// write sends p at once. The client has Config.WriteTimeout to take it; the deadline is
// taken off again afterwards, for an idle stream has none.
func (t *tail) write(p []byte) error {
	if len(p) > 0 {
		if _, err := t.w.Write(p); err != nil {
			return err
		}
	}
	if err := t.rc.Flush(); err != nil {
		return err
	}
	_ = t.rc.SetWriteDeadline(time.Time{}) // as in exchange: no deadlines, no slow readers
	return nil
}

// beat shows that the stream lives. Lines have no comments: an NDJSON tail is
// silent while nothing comes.
func (t *tail) beat() error {
	if t.frame != frameEvents {
		return nil
	}
	return t.send([]byte(":\n\n"))
}

// refresh takes notice of what a wake-up may mean beyond records: the topic may be gone, or have more
// partitions, which are read from their beginning.
func (t *tail) refresh() error {
	if err := t.check(); err != nil {
		return err
	}
	if !t.merged {
		return nil
	}
	topic, err := t.api.cfg.Broker.Topic(t.topic)
	if err != nil {
		return err
	}
	for n := len(t.cursors); n < len(topic.Partitions); n++ {
		t.add(position{partition: int32(n)}, -1)
	}
	return nil
}

// end tells the client why the stream ends, and ends it in order.
func (t *tail) end(err error) error {
	var gone *controller.UnknownTopicError
	switch {
	case errors.Is(err, errAborted):
		return err
	case errors.Is(err, errEnough):
		return t.endEvent("count")
	case errors.Is(err, replication.ErrShuttingDown), errors.Is(err, storage.ErrClosed):
		return t.endEvent("shutting_down")
	case errors.As(err, &gone):
		return t.endEvent("topic_deleted")
	}
	return t.problemEvent(err)
}

// endEvent: a control event carries no id, so it moves nobody's position.
func (t *tail) endEvent(reason string) error {
	if t.frame != frameEvents {
		return nil // the body's orderly end is all that lines can say
	}
	return t.send([]byte("event: end\ndata: {\"reason\":\"" + reason + "\"}\n\n"))
}

// problemEvent tells an error in the stream: as event "problem", or as the last
// line of NDJSON, with the body of section 8 of the contract.
func (t *tail) problemEvent(err error) error {
	var done answered
	if !errors.As(err, &done) {
		at := place{topic: t.topic, base: t.base}
		if !t.merged {
			at.partition = strconv.Itoa(int(t.cursors[0].partition))
		}
		done.problem = explain(err, at)
	}
	p := done.problem
	body := bytes.TrimRight(p.append(nil, false), "\n")
	if t.frame == frameEvents {
		return t.send(append(append([]byte("event: problem\ndata: "), body...), "\n\n"...))
	}
	return t.send(append(body, '\n'))
}
