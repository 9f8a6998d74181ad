package replica

import (
	"fmt"
	"slices"
	"time"

	"highwater/replication/wire"
)

// Change is a proposal to the controller, with both epochs (R43).
type Change struct {
	LeaderEpoch    int32
	PartitionEpoch int32
	ISR            []wire.Member
	Recovered      bool   // ends the recovery after an unclean election (R79)
	Reason         string // for the log line
}

// Outcome of a Change.
type Outcome int

// Outcomes.
const (
	Committed Outcome = iota // the Meta given to Decided has it
	Rejected                 // a definite no: INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED (R45)
	Ambiguous                // whatever else: stay pending until newer metadata comes (R45)
)

// maximalISR is the committed ISR and everybody whom a proposal that may still be
// committed names. A proposal for a smaller ISR adds nobody, so that it never is
// smaller than either side (R26).
func (l *Leader) maximalISR() []int32 {
	if l.pending != nil && l.opt.Mutation.has(NoR26Shrink) {
		return ids(l.pending.ISR)
	}
	if l.opt.Mutation.has(NoR26) || l.pending == nil && len(l.doubt) == 0 {
		return l.meta.ISR
	}
	all := slices.Clone(l.meta.ISR)
	if l.pending != nil {
		all = union(all, ids(l.pending.ISR))
	}
	return union(all, l.doubt)
}

// MaximalISR is what the high watermark is computed over, for views and checks.
func (l *Leader) MaximalISR() []int32 { return slices.Clone(l.maximalISR()) }

func ids(members []wire.Member) []int32 {
	all := make([]int32, len(members))
	for i, m := range members {
		all[i] = m.Broker
	}
	return all
}

func union(a, b []int32) []int32 {
	for _, id := range b {
		if !slices.Contains(a, id) {
			a = append(a, id)
		}
	}
	return a
}

// HighWatermark is as far as all that is known lets it move: never back within
// the epoch, not while the committed ISR is below its least size, and only over
// what every member of the maximal ISR has said in this epoch that it holds
// (R25-R28). It also waits for a replica that is about to join, lest it never
// reach a high watermark that runs ahead of it (R29).
func (l *Leader) HighWatermark() int64 {
	if len(l.meta.ISR) < l.meta.MinInSync {
		return l.hw
	}
	hw := l.durable
	for _, id := range l.maximalISR() {
		if id == l.self {
			continue
		}
		f := l.follower(id)
		if f == nil || f.end < 0 {
			return l.hw
		}
		hw = min(hw, f.end)
	}
	for i := range l.followers {
		if f := &l.followers[i]; f.end < hw && l.mayJoin(f) {
			hw = f.end
		}
	}
	l.hw = max(l.hw, hw)
	return l.hw
}

// mayJoin tells that a replica outside the ISR could be in it as far as its
// broker and its lag go.
func (l *Leader) mayJoin(f *follower) bool {
	if f.brokerEpoch == 0 || slices.Contains(l.meta.ISR, f.broker) || l.lags(f) || l.meta.Recovering {
		return false
	}
	epoch, ok := l.opt.Alive(f.broker)
	return ok && epoch == f.brokerEpoch
}

// lags tells that a follower has been behind for too long: R41 counts time, never
// records.
func (l *Leader) lags(f *follower) bool { return l.now.Sub(f.lastCaughtUp(l.written)) > l.opt.LagMax }

// Change proposes a smaller or larger ISR if one is due and none is in flight
// (R41, R42); nil: none. Whoever asks sends it, and tells Decided.
func (l *Leader) Change(now time.Time) *Change {
	l.now = later(l.now, now)
	if l.pending != nil {
		return nil
	}
	isr, reason := l.wanted()
	if reason == "" {
		return nil
	}
	c := &Change{LeaderEpoch: l.meta.LeaderEpoch, PartitionEpoch: l.meta.PartitionEpoch, Recovered: l.meta.Recovering, Reason: reason}
	for _, id := range isr {
		c.ISR = append(c.ISR, wire.Member{Broker: id, Epoch: l.memberEpoch(id)})
	}
	l.pending, l.unsure = c, false
	return c
}

// wanted is the ISR to propose, and why; no reason: none.
func (l *Leader) wanted() ([]int32, string) {
	if len(l.doubt) > 0 {
		// A copy of the refused proposal may still arrive, and be taken then. The
		// same ISR, accepted, uses up the partition epoch that it was made for.
		return l.meta.ISR, "withdraws a refused proposal"
	}
	if l.meta.Recovering {
		return l.meta.ISR, "recovered after an unclean election"
	}
	var stay []int32
	reason := ""
	for _, id := range l.meta.ISR {
		if f := l.follower(id); f != nil && l.lags(f) {
			reason += fmt.Sprintf("broker %d has been behind for %v (its end %d, ours %d); ", id, l.behind(f), f.end, l.written)
		} else {
			stay = append(stay, id)
		}
	}
	if reason != "" {
		return stay, reason[:len(reason)-2]
	}
	for i := range l.followers {
		if f := &l.followers[i]; l.joins(f) {
			stay = append(stay, f.broker)
			reason += fmt.Sprintf("broker %d has caught up (its end %d, high watermark %d); ", f.broker, f.end, l.hw)
		}
	}
	if reason != "" {
		return stay, reason[:len(reason)-2]
	}
	return nil, ""
}

// behind is how long a follower has been behind, for people.
func (l *Leader) behind(f *follower) time.Duration {
	since := f.lastCaughtUp(l.written)
	if since.IsZero() {
		return 0
	}
	return l.now.Sub(since).Round(time.Millisecond)
}

// joins is R42: all that a replica must have shown before it is proposed for the
// ISR. That it doesn't lag keeps it from being thrown out again at once; it also
// implies the test of the epoch's start, nearly always, so the mutation leaves out
// both.
func (l *Leader) joins(f *follower) bool {
	m := l.opt.Mutation
	epoch, ok := l.opt.Alive(f.broker)
	if !ok || slices.Contains(l.meta.ISR, f.broker) {
		return false
	}
	if f.brokerEpoch == 0 {
		return m.has(NoR42FetchedInEpoch)
	}
	return (f.end >= l.leso && !l.lags(f) || m.has(NoR42LeaderEpochStart)) &&
		(f.end >= l.hw || m.has(NoR42HighWatermark)) &&
		(f.brokerEpoch == epoch || m.has(NoR42BrokerEpoch))
}

// memberEpoch is the life of a member that the leader speaks of: the one that
// fetched, where it knows one.
func (l *Leader) memberEpoch(broker int32) int64 {
	if f := l.follower(broker); f != nil && f.brokerEpoch != 0 && !l.opt.Mutation.has(NoR42BrokerEpoch) {
		return f.brokerEpoch
	}
	epoch, _ := l.opt.Alive(broker)
	return epoch
}

// Pending is the change in flight; nil: none.
func (l *Leader) Pending() *Change { return l.pending }

// Resend is the pending change when its answer settled nothing: it is to be sent
// again after a pause, unless metadata comes first. nil: nothing to send. Once
// committed, it can't be committed again: its partition epoch is used up.
func (l *Leader) Resend() *Change {
	if l.pending == nil || !l.unsure {
		return nil
	}
	l.unsure = false
	return l.pending
}

// Decided ends a Change that is still the pending one; any other is ignored (R45,
// R46). With Committed, m is all of the metadata from a state that has the change
// in it, or a later one, not a mixture of the answer and older metadata: with a
// least size from before the change the leader could commit what a member of the
// ELR lacks (R56). With the others m doesn't count.
//
// A refusal alone doesn't shrink the maximal ISR back: the proposal may have been
// sent twice, or have been copied on its way, and the other copy may find what it
// wants. The next Change makes sure that it can't.
func (l *Leader) Decided(c *Change, o Outcome, m Meta) {
	if c == nil || c != l.pending {
		return
	}
	switch o {
	case Committed:
		l.unsure = true // as long as m doesn't show it
		l.SetMeta(m)
	case Rejected:
		for _, id := range ids(c.ISR) {
			if !slices.Contains(l.meta.ISR, id) {
				l.doubt = union(l.doubt, []int32{id})
			}
		}
		l.pending, l.unsure = nil, false
	case Ambiguous:
		l.unsure = true
		if l.opt.Mutation.has(NoR45) {
			l.pending, l.unsure = nil, false
		}
	}
}
