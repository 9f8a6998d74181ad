package replication

import (
	"context"
	"errors"
	"slices"
	"time"

	"highwater/replication/controller"
	"highwater/storage"
)

// Offsets are the ends of a partition as consumers see them.
type Offsets struct {
	Beginning      int64
	End            int64 // the high watermark
	LogEnd         int64 // LEO
	ForTimestamp   int64
	TimestampFound bool
	Stale          bool // see FetchResult
}

// offsetsLocal is Offsets of a partition that this broker leads.
func (b *Broker) offsetsLocal(ctx context.Context, name string, num int32, timestampMs *int64) (Offsets, error) {
	p, err := b.Partition(name, num)
	if err != nil {
		return Offsets{}, err
	}
	o := Offsets{}
	if o.End, err = p.knownEnd(ctx); err != nil {
		return Offsets{}, err
	}
	o.Beginning = min(p.log.StartOffset(), o.End)
	o.LogEnd = max(p.log.WrittenEnd(), o.End)
	if timestampMs != nil {
		o.ForTimestamp, o.TimestampFound, err = p.log.OffsetForTimestamp(*timestampMs, o.End)
	}
	o.Stale = !b.vouchesForEnd(p) // R61
	return o, p.gone(err)
}

// endWait bounds how long a new leader lets an asker for its end wait.
const endWait = 5 * time.Second

// knownEnd is the high watermark once it is sure that no former leader told a
// higher one (R51), which a new leader's followers show it in a moment. Errors:
// those of readable, *OffsetNotAvailableError.
func (p *Partition) knownEnd(ctx context.Context) (int64, error) {
	hw, knows, err := p.readable()
	if err != nil || knows {
		return hw, err
	}
	signal := NewSignal()
	defer p.Subscribe(signal)()
	deadline := time.NewTimer(endWait)
	defer deadline.Stop()
	for {
		if hw, knows, err = p.readable(); err != nil || knows {
			return hw, err
		}
		if !wait(ctx, signal, deadline, p.topic.b.drain) {
			return 0, &OffsetNotAvailableError{Topic: p.topic.name(), Partition: p.num}
		}
	}
}

// deleteRecordsLocal is DeleteRecords of a partition that this broker leads.
func (b *Broker) deleteRecordsLocal(ctx context.Context, name string, num int32, before int64) (int64, error) {
	p, err := b.Partition(name, num)
	if err != nil {
		return 0, err
	}
	return b.deleteRecordsIn(ctx, p, before)
}

// ReplicaStatus is one replica as the leader sees it.
type ReplicaStatus struct {
	Broker         int32
	Leader         bool
	InSync         bool
	LogEndOffset   int64 // -1: not known
	Lag            int64 // records behind the leader; -1: not known
	LastCaughtUpMs int64 // how long ago it had all; -1: not known
}

// PartitionStatus is what GET …/partitions/{p} tells.
type PartitionStatus struct {
	Partition   int32
	Leader      int32 // controller.NoLeader: none
	LeaderEpoch int32
	ISR         []int32
	// The offsets are -1 when there is no leader, or it couldn't be asked.
	LogStartOffset int64
	HighWatermark  int64
	LogEndOffset   int64
	SizeBytes      int64
	Replicas       []ReplicaStatus
	// Dedupe is what the partition remembers of message ids and producers; nil where
	// the offsets are -1.
	Dedupe *storage.DedupeFigures
}

// partitionStatusLocal is PartitionStatus as far as this broker knows: one led
// elsewhere is told without offsets.
func (b *Broker) partitionStatusLocal(name string, num int32) (PartitionStatus, error) {
	t, err := b.Topic(name)
	if err != nil {
		return PartitionStatus{}, err
	}
	if num < 0 || int(num) >= len(t.Partitions) {
		return PartitionStatus{}, &UnknownPartitionError{Topic: name, Partition: num, Count: len(t.Partitions)}
	}
	meta := &t.Partitions[num]
	st := PartitionStatus{Partition: num, Leader: controller.NoLeader, LeaderEpoch: meta.LeaderEpoch, ISR: meta.ISR, LogStartOffset: -1, HighWatermark: -1, LogEndOffset: -1}
	p, err := b.Partition(name, num)
	if unknown := (*controller.UnknownTopicError)(nil); errors.As(err, &unknown) {
		return PartitionStatus{}, err
	}
	if err != nil || meta.Leader != b.cfg.NodeID {
		for _, id := range meta.Replicas {
			st.Replicas = append(st.Replicas, ReplicaStatus{Broker: id, InSync: slices.Contains(meta.ISR, id), LogEndOffset: -1, Lag: -1, LastCaughtUpMs: -1})
		}
		return st, nil
	}
	p.describe(meta.Replicas, &st)
	return st, nil
}

// describe fills in what the leader knows. One that has resigned knows nothing.
func (p *Partition) describe(replicas []int32, st *PartitionStatus) {
	self := p.topic.b.cfg.NodeID
	p.water.Lock()
	defer p.water.Unlock()
	if p.lead != nil {
		meta := p.lead.Meta()
		st.Leader, st.LeaderEpoch, st.ISR = self, meta.LeaderEpoch, meta.ISR
		st.LogStartOffset = p.log.StartOffset()
		st.HighWatermark = p.hw.Load()
		st.LogEndOffset = max(p.log.WrittenEnd(), st.HighWatermark)
		st.SizeBytes = p.log.SizeBytes()
		figures := p.log.DedupeFigures()
		st.Dedupe = &figures
	}
	for _, id := range replicas {
		r := ReplicaStatus{Broker: id, LogEndOffset: -1, Lag: -1, LastCaughtUpMs: -1}
		switch {
		case p.lead == nil:
		case id == self:
			r.Leader, r.InSync, r.LogEndOffset, r.Lag, r.LastCaughtUpMs = true, true, st.LogEndOffset, 0, 0
		default:
			view := p.lead.View(id)
			r.InSync = view.InSync
			if view.End >= 0 {
				r.LogEndOffset, r.Lag = view.End, max(st.LogEndOffset-view.End, 0)
			}
			if !view.LastCaughtUp.IsZero() {
				r.LastCaughtUpMs = time.Since(view.LastCaughtUp).Milliseconds()
			}
		}
		st.Replicas = append(st.Replicas, r)
	}
}

// Cluster is what GET /cluster tells.
type Cluster struct {
	ID      string
	Quorum  controller.QuorumInfo
	Brokers []*controller.Broker // in the order of ids
}

// Cluster describes the cluster as this broker knows it.
func (b *Broker) Cluster() Cluster {
	s := b.State()
	c := Cluster{ID: s.ClusterID, Quorum: b.Quorum()}
	for _, id := range s.BrokerIDs() {
		broker := s.Brokers[id]
		if id == b.cfg.NodeID && b.Draining() && !broker.Draining {
			mine := *broker
			mine.Draining = true
			broker = &mine
		}
		c.Brokers = append(c.Brokers, broker)
	}
	return c
}

// Ready tells why this broker doesn't serve in full, nil when it does: it is
// registered and not fenced, leads its partitions and isn't draining.
func (b *Broker) Ready() error {
	me := b.State().Brokers[b.cfg.NodeID]
	switch {
	case b.Draining():
		return ErrShuttingDown
	case me == nil:
		return errors.New("replication: not registered yet")
	case me.Fenced:
		return errors.New("replication: fenced by the controller")
	case !b.started.Load():
		return errors.New("replication: log recovery is not done")
	}
	return nil
}
