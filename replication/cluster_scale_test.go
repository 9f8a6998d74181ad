package replication

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"highwater/replication/controller"
	"highwater/replication/wire"
)

// What a request says grows with what has changed, not with the number of
// partitions (P16); a new partition is told at once; a failover of all of them is.
func TestRequestsSayWhatChangedOnly(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		const topics = 100
		named, requests, full := 0, 0, 0
		c.mu.Lock()
		c.answered = func(_, _ int32, req *wire.FetchRequest, _ *wire.FetchResponse) {
			c.mu.Lock()
			defer c.mu.Unlock()
			named += len(req.Partitions)
			requests++
			if req.Full {
				full++
			}
		}
		c.mu.Unlock()
		count := func() (n, r, f int) {
			c.mu.Lock()
			defer c.mu.Unlock()
			n, r, f, named, requests, full = named, requests, full, 0, 0, 0
			return n, r, f
		}
		for i := range topics {
			c.apply(&controller.CreateTopic{Name: fmt.Sprint("t", i), ID: uuid.New(), Replicas: [][]int32{{1, 2, 3}}, MinInSync: 2})
			if i%10 == 0 {
				time.Sleep(100 * time.Millisecond)
			}
		}
		time.Sleep(5 * time.Second) // a follower that came before its leader knew asks again by itself
		if n, _, f := count(); n > 5*2*topics || f > topics/10 {
			t.Errorf("%d topics made: %d partitions named, %d full requests", topics, n, f)
		}
		time.Sleep(10 * time.Second)
		if n, r, f := count(); n != 0 || f != 0 || r > 2*20+2 {
			t.Errorf("idle for 10 s: %d requests, %d of them full, %d partitions named", r, f, n)
		}
		for i := range topics {
			c.broker(1).mustAppend(AcksAll, fmt.Sprint("t", i), 0, "x")
		}
		if n, _, f := count(); n > 2*2*topics || f != 0 {
			t.Errorf("an append to each: %d partitions named, %d full requests", n, f)
		}
		time.Sleep(time.Second)
		for _, m := range c.members {
			for i := range topics {
				if hw := m.replica(fmt.Sprint("t", i), 0).hw.Load(); hw != 1 {
					t.Fatalf("broker %d, topic %d: high watermark %d", m.id, i, hw)
				}
			}
		}
		count()
		c.fence(1)
		time.Sleep(300 * time.Millisecond)
		for i := range topics {
			if res := c.broker(2).append(AcksAll, fmt.Sprint("t", i), 0, "y"); res.Err != nil {
				t.Fatalf("topic %d after the failover: %v", i, res.Err)
			}
		}
		c.unfence(1)
		time.Sleep(2 * time.Second)
		for i := range topics {
			c.isr(fmt.Sprint("t", i), 0, 1, 2, 3)
		}
		if n, _, f := count(); n > 8*2*topics || f > 4 {
			t.Errorf("a failover: %d partitions named, %d full requests", n, f)
		}
	})
}
