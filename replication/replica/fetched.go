package replica

import (
	"slices"
	"time"

	"highwater/replication/wire"
)

// Fetch is what one fetch says of one partition.
type Fetch struct {
	Replica     int32
	BrokerEpoch int64
	LeaderEpoch int32
	Offset      int64 // the follower's durable end
	LastEpoch   int32 // as LastEpoch tells
	LogStart    int64
	Contact     *Contact  // of the session that it came in; nil: it stands for itself only
	SentAfter   time.Time // see Contact; zero: not known
}

// Verdict is a leader's decision on a fetch.
type Verdict struct {
	Code      wire.Code      // not OK: refused, and nothing was learned from it
	Diverging *wire.EpochEnd // the follower must cut its log first; nothing was learned
	// Deposed: the fetch carries a newer leader epoch: whoever sent it knows of a newer leader (R63).
	Deposed bool
}

// Fetched judges a follower's fetch (R19-R22) and notes what it proves (R23). log
// is the leader's from before the read that answers it. The session's Contact is
// touched after this, not before.
//
// A partition that was refused or diverges is out of its session's silence: the
// follower's next request counts for it only when it is judged again, by this.
func (l *Leader) Fetched(f Fetch, log Local, now time.Time) Verdict {
	l.now = later(l.now, now)
	l.Grown(log.Written, log.Durable)
	r := l.follower(f.Replica)
	if r == nil {
		return Verdict{Code: wire.CodeNotReplica}
	}
	if f.BrokerEpoch < r.brokerEpoch && !l.opt.Mutation.has(NoR19) {
		return Verdict{Code: wire.CodeStaleBrokerEpoch}
	}
	if v := l.judge(f, log); v.Code != wire.OK || v.Diverging != nil {
		r.detach()
		return v
	}
	if f.BrokerEpoch != r.brokerEpoch {
		// The first fetch of this life, in this leader epoch: what a former life
		// had counts no more.
		r.brokerEpoch, r.contact, r.proof, r.seenAt, r.seenEnd = f.BrokerEpoch, nil, time.Time{}, now, log.Written
		if !slices.Contains(l.meta.ISR, f.Replica) {
			r.caughtUp = time.Time{}
		}
	} else if r.last().Before(now) {
		r.settle(log.Written)
	}
	switch {
	case f.Offset >= log.Written:
		r.caughtUp = later(r.caughtUp, now)
	case f.Offset >= r.seenEnd:
		r.caughtUp = later(r.caughtUp, r.seenAt)
	}
	r.proof = later(r.proved(), f.SentAfter)
	r.end, r.logStart, r.contact, r.lastFetch = f.Offset, f.LogStart, f.Contact, now
	r.seenAt, r.seenEnd = now, log.Written
	return Verdict{}
}

// judge is R20-R22: may the leader take the fetch for an acknowledgement of its
// own log below the offset?
func (l *Leader) judge(f Fetch, log Local) Verdict {
	if !l.opt.Mutation.has(NoR20) {
		switch {
		case f.LeaderEpoch < l.meta.LeaderEpoch:
			return Verdict{Code: wire.CodeFencedLeaderEpoch}
		case f.LeaderEpoch > l.meta.LeaderEpoch:
			return Verdict{Code: wire.CodeUnknownLeaderEpoch, Deposed: true}
		}
	}
	if f.Offset < log.Start {
		return Verdict{Code: wire.CodeOffsetOutOfRange}
	}
	if f.LastEpoch >= 0 {
		if f.Offset == log.Start && f.LogStart < f.Offset && f.LastEpoch < log.firstEpoch() {
			// Its log ends where this one begins, in an epoch that is forgotten here:
			// whether it is the same as what was here can't be known any more, and a
			// high watermark would call it committed. It has to go (R90).
			return Verdict{Code: wire.CodeOffsetOutOfRange}
		}
		if end := EndOfEpoch(log.Epochs, f.LastEpoch, log.Written); end.Epoch < f.LastEpoch || end.EndOffset < f.Offset {
			return Verdict{Diverging: &end}
		}
	}
	if f.Offset > log.Written { // only an empty log that starts beyond this one's end comes so far
		return Verdict{Code: wire.CodeOffsetOutOfRange}
	}
	return Verdict{}
}

// firstEpoch is the epoch of the log's beginning.
func (l *Local) firstEpoch() int32 {
	if len(l.Epochs) == 0 {
		return 0
	}
	return l.Epochs[0].Epoch
}

// Detach tells that the requests of a session say nothing of this partition any
// more: the follower has forgotten it there.
func (l *Leader) Detach(broker int32, c *Contact) {
	if f := l.follower(broker); f != nil && f.contact == c {
		f.detach()
	}
}

// detach keeps the time of the last valid fetch as it is now.
func (f *follower) detach() { f.lastFetch, f.proof, f.contact = f.last(), f.proved(), nil }
