package replication

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"highwater/replication/controller"
	"highwater/replication/wire"
)

// onProposal sets what becomes of proposals of ISRs.
func (c *testCluster) onProposal(f func(from int32, changes []wire.AlterPartition) ([]wire.AlterResult, error, bool)) {
	c.mu.Lock()
	c.proposals = f
	c.mu.Unlock()
}

// committed has the state machine take a leader's proposal.
func (c *testCluster) committed(from int32, changes []wire.AlterPartition) []wire.AlterResult {
	c.t.Helper()
	results, ok := c.apply(&controller.AlterPartitions{Broker: from, Epoch: c.broker(from).epoch, Changes: changes}).([]wire.AlterResult)
	if !ok {
		c.t.Error("the proposal was refused")
	}
	return results
}

var errLost = errors.New("the answer was lost")

func maximal(c *testCluster, id int32) []int32 {
	return slices.Sorted(slices.Values(c.broker(id).replica("a", 0).debug().MaximalISR))
}

// R26, R45: from the moment of sending on, whoever may be in the ISR counts, also
// when nobody knows what became of the proposal.
func TestF12_F13_AnExpansionWhoseAnswerIsLost(t *testing.T) {
	for _, commits := range []bool{true, false} {
		inCluster(t, clusterOptions{lagMax: 5 * time.Second}, func(c *testCluster) {
			c.create("a", 2, []int32{1, 2, 3})
			c.appendFirst("a")
			c.fail(3)
			c.broker(1).mustAppend(AcksAll, "a", 0, "m2")
			var proposed atomic.Int32
			c.onProposal(func(from int32, changes []wire.AlterPartition) ([]wire.AlterResult, error, bool) {
				c.broker(1).lag(true) // nor does metadata come
				if n := proposed.Add(1); commits && n == 1 {
					c.committed(from, changes)
				}
				return nil, errLost, true
			})
			c.broker(3).start()
			time.Sleep(2 * time.Second)
			if n := proposed.Load(); n < 2 {
				t.Errorf("R45: sent %d times", n)
			}
			if got := maximal(c, 1); !slices.Equal(got, []int32{1, 2, 3}) {
				t.Errorf("R26: maximal ISR %v", got)
			}
			// Whoever is elected holds what is acknowledged now: it isn't, without it.
			c.links(3, false)
			waiting := c.broker(1).appendSoon(AcksAll, "a", 0, "m3")
			time.Sleep(time.Second)
			if len(waiting) != 0 {
				t.Errorf("F12: acknowledged without a replica that may be in sync: %+v", <-waiting)
			}
			c.links(3, true)
			c.onProposal(nil)
			c.broker(1).lag(false)
			time.Sleep(2 * time.Second)
			if res := <-waiting; res.Err != nil {
				t.Errorf("%+v", res)
			}
			c.isr("a", 0, 1, 2, 3)
			if d := c.broker(1).replica("a", 0).debug(); !slices.Equal(maximal(c, 1), []int32{1, 2, 3}) || d.PartitionEpoch != c.meta("a", 0).PartitionEpoch {
				t.Errorf("V20: in the end %+v", d)
			}
		})
	}
}

// A shrink that nobody knows the outcome of shrinks nothing (R26).
func TestF13_AShrinkWhoseAnswerIsLost(t *testing.T) {
	inCluster(t, clusterOptions{lagMax: 2 * time.Second}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		c.appendFirst("a")
		c.onProposal(func(int32, []wire.AlterPartition) ([]wire.AlterResult, error, bool) { return nil, errLost, true })
		c.links(3, false)
		waiting := c.broker(1).appendSoon(AcksAll, "a", 0, "m2")
		time.Sleep(6 * time.Second)
		if len(waiting) != 0 || !slices.Equal(maximal(c, 1), []int32{1, 2, 3}) {
			t.Errorf("F13: %d answers, maximal ISR %v", len(waiting), maximal(c, 1))
		}
		c.onProposal(nil)
		time.Sleep(2 * time.Second)
		if res := <-waiting; res.Err != nil || res.InSyncReplicas != 2 {
			t.Errorf("%+v", res)
		}
		c.isr("a", 0, 1, 2)
	})
}

// A follower that the controller refuses is proposed again, but not without end.
func TestF14_ARefusedFollower(t *testing.T) {
	inCluster(t, clusterOptions{lagMax: 5 * time.Second}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		c.appendFirst("a")
		c.fail(3)
		var asked atomic.Int32
		c.onProposal(func(_ int32, changes []wire.AlterPartition) ([]wire.AlterResult, error, bool) {
			asked.Add(1)
			if len(changes[0].ISR) == 2 { // the same ISR: a withdrawal
				return nil, nil, false
			}
			return []wire.AlterResult{{Code: wire.CodeIneligibleReplica}}, nil, true
		})
		c.broker(3).start()
		time.Sleep(30 * time.Second)
		if n := asked.Load(); n < 2 || n > 2*30*int32(time.Second/isrPause) {
			t.Errorf("%d proposals in 30 s", n)
		}
		c.isr("a", 0, 1, 2)
		c.broker(1).mustAppend(AcksAll, "a", 0, "m2")
		c.onProposal(nil)
		time.Sleep(2 * time.Second)
		c.isr("a", 0, 1, 2, 3)
	})
}

// Several brokers' leaders and partitions: one proposal takes all that are due.
func TestR43_ProposalsAreBatched(t *testing.T) {
	inCluster(t, clusterOptions{lagMax: 2 * time.Second}, func(c *testCluster) {
		replicas := make([][]int32, 50)
		for i := range replicas {
			replicas[i] = []int32{1, 2, 3}
		}
		c.create("a", 2, replicas...)
		for i := range replicas {
			c.broker(1).mustAppend(AcksLeader, "a", int32(i), "x")
		}
		time.Sleep(time.Second)
		sizes := []int{}
		c.onProposal(func(_ int32, changes []wire.AlterPartition) ([]wire.AlterResult, error, bool) {
			sizes = append(sizes, len(changes))
			return nil, nil, false
		})
		c.links(3, false)
		time.Sleep(5 * time.Second)
		c.links(3, true)
		time.Sleep(5 * time.Second)
		c.onProposal(nil)
		total := 0
		for _, n := range sizes {
			total += n
		}
		if total != 100 || len(sizes) > 10 {
			t.Errorf("proposals of %v partitions", sizes)
		}
		for i := range replicas {
			c.isr("a", int32(i), 1, 2, 3)
		}
	})
}
