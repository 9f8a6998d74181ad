package replication

import "context"

// The calls of this file are answered for any partition, whoever leads it: its
// leader's part is in files of its own, named after the call, as …Local.

// Append appends each request's batches to its partition and waits, for all of
// them together, until acks holds or ctx ends. The results stand in the order of
// the requests. Cancelling ctx never takes back what was appended.
//
// Errors with nothing written: ErrShuttingDown, *NotLeaderError, *OfflineError,
// *UnknownPartitionError, *controller.UnknownTopicError,
// *UnexpectedOffsetError, *NotEnoughReplicasError (not appended),
// storage.ErrDiskNearlyFull. With the outcome unknown: ErrTimeout,
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
	return b.appendLocal(ctx, acks, reqs)
}

// Fetch reads records below the high watermark, waiting for some if there are
// none. Errors: *storage.OffsetOutOfRangeError with the readable range, at once;
// *TruncatedError; *storage.CorruptError; those of Partition. When ctx or
// MaxWait ends first, or the broker drains, it returns what there is, maybe
// nothing, without an error.
func (b *Broker) Fetch(ctx context.Context, req FetchRequest) (FetchResult, error) {
	return b.fetchLocal(ctx, req)
}

// FetchMany is Fetch for several partitions with one wait. The results stand in
// the order of the positions; those with nothing new are empty. It returns early,
// maybe with nothing, when one of them fails or a topic among them gets more
// partitions or is deleted.
func (b *Broker) FetchMany(ctx context.Context, req FetchManyRequest) []PartitionFetch {
	return b.fetchManyLocal(ctx, req)
}

// CheckEpoch tells whether the records before offset are those that a reader was
// told in this leader epoch: nil or *TruncatedError; else those of Partition.
func (b *Broker) CheckEpoch(topic string, num int32, epoch int32, offset int64) error {
	return b.checkEpochLocal(topic, num, epoch, offset)
}

// Offsets tells a partition's ends, and the first offset at or after
// timestampMs when that isn't nil. Errors: those of Partition.
func (b *Broker) Offsets(ctx context.Context, name string, num int32, timestampMs *int64) (Offsets, error) {
	return b.offsetsLocal(ctx, name, num, timestampMs)
}

// DeleteRecords moves the log start up to before (at most the high watermark;
// -1: to it) and returns the new beginning offset. Errors:
// *storage.OffsetOutOfRangeError with the allowed range; those of Partition.
func (b *Broker) DeleteRecords(ctx context.Context, name string, num int32, before int64) (int64, error) {
	return b.deleteRecordsLocal(ctx, name, num, before)
}

// PartitionStatus asks the leader for a partition's figures. A partition whose
// log is offline there is told as one without a leader. Errors:
// *UnknownPartitionError, *controller.UnknownTopicError.
func (b *Broker) PartitionStatus(ctx context.Context, name string, num int32) (PartitionStatus, error) {
	return b.partitionStatusLocal(ctx, name, num)
}
