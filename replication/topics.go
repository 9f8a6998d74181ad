package replication

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"highwater/replication/controller"
)

// topic is this broker's part of a topic.
type topic struct {
	b    *Broker
	meta atomic.Pointer[topicMeta]
	// partitions by number; nil where this broker has no replica. The slice is
	// replaced, never written to, by whoever has the broker's turn.
	partitions atomic.Pointer[[]*Partition]
	deleted    atomic.Bool

	data    subscribers // woken when any partition's records or ends change
	changes subscribers // woken when partitions are added or the topic is deleted

	// counters since the start of the process
	appends, records, bytes atomic.Int64
	dedupe                  dedupeCounters
}

// topicMeta is one version of a topic's metadata with what is worked out of it.
type topicMeta struct {
	*controller.Topic
	config *controller.TopicConfig
}

func (t *topic) count(records int64, bytes int) {
	t.appends.Add(1)
	t.records.Add(records)
	t.bytes.Add(int64(bytes))
}

func (t *topic) name() string { return t.meta.Load().Name }

// partition returns this broker's replica, nil if there is none.
func (t *topic) partition(num int32) *Partition {
	ps := *t.partitions.Load()
	if int(num) >= len(ps) {
		return nil
	}
	return ps[num]
}

func configDefaults(d Defaults) controller.ConfigDefaults {
	out := controller.ConfigDefaults{}
	if d.MinInSyncReplicas > 0 {
		out[controller.ConfigMinInSyncReplicas] = strconv.Itoa(d.MinInSyncReplicas)
	}
	return out
}

// State is the newest metadata this broker has applied.
func (b *Broker) State() *controller.State { return b.cfg.Controller.State() }

// changeTime bounds a change of topics: another broker may have deleted the topic, or
// made it anew, so the newest metadata are asked for before what is there is looked at.
const changeTime = 15 * time.Second

// hearWait bounds how long who asks for what this broker doesn't know of waits for a
// quorum that can tell whether it is there.
const hearWait = 3 * time.Second

// Hear makes State as new as what any broker has answered before, for a "no such topic",
// or partition, or message, that would be wrong if another one had made it a moment ago.
// controller.ErrNoController: the quorum could not be asked within three seconds.
func (b *Broker) Hear(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, hearWait)
	defer cancel()
	return b.cfg.Controller.Newest(ctx)
}

// Quorum describes the metadata quorum.
func (b *Broker) Quorum() controller.QuorumInfo { return b.cfg.Controller.Quorum() }

// ConfigDefaults are this broker's answers to configs that topics leave open.
func (b *Broker) ConfigDefaults() controller.ConfigDefaults { return b.configDefaults }

// Topic is a topic's metadata; *controller.UnknownTopicError when there is none.
func (b *Broker) Topic(name string) (*controller.Topic, error) {
	t, ok := b.State().Topic(name)
	if !ok {
		return nil, &controller.UnknownTopicError{Topic: name}
	}
	return t, nil
}

// Leads tells that this broker leads the partition, as far as that metadata knows.
func (b *Broker) Leads(t *controller.Topic, num int32) bool {
	return t.Partitions[num].Leader == b.cfg.NodeID
}

// TopicConfig is a topic's metadata and its effective configs, read once per
// change of the topic. Errors: as Topic.
func (b *Broker) TopicConfig(name string) (*controller.Topic, *controller.TopicConfig, error) {
	t, err := b.localTopic(name)
	if err != nil {
		return nil, nil, err
	}
	m := t.meta.Load()
	return m.Topic, m.config, nil
}

// TopicNames lists the topics in order, those of Highwater's own only if asked.
func (b *Broker) TopicNames(internal bool) []string {
	s := b.State()
	names := make([]string, 0, s.TopicCount())
	for t := range s.Topics() {
		if internal || !controller.IsInternalTopic(t.Name) {
			names = append(names, t.Name)
		}
	}
	return names
}

// CreateTopic makes a topic, filling zero fields from the defaults, and returns
// when its partitions can be written to. Errors: *controller.TopicExistsError,
// *controller.InvalidNameError, *controller.InvalidConfigError,
// *controller.ImpossibleError, controller.ErrNoController (not made),
// controller.ErrOutcomeUnknown.
func (b *Broker) CreateTopic(ctx context.Context, req controller.CreateTopicRequest) (*controller.Topic, error) {
	if req.Partitions == 0 {
		req.Partitions = max(b.cfg.Defaults.Partitions, 1)
	}
	if req.ReplicationFactor == 0 {
		req.ReplicationFactor = b.cfg.Defaults.ReplicationFactor
	}
	if req.ReplicationFactor == 0 {
		// A voter that this broker hasn't heard of yet, or that hasn't come yet, counts:
		// the first topic of a new cluster must not have fewer copies than the second.
		state := b.State()
		req.ReplicationFactor = max(min(3, max(len(state.Brokers), len(state.Voters))), 1)
	}
	if req.MinInSync == 0 {
		req.MinInSync = b.cfg.Defaults.MinInSyncReplicas
	}
	t, err := b.cfg.Controller.CreateTopic(ctx, req)
	if err != nil {
		return nil, err
	}
	return t, b.catchUp(ctx)
}

// PutTopic is CreateTopic for a caller who may have asked before: a topic that is
// there and doesn't differ from the request is returned with created false. One
// that differs is a *controller.TopicExistsError that names the members.
func (b *Broker) PutTopic(ctx context.Context, req controller.CreateTopicRequest) (t *controller.Topic, created bool, err error) {
	if err := controller.CheckTopicName(req.Name); err != nil {
		return nil, false, err
	}
	if err := controller.CheckConfigs(req.Configs); err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	if err := b.cfg.Controller.Newest(ctx); err != nil {
		return nil, false, err
	}
	for range maxPutTries {
		if t, ok := b.State().Topic(req.Name); ok {
			return b.sameTopic(t, req)
		}
		t, err = b.CreateTopic(ctx, req)
		if exists := (*controller.TopicExistsError)(nil); !errors.As(err, &exists) {
			break
		}
	}
	return t, err == nil, err
}

// maxPutTries bounds how often PutTopic looks again because the topic came or
// went between its look and its proposal.
const maxPutTries = 5

func (b *Broker) sameTopic(t *controller.Topic, req controller.CreateTopicRequest) (*controller.Topic, bool, error) {
	if differs := t.Differs(req, b.configDefaults); len(differs) > 0 {
		return nil, false, &controller.TopicExistsError{Topic: t.Name, Differs: differs}
	}
	return t, false, nil
}

// EnsureTopic is Topic for a produce: with Defaults.AutoCreateTopics a topic that
// isn't there is made, with the defaults.
func (b *Broker) EnsureTopic(ctx context.Context, name string) (*controller.Topic, error) {
	t, err := b.Topic(name)
	if err == nil || !b.cfg.Defaults.AutoCreateTopics {
		return t, err
	}
	t, _, err = b.PutTopic(ctx, controller.CreateTopicRequest{Name: name})
	return t, err
}

// AlterTopic sets configs (nil removes one) and raises the number of partitions
// (0: as it is), and returns when the change holds on this broker. Errors: those
// of controller.AlterTopic.
func (b *Broker) AlterTopic(ctx context.Context, name string, configs map[string]*string, partitions int) (*controller.Topic, error) {
	if err := controller.CheckTopicName(name); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	if err := b.cfg.Controller.Newest(ctx); err != nil {
		return nil, err
	}
	t, err := b.cfg.Controller.AlterTopic(ctx, name, configs, partitions)
	if err != nil {
		return nil, err
	}
	return t, b.catchUp(ctx)
}

// DeleteTopic removes a topic and, before it returns, this broker's copy of its
// records. Whoever waits on it gets *controller.UnknownTopicError.
func (b *Broker) DeleteTopic(ctx context.Context, name string) error {
	if err := controller.CheckTopicName(name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	if err := b.cfg.Controller.Newest(ctx); err != nil {
		return err
	}
	if err := b.cfg.Controller.DeleteTopic(ctx, name); err != nil {
		return err
	}
	return b.catchUp(ctx)
}

// localTopic finds this broker's part of a topic. One that was made, or got more
// partitions, a moment ago is opened first.
func (b *Broker) localTopic(name string) (*topic, error) {
	for try := 0; ; try++ {
		b.mu.RLock()
		t := b.byName[name]
		b.mu.RUnlock()
		newest, ok := b.State().Topic(name)
		if t != nil && (!ok || try > 0 || len(newest.Partitions) <= len(t.meta.Load().Partitions)) {
			return t, nil
		}
		if !ok || try > 0 {
			return nil, &controller.UnknownTopicError{Topic: name}
		}
		if err := b.catchUp(context.Background()); err != nil {
			return nil, fmt.Errorf("replication: topic %q: %w", name, err)
		}
	}
}

// localTopicWith is localTopic of a topic that has a partition num.
func (b *Broker) localTopicWith(name string, num int32) (*topic, error) {
	t, err := b.localTopic(name)
	if err != nil {
		return nil, err
	}
	if n := len(t.meta.Load().Partitions); num < 0 || int(num) >= n {
		return nil, &UnknownPartitionError{Topic: name, Partition: num, Count: n}
	}
	return t, nil
}

// Partition finds a partition that this broker leads; else *NotLeaderError,
// *OfflineError, *UnknownPartitionError or *controller.UnknownTopicError.
func (b *Broker) Partition(name string, num int32) (*Partition, error) {
	t, err := b.localTopicWith(name, num)
	if err != nil {
		return nil, err
	}
	m := t.meta.Load()
	p := t.partition(num)
	if p == nil || p.offline == nil && m.Partitions[num].Leader != b.cfg.NodeID {
		return nil, &NotLeaderError{Topic: name, Partition: num, Leader: m.Partitions[num].Leader, Epoch: m.Partitions[num].LeaderEpoch}
	}
	if p.offline != nil {
		return nil, &OfflineError{Topic: name, Partition: num, Cause: p.offline}
	}
	return p, nil
}
