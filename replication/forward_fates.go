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

// of is a context that ends when the broker of now is given up.
func (f *fates) of(s *controller.State, id int32) context.Context {
	f.mu.Lock()
	defer f.mu.Unlock()
	var epoch int64
	if b := s.Brokers[id]; b != nil {
		epoch = b.Epoch
	}
	if old := f.byID[id]; old != nil && old.epoch >= epoch {
		return old.ctx
	}
	n := &fate{epoch: epoch}
	n.ctx, n.end = context.WithCancelCause(context.Background())
	f.byID[id] = n
	return n.ctx
}

// follow ends those that the metadata says are fenced, or began a new life.
func (f *fates) follow(s *controller.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, one := range f.byID {
		if b := s.Brokers[id]; b == nil || b.Fenced || b.Epoch != one.epoch {
			delete(f.byID, id)
			time.AfterFunc(fateGrace, func() { one.end(errGivenUp) })
		}
	}
}
