package replication

import (
	"errors"
	"fmt"
)

var (
	// ErrTimeout: the deadline passed after the append; the record may survive.
	ErrTimeout = errors.New("replication: timed out waiting for the acknowledgement")
	// ErrShuttingDown: the broker is draining; nothing was written.
	ErrShuttingDown = errors.New("replication: broker is shutting down")
)

// UnknownPartitionError: the topic has no such partition.
type UnknownPartitionError struct {
	Topic     string
	Partition int32
	Count     int
}

func (e *UnknownPartitionError) Error() string {
	return fmt.Sprintf("replication: topic %q has no partition %d", e.Topic, e.Partition)
}

// NotLeaderError: this broker doesn't lead the partition now.
type NotLeaderError struct {
	Topic     string
	Partition int32
	Leader    int32 // -1: none known
	Epoch     int32
}

func (e *NotLeaderError) Error() string {
	return fmt.Sprintf("replication: not the leader of %s-%d (leader is %d in epoch %d)", e.Topic, e.Partition, e.Leader, e.Epoch)
}

// OfflineError: the partition's log on this broker can't be opened; Cause tells
// why. Opening is tried again from time to time.
type OfflineError struct {
	Topic     string
	Partition int32
	Cause     error
}

func (e *OfflineError) Error() string {
	return fmt.Sprintf("replication: %s-%d is offline: %v", e.Topic, e.Partition, e.Cause)
}

func (e *OfflineError) Unwrap() error { return e.Cause }

// NotEnoughReplicasError: fewer in-sync replicas than min.insync.replicas.
// Appended tells whether the records are in the leader's log (50304) or not (50303).
type NotEnoughReplicasError struct {
	Topic     string
	Partition int32
	InSync    int
	Min       int
	Appended  bool
}

func (e *NotEnoughReplicasError) Error() string {
	return fmt.Sprintf("replication: %s-%d has %d in-sync replicas, needs %d", e.Topic, e.Partition, e.InSync, e.Min)
}

// UnexpectedOffsetError: expected_offset isn't the log's end; nothing was written.
type UnexpectedOffsetError struct {
	Topic            string
	Partition        int32
	Expected, Actual int64
}

func (e *UnexpectedOffsetError) Error() string {
	return fmt.Sprintf("replication: %s-%d ends at %d, not %d", e.Topic, e.Partition, e.Actual, e.Expected)
}

// RecordTooLargeError: a batch or record is above the topic's max.message.bytes.
type RecordTooLargeError struct {
	Topic      string
	Size, Most int
}

func (e *RecordTooLargeError) Error() string {
	return fmt.Sprintf("replication: %d bytes for topic %q, at most %d", e.Size, e.Topic, e.Most)
}

// TruncatedError: the records up to the reader's position are not those that it
// read: the log was truncated and written anew, or put back from an older copy
// (KIP-320, R96). Up to SafeOffset both agree.
type TruncatedError struct {
	Topic      string
	Partition  int32
	Offset     int64 // where the reader stands
	Epoch      int32 // the leader epoch of what it read last
	SafeOffset int64
	SafeEpoch  int32 // the leader epoch at SafeOffset-1; -1: none
}

func (e *TruncatedError) Error() string {
	return fmt.Sprintf("replication: %s-%d was truncated: offset %d in leader epoch %d is not in the log, which agrees up to %d",
		e.Topic, e.Partition, e.Offset, e.Epoch, e.SafeOffset)
}

// NotConfirmedError: this broker leads the partition as far as it knows, and can't
// vouch for it: the controller may have named another leader (R61). Nothing was
// written, but for appends that had begun to wait: their outcome is unknown.
type NotConfirmedError struct {
	Topic     string
	Partition int32
}

func (e *NotConfirmedError) Error() string {
	return fmt.Sprintf("replication: leadership of %s-%d is not confirmed", e.Topic, e.Partition)
}

// OffsetNotAvailableError: the leader is new, and doesn't know yet how far its
// predecessor had come with the high watermark (R51). It does in a moment.
type OffsetNotAvailableError struct {
	Topic     string
	Partition int32
}

func (e *OffsetNotAvailableError) Error() string {
	return fmt.Sprintf("replication: the end of %s-%d is not known yet", e.Topic, e.Partition)
}

// LeaderLostError: the records were on their way to the partition's leader, or
// there, when it stopped answering: they may be in the log.
type LeaderLostError struct {
	Topic     string
	Partition int32
	Leader    int32
	Cause     error
}

func (e *LeaderLostError) Error() string {
	return fmt.Sprintf("replication: broker %d, leader of %s-%d, did not answer: %v", e.Leader, e.Topic, e.Partition, e.Cause)
}

func (e *LeaderLostError) Unwrap() error { return e.Cause }

// errSteppedDown is why a leader doesn't know what became of a record: another
// broker led before it was acknowledged, and its log went on without it, or it
// isn't known.
var errSteppedDown = errors.New("replication: it stepped down")
