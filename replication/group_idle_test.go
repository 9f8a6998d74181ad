package replication

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"highwater/replication/group"
)

// maxIdlePollBytes is what a poll that waits may cost its front and its coordinator
// together, in memory; the HTTP request that it came by isn't in it.
const maxIdlePollBytes = 20 << 10

// A thousand polls that wait cost little memory, and one beat a second all together.
func TestGroups_IdlePolls(t *testing.T) {
	const polls = 1000
	inGroupCluster(t, func(c *groupCluster) {
		c.done(3, group.Call{Create: &group.Create{Name: "first", Options: idleOptions()}})
		before := memoryInUse()
		held := make([]*group.Poll, polls)
		var all sync.WaitGroup
		for i := range held {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				p, err := c.broker(3).groups.Poll(ctx, fmt.Sprintf("g%d", i/4), group.Begin{Instance: fmt.Sprintf("m%d", i%4), WaitMs: 30_000,
					Join: &group.Join{Topics: []string{"t"}, Options: idleOptions()}})
				if err != nil {
					t.Errorf("poll %d: %v", i, err)
					return
				}
				held[i] = p
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
		waiting := make(chan struct{})
		for _, p := range held {
			all.Go(func() { holdPoll(t, p, waiting) })
		}
		time.Sleep(5 * time.Second) // until everybody has a share
		after := memoryInUse()
		c.net.count("3>1 group/beat")
		c.net.count("3>1 group/call")
		start := cpuTime(t)
		time.Sleep(time.Minute)
		cpu := cpuTime(t) - start
		beats, calls := c.net.count("3>1 group/beat"), c.net.count("3>1 group/call")
		t.Logf("a poll that waits: %d bytes; all %d: %d beats, %d calls and %v of the processor in a minute", (after-before)/polls, polls, beats, calls, cpu)
		if per := (after - before) / polls; per > maxIdlePollBytes {
			t.Errorf("a poll that waits costs %d bytes", per)
		}
		if beats > 61 || calls > 0 {
			t.Errorf("%d beats and %d calls in a minute", beats, calls)
		}
		close(waiting)
		all.Wait()
	})
}

// holdPoll looks again whenever a poll has to, and ends it with the test.
func holdPoll(t *testing.T, p *group.Poll, until <-chan struct{}) {
	for {
		select {
		case <-p.Changed():
			if err := p.Renew(context.Background()); err != nil {
				t.Errorf("renew: %v", err)
				return
			}
		case <-until:
			if err := p.End(context.Background(), true, nil); err != nil {
				t.Errorf("end: %v", err)
			}
			return
		}
	}
}

func idleOptions() group.Options {
	return group.Options{Reset: group.ResetEarliest, SessionTimeout: 5 * time.Minute, RequestTimeout: time.Second, MinBytes: 1}
}

func memoryInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
