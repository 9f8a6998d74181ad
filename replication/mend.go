package replication

import (
	"context"
	"errors"

	"highwater/replication/wire"
	"highwater/storage"
)

// mendBytes is how much of a damaged range is asked for at once.
const mendBytes = 4 << 20

// mendAll mends what it can, and returns the other ones.
func (b *Broker) mendAll(ctx context.Context, list []*Partition) (rest []*Partition) {
	var buf []byte
	for _, p := range list {
		if !b.mend(ctx, p, &buf) {
			rest = append(rest, p)
		}
	}
	return rest
}

// mend puts committed records of the leader into the damaged places of a follower's
// log: the same epoch at the same offset is the same record, so nothing has to be
// cut, and the replica need not leave the ISR (S7). It fails where the leader has
// nothing committed to give, or where no place is left for it.
func (b *Broker) mend(ctx context.Context, p *Partition, buf *[]byte) bool {
	p.mu.Lock()
	f, epoch := p.fetcher, p.leaderEpoch
	p.mu.Unlock()
	l, err := b.locate(p.topic.name(), p.num)
	if f == nil || err != nil || !b.elsewhere(&l) || l.epoch != epoch {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, alterTimeout)
	defer cancel()
	for damage := p.log.Damage(); len(damage) > 0; damage = p.log.Damage() {
		err := b.mendRange(ctx, p, &l, damage[0], buf)
		if err != nil {
			b.cfg.Logger.Warn().Err(err).Str("topic", p.topic.name()).Int32("partition", p.num).Int32("leader", l.leader).
				Int64("from", damage[0].From).Int64("to", damage[0].To).Msg("damage can't be mended in place")
			return false
		}
	}
	b.metrics.repairs.Inc()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.saidLess, p.mayCut = false, false // damage that comes later is another matter
	if p.fetcher != nil {
		p.fetcher.add(p, p.leaderEpoch) // it may say all again
	}
	return true
}

// errNothingToMend: the leader has no committed record there.
var errNothingToMend = errors.New("replication: the leader has nothing committed there")

// mendRange mends a damaged range, or a part of it from its begin on.
func (b *Broker) mendRange(ctx context.Context, p *Partition, l *location, d storage.DamagedRange, buf *[]byte) error {
	at := []wire.ReadPosition{{TopicPartition: l.TopicPartition, Offset: d.From}}
	results, err := b.readThere(ctx, l.url, at, ReadUncommitted, mendBytes, 1, 0, buf)
	if err != nil {
		return err
	}
	res, err := fetched(&results[0])
	if err != nil {
		return err
	}
	n := 0
	for rest := res.Data; len(rest) >= storage.BatchHeaderSize; rest = res.Data[n:] {
		batch := storage.Batch(rest)
		if size := batch.Size(); batch.NextOffset() > d.To || size > len(rest) || size < storage.BatchHeaderSize {
			break
		}
		n += batch.Size()
	}
	if n == 0 {
		return errNothingToMend
	}
	return p.log.Mend(res.Data[:n])
}
