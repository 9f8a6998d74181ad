package wire

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
)

// Messages by which a broker has a partition's leader do what a client asked of
// itself. They go one hop: whoever gets one and doesn't lead says so, and never
// passes it on. Partitions are named by topic id, so that a topic of the same name
// made anew is never taken for the old one (R84).

// Error is an error of another broker: its kind, and the fields of that kind.
type Error struct {
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data,omitempty"`
	// Text is the error's own text, for the log and for a kind that the receiver
	// doesn't know.
	Text string `json:"text,omitempty"`
}

// AppendRequest brings batches for partitions that the receiver leads. The payload
// is the batches, in order.
type AppendRequest struct {
	Version int `json:"version"`
	Acks    int `json:"acks"`
	// TimeoutMs is what is left of the client's time. No clock is sent: those of two
	// machines differ.
	TimeoutMs  int64             `json:"timeout_ms"`
	Partitions []AppendPartition `json:"partitions"`
}

// AppendPartition is what an AppendRequest brings for one partition.
type AppendPartition struct {
	TopicPartition
	ExpectedOffset *int64   `json:"expected_offset,omitempty"`
	BatchBytes     []int32  `json:"batch_bytes"` // of each batch
	Batches        [][]byte `json:"-"`
}

// AppendHead appends the encoded head.
func (r *AppendRequest) AppendHead(dst []byte) []byte {
	for i := range r.Partitions {
		p := &r.Partitions[i]
		p.BatchBytes = make([]int32, len(p.Batches))
		for j, b := range p.Batches {
			p.BatchBytes[j] = int32(len(b))
		}
	}
	return appendJSON(dst, r)
}

// Payload is the batches, as they are.
func (r *AppendRequest) Payload() [][]byte {
	var out [][]byte
	for i := range r.Partitions {
		out = append(out, r.Partitions[i].Batches...)
	}
	return out
}

// Decode reads a request; its batches alias payload.
func (r *AppendRequest) Decode(head, payload []byte) (err error) {
	if err := decodeJSON(head, r); err != nil {
		return err
	}
	for i := range r.Partitions {
		p := &r.Partitions[i]
		p.Batches = make([][]byte, len(p.BatchBytes))
		for j, n := range p.BatchBytes {
			if p.Batches[j], payload, err = cutPiece(payload, n); err != nil {
				return err
			}
		}
	}
	return noMore(payload)
}

// AppendAnswer has a result for each partition of the request, in order.
type AppendAnswer struct {
	Version int            `json:"version"`
	Results []AppendResult `json:"results"`
}

// AppendResult tells where a partition's batches went.
type AppendResult struct {
	BaseOffset int64 `json:"base_offset"`
	LastOffset int64 `json:"last_offset"`
	// Offsets and Duplicate are of each record, in order; left out: all are new.
	Offsets        []int64 `json:"offsets,omitempty"`
	Duplicate      []bool  `json:"duplicate,omitempty"`
	LeaderEpoch    int32   `json:"leader_epoch"`
	HighWatermark  int64   `json:"high_watermark"`
	InSyncReplicas int     `json:"in_sync_replicas"`
	AppendTime     int64   `json:"append_time"`
	Durability     string  `json:"durability,omitempty"`
	Error          *Error  `json:"error,omitempty"`
	Unknown        bool    `json:"unknown,omitempty"` // with Error: the batches may be in the log
}

// ReadRequest asks for records that consumers may see.
type ReadRequest struct {
	Version     int            `json:"version"`
	Uncommitted bool           `json:"uncommitted,omitempty"` // isolation
	MaxBytes    int            `json:"max_bytes"`
	MinBytes    int            `json:"min_bytes"`
	MaxWaitMs   int64          `json:"max_wait_ms"`
	Positions   []ReadPosition `json:"positions"`
}

// ReadPosition is where a reader stands in a partition.
type ReadPosition struct {
	TopicPartition
	Offset      int64  `json:"offset"`
	LeaderEpoch *int32 `json:"leader_epoch,omitempty"` // of what was read before Offset (R96)
}

// ReadAnswer has a result for each position, in order. The payload is their
// batches, one result's after the other's.
type ReadAnswer struct {
	Version int          `json:"version"`
	Results []ReadResult `json:"results"`
}

// ReadResult is whole batches, and what was known when they were read.
type ReadResult struct {
	HighWatermark int64  `json:"high_watermark"`
	LogStart      int64  `json:"log_start"`
	LeaderEpoch   int32  `json:"leader_epoch"`
	Stale         bool   `json:"stale,omitempty"` // the leader can't vouch for being the leader (R61)
	Bytes         int32  `json:"bytes"`
	Error         *Error `json:"error,omitempty"`
	Data          []byte `json:"-"`
}

// AppendHead appends the encoded head.
func (r *ReadAnswer) AppendHead(dst []byte) []byte {
	for i := range r.Results {
		r.Results[i].Bytes = int32(len(r.Results[i].Data))
	}
	return appendJSON(dst, r)
}

// Payload is the batches, as they are.
func (r *ReadAnswer) Payload() [][]byte {
	var out [][]byte
	for i := range r.Results {
		if d := r.Results[i].Data; len(d) > 0 {
			out = append(out, d)
		}
	}
	return out
}

// Decode reads an answer; its data alias payload.
func (r *ReadAnswer) Decode(head, payload []byte) (err error) {
	if err := decodeJSON(head, r); err != nil {
		return err
	}
	for i := range r.Results {
		if r.Results[i].Data, payload, err = cutPiece(payload, r.Results[i].Bytes); err != nil {
			return err
		}
	}
	return noMore(payload)
}

// WatchRequest is one long-poll for news of many partitions that the receiver
// leads, for all the readers of the sender. Requests with one Session id build on
// each other: the receiver remembers the partitions that were added and not
// removed. Only one of them waits at a time.
type WatchRequest struct {
	Version int       `json:"version"`
	Session uuid.UUID `json:"session"`
	// First makes the session; without it one that the receiver doesn't know is
	// answered with CodeFetchSession.
	First     bool             `json:"first,omitempty"`
	Add       []TopicPartition `json:"add,omitempty"`
	Remove    []TopicPartition `json:"remove,omitempty"`
	MaxWaitMs int64            `json:"max_wait_ms"` // 0: only take note of Add and Remove
}

// WatchAnswer names the partitions of which there is news since they were added or
// last named: records that became readable, another leader, or their end. One that
// was just added is named once in any case: what came before nobody was told of.
type WatchAnswer struct {
	Version int              `json:"version"`
	Code    Code             `json:"code,omitempty"`
	Changed []TopicPartition `json:"changed,omitempty"`
	// Unknown are partitions that were to be added and aren't here, or not yet.
	Unknown []TopicPartition `json:"unknown,omitempty"`
}

// OffsetsRequest asks for the ends of partitions.
type OffsetsRequest struct {
	Version    int            `json:"version"`
	Partitions []OffsetsQuery `json:"partitions"`
}

// OffsetsQuery is about one partition.
type OffsetsQuery struct {
	TopicPartition
	TimestampMs *int64 `json:"timestamp_ms,omitempty"`
	// Check, if set, asks instead whether the log still holds what was read before
	// Offset in LeaderEpoch (R96): Error says no.
	Check *EpochCheck `json:"check,omitempty"`
}

// EpochCheck is a reader's place and the leader epoch of what it read before it.
type EpochCheck struct {
	LeaderEpoch int32 `json:"leader_epoch"`
	Offset      int64 `json:"offset"`
}

// OffsetsAnswer has a result for each query, in order.
type OffsetsAnswer struct {
	Version int             `json:"version"`
	Results []OffsetsResult `json:"results"`
}

// OffsetsResult is the ends of a partition.
type OffsetsResult struct {
	Beginning      int64  `json:"beginning"`
	End            int64  `json:"end"`
	LogEnd         int64  `json:"log_end"`
	ForTimestamp   int64  `json:"for_timestamp,omitempty"`
	TimestampFound bool   `json:"timestamp_found,omitempty"`
	Stale          bool   `json:"stale,omitempty"`
	Error          *Error `json:"error,omitempty"`
}

// DeleteRecordsRequest moves a partition's log start.
type DeleteRecordsRequest struct {
	Version int `json:"version"`
	TopicPartition
	Before int64 `json:"before"` // -1: the high watermark
}

// DeleteRecordsAnswer tells where the partition begins now.
type DeleteRecordsAnswer struct {
	Version   int    `json:"version"`
	Beginning int64  `json:"beginning"`
	Error     *Error `json:"error,omitempty"`
}

// StatusRequest asks a leader for the figures of partitions of one topic.
type StatusRequest struct {
	Version    int       `json:"version"`
	Topic      uuid.UUID `json:"topic"`
	Partitions []int32   `json:"partitions"`
}

// StatusAnswer has a status for each partition of the request, in order.
type StatusAnswer struct {
	Version    int               `json:"version"`
	Partitions []PartitionStatus `json:"partitions"`
	Error      *Error            `json:"error,omitempty"` // of the whole request
}

// PartitionStatus is a partition as its leader sees it. Leader is another broker,
// or -1, when the receiver doesn't lead it; then the rest is not known.
type PartitionStatus struct {
	Leader        int32           `json:"leader"`
	LeaderEpoch   int32           `json:"leader_epoch"`
	ISR           []int32         `json:"isr"`
	LogStart      int64           `json:"log_start"`
	HighWatermark int64           `json:"high_watermark"`
	LogEnd        int64           `json:"log_end"`
	SizeBytes     int64           `json:"size_bytes"`
	Replicas      []ReplicaStatus `json:"replicas"`
	Dedupe        *DedupeStatus   `json:"dedupe,omitempty"`
}

// DedupeStatus is what a partition remembers of message ids and producers.
type DedupeStatus struct {
	IDs          int64  `json:"ids"`
	Producers    int64  `json:"producers"`
	OldestMs     int64  `json:"oldest_ms,omitempty"`
	NewestMs     int64  `json:"newest_ms,omitempty"`
	Hits         uint64 `json:"hits"`
	EvictedEarly uint64 `json:"evicted_early"`
}

// ReplicaStatus is one replica as the leader sees it; -1 stands for what it
// doesn't know.
type ReplicaStatus struct {
	Broker         int32 `json:"broker"`
	Leader         bool  `json:"leader,omitempty"`
	InSync         bool  `json:"in_sync,omitempty"`
	LogEnd         int64 `json:"log_end"`
	Lag            int64 `json:"lag"`
	LastCaughtUpMs int64 `json:"last_caught_up_ms"`
}

// cutPiece takes n bytes off the payload.
func cutPiece(payload []byte, n int32) (piece, rest []byte, err error) {
	if n < 0 || int(n) > len(payload) {
		return nil, nil, fmt.Errorf("%w: a piece of %d bytes in a payload of %d", ErrMalformed, n, len(payload))
	}
	if n == 0 {
		return nil, payload, nil
	}
	return payload[:n:n], payload[n:], nil
}

func noMore(payload []byte) error {
	if len(payload) > 0 {
		return fmt.Errorf("%w: %d bytes of payload too many", ErrMalformed, len(payload))
	}
	return nil
}
