package wire

// DedupeRequest asks a partition's leader, as a follower of a leader epoch, for what it
// remembers of message ids and producers and the log doesn't tell.
type DedupeRequest struct {
	Version int `json:"version"`
	TopicPartition
	LeaderEpoch int32 `json:"leader_epoch"`
	// Below is up to where, at least, the follower can't learn it from the log.
	Below int64 `json:"below"`
}

// DedupeAnswer has the leader's export as payload.
type DedupeAnswer struct {
	Version int    `json:"version"`
	Below   int64  `json:"below"` // all about records below it is in the export
	Error   *Error `json:"error,omitempty"`
	Export  []byte `json:"-"`
}

// AppendHead appends the encoded head.
func (a *DedupeAnswer) AppendHead(dst []byte) []byte { return appendJSON(dst, a) }

// Payload is the export.
func (a *DedupeAnswer) Payload() [][]byte {
	if len(a.Export) == 0 {
		return nil
	}
	return [][]byte{a.Export}
}

// Decode reads an answer; its export aliases payload.
func (a *DedupeAnswer) Decode(head, payload []byte) error {
	if err := decodeJSON(head, a); err != nil {
		return err
	}
	a.Export = payload
	return nil
}
