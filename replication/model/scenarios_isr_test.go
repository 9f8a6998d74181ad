package model

import (
	"slices"
	"testing"
	"time"

	"highwater/replication/controller"
	"highwater/replication/replica"
	"highwater/replication/wire"
)

func TestF11_AnIsolatedLeaderCannotShrinkTheISRAlone(t *testing.T) {
	scenario(t, threeBrokers, replica.NoR26Shrink, func(s *script) {
		s.append(L, 2)
		s.replicate(L, A, B)
		s.append(L, 2) // nobody hears of it
		s.wait(2 * lagMax)
		s.nodes[L-1].change(s.p(L)) // wants [L]
		s.pick("alter", L, 0)       // lost
		s.p(L).fsync()
		s.must(slices.Equal(s.p(L).lead.MaximalISR(), []int32{L, A, B}), "counts on %v", s.p(L).lead.MaximalISR())
		s.must(s.p(L).log.hw == 2 && len(s.p(L).waiters) == 2, "L %+v", s.p(L).log)
		s.must(!s.p(L).lead.Confirmed(s.now, time.Second), "R60: L is confirmed by nobody")
		s.nodes[L-1].altered(s.p(L), s.p(L).proposal, wire.CodeOther, 0) // timed out
		s.must(s.p(L).log.hw == 2, "L %+v", s.p(L).log)
		s.fence(L)
		s.know(A, B)
		s.append(A, 1)
		s.replicate(A, B)
		s.must(s.p(A).log.hw == 3, "A %+v", s.p(A).log)
		s.heal()
	})
}

// joining has B outside the ISR, and caught up, so that L would let it in.
func joining(s *script) {
	s.append(L, 3)
	s.replicate(L, A, B)
	s.wait(2 * lagMax)
	s.fetch(A, L, 1)
	s.changeISR(L)
	s.know(L)
	s.must(s.isr(L, A), "%+v", s.meta())
	s.fetch(A, L, 1)
	s.fetch(B, L, 1)
}

func TestF12_AnExpansionThatIsAppliedLate(t *testing.T) {
	scenario(t, threeBrokers, replica.NoR26, func(s *script) {
		joining(s)
		s.propose(L)
		s.pick("altered", 0, L) // committed, and L doesn't hear of it
		s.must(s.isr(L, A, B), "%+v", s.meta())
		s.wait(2 * lagMax) // R29 has nothing to wait for any more
		s.append(L, 1)
		s.fetch(A, L, 2)
		s.p(L).advanceHW()
		s.must(s.p(L).log.hw == 3 && len(s.p(L).waiters) == 1, "L acknowledged without B: %+v", s.p(L).log)
		s.fence(A)
		s.fence(L)
		s.know(B)
		s.must(s.meta().Leader == B, "%+v", s.meta())
		s.heal()
	})
}

func TestF13_AnAmbiguousAnswerIsNoRefusal(t *testing.T) {
	scenario(t, threeBrokers, replica.NoR45, func(s *script) {
		joining(s)
		s.propose(L)
		c := s.p(L).proposal
		s.nodes[L-1].altered(s.p(L), c, wire.CodeOther, 0) // timed out; in truth committed
		s.must(s.p(L).lead.Pending() == c || s.cfg.mutation != 0, "no change is pending any more")
		s.wait(2 * lagMax)
		s.append(L, 1)
		s.fetch(A, L, 2)
		s.p(L).advanceHW()
		s.must(s.p(L).log.hw == 3, "L acknowledged without B: %+v", s.p(L).log)
		s.know(L)
		s.must(s.p(L).lead.Pending() == nil && len(s.p(L).lead.MaximalISR()) == 3, "still pending: %+v", s.p(L).lead.Pending())
		s.fetch(B, L, 2)
		s.must(s.p(L).log.hw == 4, "L %+v", s.p(L).log)
		s.heal()
	})
}

func TestF14_AFencedFollowerStaysOut(t *testing.T) {
	scenario(t, threeBrokers, replica.NoR44, func(s *script) {
		joining(s)
		s.fence(B) // which goes on fetching, and L doesn't know
		s.propose(L)
		s.must(s.isr(L, A), "%+v", s.meta())
		s.deliver("altered", 0, L)
		s.must(len(s.p(L).lead.MaximalISR()) == 3, "L counts on %v while a copy of the proposal may be under way", s.p(L).lead.MaximalISR())
		late := s.p(L).lead.Meta().PartitionEpoch
		s.changeISR(L) // withdraws it
		s.must(s.meta().PartitionEpoch > late && len(s.p(L).lead.MaximalISR()) == 2, "%+v, L counts on %v", s.meta(), s.p(L).lead.MaximalISR())
		s.know(L)
		s.nodes[L-1].change(s.p(L))
		s.must(len(s.bag) == 0, "L proposes a fenced broker")
		s.unfence(B)
		s.heal()
	})
}

func TestF15_AFollowerThatLosesItsTailWhileItJoins(t *testing.T) {
	for name, rule := range map[string]replica.Mutation{"the controller compares lives (R44)": replica.NoR44, "the leader names the life that fetched (R42)": replica.NoR42BrokerEpoch} {
		t.Run(name, func(t *testing.T) {
			scenario(t, threeBrokers, rule, func(s *script) {
				joining(s)
				if rule == replica.NoR44 {
					s.nodes[L-1].change(s.p(L)) // under way
				}
				s.crash(B)
				s.disk(B).truncate(1)
				s.disk(B).lossy = true
				s.fence(B)
				s.register(B)
				s.unfence(B)
				s.know(L)
				if rule != replica.NoR44 {
					s.nodes[L-1].change(s.p(L)) // L has not heard the new life yet
				}
				for _, m := range slices.Clone(s.bag) {
					if m.kind == "alter" {
						s.deliver("alter", L, 0)
					}
				}
				s.must(s.isr(L, A), "%+v", s.meta())
				s.heal()
			})
		})
	}
}

func TestF16_AReplicaThatWasRemovedAndAddedAgain(t *testing.T) {
	cfg := threeBrokers
	cfg.brokers = 4
	scenario(t, cfg, replica.NoR42FetchedInEpoch, func(s *script) {
		s.append(L, 3)
		s.replicate(L, A, B)
		reassign := func(replicas ...int32) {
			if err, bad := s.apply(&controller.Reassign{Items: []controller.Reassignment{{Topic: s.topic, Replicas: replicas}}}).(error); bad {
				s.fail("%v", err)
			}
		}
		reassign(L, A, 4)
		s.know()
		s.fetch(4, L, 2)
		s.propose(L) // adds 4, which completes it: B is removed
		s.pick("altered", 0, L)
		s.must(slices.Equal(s.meta().Replicas, []int32{L, A, 4}), "%+v", s.meta())
		s.know(B)
		reassign(L, A, B)
		s.know(B, A, 4)
		s.must(s.p(B).log.end() == 0, "B kept %v", s.values(B))
		s.know(L) // sees only the end
		s.nodes[L-1].change(s.p(L))
		for _, m := range slices.Clone(s.bag) {
			if m.kind == "alter" {
				s.deliver("alter", L, 0)
			}
		}
		s.must(!slices.Contains(s.meta().ISR, B), "%+v", s.meta())
		s.must(s.p(L).lead.View(B).End == -1, "L thinks that B is at %d", s.p(L).lead.View(B).End)
		s.heal()
	})
}

func TestF17_OneReplicaIsNotEnoughForTwo(t *testing.T) {
	scenario(t, threeBrokers, 0, func(s *script) {
		s.append(L, 2)
		s.replicate(L, A, B)
		s.crash(A, B)
		s.fence(B)
		s.fence(A)
		s.know(L)
		s.must(s.isr(L) && slices.Equal(s.meta().ELR, []int32{A}), "%+v", s.meta())
		s.p(L).produce(true) // R54
		s.must(s.seen["not enough replicas"] == 1 && s.p(L).log.end() == 2, "L took it: %v", s.values(L))
		s.p(L).produce(false) // acks=1
		s.p(L).fsync()
		s.must(s.p(L).log.hw == 2 && s.p(L).log.end() == 3, "R28: L %+v", s.p(L).log)
		s.heal()
		s.must(len(s.check.parts[0].committed) == 3, "after the others came back it is committed")
	})
}

func TestF18_TheISRShrinksWhileAProduceWaits(t *testing.T) {
	scenario(t, threeBrokers, 0, func(s *script) {
		s.append(L, 1)
		s.crash(A, B)
		s.fence(A)
		s.fence(B)
		s.know(L)
		s.must(len(s.p(L).waiters) == 0 && s.seen["not enough replicas after append"] == 1, "waits on: %v", s.p(L).waiters)
		s.heal()
	})
}

func TestF19_TheLastReplicaLosesItsTail(t *testing.T) {
	cfg := threeBrokers
	cfg.durable = false
	scenario(t, cfg, 0, func(s *script) {
		s.append(L, 3)
		s.replicate(L, A, B)
		s.fence(B) // cut off from the controller
		s.fence(A)
		s.know(L)
		s.p(L).produce(false)
		s.crash(L)
		s.disk(L).truncate(2) // it never promised fsync
		s.register(L)
		s.must(len(s.meta().ISR) == 0 && slices.Equal(s.meta().ELR, []int32{A}), "%+v", s.meta())
		s.unfence(L)
		s.must(s.meta().Leader == controller.NoLeader, "%+v", s.meta())
		s.unfence(A)
		s.know(A, L)
		s.must(s.meta().Leader == A, "%+v", s.meta())
		s.heal()
		s.must(len(s.check.parts[0].committed) == 3, "%v", s.check.parts[0].committed)
	})
}

func TestF20_OnlyTimeMakesAFollowerSlow(t *testing.T) {
	scenario(t, threeBrokers, 0, func(s *script) {
		s.replicate(L, A, B)
		s.append(L, 1000) // B is a thousand records behind at once
		s.fetch(A, L, 2)
		s.nodes[L-1].change(s.p(L))
		s.must(len(s.bag) == 0 && s.seen["shrink proposed"] == 0, "shrunk by records")
		for range 30 {
			s.wait(lagMax / 10)
			s.append(L, 1)
			s.fetch(A, L, 2)
			if s.nodes[L-1].change(s.p(L)); len(s.bag) > 0 {
				s.deliver("alter", L, 0)
				s.deliver("altered", 0, L)
			}
		}
		s.must(s.seen["shrink proposed"] == 1 && s.isr(L, A), "%v, %+v", s.seen, s.meta())
		s.must(s.p(L).log.hw == s.p(L).log.end(), "the high watermark stands at %d", s.p(L).log.hw)
		for range 30 {
			s.wait(lagMax / 10)
			s.append(L, 1)
			s.fetch(A, L, 2)
			s.fetch(B, L, 2)
			if s.nodes[L-1].change(s.p(L)); len(s.bag) > 0 {
				s.deliver("alter", L, 0)
				s.deliver("altered", 0, L)
			}
		}
		s.must(s.seen["expansion proposed"] == 1 && s.isr(L, A, B), "%v, %+v", s.seen, s.meta())
		s.heal()
	})
}

func TestF21_AFlappingFollower(t *testing.T) {
	scenario(t, threeBrokers, 0, func(s *script) {
		s.replicate(L, A, B)
		for i := range 40 { // one second up, one second down
			s.wait(lagMax / 10)
			s.append(L, 1)
			s.fetch(A, L, 2)
			if i/10%2 == 0 {
				s.fetch(B, L, 2)
			}
			s.nodes[L-1].change(s.p(L))
			for len(s.bag) > 0 {
				s.take(0).deliver()
			}
		}
		s.wait(lagMax / 5)
		s.fetch(A, L, 2)
		s.changeISR(L)
		changes := s.seen["shrink proposed"] + s.seen["expansion proposed"]
		s.must(changes <= 4 && s.seen["election"] == 0, "%d proposals in 4 s", changes)
		s.must(s.p(L).log.hw == s.p(L).log.end(), "the high watermark stands at %d of %d", s.p(L).log.hw, s.p(L).log.end())
		s.heal()
	})
}

func TestF22_ANewLeaderGivesItsFollowersTime(t *testing.T) {
	scenario(t, threeBrokers, 0, func(s *script) {
		s.append(L, 1)
		s.replicate(L, A, B)
		s.wait(5 * lagMax)
		s.elect(A)
		s.know(A)
		s.append(A, 1)
		s.nodes[A-1].change(s.p(A))
		s.must(s.seen["shrink proposed"] == 0, "shrunk before the first fetch could come")
		s.wait(2 * lagMax) // and then it takes its course
		s.changeISR(A)
		s.must(s.isr(A), "%+v", s.meta())
		s.heal()
	})
}

func TestF23_AFollowerThatIsAlwaysAlmostThere(t *testing.T) {
	scenario(t, threeBrokers, 0, func(s *script) {
		s.replicate(L, A, B)
		for range 50 {
			s.wait(lagMax / 5)
			s.ask(A, L)
			s.ask(B, L)
			s.append(L, 1) // comes too late for both answers, each time
			s.deliver("fetched", L, A)
			s.deliver("fetched", L, B)
			s.nodes[L-1].change(s.p(L))
		}
		s.must(s.seen["shrink proposed"] == 0, "thrown out although it had all of 200 ms ago, every time")
		s.must(s.p(L).log.hw >= s.p(L).log.end()-2, "the high watermark stands at %d of %d", s.p(L).log.hw, s.p(L).log.end())
		s.heal()
	})
}

func TestF24_AnOldFetchOfAFormerLife(t *testing.T) {
	scenario(t, threeBrokers, replica.NoR19, func(s *script) {
		s.append(L, 4)
		s.replicate(L, A, B)
		s.append(L, 6)
		s.fetch(A, L, 2)
		s.fetch(B, L, 1)
		s.nodes[B-1].fetch(L, true) // says that B has 10
		old := s.pick("fetch", B, L)
		s.crash(B)
		s.disk(B).truncate(4)
		s.disk(B).lossy = true
		s.fence(B)
		s.register(B)
		s.unfence(B)
		s.know(L, B)
		s.must(s.p(L).log.hw == 10, "L %+v", s.p(L).log) // without B
		s.append(L, 2)
		s.replicate(L, A, B)
		s.know(L)
		s.changeISR(L)
		s.must(s.isr(L, A, B) && s.p(L).log.hw == 12, "%+v, L %+v", s.meta(), s.p(L).log)
		s.nodes[B-1].fetch(L, true)
		again := s.pick("fetch", B, L) // says 12
		s.append(L, 2)
		s.fetch(A, L, 2)
		old.deliver()
		again.deliver()
		s.must(s.p(L).lead.View(B).End == 12, "L thinks that B is at %d", s.p(L).lead.View(B).End)
		s.must(s.seen["fetch refused: STALE_BROKER_EPOCH"] == 1, "the old fetch was taken: %v", s.seen)
		s.heal()
	})
}

func TestF25_AFetchThatIsSentTwice(t *testing.T) {
	scenario(t, threeBrokers, 0, func(s *script) {
		s.append(L, 2)
		s.fetch(A, L, 2)
		s.append(L, 2)
		s.nodes[A-1].fetch(L, true)
		m := s.pick("fetch", A, L)
		m.deliver()
		s.deliver("fetched", L, A)
		s.fetch(A, L, 1) // A is at 4
		m.deliver()      // "at 2"
		s.must(s.seen["fetch refused: FETCH_SESSION"] == 1 && s.p(L).lead.View(A).End == 4, "L thinks that A is at %d", s.p(L).lead.View(A).End)
		s.heal()
	})
}

func TestF26_ALeaderThatOnlyTheControllerCannotReach(t *testing.T) {
	scenario(t, threeBrokers, 0, func(s *script) {
		s.append(L, 1)
		s.replicate(L, A, B)
		s.append(L, 1)
		s.fetch(A, L, 1)
		s.must(s.p(L).lead.Confirmed(s.now, time.Second), "R60: all members have just been heard of")
		s.fence(L)
		s.know(A, B)
		s.wait(1100 * time.Millisecond)
		s.must(!s.p(L).lead.Confirmed(s.now, time.Second), "R60: L is confirmed by fetches that ended")
		s.deliver("notice", A, L) // R64
		s.must(s.p(L).lead == nil && s.p(L).resigned, "L leads on")
		s.fetch(B, A, 3)
		s.unfence(L)
		s.know(L)
		s.fetch(L, A, 3) // A had the record: it is committed in the end
		s.must(s.seen["acknowledged after stepping down"] == 1, "%v, waiting %v", s.seen, s.p(L).waiters)
		s.heal()
	})
}

func TestF27_ALeaderThatNobodyCanReach(t *testing.T) {
	scenario(t, threeBrokers, 0, func(s *script) {
		s.append(L, 1)
		s.replicate(L, A, B)
		s.fence(L)
		s.know(A, B)
		s.append(A, 1)
		s.replicate(A, B)
		s.p(L).produce(true)
		s.p(L).fsync()
		s.wait(1100 * time.Millisecond)
		s.must(!s.p(L).lead.Confirmed(s.now, time.Second) && s.p(L).log.hw == 1, "R60: L %+v", s.p(L).log)
		s.know(L)
		s.unfence(L)
		s.heal()
		s.must(s.seen["outcome unknown: cut off after a leader change"] == 1, "%v", s.seen)
	})
}

func TestF32_ALeaderThatWasPaused(t *testing.T) {
	scenario(t, threeBrokers, 0, func(s *script) {
		s.append(L, 1)
		s.replicate(L, A, B)
		s.p(L).produce(true) // written, and then 20 s of nothing
		s.fence(L)
		s.know(A, B)
		s.append(A, 3)
		s.replicate(A, B)
		s.wait(20 * time.Second)
		s.must(!s.p(L).lead.Confirmed(s.now, time.Second), "R62: L acknowledges what it wrote before the pause")
		s.p(L).fsync()
		s.must(s.p(L).log.hw == 1 && len(s.p(L).waiters) == 1, "L %+v", s.p(L).log)
		s.fetch(B, A, 1)
		s.nodes[B-1].fetchers[L] = nil
		s.p(L).n.change(s.p(L))
		s.deliver("alter", L, 0)
		s.deliver("altered", 0, L)
		s.must(s.isr(A, B) && s.p(L).log.hw == 1, "%+v", s.meta())
		s.heal()
	})
}

func TestF33_AnEmptyDirectory(t *testing.T) {
	scenario(t, threeBrokers, replica.NoR73, func(s *script) {
		s.append(L, 3)
		s.replicate(L, A, B)
		s.crash(B)
		s.nodes[B-1].disk = &disk{id: s.uuid(), logs: make([]*memLog, 1)}
		s.crash(A)
		s.fence(A)
		s.register(B)
		s.crash(L)
		s.fence(L)
		s.unfence(B)
		s.know(B)
		s.must(s.meta().Leader != B, "%+v", s.meta())
		s.heal()
		s.must(len(s.check.parts[0].committed) == 3, "%v", s.check.parts[0].committed)
	})
}

func TestF35_AProcessThatWasReplaced(t *testing.T) {
	scenario(t, threeBrokers, 0, func(s *script) {
		s.append(L, 3)
		s.replicate(L, A, B)
		old := s.nodes[B-1]
		s.takeover(old) // cut off; another process with an empty directory takes its id
		s.nodes[B-1].applied = s.index()
		s.nodes[B-1].register()
		s.deliver("register", B, 0)
		s.deliver("registered", 0, B)
		s.unfence(B)
		s.know(L, A, B)
		s.replicate(L, A, B)
		old.fetch(L, true)
		s.deliver("fetch", B, L)
		s.must(s.seen["fetch refused: STALE_BROKER_EPOCH"] == 1, "%v", s.seen)
		old.heartbeat()
		s.deliver("heartbeat", B, 0)
		s.deliver("stale", 0, B)
		s.must(!old.up, "R68: it goes on")
		s.heal()
	})
}

func TestF38_AFollowerThatIsHeardOfNoMore(t *testing.T) {
	scenario(t, threeBrokers, 0, func(s *script) {
		s.append(L, 1)
		s.replicate(L, A, B)
		for range 15 { // A's requests get lost; the controller sees all three
			s.wait(lagMax / 10)
			s.append(L, 1)
			s.fetch(B, L, 2)
			s.nodes[A-1].fetch(L, true)
			s.pick("fetch", A, L)
			if s.nodes[L-1].change(s.p(L)); len(s.bag) > 0 {
				s.deliver("alter", L, 0)
				s.deliver("altered", 0, L)
			}
		}
		s.must(s.isr(L, B) && s.meta().LeaderEpoch == 0, "%+v", s.meta())
		s.must(s.p(L).log.hw == s.p(L).log.end(), "the high watermark stands at %d of %d", s.p(L).log.hw, s.p(L).log.end())
		s.heal()
	})
}
