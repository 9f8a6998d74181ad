package replication

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"highwater/replication/controller"
	"highwater/storage"
)

func TestAppendTellsWhatIsProved(t *testing.T) {
	for _, mode := range []storage.Fsync{storage.FsyncCommit, storage.FsyncInterval, storage.FsyncNever} {
		t.Run(string(mode), func(t *testing.T) {
			n := startNode(t, func(o *nodeOptions) { o.store = func(s *storage.Options) { s.Fsync = mode } })
			n.create("a", 1)
			want := DurabilityFsynced
			if mode != storage.FsyncCommit {
				want = DurabilityWritten
			}
			all := n.mustAppend(AcksAll, "a", 0, "x", "y")
			if all.BaseOffset != 0 || all.LastOffset != 1 || all.HighWatermark != 2 || all.InSyncReplicas != 1 || all.Durability != want || all.LeaderEpoch != 0 || all.AppendTime == 0 {
				t.Errorf("acks=-1: %+v", all)
			}
			if one := n.mustAppend(AcksLeader, "a", 0, "z"); one.BaseOffset != 2 || one.LastOffset != 2 || one.Durability != DurabilityWritten || one.InSyncReplicas != 1 {
				t.Errorf("acks=1: %+v", one)
			}
			if none := n.mustAppend(AcksNone, "a", 0, "q"); none.BaseOffset != -1 || none.LastOffset != -1 || none.HighWatermark != -1 || none.Durability != DurabilityQueued {
				t.Errorf("acks=0: %+v", none)
			}
			if got := n.values("a", 0, 0, 4); !slices.Equal(got, []string{"x", "y", "z", "q"}) {
				t.Errorf("read %q", got)
			}
		})
	}
}

// One request for several partitions: each has its own outcome, in their order.
func TestAppendToManyPartitions(t *testing.T) {
	n := startNode(t)
	n.create("a", 3)
	n.create("b", 1)
	wrong := int64(5)
	req := func(topic string, p int32, values ...string) AppendRequest {
		return AppendRequest{Topic: topic, Partition: p, Batches: []storage.Batch{batch(t, values...), batch(t, values...)}}
	}
	bad := req("a", 2, "no")
	bad.ExpectedOffset = &wrong
	res := n.Append(context.Background(), AcksAll, []AppendRequest{req("b", 0, "b0"), req("a", 9, "x"), req("a", 1, "a1", "a2"), req("nope", 0, "x"), bad, req("a", 1, "a3"), req("a", -1, "x")})
	if res[0].Err != nil || res[0].BaseOffset != 0 || res[0].LastOffset != 1 {
		t.Errorf("b-0: %+v", res[0])
	}
	var partition *UnknownPartitionError
	for _, i := range []int{1, 6} {
		if !errors.As(res[i].Err, &partition) || res[i].Unknown || partition.Count != 3 {
			t.Errorf("a partition that isn't there: %+v", res[i])
		}
	}
	if res[2].Err != nil || res[2].BaseOffset != 0 || res[2].LastOffset != 3 || res[5].Err != nil || res[5].BaseOffset != 4 {
		t.Errorf("a-1: %+v, %+v", res[2], res[5])
	}
	if !isUnknownTopic(res[3].Err) || res[3].Unknown {
		t.Errorf("unknown topic: %+v", res[3])
	}
	var offset *UnexpectedOffsetError
	if !errors.As(res[4].Err, &offset) || res[4].Unknown || offset.Expected != 5 || offset.Actual != 0 || offset.Partition != 2 {
		t.Errorf("expected_offset: %+v", res[4])
	}
	if got := n.values("a", 1, 0, 6); !slices.Equal(got, []string{"a1", "a2", "a1", "a2", "a3", "a3"}) {
		t.Errorf("a-1 holds %q", got)
	}
	if o, err := n.Offsets(context.Background(), "a", 2, nil); err != nil || o.LogEnd != 0 {
		t.Errorf("V17: a refused append is in the log: %+v, %v", o, err)
	}
}

func TestExpectedOffsetLetsExactlyOneWin(t *testing.T) {
	n := startNode(t)
	n.create("a", 1)
	const rounds, rivals = 40, 8
	for round := range int64(rounds) {
		results := make([]AppendResult, rivals)
		var wg sync.WaitGroup
		for i := range rivals {
			wg.Go(func() {
				acks := []Acks{AcksNone, AcksLeader, AcksAll}[i%3]
				results[i] = n.Append(context.Background(), acks, []AppendRequest{{Topic: "a", Batches: []storage.Batch{batch(t, fmt.Sprint(round, "/", i))}, ExpectedOffset: &round}})[0]
			})
		}
		wg.Wait()
		winner := -1
		for i, r := range results {
			var lost *UnexpectedOffsetError
			switch {
			case r.Err == nil && winner >= 0:
				t.Fatalf("round %d: %d and %d both won", round, winner, i)
			case r.Err == nil:
				winner = i
			case !errors.As(r.Err, &lost) || lost.Expected != round || lost.Actual != round+1 || r.Unknown:
				t.Fatalf("round %d: %v", round, r.Err)
			}
		}
		if winner < 0 {
			t.Fatalf("round %d: nobody won", round)
		}
		if got := n.values("a", 0, round, 1); got[0] != fmt.Sprint(round, "/", winner) {
			t.Fatalf("offset %d holds %s, %d won", round, got[0], winner)
		}
	}
}

func TestR54_TooFewReplicasAtAcksAll(t *testing.T) {
	n := startNode(t, func(o *nodeOptions) { o.defaults.MinInSyncReplicas = 2 })
	n.create("a", 1)
	res := n.append(AcksAll, "a", 0, "x")
	var few *NotEnoughReplicasError
	if !errors.As(res.Err, &few) || res.Unknown || few.Appended || few.InSync != 1 || few.Min != 2 {
		t.Fatalf("acks=-1: %+v", res)
	}
	// Other acks aren't blocked, and R27's effective minimum lets them be read.
	n.mustAppend(AcksLeader, "a", 0, "y")
	if got := n.values("a", 0, 0, 1); got[0] != "y" {
		t.Errorf("V17: offset 0 holds %q", got[0])
	}
	text := "1"
	if _, err := n.AlterTopic(context.Background(), "a", map[string]*string{controller.ConfigMinInSyncReplicas: &text}, 0); err != nil {
		t.Fatal(err)
	}
	n.mustAppend(AcksAll, "a", 0, "z")
}

// stall holds the high watermark of a partition where it is, as an in-sync
// replica does that is never heard of.
func stall(p *Partition) { setISR(p, 99) }

func unstall(p *Partition) {
	setISR(p)
	p.advance()
}

// setISR has the leader believe in an ISR of itself and others.
func setISR(p *Partition, others ...int32) {
	p.water.Lock()
	defer p.water.Unlock()
	m := p.lead.Meta()
	m.PartitionEpoch++
	m.ISR = append([]int32{m.Replicas[0]}, others...)
	p.lead.SetMeta(m)
}

func TestATimeoutIsUnknownAndTheRecordMaySurvive(t *testing.T) {
	n := startNode(t)
	n.create("a", 2)
	p := n.partition("a", 0)
	stall(p)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	res := n.Append(ctx, AcksAll, []AppendRequest{{Topic: "a", Partition: 0, Batches: []storage.Batch{batch(t, "late")}}, {Topic: "a", Partition: 9, Batches: []storage.Batch{batch(t, "x")}}})
	if !errors.Is(res[0].Err, ErrTimeout) || !res[0].Unknown {
		t.Errorf("deadline: %+v", res[0])
	}
	if errors.Is(res[1].Err, ErrTimeout) || res[1].Unknown {
		t.Errorf("the other partition: %+v", res[1])
	}
	p.water.Lock()
	if len(p.waiters) != 0 {
		t.Errorf("%d waiters are left", len(p.waiters))
	}
	p.water.Unlock()
	unstall(p)
	if got := n.values("a", 0, 0, 1); got[0] != "late" {
		t.Errorf("read %q", got)
	}
}

func TestConcurrentAppendsAreDenseAndInOrder(t *testing.T) {
	n := startNode(t)
	n.create("a", 2)
	const writers, each = 6, 40
	offsets := make([][]int64, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				res := n.append([]Acks{AcksAll, AcksLeader}[w%2], "a", int32(i%2), fmt.Sprint(w, "/", i))
				if res.Err != nil {
					t.Error(res.Err)
					return
				}
				offsets[w] = append(offsets[w], res.BaseOffset)
			}
		})
	}
	wg.Wait()
	for part := range int32(2) {
		got := n.values("a", part, 0, writers*each/2)
		for w := range writers {
			last := int64(-1)
			for i := int(part); i < each; i += 2 {
				at := offsets[w][i]
				if got[at] != fmt.Sprint(w, "/", i) {
					t.Fatalf("V5: offset %d of %d holds %s, answered for %d/%d", at, part, got[at], w, i)
				}
				if at <= last {
					t.Fatalf("V10: writer %d went from %d to %d", w, last, at)
				}
				last = at
			}
		}
	}
}

// appendInFlight is the answer of an acks=-1 append to a stalled partition, which
// waits when it returns.
func (n *node) appendInFlight(p *Partition) <-chan AppendResult {
	answer := make(chan AppendResult, 1)
	go func() { answer <- n.append(AcksAll, "a", p.num, "in flight") }()
	for waits := false; !waits; runtime.Gosched() {
		p.water.Lock()
		waits = len(p.waiters) == 1
		p.water.Unlock()
	}
	return answer
}

// H57: a drain refuses what comes and answers what is in flight.
func TestH57_DrainAnswersWhatIsInFlight(t *testing.T) {
	before := runtime.NumGoroutine()
	n := startNode(t)
	n.create("a", 1)
	p := n.partition("a", 0)
	stall(p)
	inFlight := n.appendInFlight(p)
	n.Drain()
	n.Drain()
	if res := n.append(AcksLeader, "a", 0, "late"); !errors.Is(res.Err, ErrShuttingDown) || res.Unknown {
		t.Errorf("after Drain: %+v", res)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := n.Broker.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Close didn't wait for what is in flight: %v", err)
	}
	if err := n.Ready(); !errors.Is(err, ErrShuttingDown) {
		t.Errorf("readiness: %v", err)
	}
	unstall(p)
	if res := <-inFlight; res.Err != nil || res.BaseOffset != 0 {
		t.Errorf("in flight: %+v", res)
	}
	n.stop()
	checkGoroutines(t, before)
	n.start()
	if got := n.values("a", 0, 0, 1); got[0] != "in flight" {
		t.Errorf("after the restart: %q", got)
	}
}

// A produce that waits when its topic is deleted is answered at once, and says
// that it isn't known what became of it.
func TestR86_ADeletionEndsTheProducesInFlight(t *testing.T) {
	n := startNode(t)
	n.create("a", 1)
	p := n.partition("a", 0)
	stall(p)
	inFlight := n.appendInFlight(p)
	n.must(n.DeleteTopic(context.Background(), "a"))
	if res := <-inFlight; !isUnknownTopic(res.Err) || !res.Unknown {
		t.Errorf("in flight: %+v", res)
	}
	// One that had written but not begun to wait.
	if err := <-p.await(n.Broker, storage.Staged{New: true, EndOffset: 1 << 40, WaitEnd: 1 << 40}, 0).done; !isUnknownTopic(err) {
		t.Errorf("waiting from now on: %v", err)
	}
	// And one that had found the partition but not staged.
	if _, _, err := n.offer(context.Background(), p, AcksLeader, &AppendRequest{Batches: []storage.Batch{batch(t, "x")}}); !isUnknownTopic(err) {
		t.Errorf("staged from now on: %v", err)
	}
}

func TestLogAppendTimeIsTheBrokers(t *testing.T) {
	n := startNode(t)
	n.create("a", 1, controller.ConfigTimestampType, "LogAppendTime")
	res := n.mustAppend(AcksAll, "a", 0, "x", "y")
	f, err := n.Fetch(context.Background(), FetchRequest{Topic: "a", MaxBytes: 1 << 20})
	n.must(err)
	for _, r := range records(t, f, 0) {
		if r.Timestamp != res.AppendTime || r.Timestamp < 1_700_000_000_000 {
			t.Errorf("record %d has timestamp %d, append time is %d", r.Offset, r.Timestamp, res.AppendTime)
		}
	}
	// The change holds for what comes after it.
	text := "CreateTime"
	_, err = n.AlterTopic(context.Background(), "a", map[string]*string{controller.ConfigTimestampType: &text}, 0)
	n.must(err)
	n.mustAppend(AcksAll, "a", 0, "z")
	f, err = n.Fetch(context.Background(), FetchRequest{Topic: "a", Offset: 2, MaxBytes: 1 << 20})
	n.must(err)
	if r := records(t, f, 2); len(r) != 1 || r[0].Timestamp != 1000 {
		t.Errorf("after the change: %+v", r)
	}
}
