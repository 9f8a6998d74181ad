package replication

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"highwater/replication/controller"
	"highwater/replication/wire"
	"highwater/storage"
)

// maxPrepares bounds how often an append looks its message ids up anew because the log
// has learned of one of them, or forgotten some, in between. Each time somebody else
// got on; to lose that race so often takes a storm of requests with the same id.
const maxPrepares = 64

// pending is one request's append on its way.
type pending struct {
	p      *Partition
	staged storage.Staged
	cuts   int64 // Partition.cuts before
	wait   *waiter
}

// stage checks all there is to check and gives the batches their offsets (R9).
func (b *Broker) stage(ctx context.Context, acks Acks, req *AppendRequest) (pending, AppendResult) {
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
	staged, epoch, err := b.offer(ctx, p, acks, req)
	if err != nil {
		p.topic.dedupe.refused(err)
		return pending{}, AppendResult{Err: p.gone(err)}
	}
	p.topic.dedupe.count(staged.Duplicate)
	if staged.New {
		p.topic.count(staged.EndOffset-staged.BaseOffset, bytes)
	}
	return pending{p: p, staged: staged, cuts: cuts}, stagedResult(&staged, epoch)
}

// stagedResult tells where the records are, or will be.
func stagedResult(s *storage.Staged, epoch int32) AppendResult {
	res := AppendResult{BaseOffset: s.BaseOffset, LastOffset: s.EndOffset - 1, Offsets: s.Offsets, Duplicate: s.Duplicate, LeaderEpoch: epoch, AppendTime: s.AppendTime}
	if s.New {
		return res
	}
	res.BaseOffset, res.LastOffset = -1, -1
	for _, offset := range s.Offsets {
		if offset >= 0 && (res.BaseOffset < 0 || offset < res.BaseOffset) {
			res.BaseOffset = offset
		}
		res.LastOffset = max(res.LastOffset, offset)
	}
	return res
}

// offer looks up what the partition's log knows of the request's message ids and
// producer, which may read a file, and stages what is new, under the partition's lock
// (I6). What was looked up may be no longer so by then: then once more.
func (b *Broker) offer(ctx context.Context, p *Partition, acks Acks, req *AppendRequest) (staged storage.Staged, epoch int32, err error) {
	o, err := storage.NewOffer(req.Batches, req.Facts)
	if err != nil {
		return staged, 0, fmt.Errorf("%w: batches that were offered: %v", wire.ErrMalformed, err) //nolint:errorlint // not damage of a disk, which it would be taken for
	}
	for range maxPrepares {
		verdict := p.log.Prepare(o)
		staged, epoch, err = b.stageIn(p, acks, req, o, verdict)
		switch {
		case errors.Is(err, storage.ErrBacklogged) && p.log.AwaitRoom(ctx) == nil, errors.Is(err, storage.ErrStale):
		default:
			return staged, epoch, err
		}
	}
	if errors.Is(err, storage.ErrBacklogged) {
		return staged, epoch, err
	}
	return staged, epoch, p.notConfirmed() // nothing was written, and it passes by itself
}

// stageIn is stage for one partition. verdict is Prepare's, which counts for nothing
// if this replica isn't the leader: its log may hold what no leader's does.
func (b *Broker) stageIn(p *Partition, acks Acks, req *AppendRequest, o *storage.Offer, verdict error) (storage.Staged, int32, error) {
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
	if err := b.fenced(req.Batches); err != nil {
		return storage.Staged{}, 0, err
	}
	if verdict != nil {
		return storage.Staged{}, 0, verdict
	}
	at := int64(-1)
	if req.ExpectedOffset != nil {
		at = max(*req.ExpectedOffset, 0)
	}
	staged, ok, err := p.log.StageOffer(at, o, p.leaderEpoch)
	if err == nil && !ok {
		err = &UnexpectedOffsetError{Topic: req.Topic, Partition: p.num, Expected: *req.ExpectedOffset, Actual: staged.EndOffset}
	}
	return staged, p.leaderEpoch, err
}

// fenced refuses a producer whose transactional id was begun with anew since: by the
// metadata, before the new life has written anything here (I3, I8).
func (b *Broker) fenced(batches []storage.Batch) error {
	for _, batch := range batches {
		if !batch.Marked() || batch.ProducerID() == storage.NoProducer {
			continue
		}
		if current, ok := b.State().ProducerEpoch(batch.ProducerID()); ok && batch.ProducerEpoch() < current {
			return &storage.ProducerFencedError{ProducerID: batch.ProducerID(), Epoch: batch.ProducerEpoch(), Current: current}
		}
	}
	return nil
}
