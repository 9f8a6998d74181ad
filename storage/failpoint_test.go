package storage

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"highwater/storage/vfs"
)

// crash ends the process at a crash point and starts the next one on what that
// kind of crash left.
func (s *memStore) crash(mode int) {
	s.t.Helper()
	s.fs.Stop()
	s.log.discard()
	s.fs = s.fs.Crash(mode)
	s.ix.current = cloneIndexed(s.ix.durable)
	s.ix.save = stepOn(s.fs)
	s.open()
}

// failpoint is something that changes a follower's files in several steps.
type failpoint struct {
	name string
	// harmed has the follower begin with a damaged batch.
	harmed bool
	do     func(p pair, s *memStore) error
}

// midway is a batch's base in the middle of the pair's logs.
func (p pair) midway(t testing.TB) int64 {
	return Batch(p.rawFrom(t, p.leader.log.WrittenEnd()/2)).BaseOffset()
}

var failpoints = []failpoint{
	{name: "append over several segments", do: func(p pair, s *memStore) error {
		st, err := s.log.StageReplica(p.rawFrom(s.t, s.log.WrittenEnd()), 99)
		if err != nil {
			return err
		}
		return s.log.Sync(st)
	}},
	{name: "truncate", do: func(p pair, s *memStore) error { _, err := s.log.TruncateTo(p.midway(s.t)); return err }},
	{name: "reset upwards", do: func(p pair, s *memStore) error { return s.log.ResetTo(p.midway(s.t)) }},
	{name: "reset to the begin", do: func(_ pair, s *memStore) error { return s.log.ResetTo(0) }},
	{name: "advance the start", do: func(p pair, s *memStore) error { return s.log.AdvanceStart(p.midway(s.t)) }},
	{name: "delete everything", do: func(_ pair, s *memStore) error { return s.log.AdvanceStart(s.log.WrittenEnd()) }},
	{name: "mend", harmed: true, do: mendAll},
	{name: "drop damage", harmed: true, do: func(_ pair, s *memStore) error { _, err := s.log.DropDamage(); return err }},
}

func mendAll(p pair, s *memStore) error {
	for _, d := range s.log.Damage() {
		raw := p.rawFrom(s.t, d.From)
		n := 0
		for n < len(raw) && Batch(raw[n:]).BaseOffset() < d.To {
			n += Batch(raw[n:]).Size()
		}
		if err := s.log.Mend(raw[:n]); err != nil {
			return err
		}
	}
	return nil
}

// TestF51_CrashAtEveryStep of everything that changes files in several steps, in
// every kind of crash: the next start finds a log without a hole that holds nothing
// but the leader's bytes, and that can go on (R40, V26, V27).
func TestF51_CrashAtEveryStep(t *testing.T) {
	for _, f := range failpoints {
		for mode := range vfs.CrashModes {
			t.Run(fmt.Sprintf("%s/mode %d", f.name, mode), func(t *testing.T) {
				for at := 1; ; at++ {
					if crashAt(t, f, mode, at) {
						if at < 4 {
							t.Errorf("done after %d steps: not much of a test", at)
						}
						return
					}
				}
			})
		}
	}
}

// crashAt has one failpoint crash at its n-th operation; done: it has fewer.
func crashAt(t *testing.T, f failpoint, mode, n int) (done bool) {
	p := newPair(t)
	s := p.follower
	if !f.harmed { // there is something to append
		if _, err := s.log.TruncateTo(p.midway(t) * 3 / 2); err != nil {
			t.Fatal(err)
		}
	} else {
		flipAt(s, s.log.segments[2].base, func(size int) int { return size / 2 })
		for o := range s.log.WrittenEnd() {
			_, _ = s.log.Read(o, s.log.WrittenEnd(), 1, nil)
		}
		if len(s.log.Damage()) != 1 {
			t.Fatalf("damage %v", s.log.Damage())
		}
		must(t, s.ix.flush())
	}
	start, end := s.log.StartOffset(), s.log.WrittenEnd()
	s.fs.CrashAt(n)
	err := f.do(p, s)
	done = !s.fs.Crashed()
	if done && err != nil {
		t.Fatal(err)
	}
	s.crash(mode)
	when := fmt.Sprintf("crash at operation %d (%v) of [%d, %d): log [%d, %d)", n, err, start, end, s.log.StartOffset(), s.log.WrittenEnd())
	if s.log.Lossy() != (len(s.log.Damage()) > 0) || !f.harmed && s.log.Lossy() {
		t.Fatalf("%s: %s", when, s.log.whyLossy())
	}
	if len(s.log.Damage()) == 0 {
		p.wantPart(t, when)
	}
	if _, err := s.log.DropDamage(); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	p.wantPart(t, when)
	p.catchUp(t)
	p.wantPart(t, when+", caught up")
	if s.log.WrittenEnd() != p.leader.log.WrittenEnd() {
		t.Fatalf("%s: ends at %d", when, s.log.WrittenEnd())
	}
	return done
}

// wantPart wants the follower's log to be a stretch of the leader's.
func (p pair) wantPart(t *testing.T, when string) {
	t.Helper()
	checkBatches(t, p.follower.log)
	got := rawLog(t, p.follower.log)
	if len(got) == 0 {
		return
	}
	want := p.rawFrom(t, Batch(got).BaseOffset())
	if !bytes.HasPrefix(want, got) {
		t.Fatalf("%s: not what the leader has", when)
	}
	leaders := p.leader.log.Epochs()
	for _, e := range p.follower.log.Epochs() {
		if e.StartOffset > p.follower.log.StartOffset() && e.StartOffset < p.follower.log.WrittenEnd() && !slices.Contains(leaders, e) {
			t.Fatalf("%s: epoch %v isn't the leader's: %v", when, e, leaders)
		}
	}
}
