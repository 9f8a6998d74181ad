package replication

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"highwater/replication/replica"
	"highwater/replication/wire"
)

// session is a follower's fetch session as its leader keeps it: what the follower
// said last of each partition, and which partitions may have news for it. A
// partition puts itself on the list; a poll looks at those on it only, so an idle
// one costs nothing however many there are.
//
// The follower's requests come one after the other. Who answers one holds turn,
// and with it may touch everything but what mu guards.
type session struct {
	key  sessionKey
	turn chan struct{} // one token
	life *replica.Session
	// applied is the Seq of the last request that was taken over.
	applied int64
	// answered is when it was answered: the next request was sent after that. Zero at
	// the begin of a life.
	answered time.Time
	// watches are the partitions that the follower named, by their ids.
	watches map[wire.TopicPartition]*watch

	wake chan struct{} // one token: look again

	mu     sync.Mutex // a leaf; guards what follows
	ready  []*watch   // those that may have news, each once
	urgent bool       // one of them has more than a high watermark
	last   int64      // Seq of the newest request; who answers an older one stops
}

type sessionKey struct{ replica, fetcher int32 }

// watch is one partition in a session.
type watch struct {
	session *session
	p       *Partition
	at      wire.FetchPartition // what the follower said last
	// armed: the follower waits for news. It doesn't after it was sent records or an
	// error, until it names the partition again.
	armed bool
	// refusal is the answer to what the follower said, if it isn't records.
	refusal *wire.FetchedPartition
	// told is what the follower was told last, so that it isn't told again.
	toldHighWatermark, toldLogStart int64

	queued bool // on the session's ready list; session.mu guards it
}

func newSession(key sessionKey) *session {
	s := &session{key: key, turn: make(chan struct{}, 1), watches: map[wire.TopicPartition]*watch{}, wake: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s
}

// queue has the session look at a partition. urgent: there may be records for it,
// or it isn't led here any more; else only its high watermark has moved.
func (s *session) queue(w *watch, urgent bool) {
	s.mu.Lock()
	if !w.queued {
		w.queued = true
		s.ready = append(s.ready, w)
	} else if !urgent || s.urgent {
		s.mu.Unlock()
		return // whoever polls knows already
	}
	s.urgent = s.urgent || urgent
	s.mu.Unlock()
	s.signal()
}

func (s *session) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take empties the ready list.
func (s *session) take() []*watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.ready
	for _, w := range list {
		w.queued = false
	}
	s.ready, s.urgent = nil, false
	return list
}

// putBack puts partitions on the list again that were taken off it.
func (s *session) putBack(list []*watch) {
	if len(list) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range list {
		if !w.queued {
			w.queued = true
			s.ready = append(s.ready, w)
		}
	}
}

// state tells whether partitions may have news, whether there is any that can't
// wait, and whether the request with this Seq is no longer the one to answer.
func (s *session) state(seq int64) (some, urgent, passed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ready) > 0, s.urgent, s.last != seq
}

// name takes over what the follower says of one partition: it asks the rules, and
// has the poll look at it. Call it with the turn.
func (s *session) name(b *Broker, at *wire.FetchPartition, now time.Time) {
	w := s.watches[at.TopicPartition]
	p, refusal := b.replicaFor(at)
	if w != nil && w.p != p {
		s.forget(at.TopicPartition)
		w = nil
	}
	if w == nil {
		w = &watch{session: s, p: p}
		s.watches[at.TopicPartition] = w
		if p != nil {
			p.watches.add(w)
		}
	}
	// A high watermark that was told stays told; a log that was cut to begin anew
	// has to hear it again.
	if at.LeaderEpoch != w.at.LeaderEpoch || at.Offset < w.at.Offset {
		w.toldHighWatermark, w.toldLogStart = -1, -1
	}
	w.at, w.armed, w.refusal = *at, true, refusal
	if refusal == nil {
		w.refusal = b.fetched(p, s.life, at, now)
	}
	s.queue(w, true)
}

// forget drops a partition from the session. Call it with the turn.
func (s *session) forget(id wire.TopicPartition) {
	w := s.watches[id]
	if w == nil {
		return
	}
	delete(s.watches, id)
	w.armed = false
	if w.p == nil {
		return
	}
	w.p.watches.remove(w)
	w.p.water.Lock()
	if w.p.lead != nil && s.life != nil {
		w.p.lead.Detach(s.key.replica, s.life.Contact)
	}
	w.p.water.Unlock()
}

// restart forgets everything: a full request comes, or another life of the
// follower. Call it with the turn.
func (s *session) restart(life *replica.Session) {
	for id := range s.watches {
		s.forget(id)
	}
	s.take()
	s.life, s.answered = life, time.Time{}
}

// watches is the set of watches of one partition: as many as it has followers that
// fetch.
type watches struct {
	mu   sync.Mutex // guards changes of list
	list atomic.Pointer[[]*watch]
}

func (ws *watches) all() []*watch {
	if l := ws.list.Load(); l != nil {
		return *l
	}
	return nil
}

func (ws *watches) none() bool { return ws.list.Load() == nil }

func (ws *watches) add(w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	next := append(slices.Clone(ws.all()), w)
	ws.list.Store(&next)
}

func (ws *watches) remove(w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	next := slices.DeleteFunc(slices.Clone(ws.all()), func(o *watch) bool { return o == w })
	if len(next) == 0 {
		ws.list.Store(nil)
		return
	}
	ws.list.Store(&next)
}

// wake has the followers' polls look at the partition.
func (ws *watches) wake(urgent bool) {
	for _, w := range ws.all() {
		w.session.queue(w, urgent)
	}
}
