package replication

import (
	"context"
	"time"

	"highwater/replication/controller"
	"highwater/replication/wire"
)

// The calls of this file are answered for any partition, whoever leads it: its
// leader's part is in files of its own, named after the call, as …Local.

// Append appends each request's batches to its partition and waits, for all of
// them together, until acks holds or ctx ends. The results stand in the order of
// the requests. Cancelling ctx never takes back what was appended.
//
// Errors with nothing written: ErrShuttingDown, *NotLeaderError, *NotConfirmedError,
// *OfflineError, *UnknownPartitionError, *controller.UnknownTopicError,
// *controller.InvalidNameError (a topic of Highwater's own), *UnexpectedOffsetError, *NotEnoughReplicasError (not appended),
// storage.ErrDiskNearlyFull, storage.ErrTooManyFiles, storage.ErrBacklogged, storage.ErrBatchTooLarge,
// *storage.MessageReusedError, *storage.SequenceGapError, *storage.UnknownProducerError,
// *storage.ProducerFencedError. With
// the outcome unknown: ErrTimeout, *LeaderLostError, *NotConfirmedError,
// *NotEnoughReplicasError (appended), *controller.UnknownTopicError (deleted
// meanwhile), *storage.FailedError.
func (b *Broker) Append(ctx context.Context, acks Acks, reqs []AppendRequest) []AppendResult {
	if !b.appends.enter() {
		results := make([]AppendResult, len(reqs))
		for i := range results {
			results[i].Err = ErrShuttingDown
		}
		return results
	}
	defer b.appends.leave()
	if err := internalTopic(reqs); err != nil {
		results := make([]AppendResult, len(reqs))
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	if b.cfg.Forward == nil {
		return b.appendLocal(ctx, acks, reqs)
	}
	return b.forwardAppend(ctx, acks, reqs)
}

// internalTopic refuses what clients would write into a topic that Highwater keeps for
// itself: one record there that nobody can read would end all groups of a partition.
func internalTopic(reqs []AppendRequest) error {
	for i := range reqs {
		if controller.IsInternalTopic(reqs[i].Topic) {
			return controller.CheckTopicName(reqs[i].Topic)
		}
	}
	return nil
}

// Fetch reads records below the high watermark, waiting for some if there are
// none. Errors: *storage.OffsetOutOfRangeError with the readable range, at once;
// *TruncatedError; *storage.CorruptError; *OfflineError, *UnknownPartitionError,
// *controller.UnknownTopicError; one that IsTransient when no leader was found in
// time. When ctx or MaxWait ends first, or the broker drains, it returns what there
// is, maybe nothing, without an error.
func (b *Broker) Fetch(ctx context.Context, req FetchRequest) (res FetchResult, err error) {
	until := time.Now().Add(max(req.MaxWait, 0))
	left := func() FetchRequest {
		r := req
		r.MaxWait = min(req.MaxWait, max(time.Until(until), 0))
		return r
	}
	err = b.atLeader(ctx, req.Topic, req.Partition, readWait(req.Patience, req.MaxWait),
		func() (err error) { res, err = b.fetchLocal(ctx, left()); return err },
		func(l *location) (err error) { res, err = b.fetchThere(ctx, l, left()); return err })
	return res, err
}

// FetchMany is Fetch for several partitions with one wait. The results stand in
// the order of the positions; those with nothing new are empty. It returns early,
// maybe with nothing, when one of them fails or a topic among them gets more
// partitions or is deleted.
func (b *Broker) FetchMany(ctx context.Context, req FetchManyRequest) []PartitionFetch {
	if b.allHere(req.Positions) {
		return b.fetchManyLocal(ctx, req)
	}
	return b.forwardFetchMany(ctx, req)
}

// CheckEpoch tells whether the records before offset are those that a reader was
// told in this leader epoch: nil or *TruncatedError; else as Fetch.
func (b *Broker) CheckEpoch(ctx context.Context, topic string, num int32, epoch int32, offset int64) error {
	return b.atLeader(ctx, topic, num, readLeaderWait,
		func() error { return b.checkEpochLocal(topic, num, epoch, offset) },
		func(l *location) error {
			_, err := b.offsetsThere(ctx, l, &wire.OffsetsQuery{TopicPartition: l.TopicPartition, Check: &wire.EpochCheck{LeaderEpoch: epoch, Offset: offset}})
			return err
		})
}

// Offsets tells a partition's ends, and the first offset at or after
// timestampMs when that isn't nil. Errors: as Fetch.
func (b *Broker) Offsets(ctx context.Context, name string, num int32, timestampMs *int64) (o Offsets, err error) {
	err = b.atLeader(ctx, name, num, readLeaderWait,
		func() (err error) { o, err = b.offsetsLocal(ctx, name, num, timestampMs); return err },
		func(l *location) (err error) {
			o, err = b.offsetsThere(ctx, l, &wire.OffsetsQuery{TopicPartition: l.TopicPartition, TimestampMs: timestampMs})
			return err
		})
	return o, err
}

// DeleteRecords moves the log start up to before (at most the high watermark;
// -1: to it) and returns the new beginning offset. Errors:
// *storage.OffsetOutOfRangeError with the allowed range; *controller.InvalidNameError
// for a topic of Highwater's own; as Fetch.
func (b *Broker) DeleteRecords(ctx context.Context, name string, num int32, before int64) (start int64, err error) {
	if controller.IsInternalTopic(name) {
		return 0, controller.CheckTopicName(name)
	}
	err = b.atLeader(ctx, name, num, readLeaderWait,
		func() (err error) { start, err = b.deleteRecordsLocal(ctx, name, num, before); return err },
		func(l *location) (err error) { start, err = b.deleteRecordsThere(ctx, l, before); return err })
	return start, err
}

// PartitionStatus is Partitions for one of them. Errors: also
// *UnknownPartitionError.
func (b *Broker) PartitionStatus(ctx context.Context, name string, num int32) (PartitionStatus, error) {
	statuses, err := b.statuses(ctx, name, []int32{num})
	if err != nil {
		return PartitionStatus{}, err
	}
	return statuses[0], nil
}

// Partitions asks the leaders for the figures of all partitions of a topic, each
// leader once. A partition whose leader doesn't answer, or whose log is offline
// there, is told without offsets. Errors: *controller.UnknownTopicError.
func (b *Broker) Partitions(ctx context.Context, name string) ([]PartitionStatus, error) {
	t, err := b.Topic(name)
	if err != nil {
		return nil, err
	}
	nums := make([]int32, len(t.Partitions))
	for i := range nums {
		nums[i] = int32(i)
	}
	return b.statuses(ctx, name, nums)
}
