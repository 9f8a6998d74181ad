package replication

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"highwater/storage"
)

func TestH20_OffsetsAtTheEdges(t *testing.T) {
	n := startNode(t)
	n.create("a", 1)
	n.mustAppend(AcksAll, "a", 0, names("v", 10)...)
	fetch := func(offset int64) (FetchResult, error) {
		// A wait without end: out of range must be told at once.
		return n.Fetch(context.Background(), FetchRequest{Topic: "a", Offset: offset, MaxBytes: 1 << 20, MaxWait: forever})
	}
	res, err := fetch(9)
	if got := records(t, res, 9); err != nil || len(got) != 1 || string(got[0].Value) != "v9" || res.HighWatermark != 10 {
		t.Errorf("offset 9: %+v, %v", got, err)
	}
	for _, offset := range []int64{11, 1<<63 - 1, -1, -1 << 63} {
		var out *storage.OffsetOutOfRangeError
		if _, err := fetch(offset); !errors.As(err, &out) || out.Start != 0 || out.End != 10 || out.Offset != offset {
			t.Errorf("offset %d: %v", offset, err)
		}
	}
	if res, err := n.Fetch(context.Background(), FetchRequest{Topic: "a", Offset: 10, MaxBytes: 1 << 20}); err != nil || len(res.Data) != 0 || res.HighWatermark != 10 {
		t.Errorf("at the end, no wait: %+v, %v", res, err)
	}
	if res, err := n.Fetch(context.Background(), FetchRequest{Topic: "a", Offset: 10, MaxBytes: 1 << 20, MaxWait: 1}); err != nil || len(res.Data) != 0 {
		t.Errorf("at the end, waited: %+v, %v", res, err)
	}
	if res, err := n.Fetch(context.Background(), FetchRequest{Topic: "a", Offset: 3, MaxBytes: 1}); err != nil || len(records(t, res, 3)) == 0 {
		t.Errorf("H37: max_bytes below a batch: %v", err)
	}
	if _, err := n.DeleteRecords(context.Background(), "a", 0, 4); err != nil {
		t.Fatal(err)
	}
	var out *storage.OffsetOutOfRangeError
	if _, err := fetch(3); !errors.As(err, &out) || out.Start != 4 {
		t.Errorf("below the log start: %v", err)
	}
	if _, err := n.DeleteRecords(context.Background(), "a", 0, 11); !errors.As(err, &out) || out.End != 10 {
		t.Errorf("delete above the high watermark: %v", err)
	}
	if _, err := n.DeleteRecords(context.Background(), "a", 0, -2); !errors.As(err, &out) {
		t.Errorf("delete before a negative offset: %v", err)
	}
	if start, err := n.DeleteRecords(context.Background(), "a", 0, 2); err != nil || start != 4 {
		t.Errorf("V24: the log start went back to %d, %v", start, err)
	}
	if start, err := n.DeleteRecords(context.Background(), "a", 0, -1); err != nil || start != 10 {
		t.Errorf("delete all: %d, %v", start, err)
	}
}

// Nothing at or above the high watermark is shown, and what frees it wakes.
func TestR93_ReadersSeeNothingAboveTheHighWatermark(t *testing.T) {
	n := startNode(t)
	n.create("a", 1)
	n.mustAppend(AcksAll, "a", 0, "seen")
	p := n.partition("a", 0)
	stall(p)
	n.mustAppend(AcksLeader, "a", 0, "hidden")
	res, err := n.Fetch(context.Background(), FetchRequest{Topic: "a", MaxBytes: 1 << 20})
	if got := records(t, res, 0); err != nil || len(got) != 1 || res.HighWatermark != 1 {
		t.Errorf("%d records below %d, %v", len(got), res.HighWatermark, err)
	}
	o, err := n.Offsets(context.Background(), "a", 0, nil)
	if err != nil || o.End != 1 || o.LogEnd != 2 {
		t.Errorf("offsets %+v, %v", o, err)
	}
	var out *storage.OffsetOutOfRangeError
	if _, err := n.Fetch(context.Background(), FetchRequest{Topic: "a", Offset: 2, MaxBytes: 1}); !errors.As(err, &out) || out.End != 1 {
		t.Errorf("above it: %v", err)
	}
	st, err := n.PartitionStatus(context.Background(), "a", 0)
	if err != nil || st.HighWatermark != 1 || st.LogEndOffset != 2 || st.Leader != 1 || len(st.Replicas) != 1 || !st.Replicas[0].InSync || !st.Replicas[0].Leader || st.Replicas[0].LogEndOffset != 2 {
		t.Errorf("status %+v, %v", st, err)
	}
	if hw := p.log.CheckpointedHighWatermark(); hw != 1 {
		t.Errorf("R33: the checkpoint will say %d", hw)
	}
	got := make(chan []string)
	go func() { got <- n.values("a", 0, 1, 1) }()
	for p.subs.n.Load() == 0 {
		runtime.Gosched()
	}
	unstall(p)
	if v := <-got; v[0] != "hidden" {
		t.Errorf("read %q", v)
	}
}

func TestLongPollsEndWithTheirReason(t *testing.T) {
	before := runtime.NumGoroutine()
	n := startNode(t)
	n.create("a", 1)
	n.mustAppend(AcksAll, "a", 0, "v")
	p := n.partition("a", 0)
	poll := func(ctx context.Context, wait time.Duration, min int) chan error {
		done := make(chan error, 1)
		go func() {
			res, err := n.Fetch(ctx, FetchRequest{Topic: "a", Offset: 1, MaxBytes: 1 << 20, MinBytes: min, MaxWait: wait})
			if err == nil && len(res.Data) > 0 {
				err = fmt.Errorf("%d bytes", len(res.Data))
			}
			done <- err
		}()
		return done
	}
	waiting := func(want int32) {
		for p.subs.n.Load() != want {
			runtime.Gosched()
		}
	}
	// H19: the largest wait there is neither overflows nor spins.
	ctx, cancel := context.WithCancel(context.Background())
	done := poll(ctx, forever, 1)
	waiting(1)
	cancel()
	if err := <-done; err != nil {
		t.Errorf("H18: client gone: %v", err)
	}
	waiting(0)
	if err := <-poll(context.Background(), time.Nanosecond, 1); err != nil {
		t.Errorf("waited in vain: %v", err)
	}
	if err := <-poll(context.Background(), -1, 1); err != nil {
		t.Errorf("a negative wait: %v", err)
	}
	waiting(0)
	// min_bytes: one small record isn't enough, more are.
	done = poll(context.Background(), forever, 400)
	waiting(1)
	n.mustAppend(AcksAll, "a", 0, "small")
	select {
	case err := <-done:
		t.Fatalf("woken below min_bytes: %v", err)
	default:
	}
	n.mustAppend(AcksAll, "a", 0, strings.Repeat("x", 400))
	if err := <-done; err == nil || err.Error() == "0 bytes" {
		t.Errorf("min_bytes reached: %v", err)
	}
	// A topic that goes takes its waiters with it.
	n.create("gone", 1)
	g := n.partition("gone", 0)
	go func() {
		_, err := n.Fetch(context.Background(), FetchRequest{Topic: "gone", MaxBytes: 1, MaxWait: forever})
		done <- err
	}()
	for g.subs.n.Load() == 0 {
		runtime.Gosched()
	}
	n.must(n.DeleteTopic(context.Background(), "gone"))
	if err := <-done; !isUnknownTopic(err) {
		t.Errorf("deleted: %v", err)
	}
	// H56: and a drain answers all.
	done = poll(context.Background(), forever, 1<<20)
	waiting(1)
	n.Drain()
	<-done
	waiting(0)
	n.stop()
	checkGoroutines(t, before)
}

// A wait for many bytes collects them as they come: without a gap, and not beyond
// max_bytes.
func TestMinBytesCollects(t *testing.T) {
	n := startNode(t)
	n.create("a", 2)
	one := len(batch(t, "v0"))
	for _, c := range []struct{ min, max, want int }{{3 * one, 1 << 20, 3}, {3 * one, 2 * one, 2}, {3 * one, 2*one + 5, 2}, {1 << 30, 2 * one, 2}, {1, 1, 1}} {
		o, err := n.Offsets(context.Background(), "a", 0, nil)
		n.must(err)
		single, many := make(chan FetchResult, 1), make(chan []PartitionFetch, 1)
		go func() {
			res, err := n.Fetch(context.Background(), FetchRequest{Topic: "a", Offset: o.End, MinBytes: c.min, MaxBytes: c.max, MaxWait: forever, Buffer: make([]byte, 0, one)})
			if err != nil {
				t.Error(err)
			}
			single <- res
		}()
		go func() {
			many <- n.FetchMany(context.Background(), FetchManyRequest{Positions: []Position{{Topic: "a", Partition: 1}, {Topic: "a", Offset: o.End}}, MinBytes: c.min, MaxBytes: c.max, MaxWait: forever})
		}()
		p := n.partition("a", 0)
		for p.subs.n.Load() < 2 {
			runtime.Gosched()
		}
		for i := range 3 {
			n.mustAppend(AcksAll, "a", 0, fmt.Sprint("v", i))
		}
		for name, res := range map[string]FetchResult{"Fetch": <-single, "FetchMany": (<-many)[1].FetchResult} {
			got := records(t, res, o.End)
			if len(got) < c.want || len(res.Data) > max(c.max, one) {
				t.Errorf("%s min %d max %d: %d records in %d bytes, want %d", name, c.min, c.max, len(got), len(res.Data), c.want)
			}
			for i, r := range got {
				if r.Offset != o.End+int64(i) || string(r.Value) != fmt.Sprint("v", i) {
					t.Errorf("%s min %d max %d: record %d is %d %q", name, c.min, c.max, i, r.Offset, r.Value)
				}
			}
		}
	}
}

// Many readers, one tail: every one sees every record in order, whatever the
// order of append, subscription and wake-up.
func TestNoWakeUpIsLost(t *testing.T) {
	n := startNode(t)
	n.create("a", 3)
	const readers, records = 12, 150
	var wg sync.WaitGroup
	for r := range readers {
		wg.Go(func() {
			got := n.values("a", int32(r%3), 0, records)
			for i, v := range got {
				if v != fmt.Sprint("v", i) {
					t.Errorf("reader %d: record %d is %s", r, i, v)
					return
				}
			}
		})
	}
	for part := range int32(3) {
		wg.Go(func() {
			for i := range records {
				n.mustAppend([]Acks{AcksAll, AcksLeader, AcksNone}[i%3], "a", part, fmt.Sprint("v", i))
			}
		})
	}
	wg.Wait()
}

func TestFetchManyWaitsForAnyOfThem(t *testing.T) {
	n := startNode(t)
	n.create("a", 3)
	n.create("b", 1)
	positions := []Position{{Topic: "a", Partition: 0}, {Topic: "a", Partition: 1}, {Topic: "a", Partition: 2}, {Topic: "b", Partition: 0}}
	many := func(wait time.Duration, maxBytes int) []PartitionFetch {
		return n.FetchMany(context.Background(), FetchManyRequest{Positions: positions, MaxBytes: maxBytes, MaxWait: wait})
	}
	results := make(chan []PartitionFetch, 1)
	wait := func() {
		go func() { results <- many(forever, 1<<20) }()
		for n.partition("b", 0).subs.n.Load() == 0 {
			runtime.Gosched()
		}
	}
	wait()
	n.mustAppend(AcksAll, "b", 0, "b0")
	res := <-results
	if got := records(t, res[3].FetchResult, 0); len(got) != 1 || string(got[0].Value) != "b0" || len(res[0].Data) != 0 || res[0].Err != nil {
		t.Errorf("%+v", res)
	}
	for i := range int32(3) {
		n.mustAppend(AcksAll, "a", i, "a", "a")
	}
	// The budget goes to the first ones; the others tell their ends.
	res = many(0, 1)
	if len(res[0].Data) == 0 || len(res[1].Data) != 0 || res[1].HighWatermark != 2 || res[3].HighWatermark != 1 {
		t.Errorf("max_bytes 1: %+v", res)
	}
	res = many(0, 1<<20)
	for i := range res {
		if res[i].Err != nil || len(res[i].Data) == 0 {
			t.Errorf("position %d: %+v", i, res[i])
		}
		positions[i].Offset = res[i].HighWatermark
	}
	// More partitions, and a deletion, end the wait.
	wait()
	_, err := n.AlterTopic(context.Background(), "a", nil, 5)
	n.must(err)
	for _, r := range <-results {
		if r.Err != nil || len(r.Data) != 0 {
			t.Errorf("more partitions: %+v", r)
		}
	}
	wait()
	n.must(n.DeleteTopic(context.Background(), "b"))
	if res := <-results; !isUnknownTopic(res[3].Err) && res[3].Err != nil {
		t.Errorf("deleted: %+v", res)
	}
	if res := many(forever, 1); !isUnknownTopic(res[3].Err) || res[0].Err != nil {
		t.Errorf("after the deletion: %+v", res)
	}
}

// A tail over a whole topic wakes for partitions that came after it began.
func TestSubscribeTopicCoversPartitionsAddedLater(t *testing.T) {
	n := startNode(t)
	n.create("a", 1)
	s := NewSignal()
	cancel, err := n.SubscribeTopic("a", s)
	n.must(err)
	n.mustAppend(AcksAll, "a", 0, "x")
	<-s.C
	_, err = n.AlterTopic(context.Background(), "a", nil, 3)
	n.must(err)
	<-s.C
	n.mustAppend(AcksAll, "a", 2, "x")
	<-s.C
	n.must(n.DeleteTopic(context.Background(), "a"))
	<-s.C
	if _, err := n.Fetch(context.Background(), FetchRequest{Topic: "a", MaxBytes: 1}); !isUnknownTopic(err) {
		t.Errorf("deleted: %v", err)
	}
	cancel()
	if _, err := n.SubscribeTopic("a", s); !isUnknownTopic(err) {
		t.Errorf("subscribed to %v", err)
	}
}

func TestOffsetsForTimestamps(t *testing.T) {
	n := startNode(t)
	n.create("a", 1)
	n.mustAppend(AcksAll, "a", 0, names("v", 4)...) // at 1000, 1001, 1002, 1003
	for ms, want := range map[int64]int64{999: 0, 1000: 0, 1001: 1, 1003: 3, 1004: -1} {
		o, err := n.Offsets(context.Background(), "a", 0, &ms)
		if err != nil || o.TimestampFound != (want >= 0) || (want >= 0 && o.ForTimestamp != want) {
			t.Errorf("H44: at %d: %+v, %v", ms, o, err)
		}
	}
	p := n.partition("a", 0)
	stall(p)
	n.mustAppend(AcksLeader, "a", 0, names("v", 9)...)
	ms := int64(1008)
	if o, err := n.Offsets(context.Background(), "a", 0, &ms); err != nil || o.TimestampFound {
		t.Errorf("a record above the high watermark was found: %+v, %v", o, err)
	}
}

func TestR96_ReadersLearnOfATruncation(t *testing.T) {
	n := startNode(t)
	n.create("a", 1)
	read := func(offset int64, epoch int32) (FetchResult, error) {
		return n.Fetch(context.Background(), FetchRequest{Topic: "a", Offset: offset, LeaderEpoch: &epoch, MaxBytes: 1 << 20})
	}
	told := func(offset int64) int32 {
		t.Helper()
		res, err := n.Fetch(context.Background(), FetchRequest{Topic: "a", Offset: offset, MaxBytes: 1 << 20})
		n.must(err)
		return res.LeaderEpoch
	}
	if e := told(0); e != 0 {
		t.Errorf("empty log: epoch %d", e)
	}
	n.mustAppend(AcksAll, "a", 0, "e0", "e0")
	n.restart()
	// Each start ends one leader epoch and begins another, so the second life's is 2.
	// Nothing was written in it: a reader who stands at the end read epoch 0.
	if e := told(2); e != 0 {
		t.Errorf("at the end: epoch %d", e)
	}
	n.restart()
	n.mustAppend(AcksAll, "a", 0, "e4", "e4")
	for offset, want := range map[int64]int32{0: 4, 2: 4, 4: 4} {
		if e := told(offset); e != want {
			t.Errorf("at %d: epoch %d, want %d", offset, e, want)
		}
	}
	for _, c := range []struct {
		offset int64
		epoch  int32
		safe   int64 // -1: not truncated
	}{{0, 0, -1}, {2, 0, -1}, {1, 0, -1}, {3, 0, 2}, {4, 4, -1}, {3, 4, -1}, {2, 2, 2}, {1, 1, 1}, {4, 5, 4}, {0, 9, -1}} {
		_, err := read(c.offset, c.epoch)
		var cut *TruncatedError
		switch {
		case c.safe < 0 && err != nil:
			t.Errorf("offset %d in epoch %d: %v", c.offset, c.epoch, err)
		case c.safe >= 0 && (!errors.As(err, &cut) || cut.SafeOffset != c.safe || cut.Offset != c.offset || cut.Epoch != c.epoch):
			t.Errorf("offset %d in epoch %d: %v, want safe offset %d", c.offset, c.epoch, err, c.safe)
		}
	}
	// Above the end the epoch is the better answer; below the start the range is.
	var cut *TruncatedError
	if _, err := read(9, 4); !errors.As(err, &cut) || cut.SafeOffset != 4 {
		t.Errorf("above the end: %v", err)
	}
	_, err := n.DeleteRecords(context.Background(), "a", 0, 3)
	n.must(err)
	var out *storage.OffsetOutOfRangeError
	for _, epoch := range []int32{1, 9} {
		if _, err := read(1, epoch); !errors.As(err, &out) {
			t.Errorf("R22: below the start, epoch %d: %v", epoch, err)
		}
	}
	if err := n.CheckEpoch(context.Background(), "a", 0, 4, 4); err != nil {
		t.Error(err)
	}
}

func TestSubscribersCostNothingWhenNobodyWaits(t *testing.T) {
	var u subscribers
	if a := testing.AllocsPerRun(100, u.wake); a != 0 {
		t.Errorf("%v allocations to wake nobody", a)
	}
	s := NewSignal()
	cancel := u.add(s)
	u.wake()
	u.wake()
	<-s.C
	select {
	case <-s.C:
		t.Error("two tokens")
	default:
	}
	cancel()
	cancel()
	u.wake()
	if len(s.C) != 0 || u.set != nil {
		t.Error("woken after cancel")
	}
}

func TestTopicNamesAreSortedAndInternalOnesHidden(t *testing.T) {
	n := startNode(t)
	for _, name := range []string{"b", "a.z", "B", "a"} {
		n.create(name, 1)
	}
	if got := n.TopicNames(false); !slices.Equal(got, []string{"B", "a", "a.z", "b"}) {
		t.Errorf("%v", got)
	}
}
