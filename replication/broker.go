// Package replication is what the brokers agree on about records: leaders,
// followers, in-sync replicas, high watermarks. It speaks no HTTP and opens no
// segment.
package replication

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"highwater/replication/controller"
	"highwater/replication/replica"
	"highwater/storage"
)

// Defaults are the broker-wide answers to what a topic leaves open.
type Defaults struct {
	Partitions        int // 0: 1
	ReplicationFactor int // 0: 3, or the number of brokers if that is less
	MinInSyncReplicas int // 0: 2 when a topic has 3 replicas or more, else 1
	AutoCreateTopics  bool
}

// Config of a Broker.
type Config struct {
	NodeID     int32
	URL        string
	Defaults   Defaults
	Store      *storage.Store
	Controller Metadata
	Logger     zerolog.Logger
	// Peers reaches the other brokers; nil: there are none.
	Peers Peers
	// Forward reaches the leaders of partitions that aren't led here; nil: nobody can
	// be asked.
	Forward Caller
	// SessionTimeout is the brokers', after which a dead leader is replaced; 0: 6 s.
	SessionTimeout time.Duration
	// LagMax is replica.lag.time.max; 0: 10 s.
	LagMax time.Duration
	// FetchPartitionBytes is how much of one partition a follower asks for at once, a
	// whole batch at least (replica.fetch.max.bytes); 0: 4 MiB.
	FetchPartitionBytes int32
	// CompactionInterval is how often logs to compact are looked for; 0: 15 s.
	CompactionInterval time.Duration
	// Fsync is the store's mode; it decides what an answer may say was proved.
	Fsync storage.Fsync
}

// Broker is the replication room of one process: the partitions that live here.
//
// Goroutines: Run follows the metadata, applies retention, fetches from each
// broker that leads partitions of ours (fetcher.go), proposes ISRs (isr.go), looks
// after the session (confirm.go) and sends notices; each partition with appends
// that wait for the disk has one syncer while they wait (append.go). Run and Close
// wait for all of them. None is a partition's own.
type Broker struct {
	cfg            Config
	configDefaults controller.ConfigDefaults
	metrics        *metrics

	mu     sync.RWMutex // guards the maps; a topic is in both or in neither
	byName map[string]*topic
	byID   map[uuid.UUID]*topic

	// turn holds one token; whoever has it may materialise: use cursor and retry
	// and change the maps. It is held while logs are opened.
	turn    chan struct{}
	cursor  *controller.Cursor
	retry   map[uuid.UUID]struct{}       // topics with an offline partition
	brokers map[int32]*controller.Broker // of the metadata that was materialised last

	rules     replica.Options
	followers *followers
	sessions  *sessions
	isr       *isrManager
	notices   *notices
	repairs   *repairs
	starts    *starts
	watcher   *watcher       // of partitions led elsewhere
	watched   *watchSessions // of other brokers' watchers
	share     *readShare     // of reads at other brokers
	fates     *fates         // of other brokers

	cleaner chan struct{} // holds a token while a log is compacted
	imports chan struct{} // holds a token for each import under way

	appends gate           // appends in flight
	syncers sync.WaitGroup // running syncers
	drain   chan struct{}  // closed by Drain: waiting reads end
	once    sync.Once      // closes drain
	started atomic.Bool    // Start is done
}

// New makes a Broker; Start opens its partitions and Run follows the metadata.
func New(cfg Config) *Broker {
	if cfg.LagMax == 0 {
		cfg.LagMax = defaultLagMax
	}
	if cfg.FetchPartitionBytes == 0 {
		cfg.FetchPartitionBytes = defaultFetchPartitionBytes
	}
	if cfg.SessionTimeout == 0 {
		cfg.SessionTimeout = defaultSessionTimeout
	}
	b := &Broker{cfg: cfg, metrics: newMetrics(), byName: map[string]*topic{}, byID: map[uuid.UUID]*topic{},
		turn: make(chan struct{}, 1), retry: map[uuid.UUID]struct{}{}, drain: make(chan struct{}), configDefaults: configDefaults(cfg.Defaults)}
	b.appends.init()
	b.cleaner, b.imports = make(chan struct{}, 1), make(chan struct{}, maxImports)
	b.rules = replica.Options{LagMax: cfg.LagMax, Alive: b.alive}
	b.followers, b.isr, b.notices, b.sessions = newFollowers(b), newISRManager(b), newNotices(), newSessions()
	b.repairs, b.starts = newRepairs(), newStarts()
	b.watcher, b.watched, b.share, b.fates = newWatcher(b), newWatchSessions(), newReadShare(), newFates()
	return b
}

// Start opens and recovers every partition that the metadata puts on this
// broker, and sets aside those on disk that it doesn't know (R85).
func (b *Broker) Start(ctx context.Context) error {
	state := b.State()
	if err := b.cfg.Store.SetIdentity(state.ClusterID, b.cfg.NodeID); err != nil {
		return err
	}
	if me := state.Brokers[b.cfg.NodeID]; me != nil {
		b.cfg.Store.SetBrokerEpoch(me.Epoch)
	}
	b.cursor = b.cfg.Controller.Watch()
	b.turn <- struct{}{}
	if err := b.setAsideStrays(); err != nil {
		return err
	}
	if err := b.catchUp(ctx); err != nil {
		return err
	}
	// The logs stand: from here on this broker may lead (R66).
	if err := b.cfg.Controller.Unfence(ctx); err != nil {
		return err
	}
	if err := b.catchUp(ctx); err != nil {
		return err
	}
	b.started.Store(true)
	return nil
}

// Run follows metadata changes and applies retention until ctx ends. An error is
// final: the process must stop (S4).
func (b *Broker) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context){b.followers.run, b.isr.run, b.watchSession, b.runCompaction, b.runNotices, b.runRepairs, b.runStarts, b.watcher.run, b.watched.run} {
		loops.Go(func() { loop(ctx) })
	}
	retention := make(chan error, 1)
	go func() {
		err := b.runRetention(ctx)
		if err != nil {
			cancel()
		}
		retention <- err
	}()
	err := b.follow(ctx)
	cancel()
	loops.Wait()
	return errors.Join(err, <-retention)
}

// alive tells a broker's epoch, and whether it may join an ISR (R42).
func (b *Broker) alive(id int32) (epoch int64, ok bool) {
	broker := b.State().Brokers[id]
	if broker == nil {
		return 0, false
	}
	return broker.Epoch, !broker.Fenced && !broker.Draining
}

// Drain ends the intake: appends from now on are refused with ErrShuttingDown,
// waiting reads return what they have. Appends in flight go on.
func (b *Broker) Drain() {
	b.appends.shut()
	b.once.Do(func() { close(b.drain) })
}

// Draining tells whether Drain was called.
func (b *Broker) Draining() bool {
	select {
	case <-b.drain:
		return true
	default:
		return false
	}
}

// Close drains and returns when every append in flight is answered, or ctx ends.
// Order of a shutdown: Close first, while the store still writes and the
// controller still knows the topics; then the end of Run, the controller, the
// store.
func (b *Broker) Close(ctx context.Context) error {
	b.Drain()
	done := make(chan struct{})
	go func() {
		<-b.appends.idle
		b.syncers.Wait()
		b.share.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gate counts what is inside, until it is shut and everybody has left.
type gate struct {
	mu   sync.Mutex    // guards n and down
	n    int           // inside
	down bool          // nobody gets in any more
	idle chan struct{} // closed when shut and empty
}

func (g *gate) init() { g.idle = make(chan struct{}) }

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.down {
		return false
	}
	g.n++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n--
	if g.down && g.n == 0 {
		close(g.idle)
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.down {
		return
	}
	g.down = true
	if g.n == 0 {
		close(g.idle)
	}
}
