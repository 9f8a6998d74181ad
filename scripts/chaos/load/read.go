package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"chaos/history"
)

// consumed is a record as a fetch in lines shows it.
type consumed struct {
	Offset   *int64          `json:"offset"`
	Value    json.RawMessage `json:"value"`
	Encoding string          `json:"value_encoding"`
}

// parseLine reads one line. Records whose value isn't what was sent have a name
// that nobody sent.
func parseLine(line []byte) (history.Record, error) {
	var r consumed
	if err := json.Unmarshal(line, &r); err != nil {
		return history.Record{}, fmt.Errorf("%w: %.200s", err, line)
	}
	if r.Offset == nil {
		return history.Record{}, fmt.Errorf("no record: %.200s", line) // such as the problem that ends a stream
	}
	return history.Record{Offset: *r.Offset, Value: Name(r.value())}, nil
}

// value is its bytes.
func (r *consumed) value() []byte {
	if r.Encoding == "" {
		return r.Value
	}
	var text string
	_ = json.Unmarshal(r.Value, &text)
	if r.Encoding != "base64" {
		return []byte(text)
	}
	value, _ := base64.StdEncoding.DecodeString(text)
	return value
}

// fetch reads once, and takes it down.
func (c *client) fetch(broker int, p history.Partition, topic string, from int64, wait time.Duration, count int) *history.Op {
	op := c.begin(history.Fetch, broker, p)
	op.From, op.Outcome = from, history.Failed
	path := fmt.Sprintf("/topics/%s/partitions/%d/records?offset=%d&count=%d&timeout=%d", topic, p.Index, from, count, wait.Milliseconds())
	a := c.do(broker, "GET", path, "", nil, wait+readWithin, "Accept", "application/x-ndjson")
	op.Return = c.rec.Now()
	switch {
	case a.err != nil:
	case a.status == http.StatusOK:
		op.Outcome = history.OK
		for line := range bytes.Lines(a.body) {
			r, err := parseLine(line)
			if err != nil {
				a.err = err
				op.Outcome = history.Failed
				break
			}
			op.Records = append(op.Records, r)
		}
	case a.status == http.StatusRequestedRangeNotSatisfiable:
		// The broker states where the log ends, and that what was asked for is beyond it.
		if high := a.problem().High; high != nil {
			op.Outcome, op.High = history.OK, *high
		}
	case a.status == http.StatusGone:
		if start := a.problem().Start; start != nil {
			op.Start = *start
		}
	}
	if n, ok := a.number("Highwater-High-Watermark"); ok {
		op.High = n
	}
	if n, ok := a.number("Highwater-Log-Start-Offset"); ok {
		op.Start = n
	}
	op.Stale = a.header.Get("Highwater-Stale") != ""
	c.note(op, &a)
	c.rec.Op(op)
	return op
}

// readWithin is how long a read without a timeout of its own waits for a leader
// at most.
const readWithin = 10 * time.Second

// ends asks for a partition's offsets, and takes it down.
func (c *client) ends(broker int, p history.Partition, topic string) *history.Op {
	op := c.begin(history.End, broker, p)
	op.Outcome = history.Failed
	a := c.do(broker, "GET", fmt.Sprintf("/topics/%s/partitions/%d/offsets", topic, p.Index), "", nil, readWithin)
	var got struct {
		Start *int64 `json:"beginning_offset"`
		End   *int64 `json:"end_offset"`
	}
	if a.err == nil && a.status == http.StatusOK {
		if err := json.Unmarshal(a.body, &got); err != nil || got.Start == nil || got.End == nil {
			a.err = fmt.Errorf("offsets: %w: %.200s", err, a.body)
		} else {
			op.Outcome, op.Start, op.High = history.OK, *got.Start, *got.End
		}
	}
	op.Stale = a.header.Get("Highwater-Stale") != ""
	c.end(op, &a)
	return op
}

// consumer reads one partition from its start on, through any broker, and begins
// again from time to time.
func (f *Fleet) consumer(ctx context.Context, c *client) {
	for ctx.Err() == nil {
		t := f.cfg.Topics[c.rnd.IntN(len(f.cfg.Topics))]
		p := history.Partition{Topic: t.ID, Index: c.rnd.IntN(t.Partitions)}
		next := int64(0)
		if op := c.ends(c.broker(), p, t.Name); op.Outcome == history.OK && op.High > 0 {
			next = op.Start + c.rnd.Int64N(op.High-op.Start+1)
		}
		for range 5 + c.rnd.IntN(40) {
			if ctx.Err() != nil {
				return
			}
			op := c.fetch(c.broker(), p, t.Name, next, time.Duration(c.rnd.IntN(400))*time.Millisecond, 1+c.rnd.IntN(50))
			switch {
			case op.Status == http.StatusGone:
				next = max(op.Start, next)
			case op.Outcome == history.OK && len(op.Records) > 0:
				next = op.Records[len(op.Records)-1].Offset + 1
			case op.Outcome != history.OK:
				c.pause(ctx, 10*f.cfg.Think)
			}
			c.pause(ctx, f.cfg.Think)
		}
	}
}

// watcher asks for offsets.
func (f *Fleet) watcher(ctx context.Context, c *client) {
	for ctx.Err() == nil {
		t := f.cfg.Topics[c.rnd.IntN(len(f.cfg.Topics))]
		op := c.ends(c.broker(), history.Partition{Topic: t.ID, Index: c.rnd.IntN(t.Partitions)}, t.Name)
		if op.Outcome != history.OK {
			c.pause(ctx, 10*f.cfg.Think)
		}
		c.pause(ctx, 2*f.cfg.Think)
	}
}

// tailer follows one partition through a broker until the stream ends or it is
// fed up with that broker, and goes on at another where it was.
func (f *Fleet) tailer(ctx context.Context, c *client) {
	t := f.cfg.Topics[c.rnd.IntN(len(f.cfg.Topics))]
	p := history.Partition{Topic: t.ID, Index: c.rnd.IntN(t.Partitions)}
	next := int64(0)
	for ctx.Err() == nil {
		life := time.Second + time.Duration(c.rnd.Int64N(int64(15*time.Second)))
		next = c.tail(ctx, c.broker(), p, t.Name, next, life)
		c.pause(ctx, 10*f.cfg.Think)
	}
}

// tail is one stream.
func (c *client) tail(ctx context.Context, broker int, p history.Partition, topic string, next int64, life time.Duration) int64 {
	ctx, cancel := context.WithTimeout(ctx, life)
	defer cancel()
	op := c.begin(history.Tail, broker, p)
	op.From, op.Outcome = next, history.Failed
	var a answer
	defer func() { c.end(op, &a) }()
	sse := c.rnd.IntN(2) == 0
	path := fmt.Sprintf("/topics/%s/partitions/%d/records?offset=%d&follow=true", topic, p.Index, next)
	if sse {
		path = fmt.Sprintf("/topics/%s/partitions/%d/records", topic, p.Index)
	}
	req, err := http.NewRequestWithContext(ctx, "GET", c.urls[broker-1]+path, nil)
	if err != nil {
		a.err = err
		return next
	}
	if req.Header.Set("Accept", "application/x-ndjson"); sse {
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Last-Event-ID", fmt.Sprintf("%d:%d", p.Index, next))
	}
	res, err := c.http.Do(req)
	if err != nil {
		// A tail that finds nothing may say nothing; a stream has no time to answer in.
		if ctx.Err() == nil {
			a.err = err
		}
		return next
	}
	defer func() { _ = res.Body.Close() }()
	a.status, a.header = res.StatusCode, res.Header
	if res.StatusCode != http.StatusOK {
		a.body, _ = io.ReadAll(res.Body)
		if start := a.problem().Start; res.StatusCode == http.StatusGone && start != nil {
			return max(next, *start)
		}
		return next
	}
	op.Outcome = history.OK
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Bytes()
		if sse {
			data, isData := bytes.CutPrefix(line, []byte("data:"))
			if !isData {
				continue
			}
			line = bytes.TrimSpace(data)
		}
		if len(line) == 0 {
			continue
		}
		r, err := parseLine(line)
		if err != nil {
			a.err = err // the last line was cut, or the stream ends with a problem
			break
		}
		op.Records = append(op.Records, r)
		next = r.Offset + 1
	}
	if err := lines.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		op.Error = err.Error()
	}
	return next
}
