package storage

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestF56_RetryOnTheSameLeader: a message that is sent again is not stored again, and
// the answer names where it is.
func TestF56_RetryOnTheSameLeader(t *testing.T) {
	r := newRemembering(t, t.TempDir()).open()
	a, b, c := message{"a", "1"}, message{"b", "2"}, message{"c", "3"}
	first := r.send(a, b)
	if !first.New || first.Offsets != nil || first.BaseOffset != 0 {
		t.Fatalf("%+v", first)
	}
	again := r.send(a, b)
	r.want(again, []int64{0, 1}, []bool{true, true})
	if again.New || again.WaitFrom < again.WaitEnd {
		t.Fatalf("%+v", again)
	}
	part := r.send(b, c, message{"", "no id"}, a)
	r.want(part, []int64{1, 2, 3, 0}, []bool{true, false, false, true})
	if !part.New || part.BaseOffset != 2 || part.EndOffset != 4 {
		t.Fatalf("%+v", part)
	}
	records := readAll(t, r.log, 0, 1<<20)
	if len(records) != 4 || string(records[2].Value) != "3" || string(records[3].Value) != "no id" || records[2].Timestamp != r.nowMs-77 {
		t.Fatalf("%d records: %+v", len(records), records)
	}
	if f := r.log.DedupeFigures(); f.Ids != 3 || f.Hits != 4 || f.OldestMs != r.nowMs {
		t.Fatalf("%+v", f)
	}
	for i, id := range []string{"a", "b", "c"} {
		if got := r.find(id); got != int64(i) {
			t.Fatalf("%s is found at %d", id, got)
		}
	}
	if r.find("d") != -1 {
		t.Fatal("found what nobody sent")
	}
	r.consistent()
}

// TestD7_AnotherContentUnderTheSameID is refused, with nothing appended.
func TestD7_AnotherContentUnderTheSameID(t *testing.T) {
	r := newRemembering(t, t.TempDir()).open()
	r.send(message{"a", "1"})
	var reused *MessageReusedError
	_, err := r.stage(r.batch(nil, message{"x", "y"}, message{"a", "2"}))
	if !errors.As(err, &reused) || reused.Record != 1 || reused.ID != "a" || reused.Offset != 0 {
		t.Fatalf("%v", err)
	}
	_, err = r.stage(r.batch(nil, message{"n", "1"}), r.batch(nil, message{"m", "1"}, message{"n", "2"}))
	if !errors.As(err, &reused) || reused.Record != 2 || reused.ID != "n" || reused.Offset != -1 {
		t.Fatalf("%v", err)
	}
	if r.log.StagedEnd() != 1 {
		t.Fatalf("end is %d", r.log.StagedEnd())
	}
	r.want(r.send(message{"n", "1"}, message{"n", "1"}, message{"o", ""}), []int64{1, 1, 2}, []bool{false, true, false})
	r.consistent()
}

// TestD2_WindowByTheLogsOwnTime: an id is forgotten when later appends are as old as
// the window is long, and not because time passes.
func TestD2_WindowByTheLogsOwnTime(t *testing.T) {
	r := newRemembering(t, t.TempDir()).open()
	r.send(message{"a", "1"})
	r.nowMs += (48 * time.Hour).Milliseconds()
	r.want(r.send(message{"a", "1"}), []int64{0}, []bool{true})
	r.send(message{"b", "1"})
	if s := r.send(message{"a", "1"}); !s.New || s.BaseOffset != 2 {
		t.Fatalf("%+v", s)
	}
	r.consistent()
}

// TestD4_WindowByCount: too many ids, and the oldest go, which is told.
func TestD4_WindowByCount(t *testing.T) {
	r := newRemembering(t, t.TempDir())
	r.cfg.DedupeCount = 3
	r.open()
	r.send(numbered("m", 0, 5)...)
	if f := r.log.DedupeFigures(); f.Ids != 3 || f.EvictedEarly != 2 {
		t.Fatalf("%+v", f)
	}
	if r.find("m-1") != -1 || r.find("m-2") != 2 {
		t.Fatal(r.find("m-1"), r.find("m-2"))
	}
}

// TestF58_Producers: the sequence decides, over the last five batches.
func TestF58_Producers(t *testing.T) {
	r := newRemembering(t, t.TempDir()).open()
	send := func(epoch int16, sequence int32) (Staged, error) {
		s, err := r.stage(r.batch(&Producer{ID: 7, Epoch: epoch, BaseSequence: sequence}, message{"", "x"}, message{"", "y"}))
		if err == nil {
			r.commit(s)
		}
		return s, err
	}
	if _, err := send(0, 4); !errors.As(err, new(*UnknownProducerError)) {
		t.Fatalf("%v", err)
	}
	for n := range int32(7) {
		if s, err := send(0, 2*n); err != nil || !s.New || s.BaseOffset != int64(2*n) {
			t.Fatalf("%+v, %v", s, err)
		}
	}
	s, err := send(0, 6)
	if err != nil || s.New {
		t.Fatalf("%+v, %v", s, err)
	}
	r.want(s, []int64{6, 7}, []bool{true, true})
	if s, err = send(0, 0); err != nil || s.New {
		t.Fatalf("%+v, %v", s, err)
	}
	r.want(s, []int64{-1, -1}, []bool{true, true}) // before the last five
	var gap *SequenceGapError
	if _, err := send(0, 16); !errors.As(err, &gap) || gap.Expected != 14 {
		t.Fatalf("%v", err)
	}
	r.reopen() // a clean close; the snapshot
	if s, err := send(0, 12); err != nil || s.New {
		t.Fatalf("%+v, %v", s, err)
	}
	if s, err := send(1, 0); err != nil || !s.New {
		t.Fatalf("%+v, %v", s, err)
	}
	var fenced *ProducerFencedError
	if _, err := send(0, 14); !errors.As(err, &fenced) || fenced.Current != 1 {
		t.Fatalf("%v", err)
	}
	r.nowMs += (25 * time.Hour).Milliseconds()
	r.send(message{"later", "1"})
	if _, err := send(1, 2); !errors.As(err, new(*UnknownProducerError)) {
		t.Fatalf("after its expiry: %v", err)
	}
	r.consistent()
}

// TestD10_ProducerAndIDs: the producer is asked first; a batch of it can't be stored in part.
func TestD10_ProducerAndIDs(t *testing.T) {
	r := newRemembering(t, t.TempDir()).open()
	p := func(sequence int32) *Producer { return &Producer{ID: 3, BaseSequence: sequence} }
	a, b := message{"a", "1"}, message{"b", "1"}
	r.mustCommit(r.batch(p(0), a, b))
	r.want(r.mustCommit(r.batch(p(0), a, b)), []int64{0, 1}, []bool{true, true})
	var reused *MessageReusedError
	if _, err := r.stage(r.batch(p(2), message{"c", "1"}, b)); !errors.As(err, &reused) || reused.Record != 1 || reused.Offset != 1 {
		t.Fatalf("%v", err)
	}
	r.mustCommit(r.batch(p(2), message{"c", "1"}))
	r.want(r.send(message{"c", "1"}), []int64{2}, []bool{true}) // without the producer it is just a message
	if _, err := NewOffer([]Batch{r.batch(p(3), a), r.batch(p(4), b)}, nil); err == nil {
		t.Fatal("two batches of a producer in one offer")
	}
	r.consistent()
}

// TestD3_AppendTimeOfTheGateIsChecked: a batch that comes with a time that isn't the
// leader's, gets the leader's.
func TestD3_AppendTimeOfTheGateIsChecked(t *testing.T) {
	r := newRemembering(t, t.TempDir()).open()
	for _, c := range []struct{ skew, want int64 }{{0, 0}, {-9_999, -9_999}, {10_000, 10_000}, {10_001, 0}, {-3_600_000, 0}, {3_600_000, 0}} {
		r.nowMs += c.skew
		batch := r.batch(nil, numbered(fmt.Sprint(c.skew), 0, 3)...)
		r.nowMs -= c.skew
		s := r.mustCommit(batch)
		res, err := r.log.Read(s.BaseOffset, s.EndOffset, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := Batch(res.Data)
		if !b.Marked() || b.BaseTimestamp() != r.nowMs+c.want {
			t.Fatalf("skew %d: append time is %d away", c.skew, b.BaseTimestamp()-r.nowMs)
		}
		if got := decodeAll(t, res.Data)[2].Timestamp; got != r.nowMs+c.skew-77 || b.MaxTimestamp() != got {
			t.Fatalf("skew %d: timestamp is %d", c.skew, got)
		}
	}
	r.consistent()
}
