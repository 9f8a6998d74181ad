package wire

import "github.com/google/uuid"

// FindRequest asks a leader which of its partitions of one topic has the record with
// a message id.
type FindRequest struct {
	Version    int       `json:"version"`
	Topic      uuid.UUID `json:"topic"`
	Partitions []int32   `json:"partitions"`
	ID         []byte    `json:"id"`
	MaxWaitMs  int64     `json:"max_wait_ms"` // for a record that isn't committed yet
}

// FindAnswer has a result for each partition of the request, in order, up to and with
// the first that found it: those behind that one are left out. The payload is the
// record that was found, as a batch of its own.
type FindAnswer struct {
	Version int          `json:"version"`
	Results []FindResult `json:"results"`
	Batch   []byte       `json:"-"`
}

// FindResult is what one partition knows of a message id.
type FindResult struct {
	// Offset of the record; -1: the partition doesn't know the id.
	Offset      int64  `json:"offset"`
	LeaderEpoch int32  `json:"leader_epoch,omitempty"`
	Gone        bool   `json:"gone,omitempty"` // the id is known, and the record isn't kept any more
	Error       *Error `json:"error,omitempty"`
}

// AppendHead appends the encoded head.
func (a *FindAnswer) AppendHead(dst []byte) []byte { return appendJSON(dst, a) }

// Payload is the record's batch.
func (a *FindAnswer) Payload() [][]byte {
	if len(a.Batch) == 0 {
		return nil
	}
	return [][]byte{a.Batch}
}

// Decode reads an answer; its batch aliases payload.
func (a *FindAnswer) Decode(head, payload []byte) error {
	if err := decodeJSON(head, a); err != nil {
		return err
	}
	a.Batch = payload
	return nil
}
