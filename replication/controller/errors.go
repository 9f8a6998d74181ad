package controller

import (
	"errors"
	"fmt"

	"highwater/replication/wire"
)

var (
	// ErrNoController: no controller can answer now. The change was not made; retry.
	ErrNoController = errors.New("controller: no leader right now")
	// ErrOutcomeUnknown: the change was proposed, but whether it is made isn't
	// known (K12). Look at the metadata before asking again.
	ErrOutcomeUnknown = errors.New("controller: the change may or may not have been made")
	// ErrStoreFailed: raft's own file could not be written; it is final (S4) and
	// the process must exit.
	ErrStoreFailed = errors.New("controller: the metadata store failed")
)

// UnknownTopicError: there is no such topic (or no longer, under that id).
type UnknownTopicError struct{ Topic string }

func (e *UnknownTopicError) Error() string {
	return fmt.Sprintf("controller: unknown topic %q", e.Topic)
}

// TopicExistsError: a topic of that name is there already. Differs names what the
// request asked otherwise, where it was compared.
type TopicExistsError struct {
	Topic   string
	Differs []string
}

func (e *TopicExistsError) Error() string { return fmt.Sprintf("controller: topic %q exists", e.Topic) }

// InvalidNameError: the name breaks the rule [a-zA-Z0-9._-]{1,249}, not "." or
// "..", or is kept for internal use. Reason tells which.
type InvalidNameError struct{ Topic, Reason string }

func (e *InvalidNameError) Error() string {
	return fmt.Sprintf("controller: invalid topic name %q: %s", e.Topic, e.Reason)
}

// InvalidConfigError: a topic config is unknown or its value is not allowed.
type InvalidConfigError struct{ Name, Value, Allowed string }

func (e *InvalidConfigError) Error() string {
	return fmt.Sprintf("controller: config %s=%q: allowed: %s", e.Name, e.Value, e.Allowed)
}

// ImpossibleError: the request can't be met by this cluster (more replicas than brokers, …).
type ImpossibleError struct{ Reason string }

func (e *ImpossibleError) Error() string { return "controller: " + e.Reason }

// ConflictError: the topic was changed by somebody else in between; look again.
type ConflictError struct{ Topic string }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("controller: topic %q was changed at the same time", e.Topic)
}

// DirError: raft's directory can't be started from, and making a new cluster in
// its place would orphan the topics there are. It is seen at start only; Fix
// says what a person can do.
type DirError struct{ Dir, Reason, Fix string }

func (e *DirError) Error() string {
	return fmt.Sprintf("controller: %s: %s. %s", e.Dir, e.Reason, e.Fix)
}

// IncompatibleError: the metadata log holds a command that this version of the
// program does not understand; a newer one wrote it. Final.
type IncompatibleError struct {
	Index  uint64
	Reason string
}

func (e *IncompatibleError) Error() string {
	return fmt.Sprintf("controller: the metadata command at raft index %d was written by a newer version (%s); start that version", e.Index, e.Reason)
}

// StaleBrokerEpochError: the broker has registered anew since, or isn't
// registered: whoever asked speaks for a process that is gone (R68).
type StaleBrokerEpochError struct {
	Broker int32
	Epoch  int64
}

func (e *StaleBrokerEpochError) Error() string {
	return fmt.Sprintf("controller: the registration of broker %d with epoch %d is over: another process has registered with its --node-id", e.Broker, e.Epoch)
}

// RefusedError: the state machine does not do that, for the reason given.
type RefusedError struct {
	Code   wire.Code
	Reason string
}

func (e *RefusedError) Error() string { return "controller: " + e.Reason }

// TooManyProducersError: there are as many transactional ids as the metadata can hold.
type TooManyProducersError struct{ Limit int }

func (e *TooManyProducersError) Error() string {
	return fmt.Sprintf("controller: there are %d transactional ids already", e.Limit)
}

// DuplicateBrokerError: another process with this broker id is alive (R67).
type DuplicateBrokerError struct{ Broker int32 }

func (e *DuplicateBrokerError) Error() string {
	return fmt.Sprintf("controller: another process is alive as broker %d: stop it, or give this one another --node-id", e.Broker)
}
