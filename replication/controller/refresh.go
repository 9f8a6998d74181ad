package controller

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// refreshWait bounds how long one question waits for the quorum.
const refreshWait = time.Second

// refresh lets those who want the newest metadata at about the same time share one
// question to the quorum's leader.
type refresh struct {
	turn chan struct{} // a token: one question at a time

	mu   sync.Mutex // guards next
	next *question  // that isn't asked yet; nil: nobody waits
}

// question is one to the quorum's leader, for all who came before it was asked.
type question struct {
	done     chan struct{} // closed when it is answered, or can't be
	answered bool          // set before that: State is as new as the quorum's was
}

func newRefresh() *refresh { return &refresh{turn: make(chan struct{}, 1)} }

// Newest makes the local State as new as all that was answered to anybody before the
// call: for a "there is no such topic" that would be wrong otherwise. It asks again,
// through elections too, until ctx ends, for 15 s without a deadline. ErrNoController:
// the quorum couldn't be asked.
func (c *Controller) Newest(ctx context.Context) error {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	for {
		changed := c.watchLeader()
		if c.ask(ctx) {
			return nil
		}
		if ended := c.awaitLeader(ctx, changed); ended != nil {
			return fmt.Errorf("%w: the newest metadata can't be had (%w)", ErrNoController, ended)
		}
	}
}

// ask is Newest, tried once: it tells whether State is that new. It takes two seconds at
// most: that of a question under way, and that of its own.
func (c *Controller) ask(ctx context.Context) bool {
	if c.alone.Load() {
		return true // there is nothing newer
	}
	r := c.refresh
	r.mu.Lock()
	q := r.next
	if q == nil {
		q = &question{done: make(chan struct{})}
		r.next = q
		go c.put(q) // others wait for it too, so it goes on when its first caller doesn't
	}
	r.mu.Unlock()
	select {
	case <-q.done:
		return q.answered
	case <-ctx.Done():
		return false
	case <-c.stop:
		return false
	}
}

// put asks a question when it is its turn.
func (c *Controller) put(q *question) {
	r := c.refresh
	r.turn <- struct{}{}
	r.mu.Lock()
	r.next = nil // who comes now wants to know what the question below may not tell
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), refreshWait)
	defer cancel()
	go func() {
		select {
		case <-c.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	if index, err := c.fence(ctx); err == nil {
		q.answered = c.waitApplied(ctx, index) == nil
	}
	<-r.turn
	close(q.done)
}
