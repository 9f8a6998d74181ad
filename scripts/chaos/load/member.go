package load

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"chaos/history"
)

// callWithin is how long a request of a group other than a poll may take: a new
// coordinator is waited for.
const callWithin = 12 * time.Second

// member is one incarnation of a group's member, as its client sees it.
type member struct {
	*client
	group, name, life string
	instance          string // as base_uri names it; "": it joins by polling
	topic             *Topic
	session           time.Duration
	binary            bool // the format of the dialect, else json
	plain             bool // it shall not commit by itself
	auto              bool // it commits by itself

	last   *history.GroupOp            // its newest answer with records
	fresh  bool                        // nothing was asked since last but commits
	ends   map[history.Partition]int64 // of what it was given and hasn't committed
	known  map[history.Partition]int64 // that the coordinator may know of, and commit by a commit of all
	sought map[history.Partition]bool  // and not been given since
}

// dialectType of requests and answers that have no records.
const dialectType = "application/vnd.kafka.v2+json"

func (m *member) start(kind history.Kind, broker int) *history.GroupOp {
	return &history.GroupOp{ID: m.rec.NextID(), Client: m.client.name, Kind: kind, Group: m.group, Member: m.name, Life: m.life, Broker: broker,
		Call: m.rec.Now(), OneCall: m.instance == "", Auto: m.auto, Session: int64(m.session)}
}

// finish takes an operation down.
func (c *client) finish(op *history.GroupOp, a *answer) {
	op.Return = c.rec.Now()
	op.Status = a.status
	op.Outcome = history.Unknown
	if a.err != nil {
		op.Error = a.err.Error()
		op.NoAnswer = a.noAnswer()
		if neverSent(a.err) {
			op.Outcome = history.NotWritten
		}
	} else if a.status < 300 {
		op.Outcome = history.OK
	} else {
		p := a.problem()
		op.Code, op.Error = p.Code, p.Detail
		if a.status < 500 || p.Outcome == string(history.NotWritten) || op.Kind == history.Poll {
			op.Outcome = history.NotWritten
		}
	}
	c.rec.GroupOp(op)
}

// consumed by a group.
type groupConsumed struct {
	Topic     string          `json:"topic"`
	Partition int             `json:"partition"`
	Offset    *int64          `json:"offset"`
	Value     json.RawMessage `json:"value"`
	Encoding  string          `json:"value_encoding"`
}

var errNoRecords = errors.New("not a list of records")

// groupRecords reads an answer to a poll.
func groupRecords(body []byte, t *Topic, binary bool) ([]history.GroupRecord, error) {
	var list []groupConsumed
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("%w: %w: %.200s", errNoRecords, err, body)
	}
	var out []history.GroupRecord
	for _, r := range list {
		if r.Offset == nil || r.Topic != t.Name {
			return nil, fmt.Errorf("%w: %.200s", errNoRecords, body)
		}
		value := []byte(r.Value)
		if binary || r.Encoding != "" {
			var text string
			_ = json.Unmarshal(r.Value, &text)
			if value = []byte(text); binary || r.Encoding == "base64" {
				value, _ = base64.StdEncoding.DecodeString(text)
			}
		}
		out = append(out, history.GroupRecord{Partition: history.Partition{Topic: t.ID, Index: r.Partition}, Record: history.Record{Offset: *r.Offset, Value: Name(value)}})
	}
	return out, nil
}

// poll asks for records once. A client that gives up goes away within that time.
func (m *member) poll(broker int, timeout time.Duration, count int, requestID string, giveUp time.Duration) *history.GroupOp {
	op := m.start(history.Poll, broker)
	op.Timeout, op.RequestID = int64(timeout), requestID
	query := fmt.Sprintf("timeout=%d&count=%d", timeout.Milliseconds(), count)
	if requestID != "" {
		query += "&request_id=" + requestID
	}
	path, accept := m.path("/records"), "application/vnd.kafka.json.v2+json"
	switch {
	case op.OneCall:
		query += fmt.Sprintf("&topics=%s&member=%s&consumer.instance.timeout.ms=%d", m.topic.Name, m.name, m.session.Milliseconds())
		accept = "application/json"
	case m.binary:
		accept = "application/vnd.kafka.binary.v2+json"
	}
	var a answer
	if giveUp > 0 {
		a = m.try(giveUp, broker, "GET", path+"?"+query, "", nil, "Accept", accept)
		op.GaveUp = errors.Is(a.err, errLate)
	} else {
		a = m.do(broker, "GET", path+"?"+query, "", nil, timeout, "Accept", accept)
	}
	if a.err == nil && a.status == http.StatusOK {
		op.Records, a.err = groupRecords(a.body, m.topic, m.binary)
	}
	m.finish(op, &a)
	m.took(op)
	return op
}

// took notes what the client got.
func (m *member) took(op *history.GroupOp) {
	m.fresh = false
	if op.Outcome != history.OK {
		return
	}
	if m.last, m.fresh = op, true; m.instance == "" {
		m.ends, m.known = map[history.Partition]int64{}, map[history.Partition]int64{}
	}
	for _, r := range op.Records {
		m.ends[r.Partition], m.known[r.Partition] = r.Offset+1, r.Offset+1
		delete(m.sought, r.Partition)
	}
}

// path of the member's requests.
func (m *member) path(of string) string {
	if m.instance == "" {
		return "/consumers/" + m.group + of
	}
	return "/consumers/" + m.group + "/instances/" + m.instance + of
}

// offsetEntry is one in a body.
type offsetEntry struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Offset    *int64 `json:"offset,omitempty"`
	Next      *int64 `json:"next_offset,omitempty"`
}

func (m *member) entries(offsets []history.GroupOffset) []byte {
	var list []offsetEntry
	for _, o := range offsets {
		e := offsetEntry{Topic: m.topic.Name, Partition: o.Partition.Index, Offset: &o.Offset}
		if m.rnd.IntN(2) == 0 {
			e.Offset, e.Next = nil, &o.Offset
		}
		list = append(list, e)
	}
	b, _ := json.Marshal(map[string]any{"offsets": list})
	return b
}

// commitAll commits what was delivered, without naming it.
func (m *member) commitAll(broker int) *history.GroupOp {
	op := m.start(history.Commit, broker)
	in := map[history.Partition]bool{}
	if m.fresh && m.last != nil {
		for _, r := range m.last.Records {
			in[r.Partition] = true
		}
	}
	for p, end := range m.known {
		op.Offsets = append(op.Offsets, history.GroupOffset{Partition: p, Offset: end, Certain: in[p]})
	}
	a := m.do(broker, "POST", m.commitPath(), dialectType, nil, callWithin)
	m.finish(op, &a)
	m.settled(op)
	if op.Outcome == history.OK {
		clear(m.known)
	}
	return op
}

func (m *member) commitPath() string {
	if m.instance == "" {
		return m.path("/offsets?member=" + m.name)
	}
	return m.path("/offsets")
}

// commit names what it commits.
func (m *member) commit(broker int, offsets []history.GroupOffset) *history.GroupOp {
	op := m.start(history.Commit, broker)
	op.Body, op.Offsets = true, offsets
	a := m.do(broker, "POST", m.commitPath(), dialectType, m.entries(offsets), callWithin)
	m.finish(op, &a)
	m.settled(op)
	return op
}

// settled forgets what is committed, or can't be by this member any more.
func (m *member) settled(op *history.GroupOp) {
	for _, o := range op.Offsets {
		gone := op.Outcome == history.NotWritten && op.Status < 500 && op.Status > 0
		if gone || op.Outcome == history.OK && o.Offset == m.ends[o.Partition] {
			delete(m.ends, o.Partition)
		}
	}
}

// seek moves the member's position in one partition.
func (m *member) seek(broker int, p history.Partition, to int64) *history.GroupOp {
	op := m.start(history.Seek, broker)
	op.Offsets = []history.GroupOffset{{Partition: p, Offset: to}}
	m.sought[p], m.fresh = true, false
	delete(m.ends, p)
	path, body := m.path("/positions"), m.entries(op.Offsets)
	if to == 0 && m.rnd.IntN(2) == 0 {
		path, body = m.path("/positions/beginning"), fmt.Appendf(nil, `{"partitions":[{"topic":%q,"partition":%d}]}`, m.topic.Name, p.Index)
	}
	a := m.do(broker, "POST", path, dialectType, body, callWithin)
	m.finish(op, &a)
	return op
}

// committed reads what is committed, as a member does.
func (m *member) committed(broker int) *history.GroupOp {
	op := m.start(history.Committed, broker)
	a := m.do(broker, "GET", m.path("/offsets?topic="+m.topic.Name), "", nil, callWithin)
	if a.err == nil && a.status == http.StatusOK {
		var got struct {
			Offsets []offsetEntry `json:"offsets"`
		}
		if err := json.Unmarshal(a.body, &got); err != nil {
			a.err = fmt.Errorf("committed offsets: %w: %.200s", err, a.body)
		}
		op.Offsets = m.topic.fill(got.Offsets)
	}
	m.finish(op, &a)
	return op
}

// fill are the offsets of all partitions; where none is told, none is committed.
func (t *Topic) fill(entries []offsetEntry) (out []history.GroupOffset) {
	for p := range t.Partitions {
		o := history.GroupOffset{Partition: history.Partition{Topic: t.ID, Index: p}, Offset: -1}
		for _, e := range entries {
			if e.Topic == t.Name && e.Partition == p && e.Offset != nil {
				o.Offset = *e.Offset
			}
		}
		out = append(out, o)
	}
	return out
}

// groupOffsets reads what a group has committed, as anybody may.
func (c *client) groupOffsets(broker int, group string, t *Topic) *history.GroupOp {
	op := &history.GroupOp{ID: c.rec.NextID(), Client: c.name, Kind: history.Committed, Group: group, Broker: broker, Call: c.rec.Now()}
	a := c.do(broker, "GET", "/consumers/"+group+"/offsets", "", nil, callWithin)
	switch {
	case a.err != nil:
	case a.status == http.StatusOK:
		var got []struct {
			Topic     string `json:"topic"`
			Partition int    `json:"partition"`
			Committed *int64 `json:"committed"`
		}
		if err := json.Unmarshal(a.body, &got); err != nil {
			a.err = fmt.Errorf("a group's offsets: %w: %.200s", err, a.body)
		}
		var entries []offsetEntry
		for _, o := range got {
			entries = append(entries, offsetEntry{Topic: o.Topic, Partition: o.Partition, Offset: o.Committed})
		}
		op.Offsets = t.fill(entries)
	}
	c.finish(op, &a)
	return op
}

// leave ends the member in order.
func (m *member) leave(broker int) *history.GroupOp {
	op := m.start(history.Leave, broker)
	path := m.path("")
	if m.instance == "" {
		path = "/consumers/" + m.group + "/instances/" + m.name
	}
	a := m.do(broker, "DELETE", path, "", nil, callWithin)
	m.finish(op, &a)
	return op
}

// join makes the member: by POST, or by PUT, which takes the name over. Without
// `named`, the broker names it.
func (m *member) join(broker int, kind history.Kind, named bool) *history.GroupOp {
	m.binary, m.auto = m.rnd.IntN(2) == 0, m.rnd.IntN(4) == 0 && !m.plain
	m.instance = m.name
	op := m.start(kind, broker)
	body := map[string]any{"format": map[bool]string{false: "json", true: "binary"}[m.binary], "auto.offset.reset": "earliest",
		"consumer.instance.timeout.ms": strconv.FormatInt(m.session.Milliseconds(), 10), "auto.commit.enable": strconv.FormatBool(m.auto)}
	method, path := "POST", "/consumers/"+m.group
	if kind == history.TakeOver {
		method, path = "PUT", m.path("")
	} else if named {
		body["name"] = m.name
	}
	b, _ := json.Marshal(body)
	a := m.do(broker, method, path, dialectType, b, callWithin)
	if a.err == nil && a.status == http.StatusOK {
		var got struct {
			Instance string `json:"instance_id"`
			Base     string `json:"base_uri"`
		}
		at := -1
		if err := json.Unmarshal(a.body, &got); err == nil {
			at = strings.LastIndexByte(got.Base, '/')
		}
		if m.instance = got.Base[at+1:]; at < 0 || m.instance == "" {
			a.err = fmt.Errorf("no base_uri: %.200s", a.body)
		}
		if !named && kind == history.Join {
			m.name = got.Instance
			op.Member = m.name
		}
	}
	m.finish(op, &a)
	return op
}

func (m *member) subscribe(broker int) *history.GroupOp {
	op := m.start(history.Subscribe, broker)
	body := fmt.Appendf(nil, `{"topics":[%q]}`, m.topic.Name)
	if m.rnd.IntN(4) == 0 {
		body = fmt.Appendf(nil, `{"topic_pattern":%q}`, m.topic.Name[:len(m.topic.Name)-1]+"[a-z]")
	}
	a := m.do(broker, "POST", m.path("/subscription"), dialectType, body, callWithin)
	m.finish(op, &a)
	return op
}
