package wire

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ErrorKind carries one kind of error from broker to broker.
type ErrorKind struct {
	Name string // of the package and the error
	// Data is what err says beyond its kind; ok is false when err isn't of this kind.
	Data func(err error) (data any, ok bool)
	// Make is the other way round. bad: the data isn't such an error's.
	Make func(data json.RawMessage) (err, bad error)
}

// SentinelKind is the kind of one error value.
func SentinelKind(name string, target error) ErrorKind {
	return ErrorKind{name,
		func(err error) (any, bool) { return nil, errors.Is(err, target) },
		func(json.RawMessage) (error, error) { return target, nil }}
}

// TypedKind is the kind of a struct whose fields JSON can carry.
func TypedKind[T any, P interface {
	*T
	error
}](name string) ErrorKind {
	return ErrorKind{name,
		func(err error) (any, bool) {
			var e P
			return e, errors.As(err, &e)
		},
		func(data json.RawMessage) (error, error) {
			e := P(new(T))
			return e, json.Unmarshal(data, e)
		}}
}

// ErrorKinds are the kinds that a room knows. The first that fits is taken, so what
// wraps another stands before it.
type ErrorKinds []ErrorKind

// Encode makes err ready for another broker; nil when it is of no such kind.
func (kinds ErrorKinds) Encode(err error) *Error {
	for i := range kinds {
		k := &kinds[i]
		data, ok := k.Data(err)
		if !ok {
			continue
		}
		out := &Error{Kind: k.Name, Text: err.Error()}
		if data != nil {
			out.Data = ErrorData(data)
		}
		return out
	}
	return nil
}

// ErrorData is what an Error carries of a plain struct.
func ErrorData(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs
	}
	return text
}

// Decode makes again what Encode was given; nil when it is of no such kind. One that
// can't be made is ErrMalformed.
func (kinds ErrorKinds) Decode(e *Error) error {
	for i := range kinds {
		k := &kinds[i]
		if k.Name != e.Kind {
			continue
		}
		err, bad := k.Make(e.Data)
		if bad != nil {
			return fmt.Errorf("%w: error %s: %w", ErrMalformed, e.Kind, bad)
		}
		return err
	}
	return nil
}
