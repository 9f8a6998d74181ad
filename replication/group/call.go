package group

import (
	"time"

	"github.com/google/uuid"
)

// A Call is what one request asks of a group's coordinator: one of its fields is set.
// It travels as JSON when another broker is the coordinator. Every answer is given
// only when all that it rests on is committed (G1, G2).
type Call struct {
	Group string `json:"group"`
	// ID tells a call that is sent again from a new one: a coordinator that has done
	// it answers as before.
	ID uuid.UUID `json:"id"`
	// Metadata is the raft index of the metadata by which the front found topic ids:
	// the coordinator waits until it knows as much. Groups.Do sets it.
	Metadata uint64 `json:"metadata"`
	// late is when the front gives up, if it is another broker. From then on it isn't done.
	late time.Time

	Create      *Create      `json:"create,omitempty"`
	Leave       *Leave       `json:"leave,omitempty"`
	Subscribe   *Subscribe   `json:"subscribe,omitempty"`
	Assign      *Assign      `json:"assign,omitempty"`
	Member      *MemberQuery `json:"member,omitempty"`
	Begin       *Begin       `json:"begin,omitempty"`
	Deliver     *Deliver     `json:"deliver,omitempty"`
	End         *End         `json:"end,omitempty"`
	Commit      *Commit      `json:"commit,omitempty"`
	Committed   *Committed   `json:"committed,omitempty"`
	Seek        *Seek        `json:"seek,omitempty"`
	Describe    *Describe    `json:"describe,omitempty"`
	Reset       *Reset       `json:"reset,omitempty"`
	DeleteGroup *DeleteGroup `json:"delete_group,omitempty"`
}

// Answer to a Call: the field of what was asked, if it answers anything.
type Answer struct {
	Instance    string       `json:"instance,omitempty"` // Create
	Member      *MemberInfo  `json:"member,omitempty"`   // Member
	Poll        *PollState   `json:"poll,omitempty"`     // Begin
	Offsets     []OffsetInfo `json:"offsets,omitempty"`  // Committed; Reset: those from which it went
	Description *Description `json:"description,omitempty"`
}

// TopicPartition names a partition by topic id, so that a topic made anew is never
// taken for the old one (G7); Topic is its name, for people.
type TopicPartition struct {
	Topic     string    `json:"topic"`
	TopicID   uuid.UUID `json:"topic_id"`
	Partition int32     `json:"partition"`
}

// Where a member without a committed offset begins.
const (
	ResetEarliest = "earliest"
	ResetLatest   = "latest"
	ResetNone     = "none" // an error instead
)

// Options of a member. They stay as they are as long as the incarnation lives.
type Options struct {
	Format         string        `json:"format,omitempty"` // of the records; the handlers' matter
	Reset          string        `json:"reset"`            // ResetEarliest, …
	AutoCommit     bool          `json:"auto_commit"`
	MinBytes       int           `json:"min_bytes"`
	RequestTimeout time.Duration `json:"request_timeout"` // a poll's wait that doesn't name one
	SessionTimeout time.Duration `json:"session_timeout"` // without a request it expires
	Isolation      string        `json:"isolation"`
}

// Create makes a member; Errors: *NameTakenError.
type Create struct {
	Name     string  `json:"name,omitempty"`      // none: one is made up
	TakeOver bool    `json:"take_over,omitempty"` // fence a living one of this name
	Options  Options `json:"options"`
}

// Leave ends a member.
type Leave struct {
	Instance string `json:"instance"`
}

// Subscribe replaces a member's subscription; an empty one ends it, and assignments of
// its own too. Errors:
// *MixedError when the member has assignments of its own.
type Subscribe struct {
	Instance string   `json:"instance"`
	Topics   []string `json:"topics,omitempty"`
	Pattern  string   `json:"pattern,omitempty"` // RE2, anchored at both ends
}

// Assign replaces a member's own assignment, which the group doesn't balance.
// Errors: *MixedError when it has a subscription.
type Assign struct {
	Instance   string           `json:"instance"`
	Partitions []TopicPartition `json:"partitions"`
}

// MemberQuery asks what a member is.
type MemberQuery struct {
	Instance string `json:"instance"`
	// Answered asks for MemberInfo.Answered alone, for a Commit of All; it is no way to
	// learn what the member owns. Errors: *PollRunningError.
	Answered bool `json:"answered,omitempty"`
}

// MemberInfo is what a member is.
type MemberInfo struct {
	Instance    string           `json:"instance"`
	Options     Options          `json:"options"`
	Topics      []string         `json:"topics,omitempty"`
	Pattern     string           `json:"pattern,omitempty"`
	Assignments []TopicPartition `json:"assignments"` // owned now, or assigned by hand
	Manual      bool             `json:"manual"`
	// Answered is the poll that gave the member its last answer.
	Answered uint64 `json:"answered,omitempty"`
}

// Begin begins a poll: it is a sign of life, gives back what has to move to others,
// takes what is free, and commits what the poll before delivered when the member
// commits by itself. It waits, at most WaitMs, until the member owns something.
// Errors: *PollRunningError, *NotSubscribedError, with Token also ErrPollOver.
type Begin struct {
	Instance string `json:"instance"`
	// Join, if set, makes the member first if it doesn't live, and has it subscribe to
	// Topics: a whole consumer in one call. It reads from the committed offsets on.
	Join      *Join  `json:"join,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	Front     int32  `json:"front"` // the broker that reads for the member
	WaitMs    int64  `json:"wait_ms"`
	// Token, if set, is a poll under way, with nothing delivered, that asks anew for
	// what it owns.
	Token uint64 `json:"token,omitempty"`
}

// Join is who joins by polling.
type Join struct {
	Topics  []string `json:"topics"`
	Pattern string   `json:"pattern,omitempty"`
	Options Options  `json:"options"`
}

// PollState is a poll's place in its group.
type PollState struct {
	Instance   string     `json:"instance"`
	Token      uint64     `json:"token"`
	Generation int32      `json:"generation"`
	Options    Options    `json:"options"`
	Positions  []Position `json:"positions"`
	// Repeat: the request id was there before; the answer is again the records from
	// Positions to these offsets, partition by partition, and nothing else.
	Repeat []int64 `json:"repeat,omitempty"`
}

// Position is where a member reads on.
type Position struct {
	TopicPartition
	// Offset of the next record; -1: none is known, and the member's Reset says where
	// it begins. What is found is reported by End, or by Deliver.
	Offset int64 `json:"offset"`
	// LeaderEpoch of the record before, -1 if unknown: a log that was cut below it is
	// noticed (KIP-320).
	LeaderEpoch int32 `json:"leader_epoch"`
}

// Deliver says what a poll is about to answer, before the first byte of it is sent: a
// poll with a request id, which can be repeated then, and any poll that found a
// position by ResetLatest. What was found lasts from then on, so it is best told at
// once, with To equal to From, before waiting; a second Deliver may follow. Errors:
// ErrPollOver: nothing may be delivered; Renew tells whether the poll can go on.
type Deliver struct {
	Instance string     `json:"instance"`
	Token    uint64     `json:"token"`
	From     []Position `json:"from"`
	To       []Position `json:"to"`
}

// End ends a poll. To are the positions behind what was delivered, of each partition
// that it began to read; they count only when the answer was Written to its end. From
// a partition whose position was found by ResetLatest and not told by Deliver nothing
// may have been delivered. A poll that is over or unknown ends without an error.
type End struct {
	Instance string     `json:"instance"`
	Token    uint64     `json:"token"`
	Written  bool       `json:"written"`
	To       []Position `json:"to"`
}

// Commit makes offsets last. All or nothing. Errors: *FencedError for a partition
// that the member doesn't own; with All *PollRunningError, *PositionsLostError; without
// an instance *ActiveError.
type Commit struct {
	Instance string `json:"instance,omitempty"`
	// All commits what the member's answers have delivered.
	All bool `json:"all,omitempty"`
	// Answered, if set, is the member's last answer when it asked for that
	// (MemberInfo.Answered). A commit of All that comes after a later one is refused: who
	// sent it hasn't seen what it would commit. Errors: *PositionsLostError.
	Answered *uint64        `json:"answered_poll,omitempty"`
	Offsets  []CommitOffset `json:"offsets,omitempty"`
}

// CommitOffset is one partition's committed offset: that of the next record to read.
type CommitOffset struct {
	Position
	Metadata string `json:"metadata,omitempty"`
}

// Committed asks for committed offsets; without partitions: all there are.
type Committed struct {
	Instance   string           `json:"instance,omitempty"` // must live, if set
	Partitions []TopicPartition `json:"partitions,omitempty"`
}

// OffsetInfo is a committed offset.
type OffsetInfo struct {
	CommitOffset
	Time time.Time `json:"time"`
}

// Seek moves a member's positions. Errors: *UnassignedError; then none has moved.
type Seek struct {
	Instance string     `json:"instance"`
	To       []Position `json:"to"`
}

// Describe asks what a group is.
type Describe struct{}

// States of a group.
const (
	StateEmpty       = "empty"       // no members
	StateStable      = "stable"      // everybody owns what is theirs
	StateReconciling = "reconciling" // partitions are on their way
)

// Description is what a group is.
type Description struct {
	Group       string       `json:"group"`
	State       string       `json:"state"`
	Generation  int32        `json:"generation"`
	Coordinator int32        `json:"coordinator"`
	Members     []MemberInfo `json:"members"`
}

// Reset sets a group's committed offsets from outside. Errors: *ActiveError.
type Reset struct {
	Offsets []CommitOffset `json:"offsets"`
	DryRun  bool           `json:"dry_run"`
}

// DeleteGroup forgets a group. Errors: *ActiveError, *UnknownGroupError.
type DeleteGroup struct{}
