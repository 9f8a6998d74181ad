package dedupe

import (
	"errors"
	"fmt"
	"testing"
)

func batchOf(base, time int64, ids ...string) *Batch {
	b := &Batch{Base: base, Next: base + int64(len(ids)), Time: time, Producer: Producer{ID: NoProducer}}
	for i, id := range ids {
		b.Messages = append(b.Messages, Message{ID: IDOf([]byte(id)), Content: uint64(len(id)), Delta: int32(i)})
	}
	return b
}

func (s *State) has(t *testing.T, id string, want int64) {
	t.Helper()
	e, found, err := s.Find(IDOf([]byte(id)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		e.Offset = -1
	}
	if e.Offset != want {
		t.Errorf("id %s is at %d, want %d", id, e.Offset, want)
	}
}

func TestD2_TheLogsTimeRulesTheWindow(t *testing.T) {
	s := New(Config{Age: 100, Count: -1})
	s.Note(batchOf(0, 1000, "a"))
	s.Note(batchOf(1, 1099, "b"))
	s.has(t, "a", 0)
	s.Note(batchOf(2, 50, "c")) // a clock that went back
	s.has(t, "a", 0)
	s.Note(batchOf(3, 1100, "d"))
	s.has(t, "a", -1)
	s.has(t, "b", 1)
	s.has(t, "c", 2)
	if !s.Truncate(3) {
		t.Fatal("can't be truncated to 3")
	}
	s.has(t, "a", 0)
	s.has(t, "d", -1)
}

func TestD4_TheNewestOfACountAreLive(t *testing.T) {
	s := New(Config{Age: -1, Count: 2})
	for i := range 5 {
		s.Note(batchOf(int64(i), int64(i), fmt.Sprint(i)))
	}
	s.has(t, "2", -1)
	s.has(t, "3", 3)
	if f := s.Figures(); f.EvictedEarly != 3 || f.IDs != 2 || f.Oldest != 3 || f.Newest != 4 {
		t.Errorf("figures are %+v", f)
	}
}

func TestI3_SequenceNumbers(t *testing.T) {
	const top = maxSequence
	s := New(Config{Age: -1, Count: -1})
	next := int64(0)
	note := func(epoch int16, sequence, count int32) {
		s.Note(&Batch{Base: next, Next: next + int64(count), Time: next, Producer: Producer{ID: 7, Epoch: epoch, Sequence: sequence, Count: count}})
		next += int64(count)
	}
	check := func(epoch int16, sequence, count int32) string {
		v, err := s.Check(Producer{ID: 7, Epoch: epoch, Sequence: sequence, Count: count})
		var gap *GapError
		var fenced *FencedError
		switch {
		case errors.As(err, &gap):
			return fmt.Sprint("gap ", gap.Expected)
		case errors.As(err, &fenced):
			return fmt.Sprint("fenced ", fenced.Current)
		case errors.Is(err, ErrUnknownProducer):
			return "unknown"
		case v.Duplicate:
			return fmt.Sprint("duplicate ", v.Base, " ", v.Next)
		}
		return "new"
	}
	is := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	is(check(0, 1, 1), "unknown")
	is(check(0, 0, 1), "new")
	note(0, 0, 3)
	is(check(0, 0, 3), "duplicate 0 3")
	is(check(0, 0, 2), "gap 3")
	is(check(0, 3, 1), "new")
	is(check(0, 4, 1), "gap 3")
	is(check(0, top, 1), "gap 3") // never written: no duplicate
	for i := range int32(6) {
		note(0, 3+i, 1)
	}
	is(check(0, 0, 3), "duplicate -1 -1")
	is(check(0, 3, 1), "duplicate -1 -1")
	is(check(0, 4, 1), "duplicate 4 5")
	is(check(0, 2, 3), "gap 9")
	is(check(1, 9, 1), "gap 0")
	is(check(1, 0, 1), "new")
	note(1, 0, 1)
	is(check(0, 9, 1), "fenced 1")
	is(check(1, 0, 1), "duplicate 9 10")
	// Over the wrap, inside a batch and between two.
	note(2, top-1, 4)
	is(check(2, 1, 1), "gap 2")
	is(check(2, 2, 1), "new")
	is(check(2, top-1, 4), "duplicate 10 14")
	note(3, top, 1)
	is(check(3, 0, 1), "new")
	is(check(3, top, 1), "duplicate 14 15")
	s.Truncate(9)
	is(check(0, 9, 1), "new")
}

// TestI5_WhoIsSilentLongestAfterACut: 1 would have been forgotten with 2, but had written again.
// That is cut off, and what 3 wrote before it: 1 is the older one of them again.
func TestI5_WhoIsSilentLongestAfterACut(t *testing.T) {
	s := New(Config{Age: -1, Count: -1, ProducerAge: 10})
	s.producers.max = 3
	note := func(base, time, producer int64, sequence int32) {
		s.Note(&Batch{Base: base, Next: base + 1, Time: time, Producer: Producer{ID: producer, Sequence: sequence, Count: 1}})
	}
	note(0, 100, 1, 0)
	note(1, 101, 2, 0)
	note(2, 109, 3, 0)
	s.Note(batchOf(3, 112, "a"))
	note(4, 112, 3, 1)
	note(5, 112, 1, 0)
	f := s.BeginFlush(4, 0)
	b, _ := f.Build()
	run, err := OpenRun(b)
	if err != nil {
		t.Fatal(err)
	}
	if !s.CommitFlush(f, run) || !s.Truncate(4) {
		t.Fatal("can't be flushed and cut")
	}
	note(4, 112, 4, 0)
	note(5, 112, 5, 0) // one of them has to go
	if _, err := s.Check(Producer{ID: 3, Sequence: 1, Count: 1}); err != nil {
		t.Errorf("producer 3: %v", err)
	}
}

// TestD2_AnExportIsNoNewerThanTheLog: the newest append may be above what is exported and have
// left nothing, as a batch that was compacted. Then its time isn't that of the batches below it.
func TestD2_AnExportIsNoNewerThanTheLog(t *testing.T) {
	cfg := Config{Age: 10, Count: -1}
	log := []*Batch{batchOf(0, 100, "a"), {Base: 1, Next: 3, Time: 200, Producer: Producer{ID: NoProducer}}}
	s := New(cfg)
	for _, b := range log {
		s.Note(b)
	}
	if f := s.BeginFlush(3, 0); !s.CommitFlush(f, nil) { // a has expired
		t.Fatal("the flush was overtaken")
	}
	for below, want := range map[int64]int64{0: 0, 3: 200} {
		other := exported(t, s, below)
		if other.Newest() != want {
			t.Errorf("below %d the newest append was at %d, want %d", below, other.Newest(), want)
		}
		again := exported(t, other, below)
		for _, b := range log {
			again.Note(b)
		}
		again.has(t, "a", -1)
		if again.Newest() != 200 {
			t.Errorf("the newest append was at %d", again.Newest())
		}
	}
}

// TestAnExportKnowsHowOldItsIDsAre: ids between what is exported and what is still remembered were let go.
func TestAnExportKnowsHowOldItsIDsAre(t *testing.T) {
	cfg := Config{Age: -1, Count: 4}
	s := New(cfg)
	var log []*Batch
	for i := range int64(12) {
		log = append(log, batchOf(i, i, fmt.Sprint(i)))
	}
	for _, b := range log[:6] {
		s.Note(b)
	}
	f := s.BeginFlush(6, 0)
	b, _ := f.Build()
	run, err := OpenRun(b)
	if err != nil || !s.CommitFlush(f, run) {
		t.Fatal(err)
	}
	for _, b := range log[6:] {
		s.Note(b)
	}
	if f := s.BeginFlush(12, 4); f.Below != 8 || !s.CommitFlush(f, nil) {
		t.Fatal("6 and 7 aren't let go")
	}
	x, err := s.View().Export(6, bytesOf(b))
	if err != nil {
		t.Fatal(err)
	}
	im, err := ParseImport(x)
	if err != nil {
		t.Fatal(err)
	}
	again := New(cfg)
	if err := again.Restore(im.Covered, im.Snapshot, im.Runs); err != nil {
		t.Fatal(err)
	}
	again.Note(log[6])
	again.Note(log[7])
	for i := range 8 { // the log was cut at 8
		e, found, err := again.Find(IDOf(fmt.Append(nil, i)), bytesOf(im.Bytes[0]))
		if err != nil || found != (i >= 4) || found && e.Offset != int64(i) {
			t.Errorf("%d: %v %+v %v", i, found, e, err)
		}
	}
}

// TestFewSnapshotsOfManyProducers: what is let go costs one each time.
func TestFewSnapshotsOfManyProducers(t *testing.T) {
	for _, producers := range []int{1, 2 * flushMarks} {
		s := New(Config{Age: -1, Count: 10})
		for i := range int64(producers) {
			s.Note(&Batch{Base: i, Next: i + 1, Producer: Producer{ID: i, Count: 1}})
		}
		f := s.BeginFlush(s.Next(), 0)
		s.CommitFlush(f, nil)
		due := 0
		for ; !s.FlushDue(s.Next(), 400, 1000); due++ {
			s.Note(batchOf(s.Next(), 0, fmt.Sprint(due)))
		}
		if want := 10 + 400/4; producers == 1 && due != want || producers > 1 && due != 10+400 {
			t.Errorf("%d producers: a flush is due after %d ids", producers, due)
		}
	}
}

// exported is another replica's state, made from what s has no runs of.
func exported(t *testing.T, s *State, below int64) *State {
	t.Helper()
	b, err := s.View().Export(below, nil)
	if err != nil {
		t.Fatal(err)
	}
	im, err := ParseImport(b)
	if err != nil {
		t.Fatal(err)
	}
	other := New(s.cfg)
	if err := other.Restore(im.Covered, im.Snapshot, im.Runs); err != nil {
		t.Fatal(err)
	}
	return other
}
