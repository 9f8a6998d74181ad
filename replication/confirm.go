package replication

import (
	"context"
	"time"
)

// isolationTime is T_iso: how old the contact with the in-sync replicas may be for
// a leader to take it for proof that nobody else leads (R60). An idle follower is
// heard from each fetchWait.
const isolationTime = max(time.Second, 2*fetchWait)

// vouches tells whether a leader may act as one: its broker can't have been fenced
// yet (R59), or the in-sync replicas still fetch from it (R60). A partition with
// one replica has nobody else who could lead.
func (b *Broker) vouches(p *Partition) bool {
	if len(p.meta().Replicas) == 1 || b.cfg.Controller.SessionValid() && b.agreed(p) {
		return true
	}
	return p.confirmed(time.Now(), isolationTime)
}

// agreed tells whether the newest metadata say that this broker leads the partition, in
// the leader epoch in which it does: a session is worth nothing for a role that they have
// ended, also while it is still there.
func (b *Broker) agreed(p *Partition) bool {
	meta := p.meta()
	t, ok := b.cfg.Controller.State().TopicByID(p.topic.meta.Load().ID)
	if !ok || int(p.num) >= len(t.Partitions) {
		return false
	}
	now := &t.Partitions[p.num]
	return now.Leader == b.cfg.NodeID && now.LeaderEpoch == meta.LeaderEpoch && meta.Leader == now.Leader
}

// vouchesForEnd is vouches for what readers are told of the log's end. Where the
// controller is asked to let another replica lead, the new one may be at work while
// this broker's session is as good as ever: then nobody here knows the end (R74, S7).
func (b *Broker) vouchesForEnd(p *Partition) bool {
	p.mu.Lock()
	moving := p.held || p.leaving
	p.mu.Unlock()
	return !moving && b.vouches(p)
}

// watchSession fails the waiting appends of leaders that can't vouch for
// themselves any more (R61), until ctx ends. While the broker's session holds, it
// looks at nothing.
func (b *Broker) watchSession(ctx context.Context) {
	tick := time.NewTicker(isolationTime / 4)
	defer tick.Stop()
	was := true
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		is := b.cfg.Controller.SessionValid()
		if is && was {
			continue
		}
		if is != was {
			b.cfg.Logger.Warn().Bool("valid", is).Msg("session with the controller")
		}
		was = is
		for _, p := range b.openPartitions(nil) {
			b.checkIsolation(p, is)
		}
	}
}

// checkIsolation notes whether a leader can vouch for itself.
func (b *Broker) checkIsolation(p *Partition, valid bool) {
	if len(p.meta().Replicas) == 1 {
		return
	}
	p.water.Lock()
	defer p.water.Unlock()
	if p.lead == nil {
		return
	}
	was := p.isolated
	p.isolated = !valid && !p.lead.Confirmed(time.Now(), isolationTime)
	if p.isolated {
		p.waiters.fail(p.notConfirmed())
	}
	if was != p.isolated {
		b.cfg.Logger.Warn().Str("topic", p.topic.name()).Int32("partition", p.num).Int32("leader_epoch", p.lead.Meta().LeaderEpoch).
			Bool("isolated", p.isolated).Msg("leader cannot reach the controller or the in-sync replicas")
	}
}
