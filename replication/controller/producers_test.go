package controller

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// I1: ids that brokers give out side by side, by way of leaders that die and answers
// that are lost, are all different, and every broker then knows that they were given.
func TestI1_ProducersOfACluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tc := startCluster(t, 3)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		var mu sync.Mutex // guards the fields below
		given, last := map[int64]int32{}, int16(-1)
		take := func(by int32, c *Controller, name string) {
			pid, epoch, err := c.InitProducer(ctx, name)
			if err != nil {
				t.Errorf("broker %d: %v", by, err)
				return
			}
			if !c.State().ProducerGiven(pid, epoch) {
				t.Errorf("broker %d gave out producer %d and doesn't know it", by, pid)
			}
			mu.Lock()
			defer mu.Unlock()
			if was, ok := given[pid]; ok && name == "" {
				t.Errorf("I1: producer %d was given out by broker %d and by %d", pid, was, by)
			}
			if name == "" {
				given[pid] = by
			} else {
				last = max(last, epoch)
			}
		}
		round := func(n int) {
			var all sync.WaitGroup
			for _, node := range tc.alive() {
				c := node.c
				for i := range n {
					all.Go(func() { take(node.id, c, "") })
					if i%20 == 0 {
						all.Go(func() { take(node.id, c, "tx") })
					}
				}
			}
			all.Wait()
		}
		round(3)
		leader, others := tc.followers()
		for _, node := range others { // what they are answered is lost for a while
			tc.net.deafen(node.url, true)
		}
		go func() {
			time.Sleep(time.Second)
			for _, node := range others {
				tc.net.deafen(node.url, false)
			}
		}()
		round(3)
		tc.kill(leader.id)
		round(producerBlock / 2)
		if err := tc.up(leader.id); err != nil {
			t.Fatal(err)
		}
		round(1)
		tc.sameState()
		for pid := range given {
			for _, node := range tc.alive() {
				if ok, err := node.c.ProducerGiven(ctx, pid, 0); err != nil || !ok {
					t.Fatalf("broker %d: producer %d was given out: %v, %v", node.id, pid, ok, err)
				}
			}
		}
		if len(given) < producerBlock || last < 50 {
			t.Errorf("%d ids, epoch %d: this is no evidence", len(given), last)
		}
	})
}

// A broker that is behind asks before it says that nobody has a producer id; one that
// can't ask says that.
func TestProducersOfABrokerThatIsBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tc := startCluster(t, 3)
		leader, others := tc.followers()
		pid, epoch, err := others[0].c.InitProducer(context.Background(), "tx")
		if err != nil {
			t.Fatal(err)
		}
		for _, node := range tc.alive() { // at once: some don't know it yet
			if ok, err := node.c.ProducerGiven(context.Background(), pid, epoch); err != nil || !ok {
				t.Errorf("broker %d: %v, %v", node.id, ok, err)
			}
			if ok, err := node.c.ProducerGiven(context.Background(), pid, epoch+1); err != nil || ok {
				t.Errorf("broker %d knows an epoch that nobody got: %v, %v", node.id, ok, err)
			}
			if ok, err := node.c.ProducerGiven(context.Background(), pid+producerBlock, 0); err != nil || ok {
				t.Errorf("broker %d knows a producer that nobody got: %v, %v", node.id, ok, err)
			}
		}
		tc.net.isolate(others[1].url)
		if ok, err := others[1].c.ProducerGiven(context.Background(), pid, epoch+1); !errors.Is(err, ErrNoController) || ok {
			t.Errorf("cut off: %v, %v", ok, err)
		}
		if ok, err := leader.c.ProducerGiven(context.Background(), pid, epoch); err != nil || !ok {
			t.Errorf("the leader: %v, %v", ok, err)
		}
	})
}

// I8: when a transactional id was begun with anew, whoever may lead fences the former
// life: a broker that can't be reached has to be fenced itself first.
func TestI8_NobodyTakesAFormerLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tc := startCluster(t, 3)
		leader, others := tc.followers()
		begin := func(by *testNode) (pid int64) {
			t.Helper()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			pid, epoch, err := by.c.InitProducer(ctx, "tx")
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range tc.alive() {
				if b := by.c.State().Brokers[n.id]; b.Fenced {
					continue
				}
				if newest, _ := n.c.State().ProducerEpoch(pid); newest != epoch {
					t.Errorf("broker %d knows epoch %d, and %d was given out", n.id, newest, epoch)
				}
			}
			return pid
		}
		for range 20 {
			for _, n := range tc.alive() {
				begin(n)
			}
		}
		tc.net.isolate(others[0].url)
		began := time.Now()
		pid := begin(others[1])
		if b := others[1].c.State().Brokers[others[0].id]; !b.Fenced {
			t.Errorf("after %s: it is done while broker %d may lead, and doesn't know of it", time.Since(began), others[0].id)
		}
		tc.net.heal()
		ctx, cancel := context.WithCancel(context.Background())
		tc.net.isolate(others[0].url)
		cancel()
		if _, _, err := leader.c.InitProducer(ctx, "tx"); !errors.Is(err, ErrNoController) && !errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("ended before that: %v", err)
		}
		tc.net.heal()
		if again := begin(others[0]); again != pid {
			t.Errorf("producer %d, and it was %d", again, pid)
		}
	})
}

// What one request waits for doesn't hold another's context.
func TestInitProducerEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tc := startCluster(t, 3)
		_, others := tc.followers()
		c := others[0].c
		tc.net.isolate(others[0].url)
		ctx, cancel := context.WithCancel(context.Background())
		first := make(chan error, 1)
		go func() {
			_, _, err := c.InitProducer(context.Background(), "")
			first <- err
		}()
		synctest.Wait()
		second := make(chan error, 1)
		go func() {
			_, _, err := c.InitProducer(ctx, "")
			second <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-second; !errors.Is(err, ErrNoController) {
			t.Errorf("the second: %v", err)
		}
		if err := <-first; !errors.Is(err, ErrNoController) && !errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("the first: %v", err)
		}
		tc.net.heal()
		if _, _, err := c.InitProducer(context.Background(), ""); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}
