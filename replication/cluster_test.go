package replication

import (
	"context"
	"errors"
	"testing"
	"time"

	"highwater/replication/controller"
)

// One of everything: a topic on three brokers, an append that all of them have when
// it is answered, and a follower that comes back.
func TestRecordsReachAllReplicasAndARestartedFollower(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		res := c.broker(1).mustAppend(AcksAll, "a", 0, "1", "2")
		if res.InSyncReplicas != 3 || res.BaseOffset != 0 || res.Durability != DurabilityFsynced {
			t.Errorf("%+v", res)
		}
		c.same("a", 0, []string{"1", "2"}, 1, 2, 3)
		time.Sleep(fetchWait)
		for _, m := range c.members {
			if hw := m.replica("a", 0).hw.Load(); hw != 2 {
				t.Errorf("broker %d: high watermark %d (R32)", m.id, hw)
			}
		}

		c.broker(3).stop()
		c.fence(3)
		c.broker(1).mustAppend(AcksAll, "a", 0, "3")
		if isr := c.meta("a", 0).ISR; len(isr) != 2 {
			t.Errorf("R69: ISR %v", isr)
		}
		c.broker(3).start()
		time.Sleep(2 * time.Second)
		if isr := c.meta("a", 0).ISR; len(isr) != 3 {
			t.Errorf("R42: ISR %v after the follower came back", isr)
		}
		c.same("a", 0, []string{"1", "2", "3"}, 1, 2, 3)
	})
}

// An append at acks=0 is written in the background. The followers get it though
// nothing else is appended, and stay in sync.
func TestAcks0ReachesTheFollowersByItself(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		c.appendFirst("a")
		time.Sleep(fetchWait)
		c.broker(1).mustAppend(AcksNone, "a", 0, "m2")
		time.Sleep(time.Minute)
		c.isr("a", 0, 1, 2, 3)
		if hw := c.broker(1).replica("a", 0).hw.Load(); hw != 2 {
			t.Errorf("high watermark %d", hw)
		}
		c.same("a", 0, []string{"m1", "m2"}, 1, 2, 3)
	})
}

// R74: nothing that a leader took before it hands over is left in doubt, and it
// takes nothing more.
func TestR74_AHandOverLeavesNothingInDoubt(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		c.create("alone", 1, []int32{1})
		for range 5 {
			c.broker(1).mustAppend(AcksLeader, "a", 0, "x")
		}
		held, resume := c.broker(1).HandOver(context.Background())
		if held != 1 {
			t.Errorf("%d partitions are held", held)
		}
		if res, err := c.broker(1).fetchLocal(context.Background(), FetchRequest{Topic: "a", MaxBytes: 1}); err != nil || !res.Stale {
			t.Errorf("a read while leadership moves: %+v, %v", res, err)
		}
		p := c.broker(1).replica("a", 0)
		if hw, end := p.hw.Load(), p.log.WrittenEnd(); hw != 5 || end != 5 {
			t.Errorf("high watermark %d, end %d", hw, end)
		}
		var not *NotLeaderError
		if res := c.broker(1).append(AcksAll, "a", 0, "y"); !errors.As(res.Err, &not) || res.Unknown {
			t.Errorf("an append while leadership moves: %+v", res)
		}
		c.broker(1).mustAppend(AcksAll, "alone", 0, "nobody else has it")
		resume()
		c.broker(1).mustAppend(AcksAll, "a", 0, "z")

		c.broker(1).HandOver(context.Background())
		b := c.truth.State().Brokers[1]
		c.apply(&controller.SetBroker{ID: 1, Epoch: b.Epoch, Draining: true})
		c.settle()
		if leader := c.meta("a", 0).Leader; leader != 2 {
			t.Fatalf("leader %d", leader)
		}
		if res := c.broker(2).mustAppend(AcksAll, "a", 0, "new"); res.BaseOffset != 6 {
			t.Errorf("%+v", res)
		}
		if res := c.broker(1).append(AcksAll, "a", 0, "y"); !errors.As(res.Err, &not) || not.Leader != 2 {
			t.Errorf("after the hand-over: %+v", res)
		}
		time.Sleep(time.Second)
		c.same("a", 0, []string{"x", "x", "x", "x", "x", "z", "new"}, 2, 1, 3)
	})
}

// An append that nobody waits for reaches the followers as soon as it is in the
// leader's file, not when their poll ends.
func TestAnAppendAtAcks0WakesTheFollowers(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		for range 5 {
			before := c.broker(2).replica("a", 0).log.WrittenEnd()
			if res := c.broker(1).append(AcksNone, "a", 0, "x"); res.Err != nil {
				t.Fatal(res.Err)
			}
			time.Sleep(fetchWait / 10)
			if end := c.broker(2).replica("a", 0).log.WrittenEnd(); end != before+1 {
				t.Fatalf("broker 2 ends at %d, before %d", end, before)
			}
		}
	})
}
