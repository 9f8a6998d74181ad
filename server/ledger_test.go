package main

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
)

// outcome is what the producer of a record knows about it.
type outcome int

const (
	unknown    outcome = iota // sent, and no answer or an uncertain one
	acked                     // answered with success and an offset
	notWritten                // the answer vouches that it isn't there, or it was never sent
	unanswered                // the connection broke before an answer, after it was sent
)

// entry is one record that was sent.
type entry struct {
	writer    int
	seq       int64 // grows with each record of the writer
	topic     string
	partition int
	value     string
	outcome   outcome
	offset    int64 // when acked
	found     int64 // where a reader saw it; -1: not yet
}

// ledger is what all producers of a test know, over every life of the broker.
type ledger struct {
	mu      sync.Mutex // guards entries
	entries map[string]*entry
	// unordered: a request whose answer was lost may be written behind later ones
	// of its writer, so that only acknowledged records must be in order.
	unordered bool
}

func newLedger() *ledger { return &ledger{entries: map[string]*entry{}} }

// book notes records before they are sent. Values must be unique.
func (l *ledger) book(entries []*entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries {
		e.found = -1
		if l.entries[e.value] != nil {
			panic("ledger: value sent twice: " + e.value)
		}
		l.entries[e.value] = e
	}
}

// produceAnswer is what the ledger reads of a produce answer.
type produceAnswer struct {
	Offsets []struct {
		Partition int    `json:"partition"`
		Offset    int64  `json:"offset"`
		ErrorCode *int   `json:"error_code"`
		Outcome   string `json:"outcome"`
	} `json:"offsets"`
	Outcome string `json:"outcome"` // of a problem body
}

// settle notes what the answer says about the records of one request.
func (l *ledger) settle(entries []*entry, status int, body []byte, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := func(o outcome) {
		for _, e := range entries {
			e.outcome = o
		}
	}
	if err != nil {
		all(unanswered)
		if neverSent(err) {
			all(notWritten)
		}
		return nil
	}
	var answer produceAnswer
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("status %d with a body that is no JSON: %w: %q", status, err, body)
	}
	switch {
	case status == 202: // acks=0 proves nothing
		return nil
	case status == 200 || status == 207:
		if len(answer.Offsets) != len(entries) {
			return fmt.Errorf("%d results for %d records: %s", len(answer.Offsets), len(entries), body)
		}
		for i, o := range answer.Offsets {
			switch {
			case o.ErrorCode == nil && o.Partition == entries[i].partition && o.Offset >= 0:
				entries[i].outcome, entries[i].offset = acked, o.Offset
			case o.ErrorCode != nil && o.Outcome == "not_written":
				entries[i].outcome = notWritten
			case o.ErrorCode == nil:
				return fmt.Errorf("record for partition %d is answered with %+v", entries[i].partition, o)
			}
		}
		return nil
	case answer.Outcome == "not_written":
		all(notWritten)
		return nil
	case answer.Outcome == "unknown":
		return nil
	default:
		return fmt.Errorf("status %d: %s", status, body)
	}
}

// see checks one stored record against what its producer knows. last holds the
// newest sequence number of each writer in the partition.
func (l *ledger) see(t *testing.T, topic string, r *stored, last map[int]int64) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[string(r.Value)]
	where := fmt.Sprintf("%s-%d at %d", topic, r.Partition, r.Offset)
	switch {
	case e == nil:
		t.Errorf("%s: nobody sent %s", where, r.Value)
		return
	case e.topic != topic || e.partition != r.Partition:
		t.Errorf("%s: %s was sent to %s-%d", where, r.Value, e.topic, e.partition)
	case e.found >= 0 && e.found != r.Offset:
		t.Errorf("%s: %s stands at %d too", where, r.Value, e.found)
	case e.outcome == notWritten:
		t.Errorf("%s: %s was answered as not written", where, r.Value)
	case e.outcome == acked && e.offset != r.Offset:
		t.Errorf("%s: %s was answered with offset %d", where, r.Value, e.offset)
	case l.unordered && e.outcome != acked:
		e.found = r.Offset
		return
	case e.seq <= last[e.writer]:
		t.Errorf("%s: writer %d's record %d stands behind its record %d", where, e.writer, e.seq, last[e.writer])
	}
	last[e.writer] = e.seq
	e.found = r.Offset
}

// missing reports every acknowledged record that no reader saw.
func (l *ledger) missing(t *testing.T) (ackedTotal int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := 0
	for _, e := range l.entries {
		if e.outcome != acked {
			continue
		}
		ackedTotal++
		if e.found < 0 {
			lost++
			if lost <= 10 {
				t.Errorf("lost: %s-%d at %d: %s", e.topic, e.partition, e.offset, e.value)
			}
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d acknowledged records are lost", lost, ackedTotal)
	}
	return ackedTotal
}

// unansweredButStored are records of requests that a broker took and never answered.
func (l *ledger) unansweredButStored() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e.outcome == unanswered && e.found >= 0 {
			n++
		}
	}
	return n
}
