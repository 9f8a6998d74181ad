package wire

import (
	"encoding/json"
	"errors"

	"github.com/google/uuid"
)

// ErrNotSent: no byte of the request can have reached the peer (its port refused
// the connection, its name has no address, …), or it refused to look at it: so
// sending it again is safe. Every other error of a call leaves open whether the peer acted on it.
var ErrNotSent = errors.New("wire: the request was not sent")

// CodeOutcomeUnknown: a change was proposed, and whether it is made isn't known.
const CodeOutcomeUnknown Code = "REQUEST_TIMED_OUT"

// Propose asks the quorum's leader to have the quorum agree on a command, or with
// AtLeast any broker how far its metadata have come.
type Propose struct {
	Version   int    `json:"version"`
	ClusterID string `json:"cluster_id"`
	// Command is the controller's own encoding; none asks how far the quorum has come.
	Command json.RawMessage `json:"command,omitempty"`
	// AtLeast, if set, has whoever is asked answer once it knows the metadata at this index:
	// Index is then where it is. There is no Command, and it need not lead.
	AtLeast uint64 `json:"at_least,omitempty"`
	// TimeoutMs is what is left of the request's time. A clock is not sent: those
	// of two machines differ.
	TimeoutMs int64 `json:"timeout_ms"`
}

// ProposeAnswer answers a Propose.
type ProposeAnswer struct {
	// Code is OK when the command was applied: Result or Error is what came of it.
	// CodeNotController: it was not proposed, and LeaderURL tells who may do it.
	// CodeOutcomeUnknown: it was proposed, and its fate isn't known.
	Code Code `json:"code,omitempty"`
	// Detail explains a Code that isn't OK.
	Detail    string          `json:"detail,omitempty"`
	LeaderURL string          `json:"leader_url,omitempty"` // empty: not known
	Index     uint64          `json:"index,omitempty"`      // raft index at which it was applied
	Result    json.RawMessage `json:"result,omitempty"`
	Error     json.RawMessage `json:"error,omitempty"`
}

// Join asks the quorum's leader to make the sender a member that gets the
// metadata, or tells it that the sender still wants to be one. A broker that lost
// its metadata directory comes as a new member and takes the place of its old self.
type Join struct {
	Version   int       `json:"version"`
	ClusterID string    `json:"cluster_id,omitempty"` // empty: the sender knows none yet
	Broker    int32     `json:"broker"`
	Server    uuid.UUID `json:"server"` // the sender's id in the quorum
	URL       string    `json:"url"`
}

// JoinAnswer answers a Join.
type JoinAnswer struct {
	// Code: OK: the sender is a member. CodeNotController: ask at LeaderURL.
	// CodeDuplicateBroker: another process with that broker id is alive.
	Code      Code   `json:"code,omitempty"`
	Detail    string `json:"detail,omitempty"`
	LeaderURL string `json:"leader_url,omitempty"` // empty: not known
	ClusterID string `json:"cluster_id,omitempty"`
}

// FoundingVoter is one of the first voters of a quorum.
type FoundingVoter struct {
	Broker int32     `json:"broker"`
	Server uuid.UUID `json:"server"`
	URL    string    `json:"url"`
}

// Founding is what a voter of a cluster that doesn't exist yet says to the others
// of its list, and what they answer. A quorum is founded by a voter only after
// every voter has shown the same Pledge, which each wrote down before it said so.
type Founding struct {
	Version int           `json:"version"`
	Code    Code          `json:"code,omitempty"` // of an answer
	Self    FoundingVoter `json:"self"`
	// Cluster is the list of initial voters that the sender was started with.
	Cluster map[int32]string `json:"cluster"`
	// Pledge, in the order of broker ids: the only voters that the sender would
	// found a quorum with. Empty: it doesn't know all of them yet.
	Pledge []FoundingVoter `json:"pledge,omitempty"`
	// Founded: the sender is a member of a quorum. Its members are in Pledge then.
	Founded   bool   `json:"founded,omitempty"`
	ClusterID string `json:"cluster_id,omitempty"`
}
