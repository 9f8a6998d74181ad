package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"highwater/replication"
	"highwater/replication/controller"
	"highwater/storage"
)

// history is what clients were told, and what brokers said of themselves. What
// contradicts itself is a violation at once.
type history struct {
	mu         sync.Mutex // guards what follows
	next       int
	parts      []*told
	violations []string
	counts     map[string]int
}

// told is about one partition.
type told struct {
	at       map[int64]string // by offset: what any client read, or was told to be there (V3, V5)
	acked    map[int64]string // acknowledged by all in sync (V1)
	written  map[string]bool  // every value that may be in the log
	refused  map[string]bool  // answered with not_written (V2, V17)
	end      int64            // highest end offset that anybody was told (V11)
	leaders  map[int32]int32  // by leader epoch (V18)
	trueHW   int64
	trueFrom string
}

func newHistory(partitions int) *history {
	h := &history{counts: map[string]int{}}
	for range partitions {
		h.parts = append(h.parts, &told{at: map[int64]string{}, acked: map[int64]string{}, written: map[string]bool{}, refused: map[string]bool{}, leaders: map[int32]int32{}})
	}
	return h
}

func (h *history) violate(format string, args ...any) {
	h.violations = append(h.violations, fmt.Sprintf(format, args...))
}

func (h *history) count(what string) { h.mu.Lock(); h.counts[what]++; h.mu.Unlock() }

// saw notes that an offset has a value.
func (h *history) saw(num int32, offset int64, value, who string) {
	t := h.parts[num]
	if was, ok := t.at[offset]; ok && was != value {
		h.violate("V3: %s has %q at %d of %d, where %q was", who, value, offset, num, was)
	}
	t.at[offset] = value
	if t.refused[value] {
		h.violate("V2: %s has %q, which was answered with not_written", who, value)
	}
	if !t.written[value] {
		h.violate("V2: %s has %q, which nobody wrote", who, value)
	}
}

// produce is a client that appends one value after another.
func (c *cluster) produce(ctx context.Context, rng *rand.Rand) {
	h := c.history
	for ctx.Err() == nil {
		pause(ctx, time.Duration(rng.IntN(150))*time.Millisecond)
		p, b := c.members[rng.IntN(len(c.members))].serving()
		if p == nil {
			continue
		}
		num := int32(rng.IntN(c.partitions))
		acks := []replication.Acks{replication.AcksAll, replication.AcksAll, replication.AcksAll, replication.AcksLeader, replication.AcksNone}[rng.IntN(5)]
		builder := storage.NewBatchBuilder(nil)
		var values []string
		h.mu.Lock()
		for range 1 + rng.IntN(3) {
			h.next++
			v := fmt.Sprintf("v%d", h.next)
			values = append(values, v)
			h.parts[num].written[v] = true
			builder.Append(&storage.Record{Timestamp: time.Now().UnixMilli(), Value: []byte(v)})
		}
		h.mu.Unlock()
		batch, err := builder.Seal(storage.CompressionNone, nil)
		if err != nil {
			panic(err)
		}
		timeout, cancel := context.WithTimeout(context.Background(), time.Duration(500+rng.IntN(6000))*time.Millisecond)
		res := b.Append(timeout, acks, []replication.AppendRequest{{Topic: "t", Partition: num, Batches: []storage.Batch{batch}}})[0]
		cancel()
		if now, _ := p.m.serving(); now != p {
			h.count("answer of a process that is gone")
			continue // the client hears nothing
		}
		h.produced(num, acks, values, res)
	}
}

func (h *history) produced(num int32, acks replication.Acks, values []string, res replication.AppendResult) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.parts[num]
	switch {
	case res.Err == nil && acks == replication.AcksNone:
		h.counts["acks=0"]++
	case res.Err == nil:
		h.counts[fmt.Sprintf("acks=%d", acks)]++
		for i, v := range values {
			if acks == replication.AcksAll {
				t.acked[res.BaseOffset+int64(i)] = v
				h.saw(num, res.BaseOffset+int64(i), v, "an acknowledgement")
			}
		}
	case res.Unknown:
		h.counts["outcome unknown"]++
	default:
		h.counts["not written"]++
		for _, v := range values {
			t.refused[v] = true
		}
		for offset, v := range t.at {
			for _, mine := range values {
				if v == mine {
					h.violate("V17: %q at %d of %d was read, and then answered with not_written: %v", v, offset, num, res.Err)
				}
			}
		}
	}
	var near *replication.NotEnoughReplicasError
	if errors.As(res.Err, &near) {
		h.counts["not enough replicas"]++
	}
}

// acknowledged counts the records of each partition that acks=-1 was answered for.
func (h *history) acknowledged() []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	counts := make([]int, len(h.parts))
	for num, t := range h.parts {
		counts[num] = len(t.acked)
	}
	return counts
}

// consume is a client that reads a partition from its start, again and again, from
// any broker.
func (c *cluster) consume(ctx context.Context, rng *rand.Rand) {
	h := c.history
	num := int32(rng.IntN(c.partitions))
	next := int64(0)
	for ctx.Err() == nil {
		p, b := c.members[rng.IntN(len(c.members))].serving()
		if p == nil {
			pause(ctx, 100*time.Millisecond)
			continue
		}
		if rng.IntN(5) == 0 {
			c.endOffset(p, b, num)
		}
		timeout, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		res, err := b.Fetch(timeout, replication.FetchRequest{Topic: "t", Partition: num, Offset: next, MaxBytes: 1 << 10, MaxWait: 300 * time.Millisecond})
		cancel()
		if now, _ := p.m.serving(); now != p || err != nil {
			if err != nil {
				h.count("read refused")
			}
			if outside := (*storage.OffsetOutOfRangeError)(nil); errors.As(err, &outside) && c.ids != nil && next < outside.Start {
				next = outside.Start // clients had records deleted
			}
			pause(ctx, 50*time.Millisecond)
			continue
		}
		next = h.read(num, next, res)
		if rng.IntN(200) == 0 {
			next, num = 0, int32(rng.IntN(c.partitions))
		}
	}
}

// read notes what a fetch returned, and where to go on (V8).
func (h *history) read(num int32, from int64, res replication.FetchResult) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts["reads"]++
	_ = eachRecord(res.Data, func(offset int64, value string) {
		switch {
		case offset < from || offset >= res.HighWatermark:
			return
		case offset != from:
			h.violate("V8: a reader of %d at %d got %d next", num, from, offset)
		}
		h.saw(num, offset, value, "a reader")
		from = offset + 1
	})
	return from
}

func eachRecord(data []byte, do func(offset int64, value string)) error {
	for len(data) > 0 {
		b, rest, err := storage.ParseBatch(data)
		if err != nil {
			return err
		}
		data = rest
		it, err := b.Records()
		if err != nil {
			return err
		}
		var r storage.Record
		for it.Next(&r) {
			do(r.Offset, string(r.Value))
		}
		if it.Err() != nil {
			return it.Err()
		}
	}
	return nil
}

// endOffset asks how far a partition goes: less than anybody was told before is a
// violation, unless the answer itself says that it may be old (V11).
func (c *cluster) endOffset(p *process, b *replication.Broker, num int32) {
	h := c.history
	h.mu.Lock()
	before := h.parts[num].end
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	o, err := b.Offsets(ctx, "t", num, nil)
	if now, _ := p.m.serving(); err != nil || o.Stale || now != p {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if o.End < before {
		h.violate("V11: broker %d says that %d ends at %d, %d was told before", p.m.id, num, o.End, before)
	}
	h.parts[num].end = max(h.parts[num].end, o.End)
	h.counts["end offsets"]++
}

// watch samples what brokers say of themselves (V18, V21, V24).
func (c *cluster) watch(ctx context.Context) {
	epochs := map[*process][]int32{}
	water := map[[3]int64]int64{} // broker, partition, epoch
	for ctx.Err() == nil {
		pause(ctx, 70*time.Millisecond)
		ends := map[*process][]replication.DebugPartition{}
		before := c.newestState()
		for _, m := range c.members {
			if p, b := m.serving(); p != nil {
				ends[p] = partitions(b)
			}
		}
		c.history.mu.Lock()
		for p, parts := range ends {
			if epochs[p] == nil {
				epochs[p] = make([]int32, c.partitions)
			}
			for _, d := range parts {
				c.sample(p, d, epochs[p], water)
			}
		}
		c.complete(before, ends)
		c.history.mu.Unlock()
	}
}

func (c *cluster) sample(p *process, d replication.DebugPartition, epochs []int32, water map[[3]int64]int64) {
	h, t, id := c.history, c.history.parts[d.Partition], p.m.id
	if d.LeaderEpoch < epochs[d.Partition] {
		h.violate("V18: broker %d goes back to leader epoch %d of %d", id, d.LeaderEpoch, d.Partition)
	}
	epochs[d.Partition] = d.LeaderEpoch
	if d.HighWatermark > d.LogEnd || d.HighWatermark < d.LogStart {
		h.violate("V24: broker %d: %+v", id, d)
	}
	if d.Role != "leader" {
		return
	}
	if other, ok := t.leaders[d.LeaderEpoch]; ok && other != id {
		h.violate("V18: brokers %d and %d lead %d in epoch %d", other, id, d.Partition, d.LeaderEpoch)
	}
	t.leaders[d.LeaderEpoch] = id
	key := [3]int64{int64(id), int64(d.Partition), int64(d.LeaderEpoch)}
	if d.HighWatermark < water[key] {
		h.violate("V24: leader %d's high watermark of %d goes back from %d to %d", id, d.Partition, water[key], d.HighWatermark)
	}
	water[key] = d.HighWatermark
}

// complete checks that who is in sync has all that was committed before it was
// looked at, as long as the metadata stays what it was (V21).
func (c *cluster) complete(before *controller.State, ends map[*process][]replication.DebugPartition) {
	if before == nil {
		return
	}
	after := c.newestState()
	was, ok1 := before.Topic("t")
	is, ok2 := after.Topic("t")
	for p, parts := range ends {
		for _, d := range parts {
			t := c.history.parts[d.Partition]
			if ok1 && ok2 && was.Partitions[d.Partition].PartitionEpoch == is.Partitions[d.Partition].PartitionEpoch &&
				after.Brokers[p.m.id].Epoch == p.ctl.BrokerEpoch() {
				m := is.Partitions[d.Partition]
				for _, ids := range [][]int32{m.ISR, m.ELR} {
					for _, id := range ids {
						if id == p.m.id && d.DurableEnd < t.trueHW {
							c.history.violate("V21: broker %d, of ISR %v and ELR %v, has %d up to %d, %s committed %d", id, m.ISR, m.ELR, d.Partition, d.DurableEnd, t.trueFrom, t.trueHW)
						}
					}
				}
			}
		}
	}
	for p, parts := range ends {
		for _, d := range parts {
			if t := c.history.parts[d.Partition]; d.Role == "leader" && d.HighWatermark > t.trueHW {
				t.trueHW, t.trueFrom = d.HighWatermark, fmt.Sprintf("broker %d in epoch %d", p.m.id, d.LeaderEpoch)
			}
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
