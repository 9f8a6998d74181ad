package main

import "time"

// options are the sizes of a run.
type options struct {
	quick         bool
	rounds        int
	warm, measure time.Duration
	logBytes      int64 // P11
	pageLogBytes  int64 // P9: size of the log whose pages are fetched
	waiters       int   // P12
	appends       int   // P12: appends in a round
	partitions    int   // P13
	partitionSize int   // P13: value bytes in each partition's segment
	rate          int   // open loop, requests/s
	catchUps      int   // P14: outages
	catchUpBytes  int64 // P14: what a follower misses in each
	// P15, P16: partitions that each of three brokers leads
	failoverPartitions int
	ids                int // P18-P20: ids in the window
	only               string
	dir                string
	brokerBin          string
	out                string
}

// fullRun is what `make bench` does.
func fullRun() options {
	return options{rounds: 5, warm: 500 * time.Millisecond, measure: 3 * time.Second,
		logBytes: 2 << 30, pageLogBytes: 256 << 20, waiters: 10_000, appends: 200,
		partitions: 10_000, partitionSize: 32 << 10, rate: 2000,
		catchUps: 3, catchUpBytes: 256 << 20, failoverPartitions: 1000, ids: 1_000_000,
		dir: ".cache/bench", out: "docs/PERFORMANCE.md"}
}

// quickRun is what `make bench-quick` does: small enough for CI, too small to
// say anything about speed.
func quickRun() options {
	o := fullRun()
	o.rounds, o.warm, o.measure = 1, 50*time.Millisecond, 250*time.Millisecond
	o.logBytes, o.pageLogBytes = 16<<20, 8<<20
	o.waiters, o.appends = 200, 20
	o.partitions, o.partitionSize = 200, 16<<10
	o.rate = 200
	o.catchUps, o.catchUpBytes, o.failoverPartitions = 1, 8<<20, 20
	o.ids = 20_000
	return o
}
