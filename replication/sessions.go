package replication

import (
	"context"
	"sync"

	"highwater/replication/replica"
	"highwater/replication/wire"
)

// sessions are all fetch sessions that this broker answers as a leader: one for
// each follower broker and fetcher of it.
type sessions struct {
	mu    sync.Mutex // guards what follows
	lives *replica.Sessions
	byKey map[sessionKey]*session
}

func newSessions() *sessions {
	return &sessions{lives: replica.NewSessions(0), byKey: map[sessionKey]*session{}}
}

// enter finds the session of a request, and waits for the turn to answer it; the
// request before, if it still waits for news, gives it up. Not OK: the request
// isn't the session's next one. knownEpoch is the follower's broker epoch in the
// metadata, 0 if there is none.
func (ss *sessions) enter(ctx context.Context, req *wire.FetchRequest, knownEpoch int64) (*session, wire.Code) {
	key := sessionKey{req.Replica, req.Fetcher}
	ss.mu.Lock()
	if knownEpoch > 0 {
		ss.lives.Saw(req.Replica, knownEpoch)
	}
	life, code := ss.lives.Judge(req)
	if code != wire.OK {
		ss.mu.Unlock()
		return nil, code
	}
	s := ss.byKey[key]
	if s == nil {
		s = newSession(key)
		ss.byKey[key] = s
	}
	s.mu.Lock()
	s.last = req.Seq
	s.mu.Unlock()
	ss.mu.Unlock()
	s.signal()
	select {
	case <-s.turn:
	case <-ctx.Done():
		return nil, wire.CodeFetchSession
	}
	if !s.begin(life, req.Seq) {
		s.leave()
		return nil, wire.CodeFetchSession
	}
	return s, wire.OK
}

// begin begins a request of a life. false: it is not to be looked at. Requests come
// to their turn in another order than they were judged in, now and then: what an
// outlived one says of a log was true before, and may be no more (R13). And where
// the one before was given up before its turn, what it said is lost. Call it with
// the turn.
func (s *session) begin(life *replica.Session, seq int64) bool {
	if s.life == life {
		return s.applied == seq-1
	}
	if old := s.life; old != nil && (old.BrokerEpoch > life.BrokerEpoch || old.BrokerEpoch == life.BrokerEpoch && s.applied >= seq) {
		return false
	}
	s.restart(life)
	return true
}

// leave gives the turn back.
func (s *session) leave() { s.turn <- struct{}{} }
