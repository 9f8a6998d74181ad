package replication

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"highwater/replication/replica"
	"highwater/replication/wire"
)

const (
	// fetchWait is how long a leader may keep a fetch that finds nothing. It bounds
	// how long a follower that nothing is appended for goes unheard, and with it
	// the time in which a leader notices that it is alone (R60).
	fetchWait = 500 * time.Millisecond
	// fetchGrace is how long after that an answer may take to come, records and
	// all; a connection that is still silent then is taken for dead.
	fetchGrace = 5 * time.Second
	// maxFetchBytes bounds the records of one answer, and so the memory of a
	// fetcher: some tens of milliseconds of a disk's sequential writing.
	maxFetchBytes = 8 << 20
	// defaultFetchPartitionBytes keeps one partition from filling the answer while
	// others wait.
	defaultFetchPartitionBytes = 4 << 20
	// minBackoff and maxBackoff bound the pause after an error, of a partition or of
	// a whole fetch; it doubles from one to the next.
	minBackoff = 20 * time.Millisecond
	maxBackoff = time.Second
)

// followers are the fetchers of this broker, one for each leader broker.
type followers struct {
	b *Broker

	mu       sync.Mutex // guards what follows
	byLeader map[int32]*fetcher
	ctx      context.Context // Run's; nil before it
	over     bool            // it has ended
	running  sync.WaitGroup
}

func newFollowers(b *Broker) *followers {
	return &followers{b: b, byLeader: map[int32]*fetcher{}}
}

// assign has a partition follow a leader in a leader epoch. The caller has made
// sure that nobody else works on its log.
func (fs *followers) assign(p *Partition, leader, epoch int32) {
	if fs.b.cfg.Peers == nil {
		return
	}
	fs.mu.Lock()
	f := fs.byLeader[leader]
	if f == nil {
		f = newFetcher(fs.b, leader)
		fs.byLeader[leader] = f
		fs.start(f)
	}
	fs.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed == nil {
		p.fetcher = f
		f.add(p, epoch)
	}
}

// start runs a fetcher, once there is a context to run it under. Call it under mu.
func (fs *followers) start(f *fetcher) {
	if fs.ctx == nil || fs.over {
		return
	}
	ctx := fs.ctx
	fs.running.Go(func() { f.run(ctx) })
}

// run runs the fetchers until ctx ends, and waits for them.
func (fs *followers) run(ctx context.Context) {
	fs.mu.Lock()
	fs.ctx = ctx
	for _, f := range fs.byLeader {
		fs.start(f)
	}
	fs.mu.Unlock()
	<-ctx.Done()
	fs.mu.Lock()
	fs.over = true // none is started any more
	fs.mu.Unlock()
	fs.running.Wait()
}

// fetcher follows all partitions that one broker leads and this one has replicas
// of: one long-poll for all of them, one after the other (R12). It names only the
// partitions in which it has come further; for all others a request repeats what
// the one before said.
type fetcher struct {
	b      *Broker
	leader int32
	wake   chan struct{} // one token: there are changes

	mu      sync.Mutex // a leaf; guards changes and imports
	changes map[*Partition]change
	imports []imported // that have come to their end

	// What follows is the fetcher's goroutine's alone.
	ctx       context.Context // run's
	parts     map[wire.TopicPartition]*following
	due       []*following // to be named in the next request
	forgotten []wire.TopicPartition
	seq       int64     // grows as long as the process lives (R13)
	session   bool      // no request failed since the last full one: the next need not be full
	failures  int       // fetches that failed, one after the other
	bufs      [2][]byte // the answers' memory, by turns: there may be two requests under way
	turn      int
	small     int          // answers since the last large one
	applied   []*following // scratch: appended to by the answer at hand
}

// change is what is to become of a partition: followed in an epoch, or not any more.
type change struct {
	epoch  int32
	remove bool
}

// following is a partition as its fetcher knows it.
type following struct {
	p     *Partition
	id    wire.TopicPartition
	epoch int32
	sent  wire.FetchPartition // what the leader was told last
	named bool                // in this session
	isDue bool                // on the list

	failures int
	retryAt  time.Time // not to be named before; zero: at once

	known     int64  // below it, what no log tells of its records was imported (import.go)
	importing bool   // that is under way, and nothing is fetched
	export    []byte // what was imported, until the first records after it are there

	low   bool // what was sent is less than the log holds: it is damaged
	ahead bool // between stage and commit: what comes after the staged records is asked for already
	step  applying
}

func newFetcher(b *Broker, leader int32) *fetcher {
	return &fetcher{b: b, leader: leader, wake: make(chan struct{}, 1), changes: map[*Partition]change{}, parts: map[wire.TopicPartition]*following{}}
}

func (f *fetcher) add(p *Partition, epoch int32) { f.change(p, change{epoch: epoch}) }

func (f *fetcher) remove(p *Partition) { f.change(p, change{remove: true}) }

func (f *fetcher) change(p *Partition, c change) {
	f.mu.Lock()
	f.changes[p] = c
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// run fetches until ctx ends. While a poll waits at the leader, partitions that
// come or go are told in the next request at once: the leader ends the poll then.
func (f *fetcher) run(ctx context.Context) {
	var cur *poll
	f.ctx = ctx
	for ctx.Err() == nil {
		f.takeChanges()
		switch {
		case cur == nil && len(f.parts) == 0 && len(f.forgotten) == 0:
			select {
			case <-f.wake:
			case <-ctx.Done():
			}
		case cur == nil:
			cur = f.send(ctx, false)
		case f.anyDue(time.Now()):
			cur = f.settle(ctx, cur, f.send(ctx, true))
		default:
			select {
			case <-cur.done:
				cur = f.settle(ctx, cur, nil)
			case <-f.wake:
			case <-ctx.Done():
			}
		}
	}
	if cur != nil {
		cur.end()
	}
}

// anyDue tells whether there is something to tell the leader now.
func (f *fetcher) anyDue(now time.Time) bool {
	return len(f.forgotten) > 0 || slices.ContainsFunc(f.due, func(w *following) bool { return w.isDue && !w.retryAt.After(now) })
}

// takeChanges brings the fetcher's partitions up to date.
func (f *fetcher) takeChanges() {
	select {
	case <-f.wake:
	default:
	}
	f.mu.Lock()
	changes, imports := f.changes, f.imports
	f.imports = nil
	if len(changes) > 0 {
		f.changes = map[*Partition]change{}
	} else {
		changes = nil // it stays where others may add to it
	}
	f.mu.Unlock()
	for i := range imports {
		f.imported(&imports[i])
	}
	for p, c := range changes {
		id := p.id()
		old := f.parts[id]
		if old != nil && (old.p == p || !c.remove) { // another replica of it before this one may be taken away later
			f.drop(old)
		}
		if !c.remove {
			n := &following{p: p, id: id, epoch: c.epoch}
			f.parts[id] = n
			f.makeDue(n)
		}
	}
}

// drop forgets a partition, and tells the leader in the next request.
func (f *fetcher) drop(w *following) {
	delete(f.parts, w.id)
	w.isDue = false // stays on the list, where request skips it
	if w.named {
		f.forgotten = append(f.forgotten, w.id)
	}
}

func (f *fetcher) makeDue(w *following) {
	if !w.isDue {
		w.isDue = true
		f.due = append(f.due, w)
	}
}

// backOff has a partition wait before it is named again.
func (f *fetcher) backOff(w *following) {
	w.failures++
	w.retryAt = time.Now().Add(backoff(w.failures))
	f.makeDue(w)
}

// backoff is the pause after so many failures, spread so that many who failed
// together don't come back together.
func backoff(failures int) time.Duration {
	d := min(minBackoff<<min(failures-1, 16), maxBackoff)
	return d/2 + rand.N(d/2+1)
}

// request makes the next request. A full one names all partitions, but for those
// that back off.
func (f *fetcher) request(now time.Time) *wire.FetchRequest {
	state := f.b.State()
	f.seq++
	req := &wire.FetchRequest{Version: wire.Version, ClusterID: state.ClusterID, Replica: f.b.cfg.NodeID, BrokerEpoch: f.b.cfg.Controller.BrokerEpoch(),
		Seq: f.seq, Full: !f.session, MetadataIndex: state.Index, MaxWaitMs: int32(fetchWait.Milliseconds()), MinBytes: 1, MaxBytes: maxFetchBytes}
	if req.Full {
		for _, w := range f.parts {
			w.named = false
			f.makeDue(w)
		}
		f.forgotten = nil
	} else {
		req.Forgotten, f.forgotten = f.forgotten, nil
	}
	list := f.due
	f.due = nil
	f.flush(list)
	for _, w := range list {
		if !w.isDue {
			continue
		}
		w.isDue = false
		if w.importing {
			continue // it becomes due when that is over
		}
		if wait := w.retryAt.Sub(now); wait > 0 {
			req.MaxWaitMs = min(req.MaxWaitMs, int32(wait.Milliseconds())+1)
			f.makeDue(w)
			continue
		}
		if !w.ahead && f.importFirst(w, begun(w.p.log)) {
			continue
		}
		if f.position(w) {
			w.named = true
			req.Partitions = append(req.Partitions, w.sent)
		}
	}
	f.session = true
	return req
}

// flush makes the logs of those to be named durable, side by side: a broker that led
// thousands of partitions until now may have something left to fsync in each.
func (f *fetcher) flush(list []*following) {
	var dirty []*following
	for _, w := range list {
		if w.isDue && !w.ahead && w.p.log.StagedEnd() != w.p.log.DurableEnd() {
			dirty = append(dirty, w)
		}
	}
	if len(dirty) > 1 {
		forEach(len(dirty), syncConcurrency, func(i int) { _ = dirty[i].p.log.Flush() }) // position tells of errors
	}
}

// position fills in where a partition's log stands; all of it is durable then, but
// for what is being read ahead of. false: it can't be said.
func (f *fetcher) position(w *following) bool {
	log := w.p.log
	if w.ahead {
		end := log.DurableEnd()
		w.sent.Offset, w.sent.LastEpoch, w.sent.LogStart, w.sent.From = end, epochBelow(log, end), log.StartOffset(), w.step.staged.EndOffset
		w.ahead = len(log.Damage()) == 0 // else commit has it named anew
		return w.ahead
	}
	if w.sent, w.low = f.low(w); w.low {
		if !f.cutDamage(w) {
			return true
		}
		w.low = false
	}
	w.sent = wire.FetchPartition{TopicPartition: w.id, LeaderEpoch: w.epoch, MaxBytes: f.b.cfg.FetchPartitionBytes}
	if err := log.Flush(); err != nil {
		f.b.followFailed(w.p, err)
		f.backOff(w)
		return false
	}
	w.sent.Offset, w.sent.LastEpoch, w.sent.LogStart = log.DurableEnd(), replica.LastEpoch(epochsOf(log)), log.StartOffset()
	return true
}

// poll is a request on its way.
type poll struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when resp and err are set
	resp   *wire.FetchResponse
	err    error
	buf    *[]byte // of resp
}

// send sends the next request. ahead: the answer to the last one isn't there yet.
func (f *fetcher) send(ctx context.Context, ahead bool) *poll {
	req := f.request(time.Now())
	req.Ahead = ahead
	c := &poll{done: make(chan struct{})}
	leader := f.b.State().Brokers[f.leader]
	if leader == nil {
		c.cancel, c.err = func() {}, errNoSuchBroker
		close(c.done)
		return c
	}
	ctx, c.cancel = context.WithTimeout(ctx, time.Duration(req.MaxWaitMs)*time.Millisecond+fetchGrace)
	f.turn = 1 - f.turn
	buf := &f.bufs[f.turn]
	c.buf = buf
	go func() {
		defer close(c.done)
		c.resp, c.err = f.b.cfg.Peers.Fetch(ctx, leader.URL, req, buf)
	}()
	return c
}

// end gives a request up.
func (c *poll) end() {
	c.cancel()
	<-c.done
}

func (c *poll) failed() bool { return c.err != nil || c.resp.Code != wire.OK }

// settle waits for the answer to a request, applies it, and returns the request that
// is under way then, if any. next, if any, was sent behind it, so that the leader
// ends it; when one of them fails the other one is given up, and the session with it.
func (f *fetcher) settle(ctx context.Context, c, next *poll) *poll {
	if next != nil {
		select {
		case <-c.done:
		case <-next.done:
			if next.failed() {
				c.end()
				f.failed(ctx, next)
				return nil
			}
		}
	}
	<-c.done
	c.cancel()
	if !c.failed() {
		f.failures = 0
		if f.stage(c.resp, next == nil) {
			next = f.send(ctx, false)
		}
		f.commit()
		f.trim(c)
		return next
	}
	if next != nil {
		next.end()
	}
	f.failed(ctx, c)
	return nil
}

// trim lets memory of large answers go when they have been small for a while.
func (f *fetcher) trim(c *poll) {
	bytes := 0
	for i := range c.resp.Partitions {
		bytes += len(c.resp.Partitions[i].Batches)
	}
	if f.small++; bytes > keepFetchBytes {
		f.small = 0
	}
	if buf := c.buf; f.small > trimAfter && cap(*buf) > keepFetchBytes {
		*buf = nil
	}
}

const (
	// keepFetchBytes is the memory that a fetcher keeps for its next answer, and
	// trimAfter the number of answers that need no more, after which it keeps so little.
	keepFetchBytes = 256 << 10
	trimAfter      = 100
)

var errNoSuchBroker = errors.New("replication: the leader is no registered broker")

// failed is what follows a fetch without an answer, or one that is refused: the
// next one is full, after a pause.
func (f *fetcher) failed(ctx context.Context, c *poll) {
	f.session = false
	if ctx.Err() != nil {
		return
	}
	f.failures++
	if c.err == nil && c.resp.Code == wire.CodeFetchSession && f.failures == 1 {
		return // the leader has forgotten the session, or lost a request
	}
	log := f.b.cfg.Logger.Debug()
	if f.failures == warnAfterFailures {
		log = f.b.cfg.Logger.Warn()
	}
	if c.err == nil {
		log = log.Str("code", string(c.resp.Code))
	}
	log.Err(c.err).Int32("leader", f.leader).Int("failures", f.failures).Msg("fetching from a leader fails")
	timer := time.NewTimer(backoff(f.failures))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.wake:
	case <-ctx.Done():
	}
}

// warnAfterFailures keeps the restart of a leader out of the log.
const warnAfterFailures = 5
