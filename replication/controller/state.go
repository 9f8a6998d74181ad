package controller

import (
	"github.com/google/uuid"
)

// State is the cluster's metadata at one raft index. It is immutable: a change
// makes a new State that shares what did not change, so a reader may keep it.
type State struct {
	// Index is the raft index of the last command in it.
	Index     uint64
	ClusterID string
	Brokers   map[int32]*Broker
	Topics    map[string]*Topic
}

// Broker is a registered broker (R3).
type Broker struct {
	ID          int32
	Incarnation uuid.UUID
	Epoch       int64 // raft index of the registration
	URL         string
	Version     string
	Fenced      bool
	Draining    bool
}

// Topic is a topic's metadata. ID changes when a topic is deleted and created again.
type Topic struct {
	Name              string
	ID                uuid.UUID
	ReplicationFactor int
	Configs           map[string]string // only what was set; see EffectiveConfigs
	Partitions        []Partition
}

// Partition is R1's state of a partition; no offsets are stored here.
type Partition struct {
	Replicas       []int32
	Leader         int32 // -1: none
	LeaderEpoch    int32
	PartitionEpoch int32
	ISR            []int32
}
