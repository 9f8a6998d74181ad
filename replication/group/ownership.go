package group

import (
	"maps"
	"slices"
)

// Partitions are owned by at most one member. Who is to own what, the target, follows
// from members, subscriptions, topics and what everybody owns now. A partition that is
// to move stays with its owner until that gives it back (G6, KIP-848):
//
//	owned, target is the owner ──target changes──▶ revoking ──owner polls, leaves, expires──▶ free
//	            ▲                                                                              │
//	            └────────────────────────── granted to its target, at once ◀───────────────────┘

// reconcile brings everything that is free to whom it is meant for. Nothing of it
// happens with metadata older than what the group rests on: a topic that isn't there
// may not be there yet.
func (s *state) reconcile(topics Topics) {
	if topics.Index() < s.index {
		return
	}
	s.index = topics.Index() // two calls may come with what they knew in the wrong order
	if shape := topics.Shape(); !s.shaped || shape != s.shape {
		s.shape, s.shaped, s.staleTarget = shape, true, true
		s.dropVanished(topics)
	}
	if s.staleTarget {
		s.retarget(topics)
	}
	if s.unsettled {
		s.settle(topics)
	}
}

// dropVanished drops what belongs to topics that are no more (G7, F45).
func (s *state) dropVanished(topics Topics) {
	there := func(p part) bool {
		t, ok := topics.TopicByID(p.topic)
		return ok && p.partition < t.Partitions
	}
	for _, p := range slices.SortedFunc(maps.Keys(s.offsets), part.compare) {
		if !there(p) {
			s.putOffset(p, nil)
		}
	}
	for _, m := range s.byName() {
		s.keep(topics, m, there)
	}
}

// keep takes from a member all partitions that it may not keep.
func (s *state) keep(topics Topics, m *member, may func(part) bool) {
	v := *m.v
	v.index, v.owned = topics.Index(), nil
	for _, o := range m.v.owned {
		if may(o.part) {
			v.owned = append(v.owned, o)
		}
	}
	if len(v.owned) < len(m.v.owned) {
		s.putMember(m.name, &v)
		m.change()
	}
}

// retarget finds out anew who is to own what, and begins a generation if that is a
// change.
func (s *state) retarget(topics Topics) {
	var members []subscriber
	found := map[string][]TopicInfo{} // by pattern
	for _, m := range s.byName() {
		if !m.v.subscribed() {
			continue
		}
		matched, ok := found[m.v.pattern]
		if !ok || m.v.pattern == "" {
			matched = matching(topics, m.v)
			found[m.v.pattern] = matched
		}
		members = append(members, subscriber{name: m.name, topics: matched})
	}
	target := distribute(members, func(p part) string {
		if m := s.owners[p]; m != nil {
			return m.name
		}
		return ""
	})
	s.staleTarget, s.unsettled = false, true
	if s.meta != nil && !s.isTarget(target) {
		meta := *s.meta
		meta.generation++
		s.putMeta(&meta)
	}
	s.target = target
}

// isTarget tells whether target is the one there is; after a load that is taken for
// what is owned.
func (s *state) isTarget(target map[part]string) bool {
	if s.target != nil {
		return maps.Equal(s.target, target)
	}
	if len(target) != len(s.owners) {
		return false
	}
	for p, name := range target {
		if m := s.owners[p]; m == nil || m.name != name {
			return false
		}
	}
	return true
}

// settle grants what is free, and counts what everybody has to give back.
func (s *state) settle(topics Topics) {
	gains := map[string][]part{}
	for p, name := range s.target {
		if owner := s.owners[p]; owner == nil || (s.mutation.has(noRelease) && owner.name != name) {
			gains[name] = append(gains[name], p)
		}
	}
	for _, m := range s.byName() {
		if gain := gains[m.name]; len(gain) > 0 {
			s.grant(topics, m, gain)
		}
		m.revoking = 0
		for p := range m.owned {
			if s.target[p] != m.name {
				m.revoking++
			}
		}
		if m.revoking > 0 {
			m.change()
		}
	}
	s.unsettled = false
}

func (s *state) grant(topics Topics, m *member, parts []part) {
	v := *m.v
	v.index, v.owned = topics.Index(), slices.Clone(m.v.owned)
	for _, p := range parts {
		v.owned = append(v.owned, ownedPart{part: p, generation: s.generation()})
	}
	slices.SortFunc(v.owned, func(a, b ownedPart) int { return a.part.compare(b.part) })
	s.putMember(m.name, &v)
	m.change()
}

// tell notes that the member learns what it owns.
func (s *state) tell(m *member) {
	for _, generation := range m.owned {
		if generation > m.v.epoch {
			v := *m.v
			v.epoch = s.generation()
			s.putMember(m.name, &v)
			return
		}
	}
}

// release has a member give back what is to go to others; they get it in the same
// batch of records.
func (s *state) release(topics Topics, m *member) {
	if m.revoking == 0 {
		return
	}
	s.keep(topics, m, func(p part) bool { return s.target[p] == m.name })
	s.reconcile(topics)
}

// settled tells whether everybody owns what is theirs.
func (s *state) settled() bool {
	if s.staleTarget || s.unsettled {
		return false
	}
	for _, m := range s.members {
		if m.revoking > 0 {
			return false
		}
	}
	return true
}
