package replication

import (
	"context"
	"time"

	"github.com/google/uuid"

	"highwater/replication/controller"
	"highwater/replication/replica"
	"highwater/storage"
)

// Isolation says which records a reader sees below the high watermark.
type Isolation int

const (
	// ReadCommitted shows no record of an open or aborted transaction.
	ReadCommitted Isolation = iota
	// ReadUncommitted shows them.
	ReadUncommitted
)

// FetchRequest asks for records of one partition that a consumer may see.
type FetchRequest struct {
	Topic string
	// TopicID, if set, must be the topic's: the name may be another one's by now.
	TopicID   uuid.UUID
	Partition int32
	Offset    int64
	// LeaderEpoch, if set, is the one told with the records before Offset; see TruncatedError.
	LeaderEpoch *int32
	Isolation   Isolation
	MaxBytes    int           // of batches; at least one batch is returned whatever it says
	MinBytes    int           // wait until that much is there, at least 1
	MaxWait     time.Duration // how long to wait for MinBytes; 0 or less: not at all
	Buffer      []byte        // Data is read into its memory if it fits
	// Patience is how long to look for the partition's leader while there is none; 0:
	// MaxWait, or else 10 s; less: not at all.
	Patience time.Duration
}

// FetchResult is whole batches and what was known when they were read.
type FetchResult struct {
	// Data holds whole batches; skip records below the asked offset, and those at
	// or above HighWatermark.
	Data           []byte
	HighWatermark  int64
	LogStartOffset int64
	// LeaderEpoch is that of the last record in Data, or of the one before the
	// asked offset when Data is empty; a reader sends it back with its next
	// offset. Where there is no such record it is the partition's own.
	LeaderEpoch int32
	// Stale: the leader can't vouch for still being the leader (R61), or is new and
	// doesn't know yet how far its predecessor had come (R51): what it returns is
	// committed, but HighWatermark may be lower than what was told before.
	Stale bool
}

// fetchLocal is Fetch of a partition that this broker leads.
func (b *Broker) fetchLocal(ctx context.Context, req FetchRequest) (FetchResult, error) {
	p, err := b.Partition(req.Topic, req.Partition)
	if err != nil {
		return FetchResult{}, err
	}
	if req.TopicID != uuid.Nil && req.TopicID != p.topic.meta.Load().ID {
		return FetchResult{}, &controller.UnknownTopicError{Topic: req.Topic}
	}
	want := wanted(req.MinBytes, req.MaxBytes)
	res, err := p.read(&req)
	if err != nil || len(res.Data) >= want || req.MaxWait <= 0 {
		return res, err
	}
	signal := NewSignal()
	defer p.Subscribe(signal)()
	deadline := time.NewTimer(req.MaxWait)
	defer deadline.Stop()
	for {
		full, err := p.readMore(&req, &res)
		if err != nil || full || len(res.Data) >= want || !wait(ctx, signal, deadline, b.drain) {
			return res, err
		}
	}
}

// wanted is the number of bytes that end a wait.
func wanted(minBytes, maxBytes int) int { return max(min(minBytes, maxBytes), 1) }

// wait waits for a wake-up; false: the wait has come to its end.
func wait(ctx context.Context, s *Signal, deadline *time.Timer, drain <-chan struct{}) bool {
	select {
	case <-s.C:
		return true
	case <-deadline.C:
	case <-ctx.Done():
	case <-drain:
	}
	return false
}

// readMore adds to res what has become readable behind it, so that a long wait
// for many bytes reads each of them once. full: no more may be added, or can be.
func (p *Partition) readMore(req *FetchRequest, res *FetchResult) (full bool, err error) {
	if len(res.Data) == 0 {
		*res, err = p.read(req)
		return false, err
	}
	more := FetchRequest{Topic: req.Topic, Partition: req.Partition, Offset: nextOffset(res.Data), Isolation: req.Isolation, MaxBytes: req.MaxBytes - len(res.Data)}
	if more.MaxBytes <= 0 {
		return true, nil
	}
	r, err := p.read(&more)
	if err != nil {
		if p.topic.deleted.Load() {
			return true, err
		}
		return true, nil // what was read is good; the next read from there tells
	}
	if len(r.Data) > more.MaxBytes {
		return true, nil
	}
	r.Data = append(res.Data, r.Data...)
	*res = r
	return false, nil
}

// read is one look at the log, without waiting.
func (p *Partition) read(req *FetchRequest) (FetchResult, error) {
	hw, knowsEnd, err := p.readable()
	if err != nil {
		return FetchResult{}, err
	}
	limit := hw
	vouches := p.topic.b.vouchesForEnd(p)
	if req.Offset > hw {
		// Out of range is a statement about the log's end.
		switch {
		case !vouches: // the end may be anywhere by now (R61)
			return FetchResult{}, p.notConfirmed()
		case !knowsEnd && req.Offset <= p.log.WrittenEnd():
			// The former leader's high watermark may have been there (R51): nothing to
			// read yet, but not out of range.
			limit = req.Offset
		case !knowsEnd:
			return FetchResult{}, &OffsetNotAvailableError{Topic: p.topic.name(), Partition: p.num}
		}
	}
	r, err := readVisible(p.log, req, limit)
	if req.LeaderEpoch != nil && req.Offset >= r.StartOffset {
		if truncated := p.checkEpoch(*req.LeaderEpoch, req.Offset); truncated != nil {
			return FetchResult{}, truncated
		}
	}
	if err != nil {
		if isCorrupt(err) {
			p.topic.b.damaged(p)
		}
		return FetchResult{}, p.gone(err)
	}
	if p.topic.deleted.Load() {
		return FetchResult{}, p.gone(storage.ErrClosed)
	}
	return FetchResult{Data: r.Data, HighWatermark: hw, LogStartOffset: r.StartOffset, LeaderEpoch: p.epochBefore(r.Data, req.Offset),
		Stale: !vouches || !knowsEnd || !p.topic.b.vouchesForEnd(p)}, nil
}

// readable tells the high watermark, and whether this replica, which leads, knows
// that the former leaders' were not beyond it (R51). Errors: the topic's end,
// *NotLeaderError.
func (p *Partition) readable() (hw int64, knowsEnd bool, err error) {
	p.water.Lock()
	defer p.water.Unlock()
	switch {
	case p.ended != nil:
		return 0, false, p.ended
	case p.lead == nil:
		return 0, false, p.notLeader()
	}
	return p.hw.Load(), p.lead.KnowsEnd(), nil
}

// epochBefore is the leader epoch of the last record of data, or of the record
// before offset.
func (p *Partition) epochBefore(data []byte, offset int64) int32 {
	if b, ok := lastBatch(data); ok {
		return b.LeaderEpoch()
	}
	if epoch := epochBelow(p.log, offset); epoch >= 0 {
		return epoch
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leaderEpoch
}

// epochBelow is the leader epoch of the record before offset; -1: the log knows none.
func epochBelow(log *storage.Log, offset int64) int32 {
	epochs := log.Epochs()
	for i := len(epochs) - 1; i >= 0; i-- {
		if epochs[i].StartOffset < offset {
			return epochs[i].Epoch
		}
	}
	return -1
}

// lastBatch is the last batch of data, which holds whole batches that were
// checked when they were read; ok is false when there is none.
func lastBatch(data []byte) (last storage.Batch, ok bool) {
	for len(data) >= storage.BatchHeaderSize {
		b := storage.Batch(data)
		size := b.Size()
		if size > len(data) {
			break
		}
		last, ok = b[:size], true
		data = data[size:]
	}
	return last, ok
}

// nextOffset is the offset after the last batch of data, which isn't empty.
func nextOffset(data []byte) int64 {
	b, ok := lastBatch(data)
	if !ok {
		panic("replication: a read returned no whole batch")
	}
	return b.NextOffset()
}

// checkEpoch tells whether the log still holds what a reader read in a leader
// epoch before offset: nil, or a *TruncatedError (R21 for consumers, R96).
func (p *Partition) checkEpoch(epoch int32, offset int64) error {
	if offset == 0 {
		return nil // it has read nothing
	}
	agreed := replica.EndOfEpoch(epochsOf(p.log), epoch, p.log.WrittenEnd())
	if agreed.Epoch == epoch && offset <= agreed.EndOffset {
		return nil
	}
	return &TruncatedError{Topic: p.topic.name(), Partition: p.num, Offset: offset, Epoch: epoch,
		SafeOffset: max(min(agreed.EndOffset, offset), p.log.StartOffset()), SafeEpoch: agreed.Epoch}
}

// checkEpochLocal is CheckEpoch of a partition that this broker leads.
func (b *Broker) checkEpochLocal(topic string, num int32, epoch int32, offset int64) error {
	p, err := b.Partition(topic, num)
	if err != nil {
		return err
	}
	return p.checkEpoch(epoch, offset)
}
