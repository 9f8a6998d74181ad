package replication

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"highwater/replication/controller"
	"highwater/replication/wire"
	"highwater/storage"
)

// marked makes a batch of messages, "id=value" each or "value" without an id, as of a
// gate's time.
func marked(t testing.TB, at time.Time, p *storage.Producer, messages ...string) storage.Batch {
	t.Helper()
	b := storage.BatchBuilder{AppendTime: at.UnixMilli()}
	for _, m := range messages {
		rec := storage.Record{Timestamp: at.UnixMilli(), Value: []byte(m)}
		if id, value, ok := strings.Cut(m, "="); ok {
			rec.Value, rec.Headers = []byte(value), []storage.Header{{Key: []byte(storage.MessageIDHeader), Value: []byte(id)}}
		}
		b.Append(&rec)
	}
	sealed, err := b.Seal(storage.CompressionNone, p)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// now is a broker's wall clock.
func (m *member) now() time.Time {
	if clock := m.c.opts.clock; clock != nil {
		return clock(m.id)
	}
	return time.Now()
}

// send has the broker append messages, forwarding if it can, within so much time.
func (m *member) send(timeout time.Duration, acks Acks, num int32, p *storage.Producer, messages ...string) AppendResult {
	m.c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return m.Append(ctx, acks, []AppendRequest{{Topic: "t", Partition: num, Batches: []storage.Batch{marked(m.c.t, m.now(), p, messages...)}}})[0]
}

// sendSoon is send, with the result later.
func (m *member) sendSoon(timeout time.Duration, acks Acks, messages ...string) <-chan AppendResult {
	done := make(chan AppendResult, 1)
	go func() { done <- m.send(timeout, acks, 0, nil, messages...) }()
	return done
}

// duplicates fails unless all records of a result are duplicates at these offsets.
func (c *testCluster) duplicates(what string, res AppendResult, offsets ...int64) {
	c.t.Helper()
	if res.Err != nil || len(res.Duplicate) != len(offsets) {
		c.t.Errorf("%s: %+v, want duplicates at %d", what, res, offsets)
		return
	}
	for i, offset := range offsets {
		if !res.Duplicate[i] || res.Offsets[i] != offset {
			c.t.Errorf("%s: %+v, want duplicates at %d", what, res, offsets)
		}
	}
}

// isNew fails unless a result is an append of new records at an offset.
func (c *testCluster) isNew(what string, res AppendResult, base int64) {
	c.t.Helper()
	if res.Err != nil || res.Duplicate != nil || res.BaseOffset != base {
		c.t.Errorf("%s: %+v, want new at %d", what, res, base)
	}
}

// remembered fails unless what each of these replicas remembers is what follows from
// its log (V29), and all remember the same.
func (c *testCluster) remembered(ids ...int32) {
	c.t.Helper()
	var first [32]byte
	for i, id := range ids {
		log := c.broker(id).replica("t", 0).log
		got, err := log.DedupeDigest()
		c.must(err)
		want, err := log.RecomputeDedupeDigest()
		c.must(err)
		if got != want {
			c.t.Errorf("V29: broker %d remembers something else than its log says", id)
		}
		if i == 0 {
			first = got
		} else if got != first {
			c.t.Errorf("V29: brokers %d and %d remember different things of equal logs", id, ids[0])
		}
	}
}

// windowed makes topic t, of one partition, with these configs.
func (c *testCluster) windowed(replicas []int32, configs ...string) *controller.Topic {
	c.t.Helper()
	cmd := controller.CreateTopic{Name: "t", MinInSync: min(2, len(replicas)), Replicas: [][]int32{replicas}, Configs: map[string]string{}}
	for i := 0; i < len(configs); i += 2 {
		cmd.Configs[configs[i]] = configs[i+1]
	}
	return c.createWith(cmd)
}

// elect moves the leadership of t-0.
func (c *testCluster) elect(topic *controller.Topic, id int32) {
	c.t.Helper()
	c.apply(&controller.ElectLeader{Topic: topic.ID, Broker: id})
	c.settle()
	time.Sleep(time.Second)
	c.leads(id, "t", 0)
}

// refusingDedupe are peers that give no export while refuse says so.
type refusingDedupe struct {
	Peers
	refuse *atomic.Bool
}

func (r refusingDedupe) Dedupe(ctx context.Context, url string, req *wire.DedupeRequest) (*wire.DedupeAnswer, error) {
	if r.refuse.Load() {
		return nil, errCut
	}
	return r.Peers.Dedupe(ctx, url, req)
}
