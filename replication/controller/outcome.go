package controller

import (
	"encoding/json"
	"errors"
	"fmt"

	"highwater/replication/wire"
)

// outcome is what applying a command gave, on its way back to another broker: one
// of the members, or none.
type outcome struct {
	Topic    *Topic             `json:"topic,omitempty"`
	Broker   *Broker            `json:"broker,omitempty"`
	Alter    []wire.AlterResult `json:"alter,omitempty"`
	Producer *ProducerIDs       `json:"producer,omitempty"`
}

// refusal is the state machine's error on its way back. Data is the error's struct.
type refusal struct {
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data"`
}

// refusals makes an empty error of each kind that the state machine answers with.
func refusals() map[string]error {
	return map[string]error{
		"unknown_topic":      &UnknownTopicError{},
		"topic_exists":       &TopicExistsError{},
		"invalid_name":       &InvalidNameError{},
		"invalid_config":     &InvalidConfigError{},
		"impossible":         &ImpossibleError{},
		"conflict":           &ConflictError{},
		"incompatible":       &IncompatibleError{},
		"stale_broker_epoch": &StaleBrokerEpochError{},
		"refused":            &RefusedError{},
		"duplicate_broker":   &DuplicateBrokerError{},
		"too_many_producers": &TooManyProducersError{},
	}
}

// encodeOutcome encodes a result or an error of Command.apply.
func encodeOutcome(result any, err error) (res, refused json.RawMessage) {
	if err != nil {
		r := refusal{Kind: "other", Data: mustMarshal(err.Error())}
		for kind, example := range refusals() {
			if fmt.Sprintf("%T", example) == fmt.Sprintf("%T", err) {
				r = refusal{Kind: kind, Data: mustMarshal(err)}
			}
		}
		return nil, mustMarshal(r)
	}
	var o outcome
	switch v := result.(type) {
	case nil:
	case *Topic:
		o.Topic = v
	case *Broker:
		o.Broker = v
	case []wire.AlterResult:
		o.Alter = v
	case *ProducerIDs:
		o.Producer = v
	default:
		panic(fmt.Sprintf("a command's result of type %T", result))
	}
	return mustMarshal(o), nil
}

// errOther is an error of a kind that this version doesn't know.
var errOther = errors.New("controller: refused")

func decodeOutcome(res, refused json.RawMessage) (any, error) {
	if len(refused) > 0 {
		var r refusal
		if err := json.Unmarshal(refused, &r); err != nil {
			return nil, fmt.Errorf("%w: undecodable answer: %w", ErrOutcomeUnknown, err)
		}
		into, ok := refusals()[r.Kind]
		if !ok {
			return nil, fmt.Errorf("%w: %s %s", errOther, r.Kind, r.Data)
		}
		if err := json.Unmarshal(r.Data, into); err != nil {
			return nil, fmt.Errorf("%w: undecodable answer: %w", ErrOutcomeUnknown, err)
		}
		return nil, into
	}
	var o outcome
	if err := json.Unmarshal(res, &o); err != nil {
		return nil, fmt.Errorf("%w: undecodable answer: %w", ErrOutcomeUnknown, err)
	}
	switch {
	case o.Topic != nil:
		return o.Topic, nil
	case o.Broker != nil:
		return o.Broker, nil
	case o.Alter != nil:
		return o.Alter, nil
	case o.Producer != nil:
		return o.Producer, nil
	}
	return nil, nil
}

func mustMarshal(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs of strings and numbers
	}
	return data
}
