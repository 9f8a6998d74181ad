package controller

import (
	"slices"
	"sync"
	"time"

	"highwater/replication/wire"
)

// sessions is what the quorum's leader remembers of the brokers' signs of life in
// one term (R70). It is soft: the next leader starts over and grants every broker
// a session anew, so that nobody is fenced while it may still count on its last
// answered heartbeat (R59). Times are the clock's, which never jumps.
type sessions struct {
	timeout time.Duration

	mu      sync.Mutex // guards the fields below
	brokers map[int32]*session
	looked  time.Duration // when expired was asked last
}

// session is of one broker in one of its lives.
type session struct {
	epoch   int64
	last    time.Duration // heard, or granted at the beginning of the term
	heard   bool          // in this term
	left    bool          // said that its process ends
	applied uint64        // metadata index, as it last said
	lag     lag
}

// lag watches whether somebody's metadata keep up (R99).
type lag struct {
	known  bool          // something was observed
	target uint64        // was the newest index at since
	since  time.Duration // the moment
	newest uint64        // index that the last observation told of
}

// note takes a new observation: who is meant has applied so much, and the newest
// is so much.
func (l *lag) note(applied, newest uint64, now time.Duration) {
	l.newest = newest
	if applied >= l.target || !l.known {
		l.known, l.target, l.since = true, newest, now
	}
}

// over tells that what was the newest index longer ago than limit isn't applied.
func (l *lag) over(applied uint64, now, limit time.Duration) bool {
	return l.known && applied < l.target && now-l.since > limit
}

// newSessions grants every broker a fresh session, which began silence ago: so
// long at least no leader can have answered a heartbeat. An answer takes a majority
// that hears the leader, and an election one that has not heard it for that long.
// (A voter that restarted within it doesn't remember, and nor does one that was
// told to stand: that is why silence must be less than what a lease falls short of
// the timeout by, see Controller.silence.)
func newSessions(timeout, silence time.Duration, s *State, now time.Duration) *sessions {
	out := &sessions{timeout: timeout, brokers: map[int32]*session{}, looked: now}
	for id, b := range s.Brokers {
		out.brokers[id] = &session{epoch: b.Epoch, last: now - silence}
	}
	return out
}

// of returns the broker's session; a later life begins a new one.
func (s *sessions) of(broker int32, epoch int64, now time.Duration) *session {
	b := s.brokers[broker]
	if b == nil || b.epoch < epoch {
		b = &session{epoch: epoch, last: now}
		s.brokers[broker] = b
	}
	return b
}

// beat notes a heartbeat of the broker's present life. newest is the newest index.
func (s *sessions) beat(hb *wire.Heartbeat, newest uint64, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.of(hb.Broker, hb.BrokerEpoch, now)
	if b.epoch != hb.BrokerEpoch {
		return
	}
	b.last, b.heard, b.applied, b.left = now, true, hb.MetadataIndex, hb.Leaving
	b.lag.note(hb.MetadataIndex, newest, now)
}

// registered begins the session of a new life.
func (s *sessions) registered(broker int32, epoch int64, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.of(broker, epoch, now)
	b.heard = true // the registration is a sign of life
}

// alive tells that the broker's process was heard in this term, so lately that it
// must be taken for alive (R67).
func (s *sessions) alive(broker int32, epoch int64, now time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.brokers[broker]
	return b != nil && b.epoch == epoch && b.heard && !b.left && now-b.last <= s.timeout
}

// behind tells that the broker's metadata are too old for it to serve (R99).
func (s *sessions) behind(broker int32, now time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.brokers[broker]
	return b != nil && b.lag.over(b.applied, now, s.timeout)
}

// expired lists the brokers that are to be fenced: silent for too long, or behind
// for too long. every is how often it is asked: when it wasn't for longer, it was
// this process that stood still, and everybody gets that time on top (F29).
func (s *sessions) expired(state *State, now, every time.Duration) []*Broker {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stall := now - s.looked - every; stall > every {
		for _, b := range s.brokers {
			b.last += stall
			b.lag.since += stall
		}
	}
	s.looked = now
	var out []*Broker
	for _, id := range state.BrokerIDs() {
		broker := state.Brokers[id]
		if broker.Fenced {
			continue
		}
		b := s.of(id, broker.Epoch, now)
		if now-b.last > s.timeout || b.left || b.lag.over(b.applied, now, s.timeout) {
			out = append(out, broker)
		}
	}
	return out
}

// allApplied tells whether all unfenced brokers that go on serving, but for one,
// have said that they have the metadata at index (R74).
func (s *sessions) allApplied(state *State, index uint64, but int32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !slices.ContainsFunc(state.BrokerIDs(), func(id int32) bool {
		broker, b := state.Brokers[id], s.brokers[id]
		return id != but && !broker.Fenced && !broker.Draining && (b == nil || b.applied < index)
	})
}
