package controller

import (
	"iter"
	"maps"
	"slices"

	"github.com/google/uuid"
	iradix "github.com/hashicorp/go-immutable-radix/v2"
)

// State is the cluster's metadata at one raft index. It is immutable: a change
// makes a new State that shares what did not change, so a reader may keep it,
// and nothing reached from it may be written to.
type State struct {
	// Index is the raft index of the last command in it.
	Index     uint64
	ClusterID string
	Brokers   map[int32]*Broker

	// Incompatible is the raft index of the first command that this version of
	// the program did not understand; 0: none. From there on this state is not
	// what the quorum agreed on, and the process must not serve from it.
	Incompatible uint64

	byName *iradix.Tree[*Topic] // key: the name
	byID   *iradix.Tree[*Topic] // key: the 16 bytes of the id
	// topicsSum is the wrapping sum of all topics' hashes; see Hash.
	topicsSum uint64
}

func newState() *State {
	return &State{Brokers: map[int32]*Broker{}, byName: iradix.New[*Topic](), byID: iradix.New[*Topic]()}
}

// Topic finds a topic by name.
func (s *State) Topic(name string) (*Topic, bool) { return s.byName.Get([]byte(name)) }

// TopicByID finds a topic by id.
func (s *State) TopicByID(id uuid.UUID) (*Topic, bool) { return s.byID.Get(id[:]) }

// TopicCount is the number of topics.
func (s *State) TopicCount() int { return s.byName.Len() }

// Topics yields all topics in the order of their names.
func (s *State) Topics() iter.Seq[*Topic] {
	return func(yield func(*Topic) bool) {
		s.byName.Root().Walk(func(_ []byte, t *Topic) bool { return !yield(t) })
	}
}

// BrokerIDs lists the registered brokers in order.
func (s *State) BrokerIDs() []int32 { return slices.Sorted(maps.Keys(s.Brokers)) }

// Broker is a registered broker (R3).
type Broker struct {
	ID int32 `json:"id"`
	// Incarnation is drawn anew at each start of the process.
	Incarnation uuid.UUID `json:"incarnation"`
	// Epoch is the raft index of the registration; a later one is higher.
	Epoch int64  `json:"epoch"`
	URL   string `json:"url"`
	// Version is the program's version, for people.
	Version string `json:"version,omitempty"`
	// RaftID is the broker's server id in the quorum; empty when it has none (K7).
	RaftID string `json:"raft_id,omitempty"`
	// Fenced: not to lead and not to be in an ISR (R69).
	Fenced bool `json:"fenced,omitempty"`
	// Draining: shutting down in order (R74).
	Draining bool `json:"draining,omitempty"`
}

// Topic is a topic's metadata. ID changes when a topic is deleted and created again.
type Topic struct {
	Name              string            `json:"name"`
	ID                uuid.UUID         `json:"id"`
	ReplicationFactor int               `json:"factor"`
	Configs           map[string]string `json:"configs,omitempty"` // only what was set; see EffectiveConfigs
	Partitions        []Partition       `json:"partitions"`
}

// Partition is R1's state of a partition; no offsets are stored here.
type Partition struct {
	Replicas       []int32 `json:"replicas"` // ordered, the first is preferred
	Leader         int32   `json:"leader"`   // NoLeader: none
	LeaderEpoch    int32   `json:"leader_epoch"`
	PartitionEpoch int32   `json:"partition_epoch"`
	ISR            []int32 `json:"isr"`
}

// NoLeader stands for the leader of a partition that has none.
const NoLeader = -1
