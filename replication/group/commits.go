package group

import (
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
)

// callAuto stands for the id of a call in what the coordinator commits by itself.
var callAuto = uuid.UUID{}

// asRecorded is a time as a record holds it.
func asRecorded(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func (s *state) commit(now time.Time, topics Topics, call *Call) (*Answer, error) {
	err := s.commitNow(now, topics, call)
	if err != nil && s.did(call.ID) {
		err = nil // the answer was lost, not the commit
	}
	return &Answer{}, err
}

func (s *state) commitNow(now time.Time, topics Topics, call *Call) error {
	c := call.Commit
	if c.Instance == "" {
		if len(s.members) > 0 {
			return &ActiveError{Group: s.group, Members: len(s.members)}
		}
		return s.commitOffsets(now, topics, call.ID, c.Offsets)
	}
	m, err := s.request(now, c.Instance)
	if err != nil {
		return err
	}
	if c.All {
		switch {
		case m.poll != nil:
			return &PollRunningError{Group: s.group, Instance: m.instance()}
		case m.lost, c.Answered != nil && *c.Answered != m.answer:
			return &PositionsLostError{Group: s.group, Instance: m.instance()}
		}
		for _, p := range slices.SortedFunc(maps.Keys(m.delivered), part.compare) {
			if !s.mayCommit(m, p) {
				return s.fenced(topics, m, p)
			}
		}
		s.commitDelivered(now, topics, m, call.ID)
		return nil
	}
	for _, o := range c.Offsets {
		if _, there := topics.TopicByID(o.TopicID); there && !s.mayCommit(m, o.part()) {
			return s.fenced(topics, m, o.part())
		}
	}
	if err := s.commitOffsets(now, topics, call.ID, c.Offsets); err != nil {
		return err
	}
	m.prove(c.Offsets)
	return nil
}

// prove notes what a commit says of a poll that nobody has ended: what lies behind its
// beginning the member can only have from its answer.
func (m *member) prove(offsets []CommitOffset) {
	poll := m.unknown()
	if poll == nil {
		return
	}
	for _, o := range offsets {
		if start, ok := poll.start[o.part()]; !ok || o.Offset <= start.offset {
			continue
		}
		if poll.proven == nil {
			poll.proven = map[part]place{}
		}
		poll.proven[o.part()] = o.place()
	}
	if poll == m.unended {
		m.follow()
	}
}

func (s *state) fenced(topics Topics, m *member, p part) error {
	tp := named(topics, p)
	return &FencedError{Group: s.group, Instance: m.instance(), Generation: s.generation(), Partition: &tp}
}

// mayCommit tells whether the member may commit for a partition (G3, G4): it owns it
// and knows of just this grant, or has assigned it to itself and nobody owns it.
func (s *state) mayCommit(m *member, p part) bool {
	if s.mutation.has(noOwnerCheck) {
		return true
	}
	if generation, owns := m.owned[p]; owns {
		return generation <= m.v.epoch || s.mutation.has(noEpochOfGrant)
	}
	return m.assigned[p] && s.owners[p] == nil
}

// commitOffsets commits all of them, or none. Those of topics that are no more are
// dropped (G7). Errors: *InvalidError, *TooManyError.
func (s *state) commitOffsets(now time.Time, topics Topics, call uuid.UUID, offsets []CommitOffset) error {
	added := map[part]bool{}
	for _, o := range offsets {
		if err := checkOffset(&o); err != nil {
			return err
		}
		if s.offsets[o.part()] == nil {
			added[o.part()] = true
		}
	}
	if len(added) > 0 && len(s.offsets)+len(added) > maxOffsets {
		return &TooManyError{What: "committed offsets of a group", Limit: maxOffsets}
	}
	for _, o := range offsets {
		if t, there := topics.TopicByID(o.TopicID); !there || o.Partition >= t.Partitions {
			continue
		}
		s.found()
		s.putOffset(o.part(), &offsetValue{
			offset: o.Offset, leaderEpoch: o.place().leaderEpoch, time: asRecorded(now),
			call: call, index: topics.Index(), metadata: o.Metadata,
		})
	}
	return nil
}

func checkOffset(o *CommitOffset) error {
	switch {
	case o.Offset < 0 || o.Partition < 0:
		return &InvalidError{Reason: "an offset or a partition is below 0"}
	case len(o.Metadata) > maxMetadata:
		return &TooManyError{What: "bytes of metadata of an offset", Limit: maxMetadata}
	}
	return nil
}

// commitDelivered commits the ends of what the member's answers held.
func (s *state) commitDelivered(now time.Time, topics Topics, m *member, call uuid.UUID) {
	for _, p := range slices.SortedFunc(maps.Keys(m.delivered), part.compare) {
		if owner := s.owners[p]; owner != nil && owner != m {
			continue // assigned by hand, and owned by somebody
		}
		if _, there := topics.TopicByID(p.topic); !there {
			continue
		}
		at := m.delivered[p]
		s.putOffset(p, &offsetValue{
			offset: at.offset, leaderEpoch: at.leaderEpoch, time: asRecorded(now), call: call, index: topics.Index(),
		})
	}
	m.delivered = nil
}

// committed tells committed offsets; what ResetLatest found is none.
func (s *state) committed(now time.Time, topics Topics, c *Committed) (*Answer, error) {
	if c.Instance != "" {
		if _, err := s.request(now, c.Instance); err != nil {
			return nil, err
		}
	} else if !s.exists() {
		return nil, &UnknownGroupError{Group: s.group}
	}
	parts := slices.SortedFunc(maps.Keys(s.offsets), part.compare)
	if len(c.Partitions) > 0 {
		parts = parts[:0]
		for _, tp := range c.Partitions {
			parts = append(parts, tp.part())
		}
	}
	answer := &Answer{Offsets: []OffsetInfo{}}
	for _, p := range parts {
		if v := s.offsets[p]; v != nil && !v.initial {
			answer.Offsets = append(answer.Offsets, v.info(topics, p))
		}
	}
	return answer, nil
}

func (v *offsetValue) info(topics Topics, p part) OffsetInfo {
	at := place{offset: v.offset, leaderEpoch: v.leaderEpoch}
	return OffsetInfo{CommitOffset: CommitOffset{Position: at.position(topics, p), Metadata: v.metadata}, Time: v.time}
}

// reset sets committed offsets from outside, and tells what they were, -1: none.
func (s *state) reset(now time.Time, topics Topics, call *Call) (*Answer, error) {
	c := call.Reset
	if len(s.members) > 0 {
		return nil, &ActiveError{Group: s.group, Members: len(s.members)}
	}
	answer := &Answer{Offsets: []OffsetInfo{}}
	for _, o := range c.Offsets {
		if err := checkOffset(&o); err != nil {
			return nil, err
		}
		from := OffsetInfo{CommitOffset: CommitOffset{
			Position: place{offset: -1, leaderEpoch: -1}.position(topics, o.part()),
		}}
		if v := s.offsets[o.part()]; v != nil && !v.initial {
			from = v.info(topics, o.part())
		}
		answer.Offsets = append(answer.Offsets, from)
	}
	if c.DryRun {
		return answer, nil
	}
	return answer, s.commitOffsets(now, topics, call.ID, c.Offsets)
}

// deleteGroup forgets everything.
func (s *state) deleteGroup() (*Answer, error) {
	if len(s.members) > 0 {
		return nil, &ActiveError{Group: s.group, Members: len(s.members)}
	}
	if !s.exists() {
		return nil, &UnknownGroupError{Group: s.group}
	}
	for _, p := range slices.SortedFunc(maps.Keys(s.offsets), part.compare) {
		s.putOffset(p, nil)
	}
	for _, name := range slices.Sorted(maps.Keys(s.gone)) {
		s.putMember(name, nil)
	}
	s.putMeta(nil)
	return &Answer{}, nil
}
