package replication

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"highwater/replication/wire"
)

// A follower that is far behind has the next records on their way while it writes
// those that came; what it acknowledges is on its disk all the same (R14).
func TestR14_AFollowerThatReadsAheadAcknowledgesWhatIsDurable(t *testing.T) {
	small := func(cfg *Config) { cfg.FetchPartitionBytes = 1 } // a batch an answer
	inCluster(t, clusterOptions{config: small}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		c.appendFirst("a")
		c.fail(3)
		var want []string
		for i := range 20 {
			want = append(want, fmt.Sprint("missed", i))
			c.broker(1).mustAppend(AcksAll, "a", 0, want[i])
		}
		var mu sync.Mutex // guards what is counted
		ahead, most := 0, int64(0)
		c.mu.Lock()
		c.answered = func(from, _ int32, req *wire.FetchRequest, _ *wire.FetchResponse) {
			if from != 3 {
				return
			}
			durable := c.broker(3).replica("a", 0).log.DurableEnd()
			mu.Lock()
			defer mu.Unlock()
			for i := range req.Partitions {
				at := &req.Partitions[i]
				if at.Offset > durable {
					t.Errorf("offset %d was acknowledged with %d on the disk", at.Offset, durable)
				}
				if at.ReadFrom() > at.Offset {
					ahead, most = ahead+1, max(most, at.ReadFrom()-at.Offset)
				}
			}
		}
		c.mu.Unlock()
		c.broker(3).start()
		c.unfence(3)
		time.Sleep(2 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if ahead < len(want)/2 || most > 2 {
			t.Errorf("%d requests read ahead, by up to %d records", ahead, most)
		}
		c.same("a", 0, append([]string{"m1"}, want...), 1, 2, 3)
		c.isr("a", 0, 1, 2, 3)
	})
}
