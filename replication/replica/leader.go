// Package replica is the rules that a replica follows, as plain state machines:
// events in, decisions out. It holds no lock, clock, disk or network; whoever
// owns a value calls it from one goroutine at a time.
package replica

import (
	"time"

	"highwater/replication/wire"
)

// Meta is what the metadata says of a partition that this broker has a replica of.
type Meta struct {
	LeaderEpoch    int32
	PartitionEpoch int32
	Replicas       []int32
	ISR            []int32
	MinInSync      int  // effective: at most the number of replicas (R27)
	Unclean        bool // unclean.leader.election.enable: R60 can't vouch then
}

// Contact is when a follower's last valid fetch arrived, shared by all partitions
// of its fetch session: a fetch that leaves a partition out repeats what was said
// of it before.
type Contact struct{ Last time.Time }

// Fetch is what one fetch says of one partition.
type Fetch struct {
	Replica     int32
	BrokerEpoch int64
	LeaderEpoch int32
	Offset      int64 // the follower's durable end
	LastEpoch   int32
	LogStart    int64
	Contact     *Contact // of the session that it came in
}

// Verdict is a leader's decision on a fetch.
type Verdict struct {
	Code      wire.Code      // not OK: refused, and no state was touched
	Diverging *wire.EpochEnd // the follower must cut its log first; no state was touched
	// Deposed: the fetch carries a newer leader epoch: whoever sent it knows of a newer leader (R63).
	Deposed bool
}

// Local is the leader's own log at the moment of a call.
type Local struct {
	Start, Written, Durable int64
	Epochs                  []wire.EpochStart // ascending; constant
}

// Change is a proposal to the controller, with both epochs (R43).
type Change struct {
	LeaderEpoch    int32
	PartitionEpoch int32
	ISR            []wire.Member
	Reason         string // for the log line
}

// Outcome of a Change.
type Outcome int

// Outcomes.
const (
	Committed Outcome = iota // Meta in Decided is the new state
	Rejected                 // a definite no: INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED (R45)
	Ambiguous                // whatever else: stay pending until newer metadata comes (R45)
)

// Leader is a leader's view of its partition in one leader epoch.
type Leader struct{}

// NewLeader begins a leader epoch at log end leso, with followers that nothing is
// known of: ISR members get the grace of having just caught up, others none
// (R5, R48, R49). hw is the replica's own high watermark.
func NewLeader(self int32, m Meta, leso, hw int64, now time.Time) *Leader { panic("") }

// SetMeta takes newer metadata of the same leader epoch; an older partition epoch
// is ignored (R53). It ends a pending change that m includes or overtakes (R45).
func (l *Leader) SetMeta(m Meta) { panic("") }

// Grown tells that the leader's own log reaches so far. A follower that had all
// until now has caught up when its last fetch came (R23).
func (l *Leader) Grown(written, durable int64) { panic("") }

// Fetched judges a follower's fetch (R19-R22) and notes what it proves (R23).
func (l *Leader) Fetched(f Fetch, log Local, now time.Time) Verdict { panic("") }

// HighWatermark is as far as all that is known lets it move: never back within
// the epoch, not while the ISR is below its least size, and over the maximal ISR
// (R25-R29).
func (l *Leader) HighWatermark() int64 { panic("") }

// Change proposes a smaller or larger ISR if one is due and none is in flight
// (R41, R42); nil: none. lagMax bounds how long a member may be behind. alive
// tells a broker's current epoch, and whether it may be in an ISR: registered,
// not fenced, not shutting down.
func (l *Leader) Change(now time.Time, lagMax time.Duration, alive func(broker int32) (epoch int64, ok bool)) *Change {
	panic("")
}

// Decided ends a Change that is still the pending one (R45, R46).
func (l *Leader) Decided(c *Change, o Outcome, m Meta) { panic("") }

// Confirmed tells whether contact with every other member of the maximal ISR
// within the last `within` proves that nobody else leads (R60).
func (l *Leader) Confirmed(now time.Time, within time.Duration) bool { panic("") }

// KnowsEnd tells that the high watermark has passed the start of this epoch: only
// then may an end offset be told to clients (R51).
func (l *Leader) KnowsEnd() bool { panic("") }

// FollowerView is what is known of a replica, for GET …/partitions/{p}.
type FollowerView struct {
	End          int64 // -1: no fetch in this epoch yet
	LogStart     int64
	LastCaughtUp time.Time // zero: never
	InSync       bool      // in the committed ISR
}

// View tells of one replica.
func (l *Leader) View(broker int32) FollowerView { panic("") }
