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
)

// followed is what a reader of one partition of topic t has read.
type followed struct {
	mu     sync.Mutex // guards values
	values []string
}

func (f *followed) read() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.values)
}

// follow reads through a broker from the beginning, woken as it has subscribed, until
// ctx or the topic ends.
func (f *followed) follow(ctx context.Context, m *member, p int32, subscribe func(s *Signal) (func(), error)) {
	t := m.c.t
	s := NewSignal()
	cancel, err := subscribe(s)
	if err != nil {
		t.Error(err)
		return
	}
	defer cancel()
	for next := int64(0); ; {
		res, err := m.Fetch(ctx, FetchRequest{Topic: "t", Partition: p, Offset: next, MaxBytes: 1 << 20, Patience: -1})
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
			f.mu.Lock()
			f.values = append(f.values, string(r.Value))
			f.mu.Unlock()
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
}

// A reader on a broker that doesn't lead misses nothing, whatever happens to the
// leader, to the way to it and to the broker that it reads from; and while nothing
// happens the leader is asked next to nothing.
func TestWatchesMissNothing(t *testing.T) {
	net := &forwardNet{}
	inCluster(t, inForwardingCluster(net), func(c *testCluster) {
		c.create("t", 1, all, []int32{2, 1, 3})
		var got [2]followed
		ctx, stop := context.WithCancel(context.Background())
		var readers sync.WaitGroup
		reader := c.broker(3)
		follow := func(p int32, subscribe func(s *Signal) (func(), error)) {
			readers.Go(func() { got[p].follow(ctx, reader, p, subscribe) })
		}
		follow(0, func(s *Signal) (func(), error) { return reader.Subscribe("t", 0, s) })
		follow(1, func(s *Signal) (func(), error) { return reader.SubscribeTopic("t", s) })
		time.Sleep(time.Second)
		var want []string
		// sayAt appends to both partitions through a broker, and wants the readers to see
		// it soon.
		sayAt := func(through int32, what string) {
			t.Helper()
			want = append(want, what)
			for p := range int32(2) {
				if res := c.broker(through).produce(time.Minute, AcksLeader, "t", p, what); res.Err != nil {
					t.Fatalf("%s: %+v", what, res)
				}
			}
			time.Sleep(1500 * time.Millisecond)
			for p := range got {
				if values := got[p].read(); !slices.Equal(values, want) {
					t.Errorf("%s: partition %d: read %q, want %q", what, p, values, want)
				}
			}
		}
		say := func(what string) { t.Helper(); sayAt(2, what) }
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
		sayAt(1, "after the leader died")
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
