package wire

// Brokers call each other by POST of a frame (frame.go) to these paths, with an
// answer of the same form. Raft's connections begin as a GET that asks for an
// upgrade. Nothing of it is a client's.
const (
	PathPrefix = "/internal/v1/"

	PathRaft            = "raft"
	PathFetch           = "fetch"
	PathLeaderEpoch     = "leader-epoch"
	PathPropose         = "propose"
	PathHeartbeat       = "heartbeat"
	PathJoin            = "join"
	PathFounding        = "founding"
	PathAppend          = "append"
	PathRead            = "read"
	PathWatch           = "watch"
	PathOffsets         = "offsets"
	PathDeleteRecords   = "delete-records"
	PathStatus          = "status"
	PathFindMessage     = "find-message"
	PathDedupe          = "dedupe"
	PathGroupCall       = "group/call"
	PathGroupBeat       = "group/beat"
	PathGroupList       = "group/list"
	PathDebugPartitions = "debug/partitions" // GET, for tests and people
	PathDebugDedupe     = "debug/dedupe"     // likewise, ?topic=NAME; reads whole logs

	// For operators: JSON in and out.
	PathElectLeader   = "admin/elect-leader"
	PathReassign      = "admin/reassign"
	PathReplaceBroker = "admin/replace-broker"
	PathRemoveBroker  = "admin/remove-broker"
	PathCompact       = "admin/compact"
)

// Headers, in canonical form.
const (
	HeaderSecret     = "Highwater-Cluster-Secret"
	HeaderClusterID  = "Highwater-Cluster-Id" // left out while the sender knows none
	HeaderRaftServer = "Highwater-Raft-Server"
	HeaderCode       = "Highwater-Code" // of a refusal: a Code

	ContentType = "application/octet-stream"
	UpgradeRaft = "raft/1"
)

// LeaderEpochAnswer answers LeaderEpochNotices.
type LeaderEpochAnswer struct {
	Version int  `json:"version"`
	Code    Code `json:"code,omitempty"`
}
