package schema

// CreateTopic is the body of PUT /topics/{topic}; every member may be left out.
type CreateTopic struct {
	Partitions        int32 `json:"partitions,omitempty" minimum:"1" example:"3"`
	ReplicationFactor int32 `json:"replication_factor,omitempty" minimum:"1" example:"1"`
	// Topic configs by Kafka's names, values as strings.
	Configs map[string]string `json:"configs,omitempty"`
}

// Topic is a topic with its partitions.
type Topic struct {
	Name string `json:"name" validate:"required" example:"orders"`
	// Never given to another topic, also when one of the same name is made anew.
	TopicID string `json:"topic_id" validate:"required" format:"uuid"`
	// Every config in force.
	Configs    map[string]string `json:"configs" validate:"required"`
	Partitions []Partition       `json:"partitions" validate:"required"`
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
	LogEndOffset *int64    `json:"log_end_offset" format:"int64" extensions:"x-nullable"`
	Replicas     []Replica `json:"replicas" validate:"required"`
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
	TopicName         string `json:"topic_name" validate:"required" minLength:"1" maxLength:"249" example:"orders"`
	PartitionsCount   int32  `json:"partitions_count,omitempty" minimum:"1" example:"3"`
	ReplicationFactor int32  `json:"replication_factor,omitempty" minimum:"1" example:"1"`
	// Topic configs: an object of names and values, or a list of `{"name","value"}`.
	Configs any `json:"configs,omitempty" extensions:"x-nullable"`
}

// PatchTopic is the body of PATCH /topics/{topic}; at least one member.
type PatchTopic struct {
	// The new number of partitions; it can only grow.
	Partitions int32 `json:"partitions,omitempty" minimum:"1" example:"6"`
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
