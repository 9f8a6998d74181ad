package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"highwater/replication"
	"highwater/storage"
)

// idLoad is clients that send every message again and again, under its id or their
// producer's sequence numbers, others that have records deleted and look messages up.
type idLoad struct {
	age    time.Duration
	most   int64
	repeat bool // the window is so small that a message may be sent again after it

	mu      sync.Mutex // guards what follows
	deleted []int64    // by partition: the most that somebody wanted to have deleted
	known   []*message // acknowledged by all in sync
}

// message is one that is sent under its own id.
type message struct {
	num    int32
	value  string // the id, too
	maybe  bool   // some attempt may have brought it into the log
	offset int64  // where an acknowledgement says it is, once it is in known
}

func newIDLoad(seed uint64, partitions int) *idLoad {
	l := &idLoad{age: time.Hour, most: 1_000_000, deleted: make([]int64, partitions)}
	if seed%4 == 3 {
		l.age, l.most, l.repeat = 3*time.Second, 30, true
	}
	return l
}

func (l *idLoad) configs() map[string]string {
	return map[string]string{"dedupe.window.ms": strconv.FormatInt(l.age.Milliseconds(), 10), "dedupe.window.count": strconv.FormatInt(l.most, 10)}
}

// mayRepeat tells whether a value may be in the log twice.
func (l *idLoad) mayRepeat(value string) bool {
	return l != nil && l.repeat && strings.HasPrefix(value, "id")
}

func (l *idLoad) deletedUpTo(num int32) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deleted[num]
}

func (l *idLoad) start(ctx context.Context, c *cluster, clients *sync.WaitGroup) {
	for i := range 4 {
		rng := rand.New(rand.NewPCG(c.seed, uint64(40+i)))
		clients.Go(func() { c.resend(ctx, rng) })
	}
	for i := range 2 * c.partitions {
		rng := rand.New(rand.NewPCG(c.seed, uint64(50+i)))
		clients.Go(func() { c.sequence(ctx, rng, int64(i+1), int32(i%c.partitions)) })
	}
	rng := rand.New(rand.NewPCG(c.seed, 60))
	clients.Go(func() { c.deleteRecords(ctx, rng) })
	other := rand.New(rand.NewPCG(c.seed, 61))
	clients.Go(func() { c.lookUp(ctx, other) })
}

// resend is a client that sends some new messages each time, and some again.
func (c *cluster) resend(ctx context.Context, rng *rand.Rand) {
	h := c.history
	mine := make([][]*message, c.partitions)
	for ctx.Err() == nil {
		pause(ctx, time.Duration(rng.IntN(150))*time.Millisecond)
		num := int32(rng.IntN(c.partitions))
		var some []*message
		h.mu.Lock()
		for range 1 + rng.IntN(3) {
			if old := mine[num]; len(old) > 0 && rng.IntN(2) == 0 {
				m := old[rng.IntN(len(old))]
				if !slices.Contains(some, m) {
					some = append(some, m)
				}
				continue
			}
			h.next++
			m := &message{num: num, value: fmt.Sprintf("id%d", h.next)}
			h.parts[num].written[m.value] = true
			some, mine[num] = append(some, m), append(mine[num], m)
		}
		twice := rng.IntN(8) == 0
		for _, m := range some {
			m.maybe = m.maybe || twice
			delete(h.parts[num].refused, m.value)
		}
		h.mu.Unlock()
		if twice { // a client that doesn't wait for its first attempt
			other := rand.New(rand.NewPCG(rng.Uint64(), 0))
			var both sync.WaitGroup
			both.Go(func() { c.sendMessages(other, num, some) })
			c.sendMessages(rng, num, some)
			both.Wait()
			continue
		}
		c.sendMessages(rng, num, some)
	}
}

// sendMessages sends them through any broker.
func (c *cluster) sendMessages(rng *rand.Rand, num int32, some []*message) {
	p, b := c.members[rng.IntN(len(c.members))].serving()
	if p == nil {
		return
	}
	h := c.history
	acks := []replication.Acks{replication.AcksAll, replication.AcksAll, replication.AcksAll, replication.AcksLeader, replication.AcksNone}[rng.IntN(5)]
	builder := storage.BatchBuilder{AppendTime: time.Now().UnixMilli()}
	for _, m := range some {
		builder.Append(&storage.Record{Timestamp: time.Now().UnixMilli(), Value: []byte(m.value),
			Headers: []storage.Header{{Key: []byte(storage.MessageIDHeader), Value: []byte(m.value)}}})
	}
	batch, err := builder.Seal(storage.CompressionNone, nil)
	if err != nil {
		panic(err)
	}
	timeout, cancel := context.WithTimeout(context.Background(), time.Duration(500+rng.IntN(6000))*time.Millisecond)
	res := b.Append(timeout, acks, []replication.AppendRequest{{Topic: "t", Partition: num, Batches: []storage.Batch{batch}}})[0]
	cancel()
	h.mu.Lock()
	defer h.mu.Unlock()
	if now, _ := p.m.serving(); now != p {
		h.counts["answer of a process that is gone"]++
		for _, m := range some {
			m.maybe = true
		}
		return
	}
	c.told(num, acks, some, &res)
}

// told notes what a client was told of its messages. Call it under the history's mu.
func (c *cluster) told(num int32, acks replication.Acks, some []*message, res *replication.AppendResult) {
	h, t := c.history, c.history.parts[num]
	switch {
	case res.Err != nil && !res.Unknown:
		h.counts["ids: not written"]++
		var reused *storage.MessageReusedError
		if errors.As(res.Err, &reused) {
			h.violate("D7: %q: %v", some[reused.Record].value, res.Err)
		}
		for _, m := range some {
			if m.maybe {
				continue
			}
			t.refused[m.value] = true
			for offset, v := range t.at {
				if v == m.value {
					h.violate("V17: %q at %d of %d was read, and then answered with not_written: %v", v, offset, num, res.Err)
				}
			}
		}
		return
	case res.Err != nil:
		h.counts["ids: outcome unknown"]++
	case acks == replication.AcksAll:
		h.counts["ids: acks=-1"]++
		for i, m := range some {
			offset := res.BaseOffset + int64(i)
			if res.Offsets != nil {
				offset = res.Offsets[i]
			}
			if res.Duplicate != nil && res.Duplicate[i] {
				h.counts["ids: duplicate"]++
			}
			if was, ok := t.acked[offset]; ok && was != m.value {
				h.violate("V5: %q is said to be at %d of %d, where %q is", m.value, offset, num, was)
			}
			t.acked[offset] = m.value
			h.saw(num, offset, m.value, "an acknowledgement")
			c.ids.acknowledged(h, m, offset)
		}
	}
	for _, m := range some {
		m.maybe = true
		delete(t.refused, m.value)
	}
}

// acknowledged notes where a message is: every acknowledgement says the same (V5).
func (l *idLoad) acknowledged(h *history, m *message, offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.known, m); i < 0 {
		l.known = append(l.known, m)
	} else if m.offset != offset && !l.repeat {
		h.violate("V5: %q was said to be at %d of %d, and now at %d", m.value, m.offset, m.num, offset)
	}
	m.offset = offset
}

// deleteRecords has the oldest records of a partition deleted now and then.
func (c *cluster) deleteRecords(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		pause(ctx, time.Duration(2+rng.IntN(6))*time.Second)
		num := int32(rng.IntN(c.partitions))
		c.history.mu.Lock()
		before := c.history.parts[num].trueHW * int64(rng.IntN(11)) / 10
		c.history.mu.Unlock()
		_, b := c.members[rng.IntN(len(c.members))].serving()
		if b == nil || before == 0 {
			continue
		}
		c.ids.mu.Lock()
		c.ids.deleted[num] = max(c.ids.deleted[num], before)
		c.ids.mu.Unlock()
		timeout, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		if _, err := b.DeleteRecords(timeout, "t", num, before); err == nil {
			c.count("ids: records deleted")
		}
		cancel()
	}
}

// lookUp asks for messages that were acknowledged: they are where that said, or were
// deleted since.
func (c *cluster) lookUp(ctx context.Context, rng *rand.Rand) {
	h, l := c.history, c.ids
	for ctx.Err() == nil {
		pause(ctx, time.Duration(rng.IntN(500))*time.Millisecond)
		h.mu.Lock() // what is known of a message besides its place
		l.mu.Lock()
		var m message
		if n := len(l.known); n > 0 {
			m = *l.known[rng.IntN(n)]
		}
		l.mu.Unlock()
		h.mu.Unlock()
		p, b := c.members[rng.IntN(len(c.members))].serving()
		if p == nil || m.value == "" {
			continue
		}
		timeout, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		found, err := b.FindMessage(timeout, "t", m.value)
		cancel()
		if now, _ := p.m.serving(); now != p {
			continue
		}
		unknown := (*replication.UnknownMessageError)(nil)
		h.mu.Lock()
		switch {
		case err == nil && (string(found.Record.Value) != m.value || !l.repeat && found.Record.Offset != m.offset || found.Partition != m.num):
			h.violate("V5: %q is at %d of %d, and the look-up says %+v", m.value, m.offset, m.num, found)
		case err == nil:
			h.counts["ids: found"]++
		case errors.As(err, &unknown) && unknown.Offset < 0 && !l.repeat:
			h.violate("V5: %q is at %d of %d, and the look-up through %d says %v", m.value, m.offset, m.num, p.m.id, err)
		case errors.As(err, &unknown) && m.offset >= l.deletedUpTo(m.num) && !l.repeat:
			h.violate("V5: %q is at %d of %d, deleted up to %d, and the look-up says %v", m.value, m.offset, m.num, l.deletedUpTo(m.num), err)
		case errors.As(err, &unknown):
			h.counts["ids: found to be gone"]++
		default:
			h.counts["ids: look-up refused"]++
		}
		h.mu.Unlock()
	}
}

var idEventsThatMustHappen = []string{"ids: acks=-1", "ids: duplicate", "ids: outcome unknown", "ids: not written", "ids: records deleted", "ids: found", "ids: found to be gone",
	"ids: a producer's duplicate", "ids: recomputed", "crash", "all crash", "stop in order", "broker cut off"}

// Every message is sent again and again through any broker, while brokers die, are cut
// off and come back, and records are deleted under their ids: each is stored once, every
// answer names where it is, and what a replica remembers is what its log says (V4, V5,
// V29; F56, F57, F65).
func TestSimIDs(t *testing.T) {
	first, seeds := envNumber(t, "HIGHWATER_SIM_FIRST", 0), envNumber(t, "HIGHWATER_SIM_SEEDS", 4)
	if os.Getenv("HIGHWATER_SIM_SEED") != "" {
		first, seeds = envNumber(t, "HIGHWATER_SIM_SEED", 0), envNumber(t, "HIGHWATER_SIM_REPEAT", 1)
	}
	counts, events := map[string]int{}, map[string]int{}
	began := time.Now()
	for i := range seeds {
		seed := first + i
		if os.Getenv("HIGHWATER_SIM_SEED") != "" {
			seed = first
		}
		one(t, seed, counts, events, func(c *cluster) { c.ids = newIDLoad(seed, c.partitions) })
		if t.Failed() {
			t.Fatalf("seed %d failed: HIGHWATER_SIM_SEED=%d HIGHWATER_SIM_REPEAT=100 go test ./replication/sim -run IDs", seed, seed)
		}
		if i%50 == 49 {
			t.Logf("seed %d after %v", seed, time.Since(began).Round(time.Second))
		}
	}
	t.Logf("%d seeds in %v", seeds, time.Since(began).Round(time.Millisecond))
	for _, m := range []map[string]int{counts, events} {
		for _, what := range slices.Sorted(maps.Keys(m)) {
			t.Logf("%7d %s", m[what], what)
		}
	}
	for _, what := range idEventsThatMustHappen {
		if seeds >= 30 && counts[what] == 0 {
			t.Errorf("%q never happened: these runs are no evidence", what)
		}
	}
}
