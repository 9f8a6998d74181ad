package storage

import (
	"time"
)

// Record headers in which a record carries what makes it recognisable. They are part
// of the record on disk and on the way to followers; who renders records hides them.
const (
	// MessageIDHeader holds the record's message id: any bytes.
	MessageIDHeader = "highwater.id"
	// RequestHashHeader holds 8 bytes, a hash over all records of the request that the
	// record came with, where the id is of the request: the same id with another body
	// is another content, even if the record itself is the same (D7).
	RequestHashHeader = "highwater.request"
)

// Bounds of what a log remembers of its records.
const (
	// DefaultDedupeCount is LogConfig.DedupeCount where the topic says nothing.
	DefaultDedupeCount = 1_000_000
	// DefaultProducerAge is how long a producer that is silent is remembered (Kafka's
	// producer.id.expiration.ms).
	DefaultProducerAge = 24 * time.Hour
)

// Offer is an append on its way: the batches of one request for one partition, and
// what was found out about their message ids and producer outside of all locks. It
// is for one goroutine at a time.
type Offer struct {
	batches []Batch
}

// NewOffer takes the batches of an append, as BatchBuilder sealed them, and reads
// what is needed of those that are marked (Batch.Marked). The error is a *CorruptError.
func NewOffer(batches []Batch) (*Offer, error) {
	return &Offer{batches: batches}, nil
}

// Prepare looks up what the log knows of the offer's ids. It may read the index's
// file, so no lock of the caller's may be held. Errors: *MessageReusedError,
// *SequenceGapError, *UnknownProducerError, *ProducerFencedError, *FailedError.
func (l *Log) Prepare(*Offer) error { return nil }

// StageOffer is StageAt (at < 0: Stage) for an offer that Prepare has seen: records
// whose ids the log knows are not staged again, and the result names the offsets
// they have. ErrStale: what Prepare has found is no longer so; Prepare again, then
// come again. Errors besides those of Stage: those of Prepare.
func (l *Log) StageOffer(at int64, o *Offer, leaderEpoch int32) (s Staged, ok bool, err error) {
	s, ok, err = l.stageAt(max(at, anyOffset), o.batches, leaderEpoch)
	if ok && err == nil {
		s.New, s.WaitFrom, s.WaitEnd = true, s.BaseOffset, s.EndOffset
	}
	return s, ok, err
}

// FindMessage looks up the offset of the record with this message id among those that
// the log remembers. The record itself may be gone, or not committed yet.
func (l *Log) FindMessage([]byte) (offset int64, found bool, err error) { return 0, false, nil }

// DedupeFigures are what a log remembers of its records.
type DedupeFigures struct {
	// Ids and Producers that are remembered.
	Ids, Producers int64
	// OldestMs and NewestMs are the append times of the oldest and the newest id that are
	// remembered; 0: there is none.
	OldestMs, NewestMs int64
	// Hits counts the records that were duplicates, EvictedEarly the ids that went before
	// the window in time ended, because there are too many; both since the log was opened.
	Hits, EvictedEarly uint64
}

// DedupeFigures tells what the log remembers now.
func (l *Log) DedupeFigures() DedupeFigures { return DedupeFigures{} }

// ExportDedupe encodes all that is remembered of records below an offset, for a
// replica that can't learn it from the log: its copy begins above, or records were
// compacted away. below may be anything up to the log's end.
func (l *Log) ExportDedupe(int64) ([]byte, error) { return nil, nil }

// ImportDedupe takes in what the leader exported, in place of all that is remembered of
// records below the export's offset; it is durable when this returns, so that nobody
// counts on this replica before. The log may end below that offset, for its records
// come after: those up to there are known by then, also after a restart. Taking an
// export twice is harmless. The error is a *CorruptError if it is no export.
func (l *Log) ImportDedupe([]byte) error { return nil }
