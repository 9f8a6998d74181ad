// Package wire is what brokers say to each other: the messages, their versions
// and their encoding. It knows no HTTP and no state.
package wire

import "github.com/google/uuid"

// Versions of the protocol that this program speaks. A message carries the
// sender's version; a receiver that doesn't know it answers CodeVersion, never
// guesses (R100).
const (
	MinVersion = 1
	Version    = 1
)

// Code says why a request, or one partition of it, was refused. The names are
// Kafka's where Kafka has one.
type Code string

// Codes.
const (
	OK                       Code = ""
	CodeNotLeader            Code = "NOT_LEADER_OR_FOLLOWER"
	CodeFencedLeaderEpoch    Code = "FENCED_LEADER_EPOCH"  // the sender's leader epoch is older (R20)
	CodeUnknownLeaderEpoch   Code = "UNKNOWN_LEADER_EPOCH" // it is newer (R20)
	CodeUnknownTopicID       Code = "UNKNOWN_TOPIC_ID"     // R19, R84
	CodeNotReplica           Code = "NOT_A_REPLICA"        // R19
	CodeStaleBrokerEpoch     Code = "STALE_BROKER_EPOCH"   // R19, R68
	CodeFetchSession         Code = "FETCH_SESSION"        // not the next request of this session: send a full one (R19)
	CodeOffsetOutOfRange     Code = "OFFSET_OUT_OF_RANGE"  // R22
	CodeCorrupt              Code = "CORRUPT_MESSAGE"      // the leader's copy is damaged there
	CodeStorage              Code = "KAFKA_STORAGE_ERROR"  // the partition is offline here
	CodeClusterID            Code = "INCONSISTENT_CLUSTER_ID"
	CodeNotController        Code = "NOT_CONTROLLER"
	CodeDuplicateBroker      Code = "DUPLICATE_BROKER_REGISTRATION" // R67
	CodeIneligibleReplica    Code = "INELIGIBLE_REPLICA"            // R44
	CodeInvalidUpdateVersion Code = "INVALID_UPDATE_VERSION"        // R44
	CodeInvalidRequest       Code = "INVALID_REQUEST"
	CodeUnauthorized         Code = "CLUSTER_AUTHORIZATION_FAILED"
	CodeVersion              Code = "UNSUPPORTED_VERSION"
	CodeOther                Code = "UNKNOWN_SERVER_ERROR"
)

// codes is every code, the frequent ones first.
var codes = [...]Code{CodeNotLeader, CodeFencedLeaderEpoch, CodeUnknownLeaderEpoch, CodeFetchSession, CodeUnknownTopicID, CodeNotReplica,
	CodeStaleBrokerEpoch, CodeOffsetOutOfRange, CodeCorrupt, CodeStorage, CodeClusterID, CodeNotController, CodeDuplicateBroker,
	CodeIneligibleReplica, CodeInvalidUpdateVersion, CodeInvalidRequest, CodeUnauthorized, CodeVersion, CodeOther}

// TopicPartition names a partition by its topic's id (R84).
type TopicPartition struct {
	Topic     uuid.UUID `json:"topic"`
	Partition int32     `json:"partition"`
}

// FetchRequest is a follower's long-poll to one leader: the request for data and
// the acknowledgement of everything below each offset in one (R12, R13).
//
// Requests of one (Replica, BrokerEpoch, Fetcher) form a session. A Full request
// names every partition of the fetcher and begins the session anew. Any other
// request names those only whose FetchPartition differs from what was sent last;
// for all others it says the same as before. Its Seq must be the leader's last
// one + 1, else the answer is CodeFetchSession and the next request must be Full.
type FetchRequest struct {
	Version       int
	ClusterID     string
	Replica       int32
	BrokerEpoch   int64
	Fetcher       int32
	Seq           int64 // grows by 1 a request, also over sessions of one broker epoch
	Full          bool
	Ahead         bool   // sent before the answer to the request before it came; ends that one's wait
	MetadataIndex uint64 // raft index the sender has applied
	MaxWaitMs     int32
	MinBytes      int32
	MaxBytes      int32
	Partitions    []FetchPartition
	Forgotten     []TopicPartition // no longer of this fetcher
}

// FetchPartition is where a follower stands in one partition (R14).
type FetchPartition struct {
	TopicPartition
	LeaderEpoch int32 // the follower's current one
	Offset      int64 // its durable log end offset
	// From is where the records begin that it asks for, when that isn't Offset but
	// beyond: what lies between came from this leader in this leader epoch, and is
	// still on its way to the follower's disk. Only Offset acknowledges anything.
	From      int64
	LastEpoch int32 // leader epoch of its last batch, or of its last epoch entry if newer; -1: empty log
	LogStart  int64
	MaxBytes  int32
}

// ReadFrom is the offset at which the answer's records begin.
func (p *FetchPartition) ReadFrom() int64 { return max(p.Offset, p.From) }

// FetchResponse answers a FetchRequest. Partitions without news are left out.
type FetchResponse struct {
	Version    int
	Code       Code // of the whole request
	Partitions []FetchedPartition
}

// FetchedPartition is one partition's news (R15).
type FetchedPartition struct {
	TopicPartition
	Code          Code
	LeaderEpoch   int32
	Leader        int32
	HighWatermark int64
	LogStart      int64
	LeaderEnd     int64
	Diverging     *EpochEnd // set: cut back to it; no data, and HighWatermark and LogStart don't count (R16, R21)
	Batches       []byte    // whole record batches as the leader's log holds them
}

// EpochEnd says that leader epoch Epoch ends at EndOffset (exclusive).
type EpochEnd struct {
	Epoch     int32
	EndOffset int64
}

// EpochStart says that leader epoch Epoch begins at StartOffset.
type EpochStart struct {
	Epoch       int32
	StartOffset int64
}

// LeaderEpochNotice tells a replica of a newer leader, so that an old one that
// the controller can't reach steps down (R64). Best effort.
type LeaderEpochNotice struct {
	TopicPartition
	LeaderEpoch int32 `json:"leader_epoch"`
	Leader      int32 `json:"leader"`
}

// LeaderEpochNotices are the notices of one broker to another.
type LeaderEpochNotices struct {
	Version   int                 `json:"version"`
	ClusterID string              `json:"cluster_id"`
	Notices   []LeaderEpochNotice `json:"notices"`
}

// Member is an in-sync replica in one of its broker's lives.
type Member struct {
	Broker int32 `json:"broker"`
	Epoch  int64 `json:"epoch"`
}

// AlterPartition is a leader's proposal for one partition's ISR (R43).
type AlterPartition struct {
	Topic          uuid.UUID `json:"topic"`
	Partition      int32     `json:"partition"`
	LeaderEpoch    int32     `json:"leader_epoch"`
	PartitionEpoch int32     `json:"partition_epoch"`
	ISR            []Member  `json:"isr"`
	// Recovered: the leader, elected uncleanly, has done its recovery (R79).
	Recovered bool `json:"recovered,omitempty"`
}

// AlterResult is what came of one AlterPartition. On OK the rest is the
// partition's new state.
type AlterResult struct {
	Code           Code    `json:"code,omitempty"`
	LeaderEpoch    int32   `json:"leader_epoch"`
	PartitionEpoch int32   `json:"partition_epoch"`
	ISR            []int32 `json:"isr"`
}

// Heartbeat is a broker's sign of life to the controller's leader (R68).
type Heartbeat struct {
	Version       int    `json:"version"`
	ClusterID     string `json:"cluster_id"`
	Broker        int32  `json:"broker"`
	BrokerEpoch   int64  `json:"broker_epoch"`
	MetadataIndex uint64 `json:"metadata_index"` // applied by the sender
	WantFence     bool   `json:"want_fence,omitempty"`
	WantShutdown  bool   `json:"want_shutdown,omitempty"`
	// Leaving: the sender's last one; its process is about to end.
	Leaving bool `json:"leaving,omitempty"`
}

// HeartbeatAnswer answers a Heartbeat.
type HeartbeatAnswer struct {
	Code      Code   `json:"code,omitempty"`
	LeaderURL string `json:"leader_url,omitempty"` // of the controller; empty: not known
	Fenced    bool   `json:"fenced"`
	// MetadataIndex is the newest index that the quorum has agreed on (R99).
	MetadataIndex uint64 `json:"metadata_index"`
	// ShouldShutdown: the broker leads nothing any more, and every other active
	// broker knows it (R74).
	ShouldShutdown bool `json:"should_shutdown,omitempty"`
}
