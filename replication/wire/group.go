package wire

import "encoding/json"

// Messages between a broker that clients of a consumer group came to and the
// group's coordinator. They go one hop, as forward.go's.

// GroupCall has a coordinator do one call. Call and Answer are of the groups' room.
type GroupCall struct {
	Version int `json:"version"`
	// TimeoutMs is what is left of the client's time.
	TimeoutMs int64 `json:"timeout_ms"`
	// Clock is what the sender was told of the receiver's clock, empty: nothing yet. It
	// tells whether the call comes when its sender has given it up. nil: never mind.
	Clock *GroupClock     `json:"clock,omitempty"`
	Call  json.RawMessage `json:"call"`
}

// GroupClock is what a coordinator's clock shows.
type GroupClock struct {
	// ID is the coordinator's life: another has another clock.
	ID   string `json:"id"`
	AtUs int64  `json:"at_us"`
	// AgeUs, in a call, is how long ago the sender heard it.
	AgeUs int64 `json:"age_us,omitempty"`
}

// GroupAnswer is what came of it.
type GroupAnswer struct {
	Version int             `json:"version"`
	Answer  json.RawMessage `json:"answer,omitempty"`
	Error   *Error          `json:"error,omitempty"`
	Clock   *GroupClock     `json:"clock,omitempty"`
	// Late: the call wasn't done, for all that the coordinator can tell its sender has
	// given it up. Who hasn't sends it again with the Clock of this answer.
	Late bool `json:"late,omitempty"`
}

// GroupBeat tells a coordinator which polls of the sender are under way. It is a
// long-poll: the answer comes when there is news for one of them.
type GroupBeat struct {
	Version int `json:"version"`
	// Front is the sender.
	Front     int32        `json:"front"`
	MaxWaitMs int64        `json:"max_wait_ms"`
	Groups    []GroupPolls `json:"groups"`
}

// GroupPolls is polls of one group.
type GroupPolls struct {
	Group string      `json:"group"`
	Polls []GroupPoll `json:"polls"`
}

// GroupPoll is a poll of a member.
type GroupPoll struct {
	Instance string `json:"instance"`
	Token    uint64 `json:"token"`
}

// GroupBeatAnswer names the polls that have to look again: what they may read has
// changed or has to, or they are over.
type GroupBeatAnswer struct {
	Version int          `json:"version"`
	Changed []GroupPolls `json:"changed,omitempty"`
}

// GroupList asks a broker for all groups that it coordinates.
type GroupList struct {
	Version int `json:"version"`
	// Partitions of the groups' topic that the sender takes the receiver to lead.
	Partitions []int32 `json:"partitions"`
}

// GroupListAnswer lists them, as the groups' room has them.
type GroupListAnswer struct {
	Version int             `json:"version"`
	Groups  json.RawMessage `json:"groups,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}
