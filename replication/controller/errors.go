package controller

import (
	"errors"
	"fmt"
)

// ErrNoController: no controller can answer now; retry.
var ErrNoController = errors.New("controller: no leader right now")

// UnknownTopicError: there is no such topic (or no longer, under that id).
type UnknownTopicError struct{ Topic string }

func (e *UnknownTopicError) Error() string {
	return fmt.Sprintf("controller: unknown topic %q", e.Topic)
}

// TopicExistsError: a topic of that name is there already.
type TopicExistsError struct{ Topic string }

func (e *TopicExistsError) Error() string { return fmt.Sprintf("controller: topic %q exists", e.Topic) }

// InvalidNameError: the name breaks the rule [a-zA-Z0-9._-]{1,249}, not "." or "..".
type InvalidNameError struct{ Topic string }

func (e *InvalidNameError) Error() string {
	return fmt.Sprintf("controller: invalid topic name %q", e.Topic)
}

// InvalidConfigError: a topic config is unknown or its value is not allowed.
type InvalidConfigError struct{ Name, Value, Allowed string }

func (e *InvalidConfigError) Error() string {
	return fmt.Sprintf("controller: config %s=%q: allowed: %s", e.Name, e.Value, e.Allowed)
}

// ImpossibleError: the request can't be met by this cluster (more replicas than brokers, …).
type ImpossibleError struct{ Reason string }

func (e *ImpossibleError) Error() string { return "controller: " + e.Reason }
