// Package schema holds what clients send and see as Go types, for the OpenAPI
// document only: no code uses them, swag reads them. Values are `any` here, as
// they are any JSON on the wire; byte strings are base64 text.
package schema

// Problem is the one body of every error (RFC 9457, with members of the Kafka
// REST dialect).
type Problem struct {
	// Relative URI of a page that explains the problem.
	Type string `json:"type" validate:"required" example:"/problems/unknown-topic"`
	// What kind of problem it is.
	Title string `json:"title" validate:"required" example:"Unknown topic"`
	// The HTTP status again.
	Status int32 `json:"status" validate:"required" example:"404"`
	// What is wrong with this very request.
	Detail string `json:"detail" validate:"required"`
	// The status and two digits that tell its kind.
	ErrorCode int32 `json:"error_code" validate:"required" example:"40401"`
	// The same as detail, under the dialect's name.
	Message string `json:"message" validate:"required"`
	// Kafka's name of the error, if it has one.
	KafkaError string `json:"kafka_error" validate:"required" example:"UNKNOWN_TOPIC_OR_PARTITION"`
	// Whether the same request may succeed later.
	Retriable bool `json:"retriable" validate:"required"`
	// What to do next, often a command.
	Fix string `json:"fix" validate:"required"`
	// Whether anything of a write happened: `unknown` means that it may have: look before sending it again.
	Outcome string `json:"outcome,omitempty" enums:"not_written,unknown"`
	// Every fault of an invalid request.
	Errors []Fault `json:"errors,omitempty"`
	// The partition that it is about.
	Partition *int32 `json:"partition,omitempty"`
	// The partition's log start offset (41001).
	LogStartOffset *int64 `json:"log_start_offset,omitempty" format:"int64"`
	// The partition's high watermark (41601).
	HighWatermark *int64 `json:"high_watermark,omitempty" format:"int64"`
	// The partition's log end offset (41201).
	LogEndOffset *int64 `json:"log_end_offset,omitempty" format:"int64"`
	// The offset at which the log was expected to end (41201).
	ExpectedOffset *int64 `json:"expected_offset,omitempty" format:"int64"`
	// Where the record is that the message id belongs to (40908), or was (40404).
	FirstOffset *int64 `json:"first_offset,omitempty" format:"int64"`
	// The base_sequence with which the producer goes on (40904).
	ExpectedSequence *int64 `json:"expected_sequence,omitempty" format:"int64"`
	// The epoch that may write (40303).
	CurrentEpoch *int64 `json:"current_epoch,omitempty" format:"int64"`
	// Where the histories part: go on from here at the latest (40905).
	SafeOffset *int64 `json:"safe_offset,omitempty" format:"int64"`
	// The leader epoch of the record before safe_offset (40905).
	SafeLeaderEpoch *int64 `json:"safe_leader_epoch,omitempty" format:"int64"`
	// The group's generation (40906).
	Generation *int64 `json:"generation,omitempty" format:"int64"`
	// The fate of each record, when all failed for different reasons or may have been written.
	Offsets []ProducedOffset `json:"offsets,omitempty"`
}

// Fault is one thing wrong with a request.
type Fault struct {
	// JSON pointer into the request's body, or the parameter's name.
	Pointer string `json:"pointer" validate:"required" example:"/records/3/value"`
	// What is wrong there.
	Detail string `json:"detail" validate:"required"`
	// The kind of this fault, where it is not that of the whole.
	ErrorCode int32 `json:"error_code,omitempty" example:"42201"`
}
