// Package history is what a chaos run has seen: every operation of every client
// with the times of its call and return, what was done to the brokers, samples of
// their inner state, and what the logs hold at the end. It is written as JSON
// lines, one entry a line, so that a failed run can be checked again and searched
// with plain tools.
package history

// Kind is what an operation was.
type Kind string

// Kinds.
const (
	Produce Kind = "produce"
	Fetch   Kind = "fetch" // one GET …/records
	Tail    Kind = "tail"  // what one follow=true stream delivered
	End     Kind = "end"   // GET …/offsets
	Trim    Kind = "trim"  // DELETE …/records: Start is where the log begins from then on
)

// Outcome is what the client was told.
type Outcome string

// Outcomes.
const (
	OK         Outcome = "ok"
	NotWritten Outcome = "not_written" // produce: the answer vouches that it is nowhere
	Unknown    Outcome = "unknown"     // produce: it may have been written, now or later
	Failed     Outcome = "failed"      // a read without a result
)

// Partition names a partition by its topic's id: a topic that was deleted and
// made again is another one.
type Partition struct {
	Topic string `json:"topic"`
	Index int    `json:"index"`
}

// Record is one record as a reader saw it, or as a log holds it. Value is the
// name that its producer gave it, see load.Value; a record whose bytes are not
// exactly those that were sent has a Value that nobody sent.
type Record struct {
	Offset int64  `json:"o"`
	Value  string `json:"v"`
}

// Op is one operation of one client on one partition. A produce to several
// partitions is one Op for each.
type Op struct {
	ID        int64     `json:"id"`
	Client    string    `json:"client"`
	Kind      Kind      `json:"kind"`
	Partition Partition `json:"partition"`
	Broker    int       `json:"broker"` // who was asked
	Call      int64     `json:"call"`   // ns since the run began
	Return    int64     `json:"return"` // likewise: when the outcome was known to the client
	Outcome   Outcome   `json:"outcome"`
	Status    int       `json:"status,omitempty"` // HTTP; 0: no answer
	Code      int       `json:"code,omitempty"`   // error_code of the answer
	Error     string    `json:"error,omitempty"`

	// NoAnswer: nothing came within the operation's own timeout and some slack,
	// on a connection that stood.
	NoAnswer bool `json:"no_answer,omitempty"`

	// Of a produce. Offsets is set with OK unless Acks is 0.
	Acks    int      `json:"acks,omitempty"`
	Values  []string `json:"values,omitempty"`
	Offsets []int64  `json:"offsets,omitempty"`

	// Of a read. From is the offset that was asked for: a tail's is the one its
	// consumer had reached. High is the high watermark that the answer states, -1: none.
	From    int64    `json:"from,omitempty"`
	Records []Record `json:"records,omitempty"`
	High    int64    `json:"high,omitempty"`
	Start   int64    `json:"start,omitempty"` // log start offset that the answer states
	Stale   bool     `json:"stale,omitempty"` // the broker said it can't vouch (R61)
}

// Event is something that happened to a broker or a link.
type Event struct {
	At     int64  `json:"at"`
	What   string `json:"what"`
	Broker int    `json:"broker,omitempty"` // 0: not one broker's
	Detail string `json:"detail,omitempty"`
}

// Names of events that the checker knows.
const (
	EventDown   = "down"   // the broker doesn't run: killed, stopped, paused
	EventUp     = "up"     // it runs again, though it may not serve yet
	EventHealed = "healed" // no fault is left and all brokers run
	EventFinal  = "final"  // the last produces begin: each of them has to succeed
)

// Batch is one record batch of a replica's log, as its bytes say.
type Batch struct {
	Base  int64  `json:"base"`
	Last  int64  `json:"last"` // offset of the last record
	Epoch int32  `json:"epoch"`
	Sum   string `json:"sum"` // hash of all its bytes
	Bad   string `json:"bad,omitempty"`
}

// View is one partition's log at the end of the run, as one broker answers it
// ("broker 2") or as one replica holds it on disk ("disk 2").
type View struct {
	Partition Partition `json:"partition"`
	Source    string    `json:"source"`
	Disk      bool      `json:"disk,omitempty"`
	Start     int64     `json:"start"`
	End       int64     `json:"end"` // exclusive: the high watermark, or the log's end on disk
	Records   []Record  `json:"records"`
	Batches   []Batch   `json:"batches,omitempty"`
	// Purged: records below Start were deleted on purpose (retention, delete-records).
	Purged bool `json:"purged,omitempty"`
}

// Replica is the state of one replica in a Sample.
type Replica struct {
	Partition      Partition    `json:"partition"`
	Role           string       `json:"role"` // leader, follower
	LeaderEpoch    int32        `json:"leader_epoch"`
	PartitionEpoch int32        `json:"partition_epoch"`
	Start          int64        `json:"start"`
	End            int64        `json:"end"`
	Durable        int64        `json:"durable"`
	High           int64        `json:"high"`
	Replicas       []int        `json:"replicas"`
	ISR            []int        `json:"isr"`
	MaximalISR     []int        `json:"maximal_isr,omitempty"` // of a leader
	ELR            []int        `json:"elr,omitempty"`
	MinInSync      int          `json:"min_in_sync"`
	Epochs         []EpochStart `json:"epochs"`
}

// EpochStart is an entry of a leader-epoch cache.
type EpochStart struct {
	Epoch int32 `json:"epoch"`
	Start int64 `json:"start"`
}

// Sample is what one broker said of its replicas at one time.
type Sample struct {
	Call     int64     `json:"call"`
	Return   int64     `json:"return"`
	Broker   int       `json:"broker"`
	Life     int       `json:"life"` // grows with each start of the process
	Replicas []Replica `json:"replicas"`
}

// History is a whole run.
type History struct {
	Ops     []*Op
	Groups  []*GroupOp
	Events  []Event
	Samples []*Sample
	Views   []*View

	Attempts []*Attempt
	Lookups  []*Lookup
	Memories []*Memory
}
