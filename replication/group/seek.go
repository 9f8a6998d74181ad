package group

import "time"

// seek moves a member's positions, all or none. The poll under way, if any, asks anew:
// what it answered before doesn't move them back.
func (s *state) seek(now time.Time, c *Seek) (*Answer, error) {
	m, err := s.request(now, c.Instance)
	if err != nil {
		return nil, err
	}
	for _, at := range c.To {
		if !m.reads(at.part()) {
			return nil, &UnassignedError{
				Group: s.group, Instance: m.instance(), Partition: at.TopicPartition,
				Pending: m.v.subscribed() && len(m.owned) == 0,
			}
		}
		if at.Offset < 0 {
			return nil, &InvalidError{Reason: "an offset is below 0"}
		}
	}
	for _, at := range c.To {
		p := at.part()
		if m.positions == nil {
			m.positions = map[part]place{}
		}
		m.positions[p] = at.place()
		delete(m.delivered, p)
		if poll := m.unknown(); poll != nil {
			if poll.sought == nil {
				poll.sought = map[part]bool{}
			}
			poll.sought[p] = true
		}
	}
	m.last = nil
	m.change()
	return &Answer{}, nil
}
