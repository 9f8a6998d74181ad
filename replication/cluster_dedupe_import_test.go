package replication

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"highwater/replication/controller"
	"highwater/storage"
)

// D11, F65: retention takes records inside the window, then the leader fails. Their ids
// stay taken, also with a replica that came only afterwards.
func TestF65_D11_RetentionInsideTheWindowThenFailover(t *testing.T) {
	inCluster(t, clusterOptions{brokers: 4}, func(c *testCluster) {
		topic := c.windowed(all)
		for i := range 6 {
			c.isNew("first", c.broker(1).send(time.Second, AcksAll, 0, nil, fmt.Sprintf("id%d=%d", i, i)), int64(i))
		}
		c.isNew("a producer's", c.broker(1).send(time.Second, AcksAll, 0, &storage.Producer{ID: 5}, "six"), 6)
		c.broker(1).delete("t", 4)
		c.fail(1)
		c.duplicates("after a failover", c.broker(2).send(time.Second, AcksAll, 0, nil, "id1=1", "id5=5"), 1, 5)

		// Broker 4 has seen nothing of what is gone.
		c.broker(2).delete("t", 7)
		c.apply(&controller.Reassign{Items: []controller.Reassignment{{Topic: topic.ID, Replicas: []int32{2, 3, 4}}}})
		time.Sleep(5 * time.Second)
		c.isr("t", 0, 2, 3, 4)
		c.elect(topic, 4)
		leader := c.broker(4)
		c.duplicates("at a follower from scratch", leader.send(time.Second, AcksAll, 0, nil, "id3=3", "id4=4"), 3, 4)
		c.duplicates("a producer's", leader.send(time.Second, AcksAll, 0, &storage.Producer{ID: 5}, "six"), 6)
		if res := leader.send(time.Second, AcksAll, 0, nil, "id2=other"); !errors.As(res.Err, new(*storage.MessageReusedError)) || res.Unknown {
			t.Errorf("another message: %+v", res)
		}
		gone := (*UnknownMessageError)(nil)
		if m, err := leader.FindMessage(context.Background(), "t", "id2"); !errors.As(err, &gone) || gone.Offset != 2 || gone.Partition != 0 {
			t.Errorf("the record is gone: %+v, %v", m, err)
		}
		c.isNew("something new", leader.send(time.Second, AcksAll, 0, nil, "new=1"), 7)
		time.Sleep(time.Second)
		c.remembered(2, 3, 4)
		c.fail(4)
		c.broker(4).start()
		time.Sleep(2 * time.Second)
		c.remembered(2, 3, 4) // what was imported is on its disk
	})
}

// A log start within a batch: what came before it was imported, and is still known when
// the log was begun anew at the batch's beginning.
func TestD11_AFollowerThatBeginsWithinABatch(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.windowed(all)
		time.Sleep(time.Second)
		c.fail(3)
		c.isNew("first", c.broker(1).send(time.Second, AcksAll, 0, nil, "a=1", "b=1"), 0)
		c.isNew("second", c.broker(1).send(time.Second, AcksAll, 0, nil, "c=1", "d=1", "e=1"), 2)
		c.broker(1).delete("t", 3)
		c.broker(3).start()
		time.Sleep(3 * time.Second)
		c.isr("t", 0, 1, 2, 3)
		c.remembered(1, 2, 3)
		c.fail(1)
		c.fail(2)
		for _, m := range c.members[:2] {
			m.start()
		}
		time.Sleep(time.Second)
		c.duplicates("all of them", c.broker(3).send(time.Second, AcksAll, 0, nil, "a=1", "b=1", "c=1", "d=1", "e=1"), 0, 1, 2, 3, 4)
	})
}

// Compaction takes records inside the window; a follower from scratch imports their ids.
func TestD11_AFollowerOfACompactedLog(t *testing.T) {
	inCluster(t, clusterOptions{brokers: 4}, func(c *testCluster) {
		topic := c.windowed(all, controller.ConfigCleanupPolicy, "compact", controller.ConfigMinDirtyRatio, "0", controller.ConfigSegmentBytes, "1024")
		leader := c.broker(1)
		put := func(i int) AppendResult {
			at := leader.now()
			b := storage.BatchBuilder{AppendTime: at.UnixMilli()}
			b.Append(&storage.Record{Timestamp: at.UnixMilli(), Key: []byte("key"), Value: []byte(strings.Repeat("x", 200)),
				Headers: []storage.Header{{Key: []byte(storage.MessageIDHeader), Value: []byte(fmt.Sprint("id", i))}}})
			sealed, err := b.Seal(storage.CompressionNone, nil)
			c.must(err)
			return leader.appendLocal(context.Background(), AcksAll, []AppendRequest{{Topic: "t", Batches: []storage.Batch{sealed}}})[0]
		}
		for i := range 30 {
			c.must(put(i).Err)
		}
		time.Sleep(3 * defaultCompactionInterval)
		if _, count, _ := leader.table("t"); count >= 30 {
			t.Fatalf("%d records: nothing was compacted", count)
		}
		c.apply(&controller.Reassign{Items: []controller.Reassignment{{Topic: topic.ID, Replicas: []int32{2, 3, 4}}}})
		time.Sleep(5 * time.Second)
		c.isr("t", 0, 2, 3, 4)
		c.elect(topic, 4)
		leader = c.broker(4)
		for i := range 30 {
			c.duplicates(fmt.Sprint("id ", i), put(i), int64(i))
		}
		c.remembered(2, 3, 4)
		c.fail(4)
		c.broker(4).start()
		time.Sleep(2 * time.Second)
		c.remembered(2, 3, 4)
	})
}

// While the leader can't tell, the follower takes nothing over and isn't in sync.
func TestD11_NobodyIsInSyncWithoutTheImport(t *testing.T) {
	var refuse atomic.Bool
	refuse.Store(true)
	inCluster(t, clusterOptions{config: func(cfg *Config) {
		cfg.Peers = refusingDedupe{cfg.Peers, &refuse}
	}}, func(c *testCluster) {
		topic := c.windowed([]int32{1, 2})
		c.isNew("first", c.broker(1).send(time.Second, AcksAll, 0, nil, "a=1"), 0)
		c.broker(1).delete("t", 1)
		c.isNew("second", c.broker(1).send(time.Second, AcksAll, 0, nil, "b=1"), 1)
		c.apply(&controller.Reassign{Items: []controller.Reassignment{{Topic: topic.ID, Replicas: []int32{1, 3}}}})
		time.Sleep(10 * time.Second)
		c.isr("t", 0, 1, 2)
		if got := c.broker(3).contents("t", 0); len(got) > 0 {
			t.Errorf("it holds %q", got)
		}
		refuse.Store(false)
		time.Sleep(5 * time.Second)
		c.isr("t", 0, 1, 3)
		c.remembered(1, 3)
	})
}

// A follower whose index was lost has forgotten the ids of records that are gone, though
// its log is all there: it asks the leader before it may be in sync again.
func TestD11_AFollowerWhoseIndexWasLost(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		topic := c.windowed(all, controller.ConfigSegmentBytes, "1024") // a record in each
		value := strings.Repeat("x", 600)
		for i := range 4 {
			c.isNew("first", c.broker(1).send(time.Second, AcksAll, 0, nil, fmt.Sprintf("id%d=%s", i, value)), int64(i))
		}
		c.broker(1).delete("t", 2)
		time.Sleep(time.Second)
		c.fail(3)
		c.must(os.Remove(filepath.Join(c.broker(3).dir, "index.db")))
		c.broker(3).start()
		time.Sleep(5 * time.Second)
		c.isr("t", 0, 1, 2, 3)
		c.remembered(1, 2, 3)
		c.elect(topic, 3)
		c.duplicates("at the one that lost its index", c.broker(3).send(time.Second, AcksAll, 0, nil, "id0="+value, "id1="+value, "id3="+value), 0, 1, 3)
		c.isNew("something new", c.broker(3).send(time.Second, AcksAll, 0, nil, "new=1"), 4)
		c.fail(3)
		c.broker(3).start()
		time.Sleep(5 * time.Second)
		c.remembered(1, 2, 3)
	})
}
