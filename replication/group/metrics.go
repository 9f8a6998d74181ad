package group

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of this room. Their labels are bounded: kinds of calls, and outcomes.
type metrics struct {
	g           *Groups
	calls       *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	loads       prometheus.Histogram
	generations prometheus.Counter
	expired     prometheus.Counter
	commits     prometheus.Counter
	groups      *prometheus.Desc
	members     *prometheus.Desc
	polls       *prometheus.Desc
}

func newMetrics(g *Groups) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &metrics{g: g,
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "highwater_group_calls_total",
			Help: "Calls to coordinators of consumer groups that clients of this broker caused, by kind and outcome."}, []string{"call", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "highwater_group_call_duration_seconds",
			Help:    "Time until a group's coordinator had answered, waiting for something to own included.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}}, []string{"call"}),
		loads: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "highwater_group_load_duration_seconds",
			Help: "Time to load a partition of __consumer_offsets.", Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60}}),
		generations: counter("highwater_group_generations_total", "New generations of groups that this broker coordinates."),
		expired:     counter("highwater_group_members_expired_total", "Members that were silent too long."),
		commits:     counter("highwater_group_commits_total", "Offsets committed, partition by partition."),
		groups:      prometheus.NewDesc("highwater_groups", "Groups that this broker coordinates.", nil, nil),
		members:     prometheus.NewDesc("highwater_group_members", "Members of the groups that this broker coordinates.", nil, nil),
		polls:       prometheus.NewDesc("highwater_group_polls", "Polls under way of clients of this broker.", nil, nil),
	}
}

// Collector is this room's metrics.
func (g *Groups) Collector() prometheus.Collector { return g.metrics }

// Describe is prometheus.Collector's.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(ch)
	}
	ch <- m.groups
	ch <- m.members
	ch <- m.polls
}

// Collect is prometheus.Collector's.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(ch)
	}
	groups, members := m.g.count()
	ch <- prometheus.MustNewConstMetric(m.groups, prometheus.GaugeValue, float64(groups))
	ch <- prometheus.MustNewConstMetric(m.members, prometheus.GaugeValue, float64(members))
	ch <- prometheus.MustNewConstMetric(m.polls, prometheus.GaugeValue, float64(m.g.polls.count()))
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.calls, m.seconds, m.loads, m.generations, m.expired, m.commits}
}

// called counts a call.
func (m *metrics) called(call *Call, err error, took time.Duration) {
	m.calls.WithLabelValues(call.kind(), outcome(err)).Inc()
	m.seconds.WithLabelValues(call.kind()).Observe(took.Seconds())
}

func outcome(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, ErrNoCoordinator):
		return "no_coordinator"
	case errors.Is(err, ErrUnknownOutcome):
		return "unknown"
	}
	return "refused"
}

// kind names what a call asks.
func (c *Call) kind() string {
	switch {
	case c.Create != nil:
		return "create"
	case c.Leave != nil:
		return "leave"
	case c.Subscribe != nil:
		return "subscribe"
	case c.Assign != nil:
		return "assign"
	case c.Member != nil:
		return "member"
	case c.Begin != nil:
		return "begin"
	case c.Deliver != nil:
		return "deliver"
	case c.End != nil:
		return "end"
	case c.Commit != nil:
		return "commit"
	case c.Committed != nil:
		return "committed"
	case c.Seek != nil:
		return "seek"
	case c.Describe != nil:
		return "describe"
	case c.Reset != nil:
		return "reset"
	case c.DeleteGroup != nil:
		return "delete"
	}
	return "none"
}

// count counts groups and members that are coordinated here.
func (g *Groups) count() (groups, members int) {
	g.mu.Lock()
	shards := g.served()
	g.mu.Unlock()
	for _, s := range shards {
		s.mu.Lock()
		all := s.listings()
		s.mu.Unlock()
		groups += len(all)
		for i := range all {
			members += all[i].Members
		}
	}
	return groups, members
}

func (p *polls) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.all)
}
