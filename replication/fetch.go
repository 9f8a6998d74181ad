package replication

import (
	"context"
	"time"

	"highwater/storage"
)

// FetchRequest asks for records of one partition that a consumer may see.
type FetchRequest struct {
	Topic     string
	Partition int32
	Offset    int64
	MaxBytes  int           // of batches; at least one batch is returned whatever it says
	MinBytes  int           // wait until that much is there, at least 1
	MaxWait   time.Duration // how long to wait for MinBytes; 0: not at all
	Buffer    []byte        // Data is read into its memory if it fits
}

// FetchResult is whole batches and what was known when they were read.
type FetchResult struct {
	// Data holds whole batches; skip records below the asked offset. None is at
	// or above HighWatermark.
	Data           []byte
	HighWatermark  int64
	LogStartOffset int64
	LeaderEpoch    int32
}

// Fetch reads records below the high watermark, waiting for some if there are
// none. Errors: *storage.OffsetOutOfRangeError with the readable range,
// *storage.CorruptError, and those of Partition. When ctx or MaxWait ends first
// the result is empty, without an error.
func (b *Broker) Fetch(ctx context.Context, req FetchRequest) (FetchResult, error) {
	p, err := b.Partition(req.Topic, req.Partition)
	if err != nil {
		return FetchResult{}, err
	}
	signal := NewSignal()
	defer p.Subscribe(signal)()
	deadline := time.NewTimer(req.MaxWait)
	defer deadline.Stop()
	for {
		res, err := p.read(req)
		if err != nil || len(res.Data) >= max(req.MinBytes, 1) || req.MaxWait == 0 {
			return res, err
		}
		select {
		case <-signal.C:
		case <-deadline.C:
			return res, nil
		case <-ctx.Done():
			return res, nil
		}
	}
}

func (p *Partition) read(req FetchRequest) (FetchResult, error) {
	hw := p.hw.Load()
	r, err := p.log.Read(req.Offset, hw, req.MaxBytes, req.Buffer)
	return FetchResult{Data: r.Data, HighWatermark: hw, LogStartOffset: r.StartOffset, LeaderEpoch: p.leaderEpoch}, err
}

// Offsets are the ends of a partition as consumers see them.
type Offsets struct {
	Beginning      int64
	End            int64 // the high watermark
	LogEnd         int64 // LEO
	ForTimestamp   int64
	TimestampFound bool
}

// Offsets tells a partition's ends, and the first offset at or after
// timestampMs when that isn't nil.
func (b *Broker) Offsets(ctx context.Context, topic string, num int32, timestampMs *int64) (Offsets, error) {
	p, err := b.Partition(topic, num)
	if err != nil {
		return Offsets{}, err
	}
	o := Offsets{Beginning: p.log.StartOffset(), End: p.hw.Load(), LogEnd: p.log.WrittenEnd()}
	if timestampMs != nil {
		o.ForTimestamp, o.TimestampFound, err = p.log.OffsetForTimestamp(*timestampMs, o.End)
	}
	return o, err
}

// DeleteRecords moves the log start up to before (at most the high watermark;
// -1: to it) and returns the new beginning offset.
func (b *Broker) DeleteRecords(ctx context.Context, topic string, num int32, before int64) (int64, error) {
	p, err := b.Partition(topic, num)
	if err != nil {
		return 0, err
	}
	hw := p.hw.Load()
	if before == -1 {
		before = hw
	}
	if before < 0 || before > hw {
		return 0, &storage.OffsetOutOfRangeError{Offset: before, Start: p.log.StartOffset(), End: hw}
	}
	if err := p.log.AdvanceStart(before); err != nil {
		return 0, err
	}
	return p.log.StartOffset(), nil
}

// ReplicaStatus is one replica as the leader sees it.
type ReplicaStatus struct {
	Broker         int32
	Leader         bool
	InSync         bool
	LogEndOffset   int64
	Lag            int64
	LastCaughtUpMs int64
}

// PartitionStatus is what GET …/partitions/{p} tells.
type PartitionStatus struct {
	Partition      int32
	Leader         int32
	LeaderEpoch    int32
	ISR            []int32
	LogStartOffset int64
	HighWatermark  int64
	LogEndOffset   int64
	Replicas       []ReplicaStatus
}

// PartitionStatus asks the leader for a partition's figures.
func (b *Broker) PartitionStatus(ctx context.Context, topic string, num int32) (PartitionStatus, error) {
	p, err := b.Partition(topic, num)
	if err != nil {
		return PartitionStatus{}, err
	}
	end := p.log.WrittenEnd()
	return PartitionStatus{Partition: num, Leader: b.cfg.NodeID, LeaderEpoch: p.leaderEpoch, ISR: []int32{b.cfg.NodeID},
		LogStartOffset: p.log.StartOffset(), HighWatermark: p.hw.Load(), LogEndOffset: end,
		Replicas: []ReplicaStatus{{Broker: b.cfg.NodeID, Leader: true, InSync: true, LogEndOffset: end}}}, nil
}
