package replication

import (
	"testing"
	"time"
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
