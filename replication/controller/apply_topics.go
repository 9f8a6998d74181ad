package controller

import (
	"maps"
	"slices"
)

// The proposer has checked names and config values against this version's
// tables. The state machine doesn't do it again: the tables change between
// versions, what a command means must not.

func (c *createTopic) apply(e *edit) any {
	if _, ok := e.byName.Get([]byte(c.Name)); ok {
		return &TopicExistsError{Topic: c.Name}
	}
	if _, ok := e.topic(c.ID); ok || c.Name == "" || len(c.Replicas) == 0 {
		return &ConflictError{Topic: c.Name}
	}
	partitions, err := e.newPartitions(c.Name, c.Replicas, len(c.Replicas[0]))
	if err != nil {
		return err
	}
	t := &Topic{Name: c.Name, ID: c.ID, ReplicationFactor: len(c.Replicas[0]), Configs: c.Configs, Partitions: partitions}
	e.putTopic(t)
	return t
}

func (c *deleteTopic) apply(e *edit) any {
	t, ok := e.topic(c.ID)
	if !ok {
		return &UnknownTopicError{Topic: c.ID.String()}
	}
	e.deleteTopic(t)
	return t
}

func (c *alterTopic) apply(e *edit) any {
	t, ok := e.topic(c.ID)
	if !ok {
		return &UnknownTopicError{Topic: c.ID.String()}
	}
	next := *t
	if len(c.Add) > 0 {
		if c.From != len(t.Partitions) {
			return &ConflictError{Topic: t.Name}
		}
		added, err := e.newPartitions(t.Name, c.Add, t.ReplicationFactor)
		if err != nil {
			return err
		}
		next.Partitions = slices.Concat(t.Partitions, added) // R87: the others keep everything
	}
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
	e.putTopic(&next)
	return &next
}

// newPartitions makes partitions out of an assignment. Their ISR is every
// replica whose broker isn't fenced now: the logs are empty, so all are
// complete (R88).
func (e *edit) newPartitions(topic string, replicas [][]int32, factor int) ([]Partition, error) {
	partitions := make([]Partition, len(replicas))
	for i, r := range replicas {
		if len(r) != factor || factor == 0 {
			return nil, &ConflictError{Topic: topic}
		}
		p := Partition{Replicas: r}
		for j, id := range r {
			b := e.next.Brokers[id]
			if b == nil || slices.Contains(r[:j], id) {
				return nil, &ConflictError{Topic: topic} // assigned by a proposer with an older view
			}
			if !b.Fenced {
				p.ISR = append(p.ISR, id)
			}
		}
		if len(p.ISR) == len(r) {
			p.ISR = r // share it: both are read only, and there are many
		}
		p.Leader = e.electLeader(&p)
		partitions[i] = p
	}
	return partitions, nil
}
