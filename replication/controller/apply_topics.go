package controller

import (
	"maps"
	"slices"
)

// The proposer has checked names and config values against this version's
// tables. The state machine doesn't do it again: the tables change between
// versions, what a command means must not.

func (c *CreateTopic) apply(e *edit) any {
	if _, ok := e.byName.Get([]byte(c.Name)); ok {
		return &TopicExistsError{Topic: c.Name}
	}
	if _, ok := e.topic(c.ID); ok || c.Name == "" || len(c.Replicas) == 0 {
		return &ConflictError{Topic: c.Name}
	}
	t := &Topic{Name: c.Name, ID: c.ID, ReplicationFactor: len(c.Replicas[0]), MinInSync: c.MinInSync, Configs: c.Configs}
	if t.MinInSync <= 0 {
		t.MinInSync = defaultMinInSync(t.ReplicationFactor)
	}
	var err error
	if t.Partitions, err = e.newPartitions(t, c.Replicas); err != nil {
		return err
	}
	e.putTopic(t)
	return t
}

func (c *DeleteTopic) apply(e *edit) any {
	t, ok := e.topic(c.ID)
	if !ok {
		return &UnknownTopicError{Topic: c.ID.String()}
	}
	e.deleteTopic(t)
	return t
}

func (c *AlterTopic) apply(e *edit) any {
	t, ok := e.topic(c.ID)
	if !ok {
		return &UnknownTopicError{Topic: c.ID.String()}
	}
	next := *t
	if len(c.Set)+len(c.Remove) > 0 {
		next.Configs = maps.Clone(t.Configs)
		if next.Configs == nil {
			next.Configs = map[string]string{}
		}
		for _, name := range c.Remove {
			delete(next.Configs, name)
		}
		maps.Copy(next.Configs, c.Set)
	}
	if len(c.Add) > 0 {
		if c.From != len(t.Partitions) {
			return &ConflictError{Topic: t.Name}
		}
		added, err := e.newPartitions(&next, c.Add)
		if err != nil {
			return err
		}
		next.Partitions = slices.Concat(t.Partitions, added) // R87: the others keep everything
	}
	e.putTopic(&next)
	return e.reviewTopic(&next, t.EffectiveMinInSync())
}

// reviewTopic lets changed configs act on a topic's partitions: another
// min.insync.replicas changes what the ELR means (R56), and a permission to elect
// uncleanly finds leaders (R79). An ELR that was made under a smaller minimum goes,
// except where nobody is in sync: it is all that such a partition has.
func (e *edit) reviewTopic(t *Topic, wasMin int) *Topic {
	for i := range t.Partitions {
		t, _ = e.update(t, int32(i), func(p *Partition) {
			if t.EffectiveMinInSync() > wasMin && len(p.ISR) > 0 {
				p.ELR = nil
			}
		})
	}
	return t
}

// newPartitions makes partitions out of an assignment. Their ISR is every replica
// whose broker may be in one now: the logs are empty, so all are complete (R88).
// For the same reason the others are in the ELR of an ISR that is too small.
func (e *edit) newPartitions(t *Topic, replicas [][]int32) ([]Partition, error) {
	partitions := make([]Partition, len(replicas))
	for i, r := range replicas {
		if len(r) != t.ReplicationFactor || len(r) == 0 || repeats(r) {
			return nil, &ConflictError{Topic: t.Name}
		}
		for _, id := range r {
			if e.next.Brokers[id] == nil {
				return nil, &ConflictError{Topic: t.Name} // assigned by a proposer with an older view
			}
		}
		p := Partition{Replicas: r, Leader: NoLeader, LastLeader: NoLeader, ISR: r} // shared: neither is written to, and there are many
		if len(r) > 1 {
			p.ISR = slices.DeleteFunc(slices.Clone(r), func(id int32) bool { _, ok := e.next.Eligible(id); return !ok })
			p.ELR = minus(r, p.ISR) // review takes it away where the ISR is large enough
			if len(p.ELR) == 0 {
				p.ISR = r
			}
		}
		e.review(t, &p)
		p.LastLeader = p.Leader
		partitions[i] = p
	}
	return partitions, nil
}
