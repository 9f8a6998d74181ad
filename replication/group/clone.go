package group

import "maps"

// clone is a copy that shares nothing with s that either will write to: what it
// decides can be thrown away. It is for the times when nothing can be appended.
func (s *state) clone() *state {
	c := *s
	c.members, c.gone, c.offsets, c.target = make(map[string]*member, len(s.members)), maps.Clone(s.gone), maps.Clone(s.offsets), maps.Clone(s.target)
	c.owners, c.out = make(map[part]*member, len(s.owners)), nil
	for name, m := range s.members {
		c.members[name] = m.clone()
	}
	for p, m := range s.owners {
		c.owners[p] = c.members[m.name]
	}
	return &c
}

func (m *member) clone() *member {
	c := *m
	c.owned, c.assigned, c.positions, c.delivered = maps.Clone(m.owned), maps.Clone(m.assigned), maps.Clone(m.positions), maps.Clone(m.delivered)
	c.poll, c.unended = m.poll.clone(), m.unended.clone()
	if m.last != nil {
		c.last = &delivery{requestID: m.last.requestID, from: maps.Clone(m.last.from), to: maps.Clone(m.last.to)}
	}
	return &c
}

func (p *poll) clone() *poll {
	if p == nil {
		return nil
	}
	c := *p
	c.start, c.sought, c.proven = maps.Clone(p.start), maps.Clone(p.sought), maps.Clone(p.proven)
	return &c
}
