package wire

import "encoding/json"

// Messages between a broker that clients of a consumer group came to and the
// group's coordinator. They go one hop, as forward.go's.

// GroupCall has a coordinator do one call. Call and Answer are of the groups' room.
type GroupCall struct {
	Version int `json:"version"`
	// TimeoutMs is what is left of the client's time.
	TimeoutMs int64           `json:"timeout_ms"`
	Call      json.RawMessage `json:"call"`
}

// GroupAnswer is what came of it.
type GroupAnswer struct {
	Version int             `json:"version"`
	Answer  json.RawMessage `json:"answer,omitempty"`
	Error   *Error          `json:"error,omitempty"`
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
