package storage

import (
	"errors"
	"fmt"
)

// ErrStale: the log learned of one of an offer's ids, or was cut, since Prepare.
var ErrStale = errors.New("storage: the log changed since the offer was prepared")

// MessageReusedError: a message id is known, of a record with another content (D7).
// Nothing was staged.
type MessageReusedError struct {
	Record int    // index of the record within the offer
	ID     string // the message id, as it came
	Offset int64  // of the record that had the id first; -1: a record of the same offer
}

func (e *MessageReusedError) Error() string {
	return fmt.Sprintf("storage: record %d: message id %q belongs to offset %d, which is another message", e.Record, e.ID, e.Offset)
}

// SequenceGapError: a producer's batch is not the one that comes next (I3). Nothing
// was staged.
type SequenceGapError struct {
	ProducerID    int64
	Epoch         int16
	Expected, Got int32 // sequence numbers
}

func (e *SequenceGapError) Error() string {
	return fmt.Sprintf("storage: producer %d of epoch %d: sequence number %d where %d is expected", e.ProducerID, e.Epoch, e.Got, e.Expected)
}

// UnknownProducerError: a batch goes on where a producer has stopped, of whom the log
// knows nothing (I7). Nothing was staged.
type UnknownProducerError struct {
	ProducerID int64
}

func (e *UnknownProducerError) Error() string {
	return fmt.Sprintf("storage: producer %d is unknown here, and its batch is not its first", e.ProducerID)
}

// ProducerFencedError: a newer epoch of the producer has written here (I3). Nothing
// was staged.
type ProducerFencedError struct {
	ProducerID     int64
	Epoch, Current int16
}

func (e *ProducerFencedError) Error() string {
	return fmt.Sprintf("storage: producer %d of epoch %d: the current epoch is %d", e.ProducerID, e.Epoch, e.Current)
}
