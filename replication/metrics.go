package replication

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"highwater/replication/controller"
	"highwater/storage"
)

const (
	// maxTopicSeries bounds the topics that have series of their own; those
	// beyond it, in the order of names, are summed up as topic "*", which is no
	// topic's name.
	maxTopicSeries = 2000
	// maxPartitionSeries bounds the partitions: with more of them on this broker
	// there are none per partition.
	maxPartitionSeries = 1000
)

// metrics are what can't be read off the partitions when Prometheus asks.
type metrics struct {
	produceWait prometheus.Histogram
	sync        prometheus.Histogram

	elections, isrShrinks, isrExpands            prometheus.Counter
	truncations, truncatedBelow, resets, repairs prometheus.Counter
	followerApply                                prometheus.Histogram

	compactions     *prometheus.CounterVec // by result
	compactedAway   *prometheus.CounterVec // records, by reason
	compactedBytes  *prometheus.CounterVec // before and after
	compactionTimes prometheus.Histogram
}

// compacted counts one compaction.
func (m *metrics) compacted(res *storage.CompactResult, took time.Duration, err error) {
	result := "done"
	if err != nil {
		result = "failed"
	}
	m.compactions.WithLabelValues(result).Inc()
	m.compactionTimes.Observe(took.Seconds())
	m.compactedAway.WithLabelValues("replaced").Add(float64(res.Replaced))
	m.compactedAway.WithLabelValues("tombstone").Add(float64(res.Tombstones))
	m.compactedAway.WithLabelValues("keyless").Add(float64(res.Keyless))
	m.compactedBytes.WithLabelValues("before").Add(float64(res.BytesBefore))
	m.compactedBytes.WithLabelValues("after").Add(float64(res.BytesAfter))
}

// own lists them all.
func (m *metrics) own() []prometheus.Collector {
	return []prometheus.Collector{m.produceWait, m.sync, m.elections, m.isrShrinks, m.isrExpands, m.truncations, m.truncatedBelow, m.resets, m.repairs, m.followerApply,
		m.compactions, m.compactedAway, m.compactedBytes, m.compactionTimes}
}

func newMetrics() *metrics {
	// From 100 µs, a fast disk, to 26 s.
	buckets := prometheus.ExponentialBuckets(0.0001, 2, 19)
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "highwater_" + name, Help: help})
	}
	byLabel := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "highwater_" + name, Help: help}, []string{label})
	}
	return &metrics{
		compactions:    byLabel("compactions_total", "Compactions of logs on this broker, by result: done, or failed (given up, too).", "result"),
		compactedAway:  byLabel("compacted_records_total", "Records that compactions took out of logs on this broker, by reason: replaced by a later one, tombstone whose time was over, keyless.", "reason"),
		compactedBytes: byLabel("compacted_bytes_total", "Bytes of the segments that compactions went through, before and after.", "when"),
		compactionTimes: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "highwater_compaction_seconds",
			Help: "Time of one compaction of one log.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 12)}),
		elections:      counter("elections_won_total", "Leader epochs in which this broker began to lead a partition."),
		isrShrinks:     counter("isr_shrinks_total", "Committed ISR changes that this broker proposed and that took replicas out."),
		isrExpands:     counter("isr_expands_total", "Committed ISR changes that this broker proposed and that took replicas in."),
		truncations:    counter("truncations_total", "Logs cut on this broker because they differed from their leader's."),
		truncatedBelow: counter("truncations_below_high_watermark_total", "Of these, those that cut below the replica's high watermark: records that counted as committed may be lost."),
		resets:         counter("log_resets_total", "Logs begun anew on this broker because their leader's began behind their end."),
		repairs:        counter("log_repairs_total", "Damaged logs that were mended on this broker in place, or cut before the damage to be fetched again."),
		followerApply: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "highwater_follower_apply_seconds",
			Help: "Time to append and fsync what one fetch from a leader brought.", Buckets: buckets}),
		produceWait: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "highwater_produce_wait_seconds",
			Help: "Time that produces with acks=-1 waited for their acknowledgement.", Buckets: buckets}),
		sync: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "highwater_sync_seconds",
			Help: "Time of one group commit (write and fsync) of a partition's log that acks=-1 produces waited for.", Buckets: buckets}),
	}
}

// collector reads a Broker's figures when Prometheus asks, so that a deleted
// topic's series are gone at once and an idle partition costs nothing.
type collector struct {
	b *Broker

	appends, records, bytes, size        *prometheus.Desc
	highWatermark, logEnd, logStart      *prometheus.Desc
	partitions, leaders, underReplicated *prometheus.Desc
	underMin, commitLag, followerLag     *prometheus.Desc
	offline, metadataIndex               *prometheus.Desc
	dirtyRatio, uncompactable            *prometheus.Desc
	dedupe                               dedupeDescs
}

// Collector exports the broker's metrics; register it in the broker's registry.
func (b *Broker) Collector() prometheus.Collector {
	perTopic, perPartition := []string{"topic"}, []string{"topic", "partition"}
	desc := func(name, help string, labels []string) *prometheus.Desc {
		return prometheus.NewDesc("highwater_"+name, help, labels, nil)
	}
	return &collector{b: b,
		appends:         desc("topic_appends_total", "Appends to the topic's partitions.", perTopic),
		records:         desc("topic_records_total", "Records appended to the topic.", perTopic),
		bytes:           desc("topic_bytes_total", "Bytes of batches appended to the topic.", perTopic),
		size:            desc("topic_size_bytes", "Size of the topic's logs on this broker.", perTopic),
		highWatermark:   desc("partition_high_watermark", "High watermark.", perPartition),
		logEnd:          desc("partition_log_end_offset", "Log end offset.", perPartition),
		logStart:        desc("partition_log_start_offset", "Log start offset.", perPartition),
		partitions:      desc("partitions", "Partitions with a replica on this broker.", nil),
		leaders:         desc("leader_partitions", "Partitions that this broker leads.", nil),
		underReplicated: desc("under_replicated_partitions", "Led partitions whose ISR is smaller than their replica set.", nil),
		underMin:        desc("under_min_isr_partitions", "Led partitions whose ISR is smaller than min.insync.replicas: they take no acks=-1.", nil),
		commitLag:       desc("high_watermark_lag_records", "The most records that a led partition has above its high watermark.", nil),
		followerLag:     desc("follower_lag_records", "The most records that a followed partition lacks, as of its last fetch.", nil),
		offline:         desc("offline_partitions", "Partitions that have no leader, or whose log cannot be opened here.", nil),
		dirtyRatio:      desc("compaction_max_dirty_ratio", "The largest part that isn't compacted, of the compacted logs on this broker: 0 to 1.", nil),
		uncompactable:   desc("uncompactable_partitions", "Compacted logs on this broker that are damaged: they aren't compacted until that is repaired.", nil),
		metadataIndex:   desc("metadata_index", "Raft index of the newest applied metadata.", nil),
		dedupe:          newDedupeDescs(desc, perTopic),
	}
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.appends, c.records, c.bytes, c.size, c.highWatermark, c.logEnd, c.logStart,
		c.partitions, c.leaders, c.underReplicated, c.underMin, c.commitLag, c.followerLag, c.offline, c.metadataIndex, c.dirtyRatio, c.uncompactable} {
		ch <- d
	}
	for _, d := range c.dedupe.all() {
		ch <- d
	}
	for _, m := range c.b.metrics.own() {
		m.Describe(ch)
	}
}

// topicFigures are a topic's sums.
type topicFigures struct {
	appends, records, bytes, size int64
	dedupe                        dedupeSums
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.b.metrics.own() {
		m.Collect(ch)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	var all, leaders, under, offline int
	var lags lags
	var dirty dirtyLogs
	var open []*Partition
	var rest topicFigures
	topics := c.topics()
	for i, t := range topics {
		m := t.meta.Load()
		f := topicFigures{appends: t.appends.Load(), records: t.records.Load(), bytes: t.bytes.Load()}
		f.dedupe.begin(&t.dedupe)
		for _, p := range *t.partitions.Load() {
			if p == nil {
				continue
			}
			all++
			meta := p.meta()
			switch {
			case p.offline != nil || meta.Leader == controller.NoLeader:
				offline++
			case meta.Leader == c.b.cfg.NodeID:
				leaders++
				if len(meta.ISR) < len(meta.Replicas) {
					under++
				}
			}
			if p.offline == nil {
				lags.look(p)
				dirty.look(p)
				f.size += p.log.SizeBytes()
				f.dedupe.log(p.log)
				open = append(open, p)
			}
		}
		if i < maxTopicSeries {
			c.topic(ch, m.Name, &f)
			continue
		}
		rest.appends += f.appends
		rest.records += f.records
		rest.bytes += f.bytes
		rest.size += f.size
		rest.dedupe.add(&f.dedupe)
	}
	if len(topics) > maxTopicSeries {
		c.topic(ch, "*", &rest)
	}
	if len(open) <= maxPartitionSeries {
		for _, p := range open {
			name, num := p.topic.name(), strconv.Itoa(int(p.num))
			gauge(c.highWatermark, float64(p.hw.Load()), name, num)
			gauge(c.logEnd, float64(p.log.WrittenEnd()), name, num)
			gauge(c.logStart, float64(p.log.StartOffset()), name, num)
		}
	}
	gauge(c.partitions, float64(all))
	gauge(c.leaders, float64(leaders))
	gauge(c.underReplicated, float64(under))
	gauge(c.underMin, float64(lags.underMin))
	gauge(c.commitLag, float64(lags.commit))
	gauge(c.followerLag, float64(lags.follower))
	gauge(c.offline, float64(offline))
	gauge(c.dirtyRatio, dirty.ratio)
	gauge(c.uncompactable, float64(dirty.damaged))
	gauge(c.metadataIndex, float64(c.b.State().Index))
}

func (c *collector) topic(ch chan<- prometheus.Metric, name string, f *topicFigures) {
	for _, one := range []struct {
		desc  *prometheus.Desc
		kind  prometheus.ValueType
		value int64
	}{{c.appends, prometheus.CounterValue, f.appends}, {c.records, prometheus.CounterValue, f.records},
		{c.bytes, prometheus.CounterValue, f.bytes}, {c.size, prometheus.GaugeValue, f.size}} {
		ch <- prometheus.MustNewConstMetric(one.desc, one.kind, float64(one.value), name)
	}
	c.dedupe.collect(ch, name, &f.dedupe)
}

// topics lists the open topics in the order of names.
func (c *collector) topics() []*topic {
	c.b.mu.RLock()
	out := make([]*topic, 0, len(c.b.byName))
	for _, t := range c.b.byName {
		out = append(out, t)
	}
	c.b.mu.RUnlock()
	slices.SortFunc(out, func(a, b *topic) int { return cmp.Compare(a.name(), b.name()) })
	return out
}

// dirtyLogs are what compaction has before it.
type dirtyLogs struct {
	ratio   float64
	damaged int
}

func (d *dirtyLogs) look(p *Partition) {
	c := p.log.Compactable(p.hw.Load(), true)
	d.ratio = max(d.ratio, c.Ratio)
	if c.Damaged {
		d.damaged++
	}
}

// lags are the worst of all partitions.
type lags struct {
	commit, follower int64 // records
	underMin         int   // partitions
}

func (l *lags) look(p *Partition) {
	p.water.Lock()
	leads, under := p.lead != nil, false
	if leads {
		m := p.lead.Meta()
		under = len(m.ISR) < m.MinInSync
	}
	p.water.Unlock()
	switch end := p.log.WrittenEnd(); {
	case leads:
		l.commit = max(l.commit, end-p.hw.Load())
	default:
		l.follower = max(l.follower, p.leaderEnd.Load()-end)
	}
	if under {
		l.underMin++
	}
}
