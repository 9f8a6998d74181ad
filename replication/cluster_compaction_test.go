package replication

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"highwater/replication/controller"
	"highwater/storage"
)

// set appends key=value for each pair, or a tombstone where there is no "=".
func (m *member) set(topic string, pairs ...string) {
	m.c.t.Helper()
	var b storage.BatchBuilder
	for _, pair := range pairs {
		r := storage.Record{Timestamp: 1, Key: []byte(pair)}
		if key, value, ok := strings.Cut(pair, "="); ok {
			r.Key, r.Value = []byte(key), []byte(value)
		}
		b.Append(&r)
	}
	sealed, err := b.Seal(storage.CompressionNone, nil)
	m.c.must(err)
	res := m.appendLocal(context.Background(), AcksAll, []AppendRequest{{Topic: topic, Batches: []storage.Batch{sealed}}})
	m.c.must(res[0].Err)
}

// table is what a table made of all records of a replica holds, with the number of
// records and of tombstones among them.
func (m *member) table(topic string) (table map[string]string, count, tombstones int) {
	m.c.t.Helper()
	table = map[string]string{}
	log := m.replica(topic, 0).log
	for next := log.StartOffset(); next < log.WrittenEnd(); {
		r, err := log.Read(next, log.WrittenEnd(), 1, nil)
		m.c.must(err)
		for _, rec := range records(m.c.t, FetchResult{Data: r.Data, HighWatermark: log.WrittenEnd()}, next) {
			count++
			if table[string(rec.Key)] = string(rec.Value); rec.Value == nil {
				delete(table, string(rec.Key))
				tombstones++
			}
		}
		next = nextOffset(r.Data)
	}
	return table, count, tombstones
}

// TestR92_TombstonesStayWhileAReplicaIsAway: every replica compacts its own log by
// itself. A replica that comes back with a record whose tombstone the others have had
// for long still hears of the tombstone, and doesn't show the record when it leads.
func TestR92_TombstonesStayWhileAReplicaIsAway(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.createWith(controller.CreateTopic{Name: "a", MinInSync: 1, Replicas: [][]int32{{1, 2, 3}}, Configs: map[string]string{
			controller.ConfigCleanupPolicy: "compact", controller.ConfigMinDirtyRatio: "0", controller.ConfigDeleteRetentionMs: "0", controller.ConfigSegmentBytes: "1024"}})
		c.broker(1).set("a", "gone=1", "stays=1")
		time.Sleep(time.Second)
		c.fail(3)
		c.broker(1).set("a", "gone")
		for i := range 30 {
			c.broker(1).set("a", fmt.Sprintf("k%d=%s", i%5, strings.Repeat("x", 100)))
		}
		time.Sleep(5 * defaultCompactionInterval)
		for _, id := range []int32{1, 2} {
			table, count, tombstones := c.broker(id).table("a")
			if tombstones != 1 || len(table) != 6 || count >= 33 || table["stays"] != "1" {
				t.Errorf("broker %d, with a replica away: %v of %d records, %d tombstones", id, slices.Sorted(maps.Keys(table)), count, tombstones)
			}
		}
		c.broker(3).start()
		time.Sleep(2 * time.Second)
		c.isr("a", 0, 1, 2, 3)
		c.broker(1).set("a", "last=1")
		time.Sleep(5 * defaultCompactionInterval)
		for _, m := range c.members {
			table, count, tombstones := m.table("a")
			if tombstones != 0 || len(table) != 7 || table["stays"] != "1" {
				t.Errorf("broker %d, all in sync: %v of %d records, %d tombstones", m.id, slices.Sorted(maps.Keys(table)), count, tombstones)
			}
			if got := figure(m.metrics.compactedAway.WithLabelValues("tombstone")); got != 1 {
				t.Errorf("broker %d: %v tombstones counted", m.id, got)
			}
		}
		c.fail(1)
		c.fail(2)
		c.leads(3, "a", 0)
		res, err := c.broker(3).fetchLocal(context.Background(), FetchRequest{Topic: "a", Offset: 0, MaxBytes: 1})
		c.must(err)
		if got := records(t, res, 0); len(got) == 0 || string(got[0].Key) == "gone" {
			t.Errorf("from 0 on, broker 3 gives %v", got)
		}
	})
}

// TestH06_FetchPassesOverWhatWasCompactedAway: each offset of a gap gives the next
// record that there is, however far it is and however few bytes are asked for; the
// end of a log whose last records are gone is its end.
func TestH06_FetchPassesOverWhatWasCompactedAway(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.createWith(controller.CreateTopic{Name: "a", MinInSync: 1, Replicas: [][]int32{{1}}, Configs: map[string]string{
			controller.ConfigCleanupPolicy: "compact", controller.ConfigDeleteRetentionMs: "0", controller.ConfigSegmentBytes: "1024"}})
		m := c.broker(1)
		m.set("a", "first=1")
		for range 100 {
			m.set("a", "k="+strings.Repeat("x", 50), "l=1", "m=1")
		}
		m.set("a", "k", "l", "m")
		for range 2 {
			_, err := m.CompactNow(context.Background(), "a")
			c.must(err)
		}
		m.set("a", "end=1")
		fetch := func(offset int64) FetchResult {
			t.Helper()
			res, err := m.fetchLocal(context.Background(), FetchRequest{Topic: "a", Offset: offset, MaxBytes: 1})
			c.must(err)
			return res
		}
		for offset := int64(1); offset <= 304; offset++ {
			if got := records(t, fetch(offset), offset); len(got) != 1 || got[0].Offset != 304 {
				t.Fatalf("from %d on: %v", offset, got)
			}
		}
		m.set("a", "end")
		for range 2 {
			_, err := m.CompactNow(context.Background(), "a")
			c.must(err)
		}
		for offset := int64(1); offset <= 306; offset++ {
			res := fetch(offset)
			if len(records(t, res, offset)) != 0 || res.HighWatermark != 306 || len(res.Data) > 0 && nextOffset(res.Data) != 306 {
				t.Fatalf("from %d on: %d bytes, high watermark %d", offset, len(res.Data), res.HighWatermark)
			}
		}
		if _, err := m.CompactNow(context.Background(), "b"); !isUnknownTopic(err) {
			t.Errorf("an unknown topic: %v", err)
		}
		c.create("plain", 1, []int32{1})
		if _, err := m.CompactNow(context.Background(), "plain"); err == nil {
			t.Error("a topic with cleanup.policy=delete was compacted")
		}
	})
}
