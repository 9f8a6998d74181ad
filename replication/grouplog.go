package replication

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"highwater/replication/controller"
	"highwater/replication/group"
	"highwater/replication/wire"
	"highwater/storage"
)

// GroupLog is __consumer_offsets as the coordinator of consumer groups uses it: the
// replicas of it that this broker leads, each in one leader epoch.
type GroupLog struct{ b *Broker }

var _ group.Log = GroupLog{}

// GroupLog is this broker's.
func (b *Broker) GroupLog() GroupLog { return GroupLog{b} }

// groupSegmentBytes is the size of the topic's segments: the newest one of a partition
// is never compacted, and all of it has to be loaded.
const groupSegmentBytes = 16 << 20

// maxMakeTries bounds how often Make looks again because another broker made the
// topic at the same moment.
const maxMakeTries = 5

// Make creates the topic unless it is there. Errors: as CreateTopic.
func (l GroupLog) Make(ctx context.Context) error {
	req := controller.CreateTopicRequest{Name: group.Topic, Internal: true, Partitions: group.Partitions,
		Configs: map[string]string{controller.ConfigCleanupPolicy: "compact", controller.ConfigSegmentBytes: strconv.Itoa(groupSegmentBytes)}}
	var err error
	for range maxMakeTries {
		if _, ok := l.b.State().Topic(group.Topic); ok {
			return nil
		}
		_, err = l.b.CreateTopic(ctx, req)
		if exists := (*controller.TopicExistsError)(nil); !errors.As(err, &exists) {
			return err
		}
		if err := l.b.cfg.Controller.Newest(ctx); err != nil {
			return err
		}
	}
	return err
}

// leads finds the replica that leads in epoch.
func (l GroupLog) leads(num, epoch int32) (*Partition, error) {
	p, err := l.b.Partition(group.Topic, num)
	if err != nil {
		return nil, noCoordinator(err)
	}
	p.mu.Lock()
	leads := p.closed == nil && p.leader && p.leaderEpoch == epoch
	p.mu.Unlock()
	if !leads {
		return nil, noCoordinator(p.notLeader())
	}
	return p, nil
}

// Bounds is the log from its start to behind all that was appended.
func (l GroupLog) Bounds(num, epoch int32) (start, end int64, err error) {
	p, err := l.leads(num, epoch)
	if err != nil {
		return 0, 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held || p.leaving { // another broker is to coordinate: nothing is worth loading
		return 0, 0, noCoordinator(p.notLeader())
	}
	return p.log.StartOffset(), p.log.StagedEnd(), nil
}

// groupReadBytes is how much Read reads at once.
const groupReadBytes = 1 << 20

// Read waits for committed records and reads them.
func (l GroupLog) Read(ctx context.Context, num, epoch int32, offset int64, buf []byte) ([]byte, error) {
	p, err := l.leads(num, epoch)
	if err != nil {
		return nil, err
	}
	signal := NewSignal()
	defer p.Subscribe(signal)()
	for {
		if _, err := l.leads(num, epoch); err != nil {
			return nil, err
		}
		res, err := p.read(&FetchRequest{Topic: group.Topic, Partition: num, Offset: offset, MaxBytes: groupReadBytes, Buffer: buf, Isolation: ReadUncommitted})
		switch {
		case IsTransient(err):
			return nil, noCoordinator(err)
		case err != nil:
			return nil, err
		case offset < res.HighWatermark:
			return res.Data, nil
		}
		select {
		case <-signal.C:
		case <-ctx.Done():
			return nil, noCoordinator(ctx.Err())
		}
	}
}

// Leads is nil when no other broker can have led before it was called.
func (l GroupLog) Leads(num, epoch int32) error {
	p, err := l.leads(num, epoch)
	if err != nil {
		return err
	}
	if !l.b.vouchesForEnd(p) {
		return noCoordinator(p.notConfirmed())
	}
	return nil
}

// Ready tells whether an append would be taken.
func (l GroupLog) Ready(num, epoch int32) error {
	p, err := l.leads(num, epoch)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	inSync, leads := p.inSync()
	switch {
	case !leads || p.held:
		return noCoordinator(p.notLeader())
	case !l.b.vouches(p):
		return noCoordinator(p.notConfirmed())
	case inSync < p.minInSync:
		return &NotEnoughReplicasError{Topic: group.Topic, Partition: num, InSync: inSync, Min: p.minInSync}
	}
	return nil
}

// Append appends in the epoch and waits until it is committed.
func (l GroupLog) Append(ctx context.Context, num, epoch int32, batches []storage.Batch) error {
	if !l.b.appends.enter() {
		return noCoordinator(ErrShuttingDown)
	}
	defer l.b.appends.leave()
	res := l.b.appendLocal(ctx, AcksAll, []AppendRequest{{Topic: group.Topic, Partition: num, Batches: batches, LeaderEpoch: &epoch}})[0]
	var unknownTopic *controller.UnknownTopicError
	switch {
	case res.Err == nil:
		return nil
	case res.Unknown:
		return fmt.Errorf("%w: %w", group.ErrUnknownOutcome, res.Err)
	case IsTransient(res.Err), errors.As(res.Err, &unknownTopic), errors.As(res.Err, new(*OfflineError)), errors.As(res.Err, new(*UnknownPartitionError)):
		return noCoordinator(res.Err)
	}
	return res.Err
}

func noCoordinator(err error) error { return fmt.Errorf("%w: %w", group.ErrNoCoordinator, err) }

// GroupErrors carries errors of this room for the groups' calls.
type GroupErrors struct{}

var _ group.Errors = GroupErrors{}

// Encode makes err ready for another broker.
func (GroupErrors) Encode(err error) *wire.Error { return encodeError(err) }

// Decode makes again what Encode was given.
func (GroupErrors) Decode(e *wire.Error) error { return decodeError(e) }
