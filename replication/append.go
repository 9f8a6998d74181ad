package replication

import (
	"context"

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
	Topic     string
	Partition int32
	Batches   []storage.Batch // owned by the log from here on
	// ExpectedOffset, if set, must be the log's end.
	ExpectedOffset *int64
}

// AppendResult tells where the batches went and what is proved about it. With
// AcksNone all offsets are -1.
type AppendResult struct {
	BaseOffset     int64
	LastOffset     int64
	LeaderEpoch    int32
	HighWatermark  int64
	InSyncReplicas int
	Durability     Durability
	// Err is set when this partition's part failed; the others may have succeeded.
	Err error
	// Unknown: with Err, the batch may be in the log (outcome "unknown").
	Unknown bool
}

// Append appends each request's batches to its partition and waits, for all of
// them together, until acks holds or ctx ends. The results stand in the order of
// the requests. Cancelling ctx never takes back what was appended.
func (b *Broker) Append(ctx context.Context, acks Acks, reqs []AppendRequest) []AppendResult {
	results := make([]AppendResult, len(reqs))
	for i := range reqs {
		results[i] = b.appendOne(acks, &reqs[i])
	}
	return results
}

func (b *Broker) appendOne(acks Acks, req *AppendRequest) AppendResult {
	p, err := b.Partition(req.Topic, req.Partition)
	if err != nil {
		return AppendResult{Err: err}
	}
	p.stage.Lock()
	if req.ExpectedOffset != nil && *req.ExpectedOffset != p.log.StagedEnd() {
		defer p.stage.Unlock()
		return AppendResult{Err: &UnexpectedOffsetError{Topic: req.Topic, Partition: req.Partition, Expected: *req.ExpectedOffset, Actual: p.log.StagedEnd()}}
	}
	staged, err := p.log.Stage(req.Batches, p.leaderEpoch)
	p.stage.Unlock()
	if err != nil {
		return AppendResult{Err: err}
	}
	res := AppendResult{BaseOffset: staged.BaseOffset, LastOffset: staged.EndOffset - 1, LeaderEpoch: p.leaderEpoch, InSyncReplicas: 1}
	switch acks {
	case AcksNone:
		if staged.Backlogged {
			if err := p.log.Write(staged); err != nil {
				return AppendResult{Err: err, Unknown: true}
			}
		}
		p.log.SyncSoon()
		return AppendResult{BaseOffset: -1, LastOffset: -1, Durability: DurabilityQueued}
	case AcksLeader:
		err = p.log.Write(staged)
		p.log.SyncSoon()
		res.Durability = DurabilityWritten
	default:
		err = p.log.Sync(staged)
		res.Durability = DurabilityFsynced
	}
	if err != nil {
		return AppendResult{Err: err, Unknown: true}
	}
	res.HighWatermark = p.hw.Load()
	return res
}
