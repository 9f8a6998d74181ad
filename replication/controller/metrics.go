package controller

import (
	"sync/atomic"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
)

// counters are what the metrics count. They start with the process.
type counters struct {
	terms            atomic.Int64 // leaderships of the quorum that this member took up
	fencings         atomic.Int64 // brokers that it fenced as the leader
	heartbeats       atomic.Int64 // heartbeats that a leader answered
	failedHeartbeats atomic.Int64 // those that none did
	restarts         atomic.Int64 // of raft, over a log that had parted (F70)
}

// collector shows the quorum as this member sees it.
type collector struct {
	c                                                       *Controller
	leads, term, members, lag, brokers, session             *prometheus.Desc
	terms, fencings, heartbeats, failedHeartbeats, restarts *prometheus.Desc
}

// Collector makes the metrics of the quorum; register it once.
func (c *Controller) Collector() prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("highwater_"+name, help, labels, nil)
	}
	return &collector{c: c,
		leads:            desc("quorum_leader", "1 if this broker leads the metadata quorum."),
		term:             desc("quorum_term", "Raft's term: it grows with every election."),
		members:          desc("quorum_members", "Members of the quorum, with and without a vote.", "vote"),
		lag:              desc("metadata_lag", "Entries that the newest answered heartbeat told of and that are not applied here yet."),
		brokers:          desc("brokers", "Registered brokers by state, as this broker knows.", "state"),
		session:          desc("session_valid", "1 as long as this broker can't have been fenced without its knowledge."),
		terms:            desc("quorum_leaderships_total", "Leaderships of the quorum that this broker took up."),
		fencings:         desc("broker_fencings_total", "Brokers that this broker fenced, as the quorum's leader."),
		heartbeats:       desc("heartbeats_total", "Heartbeats of this broker that the quorum's leader answered."),
		failedHeartbeats: desc("heartbeats_failed_total", "Heartbeats of this broker that nobody answered in time."),
		restarts:         desc("quorum_log_resets_total", "Times that this member's metadata log had parted from the quorum's and was given up."),
	}
}

// Describe is prometheus.Collector's.
func (m *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.leads, m.term, m.members, m.lag, m.brokers, m.session, m.terms, m.fencings, m.heartbeats, m.failedHeartbeats, m.restarts} {
		out <- d
	}
}

// Collect is prometheus.Collector's.
func (m *collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	flag := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	c := m.c
	s := c.State()
	gauge(m.leads, flag(c.leading() != nil))
	gauge(m.lag, float64(max(c.lag.Load().newest, s.Index)-s.Index))
	gauge(m.session, flag(c.SessionValid()))
	if member := c.member.Load(); member != nil {
		gauge(m.term, float64(member.raft.CurrentTerm()))
		votes := map[string]float64{"yes": 0, "no": 0}
		for _, server := range servers(member.raft) {
			if server.Suffrage == raft.Voter {
				votes["yes"]++
			} else {
				votes["no"]++
			}
		}
		for vote, n := range votes {
			gauge(m.members, n, vote)
		}
	}
	states := map[string]float64{"active": 0, "fenced": 0, "draining": 0}
	for _, b := range s.Brokers {
		switch {
		case b.Fenced:
			states["fenced"]++
		case b.Draining:
			states["draining"]++
		default:
			states["active"]++
		}
	}
	for state, n := range states {
		gauge(m.brokers, n, state)
	}
	for d, v := range map[*prometheus.Desc]*atomic.Int64{m.terms: &c.counted.terms, m.fencings: &c.counted.fencings, m.heartbeats: &c.counted.heartbeats,
		m.failedHeartbeats: &c.counted.failedHeartbeats, m.restarts: &c.counted.restarts} {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v.Load()))
	}
}
