package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"highwater/replication"
	"highwater/storage"
)

// A producer's batch, and where it is once that was acknowledged; -1: not yet.
type sequenced struct {
	first  int32
	values []string
	offset int64
}

// sequence is an idempotent producer: it goes on to the next batch once one is
// acknowledged by all in sync, sends it again until then, and now and then later.
func (c *cluster) sequence(ctx context.Context, rng *rand.Rand, pid int64, num int32) {
	h := c.history
	var sent []*sequenced
	next := int32(0)
	for ctx.Err() == nil {
		pause(ctx, time.Duration(rng.IntN(300))*time.Millisecond)
		var one *sequenced
		switch n := len(sent); {
		case n > 0 && sent[n-1].offset < 0:
			one = sent[n-1]
		case n > 0 && rng.IntN(3) == 0:
			one = sent[n-1-rng.IntN(min(n, 5))]
		default:
			one = &sequenced{first: next, offset: -1}
			h.mu.Lock()
			for range 1 + rng.IntN(3) {
				v := fmt.Sprintf("p%d.%d", pid, next)
				h.parts[num].written[v] = true
				one.values = append(one.values, v)
				next++
			}
			h.mu.Unlock()
			sent = append(sent, one)
		}
		c.sendSequenced(rng, pid, num, one)
	}
}

func (c *cluster) sendSequenced(rng *rand.Rand, pid int64, num int32, one *sequenced) {
	p, b := c.members[rng.IntN(len(c.members))].serving()
	if p == nil {
		return
	}
	builder := storage.BatchBuilder{AppendTime: time.Now().UnixMilli()}
	for _, v := range one.values {
		builder.Append(&storage.Record{Timestamp: time.Now().UnixMilli(), Value: []byte(v)})
	}
	batch, err := builder.Seal(storage.CompressionNone, &storage.Producer{ID: pid, BaseSequence: one.first})
	if err != nil {
		panic(err)
	}
	timeout, cancel := context.WithTimeout(context.Background(), time.Duration(500+rng.IntN(6000))*time.Millisecond)
	res := b.Append(timeout, replication.AcksAll, []replication.AppendRequest{{Topic: "t", Partition: num, Batches: []storage.Batch{batch}}})[0]
	cancel()
	if now, _ := p.m.serving(); now != p {
		return
	}
	h := c.history
	h.mu.Lock()
	defer h.mu.Unlock()
	var gap *storage.SequenceGapError
	var unknown *storage.UnknownProducerError
	var fenced *storage.ProducerFencedError
	switch {
	case errors.As(res.Err, &gap), errors.As(res.Err, &unknown), errors.As(res.Err, &fenced):
		h.violate("I3: producer %d, batch from %d on, in partition %d: %v", pid, one.first, num, res.Err)
		return
	case res.Err != nil:
		return
	}
	base := res.BaseOffset
	if res.Offsets != nil {
		base = res.Offsets[0]
		h.counts["ids: a producer's duplicate"]++
	}
	if one.offset >= 0 && base != one.offset {
		h.violate("V5: producer %d's batch from %d on was said to be at %d of %d, and now at %d", pid, one.first, one.offset, num, base)
	}
	one.offset = base
	for i, v := range one.values {
		h.parts[num].acked[base+int64(i)] = v
		h.saw(num, base+int64(i), v, "an acknowledgement")
	}
}

// recomputed fails unless what a log that is at rest remembers is what follows from it (V29).
func recomputed(l *storage.Log) error {
	is, err := l.DedupeDigest()
	if err != nil {
		return err
	}
	want, err := l.RecomputeDedupeDigest()
	if err != nil {
		return err
	}
	if is != want {
		return fmt.Errorf("V29: it remembers something else than its log says: %+v", l.DedupeFigures())
	}
	return nil
}

// logsOf are the logs of the clients' topic on a broker, by partition.
func (p *process) logsOf(b *replication.Broker) (map[int32]*storage.Log, error) {
	logs := map[int32]*storage.Log{}
	for _, d := range partitions(b) {
		// The broker has it open: this is the same one.
		l, err := p.store.OpenLog(storage.PartitionID{Topic: d.TopicID, Partition: d.Partition}, storage.LogConfig{}, func() {})
		if err != nil {
			return nil, err
		}
		logs[d.Partition] = l
	}
	return logs, nil
}

// recovered checks what was made of the disk at a start, before anything is fetched.
func (p *process) recovered(b *replication.Broker) {
	logs, err := p.logsOf(b)
	if err != nil {
		return // the process crashes
	}
	h := p.m.c.history
	for num, l := range logs {
		err := recomputed(l)
		h.mu.Lock()
		if h.counts["ids: recomputed"]++; err != nil && p.ctx.Err() == nil {
			h.violate("broker %d, partition %d, at its start: %v", p.m.id, num, err)
		}
		h.mu.Unlock()
	}
}

// remembered checks, at the end, that all replicas remember what their logs say, and the
// same.
func (c *cluster) remembered() {
	first := map[int32][32]byte{}
	for _, m := range c.members {
		p, b := m.serving()
		if p == nil {
			return // a late crash
		}
		logs, err := p.logsOf(b)
		if err != nil {
			return
		}
		for num, l := range logs {
			if err := recomputed(l); err != nil && p.ctx.Err() == nil {
				c.history.violate("broker %d, partition %d: %v", m.id, num, err)
			}
			digest, err := l.DedupeDigest()
			if err != nil {
				continue
			}
			if was, seen := first[num]; seen && was != digest {
				c.history.violate("V29: broker %d and another one remember different things of partition %d", m.id, num)
			}
			first[num] = digest
		}
	}
}

// logStart is where a partition begins: 0, unless clients had records deleted.
func (c *cluster) logStart(b *replication.Broker, num int32) int64 {
	if c.ids == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	o, err := b.Offsets(ctx, "t", num, nil)
	if most := c.ids.deletedUpTo(num); err != nil || o.Beginning > most {
		c.history.violate("V1: partition %d begins at %d, %v, and clients deleted up to %d", num, o.Beginning, err, most)
	}
	return o.Beginning
}
