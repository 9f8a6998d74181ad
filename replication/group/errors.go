package group

import (
	"errors"
	"fmt"
	"time"
)

// ErrNoCoordinator: nobody coordinates the group right now, or whoever does is still
// loading it (G2). Nothing was done; it passes.
var ErrNoCoordinator = errors.New("group: no coordinator right now")

// ErrUnknownOutcome: the call may have been done, or may be yet.
var ErrUnknownOutcome = errors.New("group: the coordinator's answer is missing")

// UnknownInstanceError: there is no such member.
type UnknownInstanceError struct {
	Group, Instance string
	// Expired is how long the member was silent when it was removed, 0: it never was
	// there, or left.
	Expired time.Duration
	Left    bool
}

func (e *UnknownInstanceError) Error() string {
	switch {
	case e.Expired > 0:
		return fmt.Sprintf("group: %s of group %s expired after %v", e.Instance, e.Group, e.Expired)
	case e.Left:
		return fmt.Sprintf("group: %s has left group %s", e.Instance, e.Group)
	}
	return fmt.Sprintf("group: %s never was in group %s", e.Instance, e.Group)
}

// UnknownGroupError: nobody has ever joined it or committed for it, or it was deleted.
type UnknownGroupError struct{ Group string }

func (e *UnknownGroupError) Error() string { return "group: no group " + e.Group }

// NameTakenError: a member of this name is alive.
type NameTakenError struct{ Group, Name string }

func (e *NameTakenError) Error() string {
	return fmt.Sprintf("group: %s is alive in group %s", e.Name, e.Group)
}

// MixedError: subscription and own assignments exclude each other.
type MixedError struct{ Group, Instance string }

func (e *MixedError) Error() string {
	return fmt.Sprintf("group: %s of group %s mixes subscription and assignments", e.Instance, e.Group)
}

// NotSubscribedError: the member has neither subscription nor assignments.
type NotSubscribedError struct{ Group, Instance string }

func (e *NotSubscribedError) Error() string {
	return fmt.Sprintf("group: %s of group %s has nothing to read", e.Instance, e.Group)
}

// FencedError: a newer incarnation of the member has taken over, or the partition
// isn't its (G3, G4). Nothing was changed.
type FencedError struct {
	Group, Instance string
	Generation      int32
	// Newest is the incarnation that took over; "": the partition moved.
	Newest    string
	Partition *TopicPartition
}

func (e *FencedError) Error() string {
	if e.Partition != nil {
		return fmt.Sprintf("group: %s of group %s doesn't own %s-%d in generation %d", e.Instance, e.Group, e.Partition.Topic, e.Partition.Partition, e.Generation)
	}
	return fmt.Sprintf("group: %s of group %s was taken over by %s", e.Instance, e.Group, e.Newest)
}

// PollRunningError: another poll of the member hasn't ended.
type PollRunningError struct{ Group, Instance string }

func (e *PollRunningError) Error() string {
	return fmt.Sprintf("group: %s of group %s is polling", e.Instance, e.Group)
}

// UnassignedError: the member doesn't read the partition.
type UnassignedError struct {
	Group, Instance string
	Partition       TopicPartition
	// Pending: it has a subscription and owns nothing yet.
	Pending bool
}

func (e *UnassignedError) Error() string {
	return fmt.Sprintf("group: %s-%d isn't assigned to %s of group %s", e.Partition.Topic, e.Partition.Partition, e.Instance, e.Group)
}

// ActiveError: the group has members.
type ActiveError struct {
	Group   string
	Members int
}

func (e *ActiveError) Error() string {
	return fmt.Sprintf("group: group %s has %d active members", e.Group, e.Members)
}

// TooManyError: a limit of the coordinator's memory is reached.
type TooManyError struct {
	What  string
	Limit int
}

func (e *TooManyError) Error() string { return fmt.Sprintf("group: more than %d %s", e.Limit, e.What) }

// ErrPollOver: the poll is over: its front was silent too long, or a newer poll took
// its place. Nothing may be delivered by it any more.
var ErrPollOver = errors.New("group: the poll is over")

// PositionsLostError: what the member's answers delivered isn't known any more, since the
// coordinator changed or a broker died with the answer, or a later answer than the one
// that the commit is about has been given (Commit.Answered). Nothing was committed.
// Records come again with the next poll; a commit that names offsets works.
type PositionsLostError struct{ Group, Instance string }

func (e *PositionsLostError) Error() string {
	return fmt.Sprintf("group: what %s of group %s was delivered is no longer known", e.Instance, e.Group)
}

// InvalidError: a call that no group could do.
type InvalidError struct{ Reason string }

func (e *InvalidError) Error() string { return "group: " + e.Reason }
