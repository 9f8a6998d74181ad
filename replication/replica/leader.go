// Package replica is the rules that a replica follows, as plain state machines:
// events in, decisions out. It holds no lock, clock, disk or network; whoever
// owns a value calls it from one goroutine at a time.
package replica

import (
	"math"
	"slices"
	"time"

	"highwater/replication/wire"
)

// Meta is what the metadata says of a partition that this broker has a replica of.
// Its slices are never written to.
type Meta struct {
	LeaderEpoch    int32
	PartitionEpoch int32
	Replicas       []int32
	ISR            []int32
	MinInSync      int  // effective: at most the number of replicas (R27)
	Unclean        bool // unclean.leader.election.enable: R60 can't vouch then
	Recovering     bool // elected uncleanly and not yet recovered: the ISR may not grow (R79)
}

// Options are what a Leader keeps for all its life.
type Options struct {
	// LagMax is how long a member of the ISR may be behind (replica.lag.time.max).
	LagMax time.Duration
	// Alive tells a broker's epoch, 0 when it isn't registered, and whether it may
	// join an ISR: not fenced, not shutting down. It is called under whatever lock
	// the Leader is called under.
	Alive func(broker int32) (epoch int64, ok bool)
	// Mutation switches rules off, in tests of the tests.
	Mutation Mutation
}

// Local is the leader's own log at the moment of a call.
type Local struct {
	Start, Written, Durable int64
	Epochs                  []wire.EpochStart // ascending; constant; the newest is the leader's own epoch
}

// Leader is a leader's view of its partition in one leader epoch.
type Leader struct {
	self             int32
	opt              Options
	meta             Meta
	leso             int64 // where this leader epoch begins (LESO)
	hw               int64
	written, durable int64 // own ends
	now              time.Time
	followers        []follower // one for each other replica

	pending *Change // in flight, or with an answer that settled nothing
	unsure  bool    // pending's answer settled nothing: to be sent again
	// doubt are members that a proposal on this partition epoch named before it
	// was refused. A second copy of it may still be under way.
	doubt []int32
}

// follower is what the leader knows of another replica in this epoch (R5).
type follower struct {
	broker      int32
	brokerEpoch int64 // of its last valid fetch; 0: none in this leader epoch
	end         int64 // its durable end; -1: unknown
	logStart    int64
	contact     *Contact  // of the session whose requests repeat the last fetch; nil: none does
	lastFetch   time.Time // the last fetch that named this partition
	proof       time.Time // a time after which it sent one, without what contact adds
	caughtUp    time.Time // R23, without what contact adds; of this life, and since it left the ISR
	// At seenAt, the time of a fetch, the leader's end was seenEnd.
	seenAt  time.Time
	seenEnd int64
}

// NewLeader begins a leader epoch at log end leso, all of which is durable, with
// followers that nothing is known of: ISR members get the grace of having just
// caught up, others none (R5, R48, R49). hw is the replica's own high watermark.
func NewLeader(self int32, m Meta, leso, hw int64, now time.Time, o Options) *Leader {
	l := &Leader{self: self, opt: o, meta: m, leso: leso, hw: hw, written: leso, durable: leso, now: now}
	l.followers = l.followersOf(m.Replicas)
	for i := range l.followers {
		if slices.Contains(m.ISR, l.followers[i].broker) {
			l.followers[i].caughtUp = now
		}
	}
	return l
}

// followersOf keeps what is known of the replicas that stay.
func (l *Leader) followersOf(replicas []int32) []follower {
	next := make([]follower, 0, max(len(replicas)-1, 0))
	for _, id := range replicas {
		if id == l.self {
			continue
		}
		if f := l.follower(id); f != nil {
			next = append(next, *f)
		} else {
			next = append(next, follower{broker: id, end: -1})
		}
	}
	return next
}

// follower finds a replica's state; nil for self and strangers.
func (l *Leader) follower(broker int32) *follower {
	for i := range l.followers {
		if l.followers[i].broker == broker {
			return &l.followers[i]
		}
	}
	return nil
}

// SetMeta takes newer metadata of the same leader epoch; another leader epoch or
// an older partition epoch is ignored, an equal one is not: configs may differ
// (R53). A newer partition epoch ends the pending change: it is in it, or can't be
// committed any more (R45).
func (l *Leader) SetMeta(m Meta) {
	if m.LeaderEpoch != l.meta.LeaderEpoch || m.PartitionEpoch < l.meta.PartitionEpoch {
		return
	}
	if m.PartitionEpoch > l.meta.PartitionEpoch {
		l.pending, l.unsure, l.doubt = nil, false, nil
	}
	if !slices.Equal(m.Replicas, l.meta.Replicas) {
		l.followers = l.followersOf(m.Replicas)
	}
	for i := range l.followers {
		if f := &l.followers[i]; slices.Contains(l.meta.ISR, f.broker) && !slices.Contains(m.ISR, f.broker) {
			f.expelled()
		}
	}
	l.meta = m
}

// expelled has a replica that left the ISR show anew that it keeps up. What it had
// as a member would make the high watermark, and every producer, wait for one that
// was away for less than the lag limit and misses gigabytes (R29).
func (f *follower) expelled() { f.caughtUp, f.seenAt, f.seenEnd = time.Time{}, f.last(), math.MaxInt64 }

// Meta is the newest that the leader knows.
func (l *Leader) Meta() Meta { return l.meta }

// Grown tells that the leader's own log reaches so far. A follower that had all
// until now has caught up when its last fetch came (R23).
func (l *Leader) Grown(written, durable int64) {
	if written > l.written {
		for i := range l.followers {
			l.followers[i].settle(l.written)
		}
		l.written = written
	}
	l.durable = max(l.durable, durable)
}

// settle notes what the session's requests said of this partition since the last
// fetch that named it, during which the leader's end was end.
func (f *follower) settle(end int64) {
	last := f.last()
	if f.brokerEpoch == 0 || !last.After(f.seenAt) {
		return
	}
	switch {
	case f.end >= end:
		f.caughtUp = later(f.caughtUp, last)
	case f.end >= f.seenEnd:
		f.caughtUp = later(f.caughtUp, f.seenAt)
	}
	f.seenAt, f.seenEnd = last, end
}

// last is when the follower's last valid fetch came, be it that it named this
// partition or that it left it as it was.
func (f *follower) last() time.Time {
	if f.contact == nil {
		return f.lastFetch
	}
	return later(f.lastFetch, f.contact.Last())
}

// proved is a time at which the follower still followed this leader in its epoch.
func (f *follower) proved() time.Time {
	if f.contact == nil {
		return f.proof
	}
	return later(f.proof, f.contact.Proof())
}

// lastCaughtUp is R23's time for a leader whose log ends at end.
func (f *follower) lastCaughtUp(end int64) time.Time {
	if f.brokerEpoch != 0 && f.end >= end {
		return later(f.caughtUp, f.last())
	}
	return f.caughtUp
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Confirmed tells whether contact with every other member of the maximal ISR
// within the last `within` proves that nobody else leads (R60). It proves nothing
// when the ISR is smaller than its least size (a member of the ELR may lead), nor
// where unclean elections are allowed.
func (l *Leader) Confirmed(now time.Time, within time.Duration) bool {
	if l.meta.Unclean || len(l.meta.ISR) < max(2, l.meta.MinInSync) {
		return false
	}
	for _, id := range l.maximalISR() {
		if id == l.self {
			continue
		}
		f := l.follower(id)
		if f == nil || f.brokerEpoch == 0 || now.Sub(f.proved()) > within {
			return false
		}
	}
	return true
}

// KnowsEnd tells that the high watermark has passed the start of this epoch: only
// then may an end offset be told to clients (R51).
func (l *Leader) KnowsEnd() bool { return l.hw >= l.leso }

// FollowerView is what is known of a replica, for GET …/partitions/{p}.
type FollowerView struct {
	End          int64 // -1: no fetch in this epoch yet
	LogStart     int64
	LastCaughtUp time.Time // zero: never
	InSync       bool      // in the committed ISR
}

// View tells of one replica.
func (l *Leader) View(broker int32) FollowerView {
	v := FollowerView{End: -1, InSync: slices.Contains(l.meta.ISR, broker)}
	if f := l.follower(broker); f != nil {
		v.End, v.LogStart, v.LastCaughtUp = f.end, f.logStart, f.lastCaughtUp(l.written)
	}
	return v
}
