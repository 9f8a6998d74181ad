package group

import "time"

// do decides a call. The records, also those that come with an error, are applied
// already and have to be appended in one batch before anybody is told.
func (s *state) do(now time.Time, topics Topics, call *Call) (*Answer, []record, error) {
	if topics.Index() < max(s.index, call.Metadata) {
		return nil, nil, errBehind
	}
	s.wake(now)
	s.expire(now, topics)
	s.reconcile(topics)
	answer, err := s.decide(now, topics, call)
	s.reconcile(topics)
	if err != nil {
		answer = nil
	}
	return answer, s.take(), err
}

func (s *state) decide(now time.Time, topics Topics, call *Call) (*Answer, error) {
	switch {
	case call.Create != nil:
		return s.create(now, topics, call)
	case call.Leave != nil:
		return s.leave(now, topics, call)
	case call.Subscribe != nil:
		return s.subscribe(now, topics, call.Subscribe)
	case call.Assign != nil:
		return s.assign(now, topics, call.Assign)
	case call.Member != nil:
		return s.query(now, topics, call.Member)
	case call.Begin != nil:
		return s.begin(now, topics, call)
	case call.Deliver != nil:
		return s.deliver(now, topics, call.Deliver)
	case call.End != nil:
		return s.end(now, topics, call.End)
	case call.Commit != nil:
		return s.commit(now, topics, call)
	case call.Committed != nil:
		return s.committed(now, topics, call.Committed)
	case call.Seek != nil:
		return s.seek(now, call.Seek)
	case call.Describe != nil:
		return s.describe(topics)
	case call.Reset != nil:
		return s.reset(now, topics, call)
	case call.DeleteGroup != nil:
		return s.deleteGroup()
	}
	return nil, &InvalidError{Reason: "a call that asks nothing"}
}

// tick does what is due: silent members expire, polls without beats are over,
// partitions go where they belong. It is called at next, after a load, and when
// the metadata has changed.
func (s *state) tick(now time.Time, topics Topics) []record {
	if topics.Index() < s.index {
		return nil
	}
	s.wake(now)
	s.expire(now, topics)
	s.reconcile(topics)
	return s.take()
}

// next is when tick has something to do; zero: not before something else happens.
func (s *state) next() time.Time { return s.due }

// wake ends replay: all members count as heard now, for nobody knows when they were.
func (s *state) wake(now time.Time) {
	if s.live {
		return
	}
	s.live = true
	for _, m := range s.members {
		m.heard, m.lost = now, true
		s.expect(m)
	}
}

// expect sees to it that tick comes at the member's deadline.
func (s *state) expect(m *member) {
	if d := m.deadline(); s.due.IsZero() || d.Before(s.due) {
		s.due = d
	}
}

// deadline is when the member's poll is over, or else the member, if nothing is heard
// until then.
func (m *member) deadline() time.Time {
	if m.poll != nil {
		return m.poll.deadline()
	}
	return m.heard.Add(m.v.options.SessionTimeout)
}

// expire removes the members that were silent too long, and ends polls without beats.
func (s *state) expire(now time.Time, topics Topics) {
	if s.due.IsZero() || now.Before(s.due) {
		return
	}
	s.due = time.Time{}
	for _, m := range s.byName() {
		if m.poll != nil && !now.Before(m.poll.deadline()) {
			m.lose()
		}
		if m.poll != nil || now.Before(m.deadline()) {
			s.expect(m)
			continue
		}
		s.bury(now, topics, m, &memberValue{status: expired, call: m.v.call, silent: max(now.Sub(m.heard), time.Millisecond)})
	}
}
