package replication

import (
	"errors"
	"time"

	"highwater/replication/replica"
	"highwater/replication/wire"
	"highwater/storage"
)

// applying is one answer on its way into one log.
type applying struct {
	staged   storage.Staged
	decision replica.Decision
	done     chan struct{} // to be closed when the fetcher is done with the log
	err      error
}

// syncConcurrency is how many logs a fetcher writes and fsyncs at once: enough for the disk to
// merge them.
const syncConcurrency = 32

// stage begins to take an answer over (R16-R18): records are staged in all logs;
// commit is to follow. readAhead allows to have the next records of a log that is
// far behind on their way while these go to the disk: more tells that there are
// some to ask for now, before commit. Far behind is a log of which the answer has as
// much as fits, and not all.
func (f *fetcher) stage(resp *wire.FetchResponse, readAhead bool) (more bool) {
	f.applied = f.applied[:0]
	for i := range resp.Partitions {
		answer := &resp.Partitions[i]
		w := f.parts[answer.TopicPartition]
		if w == nil {
			continue
		}
		staged := f.applyOne(w, answer)
		if staged && readAhead && len(answer.Batches) >= int(f.b.cfg.FetchPartitionBytes)/2 && w.step.staged.EndOffset < answer.LeaderEnd {
			w.ahead, w.failures, w.retryAt = true, 0, time.Time{}
			f.makeDue(w)
			more = true
		}
	}
	return more
}

// commit writes and fsyncs each log that stage staged records in, all at once; then
// come high watermarks and log starts.
func (f *fetcher) commit() {
	if len(f.applied) == 0 {
		return
	}
	began := time.Now()
	forEach(len(f.applied), syncConcurrency, func(i int) {
		step := &f.applied[i].step
		step.err = f.applied[i].p.log.Sync(step.staged)
	})
	for _, w := range f.applied {
		f.finish(w)
	}
	f.b.metrics.followerApply.Observe(time.Since(began).Seconds())
}

// applyOne decides about one partition's part of the answer and does all of it but
// the write and fsync of records; staged: there are some.
func (f *fetcher) applyOne(w *following, answer *wire.FetchedPartition) (staged bool) {
	p := w.p
	if w.low {
		f.saidLess(w)
		return false
	}
	if w.importing {
		return false
	}
	if answer.Code == wire.OK && answer.Diverging == nil && len(answer.Batches) > 0 {
		if f.importFirst(w, thinnedOut(answer.Batches)) {
			return false
		}
		f.align(w, answer)
		w.export = nil
	}
	d, receipt, done, err := p.stageFetched(f, w, answer)
	if d.Step == replica.Append {
		p.leaderEnd.Store(answer.LeaderEnd)
	}
	w.step = applying{staged: receipt, decision: d, done: done}
	switch {
	case err != nil:
		f.refused(w, err)
	case d.Step == replica.Append && len(answer.Batches) > 0:
		f.applied = append(f.applied, w)
		return true
	case d.Step == replica.Append:
		p.followed(min(d.HighWatermark, p.log.DurableEnd()))
		f.raiseStart(w)
		w.failures = 0
	case d.Step == replica.Truncate:
		f.truncate(w, answer)
	case d.Step == replica.Reset:
		f.reset(w, d.Offset)
	case d.Step == replica.Wait:
		f.await(w, &d)
	default: // dropped; should it still be ours, the leader has to be asked again
		f.backOff(w)
	}
	p.applied(done)
	return false
}

// stageFetched decides what becomes of an answer and begins it, in one with the
// check that this replica still follows: a role that comes later waits for done.
func (p *Partition) stageFetched(f *fetcher, w *following, answer *wire.FetchedPartition) (d replica.Decision, staged storage.Staged, done chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := replica.Now{LeaderEpoch: p.leaderEpoch, Assigned: p.fetcher == f && w.epoch == p.leaderEpoch && p.closed == nil,
		End: p.log.WrittenEnd(), LogStart: p.log.StartOffset(), Epochs: epochsOf(p.log)}
	d = replica.Decide(replica.Sent{LeaderEpoch: w.sent.LeaderEpoch, Offset: w.sent.ReadFrom()}, now, answer)
	if d.Step == replica.Drop || d.Step == replica.Wait {
		return d, staged, nil, nil
	}
	if d.Step == replica.Append && len(answer.Batches) > 0 {
		if staged, err = p.log.StageReplica(answer.Batches, p.leaderEpoch); err != nil {
			return d, staged, nil, err
		}
	}
	done = make(chan struct{})
	p.applying = done
	return d, staged, done, nil
}

// applied lets a new role begin.
func (p *Partition) applied(done chan struct{}) {
	if done == nil {
		return
	}
	p.mu.Lock()
	p.applying = nil
	p.mu.Unlock()
	close(done)
}

// finish is what comes after the fsync.
func (f *fetcher) finish(w *following) {
	p, step := w.p, &w.step
	asked := w.ahead
	w.ahead = false
	if step.err != nil {
		f.refused(w, step.err)
	} else {
		p.followed(min(step.decision.HighWatermark, p.log.DurableEnd()))
		f.raiseStart(w)
		w.failures, w.retryAt = 0, time.Time{}
		if !asked {
			f.makeDue(w)
		}
	}
	p.applied(step.done)
}

// raiseStart follows the leader's log start (R89).
func (f *fetcher) raiseStart(w *following) {
	log := w.p.log
	to := min(w.step.decision.LogStart, log.WrittenEnd())
	if to <= log.StartOffset() {
		return
	}
	if err := log.AdvanceStart(to); err != nil {
		f.b.followFailed(w.p, err)
		return
	}
	f.makeDue(w) // the leader waits to hear of it
}

// refused handles an error of the log: it backs off, and asks again.
func (f *fetcher) refused(w *following, err error) {
	bad := (*storage.ReplicaBatchError)(nil)
	if errors.As(err, &bad) {
		f.b.cfg.Logger.Error().Err(err).Str("topic", w.p.topic.name()).Int32("partition", w.p.num).Int32("leader", f.leader).
			Msg("records from the leader can't be appended")
	} else {
		f.b.followFailed(w.p, err)
	}
	f.backOff(w)
}

// followFailed logs an error of a follower's log, unless the partition is gone. A
// failed disk ends the process by itself (S4).
func (b *Broker) followFailed(p *Partition, err error) {
	if p.topic.deleted.Load() || errors.Is(err, storage.ErrClosed) {
		return
	}
	b.cfg.Logger.Error().Err(err).Str("topic", p.topic.name()).Int32("partition", p.num).Msg("following the leader fails")
}

// await backs off until the partition is likely to have an answer: newer metadata
// assigns it anew, and then at once.
func (f *fetcher) await(w *following, d *replica.Decision) {
	log := f.b.cfg.Logger.Debug()
	if d.Err != nil || d.Code == wire.CodeCorrupt {
		log = f.b.cfg.Logger.Error()
	}
	log.AnErr("cause", d.Err).Str("topic", w.p.topic.name()).Int32("partition", w.p.num).Int32("leader", f.leader).Int32("leader_epoch", w.epoch).
		Str("code", string(d.Code)).Msg("the leader gives no records")
	f.backOff(w)
}

// truncate cuts the log where it differs from the leader's (R35, R36).
func (f *fetcher) truncate(w *following, answer *wire.FetchedPartition) {
	p := w.p
	end, hw, before := p.log.WrittenEnd(), p.hw.Load(), p.log.Epochs()
	to := w.step.decision.Offset
	got, err := p.log.TruncateTo(to)
	if err != nil {
		f.refused(w, err)
		return
	}
	p.truncated(got)
	w.known = min(w.known, p.log.RemembersBelow())
	event, what := f.b.cfg.Logger.Info(), "epochs without records dropped: the leader's log has others there"
	if got < end {
		f.b.metrics.truncations.Inc()
		what = "log truncated: it differed from the leader's"
	}
	if got < hw {
		f.b.metrics.truncatedBelow.Inc() // R39: only after an unclean election or a loss
		event = f.b.cfg.Logger.Error()
	}
	event.Str("topic", p.topic.name()).Int32("partition", p.num).Int32("leader", f.leader).Int32("leader_epoch", w.epoch).
		Int64("from", end).Int64("to", got).Int64("high_watermark", hw).Any("own_epochs", before).Any("epochs_now", p.log.Epochs()).
		Int32("leader_has_epoch", answer.Diverging.Epoch).Int64("ending_at", answer.Diverging.EndOffset).Msg(what)
	w.failures, w.retryAt = 0, time.Time{}
	f.makeDue(w)
}

// reset throws the log away and begins it at offset (R90).
func (f *fetcher) reset(w *following, offset int64) {
	p := w.p
	start, end, hw := p.log.StartOffset(), p.log.WrittenEnd(), p.hw.Load()
	if err := p.resetTo(offset); err != nil {
		f.refused(w, err)
		return
	}
	w.known, w.export = 0, nil
	f.b.metrics.resets.Inc()
	f.b.cfg.Logger.Warn().Str("topic", p.topic.name()).Int32("partition", p.num).Int32("leader", f.leader).Int32("leader_epoch", w.epoch).
		Int64("start", start).Int64("end", end).Int64("high_watermark", hw).Int64("new_start", offset).Msg("log begins anew: the leader's begins behind its end")
	w.failures, w.retryAt = 0, time.Time{}
	f.makeDue(w)
}

// align moves the begin of an empty log down to that of the first batch: a log
// start may lie within a batch, and followers keep batches whole (R8).
func (f *fetcher) align(w *following, answer *wire.FetchedPartition) {
	p := w.p
	if len(answer.Batches) < storage.BatchHeaderSize {
		return
	}
	first := storage.Batch(answer.Batches)
	base := first.BaseOffset()
	end := p.log.WrittenEnd()
	if base < 0 || base >= end || first.NextOffset() <= end || p.log.StartOffset() != end || len(p.log.Epochs()) > 0 || w.sent.Offset != end {
		return
	}
	d, _, done, err := p.stageFetched(f, w, &wire.FetchedPartition{TopicPartition: answer.TopicPartition, LeaderEpoch: answer.LeaderEpoch})
	if err != nil || d.Step != replica.Append {
		return // not ours any more
	}
	err = p.resetTo(base)
	if err == nil && w.export != nil {
		err = p.log.ImportDedupe(w.export) // which the log forgot just now
	}
	if err != nil {
		f.b.followFailed(p, err)
	} else {
		w.sent.Offset = base
	}
	p.applied(done)
}
