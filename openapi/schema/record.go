package schema

// Header is one record header. Names may repeat.
type Header struct {
	// The header's name.
	Key string `json:"key" validate:"required" example:"trace"`
	// The header's bytes as base64; null is a header without a value.
	Value *string `json:"value" format:"byte" extensions:"x-nullable" example:"YWJj"`
}

// ProduceRecord is one record to append, in the native form.
type ProduceRecord struct {
	// The key. In the native form a JSON string, stored as its UTF-8 bytes; null or absent: no key. With `key_format=json` any JSON.
	Key any `json:"key,omitempty" extensions:"x-nullable"`
	// How the key's string is meant: `text` as it is, `base64` bytes.
	KeyEncoding string `json:"key_encoding,omitempty" enums:"text,base64,json"`
	// Any JSON, stored as the exact bytes sent; null is a tombstone.
	Value any `json:"value" validate:"required" extensions:"x-nullable"`
	// How the value's string is meant: `text` its characters, `base64` bytes; absent: the JSON itself.
	ValueEncoding string `json:"value_encoding,omitempty" enums:"text,base64,json"`
	// The partition to append to; absent: the partitioner's choice.
	Partition *int32 `json:"partition,omitempty" minimum:"0" extensions:"x-nullable"`
	// Milliseconds since 1970; absent: the broker's clock.
	Timestamp *int64 `json:"timestamp,omitempty" format:"int64" minimum:"0" maximum:"253402300799999" extensions:"x-nullable"`
	// Record headers.
	Headers []Header `json:"headers,omitempty" extensions:"x-nullable"`
	// The message id, 1 to 1024 bytes: a record that comes again within the topic's window is not stored again.
	ID *string `json:"id,omitempty" minLength:"1" extensions:"x-nullable"`
	// Ignored: what a fetch printed can be posted back.
	Topic string `json:"topic,omitempty"`
	// Ignored: what a fetch printed can be posted back.
	Offset *int64 `json:"offset,omitempty" format:"int64"`
}

// ProduceRequest is a batch of records.
type ProduceRequest struct {
	// The records, in order.
	Records []ProduceRecord `json:"records" validate:"required" minItems:"1"`
	// An idempotent producer's id (POST /producers), on partition endpoints only, together with the next two.
	ProducerID *int64 `json:"producer_id,omitempty" format:"int64" minimum:"1" extensions:"x-nullable" example:"1"`
	// The producer's epoch.
	ProducerEpoch *int32 `json:"producer_epoch,omitempty" minimum:"0" maximum:"32767" extensions:"x-nullable" example:"0"`
	// The sequence number of the first record: how many records this producer, in this epoch, has sent to this partition before.
	BaseSequence *int32 `json:"base_sequence,omitempty" minimum:"0" extensions:"x-nullable" example:"0"`
}

// Record is one record of a log, in the native form. Posting it back gives the
// same bytes.
type Record struct {
	Topic     string `json:"topic" validate:"required" example:"orders"`
	Partition int32  `json:"partition" validate:"required" minimum:"0" example:"0"`
	Offset    int64  `json:"offset" validate:"required" format:"int64" minimum:"0" example:"0"`
	// Milliseconds since 1970.
	Timestamp int64 `json:"timestamp" validate:"required" format:"int64" example:"1764424000000"`
	// The key as text; null: the record has none. With `key_format=json` any JSON.
	Key any `json:"key" validate:"required" extensions:"x-nullable"`
	// Present when the key is no plain text.
	KeyEncoding string `json:"key_encoding,omitempty" enums:"text,base64,json"`
	// The value as the very JSON that was stored; null is a tombstone.
	Value any `json:"value" validate:"required" extensions:"x-nullable"`
	// Present when the value is no JSON: `text` or `base64`.
	ValueEncoding string   `json:"value_encoding,omitempty" enums:"text,base64,json"`
	Headers       []Header `json:"headers" validate:"required"`
	// The message id, if the record has one.
	ID string `json:"id,omitempty"`
}

// DialectRecord is one record of a log in a form of the Kafka REST dialect.
type DialectRecord struct {
	Topic     string `json:"topic" validate:"required" example:"orders"`
	Partition int32  `json:"partition" validate:"required" minimum:"0" example:"0"`
	Offset    int64  `json:"offset" validate:"required" format:"int64" minimum:"0" example:"0"`
	// Milliseconds since 1970.
	Timestamp int64 `json:"timestamp" validate:"required" format:"int64" example:"1764424000000"`
	// JSON, base64 or text, as the media type says; null also when the bytes don't fit it.
	Key any `json:"key" validate:"required" extensions:"x-nullable"`
	// The key's bytes, when they don't fit.
	KeyBase64 string `json:"key_base64,omitempty" format:"byte"`
	// JSON, base64 or text, as the media type says; null also when the bytes don't fit it.
	Value any `json:"value" validate:"required" extensions:"x-nullable"`
	// The value's bytes, when they don't fit.
	ValueBase64 string `json:"value_base64,omitempty" format:"byte"`
	// Why a key or value is null although there are bytes.
	DecodeError string   `json:"decode_error,omitempty"`
	Headers     []Header `json:"headers" validate:"required"`
	// The message id, if the record has one.
	ID string `json:"id,omitempty"`
}

// ProduceResult tells where the records went and what was proved about it.
type ProduceResult struct {
	// One entry a record, in the request's order. Left out with `response=summary`.
	Offsets []ProducedOffset `json:"offsets,omitempty"`
	// One entry a partition.
	Partitions []ProducedPartition `json:"partitions" validate:"required"`
	// The acks level that was asked for.
	Acks int32 `json:"acks" validate:"required" enums:"0,1,-1"`
	// Always null: for clients of the dialect.
	KeySchemaID *int32 `json:"key_schema_id" extensions:"x-nullable"`
	// Always null: for clients of the dialect.
	ValueSchemaID *int32 `json:"value_schema_id" extensions:"x-nullable"`
}

// ProducedOffset is where one record went, or why not.
type ProducedOffset struct {
	Partition int32 `json:"partition" validate:"required" example:"0"`
	// The record's offset; -1 with acks=0 and when it failed.
	Offset int64 `json:"offset" validate:"required" format:"int64" minimum:"-1" example:"5"`
	// True when the record was there before: offset is that of the first one, or -1 when it isn't known any more where that is.
	Duplicate *bool `json:"duplicate,omitempty"`
	// Null when all is well.
	ErrorCode *int32 `json:"error_code" extensions:"x-nullable"`
	// What went wrong.
	Error      *string `json:"error" extensions:"x-nullable"`
	KafkaError string  `json:"kafka_error,omitempty"`
	Retriable  *bool   `json:"retriable,omitempty"`
	// Whether the failed record may have been written.
	Outcome string `json:"outcome,omitempty" enums:"not_written,unknown"`
}

// ProducedPartition is what a request added to one partition, or why it did not.
type ProducedPartition struct {
	Partition int32 `json:"partition" validate:"required"`
	// Offset of the first record; -1 with acks=0 and when it failed.
	BaseOffset int64 `json:"base_offset" validate:"required" format:"int64" minimum:"-1"`
	// Offset of the last record; -1 with acks=0 and when it failed.
	LastOffset    int64 `json:"last_offset" validate:"required" format:"int64" minimum:"-1"`
	LeaderEpoch   int32 `json:"leader_epoch"`
	HighWatermark int64 `json:"high_watermark" format:"int64"`
	// How many replicas were in sync.
	InSyncReplicas int32 `json:"in_sync_replicas"`
	// What was proved: forced to disk, written to the log file, or only queued.
	Durability string `json:"durability" enums:"fsynced,written,queued"`
	// How many of the records were there before; absent: none. base_offset and last_offset are those of the others, if there are any.
	Duplicates *int64 `json:"duplicates,omitempty" format:"int64" minimum:"1"`
	// Present when it failed.
	ErrorCode  int32  `json:"error_code,omitempty"`
	Error      string `json:"error,omitempty"`
	KafkaError string `json:"kafka_error,omitempty"`
	Retriable  *bool  `json:"retriable,omitempty"`
	// Whether the failed records may have been written.
	Outcome string `json:"outcome,omitempty" enums:"not_written,unknown"`
}

// DialectProduceRequest is a batch in the Kafka REST v2 dialect.
type DialectProduceRequest struct {
	// The records, in order.
	Records []DialectProduceRecord `json:"records" validate:"required" minItems:"1"`
	// As in the native form.
	ProducerID *int64 `json:"producer_id,omitempty" format:"int64" minimum:"1" extensions:"x-nullable"`
	// As in the native form.
	ProducerEpoch *int32 `json:"producer_epoch,omitempty" minimum:"0" maximum:"32767" extensions:"x-nullable"`
	// As in the native form.
	BaseSequence *int32 `json:"base_sequence,omitempty" minimum:"0" extensions:"x-nullable"`
}

// DialectProduceRecord is one record to append, its key and value as the content
// type says: JSON, base64 or text.
type DialectProduceRecord struct {
	// `application/vnd.kafka.json.v2+json`: any JSON. binary: base64. text: a string. Null or absent: no key.
	Key any `json:"key,omitempty"`
	// `application/vnd.kafka.json.v2+json`: any JSON. binary: base64. text: a string. Null is a tombstone.
	Value any `json:"value" validate:"required"`
	// The partition to append to; absent: the partitioner's choice.
	Partition *int32 `json:"partition,omitempty" minimum:"0" extensions:"x-nullable"`
	// Milliseconds since 1970; absent: the broker's clock.
	Timestamp *int64 `json:"timestamp,omitempty" format:"int64" minimum:"0" maximum:"253402300799999" extensions:"x-nullable"`
	// Record headers.
	Headers []Header `json:"headers,omitempty" extensions:"x-nullable"`
	// The message id.
	ID *string `json:"id,omitempty" minLength:"1" extensions:"x-nullable"`
	// Ignored: what a fetch printed can be posted back.
	Topic string `json:"topic,omitempty"`
	// Ignored: what a fetch printed can be posted back.
	Offset *int64 `json:"offset,omitempty" format:"int64"`
}
