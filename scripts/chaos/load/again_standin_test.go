package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"chaos/history"
)

// againStandIn is a cluster that knows ids and producers, in memory: as the
// contract says, or with one flaw. Now and then its leaders change, and what isn't
// committed is gone; requests and answers are lost.
type againStandIn struct {
	flaw string

	mu        sync.Mutex // guards what follows
	rnd       *rand.Rand
	topics    map[string]*againTopic
	epoch     int32
	changes   int // of leaders
	producers int64
	named     map[string]*againProducer
}

type againTopic struct {
	topic      *Topic
	partitions []*againPartition
}

type againPartition struct {
	log       []againEntry
	committed int
	ids       map[string]int // offsets
	producers map[int64]*againProducer
}

type againEntry struct {
	id, content string
	value       []byte
	producer    int64
	sequence    int64
}

type againProducer struct {
	id    int64
	epoch int
	next  int64
	first map[int64]int // offset by sequence of a batch's first record
}

func newAgainStandIn(seed uint64, flaw string) *againStandIn {
	s := &againStandIn{flaw: flaw, rnd: rand.New(rand.NewPCG(seed, 11)), topics: map[string]*againTopic{}, named: map[string]*againProducer{}}
	for _, t := range []*Topic{{Name: "again", ID: "again-id", Partitions: 3}, {Name: "growing", ID: "growing-id", Partitions: 2, Grows: true}} {
		s.topics[t.Name] = &againTopic{topic: t}
		s.grow(t.Name, t.Partitions)
	}
	return s
}

func (s *againStandIn) grow(name string, partitions int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := s.topics[name]; len(t.partitions) < partitions; {
		t.partitions = append(t.partitions, &againPartition{ids: map[string]int{}, producers: map[int64]*againProducer{}})
	}
}

// RoundTrip is the network.
func (s *againStandIn) RoundTrip(r *http.Request) (*http.Response, error) {
	return carry(r, s.serve, s.chance, 100, 50)
}

func (s *againStandIn) chance(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rnd.IntN(n)
}

func (s *againStandIn) serve(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rnd.IntN(150) == 0 {
		s.change()
	}
	switch {
	case path[0] == "producers":
		s.producer(w, r)
	case len(path) > 2 && path[2] == "messages":
		id, _ := url.PathUnescape(path[3])
		s.message(w, s.topics[path[1]], id)
	default:
		s.produce(w, r, path)
	}
}

// change has other brokers lead: what isn't committed is gone.
func (s *againStandIn) change() {
	s.epoch++
	s.changes++
	for _, t := range s.topics {
		for _, p := range t.partitions {
			if s.flaw == "what may be written is denied" {
				p.committed = len(p.log)
			}
			for _, e := range p.log[p.committed:] {
				if s.flaw != "ids of lost records live on" {
					delete(p.ids, e.id)
				}
			}
			p.log = p.log[:p.committed]
			if s.flaw == "ids are forgotten" {
				p.ids = map[string]int{}
			}
			s.rebuild(p)
		}
	}
}

// rebuild makes the producers' state anew from the log.
func (s *againStandIn) rebuild(p *againPartition) {
	for id, state := range p.producers {
		if s.flaw == "producers are forgotten" {
			delete(p.producers, id)
			continue
		}
		for sequence, offset := range state.first {
			if offset >= len(p.log) {
				delete(state.first, sequence)
			}
		}
		state.next = 0
		for _, e := range p.log {
			if e.producer == id && e.sequence>>32 == int64(state.epoch) {
				state.next = e.sequence&(1<<32-1) + 1
			}
		}
	}
}

func (s *againStandIn) producer(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Named string `json:"transactional_id"`
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	p := s.named[in.Named]
	if p == nil || in.Named == "" {
		s.producers++
		p = &againProducer{id: s.producers}
		s.named[in.Named] = p
	} else {
		p.epoch++
	}
	_, _ = fmt.Fprintf(w, `{"producer_id":%d,"producer_epoch":%d}`, p.id, p.epoch)
}

func (s *againStandIn) message(w http.ResponseWriter, t *againTopic, id string) {
	for i, p := range t.partitions {
		at, known := p.ids[id]
		if !known || at >= p.committed || s.flaw == "a look-up misses" && s.rnd.IntN(20) == 0 {
			continue
		}
		if s.flaw == "a look-up names another" && s.rnd.IntN(20) == 0 {
			at = s.rnd.IntN(p.committed)
		}
		_, _ = fmt.Fprintf(w, `{"partition":%d,"offset":%d,"id":%q,"value":%s}`, i, at, id, p.log[at].value)
		return
	}
	problemOf(w, 40404, "never seen")
}

// againTold is what a part of a request is answered with, by record.
type againTold struct {
	partition, offset int
	duplicate         bool
	code              int
	unknown           bool
	expected          int64
}

func (s *againStandIn) produce(w http.ResponseWriter, r *http.Request, path []string) {
	records, producer := s.parse(r, path)
	t := s.topics[path[1]]
	parts := map[int][]int{}
	for i, rec := range records {
		parts[rec.partition(t)] = append(parts[rec.partition(t)], i)
	}
	told := make([]againTold, len(records))
	begin, waits := s.changes, false
	for n, at := range parts {
		var part []againRequest
		for _, i := range at {
			part = append(part, records[i])
		}
		for j, answer := range s.part(t.partitions[n], part, producer) {
			answer.partition = n
			told[at[j]] = answer
			waits = true
		}
	}
	if waits && r.URL.Query().Get("acks") == "-1" && !(s.flaw == "answers don't wait" && s.rnd.IntN(10) == 0) {
		s.mu.Unlock()
		time.Sleep(time.Duration(1+s.chance(10)) * time.Millisecond)
		s.mu.Lock()
		s.commit(t, told, begin)
	}
	s.answer(w, told)
}

// commit is when followers have it all, unless leaders changed meanwhile.
func (s *againStandIn) commit(t *againTopic, told []againTold, begin int) {
	for i := range told {
		a := &told[i]
		p := t.partitions[a.partition]
		switch {
		case a.code != 0:
		case s.changes != begin:
			a.code, a.unknown = 50304, s.flaw != "what may be written is denied"
		default:
			p.committed = max(p.committed, min(a.offset+1, len(p.log)))
		}
	}
}

type againRequest struct {
	ID        string
	Key       string
	Value     json.RawMessage
	Partition *int
	request   string // hash of the whole
}

func (r *againRequest) partition(t *againTopic) int {
	if r.Partition != nil {
		return *r.Partition
	}
	h := fnv.New32()
	_, _ = h.Write([]byte(r.ID))
	if r.Key != "" {
		h.Reset()
		_, _ = h.Write([]byte(r.Key))
	}
	return int(h.Sum32()) % len(t.partitions)
}

func (r *againRequest) content() string { return r.request + "|" + r.Key + "|" + string(r.Value) }

func (s *againStandIn) parse(r *http.Request, path []string) (records []againRequest, producer *history.Producer) {
	body, _ := io.ReadAll(r.Body)
	var in struct {
		Records  []againRequest
		ID       *int64 `json:"producer_id"`
		Epoch    int    `json:"producer_epoch"`
		Sequence int64  `json:"base_sequence"`
	}
	q := r.URL.Query()
	switch {
	case path[len(path)-1] == "records":
		one := againRequest{ID: r.Header.Get("Message-Id"), Key: q.Get("key"), Value: body}
		if q.Has("partition") {
			n, _ := strconv.Atoi(q.Get("partition"))
			one.Partition = &n
		}
		records = []againRequest{one}
	case r.Header.Get("Content-Type") == "application/x-ndjson":
		for line := range bytes.Lines(body) {
			var one againRequest
			_ = json.Unmarshal(line, &one)
			records = append(records, one)
		}
	default:
		_ = json.Unmarshal(body, &in)
		records = in.Records
	}
	if in.ID != nil {
		producer = &history.Producer{ID: *in.ID, Epoch: in.Epoch, Sequence: in.Sequence}
	}
	key, whole := strings.Trim(r.Header.Get("Idempotency-Key"), `"`), ""
	for _, one := range records {
		whole += one.content()
	}
	for i := range records {
		if key != "" {
			records[i].ID, records[i].request = fmt.Sprintf("%s/%d", key, i), whole
		}
		if len(path) > 3 {
			n, _ := strconv.Atoi(path[3])
			records[i].Partition = &n
		}
	}
	return records, producer
}

// part is what one partition makes of its records.
func (s *againStandIn) part(p *againPartition, records []againRequest, producer *history.Producer) []againTold {
	told := make([]againTold, len(records))
	if producer != nil {
		if done := s.sequence(p, told, producer); done {
			return told
		}
	}
	for _, r := range records {
		if at, known := p.ids[r.ID]; known && producer == nil && at < len(p.log) && p.log[at].content != r.content() && s.flaw != "ids are reused" {
			return s.refuse(told, codeReusedInTest, 0)
		}
		if s.flaw == "the same is refused" && s.rnd.IntN(200) == 0 {
			return s.refuse(told, codeReusedInTest, 0)
		}
	}
	for i, r := range records {
		at, known := p.ids[r.ID]
		if s.flaw == "records are written twice" && s.rnd.IntN(50) == 0 || s.flaw == "ids are reused" && known && at < len(p.log) && p.log[at].content != r.content() {
			known = false
		}
		if known && producer == nil {
			if s.flaw == "duplicates get another offset" && s.rnd.IntN(50) == 0 {
				at = max(at-1, 0)
			}
			told[i] = againTold{offset: at, duplicate: s.flaw != "duplicates aren't told"}
			continue
		}
		e := againEntry{id: r.ID, content: r.content(), value: r.Value}
		if producer != nil {
			e.producer, e.sequence = producer.ID, int64(producer.Epoch)<<32+producer.Sequence+int64(i)
		} else {
			p.ids[r.ID] = len(p.log)
		}
		told[i].offset = len(p.log)
		p.log = append(p.log, e)
	}
	return told
}

const (
	codeReusedInTest = 40908
	codeGapInTest    = 40904
	codeFencedInTest = 40303
)

func (s *againStandIn) refuse(told []againTold, code int, expected int64) []againTold {
	for i := range told {
		told[i] = againTold{offset: -1, code: code, expected: expected}
	}
	return told
}

// sequence judges a producer's batch; done: it isn't to be written.
func (s *againStandIn) sequence(p *againPartition, told []againTold, in *history.Producer) (done bool) {
	state := p.producers[in.ID]
	if state == nil || in.Epoch > state.epoch {
		state = &againProducer{epoch: in.Epoch, first: map[int64]int{}}
		p.producers[in.ID] = state
	}
	first, known := state.first[in.Sequence]
	switch {
	case in.Epoch < state.epoch && s.flaw != "old epochs write":
		s.refuse(told, codeFencedInTest, 0)
	case known && s.flaw == "producers write twice" && s.rnd.IntN(10) == 0:
		return false
	case known:
		for i := range told {
			told[i] = againTold{offset: first + i, duplicate: true}
		}
	case in.Sequence != state.next && s.flaw != "gaps are taken" && in.Epoch == state.epoch:
		s.refuse(told, codeGapInTest, state.next)
	default:
		state.first[in.Sequence] = len(p.log)
		state.next = in.Sequence + int64(len(told))
		return false
	}
	return true
}

func (s *againStandIn) answer(w http.ResponseWriter, told []againTold) {
	if one := told[0]; one.code != 0 && !slices.ContainsFunc(told, func(a againTold) bool { return a.code != one.code || a.unknown != one.unknown }) {
		outcome := "not_written"
		if one.unknown {
			outcome = "unknown"
		}
		w.WriteHeader(one.code / 100)
		_, _ = fmt.Fprintf(w, `{"error_code":%d,"outcome":%q,"expected_sequence":%d}`, one.code, outcome, one.expected)
		return
	}
	var list []string
	seen := map[int]bool{}
	var parts []string
	status := 200
	for _, a := range told {
		if a.code == 0 {
			list = append(list, fmt.Sprintf(`{"partition":%d,"offset":%d,"error_code":null,"duplicate":%v}`, a.partition, a.offset, a.duplicate))
		} else {
			status = 207
			outcome := map[bool]string{true: "unknown", false: "not_written"}[a.unknown]
			list = append(list, fmt.Sprintf(`{"partition":%d,"offset":-1,"error_code":%d,"outcome":%q}`, a.partition, a.code, outcome))
		}
		if !seen[a.partition] {
			seen[a.partition] = true
			parts = append(parts, fmt.Sprintf(`{"partition":%d,"leader_epoch":%d}`, a.partition, s.epoch))
		}
	}
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"offsets":[%s],"partitions":[%s]}`, strings.Join(list, ","), strings.Join(parts, ","))
}

// views is the logs as they are at the end.
func (s *againStandIn) views() (views []*history.View) {
	for _, t := range s.topics {
		for n, p := range t.partitions {
			v := &history.View{Partition: history.Partition{Topic: t.topic.ID, Index: n}, Source: "stand-in", End: int64(p.committed)}
			for o, e := range p.log[:p.committed] {
				v.Records = append(v.Records, history.Record{Offset: int64(o), Value: Name(e.value)})
			}
			views = append(views, v)
		}
	}
	return views
}
