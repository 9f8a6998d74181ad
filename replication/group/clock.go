package group

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"highwater/replication/wire"
)

// A call may be long on its way to the coordinator: a network that comes back delivers
// what was sent before it went. Its front has told the client by then that nothing was
// done, and the client may have gone on by way of another front; a Begin that came now
// would give back what the member reads, and commit what it is still at. So a call that
// comes after its front has given it up isn't done.
//
// No two clocks have to agree for that. Each answer of a coordinator says what its clock
// shows, and a call what the newest answer said and how long ago that came: the
// coordinator knows then how long the call has been on its way, at most. A front that
// has heard nothing of it yet is told the time first, and asks again.

// clock is this broker's, as a coordinator. It runs from its start on.
type clock struct {
	id    string // of this life
	start time.Time
}

func newClock() clock { return clock{id: uuid.NewString(), start: time.Now()} }

func (c *clock) now() *wire.GroupClock {
	return &wire.GroupClock{ID: c.id, AtUs: time.Since(c.start).Microseconds()}
}

// left is how much of a call's time is left at most, 0 or less: nothing, or nobody
// knows. What it tells ends before the sender's time does, by as long as the answer was
// on its way that told the sender the time.
func (c *clock) left(heard *wire.GroupClock, most time.Duration) time.Duration {
	if heard == nil { // a front that doesn't know of clocks
		return most
	}
	if heard.ID != c.id || heard.AgeUs < 0 || heard.AgeUs > maxClockAge.Microseconds() {
		return 0
	}
	sent := time.Duration(heard.AtUs+heard.AgeUs) * time.Microsecond
	return min(sent+most-time.Since(c.start), most)
}

// maxClockAge is how long a front counts on what it was told of a coordinator's clock:
// the two run apart by less than a millisecond in ten seconds.
const maxClockAge = time.Minute

// clocks are the other coordinators' clocks, as their answers told them.
type clocks struct {
	mu    sync.Mutex // guards what follows
	byURL map[string]heardClock
}

type heardClock struct {
	said wire.GroupClock
	at   time.Time // when the answer came
}

// heard takes over what an answer said; nil: nothing.
func (c *clocks) heard(url string, said *wire.GroupClock) {
	if said == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.byURL[url].said; last.ID == said.ID && last.AtUs > said.AtUs {
		return // an answer overtook this one
	}
	if c.byURL == nil {
		c.byURL = map[string]heardClock{}
	}
	c.byURL[url] = heardClock{said: *said, at: time.Now()}
}

// of is what a call to a coordinator says of its clock.
func (c *clocks) of(url string) *wire.GroupClock {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, age := c.byURL[url], time.Since(c.byURL[url].at)
	if age > maxClockAge {
		return &wire.GroupClock{}
	}
	last.said.AgeUs = age.Microseconds()
	return &last.said
}
