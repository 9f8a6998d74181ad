package load

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"chaos/history"
)

// standIn is a broker of one topic and its consumer groups, in memory: as the
// contract says, or with one flaw. It loses requests and answers, and now and then
// forgets what a coordinator's death forgets.
type standIn struct {
	topic *Topic
	flaw  string

	mu     sync.Mutex // guards what follows
	rnd    *rand.Rand
	log    [][][]byte // values by partition
	groups map[string]*standInGroup
}

type standInGroup struct {
	committed map[int]int64
	owner     map[int]*standInMember
	members   map[string]*standInMember // by name
	numbers   map[string]int            // of incarnations
	gone      map[string]string         // instance → code and text
}

type standInMember struct {
	name, instance    string
	session           time.Duration
	heard             time.Time
	subscribed, auto  bool
	binary, known     bool          // known: what was delivered is
	at, delivered     map[int]int64 // positions; ends of what isn't committed
	lastID            string
	lastFrom, lastEnd map[int]int64
}

func newStandIn(seed uint64, flaw string) *standIn {
	t := &Topic{Name: "work", ID: "work-id", Partitions: 4}
	return &standIn{topic: t, flaw: flaw, rnd: rand.New(rand.NewPCG(seed, 9)), log: make([][][]byte, t.Partitions), groups: map[string]*standInGroup{}}
}

var errLost = errors.New("connection reset")

// RoundTrip is the network.
func (s *standIn) RoundTrip(r *http.Request) (*http.Response, error) {
	return carry(r, s.serve, s.chance, 200, 200)
}

// carry is a network that takes a moment and loses one in so many requests, and answers.
func carry(r *http.Request, serve http.HandlerFunc, chance func(int) int, requests, answers int) (*http.Response, error) {
	time.Sleep(time.Duration(1+chance(5)) * time.Millisecond)
	if chance(requests) == 0 {
		return nil, errLost
	}
	w := httptest.NewRecorder()
	serve(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if chance(answers) == 0 {
		return nil, errLost
	}
	return w.Result(), nil
}

func (s *standIn) chance(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rnd.IntN(n)
}

func (s *standIn) serve(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case path[0] == "topics" && r.Method == "POST":
		s.produce(w, r, path)
	case path[0] == "topics":
		p, _ := strconv.Atoi(path[3])
		s.mu.Lock()
		defer s.mu.Unlock()
		_, _ = fmt.Fprintf(w, `{"beginning_offset":0,"end_offset":%d}`, len(s.log[p]))
	default:
		s.consumers(w, r, path[1:])
	}
}

func (s *standIn) produce(w http.ResponseWriter, r *http.Request, path []string) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	type record struct {
		Value     json.RawMessage `json:"value"`
		Partition int             `json:"partition"`
	}
	var list []record
	switch {
	case len(path) == 2:
		var all struct {
			Records []record `json:"records"`
		}
		_ = json.Unmarshal(body, &all)
		list = all.Records
	case len(path) == 5:
		list = []record{{Value: body}}
	default:
		for line := range bytes.Lines(body) {
			var one record
			_ = json.Unmarshal(line, &one)
			list = append(list, one)
		}
	}
	var out []string
	for _, rec := range list {
		if len(path) > 2 {
			rec.Partition, _ = strconv.Atoi(path[3])
		}
		out = append(out, fmt.Sprintf(`{"partition":%d,"offset":%d,"error_code":null}`, rec.Partition, len(s.log[rec.Partition])))
		s.log[rec.Partition] = append(s.log[rec.Partition], rec.Value)
	}
	_, _ = fmt.Fprintf(w, `{"offsets":[%s]}`, strings.Join(out, ","))
}

func problemOf(w http.ResponseWriter, code int, detail string) {
	w.WriteHeader(code / 100)
	_, _ = fmt.Fprintf(w, `{"error_code":%d,"detail":%q}`, code, detail)
}

// consumers is everything below /consumers.
func (s *standIn) consumers(w http.ResponseWriter, r *http.Request, path []string) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[path[0]]
	if g == nil {
		g = &standInGroup{committed: map[int]int64{}, owner: map[int]*standInMember{}, members: map[string]*standInMember{}, numbers: map[string]int{}, gone: map[string]string{}}
		s.groups[path[0]] = g
	}
	s.expire(g)
	if s.rnd.IntN(150) == 0 && s.flaw != "positions outlive ownership" {
		for _, m := range g.members { // its coordinator died
			m.at, m.delivered, m.lastID, m.known = map[int]int64{}, map[int]int64{}, "", false
		}
	}
	q := r.URL.Query()
	switch {
	case len(path) == 1:
		s.create(w, g, body, "", false)
	case path[1] == "offsets" && r.Method == "GET":
		s.tell(w, g, "committed")
	case path[1] == "records":
		s.poll(w, r, g, s.joined(g, q.Get("member"), q.Get("consumer.instance.timeout.ms")), true)
	case path[1] == "offsets":
		s.onMember(w, r, g, q.Get("member"), "offsets", body)
	case r.Method == "PUT":
		s.create(w, g, body, path[2], true)
	case len(path) == 3:
		s.onMember(w, r, g, path[2], "leave", body)
	default:
		s.onMember(w, r, g, path[2], strings.Join(path[3:], "/"), body)
	}
}

func (s *standIn) joined(g *standInGroup, name, session string) *standInMember {
	m := g.members[name]
	if m == nil {
		ms, _ := strconv.Atoi(session)
		m = &standInMember{name: name, instance: name, session: time.Duration(ms) * time.Millisecond, at: map[int]int64{}, delivered: map[int]int64{}, subscribed: true, known: true}
		g.members[name] = m
		delete(g.gone, name)
	}
	return m
}

func (s *standIn) create(w http.ResponseWriter, g *standInGroup, body []byte, name string, over bool) {
	var o struct {
		Name, Format string
		Session      string `json:"consumer.instance.timeout.ms"`
		Auto         string `json:"auto.commit.enable"`
	}
	_ = json.Unmarshal(body, &o)
	if name == "" {
		name = o.Name
	}
	if name == "" {
		name = fmt.Sprintf("made-up-%d", s.rnd.Int64())
	}
	was := g.members[name]
	if was != nil && !over {
		problemOf(w, 40902, "taken")
		return
	}
	g.numbers[name]++
	ms, _ := strconv.Atoi(o.Session)
	m := &standInMember{name: name, instance: fmt.Sprintf("%s~%d", name, g.numbers[name]), session: time.Duration(ms) * time.Millisecond, heard: time.Now(),
		auto: o.Auto == "true", binary: o.Format == "binary", at: map[int]int64{}, delivered: map[int]int64{}, known: true}
	if was != nil {
		s.remove(g, was, "40906 taken over")
	}
	g.members[name] = m
	_, _ = fmt.Fprintf(w, `{"instance_id":%q,"base_uri":"http://h/consumers/g/instances/%s"}`, m.name, m.instance)
}

func (s *standIn) remove(g *standInGroup, m *standInMember, why string) {
	delete(g.members, m.name)
	g.gone[m.instance] = why
	for p, o := range g.owner {
		if o == m {
			delete(g.owner, p)
		}
	}
}

func (s *standIn) expire(g *standInGroup) {
	for _, name := range slices.Sorted(keys(g.members)) {
		if m := g.members[name]; !m.heard.IsZero() && time.Since(m.heard) > m.session {
			s.remove(g, m, "40403 it expired")
		}
	}
}

func keys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// share gives and takes partitions: `polls` gives back what is meant for others.
func (s *standIn) share(g *standInGroup, polls *standInMember) {
	var names []string
	for _, n := range slices.Sorted(keys(g.members)) {
		if g.members[n].subscribed {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return
	}
	turn := int(time.Now().Unix()) // now and then all of them are somebody else's
	for p := range s.topic.Partitions {
		target, owner := g.members[names[(p+turn)%len(names)]], g.owner[p]
		if owner == nil || owner != target && (owner == polls || s.flaw == "partitions move at once") {
			if owner != nil && s.flaw != "positions outlive ownership" {
				delete(owner.at, p)
				delete(owner.delivered, p)
			}
			g.owner[p] = target
		}
	}
}

func (s *standIn) tell(w http.ResponseWriter, g *standInGroup, member string) {
	list := []string{}
	for p, o := range g.committed {
		list = append(list, fmt.Sprintf(`{"topic":"work","partition":%d,%q:%d}`, p, member, o))
	}
	if all := "[" + strings.Join(list, ",") + "]"; member == "offset" {
		_, _ = fmt.Fprintf(w, `{"offsets":%s}`, all)
	} else {
		_, _ = fmt.Fprint(w, all)
	}
}

// onMember does what a living member asks.
func (s *standIn) onMember(w http.ResponseWriter, r *http.Request, g *standInGroup, instance, what string, body []byte) {
	name, _, _ := strings.Cut(instance, "~")
	m := g.members[name]
	if m == nil || m.instance != instance {
		if s.flaw == "zombies commit" && what == "offsets" {
			s.commit(w, g, m, body)
			return
		}
		why := g.gone[instance]
		if why == "" {
			why = "40403 never was"
		}
		code, _ := strconv.Atoi(why[:5])
		problemOf(w, code, why[6:])
		return
	}
	m.heard = time.Now()
	switch {
	case s.flaw == "the living are expelled" && s.rnd.IntN(200) == 0:
		s.remove(g, m, "40403 it expired")
		problemOf(w, 40403, "it expired")
	case what == "leave":
		s.remove(g, m, "40403 it left")
		w.WriteHeader(204)
	case what == "subscription":
		m.subscribed = true
		w.WriteHeader(204)
	case what == "records":
		s.poll(w, r, g, m, false)
	case what == "offsets" && r.Method == "GET":
		s.tell(w, g, "offset")
	case what == "offsets":
		s.commit(w, g, m, body)
	default:
		s.seek(w, g, m, body)
	}
}

type standInEntries struct {
	Offsets, Partitions []struct {
		Partition int
		Offset    *int64
		Next      *int64 `json:"next_offset"`
	}
}

func (s *standIn) seek(w http.ResponseWriter, g *standInGroup, m *standInMember, body []byte) {
	var in standInEntries
	_ = json.Unmarshal(body, &in)
	for _, e := range append(in.Offsets, in.Partitions...) {
		if g.owner[e.Partition] != m {
			problemOf(w, 40402, "unassigned")
			return
		}
		to := int64(0)
		if e.Offset != nil {
			to = *e.Offset
		} else if e.Next != nil {
			to = *e.Next
		}
		m.at[e.Partition] = to
		delete(m.delivered, e.Partition)
	}
	w.WriteHeader(204)
}

func (s *standIn) commit(w http.ResponseWriter, g *standInGroup, m *standInMember, body []byte) {
	offsets := map[int]int64{}
	if len(body) == 0 && m != nil {
		if !m.known {
			problemOf(w, 40906, "it isn't known what was delivered")
			return
		}
		for p, end := range m.delivered {
			if g.owner[p] == m {
				offsets[p] = end
			}
		}
		m.delivered = map[int]int64{}
	}
	var in standInEntries
	_ = json.Unmarshal(body, &in)
	for _, e := range in.Offsets {
		if g.owner[e.Partition] != m && s.flaw != "zombies commit" {
			problemOf(w, 40906, "moved")
			return
		}
		if e.Offset != nil {
			offsets[e.Partition] = *e.Offset
		} else {
			offsets[e.Partition] = *e.Next
		}
	}
	for p, o := range offsets {
		if s.flaw == "commits are lost" && s.rnd.IntN(100) == 0 {
			continue
		}
		g.committed[p] = o
	}
	w.WriteHeader(204)
}

func (s *standIn) poll(w http.ResponseWriter, r *http.Request, g *standInGroup, m *standInMember, once bool) {
	m.heard = time.Now()
	q := r.URL.Query()
	count, _ := strconv.Atoi(q.Get("count"))
	timeout, _ := strconv.Atoi(q.Get("timeout"))
	id := q.Get("request_id")
	if id != "" && id == m.lastID && s.flaw != "request ids are ignored" {
		s.answer(w, m, m.lastFrom, m.lastEnd)
		return
	}
	if m.auto {
		for p, end := range m.delivered {
			if g.owner[p] == m {
				g.committed[p] = end
			}
		}
	}
	s.share(g, m)
	if once && s.flaw != "one-call goes on" {
		m.at = map[int]int64{}
	}
	from, end := map[int]int64{}, map[int]int64{}
	deadline := time.Now().Add(time.Duration(timeout) * time.Millisecond)
	for {
		for p := range s.topic.Partitions {
			if g.owner[p] != m {
				continue
			}
			if _, known := m.at[p]; !known {
				m.at[p] = g.committed[p]
			}
			if take := min(count, len(s.log[p])-int(m.at[p])); take > 0 {
				from[p], end[p] = m.at[p], m.at[p]+int64(take)
				count -= take
			}
		}
		if len(from) > 0 || !time.Now().Before(deadline) || r.Context().Err() != nil || g.members[m.name] != m {
			break
		}
		s.mu.Unlock()
		time.Sleep(20 * time.Millisecond)
		s.mu.Lock()
		m.heard = time.Now()
	}
	if r.Context().Err() != nil {
		return
	}
	if s.flaw == "polls are slow" && s.rnd.IntN(100) == 0 {
		s.mu.Unlock()
		time.Sleep(3 * time.Second)
		s.mu.Lock()
	}
	if once {
		m.delivered = map[int]int64{}
	}
	for p, e := range end {
		m.at[p], m.delivered[p] = e, e
		if s.flaw == "records are skipped" && s.rnd.IntN(500) == 0 {
			m.at[p]++
		}
	}
	m.known = true
	m.lastID, m.lastFrom, m.lastEnd = id, from, end
	s.answer(w, m, from, end)
}

func (s *standIn) answer(w http.ResponseWriter, m *standInMember, from, end map[int]int64) {
	list := []string{}
	for p := range s.topic.Partitions {
		for o := from[p]; o < end[p]; o++ {
			value := string(s.log[p][o])
			if m.binary {
				value = `"` + base64.StdEncoding.EncodeToString(s.log[p][o]) + `"`
			}
			list = append(list, fmt.Sprintf(`{"topic":"work","partition":%d,"offset":%d,"value":%s}`, p, o, value))
		}
	}
	_, _ = fmt.Fprintf(w, "[%s]", strings.Join(list, ","))
}

// views is the log as it is at the end.
func (s *standIn) views() (views []*history.View) {
	for p, log := range s.log {
		v := &history.View{Partition: history.Partition{Topic: s.topic.ID, Index: p}, Source: "stand-in", End: int64(len(log))}
		for o, value := range log {
			v.Records = append(v.Records, history.Record{Offset: int64(o), Value: Name(value)})
		}
		views = append(views, v)
	}
	return views
}
