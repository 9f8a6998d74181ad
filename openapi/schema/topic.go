package schema

// CreateTopic is the body of PUT /topics/{topic}; every member may be left out.
type CreateTopic struct {
	// Absent or null: the broker's default.
	Partitions *int32 `json:"partitions,omitempty" minimum:"1" maximum:"10000" extensions:"x-nullable" example:"3"`
	// Absent or null: the broker's default.
	ReplicationFactor *int32 `json:"replication_factor,omitempty" minimum:"1" maximum:"32767" extensions:"x-nullable" example:"1"`
	// Topic configs by Kafka's names; also as a list.
	Configs any `json:"configs,omitempty"`
}

// TopicConfigs are a topic's configs by Kafka's names.
type TopicConfigs struct {
	// `delete` (retention), `compact` (the last record of each key is kept) or `compact,delete`.
	CleanupPolicy any `json:"cleanup.policy,omitempty"`
	// How batches are stored: `producer` (as built), `uncompressed`, `gzip` or `zstd`.
	CompressionType any `json:"compression.type,omitempty"`
	// How many message ids each partition remembers at most; -1: no limit.
	DedupeWindowCount any `json:"dedupe.window.count,omitempty"`
	// How long a message id is remembered, in ms; 0: ids are not looked at; -1: as long as the record is kept.
	DedupeWindowMs any `json:"dedupe.window.ms,omitempty"`
	// Compacted topics: how long a tombstone stays after the compaction that first met it, in ms.
	DeleteRetentionMs any `json:"delete.retention.ms,omitempty"`
	// Compacted topics: compact what is older than that, in ms, however little it is.
	MaxCompactionLagMs any `json:"max.compaction.lag.ms,omitempty"`
	// The largest record (key, value and headers), in bytes; at most 134217728.
	MaxMessageBytes any `json:"max.message.bytes,omitempty"`
	// `CreateTime` (the producer's) or `LogAppendTime` (the broker's).
	MessageTimestampType any `json:"message.timestamp.type,omitempty"`
	// Compacted topics: compact when more than this part of the log isn't yet; from 0 to 1.
	MinCleanableDirtyRatio any `json:"min.cleanable.dirty.ratio,omitempty"`
	// Compacted topics: leave records alone until they are that old, in ms.
	MinCompactionLagMs any `json:"min.compaction.lag.ms,omitempty"`
	// How many replicas must be in sync for acks=-1.
	MinInsyncReplicas any `json:"min.insync.replicas,omitempty"`
	// The most bytes that a partition keeps; -1: no limit.
	RetentionBytes any `json:"retention.bytes,omitempty"`
	// How long records are kept, in ms; -1: no limit.
	RetentionMs any `json:"retention.ms,omitempty"`
	// The size at which a new segment begins, from 1024 to 2147483647 bytes.
	SegmentBytes any `json:"segment.bytes,omitempty"`
	// The age at which a new segment begins, in ms.
	SegmentMs any `json:"segment.ms,omitempty"`
	// Whether a replica that is not in sync may lead when no other is left: `true` or `false`.
	UncleanLeaderElectionEnable any `json:"unclean.leader.election.enable,omitempty"`
}

// TopicConfig is one config in a list.
type TopicConfig struct {
	Name string `json:"name" validate:"required" example:"retention.ms"`
	// As in the object.
	Value any `json:"value" validate:"required"`
}

// Topic is a topic with its partitions.
type Topic struct {
	Name string `json:"name" validate:"required" example:"orders"`
	// Never given to another topic, also when one of the same name is made anew.
	TopicID string `json:"topic_id" validate:"required" format:"uuid"`
	// Every config in force.
	Configs map[string]string `json:"configs" validate:"required"`
	// What is remembered of message ids.
	Dedupe     TopicDedupe `json:"dedupe" validate:"required"`
	Partitions []Partition `json:"partitions" validate:"required"`
}

// Partition is one partition as its leader sees it.
type Partition struct {
	Partition int32 `json:"partition" validate:"required" minimum:"0"`
	// The leader's broker id; -1: there is none.
	Leader         int32   `json:"leader" validate:"required" minimum:"-1"`
	LeaderEpoch    int32   `json:"leader_epoch" validate:"required"`
	ISR            []int32 `json:"isr" validate:"required"`
	LogStartOffset *int64  `json:"log_start_offset" format:"int64" extensions:"x-nullable"`
	// Null when there is no leader.
	HighWatermark *int64 `json:"high_watermark" format:"int64" extensions:"x-nullable"`
	// Null when there is no leader.
	LogEndOffset *int64 `json:"log_end_offset" format:"int64" extensions:"x-nullable"`
	// What is remembered of message ids and producers; null when there is no leader.
	Dedupe   *Dedupe   `json:"dedupe" extensions:"x-nullable"`
	Replicas []Replica `json:"replicas" validate:"required"`
}

// TopicDedupe is what is promised of a topic's message ids, and what its partitions
// remember together.
type TopicDedupe struct {
	// dedupe.window.ms: how long an id is remembered; 0: not at all, -1: as long as its record is kept.
	WindowMs int64 `json:"window_ms" validate:"required" format:"int64" minimum:"-1" example:"3600000"`
	// dedupe.window.count: how many ids a partition remembers at most; -1: all.
	WindowCount int64 `json:"window_count" validate:"required" format:"int64" minimum:"-1" example:"1000000"`
	// Less than window_ms where ids came so fast that the count made a partition forget some before their time.
	EffectiveWindowMs int64 `json:"effective_window_ms" validate:"required" format:"int64" minimum:"-1" example:"3600000"`
	// The ids that are remembered.
	IDs int64 `json:"ids" validate:"required" format:"int64" minimum:"0"`
	// Idempotent producers that are remembered, counted once for each partition.
	Producers int64 `json:"producers" validate:"required" format:"int64" minimum:"0"`
	// Records that came again, since the leaders' logs were opened.
	Hits int64 `json:"hits" validate:"required" format:"int64" minimum:"0"`
	// Ids that were forgotten before their time, since the leaders' logs were opened.
	EvictedEarly int64 `json:"evicted_early" validate:"required" format:"int64" minimum:"0"`
}

// Dedupe is what a partition remembers of message ids and producers.
type Dedupe struct {
	// The ids that are remembered.
	IDs int64 `json:"ids" validate:"required" format:"int64" minimum:"0"`
	// Idempotent producers that are remembered.
	Producers int64 `json:"producers" validate:"required" format:"int64" minimum:"0"`
	// When the oldest id was appended, in ms since 1970; null: there is none.
	OldestMs *int64 `json:"oldest_ms" format:"int64" extensions:"x-nullable"`
	// When the newest id was appended, in ms since 1970; null: there is none.
	NewestMs *int64 `json:"newest_ms" format:"int64" extensions:"x-nullable"`
	// Records that came again, since the leader's log was opened.
	Hits int64 `json:"hits" validate:"required" format:"int64" minimum:"0"`
	// Ids that were forgotten before their time, since the leader's log was opened.
	EvictedEarly int64 `json:"evicted_early" validate:"required" format:"int64" minimum:"0"`
}

// Replica is one copy of a partition.
type Replica struct {
	Broker         int32 `json:"broker" validate:"required"`
	Leader         bool  `json:"leader" validate:"required"`
	InSync         bool  `json:"in_sync" validate:"required"`
	LogEndOffset   int64 `json:"log_end_offset" format:"int64"`
	Lag            int64 `json:"lag" format:"int64"`
	LastCaughtUpMs int64 `json:"last_caught_up_ms" format:"int64"`
}

// NewTopic is the body of POST /topics: Confluent's and Strimzi's names.
type NewTopic struct {
	TopicName string `json:"topic_name" validate:"required" minLength:"1" maxLength:"249" example:"orders"`
	// Absent or null: the broker's default.
	PartitionsCount *int32 `json:"partitions_count,omitempty" minimum:"1" maximum:"10000" extensions:"x-nullable" example:"3"`
	// Absent or null: the broker's default.
	ReplicationFactor *int32 `json:"replication_factor,omitempty" minimum:"1" maximum:"32767" extensions:"x-nullable" example:"1"`
	// Topic configs: an object of names and values, or a list of `{"name","value"}`.
	Configs any `json:"configs,omitempty"`
}

// PatchTopic is the body of PATCH /topics/{topic}; at least one member.
type PatchTopic struct {
	// The new number of partitions; it can only grow.
	Partitions *int32 `json:"partitions,omitempty" minimum:"1" maximum:"10000" extensions:"x-nullable" example:"6"`
	// Topic configs to set: an object of names and values, or a list of `{"name","value"}`. null gives one back to its default.
	Configs any `json:"configs,omitempty" extensions:"x-nullable"`
}

// Offsets are the ends of a partition.
type Offsets struct {
	// The first record there is.
	BeginningOffset int64 `json:"beginning_offset" validate:"required" format:"int64" minimum:"0"`
	// The high watermark: the end of what may be read.
	EndOffset int64 `json:"end_offset" validate:"required" format:"int64" minimum:"0"`
	// The end of the leader's log.
	LogEndOffset int64 `json:"log_end_offset" validate:"required" format:"int64" minimum:"0"`
	// The first record at or after the asked time; null: none, or no time was asked for.
	OffsetForTimestamp *int64 `json:"offset_for_timestamp" validate:"required" format:"int64" extensions:"x-nullable"`
}

// DeletedRecords tells where a partition begins after a deletion.
type DeletedRecords struct {
	BeginningOffset int64 `json:"beginning_offset" validate:"required" format:"int64" minimum:"0"`
}
