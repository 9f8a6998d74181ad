// Package dedupe remembers what a partition's log says about message ids and
// idempotent producers, and answers whether an append repeats an earlier one
// (I1-I11, D1-D11). Everything in it follows from the batches of the log in
// their order, so that every replica comes to the same answers (I5, D2).
//
// It does no I/O, has no lock and no clock. A [State] belongs to one log, whose
// mutex guards it; its methods touch memory only and hold for a few accesses.
// What needs bytes that lie elsewhere, or takes longer, is done without the lock
// on values that never change: [Run], [View], and [Flush] and [Merge] between
// their Begin and their Commit. Their methods say so.
//
// # Where an id is
//
// The newest ids are in the tail, in memory. The flush makes a run of those that are
// committed and still in the window: bytes that the owner stores, of which a Bloom filter of 2.7 bytes
// an id stays in memory. Merges keep the number of runs low and drop what expired. A flush may leave
// the newest ids in the tail: of a busy log most leave the window there, and are just let go.
//
//	offset  0                         covered              next
//	        ├── run ──┬── run ──┬ run ─┼───── tail ─────────┤
//	        └──── stored by the owner ─┘ told by the log
//
// The snapshot of the producers is stored with each flush. After a restart
// [State.Restore] takes the runs and the snapshot, and the log is replayed from
// covered on.
//
// # Which id is live
//
// An id's newest entry decides. It is live if it is young enough, compared with the
// newest append time of the log and not with a clock, and among the newest Count
// of the log. Both hold for an entry only if they hold for all after it. So what
// expires is always the oldest part, and a quiet log forgets nothing.
package dedupe

import "fmt"

const (
	// NoProducer is the id of a batch's producer that has none.
	NoProducer = -1
	// NoTime is the append time of a batch that doesn't tell it (its base timestamp is a
	// delete horizon).
	NoTime = -1
	// MaxProducers bounds the producers that a State remembers. The one that has
	// been silent longest goes first.
	MaxProducers = 100_000
	// RetainedBatches is how many of a producer's last batches are remembered (I2):
	// Kafka's bound of requests in flight.
	RetainedBatches = 5
	// FlushEntries is the number of committed entries in the tail from which on
	// a flush should come at the latest, beyond those that it keeps.
	FlushEntries = 256 << 10
	// KeptEntries is how many a flush should keep of a log that gets many: more than are in the window by
	// default, so that they leave it before they leave the tail, and no run is made of them. They take 70 MB.
	KeptEntries = 1 << 20
	// flushMarks is the same of batches of producers, of which a snapshot tells all.
	flushMarks = 4096
	// maxTime bounds append times, in ms (the year 6429), so that they fit an entry.
	maxTime = 1<<47 - 1
	// maxSpan bounds the offsets that one run covers, for the same reason.
	maxSpan = 1<<48 - 1
)

// Config are the windows, of a topic's configs.
type Config struct {
	// Age of an id in ms: it is live while the log's newest append time is less than
	// that above its own. 0: ids are not looked at. -1: as long as its offset isn't
	// below the log start.
	Age int64
	// Count is how many of the newest entries can be live. -1: all.
	Count int64
	// ProducerAge in ms: a producer is forgotten when its last batch is not less than
	// that older than the log's newest append. 0 or less: never for its age.
	ProducerAge int64
}

// Batch are the facts of one record batch of the log.
type Batch struct {
	Base, Next int64 // offsets: of its first record, and behind its last
	// Time of the append, ms since 1970, or NoTime. Time never goes back: one below the newest
	// counts as that (D3).
	Time     int64
	Producer Producer
	Messages []Message // of the records that have an id, in offset order
}

// Producer is what an idempotent producer said of a batch.
type Producer struct {
	ID       int64 // NoProducer: there is none, and the rest is of no meaning
	Epoch    int16
	Sequence int32 // of the first record
	Count    int32 // of sequence numbers: the batch's last offset delta + 1
}

// Message is a record that has an id.
type Message struct {
	ID      ID
	Content uint64 // see Content
	Delta   int32  // of its offset to the batch's base
}

// Entry is what is remembered of a message.
type Entry struct {
	ID      ID
	Offset  int64
	Time    int64 // of the append, ms
	Content uint64
	// Ordinal numbers the entries of the log. Only differences mean something.
	Ordinal int64
}

// CorruptError says why bytes are not what this package wrote.
type CorruptError struct{ Reason string }

func (e *CorruptError) Error() string { return "dedupe: " + e.Reason }

func corrupt(format string, args ...any) error {
	return &CorruptError{Reason: fmt.Sprintf(format, args...)}
}
