package replication

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"highwater/replication/controller"
	"highwater/storage"
)

// loadSeeds is how many histories are made; more of them find rarer things.
var loadSeeds = flag.Int("load-seeds", 2, "seeds of TestF10_F40")

// F10, F40: leaders go and come, cleanly or cut off, under a steady load at acks=-1
// from several producers who know only what they are told. What was acknowledged is
// there, once, where it was said to be (V1, V4, V5), what was refused is not (V2),
// and all replicas end equal (V23).
func TestF10_F40_RepeatedElectionsUnderLoad(t *testing.T) {
	for seed := range uint64(*loadSeeds) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			// Answers so small that a follower reads ahead whenever it misses two records.
			small := func(cfg *Config) { cfg.FetchPartitionBytes = 1 }
			inCluster(t, clusterOptions{lagMax: 2 * time.Second, config: small}, func(c *testCluster) { underLoad(c, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

// sent is one append of a producer.
type sent struct {
	value string
	res   AppendResult
}

// somethingGoesWrong, with the leader more often than not, and is over when it returns.
func (c *testCluster) somethingGoesWrong(r *rand.Rand) {
	id := int32(1 + r.IntN(3))
	if leader := c.meta("a", 0).Leader; leader != controller.NoLeader && r.IntN(3) > 0 {
		id = leader
	}
	switch r.IntN(5) {
	case 4: // ended and started again
		c.broker(id).stop()
		time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
		c.fence(id)
		time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
		c.broker(id).start()
	case 0: // a short cut that nobody notices
		c.links(id, false)
		time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
		c.links(id, true)
	case 1: // cut off from all, and replaced
		c.links(id, false)
		c.broker(id).isolate(true)
		time.Sleep(500 * time.Millisecond)
		c.fence(id)
		time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
		c.links(id, true)
		c.broker(id).isolate(false)
		c.unfence(id)
	case 2: // cut off from the controller alone
		c.broker(id).isolate(true)
		time.Sleep(time.Second)
		c.fence(id)
		time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
		c.broker(id).isolate(false)
		c.unfence(id)
	case 3: // deaf to metadata for a while
		c.broker(id).lag(true)
		time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
		c.broker(id).lag(false)
	}
}

func underLoad(c *testCluster, r *rand.Rand) {
	c.create("a", 2, []int32{1, 2, 3})
	c.appendFirst("a")
	ctx, cancel := context.WithCancel(context.Background())
	var producers sync.WaitGroup
	var mu sync.Mutex
	var all []sent
	for n := range 3 {
		producers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				value := fmt.Sprintf("p%d-%d", n, i)
				m := c.broker(int32(1 + n))
				if leader := c.meta("a", 0).Leader; leader != controller.NoLeader && i%3 > 0 {
					m = c.broker(leader)
				}
				m.mu.Lock()
				b := m.Broker
				m.mu.Unlock()
				op, stop := context.WithTimeout(context.Background(), 5*time.Second)
				res := b.appendLocal(op, AcksAll, []AppendRequest{{Topic: "a", Batches: []storage.Batch{batch(c.t, value)}}})[0]
				stop()
				mu.Lock()
				all = append(all, sent{value, res})
				mu.Unlock()
				time.Sleep(60 * time.Millisecond)
			}
		})
	}
	for range 25 {
		c.somethingGoesWrong(r)
		time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
	}
	cancel()
	producers.Wait()
	time.Sleep(10 * time.Second)
	c.isr("a", 0, 1, 2, 3)
	final := c.broker(c.meta("a", 0).Leader).contents("a", 0)
	c.same("a", 0, final, 1, 2, 3)
	checkHistory(c.t, all, final)
	var below, cuts float64
	for _, m := range c.members {
		below += figure(m.metrics.truncatedBelow)
		cuts += figure(m.metrics.truncations)
	}
	if below != 0 {
		c.t.Errorf("V25: %v truncations below the high watermark", below)
	}
	c.t.Logf("%d appends, %d records in the end, leader epoch %d, partition epoch %d, %v truncations", len(all), len(final), c.meta("a", 0).LeaderEpoch, c.meta("a", 0).PartitionEpoch, cuts)
}

func checkHistory(t *testing.T, all []sent, final []string) {
	ok, refused, unknown := 0, 0, 0
	for _, s := range all {
		at := slices.Index(final, s.value)
		switch {
		case s.res.Err == nil:
			ok++
			if int64(at) != s.res.BaseOffset {
				t.Errorf("V1, V5: %s was acknowledged at %d and is at %d", s.value, s.res.BaseOffset, at)
			}
		case s.res.Unknown:
			unknown++
		default:
			refused++
			if at >= 0 {
				t.Errorf("V2, V17: %s was refused (%v) and is at %d", s.value, s.res.Err, at)
			}
		}
	}
	sorted := slices.Sorted(slices.Values(final))
	if len(slices.Compact(slices.Clone(sorted))) != len(sorted) {
		t.Error("V4: a value is there twice")
	}
	t.Logf("%d acknowledged, %d refused, %d unknown", ok, refused, unknown)
	if ok == 0 || unknown == 0 || refused == 0 {
		t.Error("no evidence: each outcome was to be seen")
	}
}
