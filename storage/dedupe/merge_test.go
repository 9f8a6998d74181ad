package dedupe

import (
	"math/rand/v2"
	"testing"
)

// Runs of whatever sizes: their number stays small, and no id is written often.
func TestMergesKeepRunsFew(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var runs []*Run
		offset, written, most := int64(0), 0, 0
		for offset < 2<<20 {
			n := FlushEntries
			switch rng.IntN(int(2 + seed)) { // the higher the seed the more even
			case 0:
				n = 1 + rng.IntN(100)
			case 1:
				n = 1 + rng.IntN(2*topRun)
			}
			runs = append(runs, &Run{First: offset, Next: offset + int64(n), Count: n, firstOrdinal: offset, nextOrdinal: offset + int64(n)})
			offset, written = offset+int64(n), written+n
			for {
				from, to := mergeRule{maxSmall, mergeRuns}.mergeable(runs)
				if from == to {
					break
				}
				one := &Run{First: runs[from].First, Next: runs[to-1].Next, firstOrdinal: runs[from].First, nextOrdinal: runs[to-1].Next}
				one.Count = int(one.Next - one.First)
				written += one.Count
				runs = append(append(append([]*Run(nil), runs[:from]...), one), runs[to:]...)
			}
			low := 0
			for _, r := range runs {
				if !r.Top() {
					low++
				}
			}
			most = max(most, low)
		}
		if most > maxSmall || written > 5*int(offset) {
			t.Errorf("seed %d: up to %d runs below the top class; %d entries written for %d", seed, most, written, offset)
		}
		t.Logf("seed %d: up to %d runs below the top class, %d in the end; each id written %.1f times", seed, most, len(runs), float64(written)/float64(offset))
	}
}

// A state that was restored merges like one that wasn't: never a run alone.
func TestMergesAfterARestore(t *testing.T) {
	s, d := New(Config{Age: -1, Count: -1}), disk{}
	if err := s.Restore(0, nil, nil); err != nil {
		t.Fatal(err)
	}
	fill(t, s, d, rand.New(rand.NewPCG(1, 1)), 3*(FlushEntries+9), 0)
	if n := len(s.Runs()); n != 3 {
		t.Errorf("%d runs of 3 flushes", n)
	}
}
