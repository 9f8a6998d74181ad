package replication

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"highwater/replication/controller"
	"highwater/replication/wire"
	"highwater/storage"
)

// find looks a message up through a broker within so much time.
func (m *member) find(timeout time.Duration, id string) (*FoundMessage, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return m.FindMessage(ctx, "t", id)
}

// spread makes topic t of n partitions that the three brokers lead by turns.
func (c *testCluster) spread(n int) {
	c.t.Helper()
	cmd := controller.CreateTopic{Name: "t", MinInSync: 2}
	for i := range n {
		cmd.Replicas = append(cmd.Replicas, []int32{int32(i%3) + 1, int32((i+1)%3) + 1, int32((i+2)%3) + 1})
	}
	c.createWith(cmd)
}

// A message is found by its id in whatever partition it is, through any broker, with
// one call to each other leader at most.
func TestAMessageIsFoundByItsID(t *testing.T) {
	net := &forwardNet{}
	inCluster(t, inForwardingCluster(net), func(c *testCluster) {
		c.spread(9)
		for num := range int32(9) {
			c.must(c.broker(2).send(time.Second, AcksAll, num, nil, fmt.Sprintf("a%d=x", num), fmt.Sprintf("b%d=%d", num, num), "without").Err)
		}
		for num := range int32(9) {
			for _, m := range c.members {
				found, err := m.find(time.Second, fmt.Sprint("b", num))
				if err != nil || found.Partition != num || found.Record.Offset != 1 || string(found.Record.Value) != fmt.Sprint(num) || len(found.Record.Headers) != 1 {
					t.Fatalf("b%d through %d: %+v, %v", num, m.id, found, err)
				}
			}
		}
		for from := range int32(3) {
			for to := range int32(3) {
				if n := net.count(fmt.Sprintf("%d>%d %s", from+1, to+1, wire.PathFindMessage)); n > 9 {
					t.Errorf("%d asked %d %d times for 9 messages", from+1, to+1, n)
				}
			}
		}
		unknown := (*UnknownMessageError)(nil)
		if found, err := c.broker(3).find(time.Second, "nobody's"); !errors.As(err, &unknown) || unknown.Offset != -1 {
			t.Errorf("unknown: %+v, %v", found, err)
		}
	})
}

// Nobody is told that there is no such message while a partition can't say so: it has no
// leader, its leader doesn't answer, or can't vouch for itself (R61).
func TestNoMessageIsSaidToBeUnknownWithoutItsLeader(t *testing.T) {
	cases := map[string]func(c *testCluster, net *forwardNet){
		"no leader":      func(c *testCluster, _ *forwardNet) { c.broker(1).stop() },
		"refused":        func(_ *testCluster, net *forwardNet) { net.faults(always(refused)) },
		"lost":           func(_ *testCluster, net *forwardNet) { net.faults(always(loseAnswer)) },
		"a stale leader": func(c *testCluster, _ *forwardNet) { c.links(1, false); c.broker(1).isolate(true) },
	}
	for name, fault := range cases {
		t.Run(name, func(t *testing.T) {
			net := &forwardNet{}
			inCluster(t, inForwardingCluster(net), func(c *testCluster) {
				c.windowed(all)
				c.must(c.broker(1).send(time.Second, AcksAll, 0, nil, "a=1").Err)
				fault(c, net)
				time.Sleep(2 * time.Second)
				asked := c.broker(2)
				if name == "a stale leader" {
					asked = c.broker(1)
				}
				for _, id := range []string{"a", "b"} {
					if found, err := asked.find(20*time.Second, id); !IsTransient(err) {
						t.Errorf("%s: %+v, %v", id, found, err)
					}
				}
				net.faults(nil)
				c.links(1, true)
				if name == "a stale leader" {
					c.broker(1).isolate(false)
				}
			})
		})
	}
}

func always(f forwardFault) func(from, to int32, path string) forwardFault {
	return func(_, _ int32, path string) forwardFault {
		if path == wire.PathFindMessage {
			return f
		}
		return noFault
	}
}

// inFlight is a cluster in which a message has been sent that can't be committed while broker
// 3 is cut off.
func inFlight(t *testing.T, then func(c *testCluster, sent <-chan AppendResult)) {
	inCluster(t, inForwardingCluster(&forwardNet{}), func(c *testCluster) {
		c.windowed(all)
		c.links(3, false)
		sent := c.broker(1).sendSoon(time.Minute, AcksAll, "a=1")
		c.settle()
		then(c, sent)
	})
}

// A message in flight is waited for, wherever the question was asked, and when it comes to
// nothing that is said, too.
func TestAMessageInFlightIsWaitedFor(t *testing.T) {
	inFlight(t, func(c *testCluster, sent <-chan AppendResult) {
		for _, id := range []int32{1, 2} {
			if found, err := c.broker(id).find(time.Second, "a"); !errors.Is(err, ErrTimeout) {
				t.Errorf("through %d: %+v, %v", id, found, err)
			}
		}
		type answer struct {
			found *FoundMessage
			err   error
		}
		answers := make(chan answer, 2)
		for _, id := range []int32{1, 2} {
			go func() {
				found, err := c.broker(id).find(time.Minute, "a")
				answers <- answer{found, err}
			}()
		}
		time.Sleep(time.Second)
		if len(answers) > 0 {
			t.Error("answered before it was committed")
		}
		c.links(3, true)
		for range 2 {
			if a := <-answers; a.err != nil || a.found.Record.Offset != 0 {
				t.Errorf("%+v, %v", a.found, a.err)
			}
		}
		c.must((<-sent).Err)

		c.links(1, false)
		c.broker(1).sendSoon(5*time.Second, AcksAll, "never=1")
		go func() {
			found, err := c.broker(1).find(time.Minute, "never")
			answers <- answer{found, err}
		}()
		time.Sleep(time.Second)
		c.fence(1)
		time.Sleep(time.Second)
		c.unfence(1)
		c.links(1, true)
		if a := <-answers; !errors.As(a.err, new(*UnknownMessageError)) {
			t.Errorf("truncated: %+v, %v", a.found, a.err)
		}
	})
}

// A record that is committed while it is looked for is in flight or found, never unknown.
func TestAMessageThatIsCommittedMeanwhile(t *testing.T) {
	inFlight(t, func(c *testCluster, sent <-chan AppendResult) {
		p, err := c.broker(1).Partition("t", 0)
		if err != nil {
			t.Fatal(err)
		}
		cuts := p.cutCount()
		l := p.lookNow([]byte("a"))
		if !l.pending {
			t.Fatalf("%+v before it is committed", l)
		}
		c.links(3, true)
		c.must((<-sent).Err)
		if l = p.vouched(l, cuts); !l.pending {
			t.Errorf("%+v", l)
		}
		if l = p.look([]byte("a")); l.batch == nil {
			t.Errorf("%+v after it was committed", l)
		}
	})
}

// F54, D8: ids are a partition's own. After the topic got more partitions, a retry that
// names the partition of the first attempt finds the original.
func TestF54_ARetryPinnedToItsPartition(t *testing.T) {
	net := &forwardNet{}
	inCluster(t, inForwardingCluster(net), func(c *testCluster) {
		topic := c.windowed(all)
		net.atFirst(serveAndHang)
		if res := c.broker(2).send(time.Second, AcksAll, 0, nil, "a=1"); !res.Unknown {
			t.Fatalf("%+v", res)
		}
		if err, ok := c.apply(&controller.AlterTopic{ID: topic.ID, From: 1, Add: [][]int32{{2, 3, 1}, {3, 1, 2}}}).(error); ok {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		c.duplicates("pinned", c.broker(2).send(time.Second, AcksAll, 0, nil, "a=1"), 0)
		if found, err := c.broker(3).find(time.Second, "a"); err != nil || found.Partition != 0 {
			t.Errorf("%+v, %v", found, err)
		}
	})
}

// An append whose answer is lost is sent again where all its records have ids, or a
// producer; what may not be recognised never is.
func TestAnAppendWithIDsIsSentAgain(t *testing.T) {
	lost := (*LeaderLostError)(nil)
	forwardingCases(t, map[string]func(*testCluster, *forwardNet){
		"the answer is lost": func(c *testCluster, net *forwardNet) {
			net.atFirst(loseAnswer)
			c.duplicates("ids", c.broker(2).send(time.Minute, AcksAll, 0, nil, "a=1", "b=1"), 0, 1)
			net.atFirst(loseAnswer)
			c.duplicates("a producer", c.broker(2).send(time.Minute, AcksAll, 0, &storage.Producer{ID: 3}, "x"), 2)
			net.atFirst(loseAnswer)
			if res := c.broker(2).send(time.Minute, AcksAll, 0, nil, "c=1", "no id"); !res.Unknown || !errors.As(res.Err, &lost) {
				t.Errorf("one without an id: %+v", res)
			}
			c.same("t", 0, []string{"1", "1", "x", "1", "no id"}, 1, 2, 3)
		},
		"it never came": func(c *testCluster, net *forwardNet) {
			net.atFirst(hang)
			done := c.broker(2).sendSoon(time.Minute, AcksAll, "a=1")
			time.Sleep(6 * time.Second)
			c.fence(1)
			c.isNew("at the next leader", <-done, 0)
			c.same("t", 0, []string{"1"}, 2, 3)
		},
		"the leader steps down before it is committed": func(c *testCluster, _ *forwardNet) {
			c.links(3, false)
			done := c.broker(2).sendSoon(time.Minute, AcksAll, "a=1")
			c.settle()
			local := c.broker(1).sendSoon(time.Minute, AcksAll, "b=1")
			time.Sleep(time.Second)
			c.fence(1)
			time.Sleep(time.Second)
			c.links(3, true)
			for offset, res := range []AppendResult{<-done, <-local} {
				if res.Err != nil || res.BaseOffset != int64(offset) || res.LastOffset != int64(offset) {
					t.Errorf("at %d: %+v", offset, res)
				}
			}
			c.unfence(1)
			time.Sleep(2 * time.Second)
			c.same("t", 0, []string{"1", "1"}, 1, 2, 3)
		},
		"its producer is fenced meanwhile": func(c *testCluster, _ *forwardNet) {
			c.links(3, false)
			done, next := make(chan AppendResult, 1), make(chan AppendResult, 1)
			go func() { done <- c.broker(2).send(time.Minute, AcksAll, 0, &storage.Producer{ID: 3}, "x") }()
			c.settle()
			go func() { next <- c.broker(1).send(time.Minute, AcksAll, 0, &storage.Producer{ID: 3, Epoch: 1}, "y") }()
			time.Sleep(time.Second)
			c.fence(1)
			time.Sleep(time.Second)
			c.links(3, true)
			if res := <-done; !res.Unknown || !errors.As(res.Err, new(*storage.ProducerFencedError)) {
				t.Errorf("it is in the log: %+v", res)
			}
			<-next
			c.same("t", 0, []string{"x", "y"}, 2, 3)
		},
		"every answer is lost": func(c *testCluster, net *forwardNet) {
			net.faults(func(_, _ int32, path string) forwardFault {
				if path == wire.PathAppend {
					return loseAnswer
				}
				return noFault
			})
			if res := c.broker(2).send(time.Minute, AcksAll, 0, nil, "a=1"); !res.Unknown || !errors.As(res.Err, &lost) {
				t.Errorf("%+v", res)
			}
			net.faults(func(_, _ int32, path string) forwardFault {
				if path == wire.PathAppend {
					return refused
				}
				return noFault
			})
			if res := c.broker(2).send(time.Second, AcksAll, 0, nil, "a=1"); res.Unknown || !isMisdirected(res.Err) {
				t.Errorf("never sent: %+v", res)
			}
			c.same("t", 0, []string{"1"}, 1, 2, 3)
		},
	})
}
