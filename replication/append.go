package replication

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"highwater/replication/controller"
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
	// ExpectedOffset, if set, must be the log's end.
	ExpectedOffset *int64
	// LeaderEpoch, if set, is the one in which this broker must lead the partition. Such
	// a request is for this broker alone: it is never sent on.
	LeaderEpoch *int32
}

// AppendResult tells where the batches went and what is proved about it. With
// AcksNone all offsets are -1.
type AppendResult struct {
	BaseOffset     int64
	LastOffset     int64
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
		parts[i], results[i] = b.stage(acks, &reqs[i])
	}
	for i := range parts {
		if results[i].Err == nil {
			parts[i].write(acks, &results[i])
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

// pending is one request's append on its way.
type pending struct {
	p      *Partition
	staged storage.Staged
	cuts   int64 // Partition.cuts before
	wait   *waiter
}

// stage checks all there is to check and gives the batches their offsets (R9).
func (b *Broker) stage(acks Acks, req *AppendRequest) (pending, AppendResult) {
	p, err := b.Partition(req.Topic, req.Partition)
	if offline := (*OfflineError)(nil); errors.As(err, &offline) && errors.Is(offline.Cause, storage.ErrDiskNearlyFull) {
		err = storage.ErrDiskNearlyFull // a full disk is what an append is told of, whatever found it out (S5)
	}
	if err != nil {
		return pending{}, AppendResult{Err: err}
	}
	bytes := 0 // counted now: once staged, the batches are the log's
	for _, batch := range req.Batches {
		bytes += len(batch)
	}
	cuts := p.cutCount()
	staged, epoch, err := b.stageIn(p, acks, req)
	if err != nil {
		return pending{}, AppendResult{Err: p.gone(err)}
	}
	p.topic.count(staged.EndOffset-staged.BaseOffset, bytes)
	return pending{p: p, staged: staged, cuts: cuts}, AppendResult{BaseOffset: staged.BaseOffset, LastOffset: staged.EndOffset - 1, LeaderEpoch: epoch, AppendTime: staged.AppendTime}
}

// stageIn is stage for one partition.
func (b *Broker) stageIn(p *Partition, acks Acks, req *AppendRequest) (storage.Staged, int32, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	inSync, leads := p.inSync()
	switch {
	case p.closed != nil:
		return storage.Staged{}, 0, p.closed
	case req.TopicID != uuid.Nil && req.TopicID != p.topic.meta.Load().ID:
		return storage.Staged{}, 0, &controller.UnknownTopicError{Topic: req.Topic}
	case !p.leader || p.held || !leads, req.LeaderEpoch != nil && *req.LeaderEpoch != p.leaderEpoch:
		return storage.Staged{}, 0, p.notLeader()
	case !b.vouches(p):
		return storage.Staged{}, 0, p.notConfirmed()
	case acks == AcksAll && inSync < p.minInSync:
		// R54. The configured number counts, not R27's effective one: an answer at
		// acks=-1 says that so many replicas have it.
		return storage.Staged{}, 0, &NotEnoughReplicasError{Topic: req.Topic, Partition: p.num, InSync: inSync, Min: p.minInSync}
	}
	if want := req.ExpectedOffset; want != nil {
		staged, ok, err := p.log.StageAt(*want, req.Batches, p.leaderEpoch)
		if err == nil && !ok {
			err = &UnexpectedOffsetError{Topic: req.Topic, Partition: p.num, Expected: *want, Actual: staged.EndOffset}
		}
		return staged, p.leaderEpoch, err
	}
	staged, err := p.log.Stage(req.Batches, p.leaderEpoch)
	return staged, p.leaderEpoch, err
}

// write puts what was staged into the file. An append at acks=0 leaves that to
// the background, unless too much waits there.
func (a *pending) write(acks Acks, res *AppendResult) {
	p := a.p
	if acks == AcksNone && !a.staged.Backlogged {
		p.log.SyncSoon()
		return
	}
	if err := p.log.Write(a.staged); err != nil {
		// A log that ran out of space or descriptors has cut the batches off again;
		// after any other failure nobody knows.
		res.Err, res.Unknown = p.gone(err), !errors.Is(err, storage.ErrDiskNearlyFull) && !errors.Is(err, storage.ErrTooManyFiles)
		return
	}
	p.wrote()
	if acks != AcksAll {
		p.log.SyncSoon()
	}
}

// awaitAll waits until each append is below its partition's high watermark.
func (b *Broker) awaitAll(ctx context.Context, parts []pending, results []AppendResult) {
	start := time.Now()
	for i := range parts {
		if results[i].Err == nil {
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
	end := staged.EndOffset
	p.advance() // where writing is enough it has moved already
	p.water.Lock()
	defer p.water.Unlock()
	if p.cuts == cuts && p.hw.Load() >= end {
		return nil
	}
	w := &waiter{base: staged.BaseOffset, end: end, done: make(chan error, 1)}
	switch {
	case p.ended != nil:
		w.done <- p.endedFor(staged.BaseOffset)
		return w
	case p.cuts != cuts:
		w.done <- p.lost(staged.BaseOffset)
		return w
	}
	p.waiters.add(w)
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
