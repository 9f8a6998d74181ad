package controller

import (
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/google/uuid"
	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"highwater/replication/replica"
)

// State is the cluster's metadata at one raft index. It is immutable: a change
// makes a new State that shares what did not change, so a reader may keep it,
// and nothing reached from it may be written to.
type State struct {
	// Index is the raft index of the last command in it.
	Index     uint64
	ClusterID string
	// Protocol is the version of wire that all brokers must know (R100).
	Protocol int
	// Voters are the brokers whose members of the quorum have a vote, in order.
	Voters  []int32
	Brokers map[int32]*Broker

	// Incompatible is the raft index of the first command that this version of
	// the program did not understand; 0: none. From there on this state is not
	// what the quorum agreed on, and the process must not serve from it.
	Incompatible uint64

	// NextProducerID is the first producer id that was never given out; 0: none was.
	// Ids begin at 1 and are never given twice.
	NextProducerID int64

	byName *iradix.Tree[*Topic] // key: the name
	byID   *iradix.Tree[*Topic] // key: the 16 bytes of the id
	// topicsSum is the wrapping sum of all topics' hashes; see Hash.
	topicsSum uint64
	producers producers
	// mutation is a test's: which rules to leave out. It isn't in hash or snapshot.
	mutation replica.Mutation
}

func newState() *State {
	return &State{Protocol: 1, Brokers: map[int32]*Broker{}, byName: iradix.New[*Topic](), byID: iradix.New[*Topic](), producers: newProducers()}
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

func (s *State) isVoter(broker int32) bool { return slices.Contains(s.Voters, broker) }

// BrokerIDs lists the registered brokers in order.
func (s *State) BrokerIDs() []int32 { return slices.Sorted(maps.Keys(s.Brokers)) }

// Eligible tells whether a broker may be in an ISR, and the epoch of its
// registration: it is registered, not fenced and not draining (R42, R44).
func (s *State) Eligible(id int32) (epoch int64, ok bool) {
	b := s.Brokers[id]
	if b == nil {
		return 0, false
	}
	return b.Epoch, !b.Fenced && !b.Draining
}

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
	// Directory is its data directory's id (R73).
	Directory uuid.UUID `json:"directory"`
	// MinProtocol and MaxProtocol are the versions of wire that it speaks (R100).
	MinProtocol int `json:"min_protocol,omitempty"`
	MaxProtocol int `json:"max_protocol,omitempty"`
	// Fenced: not to lead and not to be in an ISR (R69). So a life begins.
	Fenced bool `json:"fenced,omitempty"`
	// Draining: shutting down in order (R74). It leads only where nobody else can,
	// and is in no other ISR.
	Draining bool `json:"draining,omitempty"`
	// DrainIndex is the raft index at which Draining was set; 0: it isn't. Whoever
	// has applied it knows the leaders that took over.
	DrainIndex uint64 `json:"drain_index,omitempty"`
}

// Topic is a topic's metadata. ID changes when a topic is deleted and created again.
type Topic struct {
	Name              string    `json:"name"`
	ID                uuid.UUID `json:"id"`
	ReplicationFactor int       `json:"factor"`
	// MinInSync is what holds where Configs has no min.insync.replicas: resolved
	// once, when the topic was made, so that all members agree on it.
	MinInSync  int               `json:"min_in_sync"`
	Configs    map[string]string `json:"configs,omitempty"` // only what was set; see EffectiveConfigs
	Partitions []Partition       `json:"partitions"`
}

// EffectiveMinInSync is the least size of an ISR with which records can be
// committed: min.insync.replicas, but at most the number of replicas (R27). A
// leader must take it from the same State as the ISR, or a later one: with an
// older, smaller one it could commit what a member of the ELR lacks (R56).
func (t *Topic) EffectiveMinInSync() int {
	n := t.MinInSync
	if v, err := strconv.Atoi(t.Configs[ConfigMinInSyncReplicas]); err == nil && v > 0 {
		n = v
	}
	return max(min(n, t.ReplicationFactor), 1)
}

// defaultMinInSync is the largest number that still lets a third replica fail;
// with fewer replicas any demand beyond one would stop writes at the first failure.
func defaultMinInSync(factor int) int {
	if factor >= 3 {
		return 2
	}
	return 1
}

// unclean tells whether a replica that may lack records may be elected (R79).
func (t *Topic) unclean() bool { return t.Configs[ConfigUncleanElection] == "true" }

// Partition is R1's state of a partition; no offsets are stored here. ISR and ELR
// are disjoint parts of Replicas. No member of the ISR is fenced, none is draining
// but for a leader in whose place nobody else can lead.
type Partition struct {
	Replicas       []int32 `json:"replicas"` // ordered, the first is preferred
	Leader         int32   `json:"leader"`   // NoLeader: none
	LeaderEpoch    int32   `json:"leader_epoch"`
	PartitionEpoch int32   `json:"partition_epoch"`
	ISR            []int32 `json:"isr"`
	// ELR are replicas outside the ISR that hold every committed record: they left
	// when the ISR was (or became) too small to commit anything more (R77). The ISR
	// of a partition with one replica is that replica for ever, and there is no ELR.
	ELR []int32 `json:"elr,omitempty"`
	// LastKnownELR were in ISR or ELR last, but came back without proof of having
	// lost nothing (R77).
	LastKnownELR []int32 `json:"last_known_elr,omitempty"`
	// LastLeader is Leader, or while there is none, who it was.
	LastLeader int32 `json:"last_leader"`
	// Adding and Removing are the replicas that come and go in a reassignment (R82).
	Adding   []int32 `json:"adding,omitempty"`
	Removing []int32 `json:"removing,omitempty"`
	// Recovering: the leader was elected uncleanly and hasn't told yet that it is
	// done; the ISR can't grow until then (R79).
	Recovering bool `json:"recovering,omitempty"`
}

// NoLeader stands for the leader of a partition that has none.
const NoLeader = -1
