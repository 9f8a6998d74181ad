package replication

import (
	"sync/atomic"
	"testing"
	"time"

	"highwater/replication/controller"
)

// F31: the brokers' wall clocks are hours apart and jump while they run. Nothing
// that decides who leads, who is in sync and who is heard goes by them: no session
// ends, nobody leaves the ISR, no leader is doubted. Append times, by which
// retention goes, never go back in a log, whoever leads it (D3).
func TestF31_ClocksApartAndJumping(t *testing.T) {
	var offsets [4]atomic.Int64 // by broker
	set := func(one, two, three time.Duration) {
		for i, d := range []time.Duration{one, two, three} {
			offsets[i+1].Store(int64(d))
		}
	}
	set(time.Hour, -time.Hour, 0)
	clock := func(id int32) time.Time { return time.Now().Add(time.Duration(offsets[id].Load())) }
	inCluster(t, clusterOptions{lagMax: 3 * time.Second, clock: clock}, func(c *testCluster) {
		topic := c.createWith(controller.CreateTopic{Name: "a", MinInSync: 2, Replicas: [][]int32{{1, 2, 3}}, Configs: map[string]string{
			controller.ConfigTimestampType: "LogAppendTime"}})
		var want []string
		var last int64
		write := func(id int32, value string) {
			res := c.broker(id).mustAppend(AcksAll, "a", 0, value)
			if res.InSyncReplicas != 3 {
				t.Errorf("%s: %d in sync", value, res.InSyncReplicas)
			}
			if res.AppendTime < last {
				t.Errorf("%s: append time went back by %d ms", value, last-res.AppendTime)
			}
			last, want = res.AppendTime, append(want, value)
		}
		write(1, "an hour ahead")
		set(-time.Hour, time.Hour, 48*time.Hour)
		time.Sleep(10 * time.Second) // more than the lag limit
		write(1, "after a jump of two hours back")
		if m := c.meta("a", 0); m.LeaderEpoch != 0 || m.PartitionEpoch != 0 {
			t.Errorf("clocks changed the partition: %+v", m)
		}
		set(-time.Hour, -3*time.Hour, 0)
		c.apply(&controller.ElectLeader{Topic: topic.ID, Broker: 2})
		c.settle()
		time.Sleep(time.Second)
		c.leads(2, "a", 0)
		write(2, "by a leader whose clock is behind")
		time.Sleep(10 * time.Second)
		c.isr("a", 0, 1, 2, 3)
		c.same("a", 0, want, 1, 2, 3)
	})
}
