package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// The body of every request and answer between brokers:
//
//	+-----------------+----------------+---------------------+
//	| head length u32 | head           | payload             |
//	| big endian      |                | raw record batches  |
//	+-----------------+----------------+---------------------+
//
// The head is JSON for control messages and binary (codec.go) for fetches. The
// payload reaches to the end of the body; the head says how it is divided. Most
// messages have none.

// FrameBytes is the size of the length before a head.
const FrameBytes = 4

// MaxHeadBytes bounds a head: a full fetch of a million partitions fits.
const MaxHeadBytes = 64 << 20

// ErrMalformed: the bytes are no message of this protocol. Nothing of it was used.
var ErrMalformed = errors.New("wire: malformed message")

// VersionError: the message is of a version that this program doesn't speak (R100).
type VersionError struct{ Version int }

func (e *VersionError) Error() string {
	return fmt.Sprintf("wire: message of version %d; this broker speaks %d to %d", e.Version, MinVersion, Version)
}

// CheckVersion is nil for a version that this program speaks, else a *VersionError.
func CheckVersion(version int) error {
	if version < MinVersion || version > Version {
		return &VersionError{Version: version}
	}
	return nil
}

// Message is what a body holds.
type Message interface {
	// AppendHead appends the encoded head.
	AppendHead(dst []byte) []byte
	// Payload is what follows the head, in pieces; nil: nothing.
	Payload() [][]byte
	// Decode reads a head and the payload after it, which the message may keep.
	// Errors: ErrMalformed, *VersionError.
	Decode(head, payload []byte) error
}

// AppendFrame appends the frame of a message without its payload.
func AppendFrame(dst []byte, m Message) []byte {
	at := len(dst)
	dst = m.AppendHead(append(dst, 0, 0, 0, 0))
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-FrameBytes))
	return dst
}

// DecodeBody reads a whole body into m, which may keep parts of it.
func DecodeBody(body []byte, m Message) error {
	head, payload, err := SplitFrame(body)
	if err != nil {
		return err
	}
	return m.Decode(head, payload)
}

// SplitFrame divides a whole body.
func SplitFrame(body []byte) (head, payload []byte, err error) {
	if len(body) < FrameBytes {
		return nil, nil, fmt.Errorf("%w: a body of %d bytes", ErrMalformed, len(body))
	}
	n := binary.BigEndian.Uint32(body)
	body = body[FrameBytes:]
	if n > MaxHeadBytes || int(n) > len(body) {
		return nil, nil, fmt.Errorf("%w: a head of %d bytes in a body of %d", ErrMalformed, n, len(body))
	}
	return body[:n:n], body[n:], nil
}

// JSON makes a Message of a struct whose head is JSON and that has no payload.
type JSON[T any] struct{ V *T }

// AppendHead appends the JSON text.
func (m *JSON[T]) AppendHead(dst []byte) []byte { return appendJSON(dst, m.V) }

// Payload is nil.
func (m *JSON[T]) Payload() [][]byte { return nil }

// Decode reads the JSON text. Members that this program doesn't know are passed
// over: within a version, members may be added.
func (m *JSON[T]) Decode(head, payload []byte) error {
	if len(payload) > 0 {
		return fmt.Errorf("%w: a payload where none belongs", ErrMalformed)
	}
	m.V = new(T)
	return decodeJSON(head, m.V)
}

// versioned is the one member that is read before all else.
type versioned struct {
	Version *int `json:"version"`
}

// decodeJSON reads a head into v, a struct. A head that names a version that isn't
// spoken here is refused before anything else in it is looked at, and so is one
// that names none where v has a version.
func decodeJSON(head []byte, v any) error {
	var first versioned
	if err := json.Unmarshal(head, &first); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if first.Version != nil {
		if err := CheckVersion(*first.Version); err != nil {
			return err
		}
	}
	if err := json.Unmarshal(head, v); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if version := reflect.ValueOf(v).Elem().FieldByName("Version"); version.IsValid() {
		return CheckVersion(int(version.Int()))
	}
	return nil
}

func appendJSON(dst []byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs
	}
	return append(dst, text...)
}
