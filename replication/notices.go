package replication

import (
	"context"
	"sync"
	"time"

	"highwater/replication/wire"
)

// noticeTimeout bounds a notice: it is worth something only while the old leader
// doesn't know yet.
const noticeTimeout = 2 * time.Second

// notices tells the other replicas of partitions that this broker leads from now
// on, so that an old leader that the controller can't reach stops (R64).
type notices struct {
	wake chan struct{} // one token

	mu      sync.Mutex // a leaf; guards waiting
	waiting map[int32][]wire.LeaderEpochNotice
}

func newNotices() *notices {
	return &notices{wake: make(chan struct{}, 1), waiting: map[int32][]wire.LeaderEpochNotice{}}
}

// add queues the notices of one partition.
func (n *notices) add(p *Partition, m *topicMeta, self int32) {
	meta := &m.Partitions[p.num]
	notice := wire.LeaderEpochNotice{TopicPartition: wire.TopicPartition{Topic: m.ID, Partition: p.num}, LeaderEpoch: meta.LeaderEpoch, Leader: self}
	n.mu.Lock()
	for _, id := range meta.Replicas {
		if id != self {
			n.waiting[id] = append(n.waiting[id], notice)
		}
	}
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// runNotices sends notices until ctx ends.
func (b *Broker) runNotices(ctx context.Context) {
	var sending sync.WaitGroup
	defer sending.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.notices.wake:
		}
		b.notices.mu.Lock()
		waiting := b.notices.waiting
		b.notices.waiting = map[int32][]wire.LeaderEpochNotice{}
		b.notices.mu.Unlock()
		for id, list := range waiting {
			broker := b.State().Brokers[id]
			if broker == nil || b.cfg.Peers == nil {
				continue
			}
			sending.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, noticeTimeout)
				defer cancel()
				err := b.cfg.Peers.LeaderEpoch(ctx, broker.URL, &wire.LeaderEpochNotices{Version: wire.Version, ClusterID: b.State().ClusterID, Notices: list})
				if err != nil {
					b.cfg.Logger.Debug().Err(err).Int32("broker", id).Msg("a notice of new leader epochs was not taken")
				}
			})
		}
	}
}

// ServeLeaderEpoch takes another broker's word that partitions have newer leaders
// (R63, R64): whoever leads one here in an older epoch stops.
func (b *Broker) ServeLeaderEpoch(notices *wire.LeaderEpochNotices) wire.Code {
	switch {
	case notices.Version < wire.MinVersion || notices.Version > wire.Version:
		return wire.CodeVersion
	case notices.ClusterID != b.State().ClusterID:
		return wire.CodeClusterID
	}
	for _, n := range notices.Notices {
		p, _ := b.replicaFor(&wire.FetchPartition{TopicPartition: n.TopicPartition})
		if p != nil {
			b.depose(p, n.LeaderEpoch, "another broker says that it leads")
		}
	}
	return wire.OK
}
