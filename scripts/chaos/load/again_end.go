package load

import (
	"context"
	"fmt"
	"sync"
	"time"

	"chaos/history"
)

// Of each client's requests, when all faults are mended: how many of those that
// were acknowledged are sent and looked for once more.
const (
	oldAgain = 20
	oldLooks = 20
)

// Settle sends every request whose end isn't known until it is acknowledged, and
// some old ones once more; it returns those that aren't when ctx ends.
func (f *Fleet) Settle(ctx context.Context) (lacking []string) {
	var wg sync.WaitGroup
	var mu sync.Mutex // guards lacking
	tell := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		lacking = append(lacking, what)
	}
	for _, s := range f.stormers {
		wg.Go(func() { s.settle(ctx, tell) })
	}
	for _, q := range f.sequencers {
		wg.Go(func() { q.settle(ctx, tell) })
	}
	wg.Wait()
	return lacking
}

func (s *stormer) settle(ctx context.Context, tell func(string)) {
	for _, p := range s.parcels {
		if !p.left && !p.acked() && !s.until(ctx, p) {
			tell(fmt.Sprintf("%s can't have %s acknowledged", s.name, p.messages[0].id))
			return
		}
	}
	for range min(oldAgain, len(s.parcels)) {
		if p := s.parcels[s.rnd.IntN(len(s.parcels))]; !p.left {
			s.until(ctx, p)
		}
	}
	for range min(oldLooks, len(s.parcels)) {
		p := s.parcels[s.rnd.IntN(len(s.parcels))]
		m := p.messages[s.rnd.IntN(len(p.messages))]
		if l := s.lookUntil(ctx, p.topic, m.id); l.Outcome == history.Failed {
			tell(fmt.Sprintf("the look-up of %s fails: %d/%d %s", m.id, l.Status, l.Code, l.Error))
		}
	}
}

// lookUntil looks for a message until somebody can tell.
func (s *stormer) lookUntil(ctx context.Context, t *Topic, id string) *history.Lookup {
	for {
		l := s.lookup(s.broker(), t, id)
		if l.Outcome != history.Failed || ctx.Err() != nil {
			return l
		}
		s.pause(ctx, 200*time.Millisecond)
	}
}

// until sends a parcel until it is acknowledged at acks=-1.
func (s *stormer) until(ctx context.Context, p *parcel) bool {
	for ctx.Err() == nil {
		l := s.plan(p.topic)
		l.acks, l.patience, l.settles = -1, 0, true
		l.key, l.messages, l.form = p.key, p.messages, s.form(p)
		s.sendAll(p, l)
		if p.acked() {
			return true
		}
		s.pause(ctx, 200*time.Millisecond)
	}
	return false
}

func (q *sequencer) settle(ctx context.Context, tell func(string)) {
	for _, l := range q.lanes {
		for len(l.open()) > 0 {
			if ctx.Err() != nil {
				tell(fmt.Sprintf("%s can't have sequence %d of producer %d acknowledged in %s-%d", q.name, l.open()[0].base, q.id, l.topic.Name, l.partition))
				return
			}
			p := q.plan(l, l.open()[0])
			p.patience, p.settles = 0, true
			a := q.attempt(p)
			if learn(p, a); a.Code == 40303 {
				break // of an epoch that was begun without our knowing
			}
			if !p.messages[0].acked {
				q.pause(ctx, 200*time.Millisecond)
			}
		}
	}
}
