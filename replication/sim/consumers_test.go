package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"highwater/replication"
	"highwater/replication/group"
)

// consumers is the clients of one consumer group, and what they were told.
type consumers struct {
	mu    sync.Mutex // guards what follows
	clock int64      // counts what happens, for the order of it
	parts []*consumed
	heard map[string]time.Time // of each member: when a call of it was answered last
}

// consumed is about one partition.
type consumed struct {
	processed map[int64]bool // offsets that some member was given
	commits   []*commitOp
	reads     []commitRead
	owner     string // the member that was last told that it reads it; "": nobody
	since     int64
}

// commitOp is a commit of an offset, from start to end by the clock. One whose
// outcome is unknown has no end.
type commitOp struct {
	by         string
	offset     int64
	start, end int64
	ok, failed bool
}

// commitRead is a committed offset that was told; -1: none.
type commitRead struct {
	offset     int64
	start, end int64
}

// session is the members' session timeout.
const session = 12 * time.Second

func newConsumers(partitions int) *consumers {
	k := &consumers{heard: map[string]time.Time{}}
	for range partitions {
		k.parts = append(k.parts, &consumed{processed: map[int64]bool{}})
	}
	return k
}

func (k *consumers) tick() int64 { k.clock++; return k.clock }

// start has members come and go, and one client look at what is committed.
func (k *consumers) start(ctx context.Context, c *cluster, clients *sync.WaitGroup) {
	for i := range 4 {
		rng := rand.New(rand.NewPCG(c.seed, uint64(30+i)))
		clients.Go(func() { k.member(ctx, c, rng) })
	}
	rng := rand.New(rand.NewPCG(c.seed, 40))
	clients.Go(func() { k.observe(ctx, c, rng) })
}

// client is one member, whose calls go to any broker.
type client struct {
	k        *consumers
	c        *cluster
	rng      *rand.Rand
	instance string
	next     map[int32]int64 // behind what it was given, of what it reads now
}

func (k *consumers) member(ctx context.Context, c *cluster, rng *rand.Rand) {
	m := &client{k: k, c: c, rng: rng}
	for ctx.Err() == nil {
		if m.instance == "" && !m.join(fmt.Sprintf("m%d", rng.IntN(4))) {
			pause(ctx, 300*time.Millisecond)
			continue
		}
		switch n := rng.IntN(40); {
		case n == 0:
			m.leave()
		case n == 1: // it stands still, doesn't know, and goes on
			m.k.silent(m.instance)
			pause(ctx, time.Duration(rng.IntN(20))*time.Second)
			if len(m.next) > 0 {
				m.commit()
			}
		default:
			m.work()
		}
		pause(ctx, time.Duration(rng.IntN(300))*time.Millisecond)
	}
}

// do asks any broker; false: nobody heard an answer.
func (m *client) do(call group.Call) (answer *group.Answer, err error, heard bool) {
	p, _, g := m.c.members[m.rng.IntN(len(m.c.members))].coordinating()
	if p == nil {
		return nil, nil, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(500+m.rng.IntN(8000))*time.Millisecond)
	defer cancel()
	call.Group = "g"
	answer, err = g.Do(ctx, &call)
	if now, _ := p.m.serving(); now != p {
		return nil, nil, false
	}
	if err == nil {
		m.k.alive(m.instance)
	}
	m.judge(err)
	return answer, err, true
}

// judge looks at an error: a member that is gone is one no more.
func (m *client) judge(err error) {
	var unknown *group.UnknownInstanceError
	var fenced *group.FencedError
	if errors.As(err, &unknown) || errors.As(err, &fenced) && fenced.Newest != "" {
		m.c.count("a member is gone")
		m.k.silent(m.instance)
		m.instance = ""
	}
}

func (m *client) join(name string) bool {
	takeOver := m.rng.IntN(2) == 0
	if !takeOver { // a name without a number means whoever has it last: nobody else has this one
		m.k.mu.Lock()
		name = fmt.Sprintf("one%d", m.k.tick())
		m.k.mu.Unlock()
	}
	options := group.Options{Reset: group.ResetEarliest, SessionTimeout: session, RequestTimeout: time.Second, MinBytes: 1}
	answer, err, heard := m.do(group.Call{Create: &group.Create{Name: name, TakeOver: takeOver, Options: options}})
	if !heard || err != nil {
		return false
	}
	instance := answer.Instance
	if _, err, heard := m.do(group.Call{Subscribe: &group.Subscribe{Instance: instance, Topics: []string{"t"}}}); !heard || err != nil {
		return false
	}
	m.instance, m.next = instance, map[int32]int64{}
	m.c.count("a member joined")
	return true
}

func (m *client) leave() {
	m.k.silent(m.instance)
	_, _, _ = m.do(group.Call{Leave: &group.Leave{Instance: m.instance}})
	m.instance = ""
}

// work polls once, and commits now and then.
func (m *client) work() {
	m.poll()
	if m.instance != "" && len(m.next) > 0 && m.rng.IntN(2) == 0 {
		m.commit()
	}
}

// poll reads as the handlers do.
func (m *client) poll() {
	p, b, g := m.c.members[m.rng.IntN(len(m.c.members))].coordinating()
	if p == nil {
		return
	}
	most := time.Duration(200+m.rng.IntN(3000)) * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), most+700*time.Millisecond)
	defer cancel()
	began := time.Now()
	poll, err := g.Poll(ctx, "g", group.Begin{Instance: m.instance, WaitMs: most.Milliseconds()})
	if took := time.Since(began); took > most+time.Second {
		m.c.history.mu.Lock()
		m.c.history.violate("a poll of %v took %v: %v", most, took, err)
		m.c.history.mu.Unlock()
	}
	if now, _ := p.m.serving(); now != p {
		if err == nil {
			_ = poll.End(ctx, false, nil)
		}
		return
	}
	if err != nil {
		m.judge(err)
		m.c.count("poll refused")
		return
	}
	if len(poll.State().Positions) == 0 {
		select {
		case <-poll.Changed():
			if err := poll.Renew(ctx); err != nil {
				m.judge(err)
				return
			}
		case <-ctx.Done():
		}
	}
	m.k.reads(poll.State().Instance, poll.State().Positions)
	m.read(ctx, p, b, poll)
}

// read gives the member records, and ends the poll.
func (m *client) read(ctx context.Context, p *process, b *replication.Broker, poll *group.Poll) {
	req := replication.FetchManyRequest{MaxBytes: 2 << 10, MaxWait: 200 * time.Millisecond}
	to := slices.Clone(poll.State().Positions)
	for i := range to {
		at := &to[i]
		at.Offset = max(at.Offset, 0)
		req.Positions = append(req.Positions, replication.Position{Topic: at.Topic, TopicID: at.TopicID, Partition: at.Partition, Offset: at.Offset})
	}
	if len(to) == 0 {
		_ = poll.End(ctx, true, nil)
		return
	}
	results := b.FetchMany(ctx, req)
	gone, _ := p.m.serving()
	written := gone == p && m.rng.IntN(10) > 0
	next := map[int32]int64{}
	for i, res := range results {
		at := &to[i]
		if res.Err == nil && written {
			at.Offset = m.given(at.Partition, at.Offset, res.FetchResult)
		}
		next[at.Partition] = at.Offset
	}
	if err := poll.End(ctx, written, to); err != nil {
		m.c.count("a poll's end was lost")
	}
	if written {
		m.next = next
	}
}

// given notes the records that the member gets.
func (m *client) given(num int32, from int64, res replication.FetchResult) int64 {
	next := m.c.history.read(num, from, res)
	m.k.mu.Lock()
	defer m.k.mu.Unlock()
	for offset := from; offset < next; offset++ {
		m.k.parts[num].processed[offset] = true
	}
	return next
}

// commit commits what the member was given: by naming it, or all.
func (m *client) commit() {
	byName := m.rng.IntN(3) > 0
	call := group.Commit{Instance: m.instance, All: !byName}
	instance := m.instance
	topic, ok := m.c.newestState().Topic("t")
	if !ok {
		return
	}
	if !byName { // as the handlers do
		answer, err, heard := m.do(group.Call{Member: &group.MemberQuery{Instance: instance, Answered: true}})
		if !heard || err != nil {
			m.c.count("commit: all of what isn't known")
			return
		}
		call.Answered = &answer.Member.Answered
	}
	m.k.mu.Lock()
	start := m.k.tick()
	ops := map[int32]*commitOp{}
	fenced := map[int32]string{}
	for num, offset := range m.next {
		op := &commitOp{by: instance, offset: offset, start: start, end: math.MaxInt64}
		ops[num] = op
		m.k.parts[num].commits = append(m.k.parts[num].commits, op)
		if by := m.k.owned(num); by != "" && !means(instance, by) {
			fenced[num] = by
		}
		if byName {
			call.Offsets = append(call.Offsets, group.CommitOffset{Position: group.Position{
				TopicPartition: group.TopicPartition{Topic: "t", TopicID: topic.ID, Partition: num}, Offset: offset, LeaderEpoch: -1}})
		}
	}
	m.k.mu.Unlock()
	_, err, heard := m.do(group.Call{Commit: &call})
	m.k.mu.Lock()
	end := m.k.tick()
	for num, op := range ops {
		switch {
		case !heard || errors.Is(err, group.ErrUnknownOutcome):
			continue
		case err != nil:
			op.failed = true
		case byName: // what "all" came to only the coordinator knows
			op.ok, op.end = true, end
		}
		if err == nil && byName && fenced[num] != "" && m.k.owned(num) == fenced[num] {
			m.c.history.mu.Lock()
			m.c.history.violate("V12: %s committed %d of %d, which %s reads", instance, op.offset, num, fenced[num])
			m.c.history.mu.Unlock()
		}
	}
	m.k.mu.Unlock()
	m.c.count(outcome(err, heard))
}

func outcome(err error, heard bool) string {
	var fenced *group.FencedError
	var few *replication.NotEnoughReplicasError
	switch {
	case !heard:
		return "commit: nobody heard"
	case err == nil:
		return "commit: done"
	case errors.Is(err, group.ErrUnknownOutcome):
		return "commit: unknown"
	case errors.Is(err, group.ErrNoCoordinator):
		return "commit: no coordinator"
	case errors.As(err, &fenced):
		return "commit: fenced"
	case errors.As(err, &few):
		return "commit: too few replicas"
	}
	return "commit: refused"
}

// owned is who reads a partition for sure. Call it under mu.
func (k *consumers) owned(num int32) string {
	by := k.parts[num].owner
	if by == "" || time.Since(k.heard[by]) > session/2 { // it may have expired
		return ""
	}
	return by
}

// alive notes that a member was answered.
func (k *consumers) alive(instance string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.heard[instance] = time.Now()
}

// silent notes that a member may be gone, and its partitions others'.
func (k *consumers) silent(instance string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, part := range k.parts {
		if means(instance, part.owner) {
			part.owner = ""
		}
	}
}

// means tells whether an instance, as a client names it, may be this one: the name
// alone means the newest of that name.
func means(instance, incarnation string) bool {
	plain, _, _ := strings.Cut(incarnation, "~")
	return instance == incarnation || instance == plain
}

// reads notes what a member was told that it reads.
func (k *consumers) reads(instance string, positions []group.Position) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.heard[instance] = time.Now()
	for num, part := range k.parts {
		mine := slices.ContainsFunc(positions, func(p group.Position) bool { return int(p.Partition) == num })
		switch {
		case mine:
			part.owner, part.since = instance, k.tick()
		case part.owner == instance:
			part.owner = ""
		}
	}
}

var groupEventsThatMustHappen = []string{"a member joined", "a member is gone", "commit: done", "commit: unknown", "commit: fenced", "committed: told",
	"crash", "all crash", "stop in order", "broker cut off"}

// Members come and go, brokers die, are cut off and come back: no commit that was
// answered is lost, nobody commits for what another one reads, no poll outlasts its
// time, and all that was acknowledged is given to somebody.
func TestSimGroups(t *testing.T) {
	first, seeds := envNumber(t, "HIGHWATER_SIM_FIRST", 0), envNumber(t, "HIGHWATER_SIM_SEEDS", 3)
	if os.Getenv("HIGHWATER_SIM_SEED") != "" {
		first, seeds = envNumber(t, "HIGHWATER_SIM_SEED", 0), 1
	}
	counts, events := map[string]int{}, map[string]int{}
	began := time.Now()
	for i := range seeds {
		one(t, first+i, counts, events, func(c *cluster) {
			c.partitions = 4
			c.history, c.consumers = newHistory(4), newConsumers(4)
		})
		if t.Failed() {
			t.Fatalf("seed %d failed: HIGHWATER_SIM_SEED=%d go test ./replication/sim -run Groups", first+i, first+i)
		}
	}
	t.Logf("%d seeds in %v", seeds, time.Since(began).Round(time.Millisecond))
	for _, m := range []map[string]int{counts, events} {
		for _, what := range slices.Sorted(maps.Keys(m)) {
			t.Logf("%7d %s", m[what], what)
		}
	}
	for _, what := range groupEventsThatMustHappen {
		if seeds >= 30 && counts[what] == 0 {
			t.Errorf("%q never happened: these runs are no evidence", what)
		}
	}
}
