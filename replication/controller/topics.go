package controller

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/google/uuid"
)

// maxPartitions bounds the partitions of one topic: each costs every broker of
// the cluster memory, and its leader some on disk.
const maxPartitions = 10_000

// maxAlterTries bounds how often a change starts over because the topic changed
// in between.
const maxAlterTries = 5

// CreateTopicRequest asks for a topic. All of it is decided: whoever calls has
// filled in what a client left out.
type CreateTopicRequest struct {
	Name              string
	Partitions        int
	ReplicationFactor int
	// MinInSync holds where Configs has no min.insync.replicas, for the topic's
	// whole life; 0: 2 with three replicas or more, else 1.
	MinInSync int
	Configs   map[string]string
	// Internal: the topic is one that Highwater keeps for itself.
	Internal bool
}

// Check tells what is wrong with the request in a cluster of this many brokers:
// nil, *InvalidNameError, *InvalidConfigError (several are joined) or
// *ImpossibleError.
func (r *CreateTopicRequest) Check(brokers int) error {
	if err := CheckTopicName(r.Name); err != nil && !(r.Internal && IsInternalTopic(r.Name)) {
		return err
	}
	if err := CheckConfigs(r.Configs); err != nil {
		return err
	}
	switch {
	case r.Partitions < 1 || r.Partitions > maxPartitions:
		return &ImpossibleError{Reason: fmt.Sprintf("a topic has 1 to %d partitions, not %d", maxPartitions, r.Partitions)}
	case r.ReplicationFactor < 1:
		return &ImpossibleError{Reason: fmt.Sprintf("replication_factor is at least 1, not %d", r.ReplicationFactor)}
	case r.ReplicationFactor > brokers:
		return &ImpossibleError{Reason: tooManyReplicas(r.ReplicationFactor, brokers)}
	}
	return checkMinInSync(r.Configs, r.ReplicationFactor)
}

func tooManyReplicas(factor, brokers int) string {
	if brokers == 1 {
		return fmt.Sprintf("replication_factor is %d, but there is 1 broker", factor)
	}
	return fmt.Sprintf("replication_factor is %d, but there are %d brokers", factor, brokers)
}

func checkMinInSync(configs map[string]string, factor int) error {
	v, ok := configs[ConfigMinInSyncReplicas]
	if !ok {
		return nil
	}
	if n, err := strconv.Atoi(v); err != nil || n > factor {
		return &ImpossibleError{Reason: fmt.Sprintf("%s is %s, but replication_factor is %d", ConfigMinInSyncReplicas, v, factor)}
	}
	return nil
}

// Differs lists the members of a request for a topic in which the existing t is
// different, empty when it is as asked. What the request leaves out (zero, or no
// such config) never differs; a config is compared with the effective one.
func (t *Topic) Differs(req CreateTopicRequest, defaults ConfigDefaults) []string {
	var out []string
	if req.Partitions != 0 && req.Partitions != len(t.Partitions) {
		out = append(out, "partitions")
	}
	if req.ReplicationFactor != 0 && req.ReplicationFactor != t.ReplicationFactor {
		out = append(out, "replication_factor")
	}
	for _, name := range ConfigNames() {
		if v, ok := req.Configs[name]; ok && v != t.effective(name, defaults) {
			out = append(out, "configs."+name)
		}
	}
	for name := range req.Configs {
		if _, ok := findConfig(name); !ok {
			out = append(out, "configs."+name)
		}
	}
	slices.Sort(out)
	return out
}

// CreateTopic makes the topic or fails with *TopicExistsError or what
// CreateTopicRequest.Check says.
func (c *Controller) CreateTopic(ctx context.Context, req CreateTopicRequest) (*Topic, error) {
	if err := req.Check(math.MaxInt); err != nil {
		return nil, err // however many brokers there are
	}
	brokers := c.State().brokersFor(req.ReplicationFactor)
	if req.ReplicationFactor > len(brokers) {
		// Perhaps a broker has come that this one has not heard of yet.
		if err := c.Newest(ctx); err != nil {
			return nil, err
		}
		brokers = c.State().brokersFor(req.ReplicationFactor)
	}
	if err := req.Check(len(brokers)); err != nil {
		return nil, err
	}
	cmd := &CreateTopic{Name: req.Name, MinInSync: req.MinInSync, Configs: req.Configs,
		Replicas: assign(brokers, c.State().TopicCount(), req.Partitions, req.ReplicationFactor)}
	return c.createTopic(ctx, cmd)
}

// createTopic proposes the topic until it is known what came of it. Each try has an
// id of its own, for an id is never given twice; a topic by the id of any of them is
// ours.
func (c *Controller) createTopic(ctx context.Context, cmd *CreateTopic) (*Topic, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	tried := map[uuid.UUID]bool{}
	var unknown error // of a try that may be decided yet
	for {
		try := *cmd
		try.ID = uuid.New()
		tried[try.ID] = true
		res, err := c.propose(ctx, &try)
		if err == nil {
			return res.(*Topic), nil
		}
		if t, ok := c.State().Topic(cmd.Name); ok && tried[t.ID] {
			return t, nil // it was made after all
		}
		if errors.Is(err, ErrOutcomeUnknown) {
			unknown = err
		} else if unknown == nil || !errors.Is(err, ErrNoController) {
			return nil, err
		}
		if ctx.Err() != nil || c.failure() != nil || errors.Is(err, ErrNoController) {
			return nil, unknown // also if a later try was provably not proposed
		}
	}
}

// AlterTopic sets configs (a nil value removes one, so that the default holds
// again) and raises the number of partitions (0: as it is), all or nothing.
// Errors: *UnknownTopicError, *InvalidNameError for an internal topic,
// *InvalidConfigError, *ImpossibleError.
func (c *Controller) AlterTopic(ctx context.Context, name string, configs map[string]*string, partitions int) (*Topic, error) {
	var err error
	for range maxAlterTries {
		var t *Topic
		t, err = c.alterTopicOnce(ctx, name, configs, partitions)
		if conflict := (*ConflictError)(nil); !errors.As(err, &conflict) {
			return t, err
		}
	}
	return nil, err
}

func (c *Controller) alterTopicOnce(ctx context.Context, name string, configs map[string]*string, partitions int) (*Topic, error) {
	s := c.State()
	t, ok := s.Topic(name)
	if !ok {
		return nil, &UnknownTopicError{Topic: name}
	}
	if IsInternalTopic(name) {
		return nil, CheckTopicName(name)
	}
	cmd := &AlterTopic{ID: t.ID, From: len(t.Partitions), Set: map[string]string{}}
	for key, value := range configs {
		if value != nil {
			cmd.Set[key] = *value
			continue
		}
		if _, ok := findConfig(key); !ok {
			return nil, CheckConfig(key, "")
		}
		cmd.Remove = append(cmd.Remove, key)
	}
	slices.Sort(cmd.Remove)
	if err := CheckConfigs(cmd.Set); err != nil {
		return nil, err
	}
	if err := checkMinInSync(cmd.Set, t.ReplicationFactor); err != nil {
		return nil, err
	}
	switch {
	case partitions < 0 || partitions > maxPartitions:
		return nil, &ImpossibleError{Reason: fmt.Sprintf("a topic has 1 to %d partitions, not %d", maxPartitions, partitions)}
	case partitions != 0 && partitions < len(t.Partitions):
		return nil, &ImpossibleError{Reason: fmt.Sprintf("topic %q has %d partitions; the number can only grow, not go to %d", name, len(t.Partitions), partitions)}
	case partitions > len(t.Partitions):
		brokers := s.brokersFor(t.ReplicationFactor)
		if t.ReplicationFactor > len(brokers) {
			return nil, &ImpossibleError{Reason: tooManyReplicas(t.ReplicationFactor, len(brokers))}
		}
		cmd.Add = assign(brokers, s.TopicCount()+len(t.Partitions), partitions-len(t.Partitions), t.ReplicationFactor)
	}
	if len(cmd.Set)+len(cmd.Remove)+len(cmd.Add) == 0 {
		return t, nil
	}
	res, err := c.propose(ctx, cmd)
	if err != nil {
		return nil, renameUnknown(err, name)
	}
	return res.(*Topic), nil
}

// DeleteTopic removes the topic; *UnknownTopicError when it isn't there,
// *InvalidNameError for an internal topic.
func (c *Controller) DeleteTopic(ctx context.Context, name string) error {
	t, ok := c.State().Topic(name)
	if !ok {
		return &UnknownTopicError{Topic: name}
	}
	if IsInternalTopic(name) {
		return CheckTopicName(name)
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	var unknown error // of a try that may be decided yet
	for {
		_, err := c.propose(ctx, &DeleteTopic{ID: t.ID})
		if err == nil {
			return nil
		}
		if errors.Is(err, ErrOutcomeUnknown) {
			unknown = err
		}
		if _, ok := c.State().TopicByID(t.ID); !ok && unknown != nil {
			return nil // by one of these tries or by somebody else: it is gone
		}
		if !errors.Is(err, ErrOutcomeUnknown) && (unknown == nil || !errors.Is(err, ErrNoController)) {
			return renameUnknown(err, name)
		}
		if ctx.Err() != nil || c.failure() != nil || errors.Is(err, ErrNoController) {
			return unknown // also if a later try was provably not proposed
		}
	}
}

// renameUnknown puts the name that the client used where the state machine knew
// an id only.
func renameUnknown(err error, name string) error {
	if unknown := (*UnknownTopicError)(nil); errors.As(err, &unknown) {
		return &UnknownTopicError{Topic: name}
	}
	return err
}

// eligibleBrokers lists, in order, those that may get new replicas.
func (s *State) eligibleBrokers() []int32 {
	return slices.DeleteFunc(s.BrokerIDs(), func(id int32) bool { return s.Brokers[id].Fenced || s.Brokers[id].Draining })
}

// brokersFor lists, in order, those that get the replicas of new partitions: those
// that are alive, and only where they are too few for the factor others, too. These
// are out of sync until they are back and have fetched what there is (R88): a broker
// that is down for a while doesn't keep topics from being created.
func (s *State) brokersFor(factor int) []int32 {
	brokers := s.eligibleBrokers()
	if len(brokers) == 0 {
		return nil // nobody could lead
	}
	for _, id := range s.BrokerIDs() {
		if len(brokers) >= factor {
			break
		}
		if !slices.Contains(brokers, id) {
			brokers = append(brokers, id)
		}
	}
	slices.Sort(brokers)
	return brokers
}

// assign gives each partition its replicas. start counts partitions, or topics,
// that were assigned before: leaders go round the brokers from there, and from one
// round to the next the followers stand in another order behind them, so that the
// partitions of a failed broker are led by all others.
func assign(brokers []int32, start, partitions, factor int) [][]int32 {
	n := len(brokers)
	out := make([][]int32, partitions)
	for p := range out {
		first, round := (start+p)%n, (start+p)/n
		replicas := []int32{brokers[first]}
		for j := 1; j < factor; j++ {
			shift := 1 + (round+j-1)%(n-1)
			replicas = append(replicas, brokers[(first+shift)%n])
		}
		out[p] = replicas
	}
	return out
}
