package group

import (
	"encoding/json"
	"errors"
	"fmt"

	"highwater/replication/wire"
)

// A coordinator's error reaches the client through the broker that the client asked,
// so it has to arrive there as what it is.

// errorKinds is every error of this package that a call can end with, but for
// ErrUnknownOutcome, which has a cause.
var errorKinds = wire.ErrorKinds{
	wire.SentinelKind("group.ErrNoCoordinator", ErrNoCoordinator),
	wire.SentinelKind("group.ErrPollOver", ErrPollOver),
	wire.TypedKind[UnknownInstanceError]("group.UnknownInstanceError"),
	wire.TypedKind[UnknownGroupError]("group.UnknownGroupError"),
	wire.TypedKind[NameTakenError]("group.NameTakenError"),
	wire.TypedKind[MixedError]("group.MixedError"),
	wire.TypedKind[NotSubscribedError]("group.NotSubscribedError"),
	wire.TypedKind[FencedError]("group.FencedError"),
	wire.TypedKind[PollRunningError]("group.PollRunningError"),
	wire.TypedKind[UnassignedError]("group.UnassignedError"),
	wire.TypedKind[ActiveError]("group.ActiveError"),
	wire.TypedKind[TooManyError]("group.TooManyError"),
	wire.TypedKind[PositionsLostError]("group.PositionsLostError"),
	wire.TypedKind[InvalidError]("group.InvalidError"),
}

// kindUnknown is ErrUnknownOutcome, with the cause as data.
const kindUnknown = "group.ErrUnknownOutcome"

// encodeError makes err ready for another broker.
func (g *Groups) encodeError(err error) *wire.Error {
	if errors.Is(err, ErrUnknownOutcome) {
		out := &wire.Error{Kind: kindUnknown, Text: err.Error()}
		if g.cfg.Errors != nil {
			out.Data = wire.ErrorData(g.cfg.Errors.Encode(err))
		}
		return out
	}
	if out := errorKinds.Encode(err); out != nil {
		return out
	}
	if g.cfg.Errors != nil {
		return g.cfg.Errors.Encode(err)
	}
	return &wire.Error{Text: err.Error()}
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
	if err := errorKinds.Decode(e); err != nil {
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
