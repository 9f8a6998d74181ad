package controller

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

func figures(t *testing.T, c *Controller) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c.Collector())
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += "/" + l.GetValue()
			}
			out[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

// A broker that falls behind shows all that it lacks, not what it lacked at first.
func TestTheLagThatIsShown(t *testing.T) {
	c := &Controller{fsm: newFSM(zerolog.Nop()), clock: newClock()}
	var l lag
	l.note(0, 100, 0)
	l.note(10, 200, time.Second)
	c.lag.Store(&l)
	if got := figures(t, c)["highwater_metadata_lag"]; got != 200 {
		t.Errorf("at index 0 of 200: %v", got)
	}
}

func TestFiguresOfTheQuorum(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tc := newCluster(t, 3)
		c, err := tc.openNode(1)
		if err != nil {
			t.Fatal(err)
		}
		if got := figures(t, c); got["highwater_quorum_leader"] != 0 || got["highwater_brokers/active"] != 0 {
			t.Errorf("before the founding: %v", got)
		}
		tc.kill(1)
		tc.upAll(1, 2, 3)
		tc.sameState()
		dead := tc.nodes[3]
		if tc.leader() == dead {
			dead = tc.nodes[2]
		}
		tc.kill(dead.id)
		tc.eventually("the dead one is fenced and counted", func() bool {
			var leaders, fencings float64
			for _, n := range tc.alive() {
				got := figures(t, n.c)
				leaders += got["highwater_quorum_leader"]
				fencings += got["highwater_broker_fencings_total"]
				if got["highwater_brokers/fenced"] != 1 || got["highwater_brokers/active"] != 2 || got["highwater_quorum_members/yes"] != 3 ||
					got["highwater_session_valid"] != 1 || got["highwater_heartbeats_total"] == 0 || got["highwater_quorum_term"] == 0 {
					return false
				}
			}
			return leaders == 1 && fencings >= 1
		})
	})
}
