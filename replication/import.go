package replication

import (
	"context"
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

// importFirst begins an import if what the log doesn't tell below an offset isn't known
// yet; nothing is fetched until it is over.
func (f *fetcher) importFirst(w *following, below int64) bool {
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

// begun is where a log begins that never held a record, 0 if it is at the very
// beginning. What was there before it the leader knows, and it has to be asked before it
// is told of this position, for that may be enough to be in sync. A log that retention
// emptied is another matter: it remembers what it held, unless its index was lost. Then
// the log tells only of the records that are still there, and the leader is asked, too.
func begun(log *storage.Log) int64 {
	end := log.WrittenEnd()
	if log.StartOffset() == end && len(log.Epochs()) == 0 || log.MayHaveForgotten() {
		return end
	}
	return 0
}

// thinnedOut is the end of the last batch that a compaction took records out of, 0 if
// there is none: there were records that nobody can read any more.
func thinnedOut(batches []byte) (end int64) {
	for len(batches) > 0 {
		b, rest, err := storage.SplitBatch(batches)
		if err != nil {
			break // staging will say so
		}
		if b.Sparse() {
			end = max(end, b.NextOffset())
		}
		batches = rest
	}
	return end
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
	// A leader whose log ends below says so when it is told the position.
	return max(answer.Below, req.Below), answer.Export, p.log.ImportDedupe(answer.Export)
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
