package controller

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// A broker that is cut off counts itself out before anybody else leads in its
// place, also when the quorum's leader changes at that moment (R59).
func TestR59_TheLeaseOfALostBrokerEndsFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tc := startCluster(t, 3)
		for round := range 10 {
			leader, others := tc.followers()
			victim, rest := others[0], []int32{others[1].id, leader.id}
			if round%2 == 1 {
				victim, rest = leader, []int32{others[0].id, others[1].id}
			}
			tc.eventually("a session", victim.c.SessionValid)
			// All have heard of the end of the round before: what they knew of it must not
			// be taken for this one's.
			tc.eventually("unfenced, as all know", func() bool {
				return !slices.ContainsFunc(rest, func(id int32) bool { return tc.nodes[id].c.State().Brokers[victim.id].Fenced })
			})
			tc.net.isolate(victim.url)
			var fencedAt uint64
			tc.eventually("fenced", func() bool {
				for _, id := range rest {
					if b := tc.nodes[id].c.State().Brokers[victim.id]; b.Fenced {
						if victim.c.SessionValid() {
							t.Errorf("round %d: broker %d is fenced and counts itself in", round, victim.id)
						}
						fencedAt = tc.nodes[id].c.State().Index
						return true
					}
				}
				return false
			})
			tc.net.heal()
			tc.eventually("back", func() bool {
				if valid, knows := victim.c.SessionValid(), victim.c.State().Index; valid && knows < fencedAt {
					t.Errorf("round %d: broker %d counts itself in, and knows no more than entry %d: it was fenced before %d", round, victim.id, knows, fencedAt)
					return true
				}
				return victim.c.SessionValid() && !victim.c.State().Brokers[victim.id].Fenced
			})
		}
	})
}

// A session that is given again counts for nothing until the broker knows what was
// agreed on meanwhile: others may lead what it led (R59). Until then the one before does.
func TestR59_ANewLeaseIsForWhoKnows(t *testing.T) {
	t.Parallel()
	now := 10 * time.Second
	c := &Controller{cfg: Config{SessionTimeout: time.Second}, clock: func() time.Duration { return now }, fsm: newFSM(zerolog.Nop())}
	c.lag.Store(&lag{})
	index := c.State().Index
	for _, test := range []struct {
		name  string
		lease lease
		valid bool
	}{
		{"none", lease{}, false},
		{"one that lasts", lease{until: now + 1, index: index}, true},
		{"one that has ended", lease{until: now, index: index}, false},
		{"a new one, of more than is known here", lease{until: now + 1, index: index + 1}, false},
		{"the same while the former one lasts", lease{until: now + 2, index: index + 1, before: now + 1}, true},
	} {
		c.lease.Store(&test.lease)
		if got := c.SessionValid(); got != test.valid {
			t.Errorf("%s: %t", test.name, got)
		}
	}
}
