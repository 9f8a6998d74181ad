package handlers

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"highwater/replication"
	"highwater/replication/group"
	"highwater/storage"
)

const (
	// pollGrace is how much longer than its timeout a poll may take, whatever doesn't
	// answer: a second, less what the end of it takes.
	pollGrace = 700 * time.Millisecond
	// lookTime bounds one look at the partitions, so that a leader that doesn't answer
	// holds nobody's records back for long.
	lookTime = time.Second
	// lookAgain is when a partition that could not be read is tried again although
	// nothing was heard of it.
	lookAgain = 500 * time.Millisecond
	// endPatience is how long a request waits for the coordinator to hear of its end; it
	// is told on then without the request.
	endPatience = 200 * time.Millisecond
)

// pollRun is one poll under way.
type pollRun struct {
	api     *api
	request *http.Request
	q       *pollQuery
	poll    *group.Poll
	joined  bool      // in this call: it reads from the committed offsets
	until   time.Time // the wait's end
	parts   []pollPart
	budget  budget
	held    ration
	out     []byte // rendered records, nil before there are any
	reset   []byte // of Highwater-Reset
	stale   bool
	rec     storage.Record
	cancels []func() // of the subscriptions to the partitions
}

// pollPart is one partition of a poll.
type pollPart struct {
	found    bool           // the reset policy said where to begin
	from     group.Position // where the poll begins to read; Offset -1: not known yet
	next     group.Position // where the next one does
	renderer *recordRenderer
	err      error // of the last look
}

// poll answers with what a member of the group is to read next.
func (a *api) poll(w http.ResponseWriter, r *http.Request, name string, begin group.Begin, q *pollQuery) error {
	begun := arrival(r)
	wait := max(q.wait, 0)
	begin.WaitMs = wait.Milliseconds()
	ctx, cancel := context.WithDeadline(r.Context(), begun.Add(wait+pollGrace))
	defer cancel()
	poll, err := a.cfg.Groups.Poll(ctx, name, begin)
	if err != nil {
		return groupError(ctx, err)
	}
	if q.wait < 0 {
		wait = poll.State().Options.RequestTimeout
	}
	p := &pollRun{api: a, request: r, q: q, poll: poll, joined: begin.Join != nil, until: begun.Add(wait), budget: q.budget(), held: ration{of: &a.reads}}
	written, err := p.answer(w)
	if err != nil {
		// The answer goes out now, too: the poll's end may take longer.
		a.fail(w, r, err)
		_ = http.NewResponseController(w).Flush()
	}
	p.end(written)
	return nil
}

// answer reads and answers. written: the client has been sent all of it.
func (p *pollRun) answer(w http.ResponseWriter) (written bool, err error) {
	if err := p.q.represent(p.request, p.poll.State().Options.Format); err != nil {
		return false, err
	}
	p.budget = p.q.budget()
	ctx, cancel := context.WithDeadline(p.request.Context(), p.until.Add(pollGrace))
	defer cancel()
	if err := p.collect(ctx); err != nil {
		return false, err
	}
	gone := p.request.Context().Err() != nil
	if gone {
		p.drop() // the next one gets them
	}
	err = p.write(w)
	return err == nil && !gone, err
}

// drop forgets what was read for an answer that can't be given.
func (p *pollRun) drop() {
	p.api.buffers.put(p.out)
	p.out, p.budget = nil, p.q.budget()
	p.held.giveBack()
	for i := range p.parts {
		p.parts[i].next = p.parts[i].from
	}
}

// collect reads until there is something to answer or the wait is over.
func (p *pollRun) collect(ctx context.Context) error {
	if p.poll.State().Repeat != nil {
		return p.repeat(ctx)
	}
	p.take()
	mayWait := time.Now().Before(p.until)
	if done, err := p.try(ctx, mayWait); done || err != nil || !mayWait {
		return err
	}
	release, err := p.api.enterWait()
	if err != nil {
		return err
	}
	defer release()
	signal := replication.NewSignal()
	defer p.unsubscribe()
	end := time.NewTimer(time.Until(p.until))
	defer end.Stop()
	for {
		p.subscribe(signal)
		// What came before the subscription woke nobody: look again.
		if done, err := p.try(ctx, true); done || err != nil {
			return err
		}
		var again <-chan time.Time
		if p.failed() > 0 {
			again = time.After(lookAgain)
		}
		select {
		case <-signal.C:
		case <-again:
		case <-p.poll.Changed():
			if err := p.poll.Renew(ctx); err != nil {
				return groupError(ctx, err)
			}
			p.take()
		case <-end.C:
			_, err := p.try(ctx, false)
			return err
		case <-ctx.Done():
			return nil
		case <-p.api.cfg.Draining:
			return nil
		}
	}
}

// try looks, and once more with what the member owns now when the poll had to be
// renewed before its answer.
func (p *pollRun) try(ctx context.Context, mayWait bool) (done bool, err error) {
	done, err = p.look(ctx, mayWait)
	if !errors.Is(err, errRenewed) {
		return done, err
	}
	p.drop()
	p.take()
	done, err = p.look(ctx, mayWait)
	if errors.Is(err, errRenewed) {
		return false, group.ErrPollOver
	}
	return done, err
}

// errRenewed: the poll was over for the coordinator, and goes on with new positions.
var errRenewed = errors.New("handlers: poll renewed")

// take takes over the positions of the poll's state. What was found of a partition
// before stays found.
func (p *pollRun) take() {
	p.unsubscribe()
	found := map[group.TopicPartition]group.Position{}
	for i := range p.parts {
		found[p.parts[i].from.TopicPartition] = p.parts[i].from
	}
	st := p.poll.State()
	p.parts = make([]pollPart, len(st.Positions))
	first := turn(st.Positions)
	for i := range p.parts {
		at := st.Positions[(first+i)%len(p.parts)]
		was, ok := found[at.TopicPartition]
		restored := ok && at.Offset < 0 && was.Offset >= 0
		if restored {
			at = was
		}
		p.parts[i] = pollPart{from: at, next: at, found: restored}
	}
}

// turn is the position whose partition is read first. It follows from where they all
// stand, so that the same call gives the same records, and is spread evenly, so that
// no partition waits for ever behind one with more to read than an answer holds.
func turn(positions []group.Position) int {
	h := uint64(14695981039346656037) // FNV-1a, over whole numbers
	for i := range positions {
		h = (h ^ uint64(positions[i].Offset)) * 1099511628211
		h ^= h >> 32
	}
	return int(h % uint64(max(len(positions), 1)))
}

func (p *pollRun) subscribe(signal *replication.Signal) {
	if p.cancels != nil {
		return
	}
	p.cancels = []func(){}
	for i := range p.parts {
		tp := &p.parts[i].next.TopicPartition
		cancel, err := p.api.cfg.Broker.Subscribe(tp.Topic, tp.Partition, signal)
		if err != nil {
			continue // deleted: the coordinator takes it away
		}
		p.cancels = append(p.cancels, cancel)
	}
}

func (p *pollRun) unsubscribe() {
	for _, cancel := range p.cancels {
		cancel()
	}
	p.cancels = nil
}

// failed is the number of partitions that could not be read just now.
func (p *pollRun) failed() int {
	n := 0
	for i := range p.parts {
		if p.parts[i].err != nil {
			n++
		}
	}
	return n
}

// positions are where the next poll begins, of the partitions whose place is known. A
// beginning that was found, and of which nothing was given, is none: committed with
// the rest it would hide that nothing of the partition was ever read.
func (p *pollRun) positions() []group.Position {
	var to []group.Position
	for i := range p.parts {
		if part := &p.parts[i]; part.next.Offset >= 0 && (!part.found || part.next.Offset > part.from.Offset) {
			to = append(to, part.next)
		}
	}
	return to
}

// write answers. An error says that the client may not have all of it.
func (p *pollRun) write(w http.ResponseWriter) error {
	defer func() {
		p.api.buffers.put(p.out)
		p.out = nil
		p.held.giveBack()
	}()
	out := p.out
	if out == nil {
		out = openFrame(nil, p.q.frame)
	}
	out = closeFrame(out, p.q.frame)
	p.out = out
	h := w.Header()
	p.q.headers(h)
	h["Highwater-Generation"] = []string{strconv.Itoa(int(p.poll.State().Generation))}
	status := http.StatusOK
	if len(out) == 0 && p.q.media == typeEvent { // as writeRecords
		status = http.StatusNoContent
		delete(h, "Content-Type")
	} else {
		h["Content-Length"] = []string{strconv.Itoa(len(out))}
	}
	if len(p.reset) > 0 {
		h["Highwater-Reset"] = []string{string(p.reset)}
	}
	if p.stale {
		h["Highwater-Stale"] = yes
	}
	w.WriteHeader(status)
	if status == http.StatusOK {
		if _, err := w.Write(out); err != nil {
			return err
		}
	}
	// The answer goes out now: the coordinator hears of it afterwards.
	return http.NewResponseController(w).Flush()
}

// end tells the coordinator how the poll ended. It doesn't wait for long: the client's
// next request may be on this very connection.
func (p *pollRun) end(written bool) {
	p.held.giveBack()
	a, poll, to, done := p.api, p.poll, p.positions(), make(chan struct{})
	tell := func() {
		defer close(done)
		if err := poll.End(context.WithoutCancel(p.request.Context()), written, to); err != nil {
			a.cfg.Logger.Debug().Str("instance", poll.State().Instance).AnErr("cause", err).Msg("the end of a poll could not be told: its records may come again")
		}
	}
	if a.cfg.Streams == nil {
		tell()
		return
	}
	a.cfg.Streams.Go(tell)
	patience := time.NewTimer(endPatience)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
	}
}

// deliver tells the coordinator what the answer will be, where it has to know.
func (p *pollRun) deliver(ctx context.Context, from, to []group.Position) error {
	err := p.poll.Deliver(ctx, from, to)
	if !errors.Is(err, group.ErrPollOver) {
		return groupError(ctx, err)
	}
	if err := p.poll.Renew(ctx); err != nil {
		return groupError(ctx, err)
	}
	return errRenewed
}
