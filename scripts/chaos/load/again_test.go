package load

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"chaos/check"
	"chaos/history"
)

// runAgain runs the clients that send everything again against a stand-in, in time
// of its own.
func runAgain(t *testing.T, seed uint64, flaw string) (found []check.Violation, h *history.History) {
	synctest.Test(t, func(t *testing.T) {
		s := newAgainStandIn(seed, flaw)
		f, _, done := fleetOf(t, "http://one", "http://two", "http://three")
		f.cfg.Topics, f.cfg.Transport, f.cfg.Seed = nil, s, seed
		f.cfg.Again = []*Topic{s.topics["again"].topic, s.topics["growing"].topic}
		f.cfg.Stormers, f.cfg.StormThink = 8, 60*time.Millisecond
		ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
		defer cancel()
		f.Start(ctx)
		time.Sleep(2 * time.Second)
		s.grow("growing", 3)
		time.Sleep(2 * time.Second)
		s.grow("growing", 6)
		f.Wait()
		ctx, cancel = context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for _, lacking := range f.Settle(ctx) {
			found = append(found, check.Violation{Invariant: "settle", Detail: lacking})
		}
		h = done()
		h.Views = s.views()
		found = append(found, check.Check(h, check.Options{})...)
	})
	return found, h
}

// Clients of a cluster that keeps the contract find nothing wrong, and all that
// they are there for happens.
func TestAgainOfStandIn(t *testing.T) {
	sum := map[string]int{}
	for seed := range uint64(2) {
		found, h := runAgain(t, seed, "")
		for _, v := range found {
			t.Errorf("seed %d: %s", seed, v)
		}
		for _, f := range check.Again(h) {
			if sum[f.What] += f.N; f.Rare {
				sum[f.What]++
			}
		}
	}
	for what, n := range sum {
		t.Logf("%6d %s", n, what)
		if n == 0 {
			t.Errorf("none: %s", what)
		}
	}
}

// Each flaw of a cluster is found by the same clients.
func TestAgainFlaws(t *testing.T) {
	for flaw, invariant := range map[string]string{
		"records are written twice":     "V4",
		"ids are forgotten":             "V4",
		"duplicates aren't told":        "V4",
		"duplicates get another offset": "V5",
		"ids of lost records live on":   "V1",
		"answers don't wait":            "V1",
		"a look-up misses":              "V7",
		"a look-up names another":       "V3",
		"ids are reused":                "D7",
		"the same is refused":           "D7",
		"what may be written is denied": "V17",
		"producers are forgotten":       "V4",
		"producers write twice":         "V4",
		"gaps are taken":                "V10",
		"old epochs write":              "D7",
	} {
		t.Run(flaw, func(t *testing.T) {
			for seed := range uint64(6) { // what a flaw shows at is rare for some
				found, _ := runAgain(t, seed, flaw)
				if slices.ContainsFunc(found, func(v check.Violation) bool { return v.Invariant == invariant }) {
					t.Logf("seed %d: %d findings, first: %v", seed, len(found), found[0])
					return
				}
			}
			t.Errorf("no %s", invariant)
		})
	}
}
