package group

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// client is a process that reads for the group, with the front of its poll.
type client struct {
	w        *model
	name     string
	instance string // "": it has none
	takeOver bool   // makes its instance by PUT
	join     bool   // joins by polling
	manual   bool
	pattern  bool
	ids      bool // polls with request ids
	options  Options
	topics   []string

	subscribed bool
	polled     bool
	batch      map[part]span // received, and not processed yet
	done       map[part]int64
	open       *openPoll
	requestID  string         // of the poll that has no answer yet
	promised   map[part]span  // what the same request id has to bring again
	promisedIn int            // while that many coordinators were loaded
	grants     map[part]int32 // and while it has these
	again      *Call          // a commit whose answer was lost
	silent     int            // steps for which it does nothing
	zombie     bool           // its name is another process's by now
	retire     int            // steps until a zombie is gone
}

// span is half open.
type span struct{ from, to int64 }

// openPoll is a poll at its front.
type openPoll struct {
	call  *Call      // that began it
	state *PollState // nil: it waits at the coordinator
	found bool
}

func (w *model) newClient() *client {
	w.ids++
	c := &client{w: w, name: fmt.Sprintf("c%d", w.ids), options: labOptions(), ids: w.chance(40)}
	switch w.rng.IntN(8) {
	case 0, 1, 2:
		c.takeOver = true
	case 3:
		c.join = true
	case 4:
		c.manual = true
	}
	c.options.SessionTimeout = time.Duration(5+w.rng.IntN(5)) * time.Second
	c.options.AutoCommit = w.chance(35)
	if w.chance(30) {
		c.options.Reset = ResetLatest
	}
	c.topics = []string{"a", "b", "c"}[w.rng.IntN(2) : 2+w.rng.IntN(2)]
	c.pattern = !c.manual && w.chance(20)
	return c
}

func (c *client) step() {
	if c.silent > 0 {
		c.silent--
		return
	}
	switch {
	case c.zombie && c.retire <= 0:
		c.w.clients = slices.DeleteFunc(c.w.clients, func(x *client) bool { return x == c })
		return
	case c.zombie:
		c.retire--
	case c.w.chance(2):
		c.die()
		return
	case c.w.chance(1):
		c.silent = 5 + c.w.rng.IntN(40)
		return
	}
	switch {
	case c.open != nil:
		c.polling()
	case c.instance == "" && !c.join:
		c.create()
	case !c.subscribed && !c.join:
		c.subscribe()
	default:
		c.between()
	}
}

// die ends the process; another takes its place. One whose name can be taken over may
// live on without knowing.
func (c *client) die() {
	w := c.w
	w.seen["process died"]++
	w.logf("%s dies", c.instance)
	next := w.newClient()
	if c.takeOver && w.chance(60) {
		next.name, next.takeOver, next.join, next.manual = c.name, true, false, false
		if len(w.clients) < 2*modelClients {
			c.zombie, c.retire = true, 30
			w.clients = append(w.clients, next)
			return
		}
	} else if c.join {
		next.name, next.join, next.takeOver, next.manual = c.name, true, false, false
	}
	w.clients[slices.Index(w.clients, c)] = next
}

// gone has the process begin anew if its instance is no more, or another's.
func (c *client) gone(err error) bool {
	unknown, fenced := (*UnknownInstanceError)(nil), (*FencedError)(nil)
	switch {
	case errors.As(err, &unknown):
		if unknown.Expired > 0 {
			c.w.seen["expired"]++
		}
	case errors.As(err, &fenced) && fenced.Newest != "":
		if c.zombie {
			return true
		}
	default:
		return false
	}
	c.forget()
	return true
}

func (c *client) forget() {
	c.instance, c.subscribed, c.open, c.batch, c.done = "", false, nil, nil, nil
	c.requestID, c.promised, c.again = "", nil, nil
}

func (c *client) create() {
	if c.zombie {
		return
	}
	call := &Call{Create: &Create{Name: c.name, TakeOver: c.takeOver, Options: c.options}}
	answer, err := c.w.call(call)
	if errors.Is(err, errLost) && c.w.chance(70) {
		answer, err = c.w.call(call)
	}
	taken := (*NameTakenError)(nil)
	if errors.As(err, &taken) && !c.w.chance(5) {
		return
	}
	if err != nil {
		c.name += "x"
		return
	}
	c.w.logf("created %s", answer.Instance)
	if answer.Instance == c.name+"~2" {
		c.w.seen["taken over"]++
	}
	c.instance = answer.Instance
	if c.w.chance(20) { // the name is taken
		_, _ = c.w.call(&Call{Create: &Create{Name: c.name, Options: c.options}})
	}
}

func (c *client) subscribe() {
	if c.w.chance(10) { // it was told nothing that it could commit
		_, err := c.w.call(&Call{Commit: &Commit{Instance: c.instance, All: true}})
		c.gone(err)
		return
	}
	call := &Call{Subscribe: &Subscribe{Instance: c.instance, Topics: c.topics}}
	if c.pattern {
		call.Subscribe = &Subscribe{Instance: c.instance, Pattern: "[ab]"}
	}
	if c.manual {
		call = &Call{Assign: &Assign{Instance: c.instance}}
		for _, name := range c.topics {
			if t, ok := c.w.lab.topics.Topic(name); ok {
				call.Assign.Partitions = append(call.Assign.Partitions, named(c.w.lab.topics, part{t.ID, c.w.rng.Int32N(t.Partitions)}))
			}
		}
	}
	_, err := c.w.call(call)
	c.w.logf("%s subscribes: %v", c.instance, err)
	c.subscribed = err == nil && (!c.manual || len(call.Assign.Partitions) > 0)
	c.gone(err)
}

// between two polls: it processes, commits, or does something rare; then polls.
func (c *client) between() {
	w := c.w
	// One without an answer only asks again; one that joins by polling does so first:
	// what was delivered in its name before it has not processed.
	if c.requestID == "" && (c.polled || !c.join) {
		c.process()
		switch n := w.rng.IntN(100); {
		case n < 35:
			c.commit()
			return
		case n < 37 && !c.join:
			_, err := w.call(&Call{Leave: &Leave{Instance: c.instance}})
			w.logf("%s leaves: %v", c.instance, err)
			w.seen["left"]++
			c.gone(err)
			if err == nil {
				c.forget()
			}
			return
		case n < 39 && !c.join:
			_, err := w.call(&Call{Subscribe: &Subscribe{Instance: c.instance}})
			c.subscribed = false
			c.gone(err)
			return
		case n < 43:
			c.seek()
			return
		}
	}
	c.begin()
}

func (c *client) process() {
	for p, s := range c.batch { // whatever the order
		if c.w.processed[p] == nil {
			c.w.processed[p] = map[int64]bool{}
		}
		for at := s.from; at < s.to; at++ {
			c.w.processed[p][at] = true
		}
		if c.done == nil {
			c.done = map[part]int64{}
		}
		c.done[p] = s.to
	}
	c.batch = nil
}

func (c *client) commit() {
	w := c.w
	call := &Call{Commit: &Commit{Instance: c.memberID(), All: true}}
	if c.again != nil {
		call, c.again = c.again, nil
		w.seen["commit sent again"]++
	} else if w.chance(60) {
		call.Commit.All = false
		for _, p := range inOrder(c.done) {
			to := c.done[p]
			// The client knows names: a topic made anew is the one meant now.
			if at, ok := c.renamed(p); ok && to <= w.end[at] {
				call.Commit.Offsets = append(call.Commit.Offsets, CommitOffset{Position: Position{TopicPartition: named(w.lab.topics, at), Offset: to, LeaderEpoch: -1}})
			}
		}
	}
	_, err := w.call(call)
	w.logf("%s commits %+v: %v", c.memberID(), call.Commit.Offsets, err)
	switch {
	case errors.Is(err, errLost):
		c.again = call
	case err == nil && call.Commit.All:
		w.seen["commit of all"]++
	case err == nil:
		w.seen["commit of offsets"]++
		c.done = nil
	}
	c.gone(err)
}

// renamed is the partition that has by now the name that p had.
func (c *client) renamed(p part) (part, bool) {
	for t := range c.w.lab.topics.All() {
		if t.Name[0] == p.topic[0] && p.partition < t.Partitions {
			return part{t.ID, p.partition}, true
		}
	}
	return part{}, false
}

// seek goes back, to where nothing is skipped.
func (c *client) seek() {
	if all := inOrder(c.w.shadow.offsets); len(all) > 0 {
		p := all[c.w.rng.IntN(len(all))]
		v := c.w.shadow.offsets[p]
		at := Position{TopicPartition: named(c.w.lab.topics, p), Offset: min(v.offset, c.w.rng.Int64N(v.offset+1)), LeaderEpoch: -1}
		_, err := c.w.call(&Call{Seek: &Seek{Instance: c.memberID(), To: []Position{at}}})
		if err == nil {
			c.w.seen["sought"]++
		}
		c.gone(err)
	}
}

func (c *client) memberID() string {
	if c.join {
		return c.name
	}
	return c.instance
}
