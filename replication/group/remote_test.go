package group

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"highwater/replication/wire"
)

// otherRoom is an error of another room, and its way between brokers.
type otherRoom struct{ text string }

func (e *otherRoom) Error() string { return e.text }

func (*otherRoom) Encode(err error) *wire.Error {
	other := &otherRoom{text: "?"}
	errors.As(err, &other)
	return &wire.Error{Kind: "other", Text: other.text}
}

func (*otherRoom) Decode(e *wire.Error) error { return &otherRoom{text: e.Text} }

// What a coordinator says arrives at the front as what it is.
func TestErrorsTravel(t *testing.T) {
	g := New(Config{Errors: &otherRoom{}})
	at := TopicPartition{Topic: "t", TopicID: uuid.New(), Partition: 3}
	for _, err := range []error{
		ErrNoCoordinator, ErrPollOver,
		&UnknownInstanceError{Group: "g", Instance: "a", Expired: 300 * time.Second},
		&UnknownInstanceError{Group: "g", Instance: "a", Left: true},
		&UnknownGroupError{Group: "g"},
		&NameTakenError{Group: "g", Name: "a"},
		&MixedError{Group: "g", Instance: "a"},
		&NotSubscribedError{Group: "g", Instance: "a"},
		&FencedError{Group: "g", Instance: "a", Generation: 7, Newest: "a~2"},
		&FencedError{Group: "g", Instance: "a", Generation: 7, Partition: &at},
		&PollRunningError{Group: "g", Instance: "a"},
		&UnassignedError{Group: "g", Instance: "a", Partition: at, Pending: true},
		&ActiveError{Group: "g", Members: 2},
		&TooManyError{What: "members", Limit: 1000},
		&PositionsLostError{Group: "g", Instance: "a"},
		&InvalidError{Reason: "why"},
		&otherRoom{text: "few replicas"},
	} {
		if got := travel(t, g, fmt.Errorf("wrapped: %w", err)); !reflect.DeepEqual(got, err) {
			t.Errorf("%#v arrives as %#v", err, got)
		}
	}
	got := travel(t, g, fmt.Errorf("%w: %w", ErrUnknownOutcome, &otherRoom{text: "few replicas"}))
	var cause *otherRoom
	if !errors.Is(got, ErrUnknownOutcome) || !errors.As(got, &cause) || cause.text != "few replicas" {
		t.Errorf("an unknown outcome with its cause arrives as %v", got)
	}
}

func travel(t *testing.T, g *Groups, err error) error {
	t.Helper()
	text, bad := json.Marshal(g.encodeError(err))
	if bad != nil {
		t.Fatal(bad)
	}
	e := &wire.Error{}
	if bad := json.Unmarshal(text, e); bad != nil {
		t.Fatal(bad)
	}
	return g.decodeError(e)
}

// A call that may have been done, and is refused when it is sent again, has an
// unknown outcome, unless the refusal comes of having done it.
func TestRefusedAfterALostAnswer(t *testing.T) {
	left, never := &UnknownInstanceError{Left: true}, &UnknownInstanceError{}
	for _, c := range []struct {
		call    Call
		err     error
		unknown bool
	}{
		{Call{Leave: &Leave{}}, left, false},
		{Call{Leave: &Leave{}}, never, true},
		{Call{DeleteGroup: &DeleteGroup{}}, &UnknownGroupError{}, false},
		{Call{DeleteGroup: &DeleteGroup{}}, &ActiveError{}, true},
		{Call{Commit: &Commit{}}, &FencedError{}, true},
		{Call{Commit: &Commit{}}, left, true},
	} {
		err := afterUnknown(&c.call, c.err)
		if errors.Is(err, ErrUnknownOutcome) != c.unknown || c.unknown == (err == nil) {
			t.Errorf("%s refused with %v: %v", c.call.kind(), c.err, err)
		}
		if c.unknown && errors.As(err, new(*FencedError)) {
			t.Errorf("it says that nothing was done: %v", err)
		}
	}
}
