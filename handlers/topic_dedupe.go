package handlers

import (
	"highwater/replication/controller"
	"highwater/storage"
)

// dedupeView is what a partition remembers of message ids and producers.
type dedupeView struct {
	IDs       int64 `json:"ids"`
	Producers int64 `json:"producers"`
	// OldestMs and NewestMs are append times; null: there is no id.
	OldestMs     *int64 `json:"oldest_ms"`
	NewestMs     *int64 `json:"newest_ms"`
	Hits         uint64 `json:"hits"`
	EvictedEarly uint64 `json:"evicted_early"`
}

// topicDedupeView is what is promised of a topic's message ids, and what its
// partitions remember together, as far as their leaders could be asked.
type topicDedupeView struct {
	WindowMs    int64 `json:"window_ms"`
	WindowCount int64 `json:"window_count"`
	// EffectiveWindowMs is less than WindowMs where a partition gets so many ids that the
	// count forgets them before the time does.
	EffectiveWindowMs int64  `json:"effective_window_ms"`
	IDs               int64  `json:"ids"`
	Producers         int64  `json:"producers"`
	Hits              uint64 `json:"hits"`
	EvictedEarly      uint64 `json:"evicted_early"`
}

func viewOfDedupe(f *storage.DedupeFigures) *dedupeView {
	if f == nil {
		return nil
	}
	v := &dedupeView{IDs: f.Ids, Producers: f.Producers, Hits: f.Hits, EvictedEarly: f.EvictedEarly}
	if f.Ids > 0 {
		v.OldestMs, v.NewestMs = &f.OldestMs, &f.NewestMs
	}
	return v
}

// sumDedupe adds up what the partitions remember.
func sumDedupe(c *controller.TopicConfig, partitions []partitionView) *topicDedupeView {
	v := &topicDedupeView{WindowMs: c.DedupeWindowMs, WindowCount: c.DedupeWindowCount, EffectiveWindowMs: c.DedupeWindowMs}
	for i := range partitions {
		d := partitions[i].Dedupe
		if d == nil {
			continue
		}
		v.IDs += d.IDs
		v.Producers += d.Producers
		v.Hits += d.Hits
		v.EvictedEarly += d.EvictedEarly
		if d.EvictedEarly == 0 || d.OldestMs == nil || d.IDs < c.DedupeWindowCount {
			continue
		}
		if span := *d.NewestMs - *d.OldestMs; v.EffectiveWindowMs < 0 || span < v.EffectiveWindowMs {
			v.EffectiveWindowMs = span
		}
	}
	return v
}
