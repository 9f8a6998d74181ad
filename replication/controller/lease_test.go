package controller

import (
	"slices"
	"testing"
	"testing/synctest"
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
			tc.eventually("fenced", func() bool {
				for _, id := range rest {
					if b := tc.nodes[id].c.State().Brokers[victim.id]; b.Fenced {
						if victim.c.SessionValid() {
							t.Errorf("round %d: broker %d is fenced and counts itself in", round, victim.id)
						}
						return true
					}
				}
				return false
			})
			tc.net.heal()
			tc.eventually("back", func() bool { return victim.c.SessionValid() && !victim.c.State().Brokers[victim.id].Fenced })
		}
	})
}
