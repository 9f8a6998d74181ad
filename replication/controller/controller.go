// Package controller is the metadata quorum: brokers, topics, partitions and
// configs as a deterministic state machine on hashicorp/raft. No record passes
// through it and it opens no segment.
package controller

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"github.com/rs/zerolog"
)

// Config of a Controller.
type Config struct {
	Dir     string // raft's own directory
	NodeID  int32
	URL     string // this broker's advertised URL
	Version string
	Logger  zerolog.Logger
}

// Controller is this process's member of the metadata quorum.
type Controller struct {
	cfg   Config
	raft  *raft.Raft
	store *raftboltdb.BoltStore
	fsm   *fsm

	mu      sync.Mutex // guards changed
	changed chan struct{}
}

// Open starts the raft member, and makes a cluster of one voter when the
// directory is new.
func Open(cfg Config) (*Controller, error) {
	if err := os.MkdirAll(cfg.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	c := &Controller{cfg: cfg, changed: make(chan struct{})}
	c.fsm = &fsm{publish: c.publish}
	c.fsm.state.Store(&State{Brokers: map[int32]*Broker{}, Topics: map[string]*Topic{}})
	store, err := raftboltdb.NewBoltStore(filepath.Join(cfg.Dir, "raft.db"))
	if err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	c.store = store
	rc := raft.DefaultConfig()
	rc.LocalID = raft.ServerID(fmt.Sprint(cfg.NodeID))
	rc.HeartbeatTimeout, rc.ElectionTimeout, rc.LeaderLeaseTimeout = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
	rc.Logger = hclog.NewNullLogger()
	snaps, err := raft.NewFileSnapshotStoreWithLogger(cfg.Dir, 2, rc.Logger)
	if err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	addr, transport := raft.NewInmemTransport("")
	has, err := raft.HasExistingState(store, store, snaps)
	if err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	if !has {
		err := raft.BootstrapCluster(rc, store, store, snaps, transport, raft.Configuration{
			Servers: []raft.Server{{ID: rc.LocalID, Address: addr}}})
		if err != nil {
			return nil, fmt.Errorf("controller: %w", err)
		}
	}
	c.raft, err = raft.NewRaft(rc, c.fsm, store, store, snaps, transport)
	if err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	return c, nil
}

// Start waits for a leader, founds the cluster if it is new and registers this
// broker as a new incarnation.
func (c *Controller) Start(ctx context.Context) error {
	for c.raft.State() != raft.Leader {
		select {
		case <-ctx.Done():
			return ErrNoController
		case <-time.After(5 * time.Millisecond):
		}
	}
	if err := c.raft.Barrier(10 * time.Second).Error(); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	if c.State().ClusterID == "" {
		if _, err := c.propose(ctx, &command{InitCluster: &initCluster{ClusterID: uuid.NewString()}}); err != nil {
			return err
		}
	}
	_, err := c.propose(ctx, &command{RegisterBroker: &registerBroker{
		ID: c.cfg.NodeID, Incarnation: uuid.New(), URL: c.cfg.URL, Version: c.cfg.Version}})
	return err
}

// State is the newest applied metadata.
func (c *Controller) State() *State { return c.fsm.state.Load() }

// Changed is closed at the next change of State. Take it before reading State.
func (c *Controller) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

func (c *Controller) publish(*State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
}

// QuorumInfo is what /cluster says about the quorum.
type QuorumInfo struct {
	Leader int32 // -1: none
	Term   uint64
	Voters []int32
}

// Quorum describes the raft quorum as this member sees it.
func (c *Controller) Quorum() QuorumInfo {
	return QuorumInfo{Leader: c.cfg.NodeID, Term: c.raft.CurrentTerm(), Voters: []int32{c.cfg.NodeID}}
}

// CreateTopicRequest asks for a topic; zero fields take the defaults given by the caller.
type CreateTopicRequest struct {
	Name              string
	Partitions        int
	ReplicationFactor int
	Configs           map[string]string
}

// CreateTopic makes the topic or fails with *TopicExistsError,
// *InvalidNameError, *InvalidConfigError or *ImpossibleError.
func (c *Controller) CreateTopic(ctx context.Context, req CreateTopicRequest) (*Topic, error) {
	replicas := make([][]int32, req.Partitions)
	for i := range replicas {
		replicas[i] = []int32{c.cfg.NodeID}
	}
	res, err := c.propose(ctx, &command{CreateTopic: &createTopic{Name: req.Name, ID: uuid.New(), Replicas: replicas, Configs: req.Configs}})
	if err != nil {
		return nil, err
	}
	return res.(*Topic), nil
}

// AlterTopic sets configs (a nil value pointer removes one) and raises the partition count (0: as it is).
func (c *Controller) AlterTopic(ctx context.Context, name string, configs map[string]*string, partitions int) (*Topic, error) {
	return nil, errors.New("controller: not built yet")
}

// DeleteTopic removes the topic; *UnknownTopicError when it isn't there.
func (c *Controller) DeleteTopic(ctx context.Context, name string) error {
	t, ok := c.State().Topics[name]
	if !ok {
		return &UnknownTopicError{Topic: name}
	}
	_, err := c.propose(ctx, &command{DeleteTopic: &deleteTopic{Name: name, ID: t.ID}})
	return err
}

func (c *Controller) propose(ctx context.Context, cmd *command) (any, error) {
	timeout := 10 * time.Second
	if d, ok := ctx.Deadline(); ok {
		timeout = time.Until(d)
	}
	f := c.raft.Apply(cmd.encode(), timeout)
	if err := f.Error(); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrNoController, err)
	}
	if err, ok := f.Response().(error); ok {
		return nil, err
	}
	return f.Response(), nil
}

// Close stops the raft member.
func (c *Controller) Close() error {
	return errors.Join(c.raft.Shutdown().Error(), c.store.Close())
}
