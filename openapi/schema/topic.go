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
