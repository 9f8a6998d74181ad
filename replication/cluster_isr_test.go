package replication

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"highwater/replication/controller"
	"highwater/replication/wire"
)

func TestF11_F27_AnIsolatedLeaderAcknowledgesNothing(t *testing.T) {
	inCluster(t, clusterOptions{lagMax: 3 * time.Second}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		c.appendFirst("a")
		c.links(1, false)
		c.broker(1).isolate(true)
		waiting := c.broker(1).appendSoon(AcksAll, "a", 0, "in doubt")
		c.settle()
		time.Sleep(2 * isolationTime)
		var stale *NotConfirmedError
		if res := <-waiting; !errors.As(res.Err, &stale) || !res.Unknown {
			t.Errorf("R61: an append that waited: %+v", res)
		}
		for _, acks := range []Acks{AcksNone, AcksLeader, AcksAll} {
			if res := c.broker(1).append(acks, "a", 0, "x"); !errors.As(res.Err, &stale) || res.Unknown {
				t.Errorf("R61: acks=%d: %+v", acks, res)
			}
		}
		if res, err := c.broker(1).fetchLocal(context.Background(), FetchRequest{Topic: "a", MaxBytes: 1}); err != nil || !res.Stale || len(res.Data) == 0 {
			t.Errorf("R61: a read: %+v, %v", res, err)
		}
		if o, err := c.broker(1).offsetsLocal(context.Background(), "a", 0, nil); err != nil || !o.Stale {
			t.Errorf("R61: offsets: %+v, %v", o, err)
		}
		var unsure *NotConfirmedError
		if _, err := c.broker(1).fetchLocal(context.Background(), FetchRequest{Topic: "a", Offset: 1000, MaxBytes: 1}); !errors.As(err, &unsure) {
			t.Errorf("where the log ends isn't known to a stale leader: %v", err)
		}
		time.Sleep(10 * time.Second) // the ISR would be {1} by now
		p := c.broker(1).replica("a", 0)
		if hw := p.hw.Load(); hw != 1 {
			t.Errorf("F11: high watermark %d", hw)
		}
		c.isr("a", 0, 1, 2, 3)

		c.fence(1)
		c.settle()
		c.leads(2, "a", 0)
		c.broker(2).mustAppend(AcksAll, "a", 0, "m2")
		if d := p.debug(); d.Role != roleLeader || len(d.MaximalISR) != 3 {
			t.Errorf("the old leader, that knows of nothing: %+v", d)
		}
		c.broker(1).isolate(false)
		c.links(1, true)
		c.unfence(1)
		time.Sleep(2 * time.Second)
		c.same("a", 0, []string{"m1", "m2"}, 2, 1, 3)
		c.isr("a", 0, 1, 2, 3)
	})
}

// A leader that the controller can't reach goes on while its in-sync replicas fetch
// (F28), and stops as soon as one of them knows of another leader (F26).
func TestF26_F28_ALeaderWithoutAController(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		c.appendFirst("a")
		c.broker(1).isolate(true)
		time.Sleep(10 * time.Second)
		c.broker(1).mustAppend(AcksAll, "a", 0, "m2") // R60
		c.broker(1).mustAppend(AcksLeader, "a", 0, "m3")
		time.Sleep(fetchWait)
		c.fence(1)
		c.settle()
		c.leads(2, "a", 0)
		if d := c.broker(1).replica("a", 0).debug(); d.Role != roleResigned || d.LeaderEpoch != 0 {
			t.Errorf("R64: %+v", d)
		}
		var not *NotLeaderError
		if res := c.broker(1).append(AcksLeader, "a", 0, "x"); !errors.As(res.Err, &not) || res.Unknown || not.Leader != controller.NoLeader {
			t.Errorf("%+v", res)
		}
		if _, err := c.broker(1).fetchLocal(context.Background(), FetchRequest{Topic: "a", MaxBytes: 1}); !errors.As(err, &not) {
			t.Errorf("a read: %v", err)
		}
		c.broker(2).mustAppend(AcksAll, "a", 0, "m4")
		c.broker(1).isolate(false)
		c.unfence(1)
		time.Sleep(2 * time.Second)
		c.same("a", 0, []string{"m1", "m2", "m3", "m4"}, 2, 1, 3)
	})
}

func TestR62_ALeaderLooksAgainBeforeItAnswers(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) { // F32
		c.create("a", 2, []int32{1, 2, 3})
		c.appendFirst("a")
		m := c.broker(1)
		p := m.replica("a", 0)
		req := AppendRequest{Topic: "a", Partition: 0, Batches: nil}
		req.Batches = append(req.Batches, batch(t, "m2"))
		part, res := m.stage(context.Background(), AcksLeader, &req)
		c.must(res.Err)
		part.write(context.Background(), AcksLeader, &res)
		c.links(1, false)
		m.isolate(true)
		time.Sleep(20 * time.Second) // paused
		m.answer(AcksLeader, &part, &res)
		var stale *NotConfirmedError
		if !errors.As(res.Err, &stale) || !res.Unknown {
			t.Errorf("after a pause: %+v", res)
		}
		m.depose(p, 1, "test")
		res.Err, res.Unknown = nil, false
		m.answer(AcksLeader, &part, &res)
		var lost *LeaderLostError
		if !errors.As(res.Err, &lost) || !res.Unknown {
			t.Errorf("after leadership was lost: %+v", res)
		}
	})
}

func TestF18_TheISRShrinksBelowItsMinimumAfterTheAppend(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		c.appendFirst("a")
		c.links(1, false)
		waiting := c.broker(1).appendSoon(AcksAll, "a", 0, "m2")
		c.settle()
		c.fence(2)
		c.fence(3)
		c.settle()
		var few *NotEnoughReplicasError
		if res := <-waiting; !errors.As(res.Err, &few) || !few.Appended || !res.Unknown || few.InSync != 1 || few.Min != 2 {
			t.Errorf("R55: %+v", res)
		}
		if res := c.broker(1).append(AcksAll, "a", 0, "x"); !errors.As(res.Err, &few) || few.Appended || res.Unknown {
			t.Errorf("R54: %+v", res)
		}
		c.broker(1).mustAppend(AcksLeader, "a", 0, "m3")
		time.Sleep(time.Second)
		if hw := c.broker(1).replica("a", 0).hw.Load(); hw != 1 {
			t.Errorf("R28: high watermark %d", hw)
		}
		c.links(1, true)
		c.unfence(2)
		time.Sleep(2 * time.Second)
		if hw := c.broker(1).replica("a", 0).hw.Load(); hw != 3 {
			t.Errorf("high watermark %d with two in sync", hw)
		}
	})
}

// changes counts the committed ISR changes of a partition.
func (c *testCluster) changes(topic string) int32 { return c.meta(topic, 0).PartitionEpoch }

func TestF20_ASlowFollowerLeavesOnceAndComesBackOnce(t *testing.T) {
	inCluster(t, clusterOptions{lagMax: 3 * time.Second}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		c.appendFirst("a")
		before := c.changes("a")
		c.links(3, false)
		waiting := c.broker(1).appendSoon(AcksAll, "a", 0, "m2")
		time.Sleep(2 * time.Second)
		if len(waiting) != 0 {
			t.Error("R26: an acknowledgement without a member of the ISR")
		}
		time.Sleep(4 * time.Second)
		if res := <-waiting; res.Err != nil || res.InSyncReplicas != 2 {
			t.Errorf("%+v", res)
		}
		c.isr("a", 0, 1, 2)
		for range 100 {
			c.broker(1).mustAppend(AcksAll, "a", 0, "x")
			time.Sleep(100 * time.Millisecond)
		}
		c.links(3, true)
		for range 100 {
			c.broker(1).mustAppend(AcksAll, "a", 0, "x")
			time.Sleep(100 * time.Millisecond)
		}
		c.isr("a", 0, 1, 2, 3)
		if n := c.changes("a") - before; n != 2 {
			t.Errorf("%d ISR changes", n)
		}
		m := c.broker(1).metrics
		if figure(m.isrShrinks) != 1 || figure(m.isrExpands) != 1 {
			t.Errorf("%v shrinks, %v expands", figure(m.isrShrinks), figure(m.isrExpands))
		}
	})
}

func TestF21_AFlappingFollowerCostsTheQuorumLittle(t *testing.T) {
	inCluster(t, clusterOptions{lagMax: 3 * time.Second}, func(c *testCluster) {
		c.create("a", 1, []int32{1, 2, 3})
		c.appendFirst("a")
		before := c.changes("a")
		for range 30 {
			c.links(3, false)
			c.broker(1).mustAppend(AcksLeader, "a", 0, "x")
			time.Sleep(time.Second)
			c.links(3, true)
			c.broker(1).mustAppend(AcksAll, "a", 0, "x")
			time.Sleep(time.Second)
		}
		if n := c.changes("a") - before; n > 2 {
			t.Errorf("%d ISR changes in a minute", n)
		}
	})
}

// R48: followers of a new leader aren't taken to be behind before they could
// fetch, nor are those of a new topic.
func TestF22_H50_ANewLeaderThrowsNobodyOut(t *testing.T) {
	inCluster(t, clusterOptions{lagMax: 2 * time.Second}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		c.appendFirst("a")
		for i := range 20 {
			leader := c.meta("a", 0).Leader
			c.fence(leader)
			c.unfence(leader)
			c.settle()
			next := c.meta("a", 0).Leader
			epoch := c.meta("a", 0).LeaderEpoch
			c.broker(next).isr.lookAtAll()
			if res := c.broker(next).append(AcksLeader, "a", 0, "x"); res.Err != nil {
				t.Fatalf("round %d: %v", i, res.Err)
			}
			c.broker(next).isr.lookAtAll()
			c.settle()
			for range 10 {
				c.broker(next).mustAppend(AcksLeader, "a", 0, "x")
				time.Sleep(300 * time.Millisecond)
			}
			if figure(c.broker(next).metrics.isrShrinks) != 0 {
				t.Fatalf("round %d: a healthy follower was thrown out", i)
			}
			c.isr("a", 0, 1, 2, 3)
			if c.meta("a", 0).LeaderEpoch != epoch {
				t.Errorf("round %d: leader epoch %d without an election", i, c.meta("a", 0).LeaderEpoch)
			}
		}
		c.apply(&controller.CreateTopic{Name: "b", ID: uuid.New(), Replicas: [][]int32{{1, 2, 3}}})
		c.settle()
		c.broker(1).mustAppend(AcksLeader, "b", 0, "x")
		c.broker(1).isr.lookAtAll()
		time.Sleep(10 * time.Second)
		if c.changes("b") != 0 {
			t.Errorf("%d ISR changes of a new topic", c.changes("b"))
		}
	})
}

// R23: a follower that is always one append behind isn't behind.
func TestF23_AFollowerThatNeverHasAllKeepsUp(t *testing.T) {
	inCluster(t, clusterOptions{lagMax: 2 * time.Second}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		c.appendFirst("a")
		p := c.broker(1).replica("a", 0)
		c.mu.Lock()
		c.answered = func(from, to int32, _ *wire.FetchRequest, _ *wire.FetchResponse) {
			time.Sleep(50 * time.Millisecond) // a slow network
		}
		c.mu.Unlock()
		before := c.changes("a")
		for range 500 {
			c.broker(1).mustAppend(AcksLeader, "a", 0, "x")
			time.Sleep(20 * time.Millisecond)
			if lag := p.log.WrittenEnd() - p.hw.Load(); lag > 20 {
				t.Fatalf("the high watermark is %d behind", lag)
			}
		}
		c.mu.Lock()
		c.answered = nil
		c.mu.Unlock()
		if c.changes("a") != before {
			t.Error("the ISR changed")
		}
	})
}

// R19: what isn't the next request of the follower's newest life counts for nothing.
func TestF24_F25_LateAndRepeatedFetchesCountForNothing(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		topic := c.create("a", 2, []int32{1, 2})
		c.appendFirst("a")
		c.links(2, false)
		m := c.broker(1)
		c.broker(1).mustAppend(AcksLeader, "a", 0, "m2")
		time.Sleep(time.Second) // until it is durable
		p := m.replica("a", 0)
		epoch := c.broker(2).epoch
		at := wire.FetchPartition{TopicPartition: wire.TopicPartition{Topic: topic.ID}, LeaderEpoch: 0, Offset: 2, LastEpoch: 0, MaxBytes: 1 << 20}
		fetch := func(what string, want wire.Code, change func(r *wire.FetchRequest)) {
			t.Helper()
			req := &wire.FetchRequest{Version: wire.Version, ClusterID: "test", Replica: 2, BrokerEpoch: epoch, Seq: 1, Full: true, MaxBytes: 1 << 20,
				Partitions: []wire.FetchPartition{at}}
			change(req)
			var buf []byte
			if resp := m.ServeFetch(context.Background(), req, &buf); resp.Code != want {
				t.Errorf("%s: %q, want %q", what, resp.Code, want)
			}
			if hw := p.hw.Load(); hw != 1 && want != wire.OK {
				t.Fatalf("%s: high watermark %d", what, hw)
			}
		}
		last := m.sessions.byKey[sessionKey{2, 0}].last
		fetch("a request from before", wire.CodeFetchSession, func(r *wire.FetchRequest) { r.Seq = last - 1 })
		fetch("the last one again", wire.CodeFetchSession, func(r *wire.FetchRequest) { r.Seq = last })
		fetch("not the next", wire.CodeFetchSession, func(r *wire.FetchRequest) { r.Full, r.Seq = false, last+5 })
		fetch("a former life", wire.CodeStaleBrokerEpoch, func(r *wire.FetchRequest) { r.Seq, r.BrokerEpoch = 1000, epoch-1 })
		fetch("another cluster (F37)", wire.CodeClusterID, func(r *wire.FetchRequest) { r.Seq, r.ClusterID = 1000, "other" })
		fetch("another version (R100)", wire.CodeVersion, func(r *wire.FetchRequest) { r.Seq, r.Version = 1000, 99 })
		fetch("itself", wire.CodeInvalidRequest, func(r *wire.FetchRequest) { r.Seq, r.Replica = 1000, 1 })
		fetch("not registered", wire.CodeInvalidRequest, func(r *wire.FetchRequest) { r.Seq, r.BrokerEpoch = 1000, 0 })
		fetch("the next one", wire.OK, func(r *wire.FetchRequest) { r.Seq = 1000 })
		if hw := p.hw.Load(); hw != 2 {
			t.Errorf("a fetch that counts: high watermark %d", hw)
		}
	})
}

// What a leader answers a follower that is wrong about a partition (R19-R22).
func TestR19_R22_Refusals(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		topic := c.create("a", 2, []int32{1, 2})
		c.appendFirst("a")
		c.links(3, false)
		seq := int64(0)
		answer := func(change func(at *wire.FetchPartition)) wire.FetchedPartition {
			t.Helper()
			seq++
			at := wire.FetchPartition{TopicPartition: wire.TopicPartition{Topic: topic.ID}, Offset: 1, MaxBytes: 1 << 20}
			change(&at)
			var buf []byte
			resp := c.broker(1).ServeFetch(context.Background(), &wire.FetchRequest{Version: wire.Version, ClusterID: "test", Replica: 3, Fetcher: 7,
				BrokerEpoch: c.broker(3).epoch, Seq: seq, Full: true, MaxBytes: 1 << 20, Partitions: []wire.FetchPartition{at}}, &buf)
			if resp.Code != wire.OK || len(resp.Partitions) != 1 {
				t.Fatalf("%+v", resp)
			}
			return resp.Partitions[0]
		}
		if a := answer(func(at *wire.FetchPartition) { at.Topic = uuid.New() }); a.Code != wire.CodeUnknownTopicID {
			t.Errorf("R84: %+v", a)
		}
		for _, num := range []int32{-1, 1, 1 << 30} {
			if a := answer(func(at *wire.FetchPartition) { at.Partition = num }); a.Code == wire.OK {
				t.Errorf("partition %d: %+v", num, a)
			}
		}
		if a := answer(func(*wire.FetchPartition) {}); a.Code != wire.CodeNotReplica {
			t.Errorf("R19: no replica: %+v", a)
		}
		if a := answer(func(at *wire.FetchPartition) { at.LeaderEpoch = -1 }); a.Code != wire.CodeNotReplica {
			t.Errorf("%+v", a)
		}
	})
}

// H47: who was thrown out stays out until it has caught up, whoever restarts.
func TestH47_TheISRSurvivesRestarts(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		c.appendFirst("a")
		c.fail(3)
		c.broker(1).mustAppend(AcksAll, "a", 0, "m2")
		c.isr("a", 0, 1, 2)
		c.fail(1)
		c.leads(2, "a", 0)
		c.isr("a", 0, 2)
		c.broker(1).start()
		time.Sleep(2 * time.Second)
		c.isr("a", 0, 1, 2)
		c.broker(2).mustAppend(AcksAll, "a", 0, "m3")
		c.fail(2)
		c.fail(1)
		c.broker(3).start() // the only one, and it lacks records
		time.Sleep(2 * time.Second)
		if leader := c.meta("a", 0).Leader; leader != controller.NoLeader {
			t.Fatalf("broker %d was elected", leader)
		}
		c.broker(1).start()
		c.broker(2).start()
		time.Sleep(3 * time.Second)
		c.isr("a", 0, 1, 2, 3)
		c.same("a", 0, []string{"m1", "m2", "m3"}, 1, 2, 3)
	})
}

func TestF53_ATopicMadeAgainWhileABrokerWasDown(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		old := c.create("a", 2, []int32{1, 2, 3})
		c.appendFirst("a")
		c.broker(1).mustAppend(AcksAll, "a", 0, "old")
		c.fail(3)
		c.apply(&controller.DeleteTopic{ID: old.ID})
		c.settle()
		c.create("a", 2, []int32{1, 2, 3})
		c.broker(1).mustAppend(AcksAll, "a", 0, "new")
		c.broker(3).start()
		time.Sleep(2 * time.Second)
		c.same("a", 0, []string{"new"}, 1, 2, 3)
		c.isr("a", 0, 1, 2, 3)
	})
}

// A follower whose answers get through but whose requests don't (or the other way
// round) costs the ISR that follower, and nobody else.
func TestF38_LinksThatAreCutOneWay(t *testing.T) {
	for _, way := range [][2]int32{{3, 1}, {1, 3}} {
		inCluster(t, clusterOptions{lagMax: 2 * time.Second}, func(c *testCluster) {
			c.create("a", 2, []int32{1, 2, 3})
			c.appendFirst("a")
			c.link(way[0], way[1], false)
			for range 20 {
				c.broker(1).mustAppend(AcksAll, "a", 0, "x")
				time.Sleep(500 * time.Millisecond)
			}
			c.isr("a", 0, 1, 2)
			c.leads(1, "a", 0)
			c.link(way[0], way[1], true)
			time.Sleep(3 * time.Second)
			c.isr("a", 0, 1, 2, 3)
		})
	}
}
