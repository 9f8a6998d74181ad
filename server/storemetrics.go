package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"highwater/storage"
)

// storeMetrics are the data directory's figures. The histograms are fed by the
// store, the rest is read when Prometheus asks.
type storeMetrics struct {
	fsync, indexWrite                   prometheus.Histogram
	store                               *storage.Store
	bytes, free, nearlyFull, cleanStart *prometheus.Desc
	scrubbed, damaged                   *prometheus.Desc
}

func newStoreMetrics() *storeMetrics {
	// From 100 µs, a fast disk, to 26 s.
	buckets := prometheus.ExponentialBuckets(0.0001, 2, 19)
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "highwater_storage_" + name, Help: help, Buckets: buckets})
	}
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("highwater_storage_"+name, help, nil, nil)
	}
	return &storeMetrics{
		fsync:      histogram("fsync_seconds", "Time of an fsync of a segment."),
		indexWrite: histogram("index_write_seconds", "Time of a transaction of the index."),
		bytes:      desc("log_bytes", "Size of all segments."),
		free:       desc("free_bytes", "What produce may still write: free disk space without the ballast."),
		nearlyFull: desc("disk_nearly_full", "1 while produce is refused because less than --disk-reserve is free."),
		cleanStart: desc("clean_start", "1 if the run before this one closed cleanly."),
		scrubbed:   desc("scrubbed_bytes_total", "Bytes of closed segments that were read again to find damage."),
		damaged:    desc("damaged_ranges", "Ranges of offsets that are damaged and not mended yet."),
	}
}

// observe has opts' store tell the histograms.
func (m *storeMetrics) observe(opts *storage.Options) {
	opts.OnFsync = func(d time.Duration) { m.fsync.Observe(d.Seconds()) }
	opts.OnIndexWrite = func(d time.Duration) { m.indexWrite.Observe(d.Seconds()) }
}

func (m *storeMetrics) Describe(ch chan<- *prometheus.Desc) {
	m.fsync.Describe(ch)
	m.indexWrite.Describe(ch)
	for _, d := range []*prometheus.Desc{m.bytes, m.free, m.nearlyFull, m.cleanStart, m.scrubbed, m.damaged} {
		ch <- d
	}
}

func (m *storeMetrics) Collect(ch chan<- prometheus.Metric) {
	m.fsync.Collect(ch)
	m.indexWrite.Collect(ch)
	gauge := func(d *prometheus.Desc, v float64) { ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	flag := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	st := m.store.Stats()
	gauge(m.bytes, float64(st.LogBytes))
	gauge(m.free, float64(st.FreeBytes))
	gauge(m.nearlyFull, flag(st.DiskNearlyFull))
	gauge(m.cleanStart, flag(m.store.CleanStart()))
	gauge(m.damaged, float64(st.DamagedRanges))
	ch <- prometheus.MustNewConstMetric(m.scrubbed, prometheus.CounterValue, float64(st.ScrubbedBytes))
}
