package controller

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/google/uuid"
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

// payload is the data of one type of command.
type payload interface {
	// commandType is the "t" of the command.
	commandType() string
	// apply changes e.next and returns the command's result, an error or what
	// the proposer asked for. It may use nothing but the edit's state and itself.
	apply(e *edit) any
}

type initCluster struct {
	ClusterID string `json:"cluster_id"`
}

type registerBroker struct {
	ID          int32     `json:"id"`
	Incarnation uuid.UUID `json:"incarnation"`
	URL         string    `json:"url"`
	Version     string    `json:"version,omitempty"`
	RaftID      string    `json:"raft_id,omitempty"`
}

// setBroker fences, unfences or drains a broker; Epoch must be its registration's.
type setBroker struct {
	ID       int32 `json:"id"`
	Epoch    int64 `json:"epoch"`
	Fenced   bool  `json:"fenced"`
	Draining bool  `json:"draining"`
}

type createTopic struct {
	Name string    `json:"name"`
	ID   uuid.UUID `json:"id"`
	// Replicas of each partition, all of one length, preferred leader first.
	Replicas [][]int32         `json:"replicas"`
	Configs  map[string]string `json:"configs,omitempty"`
}

type deleteTopic struct {
	ID uuid.UUID `json:"id"`
}

// alterTopic sets and removes configs and adds partitions, all or nothing.
type alterTopic struct {
	ID     uuid.UUID         `json:"id"`
	Set    map[string]string `json:"set,omitempty"`
	Remove []string          `json:"remove,omitempty"`
	// From is the number of partitions at which Add starts; the command fails
	// when the topic has another number by then.
	From int       `json:"from,omitempty"`
	Add  [][]int32 `json:"add,omitempty"`
}

func (*initCluster) commandType() string    { return "init_cluster" }
func (*registerBroker) commandType() string { return "register_broker" }
func (*setBroker) commandType() string      { return "set_broker" }
func (*createTopic) commandType() string    { return "create_topic" }
func (*deleteTopic) commandType() string    { return "delete_topic" }
func (*alterTopic) commandType() string     { return "alter_topic" }

// newPayload returns an empty payload of a type, nil for an unknown one.
func newPayload(commandType string) payload {
	for _, p := range []payload{&initCluster{}, &registerBroker{}, &setBroker{}, &createTopic{}, &deleteTopic{}, &alterTopic{}} {
		if p.commandType() == commandType {
			return p
		}
	}
	return nil
}

func encode(p payload) []byte {
	data, err := json.Marshal(p)
	if err != nil {
		panic(err) // plain structs of strings and numbers
	}
	out, err := json.Marshal(&command{Version: commandVersion, Type: p.commandType(), Data: data})
	if err != nil {
		panic(err)
	}
	return out
}

// decode is strict: what it doesn't know is an error, never left out.
func decode(entry []byte) (payload, error) {
	var c command
	if err := unmarshalStrict(entry, &c); err != nil {
		return nil, fmt.Errorf("undecodable command: %w", err)
	}
	if c.Version != commandVersion {
		return nil, fmt.Errorf("command version %d", c.Version)
	}
	p := newPayload(c.Type)
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
