package history

// Kinds of operations on a consumer group.
const (
	Join      Kind = "join"      // POST /consumers/{group}: a member that nobody is yet
	TakeOver  Kind = "take-over" // PUT of an instance: whoever had the name is fenced
	Subscribe Kind = "subscribe"
	Poll      Kind = "poll"
	Commit    Kind = "commit"
	Committed Kind = "committed" // which offsets are committed
	Seek      Kind = "seek"
	Leave     Kind = "leave"
)

// GroupRecord is a record that a poll delivered.
type GroupRecord struct {
	Partition Partition `json:"p"`
	Record
}

// GroupOffset is an offset of a partition: of the next record to read. -1 of a
// Committed: none is committed.
type GroupOffset struct {
	Partition Partition `json:"p"`
	Offset    int64     `json:"o"`
	// Certain, of a commit without a body: the answer just before delivered up to
	// here, so success means this very offset. Else it may be an older one.
	Certain bool `json:"c,omitempty"`
}

// GroupOp is one request that has to do with a group. Of a poll, NotWritten is an
// answer that says that there are no records in it; Unknown is one that didn't come
// to its end: the member may have been given records, and doesn't have them.
type GroupOp struct {
	ID     int64  `json:"id"`
	Client string `json:"client"`
	Kind   Kind   `json:"kind"`
	Group  string `json:"group"`
	// Member is its name. Life is one incarnation of it, by the client's count: of a
	// member that joins by polling, all polls under its name are one.
	Member  string  `json:"member,omitempty"`
	Life    string  `json:"life,omitempty"`
	Broker  int     `json:"broker"`
	Call    int64   `json:"call"`
	Return  int64   `json:"return"`
	Outcome Outcome `json:"outcome"`
	Status  int     `json:"status,omitempty"`
	Code    int     `json:"code,omitempty"`
	Error   string  `json:"error,omitempty"`

	NoAnswer bool `json:"no_answer,omitempty"`
	// GaveUp: the client went away before the answer, on purpose.
	GaveUp bool `json:"gave_up,omitempty"`

	// OneCall: the request joined by polling, and reads from the committed offsets on.
	OneCall bool  `json:"one_call,omitempty"`
	Auto    bool  `json:"auto,omitempty"`    // of a poll: the member commits by itself
	Session int64 `json:"session,omitempty"` // ns without a request after which the member is expired
	Timeout int64 `json:"timeout,omitempty"` // of a poll, ns

	RequestID string        `json:"request_id,omitempty"`
	Body      bool          `json:"body,omitempty"` // of a commit: it named its offsets
	Records   []GroupRecord `json:"records,omitempty"`
	Offsets   []GroupOffset `json:"offsets,omitempty"` // of a commit, Committed, seek
}

// Names of events about groups and topics.
const (
	// EventGroups tells the id of the topic that holds the groups, in its detail.
	EventGroups = "groups"
	// EventCompacted tells the id of a topic whose logs are compacted, in its detail.
	EventCompacted = "compacted"
	// EventDrain: fresh members of all groups read what is left.
	EventDrain = "drain"
	// EventStall: this machine ran nothing of ours for so many ms (its detail) until now.
	EventStall = "stall"
	// EventFault and EventMended are about links, disks and processes alike.
	EventFault  = "fault"
	EventMended = "mended"
)
