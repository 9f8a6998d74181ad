package group

import (
	"errors"
	"time"
)

// Limits of a group, so that none takes the coordinator's memory.
const (
	maxMembers    = 1_000  // alive
	maxGone       = 1_000  // that left or expired, and are remembered
	maxPartitions = 10_000 // that one subscription or assignment may come to
	maxOffsets    = 50_000 // committed
	maxMetadata   = 4_096  // bytes of a committed offset's metadata
	maxName       = 255    // bytes of a group's or member's name
	maxTopics     = 1_000  // names in a subscription
	maxPattern    = 1_000  // bytes
)

const (
	// pollLife is how long a poll lives after its front's last beat.
	pollLife = 3 * time.Second
	// endWait is how long a call that got *PollRunningError waits for the running
	// poll's End, which may be on its way behind an answer that the client has.
	endWait = 500 * time.Millisecond
)

var (
	// errWait: the member owns nothing yet. The same call is to be made again when
	// anything of the group has changed; when its time is over with WaitMs 0, or an
	// End with its token (callToken).
	errWait = errors.New("group: nothing to own yet")
	// errBehind: the metadata is older than what the group or the call was told. The
	// same call is to be made again with newer metadata.
	errBehind = errors.New("group: metadata is behind")
)

// state is one group: what lasts of it, which changes by records only, and what is
// soft. It knows no clock, lock or goroutine.
type state struct {
	group string
}

func newState(group string) *state { return &state{group: group} }

// apply takes a record of the log. It is the only thing that changes what lasts.
// Records may come more than once and, of one key, each but the last may be missing.
func (s *state) apply(rec record) error { return nil }

// do decides a call. The records, also those that come with an error, are applied
// already and have to be appended in one batch before anybody is told.
func (s *state) do(now time.Time, topics Topics, call *Call) (*Answer, []record, error) {
	return nil, nil, ErrNoCoordinator
}

// tick does what is due: silent members expire, polls without beats are over,
// partitions go where they belong. It is called at next, after a load, and when
// the metadata has changed.
func (s *state) tick(now time.Time, topics Topics) []record { return nil }

// next is when tick has something to do; zero: not before something else happens.
func (s *state) next() time.Time { return time.Time{} }

// exists tells whether the group is anything: somebody joined it or committed for it.
func (s *state) exists() bool { return false }

// listing is the group in a list; Coordinator is left to the caller.
func (s *state) listing() Listing { return Listing{} }

// callToken is the token that the poll begun by a call has.
func callToken(call *Call) uint64 { return 0 }

// fate of a poll.
type fate byte

const (
	pollGoesOn  fate = iota
	pollChanged      // what its member owns has changed or has to: Renew if nothing is delivered
	pollOver
)

// beat is a sign of life of a poll from its front.
func (s *state) beat(now time.Time, instance string, token uint64) fate { return pollOver }

// poll tells the fate of a poll and is no sign of life.
func (s *state) poll(instance string, token uint64) fate { return pollOver }

// frontGone ends the polls of a broker that is fenced.
func (s *state) frontGone(front int32) {}
