package handlers

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"highwater/replication"
	"highwater/replication/controller"
	"highwater/storage"
)

// reader reads one partition or all partitions of a topic, each from its own
// position, and renders what it reads.
type reader struct {
	api       *api
	base      string // URL of the broker, for what errors advise
	topic     string
	merged    bool // all partitions of the topic
	id        storage.TopicID
	format    recordFormat
	frame     framing
	isolation replication.Isolation
	cursors   []cursor // by partition, ascending
	rec       storage.Record
	// patience is how long a read looks for a leader that is missing: as in
	// replication.FetchRequest.
	patience time.Duration
	stale    bool // something was read from a leader that can't vouch for itself

	unsubscribe func() // nil while not subscribed
}

// cursor is a reader's place in one partition.
type cursor struct {
	position
	// epoch is the leader epoch of the last record read, -1 before there is one.
	// A log that was cut below that record is noticed by it (KIP-320).
	epoch int32
	// high is the highest high watermark that was seen: a later read of one answer may
	// come from a stale leader, which knows of a lower one.
	high     int64
	renderer *recordRenderer
}

// newReader begins a reader of the topic without cursors.
func (a *api) newReader(r *http.Request, topic string, q *readQuery) (*reader, error) {
	t, err := a.cfg.Broker.Topic(topic)
	if err != nil {
		return nil, err
	}
	rd := &reader{api: a, base: a.baseURL(r), topic: topic, id: t.ID, format: q.format, frame: q.frame, isolation: q.isolation,
		patience: max(q.wait, 0)}
	rd.format.oneLine = q.frame != frameArray
	return rd, nil
}

// add puts a cursor at the end; partitions must come in ascending order.
func (rd *reader) add(p position, epoch int32) {
	rd.cursors = append(rd.cursors, cursor{position: p, epoch: epoch, renderer: newRecordRenderer(rd.format, rd.topic, p.partition)})
}

// check makes sure that the topic is still the one that the reader began with.
// After a read it proves that the read was from that topic, for a topic id never
// comes back.
func (rd *reader) check() error {
	t, err := rd.api.cfg.Broker.Topic(rd.topic)
	if err != nil {
		return err
	}
	if t.ID != rd.id {
		return &controller.UnknownTopicError{Topic: rd.topic}
	}
	return nil
}

// read appends what is there for cursor i, up to about maxBytes and within the
// budget, and moves the cursor behind it. It doesn't wait.
func (rd *reader) read(ctx context.Context, i int, dst []byte, b *budget, maxBytes int) ([]byte, replication.FetchResult, error) {
	c := &rd.cursors[i]
	res, err := rd.fetch(ctx, c, maxBytes)
	if err != nil {
		return dst, res, err
	}
	out, err := rd.render(i, dst, b, &res)
	return out, res, err
}

// render appends what was fetched for cursor i, within the budget, moves the
// cursor behind it and gives the fetched bytes back.
func (rd *reader) render(i int, dst []byte, b *budget, res *replication.FetchResult) ([]byte, error) {
	defer func() {
		rd.api.buffers.put(res.Data)
		res.Data = nil
	}()
	if len(res.Data) == 0 {
		return dst, nil
	}
	c := &rd.cursors[i]
	p := newPage(res.Data, c.next, res.HighWatermark)
	out, err := renderPage(dst, &p, c.renderer, b, rd.frame, maxRenderedBytes, rd.position(i), &rd.rec)
	if err != nil && len(out) == len(dst) {
		return dst, err
	}
	// Records before damage are given; the next read meets the damage first.
	if p.next > c.next {
		c.next, c.epoch = p.next, p.batchEpoch
	}
	return out, nil
}

// explainPosition says of a merged read which partition the error is about: the
// path of the request doesn't.
func (rd *reader) explainPosition(partition int32, err error) error {
	var outside *storage.OffsetOutOfRangeError
	if !rd.merged || !errors.As(err, &outside) {
		return err
	}
	number := strconv.Itoa(int(partition))
	p := explain(err, place{base: rd.base, topic: rd.topic, partition: number})
	p.detail = "Partition " + number + ": " + p.detail
	p.members = append(p.members, member{"partition", int64(partition)})
	return answered{p}
}

// fetch looks once at the log of one cursor's partition. What it returns is from
// the topic that the reader began with.
func (rd *reader) fetch(ctx context.Context, c *cursor, maxBytes int) (replication.FetchResult, error) {
	req := replication.FetchRequest{Topic: rd.topic, Partition: c.partition, Offset: c.next, Isolation: rd.isolation,
		MaxBytes: maxBytes, Buffer: rd.api.buffers.get(), Patience: rd.patience}
	if c.epoch >= 0 {
		req.LeaderEpoch = &c.epoch
	}
	res, err := rd.api.cfg.Broker.Fetch(ctx, req)
	rd.stale = rd.stale || res.Stale
	c.high = max(c.high, res.HighWatermark)
	if err == nil && len(res.Data) > 0 {
		err = rd.check()
	}
	return res, rd.explainPosition(c.partition, err)
}

// position returns the function that renders the position vector while cursor i
// is being read.
func (rd *reader) position(i int) func(dst []byte, next int64) []byte {
	if rd.frame != frameEvents {
		return nil
	}
	before := appendVector(nil, rd.cursors[:i])
	if i > 0 {
		before = append(before, ',')
	}
	var after []byte
	if i+1 < len(rd.cursors) {
		after = appendVector([]byte{','}, rd.cursors[i+1:])
	}
	partition := rd.cursors[i].partition
	return func(dst []byte, next int64) []byte {
		dst = append(dst, before...)
		dst = appendPosition(dst, partition, next)
		return append(dst, after...)
	}
}

// appendVector appends the position vector of the cursors.
func appendVector(dst []byte, cursors []cursor) []byte {
	for i := range cursors {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendPosition(dst, cursors[i].partition, cursors[i].next)
	}
	return dst
}

// subscribe has signal woken when there may be more to read, when the topic gets
// partitions, and when it is deleted.
func (rd *reader) subscribe(signal *replication.Signal) (err error) {
	if rd.merged {
		rd.unsubscribe, err = rd.api.cfg.Broker.SubscribeTopic(rd.topic, signal)
		return err
	}
	rd.unsubscribe, err = rd.api.cfg.Broker.Subscribe(rd.topic, rd.cursors[0].partition, signal)
	return err
}

func (rd *reader) close() {
	if rd.unsubscribe != nil {
		rd.unsubscribe()
		rd.unsubscribe = nil
	}
}
