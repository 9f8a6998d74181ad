package main

import (
	"context"
	"sync"
	"time"

	"chaos/cluster"
	"chaos/history"
)

// watch looks into the brokers while they run: the state of their replicas.
type watch struct {
	c   *cluster.Cluster
	rec *history.Recorder
}

func newWatch(c *cluster.Cluster, rec *history.Recorder) *watch {
	return &watch{c: c, rec: rec}
}

func (w *watch) run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, b := range w.c.Brokers {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				w.sample(b)
				if n%4 == 0 {
					_, _, _ = b.Do("GET", "/metrics", "") // its collectors look at what the faults change: a panic there is a finding
				}
				select {
				case <-ctx.Done():
				case <-time.After(sampleEvery):
				}
			}
		})
	}
	wg.Wait()
}

// last takes everything once more.
func (w *watch) last() {
	for _, b := range w.c.Brokers {
		w.sample(b)
	}
}

// debugReplica is a replica in the answer to debug/partitions.
type debugReplica struct {
	TopicID        string `json:"topic_id"`
	Partition      int    `json:"partition"`
	Role           string `json:"role"`
	LeaderEpoch    int32  `json:"leader_epoch"`
	PartitionEpoch int32  `json:"partition_epoch"`
	Replicas       []int  `json:"replicas"`
	ISR            []int  `json:"isr"`
	MaximalISR     []int  `json:"maximal_isr"`
	ELR            []int  `json:"elr"`
	MinInSync      int    `json:"min_insync_replicas"`
	LogStart       int64  `json:"log_start"`
	HighWatermark  int64  `json:"high_watermark"`
	DurableEnd     int64  `json:"durable_end"`
	LogEnd         int64  `json:"log_end"`
	Epochs         []struct {
		Epoch       int32 `json:"epoch"`
		StartOffset int64 `json:"start_offset"`
	} `json:"epochs"`
}

// sample looks at a broker's replicas. One that is down has none to show.
func (w *watch) sample(b *cluster.Broker) {
	life := b.Life()
	s := &history.Sample{Call: w.rec.Now(), Broker: b.ID, Life: life}
	var got []debugReplica
	if err := b.Ask("/internal/v1/debug/partitions", &got); err != nil || b.Life() != life {
		return
	}
	s.Return = w.rec.Now()
	for _, d := range got {
		if d.Role == "offline" {
			continue
		}
		r := history.Replica{Partition: history.Partition{Topic: d.TopicID, Index: d.Partition}, Role: d.Role, LeaderEpoch: d.LeaderEpoch,
			PartitionEpoch: d.PartitionEpoch, Start: d.LogStart, End: d.LogEnd, Durable: d.DurableEnd, High: d.HighWatermark,
			Replicas: d.Replicas, ISR: d.ISR, MaximalISR: d.MaximalISR, ELR: d.ELR, MinInSync: d.MinInSync}
		for _, e := range d.Epochs {
			r.Epochs = append(r.Epochs, history.EpochStart{Epoch: e.Epoch, Start: e.StartOffset})
		}
		s.Replicas = append(s.Replicas, r)
	}
	w.rec.Sample(s)
}
