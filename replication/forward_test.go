package replication

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"highwater/replication/controller"
	"highwater/replication/wire"
	"highwater/storage"
)

// all is the factor-3 assignment that broker 1 leads.
var all = []int32{1, 2, 3}

// within fails unless about so much of the bubble's time has passed since start.
func within(t *testing.T, start time.Time, least, most time.Duration) {
	t.Helper()
	if took := time.Since(start); took < least || took > most {
		t.Errorf("took %s, want %s to %s", took, least, most)
	}
}

// What a forwarded append says of its outcome is true, whatever becomes of the
// leader and of the way to it (R11).
func TestForwardedAppendsTellTheTruth(t *testing.T) {
	net := &forwardNet{}
	once := func(f forwardFault) func(int32, int32, string) forwardFault {
		done := false
		return func(_, _ int32, path string) forwardFault {
			if path != wire.PathAppend || done {
				return noFault
			}
			done = true
			return f
		}
	}
	for name, test := range map[string]func(c *testCluster){
		"it arrives": func(c *testCluster) {
			res := c.broker(2).produce(time.Minute, AcksAll, "t", 0, "a", "b")
			if res.Err != nil || res.BaseOffset != 0 || res.LastOffset != 1 || res.Durability != DurabilityFsynced || res.InSyncReplicas != 3 {
				t.Errorf("%+v", res)
			}
			c.same("t", 0, []string{"a", "b"}, 1, 2, 3)
		},
		"refused at first": func(c *testCluster) {
			net.faults(once(refused))
			res := c.broker(2).produce(time.Minute, AcksAll, "t", 0, "a")
			if res.Err != nil {
				t.Errorf("%+v", res)
			}
			c.same("t", 0, []string{"a"}, 1, 2, 3)
		},
		"the answer is lost": func(c *testCluster) {
			net.faults(once(loseAnswer))
			res := c.broker(2).produce(time.Minute, AcksAll, "t", 0, "a")
			lost := (*LeaderLostError)(nil)
			if !errors.As(res.Err, &lost) || !res.Unknown || lost.Leader != 1 {
				t.Errorf("%+v", res)
			}
			c.same("t", 0, []string{"a"}, 1, 2, 3) // and not twice
		},
		"the leader is dead already": func(c *testCluster) {
			c.broker(1).stop()
			start := time.Now()
			done := make(chan AppendResult, 1)
			go func() { done <- c.broker(2).produce(time.Minute, AcksAll, "t", 0, "a") }()
			time.Sleep(3 * time.Second)
			c.fence(1)
			if res := <-done; res.Err != nil || res.LeaderEpoch == 0 {
				t.Errorf("%+v", res)
			}
			within(t, start, 3*time.Second, 4*time.Second)
			c.same("t", 0, []string{"a"}, 2, 3)
		},
		"the leader is frozen, and fenced": func(c *testCluster) {
			net.faults(once(hang))
			start := time.Now()
			done := make(chan AppendResult, 1)
			go func() { done <- c.broker(2).produce(time.Minute, AcksAll, "t", 0, "a") }()
			time.Sleep(6 * time.Second)
			c.fence(1)
			if res := <-done; !res.Unknown || !errors.As(res.Err, new(*LeaderLostError)) {
				t.Errorf("%+v", res)
			}
			within(t, start, 6*time.Second, 6*time.Second+2*fateGrace)
		},
		"its time is over at the leader": func(c *testCluster) {
			c.links(3, false) // the ISR is what it was, and nothing is acknowledged
			start := time.Now()
			if res := c.broker(2).produce(time.Second, AcksAll, "t", 0, "a"); !res.Unknown || !errors.Is(res.Err, ErrTimeout) {
				t.Errorf("%+v", res)
			}
			within(t, start, time.Second, time.Second) // the leader was told
		},
		"its time is over here": func(c *testCluster) {
			net.faults(once(serveAndHang))
			start := time.Now()
			if res := c.broker(2).produce(time.Second, AcksAll, "t", 0, "a"); !res.Unknown || !errors.Is(res.Err, ErrTimeout) {
				t.Errorf("%+v", res)
			}
			within(t, start, time.Second, time.Second+answerGrace)
			c.same("t", 0, []string{"a"}, 1, 2, 3)
		},
		"it is given up here": func(c *testCluster) {
			net.faults(once(serveAndHang))
			start := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			time.AfterFunc(2*time.Second, cancel)
			res := c.broker(2).Append(ctx, AcksAll, []AppendRequest{{Topic: "t", Batches: []storage.Batch{batch(t, "a")}}})[0]
			if !res.Unknown || !errors.Is(res.Err, ErrTimeout) {
				t.Errorf("%+v", res)
			}
			within(t, start, 2*time.Second, 2*time.Second)
			c.same("t", 0, []string{"a"}, 1, 2, 3)
		},
		"nobody leads": func(c *testCluster) {
			c.broker(1).stop()
			start := time.Now()
			if res := c.broker(2).produce(time.Hour, AcksAll, "t", 0, "a"); res.Unknown || !errors.As(res.Err, new(*NotLeaderError)) {
				t.Errorf("%+v", res)
			}
			within(t, start, defaultSessionTimeout+produceLeaderMargin, defaultSessionTimeout+produceLeaderMargin)
			start = time.Now()
			if res := c.broker(2).produce(time.Second, AcksLeader, "t", 0, "a"); res.Unknown || !errors.As(res.Err, new(*NotLeaderError)) {
				t.Errorf("%+v", res)
			}
			within(t, start, time.Second, time.Second)
			if got := c.broker(2).contents("t", 0); len(got) > 0 {
				t.Errorf("%q was written", got)
			}
		},
		"too few in sync": func(c *testCluster) {
			c.fence(3)
			c.fence(2)
			time.Sleep(time.Second)
			start := time.Now()
			not := (*NotEnoughReplicasError)(nil)
			if res := c.broker(2).produce(time.Minute, AcksAll, "t", 0, "a"); res.Unknown || !errors.As(res.Err, &not) || not.Appended || not.InSync != 1 || not.Min != 2 {
				t.Errorf("%+v", res)
			}
			within(t, start, 0, 0)
		},
		"another end than expected": func(c *testCluster) {
			c.broker(3).produce(time.Minute, AcksAll, "t", 0, "a")
			want := int64(7)
			res := c.broker(2).Append(context.Background(), AcksAll, []AppendRequest{{Topic: "t", Batches: []storage.Batch{batch(t, "b")}, ExpectedOffset: &want}})[0]
			unexpected := (*UnexpectedOffsetError)(nil)
			if res.Unknown || !errors.As(res.Err, &unexpected) || unexpected.Actual != 1 || unexpected.Expected != 7 {
				t.Errorf("%+v", res)
			}
		},
		"acks 0": func(c *testCluster) {
			if res := c.broker(2).produce(time.Minute, AcksNone, "t", 0, "a"); res.Err != nil || res.BaseOffset != -1 || res.Durability != DurabilityQueued {
				t.Errorf("%+v", res)
			}
			time.Sleep(time.Second)
			c.same("t", 0, []string{"a"}, 1, 2, 3)
		},
		"the metadata here is old": func(c *testCluster) {
			c.broker(2).lag(true)
			c.fence(1)
			c.unfence(1)
			time.Sleep(time.Second)
			done := make(chan AppendResult, 1)
			go func() { done <- c.broker(2).produce(time.Minute, AcksAll, "t", 0, "a") }()
			time.Sleep(2 * time.Second)
			c.broker(2).lag(false)
			if res := <-done; res.Err != nil || res.LeaderEpoch == 0 {
				t.Errorf("%+v", res)
			}
		},
		"the topic was made anew": func(c *testCluster) {
			c.broker(2).lag(true)
			c.apply(&controller.DeleteTopic{ID: c.topicID("t")})
			c.create("t", 2, all)
			done := make(chan AppendResult, 1)
			go func() { done <- c.broker(2).produce(3*time.Second, AcksAll, "t", 0, "old") }()
			if res := <-done; res.Unknown || !errors.As(res.Err, new(*NotLeaderError)) {
				t.Errorf("%+v", res)
			}
			c.broker(2).lag(false)
			if res := c.broker(2).produce(time.Minute, AcksAll, "t", 0, "new"); res.Err != nil {
				t.Errorf("%+v", res)
			}
			c.same("t", 0, []string{"new"}, 1, 2, 3)
		},
		"the topic is gone": func(c *testCluster) {
			c.apply(&controller.DeleteTopic{ID: c.topicID("t")})
			start := time.Now()
			if res := c.broker(2).produce(time.Minute, AcksAll, "t", 0, "a"); res.Unknown || !isUnknownTopic(res.Err) {
				t.Errorf("%+v", res)
			}
			within(t, start, 0, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			net.faults(nil)
			inCluster(t, inForwardingCluster(net), func(c *testCluster) {
				c.create("t", 2, all)
				test(c)
				c.links(3, true)
			})
		})
	}
}

func (c *testCluster) topicID(name string) (id [16]byte) {
	topic, ok := c.truth.State().Topic(name)
	if !ok {
		c.t.Fatalf("no topic %s", name)
	}
	return topic.ID
}

// One request for partitions of several leaders: each leader is asked once, and the
// results stand where the parts stood.
func TestOneAppendForManyLeaders(t *testing.T) {
	net := &forwardNet{}
	inCluster(t, inForwardingCluster(net), func(c *testCluster) {
		c.create("t", 2, []int32{1, 2, 3}, []int32{2, 3, 1}, []int32{3, 1, 2}, []int32{1, 3, 2}, []int32{3, 2, 1})
		var reqs []AppendRequest
		for _, p := range []int32{4, 0, 1, 9, 3, 2} {
			reqs = append(reqs, AppendRequest{Topic: "t", Partition: p, Batches: []storage.Batch{batch(t, "v"), batch(t, "w", "x")}})
		}
		net.count("2>1 append")
		for i, res := range c.broker(2).Append(context.Background(), AcksAll, reqs) {
			if p := reqs[i].Partition; p == 9 {
				if !errors.As(res.Err, new(*UnknownPartitionError)) {
					t.Errorf("%+v", res)
				}
			} else if res.Err != nil || res.LastOffset != 2 {
				t.Errorf("%d: %+v", p, res)
			}
		}
		if a, b := net.count("2>1 append"), net.count("2>3 append"); a != 1 || b != 1 {
			t.Errorf("%d and %d requests", a, b)
		}
		for p := range int32(5) {
			c.same("t", p, []string{"v", "w", "x"}, 1, 2, 3)
		}
	})
}

// Reads look for a leader as long as they are told to.
func TestReadsWithoutALeader(t *testing.T) {
	net := &forwardNet{}
	inCluster(t, inForwardingCluster(net), func(c *testCluster) {
		c.create("t", 2, all)
		c.broker(2).produce(time.Minute, AcksAll, "t", 0, "a")
		c.broker(1).stop()
		for _, tc := range []struct {
			wait, patience, takes time.Duration
		}{{0, 0, readLeaderWait}, {2 * time.Second, 0, 2 * time.Second}, {0, -1, 0}, {0, time.Second, time.Second}} {
			start := time.Now()
			_, err := c.broker(2).Fetch(context.Background(), FetchRequest{Topic: "t", MaxBytes: 100, MaxWait: tc.wait, Patience: tc.patience})
			if !IsTransient(err) {
				t.Errorf("%+v: %v", tc, err)
			}
			within(t, start, tc.takes, tc.takes)
		}
		start := time.Now()
		time.AfterFunc(4*time.Second, func() { c.fence(1) })
		if o, err := c.broker(2).Offsets(context.Background(), "t", 0, nil); err != nil || o.End != 1 {
			t.Errorf("%+v %v", o, err)
		}
		within(t, start, 4*time.Second, 6*time.Second)
		if res, err := c.broker(3).Fetch(context.Background(), FetchRequest{Topic: "t", MaxBytes: 100}); err != nil || len(res.Data) == 0 {
			t.Errorf("%+v %v", res, err)
		}
	})
}

// A reader on a broker that doesn't lead misses nothing, whatever happens to the
// leader, to the way to it and to the broker that it reads from; and while nothing
// happens the leader is asked next to nothing.
func TestWatchesMissNothing(t *testing.T) {
	net := &forwardNet{}
	inCluster(t, inForwardingCluster(net), func(c *testCluster) {
		c.create("t", 1, all, []int32{2, 1, 3})
		reader := c.broker(3)
		type seen struct {
			mu     sync.Mutex
			values []string
		}
		var got [2]seen
		ctx, stop := context.WithCancel(context.Background())
		var readers sync.WaitGroup
		follow := func(p int32, subscribe func(s *Signal) (func(), error)) {
			readers.Go(func() {
				s := NewSignal()
				cancel, err := subscribe(s)
				if err != nil {
					t.Error(err)
					return
				}
				defer cancel()
				next := int64(0)
				for {
					res, err := reader.Fetch(ctx, FetchRequest{Topic: "t", Partition: p, Offset: next, MaxBytes: 1 << 20, Patience: -1})
					again := (<-chan time.Time)(nil)
					if err != nil {
						if !IsTransient(err) {
							return
						}
						again = time.After(time.Second)
					}
					for _, r := range records(t, res, next) {
						if r.Offset != next {
							t.Errorf("%d-%d where %d was due", p, r.Offset, next)
						}
						got[p].mu.Lock()
						got[p].values = append(got[p].values, string(r.Value))
						got[p].mu.Unlock()
						next = r.Offset + 1
					}
					if len(res.Data) > 0 {
						continue
					}
					select {
					case <-s.C:
					case <-again:
					case <-ctx.Done():
						return
					}
				}
			})
		}
		follow(0, func(s *Signal) (func(), error) { return reader.Subscribe("t", 0, s) })
		follow(1, func(s *Signal) (func(), error) { return reader.SubscribeTopic("t", s) })
		time.Sleep(time.Second)
		var want []string
		// say appends to both partitions, and wants the readers to see it soon.
		say := func(what string) {
			t.Helper()
			want = append(want, what)
			for p := range int32(2) {
				if res := c.broker(2).produce(time.Minute, AcksLeader, "t", p, what); res.Err != nil {
					t.Fatalf("%s: %+v", what, res)
				}
			}
			time.Sleep(1500 * time.Millisecond)
			for p := range got {
				got[p].mu.Lock()
				if !slices.Equal(got[p].values, want) {
					t.Errorf("%s: partition %d: read %q, want %q", what, p, got[p].values, want)
				}
				got[p].mu.Unlock()
			}
		}
		say("first")
		net.count("3>1 watch")
		net.count("3>1 read")
		time.Sleep(10 * time.Minute)
		if polls, reads := net.count("3>1 watch"), net.count("3>1 read"); polls > 40 || reads > 2 {
			t.Errorf("ten idle minutes cost %d polls and %d reads", polls, reads)
		}
		say("after idle minutes")
		c.fence(1) // 2 leads both
		say("after a change of leader")
		c.unfence(1)
		c.link(3, 2, false)
		time.Sleep(5 * time.Second)
		c.link(3, 2, true)
		time.Sleep(2 * time.Second)
		say("after the link was cut")
		net.faults(func(from, to int32, path string) forwardFault {
			if path == wire.PathWatch && from == 3 {
				return hang
			}
			return noFault
		})
		c.hangUp(func(call *call) bool { return call.from == 3 && call.to == 2 })
		time.Sleep(2 * time.Second)
		net.faults(nil)
		c.hangUp(func(call *call) bool { return call.from == 3 && call.to == 2 })
		time.Sleep(3 * time.Second)
		say("after the leader was deaf")
		c.fail(2)
		say2 := func(what string) {
			t.Helper()
			want = append(want, what)
			for p := range int32(2) {
				if res := c.broker(1).produce(time.Minute, AcksLeader, "t", p, what); res.Err != nil {
					t.Fatalf("%s: %+v", what, res)
				}
			}
			time.Sleep(1500 * time.Millisecond)
			for p := range got {
				got[p].mu.Lock()
				if !slices.Equal(got[p].values, want) {
					t.Errorf("%s: partition %d: read %q, want %q", what, p, got[p].values, want)
				}
				got[p].mu.Unlock()
			}
		}
		say2("after the leader died")
		c.broker(2).start()
		c.unfence(2)
		time.Sleep(time.Second)
		c.fence(1)
		say("after the leader came back")
		c.apply(&controller.DeleteTopic{ID: c.topicID("t")})
		time.Sleep(time.Second)
		stop()
		readers.Wait()
	})
}

// What nobody reads any more isn't watched any more.
func TestWatchesEnd(t *testing.T) {
	net := &forwardNet{}
	inCluster(t, inForwardingCluster(net), func(c *testCluster) {
		c.create("t", 1, all)
		s := NewSignal()
		one, err := c.broker(3).Subscribe("t", 0, s)
		c.must(err)
		whole, err := c.broker(3).SubscribeTopic("t", s)
		c.must(err)
		time.Sleep(time.Second)
		sessions := func() int {
			ws := c.broker(1).watched
			ws.mu.Lock()
			defer ws.mu.Unlock()
			return len(ws.byID)
		}
		topics := func() int {
			w := c.broker(3).watcher
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.topics)
		}
		if n := sessions(); n != 1 {
			t.Fatalf("%d sessions", n)
		}
		one()
		whole()
		time.Sleep(watchLinger + 2*watchSweep + watchWait)
		net.count("3>1 watch")
		time.Sleep(time.Hour)
		if n := net.count("3>1 watch"); n > 0 {
			t.Errorf("%d polls for nobody", n)
		}
		if a, b := sessions(), topics(); a+b > 0 {
			t.Errorf("%d sessions and %d topics are left", a, b)
		}
	})
}

// A long-poll that a draining broker cuts short is no answer to ask again after at
// once: the other side waits a moment.
func TestAWatchThatIsCutShortSaysSo(t *testing.T) {
	inCluster(t, clusterOptions{brokers: 1}, func(c *testCluster) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		req := &wire.WatchRequest{Version: wire.Version, Session: uuid.New(), First: true, MaxWaitMs: 1000}
		if answer := c.broker(1).ServeWatch(ctx, req); answer.Code != wire.CodeNotLeader {
			t.Errorf("%+v", answer)
		}
		req.First = false
		if answer := c.broker(1).ServeWatch(context.Background(), req); answer.Code != wire.OK {
			t.Errorf("its time is over: %+v", answer)
		}
	})
}

// A topic that is deleted between two looks has no partitions, not empty ones.
func TestStatusesOfATopicThatIsGone(t *testing.T) {
	inCluster(t, clusterOptions{brokers: 1}, func(c *testCluster) {
		c.create("t", 1, []int32{1})
		if _, err := c.broker(1).statuses(context.Background(), "gone", []int32{0}); !isUnknownTopic(err) {
			t.Error(err)
		}
		if _, err := c.broker(1).statuses(context.Background(), "t", []int32{0, 1}); !errors.As(err, new(*UnknownPartitionError)) {
			t.Error(err)
		}
	})
}

// A broker without a replica of the topic hears of its end, too, and of partitions
// that it gets.
func TestWatchesFromABrokerWithoutReplicas(t *testing.T) {
	net := &forwardNet{}
	inCluster(t, inForwardingCluster(net), func(c *testCluster) {
		c.create("t", 1, []int32{1, 2})
		one, whole := NewSignal(), NewSignal()
		cancelOne, err := c.broker(3).Subscribe("t", 0, one)
		c.must(err)
		defer cancelOne()
		cancelWhole, err := c.broker(3).SubscribeTopic("t", whole)
		c.must(err)
		defer cancelWhole()
		woken := func(what string, signals ...*Signal) {
			t.Helper()
			time.Sleep(time.Second)
			for _, s := range []*Signal{one, whole} {
				got := false
				select {
				case <-s.C:
					got = true
				default:
				}
				if got != slices.Contains(signals, s) {
					t.Errorf("%s: woken %v", what, got)
				}
			}
		}
		woken("the subscription", one, whole)
		woken("nothing")
		c.must(c.broker(3).produce(time.Minute, AcksLeader, "t", 0, "v").Err)
		woken("a record", one, whole)
		if _, ok := c.apply(&controller.AlterTopic{ID: c.topicID("t"), From: 1, Add: [][]int32{{2, 1}}}).(*controller.Topic); !ok {
			t.Fatal("the partition was refused")
		}
		woken("a new partition", whole)
		c.must(c.broker(3).produce(time.Minute, AcksLeader, "t", 1, "v").Err)
		woken("a record in it", whole)
		c.apply(&controller.DeleteTopic{ID: c.topicID("t")})
		woken("the end", one, whole)
		if _, err := c.broker(3).Fetch(context.Background(), FetchRequest{Topic: "t", MaxBytes: 1}); !isUnknownTopic(err) {
			t.Error(err)
		}
	})
}

// A reader of one partition hears of it also when its own broker gets the replica
// later than it subscribed, and leads it.
func TestWatchesReachAReplicaThatComesLater(t *testing.T) {
	net := &forwardNet{}
	inCluster(t, inForwardingCluster(net), func(c *testCluster) {
		topic := c.create("t", 1, []int32{1})
		reader := NewSignal()
		cancel, err := c.broker(3).Subscribe("t", 0, reader)
		c.must(err)
		defer cancel()
		for _, replicas := range [][]int32{{3}, {1}, {3}} {
			c.apply(&controller.Reassign{Items: []controller.Reassignment{{Topic: topic.ID, Replicas: replicas}}})
			time.Sleep(time.Minute)
			c.leads(replicas[0], "t", 0)
			select {
			case <-reader.C:
			default:
				t.Errorf("not woken when %d began to lead", replicas[0])
			}
			c.must(c.broker(2).produce(time.Minute, AcksAll, "t", 0, "v").Err)
			time.Sleep(time.Second)
			select {
			case <-reader.C:
			default:
				t.Errorf("not woken by a record at %d", replicas[0])
			}
		}
	})
}
