package group

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// loadWait is how long a call waits for a shard that is loading before its front is
// told to ask again.
const loadWait = time.Second

// call does a call. Errors: those of the call; ErrNoCoordinator, ErrUnknownOutcome;
// those of an append that wrote nothing.
func (s *shard) call(ctx context.Context, call *Call) (*Answer, error) {
	if err := s.awaitLoaded(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	for {
		newer := s.g.newerTopics()
		st := s.step(call)
		w := waiting{changed: st.changed}
		switch {
		case errors.Is(st.err, errBehind): // what others do to the group doesn't help
			w = waiting{newer: newer}
		case errors.Is(st.err, errWait):
			w.until = began.Add(time.Duration(call.Begin.WaitMs) * time.Millisecond)
		case errors.As(st.err, new(*PollRunningError)) && time.Since(began) < endWait:
			w.until = began.Add(endWait)
		default:
			return s.settle(ctx, call, &st)
		}
		switch s.await(ctx, &w) {
		case waitLook:
		case waitTimedOut:
			if errors.Is(st.err, errWait) {
				c, b := *call, *call.Begin
				b.WaitMs, c.Begin = 0, &b
				call = &c
			}
		case waitEnded:
			s.abandon(call)
			return nil, ErrNoCoordinator
		}
	}
}

// awaitLoaded waits until calls are taken.
func (s *shard) awaitLoaded(ctx context.Context) error {
	select {
	case <-s.loaded:
		return nil
	default:
	}
	timer := time.NewTimer(loadWait)
	defer timer.Stop()
	select {
	case <-s.loaded:
		return nil
	case <-s.ended:
	case <-timer.C:
	case <-ctx.Done():
	}
	return ErrNoCoordinator
}

// waiting is what a call waits for.
type waiting struct {
	changed <-chan struct{} // of its group; nil: it doesn't matter
	newer   <-chan struct{} // metadata; nil: it doesn't matter
	until   time.Time       // zero: without end
}

type waited int

const (
	waitLook     waited = iota // something changed
	waitTimedOut               // the time is over
	waitEnded                  // the asker has gone, or the shard has
)

func (s *shard) await(ctx context.Context, w *waiting) waited {
	var due <-chan time.Time
	if !w.until.IsZero() {
		timer := time.NewTimer(time.Until(w.until))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-w.changed:
	case <-w.newer:
	case <-due:
		return waitTimedOut
	case <-s.ended:
		return waitEnded
	case <-ctx.Done():
		return waitEnded
	}
	return waitLook
}

// step is what a call came to when it was looked at once.
type step struct {
	answer  *Answer
	err     error
	last    uint64          // the group's newest batch, which the answer rests on
	wrote   bool            // by this call
	changed <-chan struct{} // see coordinated
}

// step decides a call.
func (s *shard) step(call *Call) step {
	ready := s.g.cfg.Log.Ready(s.num, s.epoch)
	topics := s.g.known()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.over != nil || errors.Is(ready, ErrNoCoordinator) || !call.late.IsZero() && !now.Before(call.late) {
		return step{err: ErrNoCoordinator}
	}
	c := s.coordinated(call.Group)
	defer s.forget(c)
	state := c.state
	if ready != nil { // what would have to be appended can't be decided
		state = state.clone()
	}
	answer, records, err := state.do(now, topics, call)
	if ready != nil && len(records) > 0 {
		return step{err: ready}
	}
	if answer != nil && answer.Description != nil {
		answer.Description.Coordinator = s.g.cfg.NodeID
	}
	c.state = state
	s.decide(c, records)
	s.followPoll(c, call, answer, err)
	return step{answer: answer, err: err, last: c.last, wrote: len(records) > 0, changed: c.changed}
}

// forget drops a group that isn't any. Call it under mu.
func (s *shard) forget(c *coordinated) {
	if c.index < 0 && !c.state.exists() && c.last <= s.committed {
		delete(s.groups, c.name)
	}
}

// followPoll keeps the books on whose polls there are, and wakes who waits for a poll
// to end. Call it under mu.
func (s *shard) followPoll(c *coordinated, call *Call, answer *Answer, err error) {
	switch {
	case call.Begin != nil && err == nil && answer.Poll != nil:
		s.g.fronts.begun(call.Begin.Front, c.name, answer.Poll.Instance, answer.Poll.Token)
	case call.End != nil && err == nil: // one that was refused must wake nobody: they would wake it
		s.g.fronts.ended(c.name, call.End.Instance, call.End.Token)
		c.wake()
	}
}

// settle answers a call once all that the answer rests on is committed, and nobody
// else can have coordinated until it was decided.
func (s *shard) settle(ctx context.Context, call *Call, st *step) (*Answer, error) {
	err := s.awaitCommitted(ctx, st)
	if err == nil && !st.wrote {
		err = s.g.cfg.Log.Leads(s.num, s.epoch)
	}
	if err != nil || ctx.Err() != nil {
		s.abandon(call)
	}
	if err != nil {
		return nil, err
	}
	return st.answer, st.err
}

// awaitCommitted waits for the batches that an answer rests on.
func (s *shard) awaitCommitted(ctx context.Context, st *step) error {
	for {
		s.mu.Lock()
		over, progress := s.over, s.progress
		committed, sent := st.last <= s.committed, st.last <= s.sent
		s.mu.Unlock()
		switch {
		case committed:
			return nil
		case over != nil && sent && st.wrote:
			return over
		case over != nil:
			return ErrNoCoordinator
		}
		select {
		case <-progress:
		case <-s.ended:
		case <-ctx.Done():
			if st.wrote {
				return fmt.Errorf("%w: %w", ErrUnknownOutcome, ctx.Err())
			}
			return ErrNoCoordinator
		}
	}
}

// abandon ends the poll that a call has begun: nobody will hear of it.
func (s *shard) abandon(call *Call) {
	if call.Begin == nil {
		return
	}
	s.step(&Call{Group: call.Group, ID: call.ID, End: &End{Instance: call.Begin.Instance, Token: callToken(call)}})
}
