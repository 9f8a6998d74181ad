package replication

import (
	"github.com/prometheus/client_golang/prometheus"

	"highwater/storage"
)

// dedupeDescs are the series, one for each topic, about message ids and producers.
type dedupeDescs struct {
	hits, reused, gaps, evicted, ids, producers *prometheus.Desc
}

func newDedupeDescs(desc func(name, help string, labels []string) *prometheus.Desc, labels []string) dedupeDescs {
	return dedupeDescs{
		hits:      desc("dedupe_hits_total", "Records that were not appended because they were there before, by message id or sequence number.", labels),
		reused:    desc("dedupe_reused_total", "Appends refused because a message id belongs to another message.", labels),
		gaps:      desc("sequence_errors_total", "Appends refused because of their producer's sequence number or epoch.", labels),
		evicted:   desc("dedupe_evicted_early_total", "Message ids forgotten before the window in time had ended, because there were too many, in the logs on this broker since they were opened.", labels),
		ids:       desc("dedupe_ids", "Message ids that the logs on this broker remember.", labels),
		producers: desc("producers", "Producers that the logs on this broker remember.", labels),
	}
}

func (d *dedupeDescs) all() []*prometheus.Desc {
	return []*prometheus.Desc{d.hits, d.reused, d.gaps, d.evicted, d.ids, d.producers}
}

// dedupeSums are a topic's figures.
type dedupeSums struct {
	hits, reused, gaps, ids, producers int64
	evicted                            uint64
}

// begin takes what is counted for the topic as a whole.
func (s *dedupeSums) begin(c *dedupeCounters) {
	s.hits, s.reused, s.gaps = c.hits.Load(), c.reused.Load(), c.gaps.Load()
}

// log adds what one log remembers.
func (s *dedupeSums) log(l *storage.Log) {
	f := l.DedupeFigures()
	s.ids += f.Ids
	s.producers += f.Producers
	s.evicted += f.EvictedEarly
}

func (s *dedupeSums) add(other *dedupeSums) {
	s.hits += other.hits
	s.reused += other.reused
	s.gaps += other.gaps
	s.ids += other.ids
	s.producers += other.producers
	s.evicted += other.evicted
}

func (d *dedupeDescs) collect(ch chan<- prometheus.Metric, name string, s *dedupeSums) {
	for _, one := range []struct {
		desc  *prometheus.Desc
		kind  prometheus.ValueType
		value float64
	}{
		{d.hits, prometheus.CounterValue, float64(s.hits)}, {d.reused, prometheus.CounterValue, float64(s.reused)},
		{d.gaps, prometheus.CounterValue, float64(s.gaps)}, {d.evicted, prometheus.CounterValue, float64(s.evicted)},
		{d.ids, prometheus.GaugeValue, float64(s.ids)}, {d.producers, prometheus.GaugeValue, float64(s.producers)},
	} {
		ch <- prometheus.MustNewConstMetric(one.desc, one.kind, one.value, name)
	}
}
