package model

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// rare are events without which a set of runs is no evidence.
var rare = []string{
	"truncation", "truncation below own high watermark", "diverging", "log started anew",
	"election", "election from the ELR", "unclean election", "change in flight at failover", "leader epoch skipped",
	"proposal without a clear answer", "proposal without any answer", "proposal sent again", "proposal refused", "refused proposal withdrawn",
	"shrink proposed", "expansion proposed",
	"fetch refused: FENCED_LEADER_EPOCH", "fetch refused: UNKNOWN_LEADER_EPOCH", "fetch refused: STALE_BROKER_EPOCH", "fetch refused: FETCH_SESSION",
	"fetch refused: NOT_LEADER_OR_FOLLOWER", "fetch refused: OFFSET_OUT_OF_RANGE", "answer dropped", "fetch timed out", "message delivered twice",
	"deposed by a fetch", "notice stopped a leader", "stale broker exits", "duplicate registration refused",
	"not enough replicas", "not enough replicas after append", "acknowledged after stepping down", "outcome unknown: cut off after a leader change",
	"crash", "clean stop", "lossy restart", "unclean restart without fsync", "empty directory", "process replaced while it ran", "fenced",
	"clock jumps forward", "log start moved", "reassignment", "replica removed", "leadership moved", "min.insync.replicas changed",
}

func envNumber(t *testing.T, name string, otherwise uint64) uint64 {
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q is no number", name, s)
	}
	return n
}

func TestModel(t *testing.T) {
	if os.Getenv("HIGHWATER_MODEL_SEED") != "" {
		w, found := run(envNumber(t, "HIGHWATER_MODEL_SEED", 0), nil, true)
		t.Log(strings.Join(w.lines, "\n"))
		if found != nil {
			t.Fatal(found.text)
		}
		return
	}
	seeds := envNumber(t, "HIGHWATER_MODEL_SEEDS", 300)
	begin, steps, seen := time.Now(), 0, map[string]int{}
	for seed := range seeds {
		w, found := run(seed, nil, false)
		if found != nil {
			t.Fatalf("seed %d: %s\n%s", seed, found.text, traceOf(seed, nil))
		}
		steps += w.stepCount
		for event, n := range w.seen {
			seen[event] += n
		}
	}
	t.Logf("%d seeds, %d steps, %.0f steps/s", seeds, steps, float64(steps)/time.Since(begin).Seconds())
	for _, event := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("%8d %s", seen[event], event)
	}
	for _, event := range rare {
		if seen[event] == 0 {
			t.Errorf("%q never happened: these runs are no evidence", event)
		}
	}
}

// traceOf runs a seed again and returns the end of what happened.
func traceOf(seed uint64, mutation func(*config)) string {
	w, _ := run(seed, mutation, true)
	if w == nil {
		return ""
	}
	lines := w.lines
	if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasSuffix(l, " heal") }); i > 0 {
		lines = append(lines[:i:i], lines[max(i, len(lines)-20):]...)
	}
	lines = lines[max(0, len(lines)-60):]
	return strings.Join(lines, "\n") + fmt.Sprintf("\nHIGHWATER_MODEL_SEED=%d shows all of it", seed)
}
