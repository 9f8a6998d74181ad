package model

import (
	"slices"
	"testing"
	"time"

	"highwater/replication/replica"
	"highwater/replication/wire"
)

func TestF01_NobodyCutsItsLogToItsHighWatermark(t *testing.T) {
	scenario(t, threeBrokers, 0, func(s *script) {
		s.append(L, 1)
		s.replicate(L, A, B)
		s.append(L, 1)
		s.fetch(B, L, 1)
		s.fetch(A, L, 1)
		s.fetch(B, L, 1)
		s.ask(A, L) // with it m2 is committed, and A doesn't hear of it
		s.must(s.p(L).log.hw == 2 && s.p(A).log.hw == 1 && s.p(A).log.end() == 2, "L %+v, A %+v", s.p(L).log, s.p(A).log)
		s.crash(B, A)
		s.loseAll()
		s.fence(B)
		s.register(A)
		s.must(s.isr(L) && slices.Equal(s.meta().ELR, []int32{A}), "%+v", s.meta())
		s.crash(L)
		s.fence(L)
		s.unfence(A)
		s.know(A)
		s.must(s.meta().Leader == A && s.p(A).log.end() == 2, "%+v, A has %v", s.meta(), s.values(A))
		s.heal()
		s.must(s.seen["truncation"] == 0 && len(s.check.parts[0].committed) == 2, "%v", s.seen)
	})
}

func TestF02_TwoLogsThatDivergedAreMadeEqualByEpochs(t *testing.T) {
	cfg := threeBrokers
	cfg.brokers, cfg.factor, cfg.minInSync, cfg.unclean = 2, 2, 1, true
	scenario(t, cfg, 0, func(s *script) {
		s.append(L, 1)
		s.fetch(A, L, 2)
		s.wait(2 * lagMax)
		s.changeISR(L) // without A
		s.append(L, 1)
		s.must(s.p(L).log.hw == 2 && s.isr(L), "L %+v, %+v", s.p(L).log, s.meta())
		s.crash(L, A)
		s.fence(A)
		s.fence(L)
		s.restart(A)
		s.must(s.meta().Leader == A && s.seen["unclean election"] == 1, "%+v", s.meta())
		s.changeISR(A) // recovered
		s.append(A, 1) // m3 at offset 1
		s.restart(L)
		s.must(s.p(L).log.end() == 2, "L cut its log by itself: %v", s.values(L))
		s.replicate(A, L)
		s.must(slices.Equal(s.values(L), s.values(A)) && s.seen["truncation"] == 1, "L has %v, A %v", s.values(L), s.values(A))
		s.heal()
	})
}

// pair is two logs, of which one follows the other's leader until nothing is new.
func pair(t *testing.T, leader, follower *memLog, epoch int32) (targets []int64) {
	t.Helper()
	leader.note(epoch)
	l := replica.NewLeader(1, replica.Meta{LeaderEpoch: epoch, Replicas: []int32{1, 2}, ISR: []int32{1}, MinInSync: 1}, leader.end(), 0, time.Unix(1, 0),
		replica.Options{LagMax: lagMax, Alive: func(int32) (int64, bool) { return 1, true }})
	for range 20 {
		if follower.end() == leader.end() && follower.lastEpoch() == leader.lastEpoch() {
			return targets
		}
		f := replica.Fetch{Replica: 2, BrokerEpoch: 1, LeaderEpoch: epoch, Offset: follower.end(), LastEpoch: follower.lastEpoch(), LogStart: follower.start}
		v := l.Fetched(f, leader.local(), time.Unix(2, 0))
		answer := &wire.FetchedPartition{Code: v.Code, LeaderEpoch: epoch, Leader: 1, LogStart: leader.start, LeaderEnd: leader.end(), Diverging: v.Diverging}
		if v.Code == wire.OK && v.Diverging == nil {
			answer.Batches = leader.read(f.Offset, 100)
			if len(answer.Batches) == 0 {
				return targets
			}
		}
		d := replica.Decide(replica.Sent{LeaderEpoch: epoch, Offset: f.Offset},
			replica.Now{LeaderEpoch: epoch, Assigned: true, End: follower.end(), LogStart: follower.start, Epochs: follower.epochs}, answer)
		switch d.Step {
		case replica.Append:
			follower.appendRaw(answer.Batches)
		case replica.Truncate:
			targets = append(targets, d.Offset)
			follower.truncate(d.Offset)
		case replica.Reset:
			targets = append(targets, d.Offset)
			follower.reset(d.Offset)
		default:
			t.Fatalf("%+v after %+v, %+v", d, f, v)
		}
	}
	t.Fatalf("no end: cut to %v", targets)
	return nil
}

// logOf makes a log of stretches {epoch, number of records}.
func logOf(stretches ...[2]int) *memLog {
	l := &memLog{}
	for _, s := range stretches {
		l.note(int32(s[0]))
		for range s[1] {
			l.append(record{epoch: int32(s[0]), value: int64(s[0])*1000 + l.end()})
		}
	}
	return l
}

func TestF03_FastLeaderChanges(t *testing.T) {
	for name, c := range map[string]struct {
		leader, follower *memLog
		want             []int64
	}{
		"KIP-279":                       {logOf([2]int{0, 5}, [2]int{2, 2}), logOf([2]int{0, 3}, [2]int{1, 4}), []int64{3}},
		"the follower is longer":        {logOf([2]int{0, 5}, [2]int{2, 2}), logOf([2]int{0, 5}, [2]int{1, 9}), []int64{5}},
		"several rounds":                {logOf([2]int{0, 2}, [2]int{2, 3}, [2]int{4, 2}), logOf([2]int{0, 4}, [2]int{3, 3}, [2]int{5, 3}), []int64{7, 4, 2}},
		"nothing in common":             {logOf([2]int{1, 4}), logOf([2]int{0, 3}), []int64{0}},
		"an epoch of which it lacks":    {logOf([2]int{0, 5}, [2]int{2, 2}), logOf([2]int{0, 5}, [2]int{2, 1}), nil},
		"an epoch of which it has more": {logOf([2]int{0, 5}, [2]int{2, 2}), logOf([2]int{0, 8}), []int64{5}},
		"an empty one":                  {logOf([2]int{0, 5}, [2]int{2, 2}), logOf(), nil},
		"an empty epoch at the end":     {logOf([2]int{0, 5}, [2]int{2, 2}), logOf([2]int{0, 5}, [2]int{1, 0}), []int64{5}},
	} {
		t.Run(name, func(t *testing.T) {
			got := pair(t, c.leader, c.follower, 9)
			if !slices.Equal(c.leader.recs, c.follower.recs) {
				t.Errorf("leader %v, follower %v", c.leader.recs, c.follower.recs)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("cut to %v, want %v", got, c.want)
			}
		})
	}
}

func TestF03_LogStartsThatMoved(t *testing.T) {
	moved := func(l *memLog, start int64) *memLog { l.advanceStart(start); return l }
	for name, c := range map[string]struct {
		leader, follower *memLog
		want             []int64
	}{
		"R90: all of it is deleted at the leader":         {moved(logOf([2]int{0, 9}), 6), logOf([2]int{0, 4}), []int64{6}},
		"it goes on where the leader begins":              {moved(logOf([2]int{0, 9}), 6), logOf([2]int{0, 6}), nil},
		"it ends there, in an epoch that is forgotten":    {moved(logOf([2]int{2, 9}), 6), logOf([2]int{1, 6}), []int64{6}},
		"it reaches beyond, in an epoch that's forgotten": {moved(logOf([2]int{2, 9}), 6), logOf([2]int{1, 8}), []int64{6, 6}},
		"an empty one begins beyond the leader's end":     {logOf([2]int{0, 3}), &memLog{start: 7, durable: 7}, []int64{0}},
	} {
		t.Run(name, func(t *testing.T) {
			got := pair(t, c.leader, c.follower, 9)
			from := max(c.leader.start, c.follower.start)
			if !slices.Equal(c.leader.recs[from-c.leader.start:], c.follower.recs[from-c.follower.start:]) || c.leader.end() != c.follower.end() {
				t.Errorf("leader %v, follower %v", c.leader.recs, c.follower.recs)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("cut to %v, want %v", got, c.want)
			}
		})
	}
}

func TestF04_TwoElectionsWithoutAWrite(t *testing.T) {
	scenario(t, threeBrokers, 0, func(s *script) {
		s.append(L, 10)
		s.replicate(L, A, B)
		s.elect(A)
		s.know(A)
		s.elect(L)
		s.know()
		s.must(s.p(A).log.lastEpoch() == 1 && s.p(L).log.lastEpoch() == 2, "epochs %v, %v", s.p(A).log.epochs, s.p(L).log.epochs)
		s.fetch(A, L, 1) // diverges at the end: nothing but the entry is cut
		s.must(s.p(A).log.end() == 10 && s.p(A).log.lastEpoch() == 0, "A has %+v", s.p(A).log)
		s.fetch(A, L, 1)
		s.must(s.p(L).lead.View(A).End == 10, "A is at %+v", s.p(L).lead.View(A))
		s.heal()
		s.must(s.seen["log started anew"] == 0, "%v", s.seen)
	})
}

func TestF05_AnIdlePartitionsEpochs(t *testing.T) {
	scenario(t, threeBrokers, 0, func(s *script) {
		s.append(L, 3)
		s.replicate(L, A, B)
		s.elect(A)
		s.know()
		s.replicate(A, L, B)
		s.crash(L, B)
		s.elect(A)
		for range 5 { // epochs that nobody but the leader ever hears of
			s.restart(L)
			s.know(A)
			s.fetch(L, A, 3)
			s.changeISR(A)
			s.elect(L)
			s.know(A, L)
			s.fetch(A, L, 3)
			s.elect(A)
			s.know(A, L)
			s.fetch(L, A, 3)
			s.crash(L)
		}
		s.heal()
		s.must(s.seen["log started anew"] == 0 && len(s.values(B)) == 3, "%v", s.seen)
	})
}

func TestF06_ATailThatWasNeverCommittedGoes(t *testing.T) {
	scenario(t, threeBrokers, 0, func(s *script) {
		s.append(L, 5)
		s.replicate(L, A, B)
		s.append(L, 5) // while it is cut off
		s.fence(L)
		s.know(A, B)
		s.append(A, 1)
		s.replicate(A, B)
		s.must(s.p(A).log.hw == 6 && len(s.p(L).waiters) == 5, "A %+v, waiting at L %v", s.p(A).log, s.p(L).waiters)
		s.know(L)
		s.unfence(L)
		s.replicate(A, L)
		s.must(slices.Equal(s.values(L), s.values(A)) && len(s.p(L).waiters) == 0, "L has %v, A %v", s.values(L), s.values(A))
		s.must(s.seen["outcome unknown: cut off after a leader change"] == 5, "%v", s.seen)
		s.heal()
	})
}

func TestF07_AnEpochThatAFollowerMissed(t *testing.T) {
	scenario(t, threeBrokers, 0, func(s *script) {
		s.append(L, 2)
		s.replicate(L, A, B)
		s.append(L, 3)
		s.fetch(B, L, 1) // B has the tail, A hasn't
		s.elect(A)
		s.know(A, L) // not B
		s.append(A, 1)
		s.replicate(A, L) // L gives its tail up
		s.elect(L)
		s.know()
		s.must(s.p(B).leader == L && s.p(B).epoch == 2 && s.p(B).log.end() == 5, "B %+v", s.p(B))
		s.replicate(L, B, A)
		s.must(slices.Equal(s.values(B), s.values(L)) && s.seen["leader epoch skipped"] > 0, "B has %v, L %v", s.values(B), s.values(L))
		s.heal()
	})
}

func TestF08_AnAnswerOfALeaderThatWasReplaced(t *testing.T) {
	scenario(t, threeBrokers, replica.NoR16, func(s *script) {
		s.append(L, 2)
		s.replicate(L, A, B)
		s.append(L, 2)
		s.fetch(B, L, 1) // a tail that A lacks
		s.elect(A)
		s.know(A, B, L)
		s.ask(B, A) // A: yours diverges at 2
		s.elect(L)
		s.know(L, B) // before it hears that
		s.fetch(B, L, 2)
		s.fetch(A, L, 1)
		s.know(A)
		s.replicate(L, A, B)
		s.must(s.p(L).log.hw == 4 && s.p(B).log.end() == 4, "L %+v, B %+v", s.p(L).log, s.p(B).log)
		s.elect(A)
		s.know() // A leads again, and now its old answer arrives
		s.deliver("fetched", A, B)
		s.must(s.p(B).log.end() == 4 && s.seen["answer dropped"] == 1, "B has %v", s.values(B))
		s.heal()
	})
}

func TestF09_ANewLeaderThatDoesNotKnowWhatIsCommitted(t *testing.T) {
	scenario(t, threeBrokers, replica.NoR42LeaderEpochStart, func(s *script) {
		s.append(L, 7)
		s.replicate(L, A, B)
		s.append(L, 1)
		s.fetch(B, L, 1) // B has 8
		s.fetch(A, L, 1)
		s.append(L, 2)
		s.fetch(A, L, 1)
		s.crash(B)
		s.fence(B)
		s.know(L)
		s.ask(A, L) // A has 10, and L, but not A, knows that they are committed
		s.must(s.p(L).log.hw == 10 && s.p(A).log.hw == 7, "L %+v, A %+v", s.p(L).log, s.p(A).log)
		s.loseAll()
		s.elect(A)
		s.know(A)
		s.must(!s.p(A).lead.KnowsEnd(), "R51: A knows the end, its high watermark is %d", s.p(A).log.hw)
		s.restart(B)
		s.know(A)
		s.ask(B, A) // from 8, which is above A's high watermark
		s.nodes[A-1].change(s.p(A))
		if len(s.bag) > 0 && slices.ContainsFunc(s.bag, func(m *message) bool { return m.kind == "alter" }) {
			s.deliver("alter", A, 0)
		}
		s.must(s.isr(L, A), "B joined with 8 of 10: %+v", s.meta())
		s.know(L)
		s.fetch(L, A, 2)
		s.must(s.p(A).lead.KnowsEnd() && s.p(A).log.hw == 10, "A's high watermark is %d", s.p(A).log.hw)
		s.heal()
	})
}
