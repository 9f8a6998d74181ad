package history

// Attempt is one request of a client that sends its requests again: also after
// success, and while another copy of it is under way.
type Attempt struct {
	ID      int64  `json:"id"`
	Client  string `json:"client"`
	Topic   string `json:"topic"` // its id
	Broker  int    `json:"broker"`
	Call    int64  `json:"call"`
	Return  int64  `json:"return"`
	Acks    int    `json:"acks"`
	Form    string `json:"form"` // how the ids were sent, see the Forms
	Status  int    `json:"status,omitempty"`
	Code    int    `json:"code,omitempty"`
	Error   string `json:"error,omitempty"`
	Pinned  bool   `json:"pinned,omitempty"`  // it named the partitions
	GaveUp  bool   `json:"gave_up,omitempty"` // the client went away before the answer, on purpose
	Settles bool   `json:"settles,omitempty"` // sent when all faults were mended

	NoAnswer bool `json:"no_answer,omitempty"`

	Producer *Producer `json:"producer,omitempty"`
	Items    []Item    `json:"items"`
}

// Forms of an attempt's ids.
const (
	FormID             = "id"              // a member of each record, as a JSON document
	FormLines          = "id in lines"     // likewise, NDJSON
	FormMessageID      = "message-id"      // the header, with one record as the body
	FormIdempotencyKey = "idempotency-key" // the header; record i has the id KEY/i
	FormProducer       = "producer"        // no ids: a producer's sequence numbers
)

// Producer is what an idempotent producer says of its batch.
type Producer struct {
	ID       int64 `json:"id"`
	Epoch    int   `json:"epoch"`
	Sequence int64 `json:"sequence"` // of the first record
}

// Item is one record of an attempt, and what the answer says of it.
type Item struct {
	// Message is the record's id; of a producer's record its value's name, as it has
	// no other that tells it from all others.
	Message string `json:"m"`
	Value   string `json:"v"`
	// Refuse: it has to be refused, and its value is nowhere (but as that of another item):
	// the id was acknowledged with other content, or its producer is fenced.
	Refuse bool `json:"refuse,omitempty"`

	Outcome   Outcome `json:"outcome"`
	Code      int     `json:"code,omitempty"`
	Partition int     `json:"p"` // that the answer names, else that the request named; -1: neither
	Offset    int64   `json:"o"` // with OK; -1: the answer names none
	Duplicate bool    `json:"dup,omitempty"`
	// LeaderEpoch that the answer states for the partition, -1: none.
	LeaderEpoch int32 `json:"e"`
	// Expected is the sequence that a gap's answer names, -1: none.
	Expected int64 `json:"expected,omitempty"`
}

// Lookup is one question for a message by its id.
type Lookup struct {
	ID      int64  `json:"id"`
	Client  string `json:"client"`
	Topic   string `json:"topic"` // its id
	Message string `json:"m"`
	Broker  int    `json:"broker"`
	Call    int64  `json:"call"`
	Return  int64  `json:"return"`
	// Outcome is OK (found), NotWritten (the answer says that there is none), Failed.
	Outcome   Outcome `json:"outcome"`
	Status    int     `json:"status,omitempty"`
	Code      int     `json:"code,omitempty"`
	Error     string  `json:"error,omitempty"`
	NoAnswer  bool    `json:"no_answer,omitempty"`
	Partition int     `json:"p"`
	Offset    int64   `json:"o"`
	Value     string  `json:"v,omitempty"`
}

// Memory is what one replica remembers of ids and producers at the end, and what a
// recomputation from its log gives (V29).
type Memory struct {
	Partition  Partition `json:"partition"`
	Broker     int       `json:"broker"`
	LogEnd     int64     `json:"log_end"`
	Digest     string    `json:"digest"`
	Recomputed string    `json:"recomputed"`
	IDs        int64     `json:"ids"`
	Producers  int64     `json:"producers"`
}
