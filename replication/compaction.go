package replication

import (
	"context"
	"errors"
	"time"

	"highwater/replication/controller"
	"highwater/storage"
)

const (
	// defaultCompactionInterval is how often the broker looks for logs to compact;
	// Kafka's log.cleaner.backoff.ms.
	defaultCompactionInterval = 15 * time.Second
	// compactionBytesPerSecond bounds what the broker reads and writes for it, in
	// bytes: a part of what any disk can do, so that producers don't feel it.
	compactionBytesPerSecond = 64 << 20
)

// NotCompactedError: the topic's cleanup.policy has no compact.
type NotCompactedError struct{ Topic string }

func (e *NotCompactedError) Error() string {
	return "replication: topic " + e.Topic + " is not compacted"
}

// runCompaction compacts the logs that it is time for, the dirtiest first and one at
// a time, until ctx ends. Every replica compacts its own log by itself: what is
// below the high watermark is the same on all of them, and reads the same before
// and after.
func (b *Broker) runCompaction(ctx context.Context) {
	interval := b.cfg.CompactionInterval
	if interval <= 0 {
		interval = defaultCompactionInterval
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		failed := map[*Partition]bool{}
		for ctx.Err() == nil {
			p := b.dirtiest(failed)
			if p == nil {
				break
			}
			if _, err := b.compact(ctx, p, storage.CompactOptions{BytesPerSecond: compactionBytesPerSecond}); err != nil {
				failed[p] = true // it may be another one's turn
			}
		}
	}
}

// dirtiest is the partition whose log should be compacted first, or nil.
func (b *Broker) dirtiest(except map[*Partition]bool) *Partition {
	var first *Partition
	worst := -1.0
	for _, p := range b.openPartitions(nil) {
		if except[p] {
			continue
		}
		if c := p.log.Compactable(p.hw.Load(), b.keepsTombstones(p)); c.Due && c.Ratio > worst {
			first, worst = p, c.Ratio
		}
	}
	return first
}

// keepsTombstones tells whether some replica of the partition may lack records below
// the high watermark. One that is away comes back with what it had: were a tombstone
// gone by then, it would keep the deleted record for ever, and show it as a leader.
func (b *Broker) keepsTombstones(p *Partition) bool {
	m := p.meta()
	return len(m.Replicas) > 1 && (len(m.ISR) < len(m.Replicas) || !b.cfg.Controller.SessionValid())
}

// compact compacts one log, when no other one is being compacted.
func (b *Broker) compact(ctx context.Context, p *Partition, opts storage.CompactOptions) (storage.CompactResult, error) {
	select {
	case b.cleaner <- struct{}{}:
	case <-ctx.Done():
		return storage.CompactResult{}, ctx.Err()
	}
	defer func() { <-b.cleaner }()
	began := time.Now()
	opts.HighWatermark, opts.KeepTombstones = p.hw.Load(), b.keepsTombstones(p)
	res, err := p.log.Compact(ctx, opts)
	b.metrics.compacted(&res, time.Since(began), err)
	event := b.cfg.Logger.Info()
	switch {
	case err == nil && res.SegmentsBefore == 0:
		return res, nil
	case err == nil:
	case p.topic.deleted.Load() || errors.Is(err, storage.ErrClosed) || ctx.Err() != nil:
		return res, err
	default:
		if isCorrupt(err) {
			b.damaged(p)
		}
		event = b.cfg.Logger.Error().Err(err)
	}
	event.Str("topic", p.topic.name()).Int32("partition", p.num).Int64("from", res.From).Int64("to", res.To).Int("keys", res.Keys).
		Int64("records", res.Records).Int64("replaced", res.Replaced).Int64("tombstones", res.Tombstones).Int64("keyless", res.Keyless).
		Int64("bytes_before", res.BytesBefore).Int64("bytes_after", res.BytesAfter).Int("segments_before", res.SegmentsBefore).
		Int("segments_after", res.SegmentsAfter).Dur("took", time.Since(began)).Msg("log compacted")
	return res, err
}

// Compacted is what a compaction did to one replica.
type Compacted struct {
	Partition int32
	storage.CompactResult
}

// CompactNow compacts this broker's replicas of a topic at once, the active segments
// too as far as they are below the high watermark: for operators and tests.
// Errors: *controller.UnknownTopicError, *NotCompactedError, those of storage.
func (b *Broker) CompactNow(ctx context.Context, topic string) ([]Compacted, error) {
	t, ok := b.State().Topic(topic)
	if !ok {
		return nil, &controller.UnknownTopicError{Topic: topic}
	}
	if !t.Config(b.configDefaults).Compact {
		return nil, &NotCompactedError{Topic: topic}
	}
	done := []Compacted{}
	for _, p := range b.openPartitions(nil) {
		if p.topic.meta.Load().ID != t.ID {
			continue
		}
		res, err := b.compact(ctx, p, storage.CompactOptions{AtOnce: true})
		if err != nil {
			return done, p.gone(err)
		}
		done = append(done, Compacted{p.num, res})
	}
	return done, nil
}
