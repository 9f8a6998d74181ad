package controller

import (
	"encoding/json"

	"github.com/google/uuid"
)

// A command is what raft agrees on: one JSON object with exactly one member
// besides "v". Ids and times are chosen by the proposer and carried in it, so
// that applying it is a pure function of (state, command) (R97).
type command struct {
	Version        int             `json:"v"`
	InitCluster    *initCluster    `json:"init_cluster,omitempty"`
	RegisterBroker *registerBroker `json:"register_broker,omitempty"`
	CreateTopic    *createTopic    `json:"create_topic,omitempty"`
	DeleteTopic    *deleteTopic    `json:"delete_topic,omitempty"`
	AlterTopic     *alterTopic     `json:"alter_topic,omitempty"`
}

type initCluster struct {
	ClusterID string `json:"cluster_id"`
}

type registerBroker struct {
	ID          int32     `json:"id"`
	Incarnation uuid.UUID `json:"incarnation"`
	URL         string    `json:"url"`
	Version     string    `json:"version"`
}

type createTopic struct {
	Name     string            `json:"name"`
	ID       uuid.UUID         `json:"id"`
	Replicas [][]int32         `json:"replicas"`
	Configs  map[string]string `json:"configs,omitempty"`
}

type deleteTopic struct {
	Name string    `json:"name"`
	ID   uuid.UUID `json:"id"`
}

type alterTopic struct {
	Name       string            `json:"name"`
	ID         uuid.UUID         `json:"id"`
	Configs    map[string]string `json:"configs,omitempty"`
	Partitions int               `json:"partitions,omitempty"`
}

func (c *command) encode() []byte {
	c.Version = 1
	out, err := json.Marshal(c)
	if err != nil {
		panic(err) // plain structs of strings and numbers
	}
	return out
}
