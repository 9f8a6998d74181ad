package replication

import (
	"context"
	"errors"
	"testing"
	"time"

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

// atFirst has one fault happen to the first append that is forwarded.
func (n *forwardNet) atFirst(f forwardFault) {
	done := false
	n.faults(func(_, _ int32, path string) forwardFault {
		if path != wire.PathAppend || done {
			return noFault
		}
		done = true
		return f
	})
}

// forwardingCases runs each case with topic t, of one partition that broker 1 leads.
func forwardingCases(t *testing.T, cases map[string]func(c *testCluster, net *forwardNet)) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			net := &forwardNet{}
			inCluster(t, inForwardingCluster(net), func(c *testCluster) {
				c.create("t", 2, all)
				test(c, net)
				c.links(3, true)
			})
		})
	}
}

// What a forwarded append says of its outcome is true, whatever becomes of the
// leader and of the way to it (R11).
func TestForwardedAppendsTellTheTruth(t *testing.T) {
	forwardingCases(t, map[string]func(*testCluster, *forwardNet){
		"it arrives": func(c *testCluster, _ *forwardNet) {
			res := c.broker(2).produce(time.Minute, AcksAll, "t", 0, "a", "b")
			if res.Err != nil || res.BaseOffset != 0 || res.LastOffset != 1 || res.Durability != DurabilityFsynced || res.InSyncReplicas != 3 {
				t.Errorf("%+v", res)
			}
			c.same("t", 0, []string{"a", "b"}, 1, 2, 3)
		},
		"refused at first": func(c *testCluster, net *forwardNet) {
			net.atFirst(refused)
			res := c.broker(2).produce(time.Minute, AcksAll, "t", 0, "a")
			if res.Err != nil {
				t.Errorf("%+v", res)
			}
			c.same("t", 0, []string{"a"}, 1, 2, 3)
		},
		"the answer is lost": func(c *testCluster, net *forwardNet) {
			net.atFirst(loseAnswer)
			res := c.broker(2).produce(time.Minute, AcksAll, "t", 0, "a")
			lost := (*LeaderLostError)(nil)
			if !errors.As(res.Err, &lost) || !res.Unknown || lost.Leader != 1 {
				t.Errorf("%+v", res)
			}
			c.same("t", 0, []string{"a"}, 1, 2, 3) // and not twice
		},
		"the leader is dead already": func(c *testCluster, _ *forwardNet) {
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
		"the leader is frozen, and fenced": func(c *testCluster, net *forwardNet) {
			net.atFirst(hang)
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
		"acks 0": func(c *testCluster, _ *forwardNet) {
			if res := c.broker(2).produce(time.Minute, AcksNone, "t", 0, "a"); res.Err != nil || res.BaseOffset != -1 || res.Durability != DurabilityQueued {
				t.Errorf("%+v", res)
			}
			time.Sleep(time.Second)
			c.same("t", 0, []string{"a"}, 1, 2, 3)
		},
	})
}

// A forwarded append is answered in its time, which the leader knows best; and when it
// isn't waited for any more.
func TestForwardedAppendsKeepTheirTime(t *testing.T) {
	forwardingCases(t, map[string]func(*testCluster, *forwardNet){
		"its time is over at the leader": func(c *testCluster, _ *forwardNet) {
			c.links(3, false) // the ISR is what it was, and nothing is acknowledged
			start := time.Now()
			if res := c.broker(2).produce(time.Second, AcksAll, "t", 0, "a"); !res.Unknown || !errors.Is(res.Err, ErrTimeout) {
				t.Errorf("%+v", res)
			}
			within(t, start, time.Second, time.Second) // the leader was told
		},
		"its time is over here": func(c *testCluster, net *forwardNet) {
			net.atFirst(serveAndHang)
			start := time.Now()
			if res := c.broker(2).produce(time.Second, AcksAll, "t", 0, "a"); !res.Unknown || !errors.Is(res.Err, ErrTimeout) {
				t.Errorf("%+v", res)
			}
			within(t, start, time.Second, time.Second+answerGrace)
			c.same("t", 0, []string{"a"}, 1, 2, 3)
		},
		"it is given up here": func(c *testCluster, net *forwardNet) {
			net.atFirst(serveAndHang)
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
		"nobody leads": func(c *testCluster, _ *forwardNet) {
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
	})
}

// What the leader refuses is refused here for the same reason, but for what is only
// old metadata.
func TestForwardedAppendsThatAreRefused(t *testing.T) {
	forwardingCases(t, map[string]func(*testCluster, *forwardNet){
		"too few in sync": func(c *testCluster, _ *forwardNet) {
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
		"another end than expected": func(c *testCluster, _ *forwardNet) {
			c.broker(3).produce(time.Minute, AcksAll, "t", 0, "a")
			want := int64(7)
			res := c.broker(2).Append(context.Background(), AcksAll, []AppendRequest{{Topic: "t", Batches: []storage.Batch{batch(t, "b")}, ExpectedOffset: &want}})[0]
			unexpected := (*UnexpectedOffsetError)(nil)
			if res.Unknown || !errors.As(res.Err, &unexpected) || unexpected.Actual != 1 || unexpected.Expected != 7 {
				t.Errorf("%+v", res)
			}
		},
		"the metadata here is old": func(c *testCluster, _ *forwardNet) {
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
		"the topic was made anew": func(c *testCluster, _ *forwardNet) {
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
		"the topic is gone": func(c *testCluster, _ *forwardNet) {
			c.apply(&controller.DeleteTopic{ID: c.topicID("t")})
			start := time.Now()
			if res := c.broker(2).produce(time.Minute, AcksAll, "t", 0, "a"); res.Unknown || !isUnknownTopic(res.Err) {
				t.Errorf("%+v", res)
			}
			within(t, start, 0, 0)
		},
	})
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
