package replication

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"highwater/replication/wire"
)

// watchSessions are the long-polls of other brokers' watchers. A session remembers
// what its broker was told of; each change of a partition puts it on the list of
// those to be named next, so that an answer costs what has changed.
type watchSessions struct {
	mu   sync.Mutex // guards byID
	byID map[uuid.UUID]*watchSession
}

// watchExpiry is how long a session lives without a request: longer than watchWait.
const watchExpiry = time.Minute

// watchSession is one broker's. No lock of a partition is taken under mu: those
// call into it.
type watchSession struct {
	ready chan struct{} // one token when changed isn't empty

	mu      sync.Mutex // guards what follows
	entries map[wire.TopicPartition]*watchEntry
	changed []*watchEntry
	last    time.Time // of the last request's beginning or end
	polls   int       // under way
}

type watchEntry struct {
	wire.TopicPartition
	queued bool // in changed
	gone   bool // removed: not to be named
	cancel func()
}

func newWatchSessions() *watchSessions {
	return &watchSessions{byID: map[uuid.UUID]*watchSession{}}
}

// run drops sessions whose broker has gone, until ctx ends.
func (ws *watchSessions) run(ctx context.Context) {
	tick := time.NewTicker(watchExpiry / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			ws.expire(now)
		}
	}
}

func (ws *watchSessions) expire(now time.Time) {
	var gone []*watchSession
	ws.mu.Lock()
	for id, s := range ws.byID {
		s.mu.Lock()
		if s.polls == 0 && now.Sub(s.last) > watchExpiry {
			gone = append(gone, s)
			delete(ws.byID, id)
		}
		s.mu.Unlock()
	}
	ws.mu.Unlock()
	for _, s := range gone {
		s.close()
	}
}

// enter finds a session, or makes it, and counts a request in it; nil: unknown.
func (ws *watchSessions) enter(id uuid.UUID, first bool) *watchSession {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	s := ws.byID[id]
	if s == nil {
		if !first {
			return nil
		}
		s = &watchSession{ready: make(chan struct{}, 1), entries: map[wire.TopicPartition]*watchEntry{}}
		ws.byID[id] = s
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polls++
	s.last = time.Now()
	return s
}

func (s *watchSession) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polls--
	s.last = time.Now()
}

// close ends the subscriptions.
func (s *watchSession) close() {
	s.mu.Lock()
	entries := s.entries
	s.entries = nil
	s.mu.Unlock()
	for _, e := range entries {
		e.cancel()
	}
}

// add subscribes to a partition, and puts it on the list: what came before nobody
// was told of.
func (s *watchSession) add(p *Partition, tp wire.TopicPartition) {
	e := &watchEntry{TopicPartition: tp}
	e.cancel = p.subs.add(&Signal{onWake: func() { s.note(e) }})
	s.mu.Lock()
	old := s.entries[tp]
	if old != nil {
		old.gone = true
	}
	if s.entries != nil {
		s.entries[tp] = e
	}
	s.mu.Unlock()
	if old != nil {
		old.cancel()
	}
	s.note(e)
}

func (s *watchSession) remove(tp wire.TopicPartition) {
	s.mu.Lock()
	e := s.entries[tp]
	delete(s.entries, tp)
	if e != nil {
		e.gone = true
	}
	s.mu.Unlock()
	if e != nil {
		e.cancel()
	}
}

// note puts a partition on the list of those to be named.
func (s *watchSession) note(e *watchEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.queued || e.gone {
		return
	}
	e.queued = true
	s.changed = append(s.changed, e)
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// take empties the list.
func (s *watchSession) take() (changed []wire.TopicPartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.changed {
		e.queued = false
		if !e.gone {
			changed = append(changed, e.TopicPartition)
		}
	}
	s.changed = nil
	return changed
}

// ServeWatch answers another broker's watcher. The answer of a poll that nobody
// receives is lost: who doesn't receive one begins a new session. When ctx ends, or
// the broker drains, the session is over.
func (b *Broker) ServeWatch(ctx context.Context, req *wire.WatchRequest) *wire.WatchAnswer {
	answer := &wire.WatchAnswer{Version: wire.Version}
	s := b.watched.enter(req.Session, req.First)
	if s == nil {
		answer.Code = wire.CodeFetchSession
		return answer
	}
	defer s.leave()
	for _, tp := range req.Remove {
		s.remove(tp)
	}
	for _, tp := range req.Add {
		p, err := b.replicaOf(tp)
		if err != nil {
			answer.Unknown = append(answer.Unknown, tp)
			continue
		}
		s.add(p, tp)
	}
	if req.MaxWaitMs <= 0 {
		return answer
	}
	timer := time.NewTimer(time.Duration(min(req.MaxWaitMs, maxForwardedWaitMs)) * time.Millisecond)
	defer timer.Stop()
	for {
		select {
		case <-s.ready:
			if answer.Changed = s.take(); len(answer.Changed) > 0 {
				return answer
			}
		case <-timer.C:
			return answer
		case <-ctx.Done(): // who is told so comes again after a pause, not at once
			answer.Code = wire.CodeNotLeader
			return answer
		case <-b.drain:
			answer.Code = wire.CodeNotLeader
			return answer
		}
	}
}

// replicaOf finds this broker's replica of a partition with its log open, whatever
// its role: *controller.UnknownTopicError, *NotLeaderError, *OfflineError.
func (b *Broker) replicaOf(tp wire.TopicPartition) (*Partition, error) {
	name, err := b.topicName(tp)
	if err != nil {
		return nil, err
	}
	t, err := b.localTopic(name)
	if err != nil {
		return nil, err
	}
	p := t.partition(tp.Partition)
	switch {
	case p == nil || t.meta.Load().ID != tp.Topic:
		return nil, &NotLeaderError{Topic: name, Partition: tp.Partition, Leader: -1}
	case p.offline != nil:
		return nil, &OfflineError{Topic: name, Partition: tp.Partition, Cause: p.offline}
	}
	return p, nil
}
