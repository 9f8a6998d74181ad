package replication

import (
	"context"
	"fmt"
	"time"

	"highwater/replication/wire"
	"highwater/storage"
)

// A follower learns of message ids and producers from the batches it fetches (I5). Of
// records that went before it came, by retention or by compaction, it has to ask: the
// leader remembers them to the end of the window, and so must whoever leads next (D11).
// It asks before it takes over the records behind them, so that it is never in sync
// without.

// maxImports bounds how many of them a broker holds in memory at once: each may be some
// 40 MB, for a million ids.
const maxImports = 2

// imported is an import that is over.
type imported struct {
	w      *following
	below  int64
	export []byte
	err    error
}

// importFirst tells whether records that were fetched have to wait for an import, and
// begins it. They are fetched again after it.
func (f *fetcher) importFirst(w *following, answer *wire.FetchedPartition) bool {
	below := needed(w, answer.Batches)
	if below <= w.known {
		return false
	}
	leader := f.b.State().Brokers[f.leader]
	if leader == nil {
		f.backOff(w)
		return true
	}
	w.importing = true
	req := &wire.DedupeRequest{Version: wire.Version, TopicPartition: w.id, LeaderEpoch: w.epoch, Below: below}
	ctx := f.ctx
	f.b.followers.running.Go(func() {
		done := imported{w: w}
		done.below, done.export, done.err = f.b.importDedupe(ctx, w.p, leader.URL, req)
		f.mu.Lock()
		f.imports = append(f.imports, done)
		f.mu.Unlock()
		select {
		case f.wake <- struct{}{}:
		default:
		}
	})
	return true
}

// needed is up to where the log doesn't tell of records that were there: below the
// beginning of an empty log, and below batches that a compaction has thinned out. 0: it
// tells all.
func needed(w *following, batches []byte) (below int64) {
	log := w.p.log
	if end := log.WrittenEnd(); end > 0 && log.StartOffset() == end {
		below = end
	}
	for len(batches) > 0 {
		b, rest, err := storage.SplitBatch(batches)
		if err != nil {
			break // staging will say so
		}
		if b.Sparse() {
			below = max(below, b.NextOffset())
		}
		batches = rest
	}
	return below
}

// importDedupe asks the leader and takes in what it says; below is up to where.
func (b *Broker) importDedupe(ctx context.Context, p *Partition, url string, req *wire.DedupeRequest) (below int64, export []byte, err error) {
	select {
	case b.imports <- struct{}{}:
		defer func() { <-b.imports }()
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	}
	answer, err := b.cfg.Peers.Dedupe(ctx, url, req)
	if err != nil {
		return 0, nil, err
	}
	if err := decodeError(answer.Error); err != nil {
		return 0, nil, err
	}
	if answer.Below < req.Below {
		return 0, nil, fmt.Errorf("%w: %w: an export below %d, not %d", errCall, wire.ErrMalformed, answer.Below, req.Below)
	}
	return answer.Below, answer.Export, p.log.ImportDedupe(answer.Export)
}

// imported is what comes after an import: the records behind it are fetched, or it is
// tried again.
func (f *fetcher) imported(i *imported) {
	w := i.w
	if f.parts[w.id] != w {
		return // another role by now; what was learned does no harm
	}
	w.importing = false
	if i.err != nil {
		if f.ctx.Err() == nil {
			f.b.cfg.Logger.Warn().Err(i.err).Str("topic", w.p.topic.name()).Int32("partition", w.p.num).Int32("leader", f.leader).
				Msg("what the leader remembers of message ids and producers can't be learned")
		}
		f.backOff(w)
		return
	}
	w.known, w.export, w.failures, w.retryAt = i.below, i.export, 0, time.Time{}
	f.makeDue(w)
}

// ServeDedupe answers a follower.
func (b *Broker) ServeDedupe(req *wire.DedupeRequest) *wire.DedupeAnswer {
	answer := &wire.DedupeAnswer{Version: wire.Version}
	p, err := b.partitionByID(req.TopicPartition)
	if err == nil {
		answer.Below, answer.Export, err = p.exportDedupe(req)
	}
	answer.Error = encodeError(err)
	return answer
}

// exportDedupe is what the leader of an epoch remembers. Where the log is compacted it
// goes up to the high watermark: the next batches are likely to be thinned out too.
func (p *Partition) exportDedupe(req *wire.DedupeRequest) (below int64, export []byte, err error) {
	if !p.leads(req.LeaderEpoch) {
		return 0, nil, p.notLeader()
	}
	below = min(req.Below, p.log.WrittenEnd())
	if p.topic.meta.Load().config.Compact {
		below = max(below, p.hw.Load())
	}
	if export, err = p.log.ExportDedupe(below); err != nil {
		return 0, nil, p.gone(err)
	}
	if !p.leads(req.LeaderEpoch) { // the log may have been cut meanwhile
		return 0, nil, p.notLeader()
	}
	return below, export, nil
}
