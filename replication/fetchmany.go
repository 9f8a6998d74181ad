package replication

import (
	"context"
	"time"

	"github.com/google/uuid"

	"highwater/replication/controller"
)

// Position is where a reader stands in one partition.
type Position struct {
	Topic       string
	TopicID     uuid.UUID // see FetchRequest
	Partition   int32
	Offset      int64
	LeaderEpoch *int32 // see FetchRequest
}

// FetchManyRequest asks for records of several partitions, of any topics.
type FetchManyRequest struct {
	// Positions are read in their order until MaxBytes is used up: rotate them
	// from call to call, or the first one may starve the others.
	Positions []Position
	Isolation Isolation
	MaxBytes  int           // of all batches together; one batch is returned whatever it says
	MinBytes  int           // wait until that much is there, at least 1
	MaxWait   time.Duration // 0 or less: not at all
}

// PartitionFetch is one position's part of the answer. Err is as Fetch's.
type PartitionFetch struct {
	FetchResult
	Err error
}

// fetchManyLocal is FetchMany of partitions that this broker leads.
func (b *Broker) fetchManyLocal(ctx context.Context, req FetchManyRequest) []PartitionFetch {
	want := wanted(req.MinBytes, req.MaxBytes)
	results := make([]PartitionFetch, len(req.Positions))
	bytes, stop := b.readMany(&req, results)
	if bytes >= want || stop || req.MaxWait <= 0 {
		return results
	}
	w := b.watchMany(req.Positions)
	defer w.cancel()
	deadline := time.NewTimer(req.MaxWait)
	defer deadline.Stop()
	for {
		bytes, stop = b.readMany(&req, results)
		if bytes >= want || stop || w.changed() || !wait(ctx, w.signal, deadline, b.drain) {
			return results
		}
	}
}

// readMany adds to results what can be read at each position behind what is in
// them. bytes is their sum; stop says that waiting for more makes no sense.
func (b *Broker) readMany(req *FetchManyRequest, results []PartitionFetch) (bytes int, stop bool) {
	for i := range results {
		bytes += len(results[i].Data)
	}
	for i := range req.Positions {
		pos, res := &req.Positions[i], &results[i]
		p, err := b.Partition(pos.Topic, pos.Partition)
		if err != nil {
			res.Err, stop = err, true
			continue
		}
		if pos.TopicID != uuid.Nil && pos.TopicID != p.topic.meta.Load().ID {
			res.Err, stop = &controller.UnknownTopicError{Topic: pos.Topic}, true
			continue
		}
		room := req.MaxBytes - bytes
		if bytes > 0 && room <= 0 { // full: tell the ends only
			res.HighWatermark, res.LogStartOffset = p.hw.Load(), p.log.StartOffset()
			continue
		}
		before := len(res.Data)
		one := FetchRequest{Topic: pos.Topic, Partition: pos.Partition, Offset: pos.Offset, LeaderEpoch: pos.LeaderEpoch,
			Isolation: req.Isolation, MaxBytes: before + room}
		full, err := p.readMore(&one, &res.FetchResult)
		res.Err, stop = err, stop || full || err != nil
		bytes += len(res.Data) - before
	}
	return bytes, stop
}

// manyWatch is a subscription to several partitions and their topics.
type manyWatch struct {
	signal  *Signal
	cancels []func()
	topics  map[*topic]int // the number of partitions at the start
	missing bool           // one of them is gone already
}

func (b *Broker) watchMany(positions []Position) *manyWatch {
	w := &manyWatch{signal: NewSignal(), topics: map[*topic]int{}}
	for i := range positions {
		p, err := b.Partition(positions[i].Topic, positions[i].Partition)
		if err != nil {
			w.missing = true
			break
		}
		w.cancels = append(w.cancels, p.Subscribe(w.signal))
		if _, ok := w.topics[p.topic]; !ok {
			w.cancels = append(w.cancels, p.topic.changes.add(w.signal))
			w.topics[p.topic] = len(p.topic.meta.Load().Partitions)
		}
	}
	return w
}

// changed tells whether the set of partitions is another one than at the start.
func (w *manyWatch) changed() bool {
	for t, n := range w.topics {
		if t.deleted.Load() || len(t.meta.Load().Partitions) != n {
			return true
		}
	}
	return w.missing
}

func (w *manyWatch) cancel() {
	for _, c := range w.cancels {
		c()
	}
}
