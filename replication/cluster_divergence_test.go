package replication

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"highwater/replication/controller"
	"highwater/replication/wire"
	"highwater/storage"
)

// appendFirst gives the partition a first record that all replicas know to be
// committed.
func (c *testCluster) appendFirst(topic string) {
	c.t.Helper()
	c.broker(c.meta(topic, 0).Leader).mustAppend(AcksAll, topic, 0, "m1")
	time.Sleep(fetchWait)
}

func TestF1_AFollowerKeepsWhatItsHighWatermarkDoesNotCoverYet(t *testing.T) {
	inCluster(t, clusterOptions{brokers: 2}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2})
		c.appendFirst("a")
		c.broker(1).mustAppend(AcksAll, "a", 0, "m2")
		if hw := c.broker(2).replica("a", 0).hw.Load(); hw != 1 {
			t.Fatalf("the case needs a follower that knows less (R32); its high watermark is %d", hw)
		}
		c.fail(2)
		c.links(2, false)
		c.broker(2).start()
		c.fail(1)
		c.leads(2, "a", 0) // from the ELR
		c.links(2, true)
		if got := c.broker(2).contents("a", 0); !slices.Equal(got, []string{"m1", "m2"}) {
			t.Fatalf("R35: the new leader holds %q", got)
		}
		c.broker(1).start()
		time.Sleep(time.Second)
		c.same("a", 0, []string{"m1", "m2"}, 2, 1)
		c.broker(2).mustAppend(AcksAll, "a", 0, "m3")
		c.same("a", 0, []string{"m1", "m2", "m3"}, 2, 1)
	})
}

func TestF2_DivergenceAfterAnUncleanElectionIsCut(t *testing.T) {
	inCluster(t, clusterOptions{brokers: 2, lagMax: time.Second}, func(c *testCluster) {
		c.createWith(controller.CreateTopic{Name: "a", MinInSync: 1, Replicas: [][]int32{{1, 2}}, Configs: map[string]string{controller.ConfigUncleanElection: "true"}})
		c.appendFirst("a")
		c.links(2, false)
		time.Sleep(3 * time.Second)
		c.isr("a", 0, 1)
		c.broker(1).mustAppend(AcksAll, "a", 0, "m2") // only here
		c.fail(1)
		c.leads(2, "a", 0)
		c.links(2, true)
		c.broker(2).mustAppend(AcksAll, "a", 0, "m3")
		c.broker(1).start()
		time.Sleep(time.Second)
		c.same("a", 0, []string{"m1", "m3"}, 2, 1)
		m := c.broker(1).metrics
		if figure(m.truncations) != 1 || figure(m.truncatedBelow) != 1 {
			t.Errorf("R39: %v truncations, %v of them below the high watermark", figure(m.truncations), figure(m.truncatedBelow))
		}
		c.isr("a", 0, 1, 2)
	})
}

func TestF4_ElectionsWithoutARecord(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		c.appendFirst("a")
		for range 2 { // 1 → 2 → 1
			leader := c.meta("a", 0).Leader
			c.fence(leader)
			c.settle()
			c.unfence(leader)
			time.Sleep(2 * time.Second)
			c.isr("a", 0, 1, 2, 3)
		}
		leader := c.meta("a", 0).Leader
		var fetches atomic.Int64
		c.mu.Lock()
		c.answered = func(int32, int32, *wire.FetchRequest, *wire.FetchResponse) { fetches.Add(1) }
		c.mu.Unlock()
		time.Sleep(10 * time.Second)
		c.mu.Lock()
		c.answered = nil
		c.mu.Unlock()
		if n := fetches.Load(); n > 2*10*2+5 { // two followers, two polls a second
			t.Errorf("%d fetches of an idle partition in 10 s", n)
		}
		c.broker(leader).mustAppend(AcksAll, "a", 0, "m2")
		time.Sleep(time.Second)
		c.same("a", 0, []string{"m1", "m2"}, 1, 2, 3)
		for _, m := range c.members {
			if got := m.replica("a", 0).log.Epochs(); len(got) != 2 || got[1].StartOffset != 1 {
				t.Errorf("V26: broker %d has epochs %v", m.id, got)
			}
			if figure(m.metrics.resets) != 0 {
				t.Errorf("broker %d threw its log away", m.id)
			}
		}
	})
}

func TestF5_AnIdlePartitionRestartedGoesOn(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		c.appendFirst("a")
		for range 3 {
			for _, id := range []int32{1, 2, 3} {
				c.fail(id)
				c.broker(id).start()
				time.Sleep(2 * time.Second)
				c.isr("a", 0, 1, 2, 3)
			}
		}
		for _, m := range c.members {
			if figure(m.metrics.truncations)+figure(m.metrics.resets) != 0 {
				t.Errorf("broker %d: %v truncations, %v resets", m.id, figure(m.metrics.truncations), figure(m.metrics.resets))
			}
		}
		c.same("a", 0, []string{"m1"}, 1, 2, 3)
	})
}

func TestF6_AnUncommittedTailIsCut(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		c.appendFirst("a")
		c.links(1, false)
		for range 4 {
			c.broker(1).mustAppend(AcksLeader, "a", 0, "lost")
		}
		waiting := c.broker(1).appendSoon(AcksAll, "a", 0, "in doubt")
		c.settle()
		c.fence(1)
		c.settle()
		c.leads(2, "a", 0)
		c.broker(2).mustAppend(AcksAll, "a", 0, "m2")
		c.links(1, true)
		c.unfence(1)
		time.Sleep(2 * time.Second)
		var not *NotLeaderError
		if res := <-waiting; !errors.As(res.Err, &not) || res.Unknown {
			t.Errorf("the append that was cut off, and that no follower can have: %+v", res)
		}
		c.same("a", 0, []string{"m1", "m2"}, 2, 1, 3)
		c.isr("a", 0, 1, 2, 3)
		if n := figure(c.broker(1).metrics.truncatedBelow); n != 0 {
			t.Errorf("V25: %v truncations below the high watermark", n)
		}
	})
}

// A leader that steps down doesn't know whether a record was committed that the
// others have. As a follower it learns.
func TestAWaitingAppendOutlivesItsLeader(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		c.appendFirst("a")
		// The answers with the record arrive, and nothing else does.
		c.mu.Lock()
		c.answered = func(from, to int32, _ *wire.FetchRequest, resp *wire.FetchResponse) {
			if len(resp.Partitions) > 0 && len(resp.Partitions[0].Batches) > 0 {
				c.mu.Lock()
				c.cut[[2]int32{from, 1}] = true
				c.mu.Unlock()
			}
		}
		c.mu.Unlock()
		waiting := c.broker(1).appendSoon(AcksAll, "a", 0, "m2")
		c.settle()
		if got := c.broker(2).contents("a", 0); len(got) != 2 || len(waiting) != 0 {
			t.Fatalf("broker 2 holds %q; answers: %d", got, len(waiting))
		}
		c.mu.Lock()
		c.answered = nil
		c.mu.Unlock()
		c.fence(1)
		c.settle()
		c.leads(2, "a", 0)
		c.unfence(1)
		c.links(1, true)
		time.Sleep(time.Second)
		select {
		case res := <-waiting:
			if res.Err != nil || res.BaseOffset != 1 || res.LeaderEpoch != 0 {
				t.Errorf("%+v", res)
			}
		default:
			t.Error("the append still waits for what its broker knows")
		}
		c.same("a", 0, []string{"m1", "m2"}, 2, 1, 3)
	})
}

func TestF7_AFollowerMissesAnEpochOfTheSameLeader(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 1, []int32{1, 2, 3})
		c.appendFirst("a")
		c.link(3, 1, false) // broker 3 stays where it is
		c.broker(3).lag(true)
		c.broker(1).mustAppend(AcksLeader, "a", 0, "of epoch 0")
		c.links(1, false)
		c.fence(1)
		c.settle()
		c.leads(2, "a", 0)
		c.unfence(1)
		c.links(1, true)
		c.link(3, 1, false)
		time.Sleep(2 * time.Second)
		c.fence(2)
		c.settle()
		c.unfence(2)
		c.settle()
		c.leads(1, "a", 0)
		c.broker(1).mustAppend(AcksLeader, "a", 0, "m2")
		c.link(3, 1, true)
		time.Sleep(5 * time.Second)
		if epoch := c.broker(3).replica("a", 0).leaderEpoch; epoch != 0 {
			t.Fatalf("broker 3 was to be in epoch 0, not %d", epoch)
		}
		c.broker(3).lag(false)
		time.Sleep(2 * time.Second)
		c.same("a", 0, c.broker(1).contents("a", 0), 1, 2, 3)
		c.isr("a", 0, 1, 2, 3)
	})
}

// R16, R37: a diverging answer counts in the epoch in which it was asked for.
func TestF8_AnAnswerOfAnEpochThatIsOverCutsNothing(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		c.appendFirst("a")
		m := c.broker(3)
		p := m.replica("a", 0)
		f := newFetcher(m.Broker, 1)
		w := &following{p: p, id: p.id(), epoch: 0}
		f.parts[w.id] = w
		p.mu.Lock()
		own := p.fetcher
		p.fetcher = f // as if f had asked
		p.mu.Unlock()
		if !f.position(w) {
			t.Fatal("no position")
		}
		cut := &wire.FetchResponse{Partitions: []wire.FetchedPartition{{TopicPartition: w.id, LeaderEpoch: 0, Leader: 1, Diverging: &wire.EpochEnd{Epoch: 0, EndOffset: 0}}}}
		p.mu.Lock()
		p.leaderEpoch = 1 // a newer leader
		p.mu.Unlock()
		f.stage(cut, true)
		f.commit()
		if got := m.contents("a", 0); len(got) != 1 {
			t.Errorf("R37: cut to %q by a former leader", got)
		}
		p.mu.Lock()
		p.leaderEpoch, p.fetcher = 0, own // another fetcher's by now
		p.mu.Unlock()
		f.stage(cut, true)
		f.commit()
		if got := m.contents("a", 0); len(got) != 1 {
			t.Errorf("R16: cut to %q by an answer to another fetcher", got)
		}
		p.mu.Lock()
		p.fetcher = f
		p.mu.Unlock()
		f.stage(cut, true)
		f.commit()
		if got := m.contents("a", 0); len(got) != 0 {
			t.Errorf("an answer that counts left %q", got)
		}
		p.mu.Lock()
		p.fetcher = own
		p.mu.Unlock()
	})
}

func TestF9_R51_ANewLeaderTellsNoEndBeforeItKnowsIt(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		c.appendFirst("a")
		c.broker(1).mustAppend(AcksAll, "a", 0, "m2")
		if o, err := c.broker(1).offsetsLocal(context.Background(), "a", 0, nil); err != nil || o.End != 2 {
			t.Fatalf("%+v, %v", o, err)
		}
		c.links(3, false)
		c.fail(1)
		c.leads(2, "a", 0)
		p := c.broker(2).replica("a", 0)
		if hw := p.hw.Load(); hw != 1 {
			t.Fatalf("the case needs a stale high watermark, not %d", hw)
		}
		var unknown *OffsetNotAvailableError
		if o, err := c.broker(2).offsetsLocal(context.Background(), "a", 0, nil); !errors.As(err, &unknown) {
			t.Errorf("V11: an end of %+v, %v", o, err)
		}
		// A reader that had read up to 2 is not out of range.
		if res, err := c.broker(2).fetchLocal(context.Background(), FetchRequest{Topic: "a", Offset: 2, MaxBytes: 1}); err != nil || len(res.Data) > 0 {
			t.Errorf("%+v, %v", res, err)
		}
		if res, err := c.broker(2).fetchLocal(context.Background(), FetchRequest{Topic: "a", Offset: 0, MaxBytes: 1}); err != nil || len(res.Data) == 0 {
			t.Errorf("below the high watermark: %+v, %v", res, err)
		}
		asked := make(chan Offsets, 1)
		go func() {
			o, _ := c.broker(2).offsetsLocal(context.Background(), "a", 0, nil)
			asked <- o
		}()
		c.settle()
		c.links(3, true)
		time.Sleep(2 * time.Second)
		if o := <-asked; o.End != 2 {
			t.Errorf("the end is %d", o.End)
		}
	})
}

// What became of a record that a leader lost: it may be elsewhere when a follower
// was sent it, and is nowhere when none was; and it isn't taken for the one that
// stands in its place.
func TestARecordThatWasCutOff(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		c.appendFirst("a")
		// Broker 3 is sent the record and can't answer; broker 2 never gets it.
		c.links(2, false)
		c.mu.Lock()
		c.answered = func(from, _ int32, _ *wire.FetchRequest, resp *wire.FetchResponse) {
			if len(resp.Partitions) > 0 && len(resp.Partitions[0].Batches) > 0 && from == 3 {
				c.mu.Lock()
				c.cut[[2]int32{1, 3}] = true
				c.mu.Unlock()
			}
		}
		c.mu.Unlock()
		waiting := c.broker(1).appendSoon(AcksAll, "a", 0, "sent to broker 3")
		c.settle()
		// Staged, written, and not yet waited for when the leadership is lost.
		m := c.broker(1)
		req := AppendRequest{Topic: "a", Batches: []storage.Batch{batch(t, "sent to nobody")}}
		part, res := m.stage(context.Background(), AcksAll, &req)
		c.must(res.Err)
		part.write(context.Background(), AcksAll, &res)
		c.links(1, false)
		c.mu.Lock()
		c.answered = nil
		c.mu.Unlock()
		c.links(2, true)
		c.link(2, 1, false)
		c.fence(1)
		c.settle()
		c.leads(2, "a", 0)
		for range 3 { // others stand in their place
			c.broker(2).mustAppend(AcksAll, "a", 0, "in its place")
		}
		c.links(1, true)
		c.unfence(1)
		time.Sleep(2 * time.Second)
		c.same("a", 0, []string{"m1", "in its place", "in its place", "in its place"}, 2, 1, 3)
		var lost *LeaderLostError
		if res := <-waiting; !errors.As(res.Err, &lost) || !res.Unknown {
			t.Errorf("a record that broker 3 may have: %+v", res)
		}
		results := []AppendResult{res}
		m.awaitAll(context.Background(), []pending{part}, results)
		m.answer(AcksAll, &part, &results[0])
		var not *NotLeaderError
		if !errors.As(results[0].Err, &not) || results[0].Unknown {
			t.Errorf("a record that nobody has: %+v", results[0])
		}
	})
}

func TestAnAppendIsSyncedAfterALogThatWasCutLeadsAgain(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		c.appendFirst("a")
		c.links(1, false)
		for range 4 {
			c.broker(1).mustAppend(AcksLeader, "a", 0, "lost")
		}
		waiting := c.broker(1).appendSoon(AcksAll, "a", 0, "lost, and waited for")
		c.settle()
		c.fence(1)
		c.settle()
		c.leads(2, "a", 0)
		c.links(1, true)
		c.unfence(1)
		time.Sleep(2 * time.Second)
		if res := <-waiting; res.Err == nil {
			t.Errorf("an append that was cut off is answered with %+v", res)
		}
		for _, id := range []int32{2, 3} {
			c.fence(id)
			c.settle()
			if c.meta("a", 0).Leader == 1 {
				break
			}
			c.unfence(id)
			time.Sleep(2 * time.Second)
		}
		c.leads(1, "a", 0)
		c.broker(1).mustAppend(AcksAll, "a", 0, "m2") // ends before where the log was synced to in its former life
	})
}
