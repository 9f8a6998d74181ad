package main

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// metrics is this broker's registry and what the process itself puts into it;
// the other rooms add theirs.
type metrics struct {
	registry    *prometheus.Registry
	connections prometheus.Gauge
	refused     prometheus.Counter
}

func newMetrics() *metrics {
	m := &metrics{
		registry:    prometheus.NewRegistry(),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{Name: "highwater_connections", Help: "Open client connections."}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: "highwater_connections_refused_total",
			Help: "Connections that were told 503 because --max-connections were open."}),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "highwater_build_info", Help: "Always 1; the label is the version."}, []string{"version"})
	build.WithLabelValues(version).Set(1)
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build, m.connections, m.refused)
	return m
}
