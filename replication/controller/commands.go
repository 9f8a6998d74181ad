package controller

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/google/uuid"

	"highwater/replication/wire"
)

// A command is what raft agrees on, as compact JSON:
//
//	{"v":1,"t":"create_topic","d":{…}}
//
// Ids and times are chosen by the proposer and carried in it, so that applying
// it is a pure function of (state, command) (R97). The meaning of a (v, t) pair
// never changes once released: a new meaning is a new v, so that a member that
// doesn't know it says so instead of guessing.
type command struct {
	Version int             `json:"v"`
	Type    string          `json:"t"`
	Data    json.RawMessage `json:"d"`
}

// commandVersion is the newest version of commands that this program applies.
const commandVersion = 1

// Command is one of the structs below.
type Command interface {
	// commandType is the "t" of the command.
	commandType() string
	// apply changes e.next and returns the command's result, an error or what
	// the proposer asked for. It may use nothing but the edit's state and itself.
	apply(e *edit) any
}

// InitCluster founds the cluster; the first one wins for ever. No result.
type InitCluster struct {
	ClusterID string `json:"cluster_id"`
	// Voters are the brokers whose members of the quorum are to have a vote, also
	// when they come back as new ones.
	Voters []int32 `json:"voters,omitempty"`
}

// FinalizeProtocol has the cluster speak a version of wire that every registered
// broker knows (R100). It never goes back. No result. Errors: *RefusedError.
type FinalizeProtocol struct {
	Version int `json:"version"`
}

// RegisterBroker begins a broker's new life, fenced. Result: *Broker. Errors:
// *DuplicateBrokerError, *RefusedError.
type RegisterBroker struct {
	ID          int32     `json:"id"`
	Incarnation uuid.UUID `json:"incarnation"`
	// Replaces is the epoch of the registration whose process the proposer knows
	// to be dead; 0: there was none. Any other one is taken to be alive (R67).
	Replaces int64  `json:"replaces,omitempty"`
	URL      string `json:"url"`
	Version  string `json:"version,omitempty"`
	RaftID   string `json:"raft_id,omitempty"`
	// MinProtocol and MaxProtocol are the versions of wire that the program speaks.
	MinProtocol int          `json:"min_protocol,omitempty"`
	MaxProtocol int          `json:"max_protocol,omitempty"`
	Data        Registration `json:"data"`
}

// SetBroker fences, unfences or drains a broker; Epoch must be its registration's.
// Result: *Broker. Errors: *StaleBrokerEpochError.
type SetBroker struct {
	ID       int32 `json:"id"`
	Epoch    int64 `json:"epoch"`
	Fenced   bool  `json:"fenced"`
	Draining bool  `json:"draining"`
}

// RemoveBroker forgets a broker for good; Epoch must be its registration's. It is
// refused while the broker is alive (unfenced), to a voter, who can only be
// replaced under its own id, and unless Force is set, while the broker may hold
// the only whole copy of a partition. Result: *Broker, as it was. Errors:
// *StaleBrokerEpochError, *RefusedError.
type RemoveBroker struct {
	ID    int32 `json:"id"`
	Epoch int64 `json:"epoch"`
	Force bool  `json:"force,omitempty"`
}

// CreateTopic makes a topic. Result: *Topic. Errors: *TopicExistsError,
// *ConflictError.
type CreateTopic struct {
	Name string    `json:"name"`
	ID   uuid.UUID `json:"id"`
	// Replicas of each partition, all of one length, preferred leader first.
	Replicas [][]int32 `json:"replicas"`
	// MinInSync holds where the configs have no min.insync.replicas; 0: 2 with
	// three replicas or more, else 1.
	MinInSync int               `json:"min_in_sync,omitempty"`
	Configs   map[string]string `json:"configs,omitempty"`
}

// DeleteTopic removes a topic. Result: *Topic, as it was. Errors: *UnknownTopicError.
type DeleteTopic struct {
	ID uuid.UUID `json:"id"`
}

// AlterTopic sets and removes configs and adds partitions, all or nothing.
// Result: *Topic. Errors: *UnknownTopicError, *ConflictError.
type AlterTopic struct {
	ID     uuid.UUID         `json:"id"`
	Set    map[string]string `json:"set,omitempty"`
	Remove []string          `json:"remove,omitempty"`
	// From is the number of partitions at which Add starts; the command fails
	// when the topic has another number by then.
	From int       `json:"from,omitempty"`
	Add  [][]int32 `json:"add,omitempty"`
}

// AlterPartitions are a leader's proposals for the ISRs of partitions that it
// leads (R43); each is judged by itself (R44). Result: []wire.AlterResult, one for
// each in their order. Errors: *StaleBrokerEpochError, and then none was judged.
type AlterPartitions struct {
	Broker  int32                 `json:"broker"`
	Epoch   int64                 `json:"epoch"`
	Changes []wire.AlterPartition `json:"changes"`
}

// DropReplicas is a broker's word that its copies of these partitions are damaged:
// they leave ISR and ELR, and where it leads another takes over if one can (S7).
// Result: []wire.AlterResult, one for each; CodeIneligibleReplica says that nobody
// else can lead, and then nothing changed. Errors: *StaleBrokerEpochError.
type DropReplicas struct {
	Broker     int32                 `json:"broker"`
	Epoch      int64                 `json:"epoch"`
	Partitions []wire.TopicPartition `json:"partitions"`
}

// ElectLeader makes a replica the leader by a person's will. Clean: it must be in
// the ISR (R81). Unclean: the partition has no leader, and what the chosen one
// lacks is lost (R79). Result: *Topic. Errors: *UnknownTopicError, *RefusedError.
type ElectLeader struct {
	Topic     uuid.UUID `json:"topic"`
	Partition int32     `json:"partition"`
	Broker    int32     `json:"broker"`
	Unclean   bool      `json:"unclean,omitempty"`
}

// Reassign gives partitions other replicas, all or nothing: the new ones join
// first, then the old ones leave (R82). No result. Errors: *UnknownTopicError,
// *RefusedError.
type Reassign struct {
	Items []Reassignment `json:"items"`
}

// Reassignment is the replicas that one partition is to end with, the preferred
// leader first; none: what is under way is taken back.
type Reassignment struct {
	Topic     uuid.UUID `json:"topic"`
	Partition int32     `json:"partition"`
	Replicas  []int32   `json:"replicas,omitempty"`
}

// ReserveProducers takes Count producer ids for one broker to give out (I1). What of
// them it doesn't give out, because it stops, nobody ever does. Result: *ProducerIDs.
// Errors: *RefusedError.
type ReserveProducers struct {
	Count int32 `json:"count"`
}

// InitProducer begins a producer's new life under its transactional id: it keeps its
// producer id, in the next epoch, so that its former life is fenced (I8). Result:
// *ProducerIDs, of one. Errors: *RefusedError, *TooManyProducersError.
type InitProducer struct {
	TransactionalID string `json:"transactional_id"`
}

func (*InitCluster) commandType() string      { return "init_cluster" }
func (*FinalizeProtocol) commandType() string { return "finalize_protocol" }
func (*RegisterBroker) commandType() string   { return "register_broker" }
func (*SetBroker) commandType() string        { return "set_broker" }
func (*RemoveBroker) commandType() string     { return "remove_broker" }
func (*CreateTopic) commandType() string      { return "create_topic" }
func (*DeleteTopic) commandType() string      { return "delete_topic" }
func (*AlterTopic) commandType() string       { return "alter_topic" }
func (*AlterPartitions) commandType() string  { return "alter_partitions" }
func (*DropReplicas) commandType() string     { return "drop_replicas" }
func (*ElectLeader) commandType() string      { return "elect_leader" }
func (*Reassign) commandType() string         { return "reassign" }
func (*ReserveProducers) commandType() string { return "reserve_producers" }
func (*InitProducer) commandType() string     { return "init_producer" }

// commandTypes returns an empty command of each type.
func commandTypes() []Command {
	return []Command{&InitCluster{}, &FinalizeProtocol{}, &RegisterBroker{}, &SetBroker{}, &RemoveBroker{}, &CreateTopic{}, &DeleteTopic{},
		&AlterTopic{}, &AlterPartitions{}, &DropReplicas{}, &ElectLeader{}, &Reassign{}, &ReserveProducers{}, &InitProducer{}}
}

// newCommand returns an empty command of a type, nil for an unknown one.
func newCommand(commandType string) Command {
	for _, c := range commandTypes() {
		if c.commandType() == commandType {
			return c
		}
	}
	return nil
}

func encode(c Command) []byte {
	data, err := json.Marshal(c)
	if err != nil {
		panic(err) // plain structs of strings and numbers
	}
	out, err := json.Marshal(&command{Version: commandVersion, Type: c.commandType(), Data: data})
	if err != nil {
		panic(err)
	}
	return out
}

// decode is strict: what it doesn't know is an error, never left out.
func decode(entry []byte) (Command, error) {
	var c command
	if err := unmarshalStrict(entry, &c); err != nil {
		return nil, fmt.Errorf("undecodable command: %w", err)
	}
	if c.Version != commandVersion {
		return nil, fmt.Errorf("command version %d", c.Version)
	}
	p := newCommand(c.Type)
	if p == nil {
		return nil, fmt.Errorf("command type %q", c.Type)
	}
	if err := unmarshalStrict(c.Data, p); err != nil {
		return nil, fmt.Errorf("command %s: %w", c.Type, err)
	}
	return p, nil
}

func unmarshalStrict(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("bytes after the end")
	}
	return nil
}
