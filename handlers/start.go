package handlers

import (
	"context"
	"math"
)

// startKind says how a reader named the place where it begins.
type startKind uint8

const (
	startEarliest  startKind = iota
	startAt                  // an offset
	startLatest              // the high watermark: only what comes from now on
	startFromEnd             // so many offsets before the high watermark
	startTimestamp           // the first record at or after a time
)

// start is where a reader begins in a partition. n is the offset, the distance
// from the end, or the time in ms.
type start struct {
	kind startKind
	n    int64
}

// offset is the query parameter offset: where a reader begins in a partition.
func (q *params) offset(name string) start {
	text, ok := q.text(name)
	if !ok {
		return start{}
	}
	s, ok := parseOffset(text)
	if !ok {
		q.faultf(name, "%s is neither an offset in plain digits, nor earliest, latest, or a negative number counted from the end.", shown(text))
	}
	return s
}

func parseOffset(text string) (start, bool) {
	switch text {
	case "earliest":
		return start{}, true
	case "latest":
		return start{kind: startLatest}, true
	}
	n, ok := parseInteger(text)
	switch {
	case !ok || text == "-0" || n == math.MinInt64:
		return start{}, false
	case n < 0:
		return start{kind: startFromEnd, n: -n}, true
	}
	return start{kind: startAt, n: n}, true
}

// resolve finds the offset at which the reader begins.
func (a *api) resolve(ctx context.Context, topic string, partition int32, s start) (int64, error) {
	if s.kind == startAt {
		return s.n, nil
	}
	var timestamp *int64
	if s.kind == startTimestamp {
		timestamp = &s.n
	}
	o, err := a.cfg.Broker.Offsets(ctx, topic, partition, timestamp)
	if err != nil {
		return 0, err
	}
	switch {
	case s.kind == startEarliest:
		return o.Beginning, nil
	case s.kind == startFromEnd:
		return max(o.Beginning, o.End-s.n), nil
	case s.kind == startTimestamp && o.TimestampFound:
		return o.ForTimestamp, nil
	}
	return o.End, nil
}
