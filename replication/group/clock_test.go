package group

import (
	"testing"
	"testing/synctest"
	"time"

	"highwater/replication/wire"
)

// However long the time was on its way to the front, and the call to the coordinator:
// what is left is never more than the front still waits.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 3 * time.Second
		coordinator, front := newClock(), &clocks{}
		if left := coordinator.left(front.of("u"), most); left > 0 {
			t.Errorf("%v is left of a call whose front knows no time", left)
		}
		if left := coordinator.left(nil, most); left != most {
			t.Errorf("%v is left of a call of a front that doesn't know of clocks", left)
		}
		for _, told := range []time.Duration{0, time.Second} {
			for _, idle := range []time.Duration{0, maxClockAge} {
				said := coordinator.now()
				time.Sleep(told)
				front.heard("u", said)
				time.Sleep(idle)
				sent := front.of("u")
				for onItsWay := time.Duration(0); onItsWay < 2*most; onItsWay += time.Second {
					want := max(most-told-onItsWay, 0)
					if left := max(coordinator.left(sent, most), 0); left != want {
						t.Errorf("told %v, idle %v, on its way %v: %v is left, want %v", told, idle, onItsWay, left, want)
					}
					time.Sleep(time.Second)
				}
			}
		}
		front.heard("u", coordinator.now())
		front.heard("u", &wire.GroupClock{ID: coordinator.id}) // overtaken
		if sent := front.of("u"); sent.AtUs == 0 {
			t.Error("an answer that was overtaken is taken over")
		}
		time.Sleep(maxClockAge + 1)
		if sent := front.of("u"); sent.ID != "" {
			t.Error("a time is counted on for ever")
		}
		next := newClock()
		if left := next.left(coordinator.now(), most); left > 0 {
			t.Errorf("%v is left by another life's clock", left)
		}
	})
}
