package replication

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"highwater/replication/controller"
	"highwater/storage"
)

// F56, I4, D5: a retry after a timeout, at the same leader, is told of the original
// only once that is committed, and nothing is appended.
func TestF56_ARetryIsToldOfTheOriginalOnceThatIsCommitted(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.windowed(all)
		c.isNew("the first", c.broker(1).send(time.Second, AcksAll, 0, nil, "a=1"), 0)
		c.links(2, false)
		c.links(3, false)
		for range 2 { // the original, and a retry: nobody else has it yet
			if res := c.broker(1).send(time.Second, AcksAll, 0, nil, "b=1"); !errors.Is(res.Err, ErrTimeout) || !res.Unknown {
				t.Errorf("not committed: %+v", res)
			}
		}
		// At acks=1 it is enough that it is written; that of acks=0 tells nothing.
		c.duplicates("acks=1", c.broker(1).send(time.Second, AcksLeader, 0, nil, "b=1"), 1)
		if res := c.broker(1).send(time.Second, AcksNone, 0, nil, "b=1"); res.Err != nil || res.BaseOffset != -1 || res.Duplicate != nil {
			t.Errorf("acks=0: %+v", res)
		}
		waiting := c.broker(1).sendSoon(time.Minute, AcksAll, "b=1")
		mixed := c.broker(1).sendSoon(time.Minute, AcksAll, "a=1", "c=1", "b=1", "c=1")
		time.Sleep(time.Second)
		if len(waiting)+len(mixed) > 0 {
			t.Error("answered before the original was committed")
		}
		c.links(2, true)
		c.links(3, true)
		c.duplicates("the retry", <-waiting, 1)
		if res := <-mixed; res.Err != nil || fmt.Sprint(res.Offsets, res.Duplicate, res.BaseOffset, res.LastOffset) != "[0 2 1 2] [true false true true] 2 2" {
			t.Errorf("old and new: %+v", res)
		}
		time.Sleep(time.Second)
		c.same("t", 0, []string{"1", "1", "1"}, 1, 2, 3)
		c.remembered(1, 2, 3)
	})
}

// F57, D6: the retry comes to the next leader, which has the original, or not.
func TestF57_ARetryToTheNextLeader(t *testing.T) {
	t.Run("replicated", func(t *testing.T) {
		inCluster(t, clusterOptions{}, func(c *testCluster) {
			c.windowed(all)
			c.isNew("first", c.broker(1).send(time.Second, AcksAll, 0, nil, "a=1", "b=1"), 0)
			c.fail(1)
			c.duplicates("retry", c.broker(2).send(time.Second, AcksAll, 0, nil, "b=1", "a=1"), 1, 0)
			c.broker(1).start()
			time.Sleep(2 * time.Second)
			c.same("t", 0, []string{"1", "1"}, 1, 2, 3)
			c.remembered(1, 2, 3)
		})
	})
	t.Run("not replicated, truncated, and the old leader leads again", func(t *testing.T) {
		inCluster(t, clusterOptions{}, func(c *testCluster) {
			topic := c.windowed(all)
			c.isNew("first", c.broker(1).send(time.Second, AcksAll, 0, nil, "first=1"), 0)
			time.Sleep(time.Second)
			c.links(1, false)
			original := c.broker(1).sendSoon(time.Minute, AcksAll, "a=1")
			retry := c.broker(1).sendSoon(time.Minute, AcksAll, "a=1") // attached to it
			c.settle()
			c.broker(1).isolate(true)
			c.fence(1)
			time.Sleep(time.Second)
			c.isNew("other", c.broker(2).send(time.Second, AcksAll, 0, nil, "x=1"), 1)
			c.isNew("retry", c.broker(2).send(time.Second, AcksAll, 0, nil, "a=1"), 2)
			c.broker(1).isolate(false)
			c.unfence(1)
			c.links(1, true)
			time.Sleep(2 * time.Second)
			for what, res := range map[string]AppendResult{"original": <-original, "attached": <-retry} {
				if res.Err == nil {
					t.Errorf("%s: %+v of a record that is nowhere", what, res)
				}
			}
			c.same("t", 0, []string{"1", "1", "1"}, 1, 2, 3)
			c.remembered(1, 2, 3)
			c.elect(topic, 1)
			c.duplicates("at the first leader", c.broker(1).send(time.Second, AcksAll, 0, nil, "a=1"), 2)
		})
	})
	t.Run("replicated, then truncated", func(t *testing.T) {
		inCluster(t, clusterOptions{lagMax: time.Second}, func(c *testCluster) {
			c.createWith(controller.CreateTopic{Name: "t", MinInSync: 1, Replicas: [][]int32{all}, Configs: map[string]string{controller.ConfigUncleanElection: "true"}})
			c.isNew("first", c.broker(1).send(time.Second, AcksAll, 0, nil, "first=1"), 0)
			time.Sleep(time.Second)
			c.links(3, false)
			time.Sleep(3 * time.Second)
			c.isr("t", 0, 1, 2)
			c.isNew("original", c.broker(1).send(time.Second, AcksAll, 0, nil, "a=1"), 1) // at 1 and 2
			c.fail(1)
			c.fail(2) // 3 leads, uncleanly
			c.leads(3, "t", 0)
			c.links(3, true)
			c.isNew("retry", c.broker(3).send(time.Second, AcksAll, 0, nil, "b=1", "a=1"), 1)
			c.broker(1).start()
			c.broker(2).start()
			time.Sleep(3 * time.Second)
			c.same("t", 0, []string{"1", "1", "1"}, 3, 1, 2)
			c.remembered(1, 2, 3)
			c.fail(3)
			leader := c.broker(c.meta("t", 0).Leader)
			c.duplicates("again", leader.send(time.Second, AcksAll, 0, nil, "a=1", "b=1"), 2, 1)
		})
	})
}

// F58, I3, I7: a producer's state goes with the log. What is not the next batch of a
// producer is never appended.
func TestF58_ProducersAcrossFailoversAndExpiry(t *testing.T) {
	var ahead time.Duration
	clock := func(int32) time.Time { return time.Now().Add(ahead) }
	inCluster(t, clusterOptions{clock: clock}, func(c *testCluster) {
		c.windowed(all)
		send := func(pid int64, seq int32) AppendResult {
			return c.broker(c.meta("t", 0).Leader).send(time.Second, AcksAll, 0, &storage.Producer{ID: pid, BaseSequence: seq}, fmt.Sprint(seq))
		}
		for seq := range int32(6) {
			c.isNew("in order", send(7, seq), int64(seq))
		}
		c.fail(1)
		c.duplicates("after a failover", send(7, 5), 5)
		c.duplicates("the oldest of five", send(7, 1), 1)
		c.duplicates("older than five", send(7, 0), -1)
		gap := (*storage.SequenceGapError)(nil)
		if res := send(7, 7); !errors.As(res.Err, &gap) || res.Unknown || gap.Expected != 6 {
			t.Errorf("gap: %+v", res)
		}
		if res := send(8, 1); !errors.As(res.Err, new(*storage.UnknownProducerError)) || res.Unknown {
			t.Errorf("nobody's second batch: %+v", res)
		}
		c.broker(1).start()
		time.Sleep(2 * time.Second)
		c.remembered(1, 2, 3)
		ahead = storage.DefaultProducerAge + time.Minute
		c.duplicates("nothing was written for a day", send(7, 5), 5) // by the log's time
		c.isNew("another's", send(9, 0), 6)
		if res := send(7, 6); !errors.As(res.Err, new(*storage.UnknownProducerError)) || res.Unknown {
			t.Errorf("after a day: %+v", res)
		}
		time.Sleep(time.Second)
		c.same("t", 0, []string{"0", "1", "2", "3", "4", "5", "0"}, 1, 2, 3)
		c.remembered(1, 2, 3)
	})
}

// F59, D2, D3: clocks an hour apart. What a window covers follows from the log, and so
// every leader says the same.
func TestF59_TheWindowIsTheLogs(t *testing.T) {
	apart := map[int32]time.Duration{1: time.Hour, 2: 0, 3: -time.Hour}
	clock := func(id int32) time.Time { return time.Now().Add(apart[id]) }
	inCluster(t, clusterOptions{clock: clock}, func(c *testCluster) {
		topic := c.windowed(all, controller.ConfigDedupeWindowMs, "1800000")
		c.isNew("first", c.broker(3).sendVia(c.broker(1), "a=1"), 0) // a gate two hours behind its leader
		time.Sleep(time.Second)
		for _, leader := range []int32{2, 3, 1} {
			c.elect(topic, leader)
			c.duplicates(fmt.Sprintf("leader %d", leader), c.broker(leader).send(time.Second, AcksAll, 0, nil, "a=1"), 0)
		}
		// The first leader's time counts until others' have come to it.
		c.elect(topic, 3)
		c.isNew("two hours behind", c.broker(3).send(time.Second, AcksAll, 0, nil, "b=1"), 1)
		time.Sleep(40 * time.Minute)
		c.duplicates("nothing has come to the log's time", c.broker(3).send(time.Second, AcksAll, 0, nil, "b=1"), 1)
		c.elect(topic, 1)
		c.isNew("it goes on", c.broker(1).send(time.Second, AcksAll, 0, nil, "c=1"), 2)
		for i, leader := range []int32{1, 2, 3} {
			c.elect(topic, leader)
			id := "a=1"
			res := c.broker(leader).send(time.Second, AcksAll, 0, nil, id)
			if i == 0 {
				c.isNew("the window is over", res, 3)
			} else {
				c.duplicates("its second life", res, 3)
			}
			time.Sleep(time.Second)
			c.remembered(1, 2, 3)
		}
	})
}

// sendVia is a batch made at one broker, by its clock, and appended at another.
func (m *member) sendVia(leader *member, messages ...string) AppendResult {
	m.c.t.Helper()
	return leader.appendLocal(m.c.t.Context(), AcksAll, []AppendRequest{{Topic: "t", Batches: []storage.Batch{marked(m.c.t, m.now(), nil, messages...)}}})[0]
}
