package controller

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// fsm applies commands. Apply is called by raft's own goroutine alone; readers
// load the published state.
type fsm struct {
	state   atomic.Pointer[State]
	publish func(*State)
}

func (f *fsm) Apply(entry *raft.Log) any {
	var cmd command
	if err := json.Unmarshal(entry.Data, &cmd); err != nil {
		return fmt.Errorf("controller: undecodable command at index %d: %w", entry.Index, err)
	}
	next, result := f.state.Load().apply(&cmd, entry.Index)
	f.state.Store(next)
	f.publish(next)
	return result
}

// apply returns the next state and the command's result: an error, or a *Topic.
func (s *State) apply(cmd *command, index uint64) (*State, any) {
	next := &State{Index: index, ClusterID: s.ClusterID, Brokers: s.Brokers, Topics: s.Topics}
	switch {
	case cmd.InitCluster != nil:
		if next.ClusterID == "" {
			next.ClusterID = cmd.InitCluster.ClusterID
		}
		return next, nil
	case cmd.RegisterBroker != nil:
		c := cmd.RegisterBroker
		next.Brokers = maps.Clone(s.Brokers)
		next.Brokers[c.ID] = &Broker{ID: c.ID, Incarnation: c.Incarnation, Epoch: int64(index), URL: c.URL, Version: c.Version}
		return next, nil
	case cmd.CreateTopic != nil:
		c := cmd.CreateTopic
		if _, ok := s.Topics[c.Name]; ok {
			return next, &TopicExistsError{Topic: c.Name}
		}
		t := &Topic{Name: c.Name, ID: c.ID, Configs: c.Configs, ReplicationFactor: len(c.Replicas[0])}
		for _, r := range c.Replicas {
			t.Partitions = append(t.Partitions, Partition{Replicas: r, Leader: r[0], ISR: slices.Clone(r)})
		}
		next.Topics = maps.Clone(s.Topics)
		next.Topics[c.Name] = t
		return next, t
	case cmd.DeleteTopic != nil:
		c := cmd.DeleteTopic
		if t, ok := s.Topics[c.Name]; !ok || t.ID != c.ID {
			return next, &UnknownTopicError{Topic: c.Name}
		}
		next.Topics = maps.Clone(s.Topics)
		delete(next.Topics, c.Name)
		return next, nil
	}
	return next, fmt.Errorf("controller: unknown command at index %d", index)
}

func (f *fsm) Snapshot() (raft.FSMSnapshot, error) { return fsmSnapshot{f.state.Load()}, nil }

func (f *fsm) Restore(r io.ReadCloser) error {
	var s State
	if err := json.NewDecoder(r).Decode(&s); err != nil {
		return fmt.Errorf("controller: snapshot: %w", err)
	}
	f.state.Store(&s)
	f.publish(&s)
	return nil
}

type fsmSnapshot struct{ state *State }

func (s fsmSnapshot) Persist(sink raft.SnapshotSink) error {
	if err := json.NewEncoder(sink).Encode(s.state); err != nil {
		_ = sink.Cancel()
		return err
	}
	return sink.Close()
}

func (fsmSnapshot) Release() {}
