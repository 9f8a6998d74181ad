// Package replication is what the brokers agree on about records: leaders,
// followers, in-sync replicas, high watermarks. It speaks no HTTP and opens no
// segment.
package replication

import (
	"context"
	"fmt"
	"sync"

	"github.com/rs/zerolog"

	"highwater/replication/controller"
	"highwater/storage"
)

// Defaults are the broker-wide answers to what a topic leaves open.
type Defaults struct {
	Partitions        int
	ReplicationFactor int
	MinInSyncReplicas int
	AutoCreateTopics  bool
}

// Config of a Broker.
type Config struct {
	NodeID     int32
	URL        string
	Defaults   Defaults
	Store      *storage.Store
	Controller *controller.Controller
	Logger     zerolog.Logger
}

// Broker is the replication room of one process: the partitions that live here.
type Broker struct {
	cfg Config

	mu         sync.RWMutex // guards partitions
	partitions map[key]*Partition
}

type key struct {
	topic string
	num   int32
}

// New makes a Broker; Start opens its partitions and Run follows the metadata.
func New(cfg Config) *Broker {
	return &Broker{cfg: cfg, partitions: map[key]*Partition{}}
}

// Start opens and recovers every partition that the metadata puts on this broker.
func (b *Broker) Start(ctx context.Context) error {
	return b.materialise(b.cfg.Controller.State())
}

// Run follows metadata changes until ctx ends.
func (b *Broker) Run(ctx context.Context) error {
	for {
		changed := b.cfg.Controller.Changed()
		if err := b.materialise(b.cfg.Controller.State()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

func (b *Broker) materialise(s *controller.State) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, t := range s.Topics {
		for i := range t.Partitions {
			k := key{name, int32(i)}
			if b.partitions[k] != nil {
				continue
			}
			p := &Partition{topic: name, num: int32(i), subs: map[*Signal]struct{}{}}
			log, err := b.cfg.Store.OpenLog(storage.PartitionID{Topic: t.ID, Partition: int32(i)}, storage.LogConfig{}, p.advance)
			if err != nil {
				return fmt.Errorf("replication: open %s-%d: %w", name, i, err)
			}
			p.log = log
			p.hw.Store(log.DurableEnd())
			b.partitions[k] = p
		}
	}
	return nil
}

// State is the newest metadata this broker has applied.
func (b *Broker) State() *controller.State { return b.cfg.Controller.State() }

// Topic is a topic's metadata; *controller.UnknownTopicError when there is none.
func (b *Broker) Topic(name string) (*controller.Topic, error) {
	t, ok := b.State().Topics[name]
	if !ok {
		return nil, &controller.UnknownTopicError{Topic: name}
	}
	return t, nil
}

// CreateTopic makes a topic, filling zero fields from the defaults, and returns
// when its partitions can be written to.
func (b *Broker) CreateTopic(ctx context.Context, req controller.CreateTopicRequest) (*controller.Topic, error) {
	if req.Partitions == 0 {
		req.Partitions = b.cfg.Defaults.Partitions
	}
	t, err := b.cfg.Controller.CreateTopic(ctx, req)
	if err != nil {
		return nil, err
	}
	return t, b.materialise(b.cfg.Controller.State())
}

// Partition finds a partition that this broker leads; else *NotLeaderError,
// *UnknownPartitionError or *controller.UnknownTopicError.
func (b *Broker) Partition(topic string, num int32) (*Partition, error) {
	t, err := b.Topic(topic)
	if err != nil {
		return nil, err
	}
	if num < 0 || int(num) >= len(t.Partitions) {
		return nil, &UnknownPartitionError{Topic: topic, Partition: num, Count: len(t.Partitions)}
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	p := b.partitions[key{topic, num}]
	if p == nil {
		return nil, &NotLeaderError{Topic: topic, Partition: num, Leader: t.Partitions[num].Leader, Epoch: t.Partitions[num].LeaderEpoch}
	}
	return p, nil
}
