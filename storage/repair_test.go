package storage

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
)

// pair is a leader's log and that of a follower that has all of it.
type pair struct{ leader, follower *memStore }

// newPair makes logs of 40 batches over several epochs and segments.
func newPair(t testing.TB) pair {
	p := pair{newMemStore(t, LogConfig{SegmentBytes: 900}), newMemStore(t, LogConfig{SegmentBytes: 900})}
	for i := range 40 {
		epoch := int32(1 + i/7)
		st, err := p.leader.log.Stage([]Batch{makeBatch(t, CompressionNone, int(p.leader.log.StagedEnd()), 1+i%4, 30, steady)}, epoch)
		if err == nil {
			err = p.leader.log.Sync(st)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p.catchUp(t)
	return p
}

// rawFrom is the leader's batches from offset on.
func (p pair) rawFrom(t testing.TB, offset int64) []byte {
	raw := rawLog(t, p.leader.log)
	for len(raw) > 0 && Batch(raw).BaseOffset() < offset {
		raw = raw[Batch(raw).Size():]
	}
	return slices.Clone(raw)
}

func (p pair) catchUp(t testing.TB) {
	t.Helper()
	if raw := p.rawFrom(t, p.follower.log.WrittenEnd()); len(raw) > 0 {
		mustReplicate(t, p.follower.log, raw, 99)
	}
}

// wantEqual compares bytes and epochs (V23).
func (p pair) wantEqual(t testing.TB) {
	t.Helper()
	if p.follower.log.Lossy() {
		t.Fatalf("lossy: %s", p.follower.log.whyLossy())
	}
	if !bytes.Equal(rawLog(t, p.leader.log), rawLog(t, p.follower.log)) {
		t.Fatal("the follower's bytes differ from the leader's")
	}
	if l, f := p.leader.log.Epochs(), p.follower.log.Epochs(); !reflect.DeepEqual(l, f) {
		t.Fatalf("epochs %v, the leader's are %v", f, l)
	}
	for o := p.follower.log.StartOffset(); o < p.follower.log.WrittenEnd(); o++ {
		if res, err := p.follower.log.Read(o, p.follower.log.WrittenEnd(), 1, nil); err != nil || Batch(res.Data).BaseOffset() > o {
			t.Fatalf("read at %d: %v", o, err)
		}
		want, ok, err := p.leader.log.OffsetForTimestamp(steady(int(o)), p.leader.log.WrittenEnd())
		got, gotOK, gotErr := p.follower.log.OffsetForTimestamp(steady(int(o)), p.leader.log.WrittenEnd())
		if want != got || ok != gotOK || err != nil || gotErr != nil {
			t.Fatalf("first record at %d is %d %v %v, the leader says %d %v %v", steady(int(o)), got, gotOK, gotErr, want, ok, err)
		}
	}
}

// harm is something that may happen to a follower's segments while it is down.
type harm struct {
	name string
	do   func(s *memStore, bases []int64)
	// noMend: no place is left to put the batches into.
	noMend bool
}

func flipAt(s *memStore, base int64, at func(size int) int) {
	s.edit(base, func(d []byte) []byte { d[at(len(d))] ^= 0x20; return d })
}

var harms = []harm{
	{name: "bit in the middle", do: func(s *memStore, b []int64) { flipAt(s, b[2], func(n int) int { return n / 2 }) }},
	{name: "bit in a base offset", do: func(s *memStore, b []int64) { flipAt(s, b[2], func(int) int { return 7 }) }},
	{name: "bit in the last byte", do: func(s *memStore, b []int64) { flipAt(s, b[2], func(n int) int { return n - 1 }) }},
	{name: "bits in three segments", do: func(s *memStore, b []int64) {
		for i := range 3 {
			flipAt(s, b[1+i], func(n int) int { return n/2 + i })
		}
	}},
	{name: "segment cut off", do: func(s *memStore, b []int64) { s.edit(b[3], func(d []byte) []byte { return d[:len(d)/2] }) }},
	{name: "segment emptied", do: func(s *memStore, b []int64) { s.edit(b[3], func([]byte) []byte { return []byte{} }) }},
	{name: "segment missing", do: func(s *memStore, b []int64) { s.fs.SetContent(s.path(b[3]), nil) }},
	{name: "first segment missing", do: func(s *memStore, b []int64) { s.fs.SetContent(s.path(b[0]), nil) }, noMend: true},
	{name: "zeros in the last segment", do: func(s *memStore, b []int64) {
		s.edit(b[len(b)-1], func(d []byte) []byte { return append(d[:40], make([]byte, len(d)-40)...) })
	}},
	{name: "last segment missing", do: func(s *memStore, b []int64) { s.fs.SetContent(s.path(b[len(b)-1]), nil) }},
	{name: "all segments missing", do: func(s *memStore, b []int64) {
		for _, base := range b {
			s.fs.SetContent(s.path(base), nil)
		}
	}, noMend: true},
}

// harmed is a pair whose follower was harmed and started again.
func harmed(t *testing.T, h harm, withIndex bool) pair {
	p := newPair(t)
	s := p.follower
	var bases []int64
	for _, g := range s.log.segments {
		bases = append(bases, g.base)
	}
	s.log.checkpoint()
	s.kill()
	h.do(s, bases)
	if withIndex { // as it was before the harm, of sizes that lie
		for _, m := range s.ix.current {
			for i := range m.meta.Segments {
				m.meta.Segments[i].Size++
			}
		}
	} else {
		s.loseIndex()
	}
	s.open()
	if !s.log.Lossy() {
		t.Fatal("not lossy")
	}
	s.log.tellLoss()
	s.log.forgetLoss()
	return p
}

// TestF42_DamageIsMendedInPlace: a follower puts what it lost back from the
// leader's bytes, and nothing else changes; the damage doesn't come back.
func TestF42_DamageIsMendedInPlace(t *testing.T) {
	for _, h := range harms {
		for _, withIndex := range []bool{true, false} {
			for _, pieces := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/index %v/pieces %v", h.name, withIndex, pieces), func(t *testing.T) {
					p := harmed(t, h, withIndex)
					if h.noMend {
						t.Skip("nothing to mend")
					}
					s, end := p.follower, p.follower.log.WrittenEnd()
					for range 200 {
						damage := s.log.Damage()
						if len(damage) == 0 {
							break
						}
						d := damage[len(damage)-1] // any order will do
						raw := p.rawFrom(t, d.From)
						n := 0
						for n < len(raw) && Batch(raw[n:]).BaseOffset() < d.To && (n == 0 || !pieces) {
							n += Batch(raw[n:]).Size()
						}
						if err := s.log.Mend(raw[:n]); err != nil {
							t.Fatalf("mending [%d, %d): %v", d.From, d.To, err)
						}
					}
					if got := s.log.WrittenEnd(); got != end {
						t.Errorf("the end moved from %d to %d", end, got)
					}
					p.catchUp(t) // what was taken for a torn tail, without the index
					p.wantEqual(t)
					s.kill()
					s.open()
					p.wantEqual(t)
					s.loseIndex()
					s.kill()
					s.open()
					s.log.tellLoss()
					s.log.forgetLoss()
					p.wantEqual(t)
				})
			}
		}
	}
}

// TestF42_DamageIsDroppedAndFetchedAgain: the other way, which always works.
func TestF42_DamageIsDroppedAndFetchedAgain(t *testing.T) {
	for _, h := range harms {
		for _, withIndex := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/index %v", h.name, withIndex), func(t *testing.T) {
				p := harmed(t, h, withIndex)
				s := p.follower
				end, err := s.log.DropDamage()
				if err != nil {
					t.Fatal(err)
				}
				if s.log.Lossy() || end != s.log.WrittenEnd() {
					t.Fatalf("ends at %d, lossy: %s", end, s.log.whyLossy())
				}
				if s.log.StartOffset() > 0 { // the first segment is gone: R90 has to do it
					if err := s.log.ResetTo(0); err != nil {
						t.Fatal(err)
					}
				}
				p.catchUp(t)
				p.wantEqual(t)
				s.kill()
				s.open()
				p.wantEqual(t)
			})
		}
	}
}

// TestDropDamageKeepsTheStart: where the log start lies in the damage, it stays.
func TestDropDamageKeepsTheStart(t *testing.T) {
	for _, h := range harms {
		if !h.noMend {
			continue // only lost first segments leave the start inside
		}
		s := harmed(t, h, true).follower
		if err := s.log.AdvanceStart(2); err != nil {
			t.Fatal(err)
		}
		if end, err := s.log.DropDamage(); err != nil || end != 2 || s.log.StartOffset() != 2 {
			t.Errorf("%s: log is [%d, %d), %v", h.name, s.log.StartOffset(), end, err)
		}
	}
}

// TestF42_FoundWhileServing: a bit that flips under a running replica is found by
// the reader, and mended, and readers go on in front and behind.
func TestF42_FoundWhileServing(t *testing.T) {
	p := newPair(t)
	s := p.follower
	s.edit(s.log.segments[2].base, func(d []byte) []byte { d[len(d)/2] ^= 1; return d })
	var corrupt *CorruptError
	for o := int64(0); o < s.log.WrittenEnd(); o++ {
		if _, err := s.log.Read(o, s.log.WrittenEnd(), 1, nil); err != nil && !errors.As(err, &corrupt) {
			t.Fatal(err)
		}
	}
	damage := s.log.Damage()
	if corrupt == nil || len(damage) != 1 || !s.log.Lossy() {
		t.Fatalf("%v, damage %v", corrupt, damage)
	}
	raw := p.rawFrom(t, damage[0].From)
	if err := s.log.Mend(raw[:Batch(raw).Size()]); err != nil {
		t.Fatal(err)
	}
	p.wantEqual(t)
}

// TestMendRefusals: bytes that aren't what was lost change nothing.
func TestMendRefusals(t *testing.T) {
	p := harmed(t, harms[0], true)
	s := p.follower
	d := s.log.Damage()[0]
	raw := p.rawFrom(t, d.From)
	right := raw[:Batch(raw).Size()]
	again := func(epoch int32, n int) []byte {
		b := stamped(t, d.From, n, epoch)
		return b
	}
	for name, wrong := range map[string][]byte{
		"more than the range": raw[:len(right)+Batch(raw[len(right):]).Size()],
		"behind it":           raw[len(right) : len(right)+Batch(raw[len(right):]).Size()],
		"another length":      again(Batch(right).LeaderEpoch(), int(d.To-d.From)),
		"a flipped bit":       append(slices.Clone(right[:len(right)-1]), right[len(right)-1]^1),
		"an epoch too high":   func() []byte { b := slices.Clone(right); Batch(b).stamp(d.From, 90); return b }(),
		"an epoch too low":    func() []byte { b := slices.Clone(right); Batch(b).stamp(d.From, 0); return b }(),
	} {
		var refused *ReplicaBatchError
		if err := s.log.Mend(wrong); !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
		if got := s.log.Damage(); len(got) != 1 || got[0] != d {
			t.Fatalf("%s: damage %v, was %v", name, got, d)
		}
	}
	// The rest of a damaged epoch's range may not become one of another epoch.
	other := slices.Clone(right)
	Batch(other).stamp(d.From, Batch(right).LeaderEpoch()+1)
	if _, ok := mendEpochs([]EpochEntry{{1, 0}, {9, 100}}, []Batch{other}, d.From, d.To); ok {
		t.Error("an epoch nobody knew took in offsets outside the range")
	}
	if _, ok := mendEpochs([]EpochEntry{{1, 0}, {9, d.To}}, []Batch{other}, d.From, d.To); !ok {
		t.Error("an epoch that lies in the range as a whole was refused")
	}
	if err := s.log.Mend(right); err != nil {
		t.Fatal(err)
	}
	if err := s.log.Mend(right); err == nil {
		t.Error("mended twice")
	}
	p.wantEqual(t)
	if end, err := s.log.DropDamage(); err != nil || end != s.log.WrittenEnd() {
		t.Errorf("a sound log was cut to %d: %v", end, err)
	}
	p.wantEqual(t)
}

// TestDamageBelowTheStart is none that anybody can meet, and isn't counted.
func TestDamageBelowTheStart(t *testing.T) {
	s := newPair(t).follower
	flipAt(s, 0, func(int) int { return 100 }) // in the first batch
	if _, err := s.log.Read(0, s.log.WrittenEnd(), 1, nil); !errors.As(err, new(*CorruptError)) {
		t.Fatal(err)
	}
	damage := s.log.Damage()
	if _, n := s.log.figures(); len(damage) != 1 || n != 1 || damage[0].To >= s.log.segments[1].base {
		t.Fatalf("damage %v, %d counted", damage, n)
	}
	if err := s.log.AdvanceStart(damage[0].To); err != nil {
		t.Fatal(err)
	}
	if _, n := s.log.figures(); n != 0 || len(s.log.Damage()) != 0 || s.log.Lossy() {
		t.Errorf("%d counted, damage %v, lossy: %s", n, s.log.Damage(), s.log.whyLossy())
	}
}
