package replication

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestWaitersAreAnsweredInTheOrderOfTheirEnds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var ws waiters
		all := map[*waiter]bool{}
		for range 1 + r.IntN(30) {
			w := &waiter{end: int64(r.IntN(20)), done: make(chan error, 1)}
			ws.add(w)
			all[w] = false
		}
		if !slices.IsSortedFunc(ws, func(a, b *waiter) int { return int(a.end - b.end) }) {
			t.Fatal("not in order")
		}
		for hw := int64(0); hw < 20; hw += int64(1 + r.IntN(5)) {
			ws.release(hw)
			for w := range all {
				if (len(w.done) == 1) != (w.end <= hw) {
					t.Fatalf("at %d: waiter for %d has %d answers", hw, w.end, len(w.done))
				}
			}
		}
		left := len(ws)
		ws.fail(ErrTimeout)
		failed := 0
		for w := range all {
			if err := <-w.done; err != nil {
				failed++
			}
		}
		if failed != left || len(ws) != 0 {
			t.Fatalf("%d failed, %d were left", failed, left)
		}
	}
}
