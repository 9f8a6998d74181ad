package group

import (
	"encoding/json"
	"errors"
	"fmt"

	"highwater/replication/wire"
)

// A coordinator's error reaches the client through the broker that the client asked,
// so it has to arrive there as what it is.

// errorKind carries one kind of error from broker to broker.
type errorKind struct {
	name string
	// data is what err says beyond its kind; ok is false when err isn't of this kind.
	data func(err error) (data any, ok bool)
	make func(data json.RawMessage) (error, error)
}

func sentinel(name string, target error) errorKind {
	return errorKind{name,
		func(err error) (any, bool) { return nil, errors.Is(err, target) },
		func(json.RawMessage) (error, error) { return target, nil }}
}

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

// errorKinds is every error of this package that a call can end with, but for
// ErrUnknownOutcome, which has a cause.
var errorKinds = [...]errorKind{
	sentinel("group.ErrNoCoordinator", ErrNoCoordinator),
	sentinel("group.ErrPollOver", ErrPollOver),
	typed[UnknownInstanceError]("group.UnknownInstanceError"),
	typed[UnknownGroupError]("group.UnknownGroupError"),
	typed[NameTakenError]("group.NameTakenError"),
	typed[MixedError]("group.MixedError"),
	typed[NotSubscribedError]("group.NotSubscribedError"),
	typed[FencedError]("group.FencedError"),
	typed[PollRunningError]("group.PollRunningError"),
	typed[UnassignedError]("group.UnassignedError"),
	typed[ActiveError]("group.ActiveError"),
	typed[TooManyError]("group.TooManyError"),
	typed[PositionsLostError]("group.PositionsLostError"),
	typed[InvalidError]("group.InvalidError"),
}

// kindUnknown is ErrUnknownOutcome, with the cause as data.
const kindUnknown = "group.ErrUnknownOutcome"

// encodeError makes err ready for another broker.
func (g *Groups) encodeError(err error) *wire.Error {
	if errors.Is(err, ErrUnknownOutcome) {
		out := &wire.Error{Kind: kindUnknown, Text: err.Error()}
		if g.cfg.Errors != nil {
			out.Data = mustJSON(g.cfg.Errors.Encode(err))
		}
		return out
	}
	for i := range errorKinds {
		k := &errorKinds[i]
		data, ok := k.data(err)
		if !ok {
			continue
		}
		out := &wire.Error{Kind: k.name, Text: err.Error()}
		if data != nil {
			out.Data = mustJSON(data)
		}
		return out
	}
	if g.cfg.Errors != nil {
		return g.cfg.Errors.Encode(err)
	}
	return &wire.Error{Text: err.Error()}
}

func mustJSON(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs
	}
	return text
}

// decodeError makes again what encodeError was given.
func (g *Groups) decodeError(e *wire.Error) error {
	if e.Kind == kindUnknown {
		cause := &wire.Error{Text: e.Text}
		if len(e.Data) > 0 {
			if err := json.Unmarshal(e.Data, cause); err != nil {
				return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
			}
		}
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, g.decodeOther(cause))
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
	return g.decodeOther(e)
}

func (g *Groups) decodeOther(e *wire.Error) error {
	if g.cfg.Errors != nil {
		return g.cfg.Errors.Decode(e)
	}
	return &remoteError{text: e.Text}
}

// remoteError is an error of another broker whose kind isn't known here.
type remoteError struct{ text string }

func (e *remoteError) Error() string { return "group: another broker: " + e.text }
