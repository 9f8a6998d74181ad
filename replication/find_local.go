package replication

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"highwater/replication/controller"
	"highwater/replication/wire"
	"highwater/storage"
)

// look is what a partition that this broker leads knows of a message id.
type look struct {
	offset  int64 // -1: nothing
	epoch   int32
	batch   []byte // the record alone, as a batch, once it may be read
	gone    bool   // the record isn't kept any more
	pending bool   // it isn't committed yet
	err     error
}

// findLocal looks for a message id in partitions that this broker leads, and waits,
// until ctx ends, for a record that isn't committed yet. The result has a look for
// each partition, up to the first one that found the record.
func (b *Broker) findLocal(ctx context.Context, topic string, topicID uuid.UUID, nums []int32, id []byte) []look {
	looks := make([]look, len(nums))
	signal := NewSignal()
	subscribed := make([]bool, len(nums))
	for first := true; ; first = false {
		waiting := false
		for i, num := range nums {
			if !first && !looks[i].pending {
				continue
			}
			p, err := b.Partition(topic, num)
			if err == nil && topicID != p.topic.meta.Load().ID {
				err = &controller.UnknownTopicError{Topic: topic}
			}
			if err != nil {
				looks[i] = look{offset: -1, err: err}
				continue
			}
			looks[i] = p.look(id)
			if looks[i].pending && !subscribed[i] {
				subscribed[i] = true
				defer p.Subscribe(signal)()
				looks[i] = p.look(id) // what came meanwhile, nobody was told of
			}
			if looks[i].batch != nil {
				return looks[:i+1]
			}
			waiting = waiting || looks[i].pending
		}
		if !waiting || !b.waitFor(ctx, signal) {
			break
		}
	}
	for i := range looks {
		if looks[i].pending {
			looks[i].err = ErrTimeout
		}
	}
	return looks
}

// waitFor waits for a wake-up; false: ctx ended, or the broker drains.
func (b *Broker) waitFor(ctx context.Context, s *Signal) bool {
	select {
	case <-s.C:
		return true
	case <-ctx.Done():
	case <-b.drain:
	}
	return false
}

// look is one look at the log, without waiting. What it says holds at a moment at
// which this replica led, and could vouch for that.
func (p *Partition) look(id []byte) look {
	cuts := p.cutCount()
	return p.vouched(p.lookNow(id), cuts)
}

// vouched is a look that began with so many cuts, if this replica still leads. A record that
// was committed after the look stays pending: the look has nothing of it, and the next one will.
func (p *Partition) vouched(l look, cuts int64) look {
	_, _, err := p.readable()
	switch {
	case err != nil:
		return look{offset: -1, err: p.gone(err)}
	case !p.topic.b.vouchesForEnd(p):
		return look{offset: -1, err: p.notConfirmed()} // R61
	case p.cutCount() != cuts:
		return look{offset: -1, err: p.notLeader()} // it was another's meanwhile
	}
	if l.err != nil {
		l.err = p.gone(l.err)
	}
	return l
}

// lookNow is look without the question whether this replica leads.
func (p *Partition) lookNow(id []byte) look {
	hw, _, err := p.readable()
	if err != nil {
		return look{offset: -1, err: err}
	}
	offset, found, err := p.log.FindMessage(id)
	switch {
	case err != nil || !found:
		return look{offset: -1, err: err}
	case offset >= hw:
		return look{offset: offset, pending: true}
	}
	l := look{offset: offset, epoch: epochBelow(p.log, offset+1)}
	r, err := p.log.Read(offset, hw, 1, nil)
	if outside := (*storage.OffsetOutOfRangeError)(nil); errors.As(err, &outside) {
		l.gone = true
		return l
	}
	if err == nil {
		l.batch, err = recordAlone(r.Data, offset, id)
	}
	if err != nil {
		if isCorrupt(err) {
			p.topic.b.damaged(p)
		}
		return look{offset: offset, err: err}
	}
	l.gone = l.batch == nil
	return l
}

// recordAlone makes a batch of the one record of data that is at offset and has the
// message id; nil: there is none, it was compacted away.
func recordAlone(data []byte, offset int64, id []byte) ([]byte, error) {
	batch, _, err := storage.SplitBatch(data)
	if err != nil || batch.BaseOffset() > offset {
		return nil, err
	}
	it, err := batch.Records()
	if err != nil {
		return nil, err
	}
	it.SkipTo(offset)
	var rec storage.Record
	if !it.Next(&rec) {
		return nil, it.Err()
	}
	if rec.Offset != offset || !bytes.Equal(messageID(&rec), id) {
		return nil, nil
	}
	var builder storage.BatchBuilder
	builder.Append(&rec)
	return builder.Seal(storage.CompressionNone, nil)
}

// ServeFind looks, for another broker, at partitions that this one leads.
func (b *Broker) ServeFind(ctx context.Context, req *wire.FindRequest) *wire.FindAnswer {
	answer := &wire.FindAnswer{Version: wire.Version}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(min(max(req.MaxWaitMs, 0), maxForwardedWaitMs))*time.Millisecond)
	defer cancel()
	name, err := b.topicName(wire.TopicPartition{Topic: req.Topic})
	if err != nil {
		for range req.Partitions {
			answer.Results = append(answer.Results, wire.FindResult{Offset: -1, Error: encodeError(err)})
		}
		return answer
	}
	looks := b.findLocal(ctx, name, req.Topic, req.Partitions, req.ID)
	for i := range looks {
		l := &looks[i]
		answer.Results = append(answer.Results, wire.FindResult{Offset: l.offset, LeaderEpoch: l.epoch, Gone: l.gone, Error: encodeError(l.err)})
		answer.Batch = l.batch // the last one's, if any
	}
	return answer
}
