package replication

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"highwater/replication/controller"
)

// R82, R83: a partition moves from broker to broker under load; whoever leaves
// deletes its copy, whoever comes back begins anew (F16).
func TestR82_R83_F16_APartitionMoves(t *testing.T) {
	inCluster(t, clusterOptions{brokers: 4, lagMax: 3 * time.Second}, func(c *testCluster) {
		topic := c.create("a", 2, []int32{1, 2, 3})
		want := []string{}
		add := func() {
			t.Helper()
			value := fmt.Sprint("value ", len(want))
			want = append(want, value)
			leader := func() *member { return c.broker(c.meta("a", 0).Leader) }
			for {
				res := leader().append(AcksAll, "a", 0, value)
				if res.Err == nil {
					return
				}
				if !res.Unknown {
					c.must(res.Err)
				}
				// The move took the leader's replica away before its answer. The next one's log tells.
				time.Sleep(time.Second)
				if slices.Contains(leader().contents("a", 0), value) {
					return
				}
			}
		}
		for _, replicas := range [][]int32{{1, 2, 4}, {1, 2, 3}, {4, 2, 3}, {1, 3, 4}, {1, 2, 3}} {
			add()
			c.apply(&controller.Reassign{Items: []controller.Reassignment{{Topic: topic.ID, Replicas: replicas}}})
			for range 5 {
				add()
				time.Sleep(500 * time.Millisecond)
			}
			c.isr("a", 0, slices.Sorted(slices.Values(replicas))...)
			if got := slices.Sorted(slices.Values(c.meta("a", 0).Replicas)); !slices.Equal(got, slices.Sorted(slices.Values(replicas))) {
				t.Fatalf("replicas %v", c.meta("a", 0))
			}
			c.same("a", 0, want, replicas...)
			for _, m := range c.members {
				logs, err := m.store.LogsOnDisk()
				c.must(err)
				if slices.Contains(replicas, m.id) != (len(logs) == 1) {
					t.Errorf("V33: broker %d holds %v", m.id, logs)
				}
			}
			var not *NotLeaderError
			for _, m := range c.members {
				if m.id == c.meta("a", 0).Leader {
					continue
				}
				if res := m.append(AcksLeader, "a", 0, "x"); !errors.As(res.Err, &not) || res.Unknown || not.Leader != c.meta("a", 0).Leader {
					t.Errorf("broker %d: %+v", m.id, res)
				}
			}
		}
		c.broker(4).stop()
		c.broker(4).start()
		add()
	})
}
