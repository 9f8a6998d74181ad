package group

import (
	"cmp"
	"slices"
	"time"
)

func (s *state) query(now time.Time, topics Topics, c *MemberQuery) (*Answer, error) {
	m, err := s.request(now, c.Instance)
	if err != nil {
		return nil, err
	}
	if c.Answered {
		if m.poll != nil {
			return nil, &PollRunningError{Group: s.group, Instance: m.instance()}
		}
		return &Answer{Member: &MemberInfo{Instance: m.instance(), Answered: m.answer}}, nil
	}
	s.tell(m)
	info := s.info(topics, m)
	return &Answer{Member: &info}, nil
}

func (s *state) info(topics Topics, m *member) MemberInfo {
	info := MemberInfo{
		Instance: m.instance(), Options: m.v.options, Topics: m.v.topics, Pattern: m.v.pattern,
		Assignments: []TopicPartition{}, Manual: len(m.v.assigned) > 0,
	}
	for _, p := range s.readable(topics, m) {
		info.Assignments = append(info.Assignments, named(topics, p))
	}
	slices.SortFunc(info.Assignments, func(a, b TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), a.part().compare(b.part()))
	})
	return info
}

func (s *state) describe(topics Topics) (*Answer, error) {
	if !s.exists() {
		return nil, &UnknownGroupError{Group: s.group}
	}
	d := &Description{Group: s.group, State: s.condition(), Generation: s.generation(), Members: []MemberInfo{}}
	for _, m := range s.byName() {
		d.Members = append(d.Members, s.info(topics, m))
	}
	return &Answer{Description: d}, nil
}

func (s *state) condition() string {
	switch {
	case len(s.members) == 0:
		return StateEmpty
	case s.settled():
		return StateStable
	}
	return StateReconciling
}

// listing is the group in a list; Coordinator is left to the caller.
func (s *state) listing() Listing {
	return Listing{Group: s.group, State: s.condition(), Members: len(s.members)}
}
