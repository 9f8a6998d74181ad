package replication

import (
	"cmp"
	"slices"

	"github.com/google/uuid"
)

// Roles of a replica.
const (
	roleLeader   = "leader"
	roleFollower = "follower"
	roleResigned = "resigned" // led, knows that it does no more, and waits for metadata (R63)
	roleNone     = "none"     // nobody leads
	roleOffline  = "offline"  // its log can't be opened
)

// DebugPartition is all that a checker of invariants wants to know of a replica.
type DebugPartition struct {
	Topic          string          `json:"topic"`
	TopicID        uuid.UUID       `json:"topic_id"`
	Partition      int32           `json:"partition"`
	Role           string          `json:"role"`
	Leader         int32           `json:"leader"`
	LeaderEpoch    int32           `json:"leader_epoch"` // this replica's own, also once it knows no leader
	PartitionEpoch int32           `json:"partition_epoch"`
	Replicas       []int32         `json:"replicas"`
	ISR            []int32         `json:"isr"`
	MaximalISR     []int32         `json:"maximal_isr,omitempty"` // the leader's: with a change in flight
	ELR            []int32         `json:"elr,omitempty"`         // left out of a leader that is ahead of its metadata
	MinInSync      int             `json:"min_insync_replicas"`
	LogStart       int64           `json:"log_start"`
	HighWatermark  int64           `json:"high_watermark"`
	DurableEnd     int64           `json:"durable_end"`
	LogEnd         int64           `json:"log_end"`
	Epochs         []DebugEpoch    `json:"epochs"`
	Followers      []DebugFollower `json:"followers,omitempty"` // the leader's
}

// DebugEpoch is an entry of the leader-epoch cache.
type DebugEpoch struct {
	Epoch       int32 `json:"epoch"`
	StartOffset int64 `json:"start_offset"`
}

// DebugFollower is what a leader knows of a follower.
type DebugFollower struct {
	Broker int32 `json:"broker"`
	LogEnd int64 `json:"log_end"` // -1: no fetch in this leader epoch
	InSync bool  `json:"in_sync"`
}

// DebugPartitions describes this broker's replicas, in the order of topics and
// partitions. Each is described at one moment.
func (b *Broker) DebugPartitions() []DebugPartition {
	var out []DebugPartition
	b.mu.RLock()
	topics := make([]*topic, 0, len(b.byID))
	for _, t := range b.byID {
		topics = append(topics, t)
	}
	b.mu.RUnlock()
	for _, t := range topics {
		for _, p := range *t.partitions.Load() {
			if p != nil {
				out = append(out, p.debug())
			}
		}
	}
	slices.SortFunc(out, func(a, b DebugPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return out
}

func (p *Partition) debug() DebugPartition {
	self := p.topic.b.cfg.NodeID
	m := p.topic.meta.Load()
	meta := p.meta()
	d := DebugPartition{Topic: m.Name, TopicID: m.ID, Partition: p.num, Role: roleOffline, Leader: meta.Leader, LeaderEpoch: meta.LeaderEpoch,
		PartitionEpoch: meta.PartitionEpoch, Replicas: meta.Replicas, ISR: meta.ISR, ELR: meta.ELR, MinInSync: m.EffectiveMinInSync()}
	if p.offline != nil {
		return d
	}
	p.mu.Lock()
	for p.applying != nil { // the log is about to be cut or has grown, and the rest doesn't fit it yet
		done := p.applying
		p.mu.Unlock()
		<-done
		p.mu.Lock()
	}
	defer p.mu.Unlock()
	d.Role, d.LeaderEpoch = p.role(), p.leaderEpoch
	if d.Role == roleNone && meta.Leader == self {
		d.Role = roleResigned
	}
	p.water.Lock()
	defer p.water.Unlock()
	if p.lead != nil {
		own := p.lead.Meta()
		if own.PartitionEpoch != meta.PartitionEpoch {
			d.ELR = nil
		}
		d.PartitionEpoch, d.ISR, d.MaximalISR = own.PartitionEpoch, own.ISR, p.lead.MaximalISR()
		for _, id := range own.Replicas {
			if id != self {
				v := p.lead.View(id)
				d.Followers = append(d.Followers, DebugFollower{Broker: id, LogEnd: v.End, InSync: v.InSync})
			}
		}
	}
	d.LogStart, d.HighWatermark = p.log.StartOffset(), p.hw.Load()
	d.DurableEnd, d.LogEnd = p.log.DurableEnd(), p.log.WrittenEnd()
	for _, e := range p.log.Epochs() {
		d.Epochs = append(d.Epochs, DebugEpoch(e))
	}
	return d
}
