package replication

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"highwater/storage"
)

// Acks is what must hold before an append is answered.
type Acks int

const (
	AcksNone   Acks = 0  // queued
	AcksLeader Acks = 1  // written to the leader's log
	AcksAll    Acks = -1 // durable on every in-sync replica
)

// Durability names what an answered append was proved to be.
type Durability string

const (
	DurabilityQueued  Durability = "queued"  // nothing proved
	DurabilityWritten Durability = "written" // in the log file; survives the process, not the machine
	DurabilityFsynced Durability = "fsynced" // forced to disk
)

// AppendRequest is what one request brings for one partition. Its batches get
// offsets without a gap between them.
type AppendRequest struct {
	Topic string
	// TopicID, if set, must be the topic's: the name may be another one's by now.
	TopicID   uuid.UUID
	Partition int32
	Batches   []storage.Batch // owned by the log from here on
	// Facts are what the batches' builder told of them, as far as it did; the log's from here on.
	Facts []*storage.Facts
	// ExpectedOffset, if set, must be the log's end.
	ExpectedOffset *int64
	// LeaderEpoch, if set, is the one in which this broker must lead the partition. Such
	// a request is for this broker alone: it is never sent on.
	LeaderEpoch *int32
}

// AppendResult tells where the batches went and what is proved about it. With
// AcksNone all offsets are -1.
type AppendResult struct {
	// BaseOffset and LastOffset are those of the records that are new, or, where none is,
	// the least and the largest of their originals; -1: not known any more.
	BaseOffset int64
	LastOffset int64
	// Offsets and Duplicate tell of each record of the request, in order, where it is and
	// whether its message id or its producer's sequence number was there before: sent
	// earlier, by this request itself too (see AppendRequest). nil: every record is new.
	// An offset of -1: it was written, and it isn't known any more where.
	Offsets        []int64
	Duplicate      []bool
	LeaderEpoch    int32
	HighWatermark  int64
	InSyncReplicas int
	// AppendTime is the broker's time of the append in ms; it is the records'
	// timestamp when the topic has message.timestamp.type=LogAppendTime.
	AppendTime int64
	Durability Durability
	// Err is set when this partition's part failed; the others may have succeeded.
	Err error
	// Unknown: with Err, the batch may be in the log (outcome "unknown"). When it
	// is false nothing was written and nothing will be.
	Unknown bool
}

// appendLocal is Append for partitions that this broker leads; what it doesn't
// lead gets *NotLeaderError. Results stand in the order of the requests.
func (b *Broker) appendLocal(ctx context.Context, acks Acks, reqs []AppendRequest) []AppendResult {
	results := make([]AppendResult, len(reqs))
	parts := make([]pending, len(reqs))
	for i := range reqs {
		parts[i], results[i] = b.stage(ctx, acks, &reqs[i])
	}
	for i := range parts {
		if results[i].Err == nil {
			parts[i].write(ctx, acks, &results[i])
		}
	}
	if acks == AcksAll {
		b.awaitAll(ctx, parts, results)
	}
	for i := range parts {
		b.answer(acks, &parts[i], &results[i])
	}
	return results
}

// write puts what was staged into the file. An append at acks=0 leaves that to
// the background, unless too much waits there. Who gives up leaves it there, too.
func (a *pending) write(ctx context.Context, acks Acks, res *AppendResult) {
	p := a.p
	if a.settled() {
		return
	}
	if acks == AcksNone && !a.staged.Backlogged {
		p.log.SyncSoon()
		return
	}
	err := p.log.WriteContext(ctx, a.staged)
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
		p.log.SyncSoon()
		res.fail(ErrTimeout)
		return
	case err != nil:
		// A log that ran out of space or descriptors has cut the batches off again;
		// after any other failure nobody knows.
		res.Err, res.Unknown = p.gone(err), !errors.Is(err, storage.ErrDiskNearlyFull) && !errors.Is(err, storage.ErrTooManyFiles)
		return
	}
	if a.staged.New {
		p.wrote()
	}
	if acks != AcksAll || !a.staged.New { // the originals' own requests may not wait for the disk
		p.log.SyncSoon()
	}
}

// settled tells that there is nothing to write or wait for: all records are duplicates
// of committed ones.
func (a *pending) settled() bool { return !a.staged.New && a.staged.WaitFrom >= a.staged.WaitEnd }

// awaitAll waits until each append is below its partition's high watermark.
func (b *Broker) awaitAll(ctx context.Context, parts []pending, results []AppendResult) {
	start := time.Now()
	for i := range parts {
		if results[i].Err == nil && !parts[i].settled() {
			parts[i].wait = parts[i].p.await(b, parts[i].staged, parts[i].cuts)
		}
	}
	for i := range parts {
		w := parts[i].wait
		if w == nil {
			continue
		}
		select {
		case err := <-w.done:
			results[i].fail(parts[i].p.gone(err))
			continue
		default:
		}
		select {
		case err := <-w.done:
			results[i].fail(parts[i].p.gone(err))
		case <-ctx.Done():
			parts[i].p.forget(w)
			select { // it may have come at the same moment
			case err := <-w.done:
				results[i].fail(parts[i].p.gone(err))
			default:
				results[i].fail(ErrTimeout)
			}
		}
	}
	b.metrics.produceWait.Observe(time.Since(start).Seconds())
}

// fail is an error after the append. Only a *NotLeaderError says that the record is
// nowhere all the same.
func (r *AppendResult) fail(err error) {
	if err != nil {
		r.Err, r.Unknown = err, !errors.As(err, new(*NotLeaderError))
	}
}

// answer fills in what is proved.
func (b *Broker) answer(acks Acks, a *pending, res *AppendResult) {
	if res.Err != nil {
		return
	}
	if acks == AcksNone {
		*res = AppendResult{BaseOffset: -1, LastOffset: -1, HighWatermark: -1, LeaderEpoch: res.LeaderEpoch, AppendTime: res.AppendTime, Durability: DurabilityQueued}
		return
	}
	b.prove(acks, a, res)
	if res.Err != nil {
		return
	}
	res.HighWatermark = a.p.hw.Load()
	res.Durability = DurabilityWritten
	if acks == AcksAll && (b.cfg.Fsync == storage.FsyncCommit || b.cfg.Fsync == "") {
		res.Durability = DurabilityFsynced
	}
}

// await registers a waiter for what was staged, and written since, and sees to it that a syncer runs. It
// returns nil when there is nothing to wait for.
//
// cuts is cutCount from before staging: if the log was cut since, at the word of a
// leader that came after, the records may be gone, and others in their place.
func (p *Partition) await(b *Broker, staged storage.Staged, cuts int64) *waiter {
	base, end := staged.WaitFrom, staged.WaitEnd
	p.advance() // where writing is enough it has moved already
	p.water.Lock()
	defer p.water.Unlock()
	if p.cuts == cuts && p.hw.Load() >= end {
		return nil
	}
	w := &waiter{base: base, end: end, done: make(chan error, 1)}
	switch {
	case p.ended != nil:
		w.done <- p.endedFor(base)
		return w
	case p.cuts != cuts:
		w.done <- p.lost(base)
		return w
	}
	p.waiters.add(w)
	if !staged.New {
		return w // a duplicate: write has seen to the disk
	}
	if end > p.syncTo.EndOffset {
		p.syncTo = staged
	}
	if !p.syncing && p.log.DurableEnd() < end {
		p.syncing = true
		b.syncers.Add(1)
		go p.sync(b)
	}
	return w
}

// forget removes a waiter that gave up.
func (p *Partition) forget(w *waiter) {
	p.water.Lock()
	defer p.water.Unlock()
	if i := slices.Index(p.waiters, w); i >= 0 {
		p.waiters = slices.Delete(p.waiters, i, i+1)
	}
}

// prove fills in the ISR that an answered append stands for, or says why it proves
// nothing.
func (b *Broker) prove(acks Acks, a *pending, res *AppendResult) {
	p := a.p
	inSync, leads := p.inSync()
	p.mu.Lock()
	epoch, minInSync := p.leaderEpoch, p.minInSync
	p.mu.Unlock()
	switch {
	case acks == AcksLeader && (!leads || epoch != res.LeaderEpoch):
		res.fail(p.gone(p.leaderLost()))
	case acks == AcksLeader && !b.vouches(p): // it may have been paused since it was checked (R62)
		res.fail(p.notConfirmed())
	case acks == AcksAll && leads && inSync < minInSync: // R55
		res.fail(&NotEnoughReplicasError{Topic: p.topic.name(), Partition: p.num, InSync: inSync, Min: minInSync, Appended: true})
	case acks == AcksAll && !leads: // the leader of now has it and so have its in-sync replicas
		inSync = len(p.meta().ISR)
	}
	res.InSyncReplicas = inSync
}

// sync is a partition's syncer: it fsyncs as long as somebody waits for what
// isn't durable yet. One fsync serves all that came while the former one ran, and
// the caller of Append stays free to give up when the disk hangs.
func (p *Partition) sync(b *Broker) {
	defer b.syncers.Done()
	for {
		p.water.Lock()
		to := p.syncTo
		if p.log.DurableEnd() >= to.EndOffset || p.ended != nil {
			p.syncing = false
			p.water.Unlock()
			return
		}
		p.water.Unlock()

		start := time.Now()
		err := p.log.Sync(to)
		b.metrics.sync.Observe(time.Since(start).Seconds())
		if err != nil {
			p.water.Lock()
			if !errors.Is(err, storage.ErrClosed) || p.ended != nil {
				p.waiters.fail(err) // fsync errors are final (S4): none of these will be known
			} else if !p.syncTo.Same(to) {
				// The log was cut in another role, and those above the cut have been
				// told. Others may wait by now.
				p.water.Unlock()
				continue
			}
			p.syncing = false
			p.water.Unlock()
			return
		}
		p.advance()
	}
}
