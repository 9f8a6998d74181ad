package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"highwater/replication/controller"
	"highwater/storage"
	"highwater/storage/vfs"
)

// cluster is one run.
type cluster struct {
	seed       uint64
	rng        *rand.Rand // the nemesis'
	began      time.Time
	partitions int
	fetchBytes int32 // a follower's bound; 1: it reads ahead whenever it misses two batches
	net        *network
	members    []*member
	history    *history
	processes  sync.WaitGroup
	logs       *logs
	newest     atomic.Pointer[controller.State]
	broken     bool       // a disk has failed in this run
	quiet      bool       // no client appends any more: replicas can be equal
	consumers  *consumers // with groups of consumers; nil: without
	ids        *idLoad    // with message ids and producers; nil: without
}

// logs keeps what the brokers log, and counts it.
type logs struct {
	mu     sync.Mutex // guards what follows
	buf    bytes.Buffer
	counts map[string]int
}

func (l *logs) Write(line []byte) (int, error) {
	var e struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(line, &e) != nil {
		e.Message = "?"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[e.Message]++
	return l.buf.Write(line)
}

func (c *cluster) logger(id int32) zerolog.Logger {
	return zerolog.New(c.logs).Level(zerolog.InfoLevel).Hook(zerolog.HookFunc(func(e *zerolog.Event, _ zerolog.Level, _ string) {
		e.Int64("ms", time.Since(c.began).Milliseconds())
	})).With().Int32("broker", id).Logger()
}

func (c *cluster) voters() map[int32]string {
	urls := map[int32]string{}
	for _, m := range c.members {
		urls[m.id] = urlOf(m.id)
	}
	return urls
}

// newestState is the newest metadata that any broker has had; nil: none yet.
func (c *cluster) newestState() *controller.State { return c.newest.Load() }

func (c *cluster) learn(s *controller.State) {
	for {
		known := c.newest.Load()
		if known != nil && known.Index >= s.Index || c.newest.CompareAndSwap(known, s) {
			return
		}
	}
}

// run is one seed, inside a bubble.
func run(t *testing.T, seed uint64, raftDirs []string, change ...func(*cluster)) *cluster {
	c := &cluster{seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), began: time.Now(), partitions: 2, fetchBytes: int32(seed % 2),
		net: newNetwork(rand.New(rand.NewPCG(seed, 2))), logs: &logs{counts: map[string]int{}}}
	c.history = newHistory(c.partitions)
	for i, dir := range raftDirs {
		c.members = append(c.members, &member{c: c, id: int32(i + 1), raftDir: dir, disk: newDisk(seed*10 + uint64(i))})
	}
	for _, f := range change {
		f(c)
	}
	for _, m := range c.members {
		m.start()
	}
	if !c.await(60*time.Second, c.allServe) {
		c.history.violate("V15: the cluster doesn't begin")
	} else if err := c.create(); err != nil {
		c.history.violate("no topic: %v", err)
	} else {
		c.live()
	}
	for _, m := range c.members {
		if p := m.running(); p != nil {
			p.crash(vfs.CrashKeepsAll)
		}
	}
	c.processes.Wait()
	c.compareDisks()
	c.net.pumps.Wait()
	time.Sleep(time.Minute) // for who ends with a timer: time stops with this goroutine
	return c
}

func (c *cluster) create() error {
	_, b := c.members[0].serving()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := b.CreateTopic(ctx, controller.CreateTopicRequest{Name: "t", Partitions: c.partitions, ReplicationFactor: 3, MinInSync: 2,
		Configs: c.configs()})
	return err
}

// live has clients work while things go wrong, then ends the faults and looks at
// what is left.
func (c *cluster) live() {
	ctx, stop := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	for i := range 4 {
		rng := rand.New(rand.NewPCG(c.seed, uint64(10+i)))
		clients.Go(func() { c.produce(ctx, rng) })
	}
	for i := range 2 {
		rng := rand.New(rand.NewPCG(c.seed, uint64(20+i)))
		clients.Go(func() { c.consume(ctx, rng) })
	}
	clients.Go(func() { c.watch(ctx) })
	if c.consumers != nil {
		c.consumers.start(ctx, c, &clients)
	}
	if c.ids != nil {
		c.ids.start(ctx, c, &clients)
	}
	for end := time.Now().Add(40 * time.Second); time.Now().Before(end); {
		time.Sleep(time.Duration(c.rng.IntN(2500)) * time.Millisecond)
		c.fault()
	}
	c.heal()
	whole := c.await(90*time.Second, c.whole)
	before := c.history.acknowledged()
	time.Sleep(2 * time.Second)
	// The last fault may be one that takes hold only now.
	serves := c.await(30*time.Second, func() bool {
		for num, n := range c.history.acknowledged() {
			if n == before[num] {
				return false
			}
		}
		return true
	})
	stop()
	clients.Wait()
	if whole && !serves {
		c.history.violate("V15: the cluster is whole, and acknowledges nothing in some partition: %v, and %v before", c.history.acknowledged(), before)
	}
	c.quiet = true
	if !whole || !c.await(20*time.Second, c.whole) {
		c.history.violate("V15: not whole again: %s", c.view())
		return
	}
	c.readAll()
	if c.consumers != nil {
		c.consumers.finish(c)
	}
	if c.ids != nil {
		c.remembered()
	}
}

// configs are the topic's.
func (c *cluster) configs() map[string]string {
	out := map[string]string{"segment.bytes": "4096"}
	if c.ids != nil {
		maps.Copy(out, c.ids.configs())
	}
	return out
}

// fault does one bad thing, or ends one.
func (c *cluster) fault() {
	m := c.members[c.rng.IntN(len(c.members))]
	other := c.members[c.rng.IntN(len(c.members))]
	kind := c.rng.IntN(14)
	mode := c.rng.IntN(vfs.CrashModes)
	p := m.running()
	switch {
	case p == nil:
		m.start()
	case kind < 3:
		c.count("crash")
		c.background(func() { p.crash(mode) })
	case kind == 3:
		c.count("stop in order")
		c.background(p.stop)
	case kind == 4: // all at once (F39)
		c.count("all crash")
		for _, m := range c.members {
			if p := m.running(); p != nil {
				c.background(func() { p.crash(mode) })
			}
		}
	case kind == 5 && m != other:
		c.count("link cut one way")
		c.net.setDark(m.id, other.id, true)
	case kind == 6:
		c.count("broker cut off")
		for _, o := range c.members {
			if o != m {
				c.net.setDark(m.id, o.id, true)
				c.net.setDark(o.id, m.id, true)
			}
		}
	case kind == 7 && m != other:
		c.count("slow link")
		c.net.setSlow(m.id, other.id, time.Duration(c.rng.IntN(800))*time.Millisecond)
	case kind == 8:
		c.count("connections reset")
		c.net.reset(func(conn *conn) bool { return conn.from == m.id || conn.to == m.id })
	case kind == 9:
		c.count("slow disk")
		delay := time.Duration(c.rng.IntN(400)) * time.Millisecond
		p.disk.SetDelay(func(op, _ string) time.Duration {
			if op == "sync" {
				return delay
			}
			return 0
		})
	case kind == 10 && !c.broken: // one: a second could be all that was left of a record (f = min - 1)
		c.broken = true
		c.count("broken disk")
		var once sync.Once
		p.disk.SetFault(func(op, _ string) (err error) {
			if op == "sync" {
				once.Do(func() { err = errBroken })
			}
			return err
		})
	case kind == 11:
		c.net.heal()
		p.disk.SetDelay(nil)
	default:
		c.net.heal()
	}
}

var errBroken = errors.New("input/output error")

// background does what takes simulated time, while other things go wrong.
func (c *cluster) background(do func()) { c.processes.Go(do) }

func (c *cluster) count(what string) { c.history.count(what) }

func (c *cluster) heal() {
	c.net.heal()
	for _, m := range c.members {
		m.mu.Lock()
		m.disk.SetDelay(nil)
		m.disk.SetFault(nil)
		m.mu.Unlock()
	}
}

// await looks again and again, and has who is down start.
func (c *cluster) await(most time.Duration, ok func() bool) bool {
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		for _, m := range c.members {
			m.start()
		}
		if ok() {
			return true
		}
	}
	return false
}

func (c *cluster) allServe() bool {
	for _, m := range c.members {
		if p, _ := m.serving(); p == nil {
			return false
		}
	}
	return true
}

// whole tells that all replicas are in sync and equally long.
func (c *cluster) whole() bool {
	if !c.allServe() {
		return false
	}
	topic, ok := c.newestState().Topic("t")
	if !ok {
		return false
	}
	for i := range topic.Partitions {
		if m := topic.Partitions[i]; len(m.ISR) != 3 || m.Leader == controller.NoLeader {
			return false
		}
	}
	ends := map[int32]int64{}
	for _, m := range c.members {
		p, b := m.serving()
		if p == nil {
			return false
		}
		parts := partitions(b)
		if len(parts) != c.partitions {
			return false
		}
		for _, d := range parts {
			end, seen := ends[d.Partition]
			if c.quiet && (seen && d.LogEnd != end || d.HighWatermark != d.LogEnd) {
				return false
			}
			ends[d.Partition] = d.LogEnd
		}
	}
	return true
}

func (c *cluster) view() string {
	var b strings.Builder
	if s := c.newestState(); s != nil {
		if topic, ok := s.Topic("t"); ok {
			fmt.Fprintf(&b, "%+v ", topic.Partitions)
		}
	}
	for _, m := range c.members {
		p, broker := m.serving()
		if p == nil {
			fmt.Fprintf(&b, "broker %d doesn't serve; ", m.id)
			continue
		}
		for _, d := range partitions(broker) {
			fmt.Fprintf(&b, "broker %d: %d %s epoch %d ends at %d, hw %d; ", m.id, d.Partition, d.Role, d.LeaderEpoch, d.LogEnd, d.HighWatermark)
		}
	}
	return b.String()
}

// readAll reads all partitions to their end: what was acknowledged must be there,
// what was refused must not, and nothing twice (V1, V2, V4, V5).
func (c *cluster) readAll() {
	h := c.history
	for num := range int32(c.partitions) {
		final, last := map[int64]string{}, map[string]int64{}
		_, b := c.members[c.rng.IntN(len(c.members))].serving()
		start := c.logStart(b, num)
		data, err := readPartition(b.Fetch, num, start)
		h.mu.Lock()
		if err != nil {
			h.violate("V15: partition %d can't be read: %v", num, err)
			h.mu.Unlock()
			continue
		}
		_ = eachRecord(data, func(offset int64, value string) {
			if offset < start {
				return // in the same batch
			}
			if at, twice := last[value]; twice && !c.ids.mayRepeat(value) {
				h.violate("V4: %q is at %d and at %d of %d", value, at, offset, num)
			}
			final[offset], last[value] = value, offset
			h.saw(num, offset, value, "the final log")
		})
		for offset, value := range h.parts[num].acked {
			if offset >= start && final[offset] != value {
				h.violate("V1: %q was acknowledged at %d of %d, and is lost", value, offset, num)
			}
		}
		h.mu.Unlock()
	}
}

// compareDisks compares the bytes of all replicas after the end (V23).
func (c *cluster) compareDisks() {
	topic := controllerTopic(c)
	if topic == nil || len(c.history.violations) > 0 {
		return
	}
	for num := range int32(c.partitions) {
		var first []byte
		for i, m := range c.members {
			data, err := readDisk(m.disk, m.id, storage.PartitionID{Topic: topic.ID, Partition: num}, c.ids)
			switch {
			case err != nil:
				c.history.violate("V23: broker %d's disk: %v", m.id, err)
			case i == 0:
				first = data
			case c.ids != nil && (bytes.HasSuffix(first, data) || bytes.HasSuffix(data, first)):
				// A deletion that its leader didn't live to see done: some begin later.
			case !bytes.Equal(first, data):
				c.history.violate("V23: brokers 1 and %d hold other bytes of %d", m.id, num)
			}
		}
	}
}

var eventsThatMustHappen = []string{"acks=-1", "acks=1", "outcome unknown", "not written", "crash", "all crash", "stop in order", "link cut one way", "broker cut off", "slow disk", "broken disk"}

func envNumber(t *testing.T, name string, otherwise uint64) uint64 {
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q is no number", name, s)
	}
	return n
}

func TestSim(t *testing.T) {
	first, seeds := envNumber(t, "HIGHWATER_SIM_FIRST", 0), envNumber(t, "HIGHWATER_SIM_SEEDS", 5)
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
		if one(t, seed, counts, events); i%100 == 99 {
			t.Logf("seed %d after %v", seed, time.Since(began).Round(time.Second))
		}
		if t.Failed() {
			t.Fatalf("seed %d failed: HIGHWATER_SIM_SEED=%d HIGHWATER_SIM_REPEAT=100 go test ./replication/sim", seed, seed)
		}
	}
	t.Logf("%d seeds in %v", seeds, time.Since(began).Round(time.Millisecond))
	for _, m := range []map[string]int{counts, events} {
		for _, what := range slices.Sorted(maps.Keys(m)) {
			t.Logf("%7d %s", m[what], what)
		}
	}
	if seeds >= 100 {
		for _, what := range eventsThatMustHappen {
			if counts[what] == 0 {
				t.Errorf("%q never happened: these runs are no evidence", what)
			}
		}
	}
}

func one(t *testing.T, seed uint64, counts, events map[string]int, change ...func(*cluster)) {
	dirs := []string{memoryDir(t), memoryDir(t), memoryDir(t)}
	var c *cluster
	func() {
		defer func() {
			if r := recover(); r != nil {
				leftBehind(t, r)
				counts["a raft that ended owes an answer"]++
			}
		}()
		synctest.Test(t, func(t *testing.T) { c = run(t, seed, dirs, change...) })
	}()
	for _, v := range c.history.violations[:min(len(c.history.violations), 20)] {
		t.Errorf("seed %d: %s", seed, v)
	}
	if t.Failed() {
		file := fmt.Sprintf("%s/highwater-sim-%d.log", os.TempDir(), seed)
		if err := os.WriteFile(file, c.logs.buf.Bytes(), 0o600); err == nil {
			t.Logf("the brokers' logs: %s", file)
		}
	}
	for what, n := range c.history.counts {
		counts[what] += n
	}
	for what, n := range c.logs.counts {
		events[what] += n
	}
}
