package replication

import (
	"testing"
	"testing/synctest"
	"time"

	"highwater/replication/controller"
)

// Nobody waits for a broker that is given up: neither who waits already, nor who asks
// after the last word on it has come, nor in its next life for the one before.
func TestFatesOfBrokersThatAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFates()
		now := func(epoch int64, fenced bool) func() *controller.State {
			return func() *controller.State {
				return &controller.State{Brokers: map[int32]*controller.Broker{1: {ID: 1, Epoch: epoch, Fenced: fenced}}}
			}
		}
		before := f.of(now(1, false), 1)
		f.follow(now(1, true)())
		late := f.of(now(1, true), 1)
		unknown := f.of(now(1, true), 2)
		lives := f.of(now(2, false), 1)
		f.follow(now(2, false)())
		time.Sleep(fateGrace)
		synctest.Wait()
		if before.Err() == nil || late.Err() == nil || unknown.Err() == nil {
			t.Errorf("still waited for: %v %v %v", before.Err(), late.Err(), unknown.Err())
		}
		if lives.Err() != nil {
			t.Error("one that is alive is given up")
		}
	})
}
