package controller

import (
	"context"
	"sync"
	"time"
)

// refreshWait bounds how long CatchUp asks the quorum.
const refreshWait = time.Second

// refresh lets those who want the newest metadata at about the same time share one
// question to the quorum's leader.
type refresh struct {
	turn chan struct{} // a token: one question at a time

	mu   sync.Mutex    // guards next
	next chan struct{} // of the question that isn't asked yet: closed when it is answered; nil: nobody waits
}

func newRefresh() *refresh { return &refresh{turn: make(chan struct{}, 1)} }

// CatchUp makes the local State as new as all that was answered to anybody before
// the call, if the quorum can be asked now: for a "there is no such topic" that
// would be wrong a moment later. It never fails, and takes two seconds at most: that
// of a question under way, and that of its own.
func (c *Controller) CatchUp(ctx context.Context) {
	if c.alone.Load() {
		return // there is nothing newer
	}
	r := c.refresh
	r.mu.Lock()
	answered := r.next
	mine := answered == nil
	if mine {
		answered = make(chan struct{})
		r.next = answered
	}
	r.mu.Unlock()
	if !mine {
		select {
		case <-answered:
		case <-ctx.Done():
		}
		return
	}
	// Others wait for this one, so it goes on when its caller doesn't.
	r.turn <- struct{}{}
	r.mu.Lock()
	r.next = nil // who comes now wants to know what the question below may not tell
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshWait)
	defer cancel()
	if index, err := c.fence(ctx); err == nil {
		_ = c.waitApplied(ctx, index)
	}
	<-r.turn
	close(answered)
}
