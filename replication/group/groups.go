package group

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"highwater/replication/controller"
)

// Config of Groups.
type Config struct {
	NodeID   int32
	Log      Log
	Metadata Metadata
	Peers    Peers  // nil: there are none
	Errors   Errors // of other rooms, between brokers
	Logger   zerolog.Logger
}

// Groups is a broker's way to all groups, whoever coordinates them, and the
// coordinator of those whose partition of __consumer_offsets it leads.
//
// Goroutines: Run follows the metadata; each led partition has a keeper, and while it
// is served a writer and a ticker (shard.go); each broker that coordinates polls of
// clients of this one is told of them by a beater (beats.go). Run waits for all.
type Groups struct {
	cfg     Config
	metrics *metrics
	view    *view

	mu     sync.Mutex
	topics Topics           // of the newest metadata that was looked at
	newer  chan struct{}    // closed, and replaced, when topics is
	shards map[int32]*shard // by partition; those that this broker coordinates or loads
	epochs map[int32]keeper // by partition

	polls  *polls  // under way, of this broker's clients
	fronts *fronts // of polls of groups that are coordinated here
	clock  clock   // by which calls of other fronts come late
	clocks clocks

	loops    sync.WaitGroup
	stopping chan struct{} // closed by Drain: what waits for another coordinator doesn't any more
	once     sync.Once     // closes stopping
}

// keeper keeps a shard for one leader epoch.
type keeper struct {
	epoch int32
	stop  context.CancelFunc
}

// New makes Groups; Run makes it coordinate.
func New(cfg Config) *Groups {
	g := &Groups{cfg: cfg, view: newView(), shards: map[int32]*shard{}, epochs: map[int32]keeper{}, newer: make(chan struct{}), clock: newClock(), stopping: make(chan struct{})}
	g.metrics = newMetrics(g)
	g.polls, g.fronts = newPolls(g), newFronts()
	return g
}

// Run coordinates what this broker leads until ctx ends.
func (g *Groups) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer g.loops.Wait()
	defer stop()
	g.polls.start(ctx)
	defer g.polls.stop()
	cursor := g.cfg.Metadata.Watch()
	for {
		g.follow(ctx, g.view.next(cursor))
		select {
		case <-cursor.Ready():
		case <-ctx.Done():
			return nil
		}
	}
}

// Drain ends the waiting for coordinators that aren't there. What can be done is
// done on.
func (g *Groups) Drain() { g.once.Do(func() { close(g.stopping) }) }

// follow takes over the roles of a new state of the metadata.
func (g *Groups) follow(ctx context.Context, topics *metadata) {
	s := topics.state
	leads := map[int32]int32{} // epochs
	if t, ok := s.Topic(Topic); ok {
		for i := range t.Partitions {
			if t.Partitions[i].Leader == g.cfg.NodeID {
				leads[int32(i)] = t.Partitions[i].LeaderEpoch
			}
		}
	}
	g.mu.Lock()
	shape := g.topics == nil || g.topics.Shape() != topics.Shape()
	g.topics = topics
	close(g.newer)
	g.newer = make(chan struct{})
	for num, k := range g.epochs {
		if epoch, ok := leads[num]; !ok || epoch != k.epoch {
			k.stop()
			delete(g.epochs, num)
		}
	}
	for num, epoch := range leads {
		if _, ok := g.epochs[num]; !ok {
			kept, stop := context.WithCancel(ctx)
			g.epochs[num] = keeper{epoch: epoch, stop: stop}
			g.loops.Go(func() { g.keep(kept, num, epoch) })
		}
	}
	shards := g.served()
	g.mu.Unlock()
	if shape {
		for _, shard := range shards {
			shard.reconcile()
		}
	}
	g.polls.follow(s)
}

// served lists the shards. Call it under mu.
func (g *Groups) served() []*shard {
	out := make([]*shard, 0, len(g.shards))
	for _, s := range g.shards {
		out = append(out, s)
	}
	return out
}

// reloadPause is how long a partition that had to be given up rests; one that can't be
// loaded, for twice as long each time, up to maxReloadPause.
const reloadPause, maxReloadPause = 100 * time.Millisecond, 10 * time.Second

// keep coordinates a partition while this broker leads it in epoch.
func (g *Groups) keep(ctx context.Context, num, epoch int32) {
	rest := reloadPause
	for ctx.Err() == nil {
		s := newShard(g, num, epoch)
		g.mu.Lock()
		g.shards[num] = s
		g.mu.Unlock()
		if s.run(ctx) {
			rest = reloadPause
		} else {
			rest = min(2*rest, maxReloadPause)
		}
		g.mu.Lock()
		if g.shards[num] == s {
			delete(g.shards, num)
		}
		g.mu.Unlock()
		pause(ctx, rest)
	}
}

// pause waits, less when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// known is the metadata of which g has taken notice.
func (g *Groups) known() Topics {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.topics
}

// newerTopics is closed when g has taken notice of newer metadata.
func (g *Groups) newerTopics() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.newer
}

func (g *Groups) shard(num int32) *shard {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shards[num]
}

// coordinator is where a group's coordinator is, by this broker's metadata.
type coordinator struct {
	partition int32
	leader    int32 // controller.NoLeader: none
	epoch     int32
	url       string
}

// locate finds a group's coordinator; false: there is no topic for groups yet.
func (g *Groups) locate(s *controller.State, group string) (coordinator, bool) {
	t, ok := s.Topic(Topic)
	if !ok {
		return coordinator{}, false
	}
	num := partitionOf(group, len(t.Partitions))
	p := coordinator{partition: num, leader: t.Partitions[num].Leader, epoch: t.Partitions[num].LeaderEpoch}
	if b := s.Brokers[p.leader]; b != nil {
		p.url = b.URL
	}
	return p, true
}

// A coordinator is asked again after firstRetry, then after twice as long each time
// up to lastRetry, and at once when the metadata changes.
const (
	firstRetry, lastRetry = 10 * time.Millisecond, 250 * time.Millisecond
	// maxDoTime bounds a call whose context has no deadline.
	maxDoTime = 30 * time.Second
)

// Do has a group's coordinator do a call. What is safe to send again is, as long as
// ctx lasts. Errors: those of the call; ErrNoCoordinator (not done), ErrUnknownOutcome;
// those of an append that wrote nothing.
func (g *Groups) Do(ctx context.Context, call *Call) (*Answer, error) {
	answer, _, err := g.do(ctx, call)
	return answer, err
}

// do is Do, and tells who answered.
func (g *Groups) do(ctx context.Context, call *Call) (*Answer, coordinator, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, maxDoTime)
	defer cancel()
	again := *call
	if again.ID == uuid.Nil {
		again.ID = uuid.New()
	}
	answer, at, err := g.try(ctx, &again, began)
	g.metrics.called(call, err, time.Since(began))
	return answer, at, err
}

func (g *Groups) try(ctx context.Context, call *Call, began time.Time) (*Answer, coordinator, error) {
	wait, unknown := firstRetry, error(nil)
	for {
		changed := g.cfg.Metadata.Changed()
		state := g.cfg.Metadata.State()
		at, ok := g.locate(state, call.Group)
		if !ok {
			answer, done, err := g.first(ctx, call)
			if done {
				return answer, coordinator{}, err
			}
			if state = g.cfg.Metadata.State(); err == nil {
				at, ok = g.locate(state, call.Group)
			}
			if !ok {
				return nil, coordinator{}, noCoordinator(err)
			}
		}
		call.Metadata = state.Index
		answer, err := g.ask(ctx, at, timed(call, began))
		switch {
		case errors.Is(err, ErrUnknownOutcome):
			unknown = err
		case !errors.Is(err, ErrNoCoordinator):
			if unknown != nil && err != nil && call.lasts() {
				err = afterUnknown(call, err)
			}
			if answer == nil && err == nil {
				answer = &Answer{}
			}
			return answer, at, err
		}
		if !g.retry(ctx, wait, changed) {
			return nil, at, lost(call, err, unknown)
		}
		wait = min(2*wait, lastRetry)
	}
}

// lost is the error of a call of which no answer came, after tries of which unknown,
// if set, says that it may have been done.
func lost(call *Call, err, unknown error) error {
	switch {
	case unknown == nil:
		return noCoordinator(err)
	case call.lasts():
		return unknown
	}
	return &noAnswerError{cause: unknown}
}

// noAnswerError is ErrNoCoordinator for a call that leaves nothing behind, though a
// coordinator may have seen it.
type noAnswerError struct{ cause error }

func (e *noAnswerError) Error() string { return ErrNoCoordinator.Error() + ": " + e.cause.Error() }

// Is says that it is ErrNoCoordinator.
func (e *noAnswerError) Is(target error) bool { return target == ErrNoCoordinator }

// retry waits until a coordinator may be asked again; false: no more.
func (g *Groups) retry(ctx context.Context, wait time.Duration, changed <-chan struct{}) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-g.stopping:
		return false
	case <-ctx.Done():
		return false
	}
	return true
}

// timed is a call of which a part of the wait is over.
func timed(call *Call, began time.Time) *Call {
	if call.Begin == nil || call.Begin.WaitMs <= 0 {
		return call
	}
	c, b := *call, *call.Begin
	b.WaitMs = max(b.WaitMs-time.Since(began).Milliseconds(), 0)
	c.Begin = &b
	return &c
}

// afterUnknown is what it means that a call was refused that may have been done the
// time before: nothing is known, unless the refusal is what comes of having done it.
func afterUnknown(call *Call, err error) error {
	var unknownInstance *UnknownInstanceError
	var unknownGroup *UnknownGroupError
	if call.Leave != nil && errors.As(err, &unknownInstance) && unknownInstance.Left || call.DeleteGroup != nil && errors.As(err, &unknownGroup) {
		return nil
	}
	return fmt.Errorf("%w; asked again, it says: %v", ErrUnknownOutcome, err) //nolint:errorlint // what is refused now may have been done before
}

// first is a call when there is no topic for groups, as far as this broker knows: the
// topic is made when the call would leave something in it. done: the call is answered.
func (g *Groups) first(ctx context.Context, call *Call) (answer *Answer, done bool, err error) {
	if err := g.cfg.Metadata.Newest(ctx); err != nil {
		return nil, false, err // another broker may have made it
	}
	s := g.cfg.Metadata.State()
	if _, ok := g.locate(s, call.Group); ok {
		return nil, false, nil
	}
	answer, records, err := newState(call.Group).do(time.Now(), g.view.topics(s), call)
	if len(records) == 0 && !errors.Is(err, errWait) && !errors.Is(err, errBehind) {
		return answer, true, err
	}
	return nil, false, g.cfg.Log.Make(ctx)
}

// ask has the coordinator do a call, once.
func (g *Groups) ask(ctx context.Context, at coordinator, call *Call) (*Answer, error) {
	switch {
	case at.leader == g.cfg.NodeID:
		return g.here(ctx, at.partition, call)
	case at.url == "" || g.cfg.Peers == nil:
		return nil, ErrNoCoordinator
	}
	return g.there(ctx, at, call)
}

// here does a call of a group that is coordinated by this broker.
func (g *Groups) here(ctx context.Context, num int32, call *Call) (*Answer, error) {
	s := g.shard(num)
	if s == nil {
		return nil, ErrNoCoordinator
	}
	return s.call(ctx, call)
}

// lasts tells whether a call changes what lasts, to a client's eyes.
func (c *Call) lasts() bool {
	return c.Create != nil || c.Leave != nil || c.Subscribe != nil || c.Assign != nil || c.Commit != nil || c.Reset != nil || c.DeleteGroup != nil
}

// noCoordinator says that nothing was done because of err.
func noCoordinator(err error) error {
	switch {
	case err == nil:
		return ErrNoCoordinator
	case errors.Is(err, ErrNoCoordinator):
		return err
	}
	return fmt.Errorf("%w: %w", ErrNoCoordinator, err)
}
