package controller

import (
	"sync"

	"github.com/google/uuid"
)

// feed tells which topics changed, so that nobody has to walk all of them. It
// is a linked list of deltas: each reader stands at one and follows next; what
// all readers have passed is garbage.
type feed struct {
	mu   sync.Mutex // guards last
	last *delta     // the open one; it gets its content when the next is made
}

type delta struct {
	done   chan struct{} // closed once the fields below are set for good
	topics []uuid.UUID
	jump   bool
	next   *delta
}

func newFeed() *feed { return &feed{last: &delta{done: make(chan struct{})}} }

func (f *feed) publish(topics []uuid.UUID, jump bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.last
	d.topics, d.jump, d.next = topics, jump, &delta{done: make(chan struct{})}
	f.last = d.next
	close(d.done)
}

// Changed is closed at the next change of State. Take it before reading State.
func (c *Controller) Changed() <-chan struct{} {
	c.fsm.feed.mu.Lock()
	defer c.fsm.feed.mu.Unlock()
	return c.fsm.feed.last.done
}

// Cursor is one reader's place in the stream of metadata changes. It is not
// safe for concurrent use.
type Cursor struct {
	fsm *fsm
	at  *delta
}

// Watch returns a cursor that stands before everything: its first Next is a jump.
func (c *Controller) Watch() *Cursor { return c.fsm.watch() }

func (f *fsm) watch() *Cursor {
	f.feed.mu.Lock()
	defer f.feed.mu.Unlock()
	first := &delta{done: make(chan struct{}), jump: true, next: f.feed.last}
	close(first.done)
	return &Cursor{fsm: f, at: first}
}

// Ready is closed once Next has something to tell.
func (c *Cursor) Ready() <-chan struct{} { return c.at.done }

// Next returns the newest state and the ids of the topics that were made,
// changed or deleted since the former Next; in-between states are not seen
// (R6). jump says that anything may have changed: compare everything.
func (c *Cursor) Next() (s *State, topics []uuid.UUID, jump bool) {
	seen := map[uuid.UUID]struct{}{}
	for {
		select {
		case <-c.at.done:
			jump = jump || c.at.jump
			for _, id := range c.at.topics {
				if _, ok := seen[id]; !ok {
					seen[id] = struct{}{}
					topics = append(topics, id)
				}
			}
			c.at = c.at.next
			continue
		default:
		}
		// The state is stored before its delta is published, so it holds at least
		// all that was told; what it holds beyond is told again next time.
		return c.fsm.state.Load(), topics, jump
	}
}
