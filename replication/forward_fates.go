package replication

import (
	"context"
	"errors"
	"sync"
	"time"

	"highwater/replication/controller"
)

// fates tells who waits for another broker when there is no sense in it any more: the
// controller has given that broker up. A process that is frozen keeps its connections
// open, and its clients' patience may be long.
type fates struct {
	mu   sync.Mutex // guards byID
	byID map[int32]*fate
}

// fate is of a broker in one of its lives.
type fate struct {
	epoch int64
	ctx   context.Context
	end   context.CancelCauseFunc
}

// fateGrace is how long a broker that is given up may still answer: it may have, and
// its answers be on the way.
const fateGrace = time.Second

var errGivenUp = errors.New("replication: the controller has fenced the leader")

func newFates() *fates { return &fates{byID: map[int32]*fate{}} }

// of is a context that ends when the broker of now is given up. state is read under
// the lock: what is newer follow will be told.
func (f *fates) of(state func() *controller.State, id int32) context.Context {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := state()
	var epoch int64
	if b := s.Brokers[id]; b != nil {
		epoch = b.Epoch
	}
	n := f.byID[id]
	if n == nil || n.epoch < epoch {
		n = &fate{epoch: epoch}
		n.ctx, n.end = context.WithCancelCause(context.Background())
		f.byID[id] = n
	}
	f.end(s) // it may have been fenced since it was found to lead
	return n.ctx
}

// follow ends those that the metadata says are fenced, or began a new life.
func (f *fates) follow(s *controller.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end(s)
}

// end is follow under mu.
func (f *fates) end(s *controller.State) {
	for id, one := range f.byID {
		if b := s.Brokers[id]; b == nil || b.Fenced || b.Epoch != one.epoch {
			delete(f.byID, id)
			time.AfterFunc(fateGrace, func() { one.end(errGivenUp) })
		}
	}
}
