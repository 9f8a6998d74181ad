package replica

import (
	"reflect"
	"testing"
	"time"

	"highwater/replication/wire"
)

const second = time.Second

var t0 = time.Unix(1000, 0)

// lead is a leader 1 of [1 2 3] in epoch 5, whose epoch begins at 10, with
// followers in their lives 102 and 103.
type lead struct {
	*Leader
	t     *testing.T
	now   time.Time
	lives map[int32]int64 // of brokers that may be in an ISR
	end   int64
}

func newLead(t *testing.T, change func(*Meta)) *lead {
	l := &lead{t: t, now: t0, lives: map[int32]int64{1: 101, 2: 102, 3: 103}, end: 10}
	m := Meta{LeaderEpoch: 5, PartitionEpoch: 7, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}, MinInSync: 2}
	if change != nil {
		change(&m)
	}
	l.Leader = NewLeader(1, m, 10, 6, t0, Options{LagMax: 10 * second, Alive: func(id int32) (int64, bool) { e, ok := l.lives[id]; return e, ok }})
	return l
}

func (l *lead) local() Local {
	return Local{Start: 2, Written: l.end, Durable: l.end, Epochs: []wire.EpochStart{{Epoch: 3, StartOffset: 2}, {Epoch: 5, StartOffset: 10}}}
}

func (l *lead) grow(n int64) { l.end += n; l.Grown(l.end, l.end) }

// fetch is a valid one of a follower at an offset.
func (l *lead) fetch(id int32, offset int64) Verdict { return l.fetchAs(id, int64(100+id), offset) }

// fetchAs is fetch in another of its lives.
func (l *lead) fetchAs(id int32, life, offset int64) Verdict {
	epoch := int32(5)
	if offset <= 10 {
		epoch = 3
	}
	return l.Fetched(Fetch{Replica: id, BrokerEpoch: life, LeaderEpoch: 5, Offset: offset, LastEpoch: epoch, SentAfter: l.now}, l.local(), l.now)
}

func (l *lead) wantHW(want int64) {
	l.t.Helper()
	if got := l.HighWatermark(); got != want {
		l.t.Errorf("high watermark %d, want %d", got, want)
	}
}

func TestFetchesThatAreRefusedTeachNothing(t *testing.T) {
	valid := Fetch{Replica: 2, BrokerEpoch: 102, LeaderEpoch: 5, Offset: 12, LastEpoch: 5}
	for name, c := range map[string]struct {
		change func(*Fetch)
		want   Verdict
	}{
		"R19: no replica":                     {func(f *Fetch) { f.Replica = 4 }, Verdict{Code: wire.CodeNotReplica}},
		"R19: the leader itself":              {func(f *Fetch) { f.Replica = 1 }, Verdict{Code: wire.CodeNotReplica}},
		"R19: a former life":                  {func(f *Fetch) { f.BrokerEpoch = 101 }, Verdict{Code: wire.CodeStaleBrokerEpoch}},
		"R20: an older leader epoch":          {func(f *Fetch) { f.LeaderEpoch = 4 }, Verdict{Code: wire.CodeFencedLeaderEpoch}},
		"R20, R63: a newer leader epoch":      {func(f *Fetch) { f.LeaderEpoch = 6 }, Verdict{Code: wire.CodeUnknownLeaderEpoch, Deposed: true}},
		"R22: below the log start":            {func(f *Fetch) { f.Offset, f.LastEpoch = 1, -1 }, Verdict{Code: wire.CodeOffsetOutOfRange}},
		"R22: below it, before divergence":    {func(f *Fetch) { f.Offset, f.LastEpoch = 1, 4 }, Verdict{Code: wire.CodeOffsetOutOfRange}},
		"R22: empty, beyond the end":          {func(f *Fetch) { f.Offset, f.LastEpoch = 16, -1 }, Verdict{Code: wire.CodeOffsetOutOfRange}},
		"R21: beyond the end":                 {func(f *Fetch) { f.Offset = 16 }, Verdict{Diverging: &wire.EpochEnd{Epoch: 5, EndOffset: 15}}},
		"R21: an epoch that isn't there":      {func(f *Fetch) { f.LastEpoch = 4 }, Verdict{Diverging: &wire.EpochEnd{Epoch: 3, EndOffset: 10}}},
		"R21: more of an old epoch":           {func(f *Fetch) { f.LastEpoch = 3 }, Verdict{Diverging: &wire.EpochEnd{Epoch: 3, EndOffset: 10}}},
		"R21: older than all":                 {func(f *Fetch) { f.LastEpoch = 1 }, Verdict{Diverging: &wire.EpochEnd{Epoch: 1, EndOffset: 2}}},
		"R21: newer than all":                 {func(f *Fetch) { f.LastEpoch = 9 }, Verdict{Diverging: &wire.EpochEnd{Epoch: 5, EndOffset: 15}}},
		"R90: ends where this begins, unlike": {func(f *Fetch) { f.Offset, f.LastEpoch = 2, 1 }, Verdict{Code: wire.CodeOffsetOutOfRange}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLead(t, nil)
			l.grow(5)
			l.Fetched(valid, l.local(), l.now)
			before := l.View(2)
			f := valid
			f.Offset = 13
			c.change(&f)
			l.now = t0.Add(second)
			if got := l.Fetched(f, l.local(), l.now); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v (%+v), want %+v", got, got.Diverging, c.want)
			}
			if after := l.View(2); after != before {
				t.Errorf("learned %+v from it, was %+v", after, before)
			}
		})
	}
}

func TestFetchesThatAreTaken(t *testing.T) {
	for name, f := range map[string]Fetch{
		"at the end":                         {Offset: 15, LastEpoch: 5},
		"in this epoch":                      {Offset: 12, LastEpoch: 5},
		"at its start":                       {Offset: 10, LastEpoch: 3},
		"in the former one":                  {Offset: 7, LastEpoch: 3},
		"empty, at the log start":            {Offset: 2, LastEpoch: -1, LogStart: 2},
		"empty, within":                      {Offset: 7, LastEpoch: -1, LogStart: 7},
		"empty but for an old epoch's entry": {Offset: 2, LastEpoch: 1, LogStart: 2},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLead(t, nil)
			l.grow(5)
			f.Replica, f.BrokerEpoch, f.LeaderEpoch = 2, 102, 5
			if got := l.Fetched(f, l.local(), l.now); got != (Verdict{}) {
				t.Errorf("got %+v", got)
			}
			if l.View(2).End != f.Offset {
				t.Errorf("R23: %+v", l.View(2))
			}
		})
	}
}

func TestR23_CaughtUp(t *testing.T) {
	at := func(s int) time.Time { return t0.Add(time.Duration(s) * second) }
	t.Run("with all of what there was at the fetch before", func(t *testing.T) {
		l := newLead(t, nil)
		for s := 1; s < 30; s++ { // always one record behind
			l.now = at(s)
			l.fetch(2, l.end)
			l.grow(1)
			if got := l.View(2).LastCaughtUp; got != at(s) {
				t.Fatalf("at %d s: caught up at %v", s, got)
			}
		}
	})
	t.Run("not with less", func(t *testing.T) {
		l := newLead(t, nil)
		l.grow(10)
		for s := 1; s < 5; s++ {
			l.now = at(s)
			l.fetch(2, 10+int64(s))
			l.grow(5)
		}
		if got := l.View(2).LastCaughtUp; got != t0 {
			t.Errorf("caught up at %v", got)
		}
	})
	t.Run("a session's silence says the same again", func(t *testing.T) {
		l := newLead(t, nil)
		contact := &Contact{}
		l.Fetched(Fetch{Replica: 2, BrokerEpoch: 102, LeaderEpoch: 5, Offset: 10, LastEpoch: 3, Contact: contact}, l.local(), at(1))
		contact.Touch(at(1))
		contact.Touch(at(8))
		if got := l.View(2).LastCaughtUp; got != at(8) {
			t.Errorf("caught up at %v", got)
		}
		l.grow(1)
		contact.Touch(at(20)) // a fetch of others that says: still at 10
		if got := l.View(2).LastCaughtUp; got != at(8) {
			t.Errorf("behind since 8 s, and caught up at %v", got)
		}
		l.Detach(2, contact)
		contact.Touch(at(25))
		if got := l.follower(2).last(); got != at(20) {
			t.Errorf("a session that has forgotten the partition vouches for it at %v", got)
		}
	})
	t.Run("the same as if every request had named it", func(t *testing.T) {
		quiet, named := newLead(t, nil), newLead(t, nil)
		contact := &Contact{}
		offset := int64(10)
		quiet.Fetched(Fetch{Replica: 2, BrokerEpoch: 102, LeaderEpoch: 5, Offset: offset, LastEpoch: 3, Contact: contact}, quiet.local(), at(0))
		for s := 1; s < 200; s++ {
			now := at(s)
			if s*7919%5 == 0 {
				quiet.grow(1)
				named.grow(1)
			}
			if s*104729%7 < 3 && offset < quiet.end {
				offset++
				quiet.Fetched(Fetch{Replica: 2, BrokerEpoch: 102, LeaderEpoch: 5, Offset: offset, LastEpoch: 5, Contact: contact}, quiet.local(), now)
			}
			named.now = now
			named.fetch(2, offset)
			contact.Touch(now)
			if a, b := quiet.View(2), named.View(2); a != b {
				t.Fatalf("at %d s: %+v, named each time %+v", s, a, b)
			}
		}
	})
}

func TestR53_WhichMetadataCounts(t *testing.T) {
	l := newLead(t, nil)
	with := func(leader, partition int32, least int) Meta {
		m := l.Meta()
		m.LeaderEpoch, m.PartitionEpoch, m.MinInSync = leader, partition, least
		return m
	}
	for _, m := range []Meta{with(4, 9, 1), with(6, 9, 1), with(5, 6, 1)} {
		if l.SetMeta(m); l.Meta().MinInSync != 2 {
			t.Errorf("took %+v", m)
		}
	}
	if l.SetMeta(with(5, 7, 3)); l.Meta().MinInSync != 3 {
		t.Error("an equal partition epoch with other configs was ignored")
	}
	m := with(5, 8, 2)
	m.Replicas, m.ISR = []int32{1, 2, 4}, []int32{1, 2}
	l.fetch(2, 10)
	if l.SetMeta(m); l.View(2).End != 10 || l.fetch(3, 10).Code != wire.CodeNotReplica || l.View(4).End != -1 {
		t.Errorf("R83: %+v %+v", l.View(2), l.View(4))
	}
}

func TestR60_Confirmed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Meta)
		fetch  []int32
		after  time.Duration
		want   bool
	}{
		"all members were heard of":      {nil, []int32{2, 3}, second, true},
		"one wasn't":                     {nil, []int32{2}, second, false},
		"too long ago":                   {nil, []int32{2, 3}, 2 * second, false},
		"an ISR of one":                  {func(m *Meta) { m.ISR, m.MinInSync = []int32{1}, 1 }, nil, 0, false},
		"an ISR below its least size":    {func(m *Meta) { m.ISR, m.MinInSync = []int32{1, 2}, 3 }, []int32{2}, 0, false},
		"where unclean elections happen": {func(m *Meta) { m.Unclean = true }, []int32{2, 3}, 0, false},
		"two of two":                     {func(m *Meta) { m.ISR = []int32{1, 2} }, []int32{2}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLead(t, c.change)
			for _, id := range c.fetch {
				l.fetch(id, 8)
			}
			if got := l.Confirmed(t0.Add(c.after), 1500*time.Millisecond); got != c.want {
				t.Errorf("confirmed: %v", got)
			}
		})
	}
}

// A fetch that lay in a buffer while the leader was paused is old when it is read:
// it proves nothing about now (F32).
func TestR60_AFetchIsAsOldAsItsSending(t *testing.T) {
	l := newLead(t, nil)
	contact := &Contact{}
	late := func(id int32, sent, read time.Duration) {
		l.Fetched(Fetch{Replica: id, BrokerEpoch: int64(100 + id), LeaderEpoch: 5, Offset: 8, LastEpoch: 3, Contact: contact}, l.local(), t0.Add(read))
		contact.Prove(t0.Add(sent))
		contact.Touch(t0.Add(read))
	}
	late(2, 0, 0)
	late(3, 0, 0)
	if !l.Confirmed(t0.Add(second), 1500*time.Millisecond) {
		t.Error("not confirmed by what was sent just now")
	}
	late(2, second/10, 20*second)
	late(3, second/10, 20*second)
	if l.Confirmed(t0.Add(20*second), 1500*time.Millisecond) {
		t.Error("confirmed by what was sent before the pause")
	}
	l.Detach(2, contact)
	contact.Prove(t0.Add(20 * second))
	if l.Confirmed(t0.Add(20*second), 1500*time.Millisecond) {
		t.Error("confirmed by the requests of a session that a follower has left")
	}
}

func TestR51_ANewLeaderDoesNotKnowTheEnd(t *testing.T) {
	l := newLead(t, nil)
	l.fetch(2, 10)
	l.fetch(3, 9)
	l.wantHW(9)
	if l.KnowsEnd() {
		t.Error("knows it at 9, its epoch begins at 10")
	}
	l.fetch(3, 10)
	l.wantHW(10)
	if !l.KnowsEnd() {
		t.Error("doesn't know it at 10")
	}
}
