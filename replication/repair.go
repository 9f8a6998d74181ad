package replication

import (
	"context"
	"errors"
	"sync"
	"time"

	"highwater/replication/wire"
	"highwater/storage"
)

// repairPause is the least time between two words to the controller about one
// partition: where nobody else can lead, nothing changes.
const repairPause = time.Second

// repairs has damaged logs mended where this broker follows (see mend). Of all other
// partitions whose copy here is damaged or can't be opened it tells the controller:
// they leave the ISR, and another replica leads (S7). Then the follower mends its
// log or, where that can't be done, cuts it before the damage and fetches anew.
//
// Leaving the ISR alone isn't enough, as the leader might be about to take this
// replica in for what it had said it holds. So it says less first, while the log
// is still as it was (fetcher.low); then no proposal that begins later takes it
// in, and the controller's answer ends those before, since it uses up the
// partition's epoch; only then the log is cut.
type repairs struct {
	wake chan struct{} // one token

	mu      sync.Mutex // a leaf; guards what follows
	waiting map[*Partition]struct{}
	told    map[*Partition]time.Time // when the controller was told last
}

func newRepairs() *repairs {
	return &repairs{wake: make(chan struct{}, 1), waiting: map[*Partition]struct{}{}, told: map[*Partition]time.Time{}}
}

// add has the controller told of a partition, soon.
func (r *repairs) add(p *Partition) {
	if len(p.meta().Replicas) == 1 {
		return // nobody has another copy
	}
	r.mu.Lock()
	r.waiting[p] = struct{}{}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take returns those to tell of now; those told of lately are left for later.
func (r *repairs) take(now time.Time) []*Partition {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p, at := range r.told {
		if now.Sub(at) >= repairPause {
			delete(r.told, p)
		}
	}
	var list []*Partition
	for p := range r.waiting {
		delete(r.waiting, p)
		if _, lately := r.told[p]; lately || p.topic.deleted.Load() {
			continue
		}
		r.told[p] = now
		list = append(list, p)
		if len(list) == maxAlter {
			break
		}
	}
	return list
}

// runRepairs mends, or tells the controller, until ctx ends.
func (b *Broker) runRepairs(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.repairs.wake:
		}
		for list := b.repairs.take(time.Now()); len(list) > 0; list = b.repairs.take(time.Now()) {
			if list = b.mendAll(ctx, list); len(list) > 0 {
				b.dropReplicas(ctx, list)
			}
		}
	}
}

func (b *Broker) dropReplicas(ctx context.Context, list []*Partition) {
	ids := make([]wire.TopicPartition, len(list))
	epochs := make([]int32, len(list))
	for i, p := range list {
		ids[i] = p.id()
		p.mu.Lock()
		epochs[i] = p.leaderEpoch
		p.leaving = p.leader
		p.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(ctx, alterTimeout)
	defer cancel()
	results, err := b.cfg.Controller.DropReplicas(ctx, ids)
	if err != nil || len(results) != len(ids) {
		b.cfg.Logger.Error().Err(err).Int("partitions", len(ids)).Msg("the controller was not told of damaged replicas")
		return
	}
	for i, p := range list {
		code := results[i].Code
		event := b.cfg.Logger.Warn()
		if code != wire.OK {
			event = b.cfg.Logger.Error().Str("code", string(code))
		}
		event.Str("topic", p.topic.name()).Int32("partition", p.num).Ints32("isr", results[i].ISR).Msg("this replica is damaged: it left the ISR to be repaired")
		p.mu.Lock()
		if p.saidLess && p.leaderEpoch == epochs[i] && code == wire.OK {
			p.mayCut = true
		}
		if p.leaderEpoch == epochs[i] && results[i].LeaderEpoch <= epochs[i] {
			p.leaving = false // nobody else can lead
		}
		p.mu.Unlock()
	}
}

// damaged notes that a part of a replica's log is damaged, which somebody met.
func (b *Broker) damaged(p *Partition) {
	if b.cfg.Peers == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.fetcher == nil:
		b.repairs.add(p)
	case !p.saidLess:
		p.fetcher.add(p, p.leaderEpoch) // it says less, and goes on from there
	}
}

// lookForDamage is for damage that the scrub or a recovery found.
func (b *Broker) lookForDamage(p *Partition) {
	if len(p.log.Damage()) > 0 {
		b.damaged(p)
	}
}

// isCorrupt tells that a read met damage.
func isCorrupt(err error) bool {
	corrupt := (*storage.CorruptError)(nil)
	return errors.As(err, &corrupt)
}

// low is where a damaged follower says that it stands: before its first damage. ok
// is false when its log is sound.
func (f *fetcher) low(w *following) (at wire.FetchPartition, ok bool) {
	log := w.p.log
	start := log.StartOffset()
	end, damaged := log.SoundEnd()
	if !damaged {
		return at, false
	}
	return wire.FetchPartition{TopicPartition: w.id, LeaderEpoch: w.epoch, Offset: end, LastEpoch: epochBelow(log, end), LogStart: start, MaxBytes: 1}, true
}

// saidLess notes that the leader knows of the lower end, and has the controller
// told.
func (f *fetcher) saidLess(w *following) {
	p := w.p
	p.mu.Lock()
	mine := p.fetcher == f && p.leaderEpoch == w.epoch && p.closed == nil
	p.saidLess = p.saidLess || mine
	p.mu.Unlock()
	if mine {
		f.b.repairs.add(p)
	}
	f.backOff(w)
}

// cutDamage cuts the log before its first damage when that is safe; false: not yet.
func (f *fetcher) cutDamage(w *following) bool {
	p := w.p
	p.mu.Lock()
	may := p.mayCut && p.fetcher == f && p.leaderEpoch == w.epoch && p.closed == nil
	var done chan struct{}
	if may {
		done = make(chan struct{})
		p.applying, p.mayCut, p.saidLess = done, false, false
	}
	p.mu.Unlock()
	if !may {
		return false
	}
	defer p.applied(done)
	before, hw := p.log.WrittenEnd(), p.hw.Load()
	end, err := p.log.DropDamage()
	if err != nil {
		f.b.followFailed(p, err)
		return false
	}
	p.truncated(end)
	w.known = min(w.known, p.log.RemembersBelow())
	f.b.metrics.repairs.Inc()
	f.b.cfg.Logger.Warn().Str("topic", p.topic.name()).Int32("partition", p.num).Int32("leader", f.leader).Int32("leader_epoch", w.epoch).
		Int64("from", before).Int64("to", end).Int64("high_watermark", hw).Msg("log cut before its damage; the leader has the rest")
	return true
}
