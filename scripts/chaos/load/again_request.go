package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"

	"chaos/history"
)

// attempts sends these requests at once.
func (c *client) attempts(plans []*plan) []*history.Attempt {
	made := make([]*history.Attempt, len(plans))
	var wg sync.WaitGroup
	for i, l := range plans {
		wg.Go(func() { made[i] = c.attempt(l) })
	}
	wg.Wait()
	return made
}

// attempt sends one request and takes it down.
func (c *client) attempt(l *plan) *history.Attempt {
	a := &history.Attempt{ID: c.rec.NextID(), Client: c.name, Topic: l.topic.ID, Broker: l.broker, Acks: l.acks, Form: l.form, Settles: l.settles, Producer: l.producer}
	for i, m := range l.messages {
		item := history.Item{Message: m.id, Value: m.name, Partition: -1, Offset: -1, LeaderEpoch: -1, Expected: -1, Outcome: history.Unknown}
		if l.foul != nil && l.foul[i] != "" {
			item.Value = l.foul[i]
		}
		item.Refuse = l.refused != nil && l.refused[i]
		if m.chosen || l.pin && m.pin >= 0 {
			item.Partition = m.pin
			a.Pinned = a.Pinned || !m.chosen
		}
		a.Items = append(a.Items, item)
	}
	path, contentType, body := l.request(a.Items)
	header := []string{}
	switch l.form {
	case history.FormMessageID:
		header = append(header, "Message-Id", l.messages[0].id)
	case history.FormIdempotencyKey:
		header = append(header, "Idempotency-Key", `"`+l.key+`"`)
	}
	a.Call = c.rec.Now()
	var got answer
	if l.patience > 0 {
		got = c.try(l.patience, l.broker, "POST", path, contentType, body, header...)
	} else {
		got = c.do(l.broker, "POST", path, contentType, body, l.timeout, header...)
	}
	a.Return = c.rec.Now()
	settleAttempt(a, &got)
	c.rec.Attempt(a)
	return a
}

// againRecord is a record of a JSON document. Its members' order is always the same.
type againRecord struct {
	ID        string          `json:"id,omitempty"`
	Key       *string         `json:"key,omitempty"`
	Value     json.RawMessage `json:"value"`
	Partition *int            `json:"partition,omitempty"`
}

// request is the bytes of a plan whose items say where each record goes.
func (l *plan) request(items []history.Item) (path, contentType string, body []byte) {
	query := url.Values{"acks": {fmt.Sprint(l.acks)}, "timeout_ms": {fmt.Sprint(l.timeout.Milliseconds())}}
	path = "/topics/" + l.topic.Name
	one := l.single(items)
	if one >= 0 && (l.producer != nil || l.acks == 1) { // a partition's own endpoint, too
		path += fmt.Sprintf("/partitions/%d", one)
	} else {
		one = -1
	}
	if l.form == history.FormMessageID {
		if m := l.messages[0]; m.key != "" {
			query.Set("key", m.key)
		}
		if items[0].Partition >= 0 && one < 0 {
			query.Set("partition", fmt.Sprint(items[0].Partition))
		}
		return path + "/records?" + query.Encode(), "", Value(items[0].Value)
	}
	var records []againRecord
	for i, m := range l.messages {
		r := againRecord{Value: Value(items[i].Value)}
		if l.form == history.FormID || l.form == history.FormLines {
			r.ID = m.id
		}
		if m.key != "" {
			r.Key = &m.key
		}
		if items[i].Partition >= 0 && one < 0 {
			r.Partition = &items[i].Partition
		}
		records = append(records, r)
	}
	if l.form == history.FormLines {
		query.Set("response", "full")
		var b bytes.Buffer
		for _, r := range records {
			b.Write(document(r))
			b.WriteByte('\n')
		}
		return path + "?" + query.Encode(), "application/x-ndjson", b.Bytes()
	}
	all := map[string]any{"records": records}
	if p := l.producer; p != nil {
		all["producer_id"], all["producer_epoch"], all["base_sequence"] = p.ID, p.Epoch, p.Sequence
	}
	return path + "?" + query.Encode(), "application/json", document(all)
}

// single is the partition that all items go to by their own words, -1 if there is none.
func (l *plan) single(items []history.Item) int {
	for _, i := range items {
		if i.Partition != items[0].Partition {
			return -1
		}
	}
	return items[0].Partition
}

// document is JSON that leaves `<`, `>` and `&` as they are: a value's bytes count.
func document(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	return bytes.TrimSpace(b.Bytes())
}

// againAnswer is what these clients read of an answer.
type againAnswer struct {
	Offsets []struct {
		Partition *int   `json:"partition"`
		Offset    int64  `json:"offset"`
		Code      *int   `json:"error_code"`
		Outcome   string `json:"outcome"`
		Duplicate bool   `json:"duplicate"`
		Expected  *int64 `json:"expected_sequence"`
	} `json:"offsets"`
	Partitions []struct {
		Partition   int   `json:"partition"`
		LeaderEpoch int32 `json:"leader_epoch"`
	} `json:"partitions"`
}

// settleAttempt notes what the answer says of each record.
func settleAttempt(a *history.Attempt, got *answer) {
	a.Status = got.status
	all := func(o history.Outcome) {
		for i := range a.Items {
			a.Items[i].Outcome, a.Items[i].Code = o, a.Code
		}
	}
	if got.err != nil {
		a.Error = got.err.Error()
		a.GaveUp = errors.Is(got.err, errLate)
		a.NoAnswer = !a.GaveUp && got.noAnswer()
		if neverSent(got.err) {
			all(history.NotWritten)
		}
		return
	}
	if got.status == 200 || got.status == 207 {
		settleItems(a, got)
		return
	}
	p := got.problem()
	a.Code, a.Error = p.Code, p.Detail
	if p.Outcome == string(history.NotWritten) || got.status < 500 {
		all(history.NotWritten) // a client's mistake is found before anything is written
	} else {
		all(history.Unknown)
	}
	for i := range a.Items {
		if p.Expected != nil {
			a.Items[i].Expected = *p.Expected
		}
	}
}

func settleItems(a *history.Attempt, got *answer) {
	var told againAnswer
	if err := json.Unmarshal(got.body, &told); err != nil || len(told.Offsets) != len(a.Items) {
		a.Error = fmt.Sprintf("%d results for %d records (%v): %.300s", len(told.Offsets), len(a.Items), err, got.body)
		return
	}
	epochs := map[int]int32{}
	for _, p := range told.Partitions {
		epochs[p.Partition] = p.LeaderEpoch
	}
	for i, o := range told.Offsets {
		item := &a.Items[i]
		if o.Partition != nil && *o.Partition >= 0 {
			item.Partition = *o.Partition
		}
		switch {
		case o.Code == nil:
			item.Outcome, item.Offset, item.Duplicate = history.OK, o.Offset, o.Duplicate
			if e, told := epochs[item.Partition]; told {
				item.LeaderEpoch = e
			}
		case o.Outcome == string(history.NotWritten):
			item.Outcome, item.Code = history.NotWritten, *o.Code
		default:
			item.Outcome, item.Code = history.Unknown, *o.Code
		}
		if o.Expected != nil {
			item.Expected = *o.Expected
		}
	}
}
