package replica

import (
	"sync/atomic"
	"time"

	"highwater/replication/wire"
)

// Contact is when a follower's last valid fetch arrived, shared by all partitions
// of its fetch session: a fetch that leaves a partition out repeats what was said
// of it before. Partitions read it while the session writes it.
//
// When it came is not when it was sent: requests lie in the buffers of a leader that
// is paused, and are as old as the pause when it goes on. A follower sends its next
// request after it has the answer to the one before, so it was sent after that
// answer was given; that proves something about whom it followed then (R60).
type Contact struct{ last, proof atomic.Pointer[time.Time] }

// Touch tells of a request, after everything in it was judged.
func (c *Contact) Touch(now time.Time) { c.last.Store(&now) }

// Prove tells of a request that it was sent after that time, when the answer to the
// one before was given.
func (c *Contact) Prove(sentAfter time.Time) { c.proof.Store(&sentAfter) }

// Proof is a time after which the last request was sent; zero: not known.
func (c *Contact) Proof() time.Time {
	if t := c.proof.Load(); t != nil {
		return *t
	}
	return time.Time{}
}

// Last is when the last request came; zero: none yet.
func (c *Contact) Last() time.Time {
	if t := c.last.Load(); t != nil {
		return *t
	}
	return time.Time{}
}

// Session is one follower broker's fetcher in one of its lives. A Full request
// begins a new one, with a Contact of its own, so that partitions which it doesn't
// name aren't taken to be fetched.
type Session struct {
	Replica     int32
	BrokerEpoch int64
	Fetcher     int32
	Seq         int64 // of its last request
	Contact     *Contact
}

// Sessions are a broker's, as a leader: they tell the next request of a session
// from late, repeated and outlived ones, which must not count as acknowledgements
// (R13, R19). They outlive leader epochs.
type Sessions struct {
	mutation Mutation
	replicas map[int32]*replicaSessions
}

type replicaSessions struct {
	brokerEpoch int64              // the newest seen
	fetchers    map[int32]*Session // of that life
}

// NewSessions begins with none. mutation is 0 but in tests of the tests.
func NewSessions(mutation Mutation) *Sessions {
	return &Sessions{mutation: mutation, replicas: map[int32]*replicaSessions{}}
}

// Saw tells of a broker's life that was learned elsewhere: older ones end (R19).
func (s *Sessions) Saw(replica int32, brokerEpoch int64) { s.of(replica, brokerEpoch) }

func (s *Sessions) of(replica int32, brokerEpoch int64) *replicaSessions {
	r := s.replicas[replica]
	if r == nil || r.brokerEpoch < brokerEpoch {
		r = &replicaSessions{brokerEpoch: brokerEpoch, fetchers: map[int32]*Session{}}
		s.replicas[replica] = r
	}
	return r
}

// Judge finds the session that a request belongs to. A request with a code but OK
// must not be looked at further: CodeStaleBrokerEpoch, or CodeFetchSession when
// it isn't the session's next one.
//
// Seq grows over all sessions of one life, so that a late Full request begins
// none. A leader that restarts has forgotten all that; its leader epochs are then
// new ones.
func (s *Sessions) Judge(req *wire.FetchRequest) (*Session, wire.Code) {
	r := s.of(req.Replica, req.BrokerEpoch)
	old := r.fetchers[req.Fetcher]
	switch {
	case s.mutation.has(NoR19) && !req.Full && old != nil:
		return old, wire.OK
	case s.mutation.has(NoR19):
		return s.begin(r, req), wire.OK
	case req.BrokerEpoch < r.brokerEpoch:
		return nil, wire.CodeStaleBrokerEpoch
	case req.Full && (old == nil || req.Seq > old.Seq):
		return s.begin(r, req), wire.OK
	case !req.Full && old != nil && req.Seq == old.Seq+1:
		old.Seq = req.Seq
		return old, wire.OK
	}
	return nil, wire.CodeFetchSession
}

func (s *Sessions) begin(r *replicaSessions, req *wire.FetchRequest) *Session {
	n := &Session{Replica: req.Replica, BrokerEpoch: req.BrokerEpoch, Fetcher: req.Fetcher, Seq: req.Seq, Contact: &Contact{}}
	r.fetchers[req.Fetcher] = n
	return n
}
