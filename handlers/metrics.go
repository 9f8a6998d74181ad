package handlers

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics of the HTTP room. Labels come from closed sets: patterns of the
// routing table, known methods, statuses that this code writes (H58).
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	sent     *prometheus.CounterVec
	received prometheus.Counter
	inFlight prometheus.Gauge
	produced prometheus.Counter
}

func newMetrics(reg *prometheus.Registry) *metrics {
	m := &metrics{
		registry: reg,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "highwater_http_requests_total",
			Help: "Requests answered, by route pattern, method and status."}, []string{"route", "method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "highwater_http_request_duration_seconds",
			Help:    "Time from the request's header to the end of its answer; long-polls and tails include their waiting.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}}, []string{"route", "method"}),
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "highwater_http_response_bytes_total",
			Help: "Bytes of answer bodies."}, []string{"route"}),
		received: prometheus.NewCounter(prometheus.CounterOpts{Name: "highwater_http_request_body_bytes_total",
			Help: "Bytes of request bodies after decompression."}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "highwater_http_requests_in_flight",
			Help: "Requests being answered now, tails and long-polls included."}),
		produced: prometheus.NewCounter(prometheus.CounterOpts{Name: "highwater_produced_records_total",
			Help: "Records that a produce request was answered with success for."}),
	}
	reg.MustRegister(m.requests, m.seconds, m.sent, m.received, m.inFlight, m.produced)
	return m
}

// watch exposes the api's own counters.
func (m *metrics) watch(a *api) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "highwater_http_waiters",
			Help: "Long-polls and tails that wait now."}, func() float64 { return float64(a.waiters.used.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "highwater_http_request_bodies_bytes",
			Help: "Memory held by request bodies now."}, func() float64 { return float64(a.bodies.used.Load()) }),
	)
}

func (m *metrics) observe(route, method string, status int, bytes int64, took time.Duration) {
	method = knownMethod(method)
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route, method).Observe(took.Seconds())
	if bytes > 0 {
		m.sent.WithLabelValues(route).Add(float64(bytes))
	}
}

// knownMethod keeps a client from inventing label values.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

// getMetrics answers GET /metrics in Prometheus' text format.
//
//	@ID				getMetrics
//	@Summary		Metrics
//	@Description	Of this broker, in the text format of Prometheus.
//	@Tags			operations
//	@Success		200	{string}	string	"The metrics."
//	@x-media-200	{"text/plain":"text","application/openmetrics-text":"text"}
//	@Router			/metrics [get]
func (a *api) getMetrics(w http.ResponseWriter, r *http.Request) error {
	promhttp.HandlerFor(a.metrics.registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	return nil
}
