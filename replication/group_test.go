package replication

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"highwater/replication/group"
	"highwater/replication/wire"
)

// partitionsOf are the partitions that a poll reads.
func partitionsOf(p *group.Poll) (out []int32) {
	for _, at := range p.State().Positions {
		out = append(out, at.Partition)
	}
	return out
}

// positionOf is where a poll reads partition 0 on; -2: it doesn't.
func positionOf(p *group.Poll) int64 {
	for _, at := range p.State().Positions {
		if at.Partition == 0 {
			return at.Offset
		}
	}
	return -2
}

func TestGroups_AnyBrokerServesAMember(t *testing.T) {
	inGroupCluster(t, func(c *groupCluster) {
		c.join(2, "a")
		p := c.polling(3, "a")
		if got := partitionsOf(p); !slices.Equal(got, []int32{0, 1, 2, 3}) {
			t.Fatalf("it reads %v", got)
		}
		c.end(p)
		c.done(1, commit(c, "a", 7))
		c.is(7, 1, 2, 3)
		for _, m := range c.members {
			list, err := m.groups.List(context.Background())
			c.must(err)
			if len(list) != 1 || list[0].Group != "g" || list[0].Coordinator != 1 || list[0].Members != 1 {
				t.Errorf("broker %d lists %+v", m.id, list)
			}
		}
	})
}

// A coordinator's end leaves nothing behind but what nobody was told (G2).
func TestGroups_MembersGoOnAfterTheirCoordinator(t *testing.T) {
	inGroupCluster(t, func(c *groupCluster) {
		c.join(1, "a")
		c.end(c.polling(3, "a"))
		c.done(2, commit(c, "a", 7))
		c.fail(1)
		p := c.polling(3, "a")
		if got := positionOf(p); got != 7 {
			t.Errorf("it goes on at %d", got)
		}
		c.end(p)
		c.done(3, commit(c, "a", 9))
		c.is(9, 2, 3)
		c.restart(1)
		c.is(9, 1)
	})
}

func TestGroups_AllBrokersRestart(t *testing.T) {
	inGroupCluster(t, func(c *groupCluster) {
		c.join(1, "a")
		c.join(2, "b")
		c.end(c.polling(3, "a"))
		c.done(2, commit(c, "a", 7))
		for _, m := range c.members {
			m.stop()
		}
		for _, m := range c.members {
			c.restart(m.id)
		}
		c.is(7, 1, 2, 3)
		a := c.polling(3, "a")
		b := c.polling(2, "b")
		if n := len(partitionsOf(a)) + len(partitionsOf(b)); n != 4 {
			t.Errorf("they own %v and %v", partitionsOf(a), partitionsOf(b))
		}
		c.end(a)
		c.end(b)
	})
}

// G2: who leads and hasn't all of the log committed says nothing, and who asks waits.
func TestGroups_WhileItLoadsEverybodyWaits(t *testing.T) {
	inGroupCluster(t, func(c *groupCluster) {
		c.done(1, commit(c, "", 7))
		// An append that nobody has confirmed lies in the new leader's log.
		c.link(1, 2, false) // answers to fetches of 2
		c.link(1, 3, false)
		_, err := c.do(1, 500*time.Millisecond, commit(c, "", 8))
		if err == nil {
			t.Error("a commit that only its coordinator has was answered")
		}
		if got, err := c.committedAt(1, 500*time.Millisecond); err == nil {
			t.Errorf("%d was told as committed, above the high watermark", got)
		}
		c.link(1, 2, true)
		c.link(1, 3, true)
		c.is(8, 2)
	})
}

// F60: no coordinator's end makes a commit that was answered vanish, nor a call fail
// that another coordinator can do.
func TestF60_CoordinatorDiesBetweenAppendAndAnswer(t *testing.T) {
	inGroupCluster(t, func(c *groupCluster) {
		c.join(2, "a")
		c.end(c.polling(2, "a"))
		for name, f := range map[string]forwardFault{"served": serveAndHang, "never served": hang} {
			once := false
			c.net.faults(func(_, _ int32, path string) forwardFault {
				if path != wire.PathGroupCall || once {
					return noFault
				}
				once = true
				return f
			})
			done := make(chan error, 1)
			go func() {
				_, err := c.do(2, 20*time.Second, commit(c, "a", 7))
				done <- err
			}()
			time.Sleep(time.Second)
			leader := c.meta(group.Topic, 0).Leader
			c.fence(leader) // it is dead to the others
			if err := <-done; err != nil {
				t.Errorf("%s: %v", name, err)
			}
			c.is(7, 2, 3)
			c.unfence(leader)
			time.Sleep(5 * time.Second)
			c.done(2, commit(c, "a", 0))
			c.lead(1)
			c.settle()
		}
	})
}

// F60: what was appended and can't be committed is not told as done, and is gone or
// there for everybody with the next coordinator.
func TestF60_AppendedAndNeverCommitted(t *testing.T) {
	inGroupCluster(t, func(c *groupCluster) {
		c.done(1, commit(c, "", 3))
		c.settle()
		c.links(1, false)
		_, err := c.do(1, 2*time.Second, commit(c, "", 7))
		if !errors.Is(err, group.ErrUnknownOutcome) && !errors.Is(err, group.ErrNoCoordinator) {
			t.Errorf("answered %v", err)
		}
		c.broker(1).isolate(true)
		c.fence(1)
		c.is(3, 2, 3)
		c.done(2, commit(c, "", 4))
		c.links(1, true)
		c.broker(1).isolate(false)
		c.unfence(1)
		c.is(4, 1, 2, 3)
	})
}

// A coordinator that was frozen, and doesn't know that another one is at work,
// acknowledges nothing and tells nothing.
func TestGroups_AStaleCoordinatorIsSilent(t *testing.T) {
	inGroupCluster(t, func(c *groupCluster) {
		c.join(1, "a")
		c.end(c.polling(1, "a"))
		c.done(1, commit(c, "a", 3))
		c.settle()
		c.broker(1).isolate(true)
		c.fence(1) // and 1 doesn't know
		c.done(2, commit(c, "a", 5))
		_, err := c.do(1, time.Second, commit(c, "a", 9))
		c.refused("commit", err)
		_, err = c.committedAt(1, time.Second)
		c.refused("committed", err)
		_, err = c.poll(1, "a", time.Second)
		c.refused("poll", err)
		_, err = c.do(1, time.Second, group.Call{Describe: &group.Describe{}})
		c.refused("describe", err)
		c.is(5, 2, 3)
		c.broker(1).isolate(false)
		c.unfence(1)
		c.is(5, 1, 2, 3)
	})
}

// R54: with too few in-sync replicas a commit says so, nothing of it is kept, and
// what needs no record goes on.
func TestGroups_TooFewReplicas(t *testing.T) {
	inGroupCluster(t, func(c *groupCluster) {
		c.join(1, "a")
		c.end(c.polling(1, "a"))
		c.done(1, commit(c, "a", 3))
		c.fence(3)
		c.fence(2)
		c.settle()
		for _, front := range []int32{1, 2} {
			_, err := c.do(front, 5*time.Second, commit(c, "a", 7))
			var few *NotEnoughReplicasError
			if !errors.As(err, &few) || few.Appended || few.Min != 2 || few.InSync != 1 || errors.Is(err, group.ErrUnknownOutcome) {
				t.Errorf("broker %d: %v", front, err)
			}
			p, err := c.poll(front, "a", 5*time.Second)
			if err != nil || len(partitionsOf(p)) != 4 {
				t.Fatalf("broker %d: a poll that needs no record: %v", front, err)
			}
			c.end(p)
		}
		c.is(3, 1, 2)
		c.unfence(2)
		time.Sleep(5 * time.Second)
		c.done(2, commit(c, "a", 8))
		c.is(8, 1, 2)
	})
}

// A call ends when its time is over, whatever doesn't answer.
func TestGroups_NoCallOutlastsItsTime(t *testing.T) {
	for name, f := range map[string]forwardFault{"refused": refused, "hung": hang, "served and hung": serveAndHang, "cut": loseAnswer} {
		t.Run(name, func(t *testing.T) {
			inGroupCluster(t, func(c *groupCluster) {
				c.join(1, "a")
				c.net.faults(func(int32, int32, string) forwardFault { return f })
				start := time.Now()
				_, err := c.poll(2, "a", 3*time.Second)
				c.refused("poll", err)
				within(t, start, 2900*time.Millisecond, 3100*time.Millisecond)
				start = time.Now()
				if _, err = c.do(2, 2*time.Second, commit(c, "a", 7)); err == nil {
					t.Error("a commit of which no answer came succeeded")
				}
				if maybe := errors.Is(err, group.ErrUnknownOutcome); maybe != (f != refused) {
					t.Errorf("the commit's outcome: %v", err)
				}
				within(t, start, 1900*time.Millisecond, 2100*time.Millisecond)
				start = time.Now()
				_, err = c.do(3, time.Second, group.Call{Describe: &group.Describe{}})
				c.refused("describe", err)
				within(t, start, 900*time.Millisecond, 1100*time.Millisecond)
				c.net.faults(nil)
				c.end(c.polling(2, "a"))
			})
		})
	}
}

// A lost answer is asked for again, and the call is done once.
func TestGroups_ALostAnswerIsAskedForAgain(t *testing.T) {
	inGroupCluster(t, func(c *groupCluster) {
		lost := 0
		c.net.faults(func(_, _ int32, path string) forwardFault {
			if path == wire.PathGroupCall {
				if lost++; lost%2 == 1 {
					return loseAnswer
				}
			}
			return noFault
		})
		c.join(2, "a")
		p := c.polling(3, "a")
		c.end(p)
		c.done(2, commit(c, "a", 7))
		c.is(7, 1)
		c.done(3, group.Call{Leave: &group.Leave{Instance: "a"}})
		if lost < 10 {
			t.Errorf("only %d calls were forwarded", lost)
		}
		_, err := c.do(1, time.Second, commit(c, "a", 8))
		var unknown *group.UnknownInstanceError
		if !errors.As(err, &unknown) || !unknown.Left {
			t.Errorf("it has left: %v", err)
		}
	})
}

// Two polls of one member at once, by way of two brokers: one of them is refused.
func TestH35_TwoFrontsOfOneInstance(t *testing.T) {
	inGroupCluster(t, func(c *groupCluster) {
		c.join(1, "a")
		first := c.polling(2, "a")
		start := time.Now()
		_, err := c.poll(3, "a", 5*time.Second)
		var running *group.PollRunningError
		if !errors.As(err, &running) {
			t.Errorf("a second poll: %v", err)
		}
		within(t, start, 400*time.Millisecond, time.Second)
		// It doesn't wait in vain for an End that is on its way.
		go func() {
			time.Sleep(200 * time.Millisecond)
			_ = first.End(context.Background(), true, nil)
		}()
		second, err := c.poll(3, "a", 5*time.Second)
		c.must(err)
		c.end(second)
	})
}

// A front that dies in a poll keeps the member from polling for three seconds.
func TestGroups_AFrontDiesInAPoll(t *testing.T) {
	inGroupCluster(t, func(c *groupCluster) {
		c.join(1, "a")
		c.polling(3, "a")
		time.Sleep(10 * time.Second)
		_, err := c.poll(2, "a", time.Second)
		var running *group.PollRunningError
		if !errors.As(err, &running) {
			t.Fatalf("the poll goes on while its front lives: %v", err)
		}
		c.fail(3)
		time.Sleep(4 * time.Second)
		c.end(c.polling(2, "a"))
	})
}

// A client that leaves before its poll has begun leaves nothing running.
func TestGroups_ALostBeginEndsItself(t *testing.T) {
	inGroupCluster(t, func(c *groupCluster) {
		c.join(1, "a")
		c.net.faults(func(_, _ int32, path string) forwardFault {
			if path == wire.PathGroupCall {
				return serveAndHang
			}
			return noFault
		})
		_, err := c.poll(3, "a", time.Second)
		c.refused("poll", err)
		c.net.faults(nil)
		c.settle()
		time.Sleep(100 * time.Millisecond) // less than beats are missed for
		c.end(c.polling(2, "a"))
	})
}

// A member that is waiting hears at once that partitions are to move, and the newcomer
// gets them.
func TestGroups_PartitionsMoveWhilePollsWait(t *testing.T) {
	inGroupCluster(t, func(c *groupCluster) {
		c.join(1, "a")
		a := c.polling(2, "a")
		if n := len(partitionsOf(a)); n != 4 {
			t.Fatalf("it owns %d", n)
		}
		start := time.Now()
		c.join(3, "b")
		b, err := c.poll(3, "b", 20*time.Second)
		c.must(err)
		for len(partitionsOf(b)) < 2 {
			select {
			case <-a.Changed():
				c.must(a.Renew(context.Background()))
			case <-b.Changed():
				c.must(b.Renew(context.Background()))
			}
		}
		within(t, start, 0, time.Second)
		if len(partitionsOf(a)) != 2 || slices.ContainsFunc(partitionsOf(a), func(n int32) bool { return slices.Contains(partitionsOf(b), n) }) {
			t.Errorf("they own %v and %v", partitionsOf(a), partitionsOf(b))
		}
		c.end(a)
		c.end(b)
	})
}

// A poll outlives its coordinator: it looks again, and goes on.
func TestGroups_APollOutlivesItsCoordinator(t *testing.T) {
	inGroupCluster(t, func(c *groupCluster) {
		c.join(1, "a")
		p := c.polling(3, "a")
		c.fail(1)
		<-p.Changed()
		c.must(p.Renew(context.Background()))
		if n := len(partitionsOf(p)); n != 4 {
			t.Errorf("it owns %d", n)
		}
		time.Sleep(10 * time.Second)
		_, err := c.poll(2, "a", time.Second)
		var running *group.PollRunningError
		if !errors.As(err, &running) {
			t.Errorf("the new coordinator knows of it: %v", err)
		}
		c.end(p)
	})
}

// A silent member expires after its time; with a new coordinator that begins anew, and
// a waiting poll is life.
func TestGroups_ExpiryWhileTheCoordinatorMoves(t *testing.T) {
	inGroupCluster(t, func(c *groupCluster) {
		c.join(1, "silent", sessionOf(10*time.Second))
		c.join(1, "polls", sessionOf(10*time.Second))
		p := c.polling(3, "polls")
		time.Sleep(8 * time.Second)
		c.fail(1)
		members := func() (names []string) {
			for _, m := range c.done(2, group.Call{Describe: &group.Describe{}}).Description.Members {
				names = append(names, m.Instance)
			}
			return names
		}
		time.Sleep(5 * time.Second)
		if got := members(); len(got) != 2 {
			t.Errorf("5 s after the change of coordinators there are %v", got)
		}
		<-p.Changed()
		c.must(p.Renew(context.Background()))
		time.Sleep(6 * time.Second)
		if got := members(); !slices.Equal(got, []string{"polls"}) {
			t.Errorf("11 s after it there are %v", got)
		}
		var gone *group.UnknownInstanceError
		if _, err := c.poll(2, "silent", time.Second); !errors.As(err, &gone) || gone.Expired < 10*time.Second {
			t.Errorf("it expired: %v", err)
		}
		c.end(p)
	})
}

// A coordinator that hands over leaves no call in doubt.
func TestGroups_HandOver(t *testing.T) {
	inGroupCluster(t, func(c *groupCluster) {
		c.join(1, "a")
		c.end(c.polling(2, "a"))
		stop := make(chan struct{})
		worst := make(chan error, 1)
		go func() {
			var err error
			for offset := int64(0); err == nil; offset++ {
				select {
				case <-stop:
					worst <- nil
					return
				default:
				}
				_, err = c.do(2, 10*time.Second, commit(c, "a", offset))
				time.Sleep(time.Millisecond)
			}
			worst <- err
		}()
		for range 3 {
			time.Sleep(500 * time.Millisecond)
			leader := c.meta(group.Topic, 0).Leader
			_, resume := c.broker(leader).HandOver(context.Background())
			c.lead(leader%3 + 1)
			resume()
		}
		close(stop)
		if err := <-worst; err != nil {
			t.Error(err)
		}
	})
}

// Calls that know more of the metadata than their coordinator wait for it, and not
// for one another.
func TestGroups_ACoordinatorWhoseMetadataIsBehind(t *testing.T) {
	inGroupCluster(t, func(c *groupCluster) {
		c.join(1, "a")
		c.join(1, "b")
		a, b := c.polling(2, "a"), c.polling(3, "b")
		c.broker(1).lag(true)
		c.create("later", 1, all)
		ended := make(chan error, 2)
		start := time.Now()
		for _, p := range []*group.Poll{a, b} {
			go func() { ended <- p.End(context.Background(), true, nil) }()
		}
		time.Sleep(time.Second)
		c.broker(1).lag(false)
		c.must(<-ended)
		c.must(<-ended)
		within(t, start, time.Second, 1500*time.Millisecond)
	})
}
