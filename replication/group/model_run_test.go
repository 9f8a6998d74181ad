package group

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func modelNumber(t *testing.T, name string, otherwise int) int {
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s=%q is no number", name, s)
	}
	return n
}

func TestModel(t *testing.T) {
	first, seeds := modelNumber(t, "HIGHWATER_GROUP_SEED", 0), modelNumber(t, "HIGHWATER_GROUP_SEEDS", 12)
	steps := modelNumber(t, "HIGHWATER_GROUP_STEPS", 1500)
	seen := map[string]int{}
	for seed := first; seed < first+seeds; seed++ {
		w := newModel(t, uint64(seed), 0)
		w.run(steps)
		if w.violation != "" {
			t.Fatalf("seed %d: %s\n%s", seed, w.violation, strings.Join(w.lines[max(0, len(w.lines)-60):], "\n"))
		}
		for event, n := range w.seen {
			seen[event] += n
		}
	}
	t.Logf("seeds %d to %d, %d steps each: %v", first, first+seeds-1, steps, seen)
	for _, event := range modelEvents {
		if seen[event] == 0 {
			t.Errorf("never seen: %s", event)
		}
	}
}

// inOrder lists the partitions of a map in order: the same seed does the same.
func inOrder[V any](m map[part]V) []part {
	return slices.SortedFunc(maps.Keys(m), part.compare)
}

// modelEvents have to come about in a run, or it shows little.
var modelEvents = []string{
	"crash", "metadata behind", "crash before append", "crash before answer", "fronts gone", "topic deleted", "topic made anew", "topic grew",
	"partition moved", "committed", "commit of all", "commit of offsets", "commit sent again", "automatic", "repeated", "renewed", "found the end",
	"answer lost", "end lost", "process died", "taken over", "left", "expired", "sought", "joined by polling", "waited", "reset", "group deleted",
	"*group.FencedError", "*group.UnknownInstanceError", "*group.PollRunningError", "*group.PositionsLostError", "*group.NameTakenError", "*group.ActiveError",
}

// Each rule, left out, is missed.
func TestModelNoticesMissingRules(t *testing.T) {
	for name, m := range map[string]mutation{
		"owner check": noOwnerCheck, "incarnation check": noIncarnation, "release before grant": noRelease,
		"initial offset": noInitial, "auto-commit at the next poll": noCommitAtNext, "epoch of the grant": noEpochOfGrant,
	} {
		found := ""
		seed := 0
		for ; seed < 60 && found == ""; seed++ {
			w := newModel(t, uint64(seed), m)
			w.run(1500)
			found = w.violation
		}
		if found == "" {
			t.Errorf("%s: not noticed in %d seeds", name, seed)
		}
		t.Logf("%s: seed %d: %s", name, seed-1, found)
	}
}
