package storage

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
)

// remembering is a log over a store whose clock and high watermark the test moves.
type remembering struct {
	t     testing.TB
	dir   string
	id    PartitionID
	cfg   LogConfig
	nowMs int64
	store *Store
	log   *Log
	epoch int32
	opts  func(*Options)
	keep  int // disk.keepIDs
}

// testFlushIDs is how many ids a log under test holds in memory: fewer than others do.
const testFlushIDs = 4096

func newRemembering(t testing.TB, dir string) *remembering {
	r := &remembering{t: t, dir: dir, id: PartitionID{Topic: uuid.UUID{9}}, nowMs: 1_700_000_000_000, epoch: 1, opts: func(*Options) {},
		cfg: LogConfig{RetentionBytes: -1, RetentionAge: -1, DedupeAge: time.Hour}}
	return r
}

func (r *remembering) open() *remembering {
	r.t.Helper()
	opts := Options{Dir: r.dir, Fsync: FsyncCommit, Logger: zerolog.Nop(), Now: func() time.Time { return time.UnixMilli(r.nowMs) }}
	r.opts(&opts)
	s, err := Open(opts)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = s.Close() })
	s.disk.flushIDs, s.disk.keepIDs = testFlushIDs, r.keep
	l, err := s.OpenLog(r.id, r.cfg, func() {})
	if err != nil {
		r.t.Fatal(err)
	}
	r.store, r.log = s, l
	return r
}

func (r *remembering) reopen() {
	r.t.Helper()
	if err := r.store.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.open()
}

// message is a record with an id; "": without.
type message struct{ id, value string }

func (r *remembering) batch(p *Producer, messages ...message) Batch {
	r.t.Helper()
	b := NewBatchBuilder(nil)
	b.AppendTime = r.nowMs
	for _, m := range messages {
		rec := Record{Timestamp: r.nowMs - 77, Value: []byte(m.value)}
		if m.id != "" {
			rec.Headers = []Header{{[]byte("h"), []byte("v")}, {[]byte(MessageIDHeader), []byte(m.id)}}
		}
		b.Append(&rec)
	}
	sealed, err := b.Seal(CompressionNone, p)
	if err != nil {
		r.t.Fatal(err)
	}
	return sealed
}

// stage offers the batches as a leader does.
func (r *remembering) stage(batches ...Batch) (Staged, error) {
	r.t.Helper()
	o, err := NewOffer(batches, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for range 5 {
		if err := r.log.Prepare(o); err != nil {
			return Staged{}, err
		}
		s, ok, err := r.log.StageOffer(-1, o, r.epoch)
		if !errors.Is(err, ErrStale) {
			if err == nil && !ok {
				r.t.Fatal("not staged")
			}
			return s, err
		}
	}
	r.t.Fatal("stale for ever")
	return Staged{}, nil
}

// send offers messages and has them committed.
func (r *remembering) send(messages ...message) Staged {
	r.t.Helper()
	return r.mustCommit(r.batch(nil, messages...))
}

func (r *remembering) mustCommit(batches ...Batch) Staged {
	r.t.Helper()
	s, err := r.stage(batches...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.commit(s)
	return s
}

func (r *remembering) commit(s Staged) {
	r.t.Helper()
	if err := r.log.Sync(s); err != nil {
		r.t.Fatal(err)
	}
	r.log.CheckpointHighWatermark(r.log.DurableEnd())
}

// want compares what an offer came to.
func (r *remembering) want(s Staged, offsets []int64, duplicate []bool) {
	r.t.Helper()
	if !slices.Equal(s.Offsets, offsets) || !slices.Equal(s.Duplicate, duplicate) {
		r.t.Fatalf("offsets %v, duplicates %v instead of %v, %v", s.Offsets, s.Duplicate, offsets, duplicate)
	}
}

// find is FindMessage; -1: not found.
func (r *remembering) find(id string) int64 {
	r.t.Helper()
	offset, ok, err := r.log.FindMessage([]byte(id))
	if err != nil {
		r.t.Fatal(err)
	}
	if !ok {
		return -1
	}
	return offset
}

// consistent compares what is remembered with what the log says (V29).
func (r *remembering) consistent() {
	r.t.Helper()
	got, err := r.log.DedupeDigest()
	if err != nil {
		r.t.Fatal(err)
	}
	want, err := r.log.RecomputeDedupeDigest()
	if err != nil {
		r.t.Fatal(err)
	}
	if got != want {
		r.t.Fatalf("what is remembered is not what the log says: %x, %x", got[:4], want[:4])
	}
}

func numbered(prefix string, from, to int) (messages []message) {
	for i := from; i < to; i++ {
		messages = append(messages, message{fmt.Sprintf("%s-%d", prefix, i), fmt.Sprintf("value %d", i)})
	}
	return messages
}
