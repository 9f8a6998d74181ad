package schema

// NewConsumer is what a consumer instance is made with. Every option may be a string,
// a number or a boolean of the same text, and may be left out.
type NewConsumer struct {
	// The instance's name; none: one is made up.
	Name string `json:"name,omitempty" minLength:"1" maxLength:"255" extensions:"x-nullable" example:"c1"`
	// The records' form in the dialect: json, binary or text. None: whatever Accept asks for.
	Format any `json:"format,omitempty"`
	// Where to begin without a committed offset, and where retention has removed the position: earliest (default), latest or none (an error instead).
	AutoOffsetReset any `json:"auto.offset.reset,omitempty"`
	// Whether each poll commits what the poll before delivered. Default: false.
	AutoCommitEnable any `json:"auto.commit.enable,omitempty"`
	// The same option under Kafka's name.
	EnableAutoCommit any `json:"enable.auto.commit,omitempty"`
	// A poll waits for so many bytes, at most its timeout. Default: 1.
	FetchMinBytes any `json:"fetch.min.bytes,omitempty"`
	// How long a poll without a timeout waits, in ms; more than 60000 counts as that. Default: 1000.
	ConsumerRequestTimeoutMs any `json:"consumer.request.timeout.ms,omitempty"`
	// How long the instance may be silent, in ms, from 1000 to 86400000. Default: 300000.
	ConsumerInstanceTimeoutMs any `json:"consumer.instance.timeout.ms,omitempty"`
	// read_committed (default) or read_uncommitted.
	IsolationLevel any `json:"isolation.level,omitempty"`
}

// Consumer is a consumer instance.
type Consumer struct {
	InstanceID string `json:"instance_id" validate:"required" example:"c1"`
	// The instance's own address. Any broker serves it, under this path.
	BaseURI string `json:"base_uri" validate:"required" example:"http://127.0.0.1:8080/consumers/billing/instances/c1"`
}

// Subscribe is a new subscription: topics, or a pattern.
type Subscribe struct {
	// Topics; an empty list ends the subscription.
	Topics []string `json:"topics,omitempty" maxItems:"1000"`
	// A regular expression (RE2) that whole names match.
	TopicPattern string `json:"topic_pattern,omitempty" minLength:"1" maxLength:"1000" example:"order.*"`
}

// Subscription is what an instance is subscribed to.
type Subscription struct {
	// Topics; of a pattern those that match now.
	Topics       []string `json:"topics" validate:"required"`
	TopicPattern string   `json:"topic_pattern,omitempty"`
}

// PartitionRef names a partition.
type PartitionRef struct {
	Topic     string `json:"topic" validate:"required" minLength:"1" maxLength:"249" example:"orders"`
	Partition int32  `json:"partition" validate:"required" minimum:"0" example:"0"`
}

// Assignments is a list of partitions.
type Assignments struct {
	Partitions []PartitionRef `json:"partitions" validate:"required"`
}

// CommitRequest is offsets to commit.
type CommitRequest struct {
	Offsets []CommitEntry `json:"offsets" validate:"required"`
}

// CommitEntry is the offset of one partition: `offset` or `next_offset`.
type CommitEntry struct {
	Topic     string `json:"topic" validate:"required" minLength:"1" maxLength:"249" example:"orders"`
	Partition int32  `json:"partition" validate:"required" minimum:"0" example:"0"`
	// The next offset to read; with --commit-offset-meaning=last-processed the last one that was processed.
	Offset *int64 `json:"offset,omitempty" format:"int64" minimum:"0" example:"1"`
	// The next offset to read, always.
	NextOffset *int64 `json:"next_offset,omitempty" format:"int64" minimum:"0"`
	// A note that is kept with the commit, up to 4096 bytes.
	Metadata string `json:"metadata,omitempty" maxLength:"4096" extensions:"x-nullable"`
}

// SeekRequest is where to read on.
type SeekRequest struct {
	Offsets []SeekEntry `json:"offsets" validate:"required"`
}

// SeekEntry is a place in one partition: an offset or a time.
type SeekEntry struct {
	Topic     string `json:"topic" validate:"required" minLength:"1" maxLength:"249" example:"orders"`
	Partition int32  `json:"partition" validate:"required" minimum:"0" example:"0"`
	// The next offset to read.
	Offset *int64 `json:"offset,omitempty" format:"int64" minimum:"0" example:"0"`
	// The same, under its other name.
	NextOffset *int64 `json:"next_offset,omitempty" format:"int64" minimum:"0"`
	// Instead: the first record at or after this time. Milliseconds since 1970, RFC 3339, or a time back from now like -15m.
	Timestamp any `json:"timestamp,omitempty"`
	// Taken as the dialect sends it, and not kept.
	Metadata string `json:"metadata,omitempty" maxLength:"4096" extensions:"x-nullable"`
}

// Committed is a list of committed offsets.
type Committed struct {
	Offsets []CommittedOffset `json:"offsets" validate:"required"`
}

// CommittedOffset is the committed offset of one partition.
type CommittedOffset struct {
	Topic     string `json:"topic" validate:"required" example:"orders"`
	Partition int32  `json:"partition" validate:"required" minimum:"0" example:"0"`
	// The next offset to read.
	Offset int64 `json:"offset" validate:"required" format:"int64" minimum:"0" example:"1"`
	// The same.
	NextOffset int64  `json:"next_offset" validate:"required" format:"int64" minimum:"0" example:"1"`
	Metadata   string `json:"metadata" validate:"required"`
}

// GroupSummary is a group in a list.
type GroupSummary struct {
	Group string `json:"group" validate:"required" example:"billing"`
	State string `json:"state" validate:"required" enums:"empty,stable,reconciling"`
	// How many members it has.
	Members int32 `json:"members" validate:"required" minimum:"0"`
	// The broker that coordinates it.
	Coordinator int32 `json:"coordinator" validate:"required"`
}

// Group is a consumer group.
type Group struct {
	Group string `json:"group" validate:"required" example:"billing"`
	// empty: nobody is in it. stable: everybody has what is theirs. reconciling: partitions are on their way.
	State string `json:"state" validate:"required" enums:"empty,stable,reconciling"`
	// Counts the changes of who is to have what.
	Generation int32 `json:"generation" validate:"required" minimum:"0"`
	// The broker that coordinates it.
	Coordinator int32         `json:"coordinator" validate:"required"`
	Members     []GroupMember `json:"members" validate:"required"`
}

// GroupMember is a member of a group.
type GroupMember struct {
	InstanceID string `json:"instance_id" validate:"required" example:"c1"`
	// The partitions that it has now.
	Assignments []PartitionRef `json:"assignments" validate:"required"`
	// What it is subscribed to.
	Topics       []string `json:"topics,omitempty"`
	TopicPattern string   `json:"topic_pattern,omitempty"`
	// true: it was assigned its partitions by hand.
	Manual bool `json:"manual,omitempty"`
}

// GroupOffset is how far a group has come in one partition.
type GroupOffset struct {
	Topic     string `json:"topic" validate:"required" example:"orders"`
	Partition int32  `json:"partition" validate:"required" minimum:"0" example:"0"`
	// The next offset to read. Null: a member has the partition, and nothing is committed yet.
	Committed *int64 `json:"committed" validate:"required" format:"int64" minimum:"0" extensions:"x-nullable"`
	// Null while the partition has no leader.
	LogStartOffset *int64 `json:"log_start_offset" validate:"required" format:"int64" minimum:"0" extensions:"x-nullable"`
	// The high watermark; null while the partition has no leader.
	EndOffset *int64 `json:"end_offset" validate:"required" format:"int64" minimum:"0" extensions:"x-nullable"`
	// Records that can still be read behind the commit; null while the partition has no leader.
	Lag      *int64 `json:"lag" validate:"required" format:"int64" minimum:"0" extensions:"x-nullable"`
	Metadata string `json:"metadata" validate:"required"`
}

// ResetRequest is where a group is to stand: offsets, or topics and a place.
type ResetRequest struct {
	Offsets []CommitEntry `json:"offsets,omitempty"`
	Topics  []string      `json:"topics,omitempty"`
	// earliest, latest, or a time: milliseconds since 1970, RFC 3339, or a time back from now like -15m.
	To any `json:"to,omitempty"`
}

// MovedOffset is a committed offset that was moved.
type MovedOffset struct {
	Topic     string `json:"topic" validate:"required" example:"orders"`
	Partition int32  `json:"partition" validate:"required" minimum:"0" example:"0"`
	// Null: nothing was committed.
	From *int64 `json:"from" validate:"required" format:"int64" minimum:"0" extensions:"x-nullable"`
	To   int64  `json:"to" validate:"required" format:"int64" minimum:"0"`
}
