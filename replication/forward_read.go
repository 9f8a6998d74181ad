package replication

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"highwater/replication/controller"
	"highwater/replication/wire"
)

// maxForwardedReadBytes bounds what another broker may have this one read at once.
const maxForwardedReadBytes = 64 << 20

// fetchThere reads at a partition's leader.
func (b *Broker) fetchThere(ctx context.Context, l *location, req FetchRequest) (FetchResult, error) {
	pos := wire.ReadPosition{TopicPartition: l.TopicPartition, Offset: req.Offset}
	if req.TopicID != uuid.Nil && req.TopicID != l.Topic {
		return FetchResult{}, &controller.UnknownTopicError{Topic: req.Topic}
	}
	buf := req.Buffer
	read := func(ctx context.Context, maxWait time.Duration, buf *[]byte) (wire.ReadResult, error) {
		results, err := b.readThere(ctx, l.url, []wire.ReadPosition{pos}, req.Isolation, req.MaxBytes, req.MinBytes, maxWait, buf)
		if err != nil {
			return wire.ReadResult{}, err
		}
		return results[0], nil
	}
	var result wire.ReadResult
	var err error
	if req.MaxWait > 0 {
		pos.LeaderEpoch = req.LeaderEpoch
		result, err = read(ctx, req.MaxWait, &buf)
	} else {
		key := readKey{TopicPartition: l.TopicPartition, url: l.url, offset: req.Offset, epoch: -1, isolation: req.Isolation, maxBytes: req.MaxBytes}
		if req.LeaderEpoch != nil {
			key.epoch = *req.LeaderEpoch // a copy: the read may outlive the reader
			pos.LeaderEpoch = &key.epoch
		}
		result, err = b.share.read(ctx, key,
			func(ctx context.Context) (wire.ReadResult, error) { return read(ctx, 0, &buf) },
			func(ctx context.Context) (wire.ReadResult, error) { return read(ctx, 0, nil) })
	}
	if err != nil {
		return FetchResult{}, err
	}
	res, err := fetched(&result)
	// A copy: the memory that was lent can be given back whole, and others may have
	// the same result.
	res.Data = append(buf[:0], res.Data...)
	return res, err
}

// readThere reads positions of partitions that the broker at url leads.
func (b *Broker) readThere(ctx context.Context, url string, positions []wire.ReadPosition, isolation Isolation, maxBytes, minBytes int, maxWait time.Duration, buf *[]byte) ([]wire.ReadResult, error) {
	maxWait = max(maxWait, 0)
	req := &wire.ReadRequest{Version: wire.Version, Uncommitted: isolation == ReadUncommitted, MaxBytes: min(maxBytes, maxForwardedReadBytes),
		MinBytes: minBytes, MaxWaitMs: maxWait.Milliseconds(), Positions: positions}
	answer := &wire.ReadAnswer{}
	err := b.call(ctx, url, wire.PathRead, maxWait, &wire.JSON[wire.ReadRequest]{V: req}, answer, buf)
	if err == nil {
		err = sameLength(len(answer.Results), len(positions))
	}
	return answer.Results, err
}

// fetched is a leader's result.
func fetched(r *wire.ReadResult) (FetchResult, error) {
	return FetchResult{Data: r.Data, HighWatermark: r.HighWatermark, LogStartOffset: r.LogStart, LeaderEpoch: r.LeaderEpoch, Stale: r.Stale}, decodeError(r.Error)
}

// ServeRead reads, for another broker, partitions that this one leads; it forwards
// nothing. The records lie in *buf where they fit; it may be replaced.
func (b *Broker) ServeRead(ctx context.Context, req *wire.ReadRequest, buf *[]byte) *wire.ReadAnswer {
	answer := &wire.ReadAnswer{Version: wire.Version, Results: make([]wire.ReadResult, len(req.Positions))}
	many := FetchManyRequest{MaxBytes: min(max(req.MaxBytes, 1), maxForwardedReadBytes), MinBytes: req.MinBytes,
		MaxWait: time.Duration(min(max(req.MaxWaitMs, 0), maxForwardedWaitMs)) * time.Millisecond}
	if req.Uncommitted {
		many.Isolation = ReadUncommitted
	}
	at := make([]int, 0, len(req.Positions)) // their places in the answer
	for i := range req.Positions {
		p := &req.Positions[i]
		name, err := b.topicName(p.TopicPartition)
		if err != nil {
			answer.Results[i].Error = encodeError(err)
			many.MaxWait = 0 // the sender should know at once
			continue
		}
		many.Positions = append(many.Positions, Position{Topic: name, TopicID: p.Topic, Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch})
		at = append(at, i)
	}
	if len(many.Positions) == 1 {
		p := &many.Positions[0]
		res, err := b.fetchLocal(ctx, FetchRequest{Topic: p.Topic, TopicID: p.TopicID, Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch,
			Isolation: many.Isolation, MaxBytes: many.MaxBytes, MinBytes: many.MinBytes, MaxWait: many.MaxWait, Buffer: *buf})
		answer.Results[at[0]] = readResult(&res, err)
		if cap(res.Data) > cap(*buf) {
			*buf = res.Data
		}
		return answer
	}
	for k, res := range b.fetchManyLocal(ctx, many) {
		answer.Results[at[k]] = readResult(&res.FetchResult, res.Err)
	}
	return answer
}

// maxForwardedWaitMs is the longest long-poll that a client may ask for.
const maxForwardedWaitMs = int64(time.Minute / time.Millisecond)

func readResult(res *FetchResult, err error) wire.ReadResult {
	return wire.ReadResult{HighWatermark: res.HighWatermark, LogStart: res.LogStartOffset, LeaderEpoch: res.LeaderEpoch, Stale: res.Stale,
		Error: encodeError(err), Data: res.Data}
}

// allHere tells whether all partitions are led here, or can't be asked for elsewhere.
func (b *Broker) allHere(positions []Position) bool {
	for i := range positions {
		l, err := b.locate(positions[i].Topic, positions[i].Partition)
		if err == nil && !b.here(&l) {
			return false
		}
	}
	return true
}

// forwardFetchMany is FetchMany for partitions of which not all are led here.
func (b *Broker) forwardFetchMany(ctx context.Context, req FetchManyRequest) []PartitionFetch {
	want := wanted(req.MinBytes, req.MaxBytes)
	results := make([]PartitionFetch, len(req.Positions))
	bytes, stop := b.readRound(ctx, &req, results)
	if bytes >= want || stop || req.MaxWait <= 0 {
		return results
	}
	signal := NewSignal()
	counts := map[string]int{}
	for i := range req.Positions {
		p := &req.Positions[i]
		cancel, err := b.Subscribe(p.Topic, p.Partition, signal)
		if err != nil {
			return results
		}
		defer cancel()
		if t, err := b.Topic(p.Topic); err == nil {
			counts[p.Topic] = len(t.Partitions)
		}
	}
	deadline := time.NewTimer(req.MaxWait)
	defer deadline.Stop()
	for {
		bytes, stop = b.readRound(ctx, &req, results)
		if bytes >= want || stop || b.otherPartitions(counts) || !wait(ctx, signal, deadline, b.drain) {
			return results
		}
	}
}

// otherPartitions tells whether a topic has another number of partitions, or is gone.
func (b *Broker) otherPartitions(counts map[string]int) bool {
	for name, n := range counts {
		if t, err := b.Topic(name); err != nil || len(t.Partitions) != n {
			return true
		}
	}
	return false
}

// readRound looks once at each position, all leaders at the same time, unless it
// has records already. A leader that is missing is no reason to stop.
func (b *Broker) readRound(ctx context.Context, req *FetchManyRequest, results []PartitionFetch) (bytes int, stop bool) {
	groups := map[string][]int{} // by the leader's URL; "": here
	for i := range req.Positions {
		res := &results[i]
		bytes += len(res.Data)
		if len(res.Data) > 0 {
			continue
		}
		l, err := b.locate(req.Positions[i].Topic, req.Positions[i].Partition)
		switch {
		case err != nil:
			res.Err = err
		case b.here(&l):
			groups[""] = append(groups[""], i)
		case !b.elsewhere(&l):
			res.Err = l.notLeader()
		default:
			groups[l.url] = append(groups[l.url], i)
		}
	}
	room := max(req.MaxBytes-bytes, 0)
	var reads sync.WaitGroup
	for url, at := range groups {
		if room > 0 {
			reads.Go(func() { b.readGroup(ctx, url, req, at, room/len(groups)+1, results) })
		}
	}
	reads.Wait()
	bytes = 0
	for i := range results {
		bytes += len(results[i].Data)
		if err := results[i].Err; err != nil && !IsTransient(err) {
			stop = true
		}
	}
	return bytes, stop
}

func (b *Broker) readGroup(ctx context.Context, url string, req *FetchManyRequest, at []int, maxBytes int, results []PartitionFetch) {
	if url == "" {
		part := FetchManyRequest{Isolation: req.Isolation, MaxBytes: maxBytes}
		for _, i := range at {
			part.Positions = append(part.Positions, req.Positions[i])
		}
		for k, res := range b.fetchManyLocal(ctx, part) {
			results[at[k]] = res
		}
		return
	}
	positions := make([]wire.ReadPosition, len(at))
	where := make([]location, len(at))
	for k, i := range at {
		p := &req.Positions[i]
		l, err := b.locate(p.Topic, p.Partition)
		if err != nil {
			results[i].Err = err
			return
		}
		positions[k], where[k] = wire.ReadPosition{TopicPartition: l.TopicPartition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch}, l
	}
	answers, err := b.readThere(ctx, url, positions, req.Isolation, maxBytes, 1, 0, nil)
	for k, i := range at {
		if err != nil {
			results[i].Err = b.remote(&where[k], err)
			continue
		}
		res, err := fetched(&answers[k])
		results[i] = PartitionFetch{FetchResult: res, Err: b.remote(&where[k], err)}
	}
}

// offsetsThere asks a partition's leader.
func (b *Broker) offsetsThere(ctx context.Context, l *location, q *wire.OffsetsQuery) (Offsets, error) {
	answer, err := ask[wire.OffsetsRequest, wire.OffsetsAnswer](ctx, b, l.url, wire.PathOffsets, endWait, &wire.OffsetsRequest{Version: wire.Version, Partitions: []wire.OffsetsQuery{*q}})
	if err == nil {
		err = sameLength(len(answer.Results), 1)
	}
	if err != nil {
		return Offsets{}, err
	}
	r := &answer.Results[0]
	return Offsets{Beginning: r.Beginning, End: r.End, LogEnd: r.LogEnd, ForTimestamp: r.ForTimestamp, TimestampFound: r.TimestampFound, Stale: r.Stale}, decodeError(r.Error)
}

// ServeOffsets answers another broker.
func (b *Broker) ServeOffsets(ctx context.Context, req *wire.OffsetsRequest) *wire.OffsetsAnswer {
	answer := &wire.OffsetsAnswer{Version: wire.Version, Results: make([]wire.OffsetsResult, len(req.Partitions))}
	for i := range req.Partitions {
		q, r := &req.Partitions[i], &answer.Results[i]
		name, err := b.topicName(q.TopicPartition)
		var o Offsets
		switch {
		case err != nil:
		case q.Check != nil:
			err = b.checkEpochLocal(name, q.Partition, q.Check.LeaderEpoch, q.Check.Offset)
		default:
			o, err = b.offsetsLocal(ctx, name, q.Partition, q.TimestampMs)
		}
		if err == nil {
			_, err = b.topicName(q.TopicPartition) // another topic may have the name by now
		}
		*r = wire.OffsetsResult{Beginning: o.Beginning, End: o.End, LogEnd: o.LogEnd, ForTimestamp: o.ForTimestamp, TimestampFound: o.TimestampFound,
			Stale: o.Stale, Error: encodeError(err)}
	}
	return answer
}

// deleteRecordsThere asks a partition's leader.
func (b *Broker) deleteRecordsThere(ctx context.Context, l *location, before int64) (int64, error) {
	answer, err := ask[wire.DeleteRecordsRequest, wire.DeleteRecordsAnswer](ctx, b, l.url, wire.PathDeleteRecords, deleteWait,
		&wire.DeleteRecordsRequest{Version: wire.Version, TopicPartition: l.TopicPartition, Before: before})
	if err != nil {
		return 0, err
	}
	return answer.Beginning, decodeError(answer.Error)
}

// ServeDeleteRecords deletes for another broker.
func (b *Broker) ServeDeleteRecords(ctx context.Context, req *wire.DeleteRecordsRequest) *wire.DeleteRecordsAnswer {
	answer := &wire.DeleteRecordsAnswer{Version: wire.Version}
	p, err := b.partitionByID(req.TopicPartition)
	if err == nil {
		answer.Beginning, err = b.deleteRecordsIn(ctx, p, req.Before)
	}
	answer.Error = encodeError(err)
	return answer
}

// partitionByID is Partition by the topic's id.
func (b *Broker) partitionByID(tp wire.TopicPartition) (*Partition, error) {
	name, err := b.topicName(tp)
	if err != nil {
		return nil, err
	}
	p, err := b.Partition(name, tp.Partition)
	if err == nil && p.topic.meta.Load().ID != tp.Topic {
		err = &controller.UnknownTopicError{Topic: name}
	}
	return p, err
}
