package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"chaos/history"
)

// Times that a request gives the broker, in ms.
const (
	minTimeoutMs = 1500
	maxTimeoutMs = 5000
)

// maxBatch is the most records in a request.
const maxBatch = 8

// producer sends one request after the other until ctx ends, all of them at the
// same acks.
func (f *Fleet) producer(ctx context.Context, c *client, acks int) {
	for ctx.Err() == nil {
		t := f.cfg.Topics[c.rnd.IntN(len(f.cfg.Topics))]
		ops := c.produce(c.broker(), t, acks)
		op := ops[0]
		switch {
		case op.Outcome == history.OK && acks == -1 && c.rnd.IntN(4) == 0:
			// Read what was just acknowledged, through any broker, without waiting.
			c.fetch(c.broker(), op.Partition, t.Name, op.Offsets[0], 0, 1+c.rnd.IntN(4))
		case op.Outcome == history.OK:
			c.pause(ctx, f.cfg.Think)
		default:
			c.pause(ctx, 10*f.cfg.Think) // refused: the broker asked for a pause
		}
	}
}

// produce sends one request in one of the forms there are, and takes it down as
// one operation for each partition.
func (c *client) produce(broker int, t *Topic, acks int) []*history.Op {
	form := c.rnd.IntN(4)
	spread := form == 3 && t.Partitions > 1
	one := c.rnd.IntN(t.Partitions)
	count := 1
	if form != 0 {
		count += c.rnd.IntN(maxBatch)
	}
	var ops []*history.Op
	partitions := make([]int, count)
	place := make([]int, count) // in the values of its operation
	names := make([]string, count)
	for i := range count {
		if partitions[i] = one; spread {
			partitions[i] = c.rnd.IntN(t.Partitions)
		}
		names[i] = c.value()
		at := slices.IndexFunc(ops, func(op *history.Op) bool { return op.Partition.Index == partitions[i] })
		if at < 0 {
			at = len(ops)
			ops = append(ops, c.begin(history.Produce, broker, history.Partition{Topic: t.ID, Index: partitions[i]}))
			ops[at].Acks = acks
		}
		place[i] = len(ops[at].Values)
		ops[at].Values = append(ops[at].Values, names[i])
	}
	timeout := minTimeoutMs + c.rnd.IntN(maxTimeoutMs-minTimeoutMs)
	path, contentType, body := request(form, t, names, partitions)
	path += fmt.Sprintf("acks=%d&timeout_ms=%d", acks, timeout)
	a := c.do(broker, "POST", path, contentType, body, time.Duration(timeout)*time.Millisecond)
	now := c.rec.Now()
	for _, op := range ops {
		op.Return = now
	}
	settle(ops, names, partitions, &a)
	for _, op := range ops {
		c.note(op, &a)
		c.rec.Op(op)
	}
	return ops
}

// request is the bytes of a produce.
func request(form int, t *Topic, names []string, partitions []int) (path, contentType string, body []byte) {
	switch form {
	case 0: // the body is the value
		return fmt.Sprintf("/topics/%s/partitions/%d/records?", t.Name, partitions[0]), "application/json", Value(names[0])
	case 1:
		var b bytes.Buffer
		for _, n := range names {
			fmt.Fprintf(&b, "{\"value\":%s}\n", Value(n))
		}
		return fmt.Sprintf("/topics/%s/partitions/%d?response=full&", t.Name, partitions[0]), "application/x-ndjson", b.Bytes()
	default:
		b := bytes.NewBufferString(`{"records":[`)
		for i, n := range names {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(b, `{"key":"k%d","value":%s,"partition":%d}`, i, Value(n), partitions[i])
		}
		b.WriteString(`]}`)
		return fmt.Sprintf("/topics/%s?", t.Name), "application/json", b.Bytes()
	}
}

// produceAnswer is what the producers read of an answer.
type produceAnswer struct {
	Offsets []struct {
		Partition int    `json:"partition"`
		Offset    int64  `json:"offset"`
		Code      *int   `json:"error_code"`
		Outcome   string `json:"outcome"`
	} `json:"offsets"`
}

// settle notes what the answer says of each partition's records.
func settle(ops []*history.Op, names []string, partitions []int, a *answer) {
	all := func(o history.Outcome) {
		for _, op := range ops {
			op.Outcome = o
		}
	}
	all(history.Unknown)
	switch {
	case neverSent(a.err):
		all(history.NotWritten)
	case a.err != nil:
	case a.status == 202:
		all(history.OK)
	case a.status == 200 || a.status == 207:
		settleEach(ops, names, partitions, a)
	case a.problem().Outcome == string(history.NotWritten):
		all(history.NotWritten)
	case a.status < 500:
		all(history.NotWritten) // a client's mistake is found before anything is written
	}
}

func settleEach(ops []*history.Op, names []string, partitions []int, a *answer) {
	var got produceAnswer
	if err := json.Unmarshal(a.body, &got); err != nil || len(got.Offsets) != len(names) {
		a.err = fmt.Errorf("%d results for %d records (%w): %.300s", len(got.Offsets), len(names), err, a.body)
		return
	}
	for _, op := range ops {
		op.Outcome = history.OK
	}
	for i, o := range got.Offsets {
		op := ops[slices.IndexFunc(ops, func(op *history.Op) bool { return op.Partition.Index == partitions[i] })]
		switch {
		case o.Code == nil && o.Partition == partitions[i]:
			op.Offsets = append(op.Offsets, o.Offset)
		case o.Code != nil && o.Outcome == string(history.NotWritten):
			op.Outcome, op.Code = history.NotWritten, *o.Code
		default:
			op.Outcome = history.Unknown
			if o.Code != nil {
				op.Code = *o.Code
			}
		}
	}
	for _, op := range ops {
		if op.Outcome != history.OK {
			op.Offsets = nil
		}
	}
}
