package replication

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"highwater/replication/controller"
	"highwater/replication/wire"
)

// readers is the Caller of a cluster whose brokers read at each other's leaders.
type readers struct{ c *testCluster }

func (r readers) Call(ctx context.Context, url, path string, _ time.Duration, in, out wire.Message, buf *[]byte) error {
	id, err := strconv.Atoi(url)
	req, ok := in.(*wire.JSON[wire.ReadRequest])
	if err != nil || !ok || path != wire.PathRead || !r.c.broker(int32(id)).up {
		return wire.ErrNotSent
	}
	*out.(*wire.ReadAnswer) = *r.c.broker(int32(id)).ServeRead(ctx, req.V, buf)
	return ctx.Err()
}

// inMendingCluster is inCluster with brokers that can ask each other's leaders.
func inMendingCluster(t *testing.T, o clusterOptions, test func(c *testCluster)) {
	t.Helper()
	r := readers{}
	o.config = func(cfg *Config) { cfg.Forward = &r }
	inCluster(t, o, func(c *testCluster) {
		r.c = c
		test(c)
	})
}

// fill appends values and returns them.
func (c *testCluster) fill(n int) (values []string) {
	c.t.Helper()
	for i := range n {
		values = append(values, fmt.Sprint("value ", i))
		c.broker(1).mustAppend(AcksAll, "a", 0, values[i])
	}
	time.Sleep(time.Second)
	return values
}

// meet has a replica find its damage, as a scrub does.
func (m *member) meet(n int64) {
	m.c.t.Helper()
	p := m.replica("a", 0)
	for at := range n {
		_, _ = p.log.Read(at, n, 1, nil)
	}
	if len(p.log.Damage()) == 0 {
		m.c.t.Fatal("the damage was not found")
	}
}

// TestS7_F42_ADamagedFollowerIsMended in place: nothing is cut, and the ISR stays.
func TestS7_F42_ADamagedFollowerIsMended(t *testing.T) {
	inMendingCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		want := c.fill(20)
		m := c.broker(3)
		for round := range 3 {
			m.flip("a", 400+int64(round)*100)
			m.meet(20)
			m.damaged(m.replica("a", 0))
			time.Sleep(5 * time.Second)
			if n, repairs := c.changes("a"), figure(m.metrics.repairs); n != 0 || repairs != float64(round+1) {
				t.Errorf("%d ISR changes; %v repairs after %d flips", n, repairs, round+1)
			}
			if p := m.replica("a", 0); len(p.log.Damage()) > 0 || p.log.WrittenEnd() != 20 || p.saidLess || p.mayCut {
				t.Fatalf("damage %v, ends at %d, said less %v, may cut %v", p.log.Damage(), p.log.WrittenEnd(), p.saidLess, p.mayCut)
			}
		}
		want = append(want, "more")
		c.broker(1).mustAppend(AcksAll, "a", 0, "more")
		time.Sleep(time.Second)
		c.same("a", 0, want, 1, 2, 3)
		c.isr("a", 0, 1, 2, 3)
	})
}

// TestS7_F42_ADamagedLeaderGivesWayAndIsMended: as a follower it gets back what it lost.
func TestS7_F42_ADamagedLeaderGivesWayAndIsMended(t *testing.T) {
	inMendingCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		want := c.fill(20)
		c.broker(1).flip("a", 400)
		c.broker(1).meet(20)
		c.broker(1).damaged(c.broker(1).replica("a", 0))
		time.Sleep(20 * time.Second)
		if leader := c.meta("a", 0).Leader; leader == 1 || leader == controller.NoLeader {
			t.Errorf("broker %d leads", leader)
		}
		c.same("a", 0, want, 2, 1, 3)
		c.isr("a", 0, 1, 2, 3)
		if n := figure(c.broker(1).metrics.repairs); n != 1 {
			t.Errorf("%v repairs", n)
		}
	})
}

// TestS7_DamageThatTheLeaderCannotMend: where the leader has nothing committed to give,
// the follower leaves the ISR, cuts its log, and fetches again.
func TestS7_DamageThatTheLeaderCannotMend(t *testing.T) {
	inMendingCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		want := c.fill(20)
		m := c.broker(3)
		r := m.cfg.Forward
		m.cfg.Forward = refusingReads{r}
		m.flip("a", 400)
		m.meet(20)
		m.damaged(m.replica("a", 0))
		time.Sleep(20 * time.Second)
		if n := c.changes("a"); n != 2 || figure(m.metrics.repairs) != 1 {
			t.Errorf("%d ISR changes, out and in again; %v repairs", n, figure(m.metrics.repairs))
		}
		c.same("a", 0, want, 1, 2, 3)
		c.isr("a", 0, 1, 2, 3)
	})
}

// refusingReads answers reads with nothing.
type refusingReads struct{ Caller }

func (r refusingReads) Call(ctx context.Context, url, path string, wait time.Duration, in, out wire.Message, buf *[]byte) error {
	if req, ok := in.(*wire.JSON[wire.ReadRequest]); ok {
		*out.(*wire.ReadAnswer) = wire.ReadAnswer{Version: wire.Version, Results: make([]wire.ReadResult, len(req.V.Positions))}
		return nil
	}
	return r.Caller.Call(ctx, url, path, wait, in, out, buf)
}
