package storage

import (
	"errors"
	"slices"
	"time"

	"highwater/storage/dedupe"
)

// # What a log remembers
//
// The log says what message ids and producers it has seen: marked batches
// (Batch.Marked) carry them, and the time of their append. What is remembered of them
// is a dedupe.State, Log.memory, and follows from the log alone, so that all
// replicas come to the same answers (I5, D2). A log without marked batches has none, and
// costs nothing.
//
//	an append (dedupe_offer.go, dedupe_stage.go):
//	  NewOffer    reads the marked batches               no lock
//	  Prepare     looks ids up, leaves duplicates out    Log.mu for memory; the index's file without it
//	  StageOffer  looks whether that is still so,
//	              stages, notes                          Log.mu
//	a follower    StageReplica reads, then notes         Log.mu for the notes
//
// What is noted with an append that isn't written in the end is taken back
// (Log.unstage), as is what a truncation cuts off.
//
// Behind the append (dedupe_flush.go), what is committed moves into the index: ids as
// runs, which never change, producers as a snapshot, in one transaction with the offset
// below which both cover the log. A start (dedupe_recover.go) reads snapshot and runs'
// headers, and the log from that offset on.
//
// What the log can't tell any more stays remembered as long as the window says: of
// records below the log start (D11), and of those that were compacted away. A replica
// that begins above them imports it (dedupe_export.go).

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

// memoryConfig is what the topic's configs say about what is remembered.
func (cfg *LogConfig) memoryConfig() dedupe.Config {
	c := dedupe.Config{Age: -1, Count: cfg.DedupeCount, ProducerAge: cfg.ProducerAge.Milliseconds()}
	if cfg.DedupeAge >= 0 {
		c.Age = cfg.DedupeAge.Milliseconds()
	}
	switch {
	case c.Count == 0 && c.Age >= 0:
		c.Count = DefaultDedupeCount
	case c.Count <= 0:
		c.Count = -1
	}
	switch {
	case cfg.ProducerAge == 0:
		c.ProducerAge = DefaultProducerAge.Milliseconds()
	case cfg.ProducerAge < 0:
		c.ProducerAge = 0
	}
	return c
}

// unknownConfig is for a log of whose topic nothing is known yet: it keeps and
// remembers everything.
func unknownConfig() LogConfig {
	return LogConfig{RetentionBytes: -1, RetentionAge: -1, DedupeAge: -1, DedupeCount: -1, ProducerAge: -1}
}

// remember is the log's memory, made when the first marked batch comes, at an offset.
// Call it under mu.
func (l *Log) remember(at int64) *dedupe.State {
	if l.memory == nil {
		l.memory = dedupe.New(l.cfg.memoryConfig())
		_ = l.memory.Restore(at, nil, nil) // nothing is to be restored
		l.memory.SetStart(l.start)
	}
	return l.memory
}

// note takes what was found in batches into the memory, now that they have their
// offsets. facts has a nil for each that isn't marked, or is nil. Call it under mu.
func (l *Log) note(batches []Batch, facts []*dedupe.Batch) {
	if l.learning {
		return // who learns takes in what is staged at the end
	}
	for i, f := range facts {
		if f != nil {
			f.Base, f.Next = batches[i].BaseOffset(), batches[i].NextOffset()
			l.remember(f.Base).Note(f)
		}
	}
}

// FindMessage looks up the offset of the record with this message id among those that
// the log remembers. The record itself may be gone, or not committed yet. Errors:
// *CorruptError, ErrClosed, *FailedError.
func (l *Log) FindMessage(id []byte) (offset int64, found bool, err error) {
	l.awaitLearned()
	entries, _, err := l.lookUp([]dedupe.ID{dedupe.IDOf(id)}, true)
	if err != nil || len(entries) == 0 {
		return 0, false, err
	}
	return entries[0].Offset, true, nil
}

// DedupeFigures are what a log remembers of its records.
type DedupeFigures struct {
	// Ids and Producers that are remembered; the first may be an estimate.
	Ids, Producers int64
	// OldestMs and NewestMs are the append times of the oldest and the newest id that are
	// remembered; 0: there is none. OldestMs may be an estimate.
	OldestMs, NewestMs int64
	// Hits counts the records that were duplicates, EvictedEarly the ids that went before
	// the window in time ended, because there are too many; both since the log was opened.
	Hits, EvictedEarly uint64
}

// DedupeFigures tells what the log remembers now.
func (l *Log) DedupeFigures() DedupeFigures {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := DedupeFigures{Hits: l.hits}
	if l.memory != nil {
		f := l.memory.Figures()
		out.Ids, out.Producers, out.OldestMs, out.NewestMs, out.EvictedEarly = f.IDs, f.Producers, f.Oldest, f.Newest, f.EvictedEarly
	}
	return out
}

// seenAt is a memory at a moment, to tell whether what was found in it is still so.
type seenAt struct {
	memory     *dedupe.State
	generation uint64
}

// seen is the memory as it is. Call it under mu.
func (l *Log) seen() seenAt {
	if l.memory == nil {
		return seenAt{}
	}
	return seenAt{l.memory, l.memory.Generation()}
}

// errRunUnread: a run isn't there any more, or must not be read yet.
var errRunUnread = errors.New("storage: run not read")

// maxLookUps bounds how often a look-up begins anew because runs were replaced under it.
const maxLookUps = 16

// lookUp finds those of the ids that are live, in the order of ids. It reads the
// index's file where a run's filter says that there may be something. Without the tail it is
// for who asks that later (Log.recheck).
func (l *Log) lookUp(ids []dedupe.ID, tail bool) (known []dedupe.Found, seen seenAt, err error) {
	for range maxLookUps {
		var inTail []dedupe.Found // live or not: it is newer than what a run has of the id
		var runs []*dedupe.Run
		l.mu.Lock()
		seen, known = l.seen(), known[:0]
		if l.memory != nil && l.cfg.DedupeAge != 0 {
			runs = l.memory.LiveRuns()
			if tail {
				inTail = l.memory.FindTail(ids)
			}
			for _, f := range inTail {
				if l.memory.Live(f.Entry) {
					known = append(known, f)
				}
			}
		}
		l.mu.Unlock()
		inRuns, err := l.lookIntoRuns(runs, ids, inTail)
		switch bad := (*dedupe.CorruptError)(nil); {
		case errors.As(err, &bad):
			if err := l.relearnAll(seen, bad); err != nil {
				return nil, seen, err
			}
			continue
		case errors.Is(err, errRunUnread):
			if err := l.failure(); err != nil {
				return nil, seen, err
			}
			continue
		case err != nil:
			return nil, seen, err
		}
		if l.stillLive(seen, &inRuns) {
			return mergeFound(known, inRuns), seen, nil
		}
	}
	return nil, seen, &CorruptError{Path: indexFileName, Reason: "message ids can't be read"}
}

// stillLive leaves those in found that are live. false: the memory has changed.
func (l *Log) stillLive(seen seenAt, entries *[]dedupe.Found) bool {
	if len(*entries) == 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen() != seen {
		return false
	}
	live := (*entries)[:0]
	for _, e := range *entries {
		if l.memory.Live(e.Entry) {
			live = append(live, e)
		}
	}
	*entries = live
	return true
}

// mergeFound joins two lists that are ascending by index.
func mergeFound(a, b []dedupe.Found) []dedupe.Found {
	if len(a) == 0 {
		return b
	}
	out := make([]dedupe.Found, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0].Index < b[0].Index {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// lookIntoRuns looks the ids up but those that the tail has. Most of them no filter knows,
// and then no transaction is begun.
func (l *Log) lookIntoRuns(runs []*dedupe.Run, ids []dedupe.ID, inTail []dedupe.Found) (known []dedupe.Found, err error) {
	maybe := dedupe.MaybeIn(runs, ids)
	if len(inTail) > 0 {
		maybe = slices.DeleteFunc(maybe, func(i int) bool {
			for len(inTail) > 0 && inTail[0].Index < i {
				inTail = inTail[1:]
			}
			return len(inTail) > 0 && inTail[0].Index == i
		})
	}
	if len(maybe) == 0 {
		return nil, nil
	}
	keys := make([]runKey, len(runs))
	for i, r := range runs {
		keys[i] = keyOfRun(r)
	}
	done := l.disk.index.viewRuns(l.id, keys, func(get readPiece) {
		read := func(r *dedupe.Run, from, to int) ([]byte, error) { return get(keyOfRun(r), from, to) }
		for _, i := range maybe {
			var e dedupe.Entry
			var ok bool
			if e, ok, err = dedupe.FindRuns(runs, ids[i], read); err != nil {
				return
			}
			if ok {
				known = append(known, dedupe.Found{Index: i, Entry: e})
			}
		}
	})
	if !done {
		return nil, errRunUnread
	}
	return known, err
}

// keyOfRun is where the index keeps a run.
func keyOfRun(r *dedupe.Run) runKey {
	k := runKey{first: r.First, next: r.Next}
	if r.Top() {
		k.class = runClasses - 1
	}
	return k
}
