package group

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"time"
)

// poll is one under way.
type poll struct {
	token     uint64
	requestID string
	beat      time.Time // the last sign of life from its front
	// waiting: its call waits at the coordinator, at the longest until until, and there
	// are no beats.
	waiting bool
	until   time.Time
	// changed: what its member reads isn't what the front knows.
	changed bool
	// delivering: something is about to be answered, or was; its partitions stay.
	delivering bool
	repeat     bool
	anew       bool           // it began at the committed offsets
	start      map[part]place // where it began to read
	sought     map[part]bool  // moved by a seek since
	// proven are ends that the member has committed since the poll began: so it has the
	// answer.
	proven map[part]place
}

// delivery is what a poll with a request id answered, of what its member still reads.
type delivery struct {
	requestID string
	from, to  map[part]place
}

func (p *poll) deadline() time.Time {
	if p.waiting {
		return p.until.Add(pollLife)
	}
	return p.beat.Add(pollLife)
}

// change tells the member's poll, if one is under way, that its front is to ask anew.
func (m *member) change() {
	if m.poll != nil {
		m.poll.changed = true
	}
}

// callToken is the token that the poll begun by a call has: the same when the call is
// sent again.
func callToken(call *Call) uint64 {
	if call.Begin != nil && call.Begin.Token != 0 {
		return call.Begin.Token
	}
	return max(1, binary.BigEndian.Uint64(call.ID[8:])^binary.BigEndian.Uint64(call.ID[:]))
}

func (s *state) begin(now time.Time, topics Topics, call *Call) (*Answer, error) {
	b, token := call.Begin, callToken(call)
	m, err := s.polling(now, topics, call, token)
	if err != nil {
		return nil, err
	}
	if !m.v.subscribed() && len(m.v.assigned) == 0 {
		m.poll = nil
		s.expect(m)
		return nil, &NotSubscribedError{Group: s.group, Instance: m.instance()}
	}
	if m.poll == nil {
		m.poll, m.unended = &poll{token: token, requestID: b.RequestID, anew: b.Join != nil}, nil
		m.poll.repeat = m.repeats(b.RequestID)
		if b.Token == 0 && !m.poll.repeat {
			s.turn(now, topics, m)
		}
	}
	p := m.poll
	p.beat = now
	p.repeat = p.repeat && m.repeats(b.RequestID)
	if !p.repeat && !p.delivering {
		s.release(topics, m)
	}
	s.reconcile(topics)
	s.tell(m)
	p.changed = false
	state := &PollState{
		Instance: m.instance(), Token: token, Generation: s.generation(), Options: m.v.options,
		Positions: []Position{},
	}
	parts := s.readable(topics, m)
	p.waiting = len(parts) == 0 && b.WaitMs > 0
	p.until = now.Add(time.Duration(b.WaitMs) * time.Millisecond)
	s.expect(m)
	switch {
	case p.waiting:
		return nil, errWait
	case p.repeat:
		s.repeat(topics, m, state)
	default:
		s.positions(topics, m, parts, b.Join != nil, state)
	}
	return &Answer{Poll: state}, nil
}

// polling finds the member that polls, or makes it if it joins by polling.
func (s *state) polling(now time.Time, topics Topics, call *Call, token uint64) (*member, error) {
	b := call.Begin
	if b.Join == nil {
		m, err := s.request(now, b.Instance)
		if err != nil {
			return nil, err
		}
		return m, s.mayPoll(m, b, token)
	}
	if _, err := subscription(b.Join.Topics, b.Join.Pattern); err != nil {
		return nil, err
	}
	if len(b.Join.Topics) == 0 && b.Join.Pattern == "" {
		return nil, &InvalidError{Reason: "who joins by polling names its topics"}
	}
	name := b.Instance
	if name == "" {
		name = madeUp(call)
	}
	m, err := s.request(now, name)
	if err == nil {
		if err := s.mayPoll(m, b, token); err != nil {
			return nil, err
		}
		return m, s.subscribeTo(topics, m, b.Join.Topics, b.Join.Pattern)
	}
	if _, incarnation, ok := parseInstance(name); !ok || incarnation > 0 {
		return nil, err // a certain incarnation can't come to be by polling
	}
	if m, err = s.newMember(now, topics, call, name, b.Join.Options, false); err != nil {
		return nil, err
	}
	return m, s.subscribeTo(topics, m, b.Join.Topics, b.Join.Pattern)
}

// mayPoll tells whether a poll of this token may begin or go on.
func (s *state) mayPoll(m *member, b *Begin, token uint64) error {
	switch {
	case m.poll != nil && m.poll.token == token:
		return nil
	case b.Token != 0 && (m.poll != nil || !m.lost):
		return ErrPollOver
	case m.poll != nil:
		return &PollRunningError{Group: s.group, Instance: m.instance()}
	}
	return nil // also one that began with the coordinator before
}

// repeats tells whether the member's last answer is asked for again.
func (m *member) repeats(requestID string) bool {
	return requestID != "" && m.last != nil && m.last.requestID == requestID && len(m.last.to) > 0
}

// turn closes what the member's last answer left open: it commits what that delivered
// if the member commits by itself. Else what is known of that answer stays until there
// is another: a Begin may be an old one that comes late, and its client have gone on
// long ago.
func (s *state) turn(now time.Time, topics Topics, m *member) {
	if m.v.options.AutoCommit && !m.poll.anew {
		s.commitDelivered(now, topics, m, callAuto)
	}
}

// readable lists the partitions that the member can read now, in order.
func (s *state) readable(topics Topics, m *member) []part {
	var parts []part
	for _, o := range m.v.owned {
		parts = append(parts, o.part)
	}
	for _, p := range m.v.assigned {
		if t, ok := topics.TopicByID(p.topic); ok && p.partition < t.Partitions {
			parts = append(parts, p)
		}
	}
	return parts
}

// positions says where the member reads on. One that joined by polling begins at the
// committed offsets each time.
func (s *state) positions(topics Topics, m *member, parts []part, committed bool, state *PollState) {
	m.poll.start = make(map[part]place, len(parts))
	m.poll.sought, m.poll.proven = nil, nil
	for _, p := range parts {
		at, ok := m.positions[p]
		if committed || !ok {
			at = place{offset: -1, leaderEpoch: -1}
			if v := s.offsets[p]; v != nil {
				at = place{offset: v.offset, leaderEpoch: v.leaderEpoch}
			}
		}
		m.poll.start[p] = at
		state.Positions = append(state.Positions, at.position(topics, p))
	}
}

// repeat has the poll deliver again what the last one with its request id did.
func (s *state) repeat(topics Topics, m *member, state *PollState) {
	m.poll.start = m.last.from
	m.poll.sought, m.poll.proven = nil, nil
	state.Repeat = []int64{}
	for _, p := range slices.SortedFunc(maps.Keys(m.last.from), part.compare) {
		state.Positions = append(state.Positions, m.last.from[p].position(topics, p))
		state.Repeat = append(state.Repeat, m.last.to[p].offset)
	}
}

func (at place) position(topics Topics, p part) Position {
	return Position{TopicPartition: named(topics, p), Offset: at.offset, LeaderEpoch: at.leaderEpoch}
}

// named gives a partition its topic's name, if there is one.
func named(topics Topics, p part) TopicPartition {
	t, _ := topics.TopicByID(p.topic)
	return TopicPartition{Topic: t.Name, TopicID: p.topic, Partition: p.partition}
}

func (tp *TopicPartition) part() part { return part{topic: tp.TopicID, partition: tp.Partition} }

func (at *Position) place() place {
	return place{offset: at.Offset, leaderEpoch: max(at.LeaderEpoch, -1)}
}

func (s *state) deliver(now time.Time, topics Topics, c *Deliver) (*Answer, error) {
	m, err := s.request(now, c.Instance)
	if err != nil {
		return nil, err
	}
	if m.poll == nil || m.poll.token != c.Token {
		return nil, ErrPollOver
	}
	p := m.poll
	p.beat = now
	for _, at := range c.From {
		s.foundAt(now, topics, m, at)
	}
	from, to, moved := map[part]place{}, map[part]place{}, false
	for _, at := range c.To {
		q := at.part()
		start, ok := p.start[q]
		if !ok || at.Offset < start.offset || start.offset < 0 {
			continue
		}
		from[q], to[q] = start, at.place()
		moved = moved || at.Offset > start.offset
	}
	if !moved {
		return &Answer{}, nil
	}
	p.delivering = true
	if p.requestID != "" && !p.repeat {
		m.last = &delivery{requestID: p.requestID, from: from, to: to}
	}
	return &Answer{}, nil
}

// foundAt takes a position that the poll's front found, by the member's reset. One at
// the end of the log is kept for good: found again later it would be further on.
func (s *state) foundAt(now time.Time, topics Topics, m *member, at Position) {
	q := at.part()
	start, ok := m.poll.start[q]
	if !ok || start.offset >= 0 || at.Offset < 0 {
		return
	}
	m.poll.start[q] = at.place()
	if m.v.options.Reset != ResetLatest || s.offsets[q] != nil || !m.reads(q) || s.mutation.has(noInitial) {
		return
	}
	s.putOffset(q, &offsetValue{
		offset: at.Offset, leaderEpoch: at.place().leaderEpoch, time: asRecorded(now), initial: true, index: topics.Index(),
	})
}

func (s *state) end(now time.Time, topics Topics, c *End) (*Answer, error) {
	m, err := s.request(now, c.Instance)
	if err != nil {
		return nil, err
	}
	if m.poll == nil || m.poll.token != c.Token {
		return &Answer{}, nil
	}
	p := m.poll
	if c.Written {
		m.answered(p)
	}
	for _, at := range c.To {
		q := at.part()
		if m.v.options.Reset == ResetLatest {
			s.foundAt(now, topics, m, at) // not told before: nothing was delivered
		}
		start, ok := p.start[q]
		if !ok || !c.Written || at.Offset < 0 || p.sought[q] || !m.reads(q) {
			continue
		}
		if m.positions == nil {
			m.positions = map[part]place{}
		}
		m.positions[q] = at.place()
		if at.Offset <= start.offset {
			continue
		}
		if m.delivered == nil {
			m.delivered = map[part]place{}
		}
		m.delivered[q] = at.place()
	}
	if c.Written && m.v.options.AutoCommit && s.mutation.has(noCommitAtNext) {
		s.commitDelivered(now, topics, m, callAuto)
	}
	m.poll = nil
	s.expect(m)
	return &Answer{}, nil
}

// lose ends a poll whose End isn't to be expected any more. Where its answer had come to
// is known by commits alone.
func (m *member) lose() {
	m.poll, m.unended, m.lost = nil, m.poll, true
	m.follow()
}

// unknown is the poll, under way or lost, whose answer the member may have without an End
// that tells; nil: there is none.
func (m *member) unknown() *poll { return cmp.Or(m.poll, m.unended) }

// follow moves the positions to where the lost poll's answer has come at least.
func (m *member) follow() {
	for p, at := range m.unended.proven {
		if known, ok := m.positions[p]; !m.reads(p) || m.unended.sought[p] || ok && known.offset >= at.offset {
			continue
		}
		if m.positions == nil {
			m.positions = map[part]place{}
		}
		m.positions[p] = at
		delete(m.delivered, p) // it is committed, and more
	}
}

// answered: the member has been given another answer; what is known of those before
// counts no more.
func (m *member) answered(p *poll) {
	m.lost, m.answer = false, p.token
	if p.anew {
		m.delivered = nil
	}
	if !p.delivering && !p.repeat {
		m.last = nil
	}
}

// fate of a poll.
type fate byte

const (
	pollGoesOn  fate = iota
	pollChanged      // what its member reads has changed or has to: Renew if nothing is delivered
	pollOver
)

// beat is a sign of life of a poll from its front.
func (s *state) beat(now time.Time, instance string, token uint64) fate {
	s.wake(now)
	f := s.poll(instance, token)
	if m, err := s.lookup(instance); err == nil && f != pollOver {
		m.heard = now
		if m.poll != nil {
			m.poll.beat = now
		}
	}
	return f
}

// poll tells the fate of a poll and is no sign of life. One of which nothing is known
// here may have begun with the coordinator before: it is to ask anew.
func (s *state) poll(instance string, token uint64) fate {
	m, err := s.lookup(instance)
	switch {
	case err != nil:
		return pollOver
	case m.poll == nil && m.lost:
		return pollChanged
	case m.poll == nil || m.poll.token != token:
		return pollOver
	case m.poll.changed && !m.poll.delivering:
		return pollChanged
	}
	return pollGoesOn
}
