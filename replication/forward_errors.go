package replication

import (
	"encoding/json"
	"errors"

	"highwater/replication/controller"
	"highwater/replication/wire"
	"highwater/storage"
)

// An error of a partition's leader reaches the client through the broker that the
// client asked, so it has to arrive there as what it is.

// withCause is the kind of a struct that holds another error, which arrives as a
// text. get takes the struct apart, put makes it again.
func withCause[P error, D any](name string, get func(e P) D, put func(d D) error) wire.ErrorKind {
	return wire.ErrorKind{
		Name: name,
		Data: func(err error) (any, bool) {
			var e P
			if !errors.As(err, &e) {
				return nil, false
			}
			return get(e), true
		},
		Make: func(data json.RawMessage) (error, error) {
			var d D
			err := json.Unmarshal(data, &d)
			return put(d), err
		},
	}
}

// partitionCause is an error of a partition, taken apart.
type partitionCause struct {
	Topic     string
	Partition int32
	Leader    int32
	Cause     string
}

// errorKinds is every error that can come back from another broker.
var errorKinds = wire.ErrorKinds{
	wire.TypedKind[controller.UnknownTopicError]("controller.UnknownTopicError"),
	wire.TypedKind[UnknownPartitionError]("replication.UnknownPartitionError"),
	wire.TypedKind[NotLeaderError]("replication.NotLeaderError"),
	wire.TypedKind[NotEnoughReplicasError]("replication.NotEnoughReplicasError"),
	wire.TypedKind[NotConfirmedError]("replication.NotConfirmedError"),
	wire.TypedKind[OffsetNotAvailableError]("replication.OffsetNotAvailableError"),
	wire.TypedKind[UnexpectedOffsetError]("replication.UnexpectedOffsetError"),
	wire.TypedKind[RecordTooLargeError]("replication.RecordTooLargeError"),
	wire.TypedKind[TruncatedError]("replication.TruncatedError"),
	withCause("replication.OfflineError",
		func(e *OfflineError) partitionCause {
			return partitionCause{Topic: e.Topic, Partition: e.Partition, Cause: e.Cause.Error()}
		},
		func(d partitionCause) error {
			return &OfflineError{Topic: d.Topic, Partition: d.Partition, Cause: errors.New(d.Cause)}
		}),
	withCause("replication.LeaderLostError",
		func(e *LeaderLostError) partitionCause {
			return partitionCause{Topic: e.Topic, Partition: e.Partition, Leader: e.Leader, Cause: e.Cause.Error()}
		},
		func(d partitionCause) error {
			return &LeaderLostError{Topic: d.Topic, Partition: d.Partition, Leader: d.Leader, Cause: errors.New(d.Cause)}
		}),
	wire.SentinelKind("replication.ErrTimeout", ErrTimeout),
	wire.SentinelKind("replication.ErrShuttingDown", ErrShuttingDown),
	wire.TypedKind[storage.OffsetOutOfRangeError]("storage.OffsetOutOfRangeError"),
	wire.TypedKind[storage.CorruptError]("storage.CorruptError"),
	withCause("storage.FailedError",
		func(e *storage.FailedError) string { return e.Cause.Error() },
		func(cause string) error { return &storage.FailedError{Cause: errors.New(cause)} }),
	wire.TypedKind[storage.MessageReusedError]("storage.MessageReusedError"),
	wire.TypedKind[storage.SequenceGapError]("storage.SequenceGapError"),
	wire.TypedKind[storage.UnknownProducerError]("storage.UnknownProducerError"),
	wire.TypedKind[storage.ProducerFencedError]("storage.ProducerFencedError"),
	wire.TypedKind[UnknownMessageError]("replication.UnknownMessageError"),
	wire.SentinelKind("storage.ErrDiskNearlyFull", storage.ErrDiskNearlyFull),
	wire.SentinelKind("storage.ErrTooManyFiles", storage.ErrTooManyFiles),
	wire.SentinelKind("storage.ErrBacklogged", storage.ErrBacklogged),
	wire.SentinelKind("storage.ErrBatchTooLarge", storage.ErrBatchTooLarge),
	wire.SentinelKind("storage.ErrClosed", storage.ErrClosed),
}

// remoteError is an error of another broker whose kind isn't known here.
type remoteError struct{ text string }

func (e *remoteError) Error() string { return "replication: another broker: " + e.text }

// encodeError makes err ready for another broker; nil for nil.
func encodeError(err error) *wire.Error {
	if err == nil {
		return nil
	}
	if out := errorKinds.Encode(err); out != nil {
		return out
	}
	return &wire.Error{Text: err.Error()}
}

// decodeError makes again what encodeError was given; nil for nil.
func decodeError(e *wire.Error) error {
	if e == nil {
		return nil
	}
	if err := errorKinds.Decode(e); err != nil {
		return err
	}
	return &remoteError{text: e.Text}
}
