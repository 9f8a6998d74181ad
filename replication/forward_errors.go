package replication

import (
	"encoding/json"
	"errors"
	"fmt"

	"highwater/replication/controller"
	"highwater/replication/wire"
	"highwater/storage"
)

// An error of a partition's leader reaches the client through the broker that the
// client asked, so it has to arrive there as what it is.

// errorKind carries one kind of error from broker to broker.
type errorKind struct {
	name string // of the package and the error
	// data is what err says beyond its kind; ok is false when err isn't of this kind.
	data func(err error) (data any, ok bool)
	make func(data json.RawMessage) (error, error)
}

// sentinel is the kind of one error value.
func sentinel(name string, target error) errorKind {
	return errorKind{name,
		func(err error) (any, bool) { return nil, errors.Is(err, target) },
		func(json.RawMessage) (error, error) { return target, nil }}
}

// typed is the kind of a struct whose fields JSON can carry.
func typed[T any, P interface {
	*T
	error
}](name string) errorKind {
	return errorKind{name,
		func(err error) (any, bool) {
			var e P
			return e, errors.As(err, &e)
		},
		func(data json.RawMessage) (error, error) {
			e := P(new(T))
			return e, json.Unmarshal(data, e)
		}}
}

// withCause is the kind of a struct that holds another error, which arrives as a
// text. get takes the struct apart, put makes it again.
func withCause[P error, D any](name string, get func(e P) D, put func(d D) error) errorKind {
	return errorKind{name,
		func(err error) (any, bool) {
			var e P
			if !errors.As(err, &e) {
				return nil, false
			}
			return get(e), true
		},
		func(data json.RawMessage) (error, error) {
			var d D
			err := json.Unmarshal(data, &d)
			return put(d), err
		}}
}

// partitionCause is an error of a partition, taken apart.
type partitionCause struct {
	Topic     string
	Partition int32
	Leader    int32
	Cause     string
}

// errorKinds is every error that can come back from another broker; the first that
// fits is taken, so what wraps another stands before it.
var errorKinds = [...]errorKind{
	typed[controller.UnknownTopicError]("controller.UnknownTopicError"),
	typed[UnknownPartitionError]("replication.UnknownPartitionError"),
	typed[NotLeaderError]("replication.NotLeaderError"),
	typed[NotEnoughReplicasError]("replication.NotEnoughReplicasError"),
	typed[NotConfirmedError]("replication.NotConfirmedError"),
	typed[OffsetNotAvailableError]("replication.OffsetNotAvailableError"),
	typed[UnexpectedOffsetError]("replication.UnexpectedOffsetError"),
	typed[RecordTooLargeError]("replication.RecordTooLargeError"),
	typed[TruncatedError]("replication.TruncatedError"),
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
	sentinel("replication.ErrTimeout", ErrTimeout),
	sentinel("replication.ErrShuttingDown", ErrShuttingDown),
	typed[storage.OffsetOutOfRangeError]("storage.OffsetOutOfRangeError"),
	typed[storage.CorruptError]("storage.CorruptError"),
	withCause("storage.FailedError",
		func(e *storage.FailedError) string { return e.Cause.Error() },
		func(cause string) error { return &storage.FailedError{Cause: errors.New(cause)} }),
	sentinel("storage.ErrDiskNearlyFull", storage.ErrDiskNearlyFull),
	sentinel("storage.ErrTooManyFiles", storage.ErrTooManyFiles),
	sentinel("storage.ErrBatchTooLarge", storage.ErrBatchTooLarge),
	sentinel("storage.ErrClosed", storage.ErrClosed),
}

// remoteError is an error of another broker whose kind isn't known here.
type remoteError struct{ text string }

func (e *remoteError) Error() string { return "replication: another broker: " + e.text }

// encodeError makes err ready for another broker; nil for nil.
func encodeError(err error) *wire.Error {
	if err == nil {
		return nil
	}
	for i := range errorKinds {
		k := &errorKinds[i]
		data, ok := k.data(err)
		if !ok {
			continue
		}
		out := &wire.Error{Kind: k.name, Text: err.Error()}
		if data != nil {
			text, err := json.Marshal(data)
			if err != nil {
				panic(err) // plain structs
			}
			out.Data = text
		}
		return out
	}
	return &wire.Error{Text: err.Error()}
}

// decodeError makes again what encodeError was given; nil for nil.
func decodeError(e *wire.Error) error {
	if e == nil {
		return nil
	}
	for i := range errorKinds {
		k := &errorKinds[i]
		if k.name != e.Kind {
			continue
		}
		err, bad := k.make(e.Data)
		if bad != nil {
			return fmt.Errorf("%w: error %s: %w", wire.ErrMalformed, e.Kind, bad)
		}
		return err
	}
	return &remoteError{text: e.Text}
}
