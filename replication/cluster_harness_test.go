package replication

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/rs/zerolog"

	"highwater/replication/controller"
	"highwater/replication/wire"
	"highwater/storage"
)

// testCluster is some brokers in one process and one bubble of time, over a network
// and a metadata quorum that the test rules: it cuts links, and decides which
// broker learns of which metadata when. Logs are real files.
type testCluster struct {
	t       *testing.T
	opts    clusterOptions
	members []*member

	mu    sync.Mutex // guards what follows
	index uint64
	truth *controller.Memory
	log   []entry
	cut   map[[2]int32]bool // from, to
	// answered is called with each answer to a fetch before it travels back, if set.
	answered func(from, to int32, req *wire.FetchRequest, resp *wire.FetchResponse)
	calls    map[*call]struct{}
	// proposals answers a proposal of ISRs instead of the state machine, if set.
	proposals func(from int32, changes []wire.AlterPartition) (results []wire.AlterResult, err error, done bool)
}

type clusterOptions struct {
	brokers int
	lagMax  time.Duration
	config  func(*Config)
	// clock is a broker's wall clock, if it isn't the bubble's.
	clock func(id int32) time.Time
}

type entry struct {
	index   uint64
	command controller.Command
}

type call struct {
	from, to int32
	cancel   context.CancelFunc
}

// member is one broker with its own view of the metadata.
type member struct {
	*Broker
	c     *testCluster
	id    int32
	dir   string
	store *storage.Store
	meta  *controller.Memory
	epoch int64

	mu      sync.Mutex // guards what follows
	applied int        // of the cluster's log
	lagging bool       // learns of no metadata
	lonely  bool       // can't reach the controller
	expired bool       // its session may have ended

	cancel context.CancelFunc
	loops  sync.WaitGroup
	up     bool

	groups *groupRoom // nil: there is none
}

// inCluster runs a test with brokers 1 … n inside a bubble.
func inCluster(t *testing.T, o clusterOptions, test func(c *testCluster)) {
	t.Helper()
	if o.brokers == 0 {
		o.brokers = 3
	}
	dirs := make([]string, o.brokers)
	for i := range dirs {
		dirs[i] = t.TempDir()
	}
	synctest.Test(t, func(t *testing.T) {
		c := &testCluster{t: t, opts: o, truth: controller.NewMemory(), cut: map[[2]int32]bool{}, calls: map[*call]struct{}{}}
		c.apply(&controller.InitCluster{ClusterID: "test"})
		for i, dir := range dirs {
			c.members = append(c.members, &member{c: c, id: int32(i + 1), dir: dir})
		}
		for _, m := range c.members {
			m.start()
		}
		defer func() {
			for _, m := range c.members {
				if m.up {
					m.stop()
				}
			}
		}()
		test(c)
	})
}

func (c *testCluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// member is broker id.
func (c *testCluster) broker(id int32) *member { return c.members[id-1] }

// apply has the quorum agree on a command; those who don't lag learn of it.
func (c *testCluster) apply(cmd controller.Command) any {
	c.mu.Lock()
	c.index++
	c.log = append(c.log, entry{c.index, cmd})
	result := c.truth.Apply(cmd, c.index)
	c.mu.Unlock()
	for _, m := range c.members {
		m.learn(false)
	}
	return result
}

// learn applies what the quorum has agreed on, also while lagging if asked.
func (m *member) learn(anyway bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.meta == nil || m.lagging && !anyway {
		return
	}
	m.c.mu.Lock()
	news := m.c.log[m.applied:]
	m.applied = len(m.c.log)
	m.c.mu.Unlock()
	for _, e := range news {
		m.meta.Apply(e.command, e.index)
	}
}

// lag keeps the metadata from the broker, or lets it catch up.
func (m *member) lag(lagging bool) {
	m.mu.Lock()
	m.lagging = lagging
	m.mu.Unlock()
	m.learn(false)
}

// isolate cuts the broker off from the controller: it learns nothing, proposes
// nothing, and its session ends.
func (m *member) isolate(isolated bool) {
	m.mu.Lock()
	m.lonely, m.expired = isolated, isolated
	m.mu.Unlock()
	m.lag(isolated)
}

// start is a broker's start: it registers with what its disk holds, and unfences.
func (m *member) start() {
	t := m.c.t
	t.Helper()
	so := storage.Options{Dir: m.dir, Fsync: storage.FsyncCommit, Logger: zerolog.Nop()}
	if clock := m.c.opts.clock; clock != nil {
		so.Now = func() time.Time { return clock(m.id) }
	}
	var err error
	m.store, err = storage.Open(so)
	m.c.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	m.loops.Go(func() { m.check(m.store.Run(ctx)) })
	reg, err := Registration(ctx, m.store, m.c.truth.State(), m.id)
	m.c.must(err)
	m.mu.Lock()
	m.meta, m.applied = controller.NewMemory(), 0
	m.mu.Unlock()
	var replaces int64
	if old := m.c.truth.State().Brokers[m.id]; old != nil {
		replaces = old.Epoch
	}
	b, ok := m.c.apply(&controller.RegisterBroker{ID: m.id, Incarnation: uuid.New(), Replaces: replaces, URL: fmt.Sprint(m.id), Data: reg}).(*controller.Broker)
	if !ok {
		t.Fatal("the registration was refused")
	}
	m.epoch = b.Epoch
	cfg := Config{NodeID: m.id, Store: m.store, Controller: m.metadata(), Peers: &testPeers{m}, Logger: zerolog.New(zerolog.NewTestWriter(t)).With().Int32("broker", m.id).Logger(),
		LagMax: m.c.opts.lagMax, Fsync: so.Fsync}
	if m.c.opts.config != nil {
		m.c.opts.config(&cfg)
	}
	broker := New(cfg)
	m.mu.Lock()
	m.Broker = broker
	m.mu.Unlock()
	m.c.must(m.Broker.Start(ctx))
	m.reachable(true)
	m.loops.Go(func() { m.check(m.Broker.Run(ctx)) })
}

// reachable says whether the broker has a port.
func (m *member) reachable(up bool) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.up = up
}

func (m *member) check(err error) {
	if err != nil {
		m.c.t.Errorf("broker %d: %v", m.id, err)
	}
}

// appendSoon appends and tells the result later.
func (m *member) appendSoon(acks Acks, topic string, num int32, values ...string) <-chan AppendResult {
	m.c.t.Helper()
	done := make(chan AppendResult, 1)
	b := batch(m.c.t, values...)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		done <- m.appendLocal(ctx, acks, []AppendRequest{{Topic: topic, Partition: num, Batches: []storage.Batch{b}}})[0]
	}()
	return done
}

// fail is a broker's end and what the controller makes of it.
func (c *testCluster) fail(id int32) {
	c.t.Helper()
	c.broker(id).stop()
	c.fence(id)
	c.settle()
}

// leads fails unless the controller has named this leader and it leads.
func (c *testCluster) leads(id int32, topic string, num int32) {
	c.t.Helper()
	if meta := c.meta(topic, num); meta.Leader != id {
		c.t.Fatalf("%s-%d: %+v, want leader %d", topic, num, meta, id)
	}
	if !c.broker(id).replica(topic, num).leads(c.meta(topic, num).LeaderEpoch) {
		c.t.Fatalf("broker %d doesn't lead %s-%d", id, topic, num)
	}
}

// isr fails unless the committed ISR is this one.
func (c *testCluster) isr(topic string, num int32, want ...int32) {
	c.t.Helper()
	got := slices.Sorted(slices.Values(c.meta(topic, num).ISR))
	if !slices.Equal(got, want) {
		c.t.Errorf("%s-%d: ISR %v, want %v", topic, num, got, want)
	}
}

// figure reads a counter of a broker.
func figure(c prometheus.Counter) float64 {
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		panic(err)
	}
	return m.GetCounter().GetValue()
}

// stop ends a broker, cleanly as far as its disk goes.
func (m *member) stop() {
	m.c.t.Helper()
	if m.groups != nil {
		m.groups.stop()
	}
	m.c.must(m.Broker.Close(context.Background()))
	m.reachable(false)
	m.cancel()
	m.c.hangUp(func(*call) bool { return true }, m.id)
	m.loops.Wait()
	m.c.must(m.store.Close())
	m.mu.Lock()
	m.meta = nil
	m.mu.Unlock()
}

// fence is what the controller does when it hears no more of a broker.
func (c *testCluster) fence(id int32) {
	c.t.Helper()
	b := c.truth.State().Brokers[id]
	if err, ok := c.apply(&controller.SetBroker{ID: id, Epoch: b.Epoch, Fenced: true}).(error); ok {
		c.t.Fatal(err)
	}
}

func (c *testCluster) unfence(id int32) {
	c.t.Helper()
	b := c.truth.State().Brokers[id]
	if err, ok := c.apply(&controller.SetBroker{ID: id, Epoch: b.Epoch}).(error); ok {
		c.t.Fatal(err)
	}
}

// create makes a topic whose partitions have these replicas.
func (c *testCluster) create(name string, minInSync int, replicas ...[]int32) *controller.Topic {
	c.t.Helper()
	return c.createWith(controller.CreateTopic{Name: name, MinInSync: minInSync, Replicas: replicas})
}

func (c *testCluster) createWith(cmd controller.CreateTopic) *controller.Topic {
	c.t.Helper()
	cmd.ID = uuid.New()
	topic, ok := c.apply(&cmd).(*controller.Topic)
	if !ok {
		c.t.Fatal("the topic was refused")
	}
	time.Sleep(100 * time.Millisecond)
	return topic
}

// settle waits until nothing goes on any more but waiting.
func (c *testCluster) settle() { synctest.Wait() }

// meta is the truth about a partition.
func (c *testCluster) meta(topic string, num int32) *controller.Partition {
	c.t.Helper()
	t, ok := c.truth.State().Topic(topic)
	if !ok {
		c.t.Fatalf("no topic %s", topic)
	}
	return &t.Partitions[num]
}

// replica is a broker's replica of a partition, whatever its role.
func (m *member) replica(topic string, num int32) *Partition {
	m.c.t.Helper()
	t, err := m.localTopic(topic)
	m.c.must(err)
	p := t.partition(num)
	if p == nil {
		m.c.t.Fatalf("broker %d has no replica of %s-%d", m.id, topic, num)
	}
	return p
}

// append appends values, one batch, through the broker's own leadership.
func (m *member) append(acks Acks, topic string, num int32, values ...string) AppendResult {
	m.c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return m.appendLocal(ctx, acks, []AppendRequest{{Topic: topic, Partition: num, Batches: []storage.Batch{batch(m.c.t, values...)}}})[0]
}

func (m *member) mustAppend(acks Acks, topic string, num int32, values ...string) AppendResult {
	m.c.t.Helper()
	res := m.append(acks, topic, num, values...)
	m.c.must(res.Err)
	return res
}

// contents are the values of a replica's whole log, committed or not.
func (m *member) contents(topic string, num int32) []string {
	m.c.t.Helper()
	p := m.replica(topic, num)
	start, end := p.log.StartOffset(), p.log.WrittenEnd()
	var out []string
	for at := start; at < end; {
		r, err := p.log.Read(at, end, 1<<20, nil)
		m.c.must(err)
		for _, rec := range records(m.c.t, FetchResult{Data: r.Data, HighWatermark: end}, at) {
			out = append(out, string(rec.Value))
		}
		at = nextOffset(r.Data)
	}
	return out
}

// same fails unless the logs of these brokers are equal, byte by byte, with equal
// epochs (V23), and hold these values.
func (c *testCluster) same(topic string, num int32, want []string, ids ...int32) {
	c.t.Helper()
	var first []byte
	for i, id := range ids {
		m := c.broker(id)
		p := m.replica(topic, num)
		r, err := p.log.Read(p.log.StartOffset(), p.log.WrittenEnd(), 1<<30, nil)
		c.must(err)
		if i == 0 {
			first = slices.Clone(r.Data)
			if got := m.contents(topic, num); !slices.Equal(got, want) {
				c.t.Errorf("broker %d holds %q, want %q", id, got, want)
			}
			continue
		}
		if !slices.Equal(first, r.Data) {
			c.t.Errorf("V23: broker %d holds %q, broker %d %q", id, m.contents(topic, num), ids[0], c.broker(ids[0]).contents(topic, num))
		}
	}
}
