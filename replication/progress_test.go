package replication

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestR25_HighWatermark(t *testing.T) {
	for name, c := range map[string]struct {
		p       progress
		current int64
		want    int64
	}{
		"R52: alone":                             {progress{self: 1, minInSync: 1, isr: []int32{1}, own: 7}, 3, 7},
		"never back":                             {progress{self: 1, minInSync: 1, isr: []int32{1}, own: 7}, 9, 9},
		"the slowest of the ISR":                 {progress{self: 1, minInSync: 1, isr: []int32{1, 2, 3}, own: 9, ends: map[int32]int64{2: 5, 3: 6}}, 0, 5},
		"own end is the slowest (own disk)":      {progress{self: 1, minInSync: 1, isr: []int32{1, 2}, own: 4, ends: map[int32]int64{2: 8}}, 0, 4},
		"a slow one outside the ISR":             {progress{self: 1, minInSync: 1, isr: []int32{1, 2}, own: 9, ends: map[int32]int64{2: 8, 3: 1}}, 0, 8},
		"R5: unknown in this epoch":              {progress{self: 1, minInSync: 1, isr: []int32{1, 2}, own: 9}, 2, 2},
		"R26: a joining member counts":           {progress{self: 1, minInSync: 1, isr: []int32{1, 2}, joining: []int32{3}, own: 9, ends: map[int32]int64{2: 8, 3: 6}}, 0, 6},
		"R26: a joining member unknown":          {progress{self: 1, minInSync: 1, isr: []int32{1}, joining: []int32{3}, own: 9}, 1, 1},
		"R28: too few":                           {progress{self: 1, minInSync: 2, isr: []int32{1}, own: 9}, 1, 1},
		"R28: joining ones don't make it enough": {progress{self: 1, minInSync: 2, isr: []int32{1}, joining: []int32{2}, own: 9, ends: map[int32]int64{2: 9}}, 1, 1},
		"R28: just enough":                       {progress{self: 1, minInSync: 2, isr: []int32{1, 2}, own: 9, ends: map[int32]int64{2: 9}}, 1, 9},
		"leader in the middle of the list":       {progress{self: 2, minInSync: 1, isr: []int32{1, 2, 3}, own: 3, ends: map[int32]int64{1: 7, 3: 8}}, 0, 3},
	} {
		if got := c.p.highWatermark(c.current); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

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
