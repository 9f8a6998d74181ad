package main

import (
	"net/http"
	"time"
)

const (
	connections      = 16 // in all targets, unless said
	groupConnections = 64 // P4
	batchRecords     = 100

	provedNothing = "nothing stored"
	provedWritten = "written to the log (page cache); fsync follows in the background"
	provedFsynced = "fsynced"
	provedRaw     = "4 KiB appended and fdatasynced"
)

// measureBatches fills P1 and P3: batches of 100 at acks=1 and acks=-1 against
// the broker's own parser alone.
func (b *bench) measureBatches() error {
	if _, err := b.createTopic("batches", 1); err != nil {
		return err
	}
	s, err := b.interleave(
		b.httpSide("parse-only, batches of 100", provedNothing, b.reference, connections, batchRecords, produceRequests("/parse", batchRecords)),
		b.produceSide("acks=1, batches of 100", provedWritten, connections, batchRecords, produceRequests("/topics/batches?acks=1", batchRecords)),
		b.produceSide("acks=-1, batches of 100", provedFsynced, connections, batchRecords, produceRequests("/topics/batches?acks=-1", batchRecords)))
	if err != nil {
		return err
	}
	parse := each(s[0], (*sample).perSecond)
	b.report.add(row{id: "P1", work: "acks=1, batches of 100: records/s against parse-only", target: 0.70, stretch: 0.85, unit: percent, atLeast: true,
		rounds: perRound(each(s[1], (*sample).perSecond), parse)})
	b.report.add(row{id: "P3", work: "acks=-1 (fsync before the answer), batches of 100: records/s against parse-only", target: 0.45, stretch: 0.55, unit: percent, atLeast: true,
		rounds: perRound(each(s[2], (*sample).perSecond), parse)})
	return nil
}

// measureSingles fills P2: one record a request at acks=1 against a handler that
// throws the body away.
func (b *bench) measureSingles() error {
	if _, err := b.createTopic("singles", 1); err != nil {
		return err
	}
	s, err := b.interleave(
		b.httpSide("no-op, one record", provedNothing, b.reference, connections, 1, produceRequests("/noop", 1)),
		b.produceSide("acks=1, one record", provedWritten, connections, 1, produceRequests("/topics/singles?acks=1", 1)),
		b.produceSide("acks=1, one record, body is the value", provedWritten, connections, 1, bareRequests("/topics/singles/records?acks=1&key=user-17")))
	if err != nil {
		return err
	}
	noop := each(s[0], (*sample).perSecond)
	b.report.add(row{id: "P2", work: "acks=1, one record a request: requests/s against no-op", target: 0.65, stretch: 0.75, unit: percent, atLeast: true,
		rounds: perRound(each(s[1], (*sample).perSecond), noop)})
	b.report.add(row{id: "P2", work: "the same to `/records`, where the body is the value", target: 0.65, stretch: 0.75, unit: percent, atLeast: true,
		rounds: perRound(each(s[2], (*sample).perSecond), noop)})
	return nil
}

// measureGroupCommit fills P4: many connections share an fsync.
func (b *bench) measureGroupCommit() error {
	if _, err := b.createTopic("group", 1); err != nil {
		return err
	}
	s, err := b.interleave(b.rawSide(),
		b.produceSide("acks=-1, one record, 64 connections", provedFsynced, groupConnections, 1, produceRequests("/topics/group?acks=-1", 1)))
	if err != nil {
		return err
	}
	b.report.add(row{id: "P4", work: "acks=-1, one record, 64 connections: requests/s against raw 4 KiB write+fdatasync", target: 4.5, stretch: 6, unit: times, atLeast: true,
		rounds: perRound(each(s[1], (*sample).perSecond), each(s[0], (*sample).perSecond))})
	return nil
}

// measureOneConnection fills P5: what a lone producer waits for.
func (b *bench) measureOneConnection() error {
	if _, err := b.createTopic("lone", 1); err != nil {
		return err
	}
	s, err := b.interleave(b.rawSide(),
		b.produceSide("acks=-1, one record, one connection", provedFsynced, 1, 1, produceRequests("/topics/lone?acks=-1", 1)))
	if err != nil {
		return err
	}
	b.report.add(row{id: "P5", work: "acks=-1, one connection: p50 against one raw write+fdatasync", target: 2, stretch: 1.5, unit: times,
		rounds: perRound(each(s[1], medianLatency), each(s[0], medianLatency))})
	return nil
}

func (b *bench) rawSide() side {
	return side{"raw 4 KiB write+fdatasync", provedRaw, 1, func() (sample, error) { return rawSync(b.dir, b.warm, b.measure) }}
}

// measureOpenLoop tells latency at a fixed rate, which closed loops hide.
func (b *bench) measureOpenLoop() error {
	if _, err := b.createTopic("open", 1); err != nil {
		return err
	}
	for _, kind := range []struct{ name, durability, target string }{
		{"acks=1, one record", provedWritten, "/topics/open?acks=1"},
		{"acks=-1, one record", provedFsynced, "/topics/open?acks=-1"},
	} {
		l := load{addr: b.broker.addr, conns: groupConnections, request: produceRequests(kind.target, 1), status: http.StatusOK,
			warm: b.warm, measure: time.Duration(b.rounds) * b.measure / 2, pids: []int{b.broker.pid()}}
		if err := settle(b.dir); err != nil {
			return err
		}
		s, err := l.openLoop(b.rate)
		if err != nil {
			return err
		}
		b.report.addOpen(kind.name, kind.durability, b.rate, s)
	}
	return nil
}
