package load

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"chaos/history"
)

const (
	// maxOpen is the most batches of a lane whose fate isn't known. A producer's last
	// five are recognised, so none of these is beyond recognition.
	maxOpen = 3
	// keptBatches is how many of a lane are sent again: more than are recognised.
	keptBatches = 8
)

// sequencer is an idempotent producer that sends its batches again, in any order.
type sequencer struct {
	*client
	fleet *Fleet
	named bool // it has a transactional id, and takes itself over from time to time
	id    int64
	epoch int
	lanes []*lane
}

// lane is a producer's batches to one partition, in the order of their sequence.
type lane struct {
	topic     *Topic
	partition int
	next      int64
	batches   []*sequenced // the last
}

type sequenced struct {
	base     int64
	messages []*message
}

func (b *sequenced) acked() bool { return b.messages[0].acked }

func (l *lane) open() (open []*sequenced) {
	for _, b := range l.batches {
		if !b.acked() {
			open = append(open, b)
		}
	}
	return open
}

func (q *sequencer) run(ctx context.Context) {
	for !q.begin() {
		if q.pause(ctx, 10*q.fleet.cfg.StormThink); ctx.Err() != nil {
			return
		}
	}
	for ctx.Err() == nil {
		l := q.lanes[q.rnd.IntN(len(q.lanes))]
		switch {
		case q.named && q.rnd.IntN(60) == 0:
			q.takeOver()
		case len(l.open()) < maxOpen && q.rnd.IntN(2) == 0:
			b := q.batch(l)
			q.send(l, b, b)
		case len(l.batches) > 0 && len(l.open()) < maxOpen && q.rnd.IntN(3) == 0: // two on their way at once
			q.send(l, q.batch(l), l.batches[q.rnd.IntN(len(l.batches))])
		case len(l.open()) > 0 && q.rnd.IntN(2) == 0:
			q.send(l, l.open()[0])
		case len(l.batches) > 0:
			q.send(l, l.batches[q.rnd.IntN(len(l.batches))])
		}
		q.pause(ctx, q.fleet.cfg.StormThink)
	}
}

// begin asks for a producer id, or for the next epoch of it.
func (q *sequencer) begin() bool {
	body := `{}`
	if q.named {
		body = fmt.Sprintf(`{"transactional_id":%q}`, "tx-"+q.name)
	}
	a := q.do(q.broker(), "POST", "/producers", "application/json", []byte(body), readWithin)
	var got struct {
		ID    *int64 `json:"producer_id"`
		Epoch *int   `json:"producer_epoch"`
	}
	if a.err != nil || a.status != 200 || json.Unmarshal(a.body, &got) != nil || got.ID == nil || got.Epoch == nil {
		return false
	}
	q.id, q.epoch, q.lanes = *got.ID, *got.Epoch, nil
	for _, t := range q.fleet.cfg.Again {
		if t.Trimmed || t.Compacted {
			continue // how a producer's batch ended can't be told when it is gone
		}
		for p := range t.Partitions {
			q.lanes = append(q.lanes, &lane{topic: t, partition: p})
		}
	}
	return true
}

// takeOver begins a new epoch when nothing is open, and has the former one, which
// is fenced where the new one has written, try once more.
func (q *sequencer) takeOver() {
	for _, l := range q.lanes {
		if len(l.open()) > 0 {
			return
		}
	}
	was := *q
	if !q.begin() {
		// It may have begun without our knowing: the epoch that we have is fenced then.
		return
	}
	epoch := q.epoch
	for _, l := range q.lanes {
		b := q.batch(l)
		if q.send(l, b); q.epoch != epoch {
			return // fenced meanwhile: the lanes are others
		}
		if !b.acked() {
			continue
		}
		at := slices.IndexFunc(was.lanes, func(o *lane) bool { return o.topic == l.topic && o.partition == l.partition })
		old := was.lanes[at]
		zombie := was.plan(old, q.batchOf(old))
		zombie.refused = make([]bool, len(zombie.messages))
		for i := range zombie.refused {
			zombie.refused[i] = true
		}
		q.attempt(zombie)
	}
}

// batch adds a batch to a lane.
func (q *sequencer) batch(l *lane) *sequenced {
	b := q.batchOf(l)
	if l.batches = append(l.batches, b); len(l.batches) > keptBatches && l.batches[0].acked() {
		l.batches = l.batches[1:]
	}
	return b
}

func (q *sequencer) batchOf(l *lane) *sequenced {
	b := &sequenced{base: l.next}
	for range 1 + q.rnd.IntN(maxAgain) {
		name := q.value()
		b.messages = append(b.messages, &message{id: name, name: name, pin: l.partition, chosen: true})
	}
	l.next += int64(len(b.messages))
	return b
}

func (q *sequencer) plan(l *lane, b *sequenced) *plan {
	p := &plan{topic: l.topic, broker: q.broker(), acks: -1, form: history.FormProducer, messages: b.messages,
		timeout:  time.Duration(minTimeoutMs+q.rnd.IntN(maxTimeoutMs-minTimeoutMs)) * time.Millisecond,
		producer: &history.Producer{ID: q.id, Epoch: q.epoch, Sequence: b.base}}
	if q.rnd.IntN(12) == 0 {
		p.patience = time.Duration(1+q.rnd.IntN(200)) * time.Millisecond
	}
	return p
}

// send sends these batches at once; one that is named twice, twice.
func (q *sequencer) send(l *lane, batches ...*sequenced) {
	if len(batches) == 2 && batches[0] == batches[1] && q.rnd.IntN(3) > 0 {
		batches = batches[:1]
	}
	var plans []*plan
	for _, b := range batches {
		plans = append(plans, q.plan(l, b))
	}
	for i, a := range q.attempts(plans) {
		learn(plans[i], a)
		if a.Code == 40303 { // begun anew without our knowing: what is open stays open
			q.fenced()
			return
		}
	}
}

// fenced gives up on the epoch and begins another.
func (q *sequencer) fenced() {
	for range 20 {
		if q.begin() {
			return
		}
		time.Sleep(q.fleet.cfg.StormThink)
	}
}
