package replica

import (
	"slices"
	"testing"

	"highwater/replication/wire"
)

func TestR25_HighWatermark(t *testing.T) {
	t.Run("R25: over the ISR, and only what was heard in this epoch", func(t *testing.T) {
		l := newLead(t, nil)
		l.grow(5)
		l.wantHW(6)
		l.fetch(2, 15)
		l.wantHW(6) // nothing is known of 3
		l.fetch(3, 12)
		l.wantHW(12)
		l.fetch(3, 15)
		l.wantHW(15)
	})
	t.Run("R25: only what is durable here", func(t *testing.T) {
		l := newLead(t, func(m *Meta) { m.ISR = []int32{1, 2} })
		l.end += 5
		l.Grown(15, 11)
		l.Fetched(Fetch{Replica: 2, BrokerEpoch: 102, LeaderEpoch: 5, Offset: 15, LastEpoch: 5}, Local{Start: 2, Written: 15, Durable: 11, Epochs: l.local().Epochs}, t0)
		l.wantHW(11)
		l.Grown(15, 15)
		l.wantHW(15)
	})
	t.Run("R25: never back", func(t *testing.T) {
		l := newLead(t, nil)
		l.fetch(2, 10)
		l.fetch(3, 10)
		l.wantHW(10)
		l.fetch(3, 4)
		l.wantHW(10)
	})
	t.Run("R28: not below the least size", func(t *testing.T) {
		l := newLead(t, func(m *Meta) { m.ISR = []int32{1} })
		l.wantHW(6)
	})
	t.Run("R52: alone, where one is enough", func(t *testing.T) {
		l := newLead(t, func(m *Meta) { m.ISR, m.MinInSync = []int32{1}, 1 })
		l.wantHW(10)
	})
}

func TestR26_HighWatermarkOverChangesOfTheSet(t *testing.T) {
	t.Run("R26: an expansion counts from when it is sent", func(t *testing.T) {
		l := newLead(t, func(m *Meta) { m.ISR = []int32{1, 2} })
		l.fetch(2, 10)
		l.fetch(3, 10)
		c := l.Change(l.now)
		l.grow(5)
		l.fetch(2, 15)
		l.wantHW(10)
		l.Decided(c, Ambiguous, Meta{})
		l.wantHW(10)
	})
	t.Run("R26: a shrink counts from when it is committed", func(t *testing.T) {
		l := newLead(t, nil)
		l.now = t0.Add(11 * second)
		l.fetch(2, 10)
		c := l.Change(l.now)
		if !slices.Equal(ids(c.ISR), []int32{1, 2}) {
			t.Fatalf("proposed %+v", c)
		}
		l.wantHW(6)
		m := l.Meta()
		m.PartitionEpoch, m.ISR = 8, []int32{1, 2}
		l.Decided(c, Committed, m)
		l.wantHW(10)
	})
}

func TestR29_HighWatermarkWaitsForWhoIsAboutToJoin(t *testing.T) {
	t.Run("R29: it waits for who is about to join, not for long", func(t *testing.T) {
		l := newLead(t, func(m *Meta) { m.ISR = []int32{1, 2} })
		l.fetch(2, 10)
		l.fetch(3, 10)
		l.grow(5)
		l.fetch(2, 15)
		l.wantHW(10)
		l.now = t0.Add(11 * second)
		l.fetch(2, 15)
		l.wantHW(15)
	})
	t.Run("R29: nor for who comes back with a lot to catch up with", func(t *testing.T) {
		for name, life := range map[string]int64{"the same life": 103, "another life": 104} {
			t.Run(name, func(t *testing.T) {
				l := newLead(t, nil)
				l.fetch(2, 10)
				l.fetch(3, 10)
				m := l.Meta()
				m.PartitionEpoch, m.ISR = 8, []int32{1, 2} // fenced
				l.SetMeta(m)
				l.grow(50)
				l.fetch(2, 60)
				l.lives[3] = life
				l.now = t0.Add(second)
				l.fetchAs(3, life, 20)
				l.wantHW(60)
				if c := l.Change(l.now); c != nil {
					t.Errorf("proposed %+v", c)
				}
				l.fetchAs(3, life, 60)
				l.grow(5)
				l.fetch(2, 65)
				l.wantHW(60) // now it is about to join
				if c := l.Change(l.now); c == nil {
					t.Error("it has caught up and isn't proposed")
				}
			})
		}
	})
	t.Run("R29: nor for who was outside already when it went away", func(t *testing.T) {
		l := newLead(t, func(m *Meta) { m.ISR = []int32{1, 2} })
		l.fetch(2, 10)
		l.fetch(3, 10)
		l.grow(50)
		l.lives[3] = 104
		l.fetchAs(3, 104, 20)
		l.fetch(2, 60)
		l.wantHW(60)
	})
	t.Run("R29: nor for who can't join", func(t *testing.T) {
		l := newLead(t, func(m *Meta) { m.ISR = []int32{1, 2} })
		l.fetch(2, 10)
		l.fetch(3, 10)
		delete(l.lives, 3)
		l.grow(5)
		l.fetch(2, 15)
		l.wantHW(15)
	})
}

func TestR42_WhoMayJoin(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(l *lead)
		joins   bool
	}{
		"all is shown":                 {func(l *lead) { l.fetch(3, 10) }, true},
		"no fetch in this epoch":       {func(*lead) {}, false},
		"below the start of the epoch": {func(l *lead) { l.fetch(3, 9) }, false},
		"below the high watermark": {func(l *lead) {
			l.fetch(3, 10)
			l.grow(5)
			l.fetch(2, 15)
			delete(l.lives, 3)
			l.HighWatermark()
			l.lives[3] = 103
		}, false},
		"fenced":                             {func(l *lead) { l.fetch(3, 10); delete(l.lives, 3) }, false},
		"another life than the one it is in": {func(l *lead) { l.fetch(3, 10); l.lives[3] = 104 }, false},
		"it has been behind for too long":    {func(l *lead) { l.fetch(3, 10); l.now = t0.Add(11 * second); l.fetch(2, 10) }, false},
		"a recovery is not over (R79)":       {func(l *lead) { l.fetch(3, 10); l.meta.Recovering = true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLead(t, func(m *Meta) { m.ISR = []int32{1, 2} })
			l.fetch(2, 10)
			c.prepare(l)
			change := l.Change(l.now)
			if joins := change != nil && slices.Contains(ids(change.ISR), 3); joins != c.joins {
				t.Errorf("proposed %+v", change)
			}
			if c.joins && !slices.Equal(change.ISR, []wire.Member{{Broker: 1, Epoch: 101}, {Broker: 2, Epoch: 102}, {Broker: 3, Epoch: 103}}) {
				t.Errorf("R43: proposed %+v", change)
			}
		})
	}
}

func TestR41_LagIsTime(t *testing.T) {
	l := newLead(t, nil)
	l.grow(1_000_000)
	if c := l.Change(t0.Add(9 * second)); c != nil { // R48: and the first fetch may take its time
		t.Errorf("proposed %+v", c)
	}
	c := l.Change(t0.Add(11 * second))
	if c == nil || !slices.Equal(ids(c.ISR), []int32{1}) || c.LeaderEpoch != 5 || c.PartitionEpoch != 7 {
		t.Fatalf("proposed %+v", c)
	}
	if again := l.Change(t0.Add(30 * second)); again != nil {
		t.Errorf("one in flight, and proposed %+v", again)
	}
}

func TestR45_AnswersToAProposal(t *testing.T) {
	propose := func(t *testing.T) (*lead, *Change) {
		l := newLead(t, func(m *Meta) { m.ISR = []int32{1, 2} })
		l.fetch(2, 10)
		l.fetch(3, 10)
		return l, l.Change(l.now)
	}
	maximal := func(t *testing.T, l *lead, want ...int32) {
		t.Helper()
		if got := l.MaximalISR(); !slices.Equal(got, want) {
			t.Errorf("counts on %v, want %v", got, want)
		}
	}
	t.Run("committed", func(t *testing.T) {
		l, c := propose(t)
		m := l.Meta()
		m.ISR, m.PartitionEpoch = []int32{1, 2, 3}, 8
		l.Decided(c, Committed, m)
		maximal(t, l, 1, 2, 3)
		if l.Pending() != nil || !l.View(3).InSync {
			t.Errorf("pending %+v, %+v", l.Pending(), l.View(3))
		}
	})
	t.Run("committed, with metadata from before", func(t *testing.T) {
		l, c := propose(t)
		l.Decided(c, Committed, l.Meta())
		maximal(t, l, 1, 2, 3)
		if l.Resend() != c {
			t.Error("the change is neither over nor to be sent again")
		}
	})
	t.Run("refused: withdrawn before anybody is forgotten", func(t *testing.T) {
		l, c := propose(t)
		l.Decided(c, Rejected, Meta{})
		maximal(t, l, 1, 2, 3)
		back := l.Change(l.now)
		if back == nil || !slices.Equal(ids(back.ISR), []int32{1, 2}) || back.PartitionEpoch != 7 {
			t.Fatalf("proposed %+v", back)
		}
		l.Decided(c, Rejected, Meta{}) // R46: the first one's again
		maximal(t, l, 1, 2, 3)
		m := l.Meta()
		m.PartitionEpoch = 8
		l.Decided(back, Committed, m)
		maximal(t, l, 1, 2)
	})
	t.Run("no clear answer", func(t *testing.T) {
		l, c := propose(t)
		if l.Resend() != nil {
			t.Error("sent again before there was an answer")
		}
		l.Decided(c, Ambiguous, Meta{})
		maximal(t, l, 1, 2, 3)
		if l.Change(t0.Add(30*second)) != nil {
			t.Error("another one while this one may be committed")
		}
		if l.Resend() != c || l.Resend() != nil {
			t.Error("not sent again exactly once")
		}
		m := l.Meta()
		m.PartitionEpoch = 8 // whatever it was
		l.SetMeta(m)
		maximal(t, l, 1, 2)
	})
	t.Run("metadata came first", func(t *testing.T) {
		l, c := propose(t)
		m := l.Meta()
		m.PartitionEpoch, m.ISR = 8, []int32{1, 2, 3}
		l.SetMeta(m)
		l.Decided(c, Rejected, Meta{})
		maximal(t, l, 1, 2, 3)
		if len(l.doubt) != 0 {
			t.Errorf("doubts %v", l.doubt)
		}
	})
}

func TestR79_RecoveredComesFirst(t *testing.T) {
	l := newLead(t, func(m *Meta) { m.ISR, m.MinInSync, m.Recovering = []int32{1}, 1, true })
	l.fetch(2, 10)
	c := l.Change(l.now)
	if c == nil || !c.Recovered || !slices.Equal(ids(c.ISR), []int32{1}) {
		t.Fatalf("proposed %+v", c)
	}
	m := l.Meta()
	m.PartitionEpoch, m.Recovering = 8, false
	l.Decided(c, Committed, m)
	if c = l.Change(l.now); c == nil || c.Recovered || !slices.Equal(ids(c.ISR), []int32{1, 2}) {
		t.Errorf("proposed %+v", c)
	}
}
