package replication

import (
	"testing"

	"highwater/replication/wire"
)

// Requests that were judged wait for their turn, and may get it in another order.
func TestR13_ARequestThatComesToItsTurnTooLateIsNotLookedAt(t *testing.T) {
	ss, s := newSessions(), newSession(sessionKey{replica: 2})
	begin := func(epoch, seq int64, full bool) func() bool {
		life, code := ss.lives.Judge(&wire.FetchRequest{Replica: 2, BrokerEpoch: epoch, Seq: seq, Full: full})
		if code != wire.OK {
			t.Fatalf("request %d of life %d: %s", seq, epoch, code)
		}
		return func() bool {
			ok := s.begin(life, seq)
			if ok {
				s.applied = seq // as apply does
			}
			return ok
		}
	}
	first, next, again := begin(5, 1, true), begin(5, 2, false), begin(5, 3, true)
	reborn := begin(9, 1, true)
	for _, step := range []struct {
		what  string
		begin func() bool
		want  bool
	}{
		{"the first request", first, true},
		{"one that begins anew", again, true},
		{"the one before that", next, false},
		{"one of the next life", reborn, true},
		{"one of the life before", again, false},
		{"the next one", begin(9, 2, false), true},
		{"the one after one that was given up", func() bool { begin(9, 3, false); return begin(9, 4, false)() }, false},
	} {
		if got := step.begin(); got != step.want {
			t.Errorf("%s is looked at: %v, want %v", step.what, got, step.want)
		}
	}
}
