package load

import (
	"context"
	"fmt"
	"time"

	"chaos/history"
)

// tries is how often a member sends a request again that got no answer, or one
// that says "later", before it begins anew.
const tries = 40

// slot is one place in a group, with one member at a time.
type slot struct {
	fleet  *Fleet
	group  string
	number int
	client *client
	plain  bool // its members commit by themselves never
	lives  int
}

// member begins the next life of this slot.
func (s *slot) member(name string) *member {
	s.lives++
	return &member{client: s.client, group: s.group, name: name, plain: s.plain, topic: s.fleet.cfg.GroupTopic, session: s.fleet.cfg.GroupSession,
		life: fmt.Sprintf("%s/%s#%d", s.group, s.client.name, s.lives), ends: map[history.Partition]int64{}, known: map[history.Partition]int64{}, sought: map[history.Partition]bool{}}
}

// dialect is one life after the other of a member that creates an instance,
// subscribes, polls and commits.
func (s *slot) dialect(ctx context.Context) {
	name := fmt.Sprintf("m%d", s.number)
	taken := false // somebody may have the name
	var old *member
	for ctx.Err() == nil {
		m := s.join(ctx, name, taken)
		if m == nil {
			return
		}
		if old != nil {
			s.haunt(old)
		}
		old, taken = nil, m.name == name
		m.live(ctx, s.fleet.cfg.Think, 3+s.client.rnd.IntN(40))
		switch s.client.rnd.IntN(4) {
		case 0:
			if left := m.leave(m.broker()); left.Outcome != history.Unknown && left.Status < 500 {
				taken = false
			}
		case 1: // it goes without a word
		default: // another process takes its place, and this one knows nothing of it
			if m.name == name {
				old = m
			}
		}
	}
}

// haunt has a member whose name was taken over do what it had in mind. One that goes by
// its plain name would act as the newest.
func (s *slot) haunt(old *member) {
	if old.instance == old.name {
		return
	}
	if offsets := old.given(); len(offsets) > 0 {
		old.commit(old.broker(), offsets)
	}
	if s.client.rnd.IntN(3) == 0 {
		old.poll(old.broker(), 0, 10, "", 0)
	}
}

// join makes a member and subscribes it. Each attempt is a life of its own: one that
// got no answer may have made a member. nil: ctx ended.
func (s *slot) join(ctx context.Context, name string, taken bool) *member {
	for ctx.Err() == nil {
		m := s.member(name)
		kind, named := history.Join, true
		switch {
		case taken || s.client.rnd.IntN(2) == 0:
			kind = history.TakeOver
		case s.client.rnd.IntN(2) == 0:
			named = false
			m.name = fmt.Sprintf("%s-%d", s.client.name, s.lives) // until it is told
		}
		op := m.join(m.broker(), kind, named)
		if op.Outcome == history.OK {
			for range tries {
				if op = m.subscribe(m.broker()); op.Outcome == history.OK {
					return m
				}
				if gone(op) {
					break
				}
				m.pause(ctx, 10*s.fleet.cfg.Think)
			}
		}
		taken = taken || named
		m.pause(ctx, 10*s.fleet.cfg.Think)
	}
	return nil
}

// gone: the incarnation that polls or subscribes is no member any more.
func gone(op *history.GroupOp) bool { return op.Code == 40403 || op.Code == 40906 }

// live polls, processes and commits until ctx ends, the member isn't one any more, or
// an answer is lost that can't be had again.
func (m *member) live(ctx context.Context, think time.Duration, polls int) {
	for n := range polls {
		if ctx.Err() != nil {
			return
		}
		id := ""
		if m.auto || m.rnd.IntN(2) == 0 {
			id = fmt.Sprintf("%s.%d", m.client.name, n)
		}
		op := m.ask(ctx, think, id)
		if op.Outcome != history.OK {
			return
		}
		if id != "" && m.rnd.IntN(6) == 0 { // as if the answer had been lost
			if op = m.ask(ctx, think, id); op.Outcome != history.OK {
				return
			}
		}
		m.afterPoll(ctx, think)
		m.pause(ctx, think)
	}
}

// ask polls until there is an answer. With a request id it may be asked again for
// an answer that was lost; without one, the next incarnation begins at what is
// committed.
func (m *member) ask(ctx context.Context, think time.Duration, id string) (op *history.GroupOp) {
	timeout, count := time.Duration(m.rnd.IntN(1200))*time.Millisecond, 1+m.rnd.IntN(40)
	for range tries {
		giveUp := time.Duration(0)
		if m.rnd.IntN(100) == 0 {
			giveUp = time.Millisecond + time.Duration(m.rnd.Int64N(int64(timeout)+int64(10*time.Millisecond)))
		}
		op = m.poll(m.broker(), timeout, count, id, giveUp)
		if op.Outcome == history.OK || gone(op) || op.Outcome == history.Unknown && id == "" {
			return op
		}
		m.pause(ctx, 10*think)
	}
	return op
}

// given are the ends of the newest answer.
func (m *member) given() (offsets []history.GroupOffset) {
	ends := map[history.Partition]int64{}
	if m.last != nil {
		for _, r := range m.last.Records {
			ends[r.Partition] = r.Offset + 1
		}
	}
	for p, end := range ends {
		offsets = append(offsets, history.GroupOffset{Partition: p, Offset: end})
	}
	return offsets
}

// offsets are what the member may commit: all that it was given, or a part.
func (m *member) offsets(part bool) (offsets []history.GroupOffset) {
	for p, end := range m.ends {
		if part && m.last != nil {
			if m.rnd.IntN(3) == 0 {
				continue
			}
			first := end
			for _, r := range m.last.Records {
				if r.Partition == p {
					first = min(first, r.Offset+1)
				}
			}
			end = first + m.rnd.Int64N(end-first+1)
		}
		offsets = append(offsets, history.GroupOffset{Partition: p, Offset: end})
	}
	return offsets
}

// afterPoll is what a member does with what it was given.
func (m *member) afterPoll(ctx context.Context, think time.Duration) {
	if m.auto {
		if m.rnd.IntN(40) == 0 {
			m.pause(ctx, 2*m.session)
		}
		return
	}
	switch n := m.rnd.IntN(40); {
	case n < 14:
		m.commitSome(ctx, think, len(m.sought) == 0)
	case n < 28:
		m.commitSome(ctx, think, false)
	case n < 30 && m.instance != "":
		for p, end := range m.ends {
			m.seek(m.broker(), p, max(0, end-m.rnd.Int64N(16)))
			break
		}
	case n < 32 && m.instance != "":
		m.committed(m.broker())
	case n == 32: // it stands still, perhaps for too long, and goes on as if nothing were
		offsets := m.given()
		m.pause(ctx, 2*m.session)
		if len(offsets) > 0 {
			m.commit(m.broker(), offsets)
		}
	}
}

// commitSome commits, and tries again when there is no good answer.
func (m *member) commitSome(ctx context.Context, think time.Duration, all bool) {
	if len(m.ends) == 0 {
		return
	}
	offsets := m.offsets(m.rnd.IntN(4) == 0)
	for range 4 {
		var op *history.GroupOp
		switch {
		case all && m.fresh:
			op = m.commitAll(m.broker())
		case len(offsets) > 0:
			op = m.commit(m.broker(), offsets)
		default:
			return
		}
		if op.Outcome == history.OK || op.Status > 0 && op.Status < 500 {
			return
		}
		m.pause(ctx, 10*think)
	}
}

// oneCall is a member that joins by polling. Its name is the member, whoever uses
// it, and so all of it is one life.
func (s *slot) oneCall(ctx context.Context) {
	m := s.member(fmt.Sprintf("w%d", s.number))
	for ctx.Err() == nil {
		op := m.ask(ctx, s.fleet.cfg.Think, "")
		if op.Outcome == history.OK && len(op.Records) > 0 {
			m.afterPoll(ctx, s.fleet.cfg.Think)
		}
		switch m.rnd.IntN(60) {
		case 0:
			m.leave(m.broker())
			m.pause(ctx, m.session)
		case 1:
			m.pause(ctx, 2*m.session)
		}
		m.pause(ctx, s.fleet.cfg.Think)
	}
	if m.rnd.IntN(2) == 0 {
		m.leave(m.broker())
	}
}

// drainDialect reads and commits until ctx ends.
func (s *slot) drainDialect(ctx context.Context) {
	for ctx.Err() == nil {
		m := s.join(ctx, "drain", s.lives > 0)
		if m == nil {
			return
		}
		for ctx.Err() == nil {
			op := m.poll(m.broker(), 300*time.Millisecond, 500, "", 0)
			if op.Outcome == history.OK {
				m.commitSome(ctx, s.fleet.cfg.Think, true)
			} else if gone(op) || op.Outcome == history.Unknown {
				break
			}
		}
		m.leave(m.broker())
	}
}

// drainOneCall likewise, in one call.
func (s *slot) drainOneCall(ctx context.Context) {
	m := s.member("drain-once")
	for ctx.Err() == nil {
		if op := m.poll(m.broker(), 300*time.Millisecond, 500, "", 0); op.Outcome == history.OK {
			m.commitSome(ctx, s.fleet.cfg.Think, true)
		} else {
			m.pause(ctx, 10*s.fleet.cfg.Think)
		}
	}
	m.leave(m.broker())
}
