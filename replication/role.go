package replication

import (
	"fmt"
	"slices"
	"time"

	"highwater/replication/controller"
	"highwater/replication/replica"
	"highwater/replication/wire"
)

// metaOf is what the rules want to know of a partition's metadata: all of it of one
// state (R56).
func metaOf(t *controller.Topic, num int32) replica.Meta {
	p := &t.Partitions[num]
	return replica.Meta{LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Replicas: p.Replicas, ISR: p.ISR,
		MinInSync: t.EffectiveMinInSync(), Unclean: t.Configs[controller.ConfigUncleanElection] == "true", Recovering: p.Recovering}
}

// update takes changed metadata over to an open partition. In-between versions may
// never have been seen (R6), and older ones than what is known already come too,
// after the answer to an ISR change (R53). The caller has the broker's turn.
func (b *Broker) update(p *Partition, old, m *topicMeta) error {
	if *old.config != *m.config {
		p.log.Configure(logConfig(m.config))
	}
	meta := &m.Partitions[p.num]
	p.mu.Lock()
	same := meta.LeaderEpoch <= p.leaderEpoch // an older one: it is not for us to go back
	p.mu.Unlock()
	if same {
		b.configure(p, m)
		return nil
	}
	return b.takeRole(p, m)
}

// takeRole makes a partition with an open log what the metadata says it is in a
// new leader epoch, or at the start. The caller has the broker's turn. An error is
// final.
func (b *Broker) takeRole(p *Partition, m *topicMeta) error {
	meta := &m.Partitions[p.num]
	was := p.leave(meta.LeaderEpoch)
	switch meta.Leader {
	case b.cfg.NodeID:
		if err := b.lead(p, m); err != nil {
			return err
		}
	case controller.NoLeader:
	default:
		b.followers.assign(p, meta.Leader, meta.LeaderEpoch)
	}
	b.configure(p, m)
	b.logRole(p, m, was)
	return nil
}

// leave ends whatever role the replica has, in favour of one in a newer leader
// epoch. When it returns nobody works on the log in the old one. It returns the old one.
func (p *Partition) leave(epoch int32) (was string) {
	p.mu.Lock()
	was = p.role()
	f, applying := p.fetcher, p.applying
	p.leader, p.held, p.fetcher, p.leaderEpoch = false, false, nil, epoch
	p.saidLess, p.mayCut, p.leaving = false, false, false
	p.mu.Unlock()
	p.stopLeading()
	if f != nil {
		f.remove(p)
	}
	if applying != nil {
		<-applying
	}
	return was
}

// role names the role. Call it under mu.
func (p *Partition) role() string {
	switch {
	case p.leader:
		return roleLeader
	case p.fetcher != nil:
		return roleFollower
	}
	return roleNone
}

// stopLeading forgets what a leader knows of its followers, and tells them. Who
// waits for an acknowledgement goes on: as a follower this replica may learn that
// it was reached.
func (p *Partition) stopLeading() {
	p.water.Lock()
	led := p.lead != nil
	p.lead, p.isolated, p.start = nil, false, 0
	p.water.Unlock()
	if led {
		p.watches.wake(true)
		p.subs.wake()
		p.topic.data.wake()
	}
}

// lead makes this replica the leader (R49): all of its log is durable, the epoch
// begins at its end, nothing is known of followers; only then it takes appends.
func (b *Broker) lead(p *Partition, m *topicMeta) error {
	meta := metaOf(m.Topic, p.num)
	if err := p.log.Flush(); err != nil {
		return b.roleFailed(p, m, err)
	}
	if err := p.log.BeginEpoch(meta.LeaderEpoch); err != nil {
		return b.roleFailed(p, m, err)
	}
	end := p.log.WrittenEnd()
	p.water.Lock()
	p.epochs.forget()
	p.sent = max(p.sent, end)
	p.lead = replica.NewLeader(b.cfg.NodeID, meta, end, p.hw.Load(), time.Now(), b.rules)
	p.water.Unlock()
	p.mu.Lock()
	p.leader = p.closed == nil && p.heard <= meta.LeaderEpoch
	leads := p.leader
	p.mu.Unlock()
	if !leads {
		p.stopLeading()
		return nil
	}
	b.metrics.elections.Inc()
	if meta.Recovering {
		b.isr.look(p) // what there is here is what there is: say so (R79)
	}
	if meta.LeaderEpoch > 0 && len(meta.Replicas) > 1 {
		b.notices.add(p, m, b.cfg.NodeID)
	}
	return nil
}

// roleFailed tells whether an error of the log, on the way to a role, is final for
// the broker (S4).
func (b *Broker) roleFailed(p *Partition, m *topicMeta, err error) error {
	if p.topic.deleted.Load() {
		return nil
	}
	return fmt.Errorf("replication: leader epoch %d of %s-%d: %w", m.Partitions[p.num].LeaderEpoch, m.Name, p.num, err)
}

// configure takes over what metadata says of the ISR and its least size, and
// moves the high watermark if that allows it (R30, R52).
func (b *Broker) configure(p *Partition, m *topicMeta) {
	meta := metaOf(m.Topic, p.num)
	p.mu.Lock()
	p.minInSync = m.config.MinInSyncReplicas
	p.mu.Unlock()
	p.water.Lock()
	leads := p.lead != nil
	var was replica.Meta
	var own *replica.Change
	if leads {
		was, own = p.lead.Meta(), p.lead.Pending()
		p.lead.SetMeta(meta)
		p.failUnderMin(m.Name)
	}
	start := p.start
	p.water.Unlock()
	if !leads {
		return
	}
	if start > 0 {
		b.starts.add(p)
	}
	if meta.PartitionEpoch > was.PartitionEpoch && !slices.Equal(meta.ISR, was.ISR) && (own == nil || own.PartitionEpoch+1 != meta.PartitionEpoch) {
		b.cfg.Logger.Info().Str("topic", m.Name).Int32("partition", p.num).Int32("leader_epoch", meta.LeaderEpoch).Int32("partition_epoch", meta.PartitionEpoch).
			Ints32("from", was.ISR).Ints32("to", meta.ISR).Str("reason", "the controller changed it").Msg("ISR change")
	}
	p.advance()
}

// failUnderMin answers those who wait, while the ISR is too small for the high
// watermark to move: it may move later, or not (R55). Call it under water.
func (p *Partition) failUnderMin(name string) {
	if m := p.lead.Meta(); len(m.ISR) < m.MinInSync {
		p.waiters.fail(&NotEnoughReplicasError{Topic: name, Partition: p.num, InSync: len(m.ISR), Min: m.MinInSync, Appended: true})
	}
}

// depose stops leading because a newer leader epoch exists (R63), also when the
// metadata that says so hasn't come. It does nothing to one that leads in epoch or
// a later one. what says how it is known.
func (b *Broker) depose(p *Partition, epoch int32, what string) {
	p.mu.Lock()
	p.heard = max(p.heard, epoch)
	if !p.leader || p.leaderEpoch >= epoch {
		p.mu.Unlock()
		return
	}
	own := p.leaderEpoch
	p.leader = false
	p.mu.Unlock()
	p.stopLeading()
	b.cfg.Logger.Warn().Str("topic", p.topic.name()).Int32("partition", p.num).Int32("leader_epoch", own).Int32("newer_epoch", epoch).
		Str("reason", what).Msg("stopped leading: there is a newer leader")
}

func (b *Broker) logRole(p *Partition, m *topicMeta, was string) {
	meta := &m.Partitions[p.num]
	if len(meta.Replicas) == 1 && was == roleNone {
		return // at each start, for each partition: it says nothing
	}
	p.mu.Lock()
	is := p.role()
	p.mu.Unlock()
	b.cfg.Logger.Info().Str("topic", m.Name).Int32("partition", p.num).Str("role", is).Str("was", was).Int32("leader", meta.Leader).
		Int32("leader_epoch", meta.LeaderEpoch).Int32("partition_epoch", meta.PartitionEpoch).Ints32("isr", meta.ISR).
		Int64("log_end", p.log.WrittenEnd()).Int64("high_watermark", p.hw.Load()).Msg("role")
}

// id names a partition to other brokers.
func (p *Partition) id() wire.TopicPartition {
	return wire.TopicPartition{Topic: p.topic.meta.Load().ID, Partition: p.num}
}
