package replication

import (
	"context"
	"errors"
	"fmt"
	"time"

	"highwater/storage"
)

const (
	// retentionInterval is the time in which every partition is looked at once.
	retentionInterval = 5 * time.Second
	// retentionSteps spreads them over that time, so that many partitions make no
	// burst of work.
	retentionSteps = 20
)

// runRetention applies the retention configs until ctx ends. An error is final.
func (b *Broker) runRetention(ctx context.Context) error {
	tick := time.NewTicker(retentionInterval / retentionSteps)
	defer tick.Stop()
	var round []*Partition
	for step := 0; ; step = (step + 1) % retentionSteps {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if step == 0 {
			round = b.openPartitions(round[:0])
		}
		from, to := len(round)*step/retentionSteps, len(round)*(step+1)/retentionSteps
		for _, p := range round[from:to] {
			b.lookForDamage(p)
			if err := b.retain(p); err != nil {
				return err
			}
		}
	}
}

// retain applies retention to one partition. Only its leader decides (R89), and
// never above the high watermark (R91).
func (b *Broker) retain(p *Partition) error {
	p.mu.Lock()
	leads := p.leader && p.closed == nil
	p.mu.Unlock()
	if !leads {
		return nil
	}
	to := max(p.log.Retainable(p.hw.Load()), p.wantedStart()) // what was wanted before may be possible now
	if to <= p.log.StartOffset() {
		return nil
	}
	err := b.wantStart(p, to)
	if err == nil {
		return nil
	}
	if final := (*storage.FailedError)(nil); errors.As(err, &final) {
		return fmt.Errorf("replication: retention of %s-%d: %w", p.topic.name(), p.num, err)
	}
	b.cfg.Logger.Error().Err(err).Str("topic", p.topic.name()).Int32("partition", p.num).Msg("retention failed")
	return nil
}

// openPartitions appends all partitions with an open log to dst.
func (b *Broker) openPartitions(dst []*Partition) []*Partition {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, t := range b.byID {
		for _, p := range *t.partitions.Load() {
			if p != nil && p.offline == nil {
				dst = append(dst, p)
			}
		}
	}
	return dst
}
