package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"highwater/handlers"
	"highwater/replication"
	"highwater/replication/controller"
	"highwater/replication/group"
	"highwater/replication/peer"
	"highwater/storage"
	"highwater/storage/vfs"
)

// process is one broker, from its port down to its disk.
type process struct {
	cfg     *config
	log     zerolog.Logger
	metrics *metrics

	url      string
	listener *listener
	gate     *gate
	http     *http.Server
	draining chan struct{}  // closed when the drain begins
	streams  sync.WaitGroup // tails, which http has forgotten
	requests ending         // what every request lives under

	peers    *peer.Client       // calls other brokers
	raft     *peer.Stream       // raft's connections, dialled and taken
	internal *handlers.Internal // what other brokers ask

	store  *storage.Store
	ctl    *controller.Controller
	broker *replication.Broker
	groups *group.Groups
	// stopGroups ends coordinating, before the appends of coordinators are waited for.
	stopGroups context.CancelFunc
}

func newProcess(cfg *config, log processLog) *process {
	p := &process{cfg: cfg, log: log.Logger, metrics: newMetrics(), gate: newGate(), draining: make(chan struct{})}
	p.metrics.registry.MustRegister(log.queue.collector())
	p.requests.ctx, p.requests.end = context.WithCancel(context.Background())
	return p
}

// ending is a context that outlives the call which made it, and its end.
type ending struct {
	ctx context.Context
	end context.CancelFunc
}

// start brings the rooms up from the outside in, so that the port answers health
// checks at once, and lets requests in when all of them stand (R66). Loops are
// started under loopsCtx. When it fails, stop takes down what stands.
func (p *process) start(ctx, loopsCtx context.Context, loops *errgroup.Group) (err error) {
	began := time.Now()

	// The port first: if it is taken nothing on disk has been touched; the real
	// port is part of the URL that the controller registers; a health check gets its
	// answer however long recovery takes; and the quorum's members need it to find
	// together.
	idleFiles, err := p.openPort(ctx, loops)
	if err != nil {
		return err
	}
	p.log.Info().Str("version", version).Stringer("listen", p.listener.Addr()).Str("data_dir", p.cfg.DataDir).Msg("starting")

	// The store before all that writes: it holds the lock on the directory.
	p.gate.phase("opening the data directory")
	if p.store, err = p.openStore(idleFiles); err != nil {
		return err
	}
	loops.Go(func() error { return p.store.Run(loopsCtx) }) // appends wait for its fsyncs

	// The metadata next: it says which partitions live here. As a member of the
	// quorum, or a listener to it, this broker catches up before it says of itself
	// that it is there.
	if err := p.openController(ctx, loopsCtx, loops); err != nil {
		return err
	}
	if err := p.register(ctx); err != nil {
		return err
	}

	// The broker opens its partitions, which Held has recovered, and has itself
	// unfenced: from then on it leads and follows.
	p.gate.phase("opening the partitions, and being let in by the controller")
	p.broker = replication.New(p.replicationConfig())
	if err := p.broker.Start(ctx); err != nil {
		return err
	}
	if err := errors.Join(p.metrics.registry.Register(p.broker.Collector()), p.metrics.registry.Register(p.ctl.Collector())); err != nil {
		return err
	}
	p.internal.SetBroker(p.broker)
	loops.Go(func() error { return p.broker.Run(loopsCtx) })

	// Consumer groups stand on a partition that is led: they load as it comes to be.
	p.groups = group.New(group.Config{NodeID: p.cfg.NodeID, Log: p.broker.GroupLog(), Metadata: p.ctl, Peers: p.peers, Errors: replication.GroupErrors{}, Logger: p.log})
	if err := p.metrics.registry.Register(p.groups.Collector()); err != nil {
		return err
	}
	p.internal.SetGroups(p.groups)
	groupsCtx, stopGroups := context.WithCancel(loopsCtx)
	p.stopGroups = stopGroups
	loops.Go(func() error { return p.groups.Run(groupsCtx) })

	// The gate last: nothing behind it is half built.
	p.gate.open(handlers.New(p.handlersConfig()))
	state := p.broker.State()
	p.log.Info().Str("version", version).Str("data_dir", p.cfg.DataDir).Stringer("listen", p.listener.Addr()).Str("url", p.url).
		Int32("node_id", p.cfg.NodeID).Int64("broker_epoch", p.ctl.BrokerEpoch()).Str("cluster_id", state.ClusterID).Int("brokers", len(state.Brokers)).Int("topics", state.TopicCount()).
		Str("fsync", string(p.cfg.Fsync)).Int64("start_ms", time.Since(began).Milliseconds()).Msg("serving")
	return nil
}

// openPort binds the address and serves what can be served without the rest.
func (p *process) openPort(ctx context.Context, loops *errgroup.Group) (idleFiles int, err error) {
	connections, idleFiles, err := shareDescriptors(p.cfg.MaxConnections)
	if err != nil {
		return 0, err
	}
	if p.listener, err = listen(ctx, p.cfg.Listen, connections, p.metrics); err != nil {
		return 0, err
	}
	if p.url = p.cfg.AdvertiseURL; p.url == "" {
		p.url = p.listener.url()
	}
	p.peers = peer.New(p.peerConfig())
	p.raft = peer.NewStream(p.peers)
	p.internal = handlers.NewInternal(handlers.InternalConfig{Logger: p.log, Metrics: p.metrics.registry, Secret: string(p.cfg.secret), Raft: p.raft,
		MaxRequestBytes: int64(p.cfg.MaxRequest), Draining: p.draining})
	p.http = newHTTPServer(p.cfg, p.internal.Before(p.gate), p.log)
	p.http.ConnState = p.listener.track
	p.http.BaseContext = func(net.Listener) context.Context { return p.requests.ctx }
	loops.Go(func() error { return p.serveHTTP() })
	return idleFiles, nil
}

// openController starts this broker's member of the quorum and waits until its
// metadata is as new as the quorum's.
func (p *process) openController(ctx, loopsCtx context.Context, loops *errgroup.Group) error {
	logs, err := p.store.LogsOnDisk()
	if err != nil {
		return err
	}
	cfg := controller.Config{Dir: filepath.Join(p.cfg.DataDir, "raft"), NodeID: p.cfg.NodeID, URL: p.url, Version: version, Logger: p.log,
		PartitionsOnDisk: len(logs) > 0, Cluster: p.cfg.Cluster.urls(), Peers: p.peers, Stream: p.raft,
		SessionTimeout: time.Duration(p.cfg.BrokerSessionTimeout), Timing: p.cfg.quorumTiming(),
		OutOfSpace:  p.store.MakeRoom,
		MinProtocol: p.cfg.Protocol.Low, MaxProtocol: p.cfg.Protocol.High}
	if p.cfg.Join != "" {
		cfg.Join = []string{p.cfg.Join}
	}
	if p.ctl, err = controller.Open(cfg); err != nil {
		return err
	}
	p.internal.SetController(p.ctl)
	loops.Go(func() error { return p.ctl.Run(loopsCtx) })
	p.gate.phase("waiting for the metadata quorum (most of its voters must run and reach each other)")
	if err := p.ctl.Connect(ctx); err != nil {
		return err
	}
	// Before anything is said in the cluster's name: is the directory of this one?
	return p.store.SetIdentity(p.ctl.State().ClusterID, p.cfg.NodeID)
}

// register tells the controller that this broker is there, fenced, and what its
// disk proves (R66, R71-R73).
func (p *process) register(ctx context.Context) error {
	p.gate.phase("recovering the logs")
	r, err := replication.Registration(ctx, p.store, p.ctl.State(), p.cfg.NodeID)
	if err != nil {
		return fmt.Errorf("--data-dir %s: %w", p.cfg.DataDir, err)
	}
	p.gate.phase("registering with the controller")
	if err := p.ctl.Register(ctx, r); err != nil {
		return err
	}
	p.store.SetBrokerEpoch(p.ctl.BrokerEpoch())
	return nil
}

// lameDuck is how long a draining broker still takes requests before its port
// closes: clients learn of it from an answer, and the connections that are in use end
// behind one. A lone broker refuses new produces meanwhile. One of a cluster serves
// them, and takes longer over it: a client's pool may hold connections that it uses
// now and then, and a request that meets a connection's end is lost for it.
const (
	lameDuckAlone    = 200 * time.Millisecond
	lameDuckOfOthers = time.Second
)

// stopErrors keeps a fatal loop apart from trouble while closing.
type stopErrors struct{ loops, closing error }

// stop takes the rooms down from the outside in. Each step relies on the rooms
// below it, which is why storage is last. Rooms that never came up are skipped.
func (p *process) stop(grace time.Duration, stopLoops func() error) (errs stopErrors) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()

	// 1. Say so: readyz is false.
	p.gate.drain()
	// 2. Others take over what this broker leads, while it serves on: what isn't its
	//    own any more it passes on, so that no client notices (R74). Where there is
	//    nobody else, new produces get 50305.
	lameDuck := lameDuckAlone
	if p.broker != nil {
		if p.handOver(ctx) {
			lameDuck = lameDuckOfOthers
		} else {
			p.broker.Drain()
			if p.groups != nil {
				p.groups.Drain() // there is no other coordinator to wait for
			}
		}
	}
	//    Streams end in order, long polls are answered, and each connection ends
	//    behind its answer, so that no client sends a request into one that is about
	//    to be cut. Shutdown below would wait for streams for ever.
	close(p.draining)
	// 3. Requests in flight get their answer; the port closes. The loops still
	//    run: an acks=-1 produce is waiting for the store's fsync.
	if p.http != nil {
		if p.broker != nil { // else there was nothing but health checks
			p.log.Info().Msg("draining")
		}
		p.shutdownHTTP(ctx, lameDuck)
	}
	if p.stopGroups != nil {
		p.stopGroups()
	}
	if p.broker != nil {
		// Appends outlive the connections they came by.
		if err := p.broker.Close(ctx); err != nil {
			p.log.Warn().Err(err).Msg("appends were still in flight")
		}
	}
	// 4. Nobody waits any more, so the loops may end: metadata, retention, fsync.
	errs.loops = stopLoops()
	// 5. The quorum before the store: nothing may change the metadata while logs close.
	var closing []error
	if p.ctl != nil {
		closing = append(closing, p.ctl.Close())
	}
	if p.peers != nil {
		closing = append(closing, p.raft.Close(), p.peers.Close())
	}
	// 6. The store last: it flushes, checkpoints and gives the lock back.
	if p.store != nil {
		closing = append(closing, p.store.Close())
	}
	errs.closing = errors.Join(closing...)
	if p.broker != nil && errs.loops == nil && errs.closing == nil {
		p.log.Info().Int64("stop_ms", time.Since(began).Milliseconds()).Msg("stopped")
	}
	return errs
}

// handOver has other brokers take over the partitions that this one leads. It is
// false when there are none, or this process isn't fit to take part.
func (p *process) handOver(ctx context.Context) bool {
	if !p.othersActive() || p.store.Failure() != nil {
		return false
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, handOverTime)
	defer cancel()
	held, resume := p.broker.HandOver(ctx)
	err := p.ctl.ControlledShutdown(ctx)
	resume() // what is led on is served on
	event := p.log.Info()
	if err != nil { // the others elect when this broker's session ends
		event = p.log.Warn().Err(err)
	}
	event.Int("partitions", held).Int64("took_ms", time.Since(began).Milliseconds()).Msg("handed over")
	return true
}

// othersActive tells whether another broker could lead.
func (p *process) othersActive() bool {
	for id, b := range p.broker.State().Brokers {
		if id != p.cfg.NodeID && !b.Fenced && !b.Draining {
			return true
		}
	}
	return false
}

func (p *process) openStore(idleFiles int) (*storage.Store, error) {
	opts := storage.Options{Dir: p.cfg.DataDir, Fsync: p.cfg.Fsync, FsyncInterval: time.Duration(p.cfg.FsyncInterval),
		ReserveBytes: int64(p.cfg.DiskReserve), NodeID: p.cfg.NodeID, MaxIdleFiles: idleFiles, Now: time.Now, Logger: p.log}
	if control := p.cfg.DiskFaults; control != "" {
		p.log.Warn().Str("control", control).Msg("disk faults are made on demand; this is no broker for records that anybody needs")
		opts.FS = vfs.NewFaults(vfs.OS{}, control,
			func(fault, name string) { p.log.Warn().Str("fault", fault).Str("file", name).Msg("disk fault made") },
			func(err error) { p.log.Error().Err(err).Str("control", control).Msg("disk faults not understood") })
	}
	figures := newStoreMetrics()
	figures.observe(&opts)
	store, err := storage.Open(opts)
	switch {
	case errors.Is(err, storage.ErrLocked):
		return nil, fmt.Errorf("--data-dir %s: %w: stop that one, or give this one a directory of its own", p.cfg.DataDir, err)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("--data-dir %s: %w: give the directory to the user whom the broker runs as, or name another one", p.cfg.DataDir, err)
	case err != nil:
		return nil, fmt.Errorf("--data-dir %s: %w", p.cfg.DataDir, err)
	}
	figures.store = store
	return store, p.metrics.registry.Register(figures)
}

func (p *process) peerConfig() peer.Config {
	cfg := peer.Config{Secret: string(p.cfg.secret), ClusterID: func() string { return p.store.Identity().ClusterID }}
	if len(p.cfg.PeerVia) > 0 {
		cfg.Dial = p.cfg.PeerVia.dialer(new(net.Dialer).DialContext)
	}
	return cfg
}

func (p *process) replicationConfig() replication.Config {
	return replication.Config{NodeID: p.cfg.NodeID, URL: p.url, Store: p.store, Controller: p.ctl, Peers: p.peers, Forward: p.peers,
		SessionTimeout: time.Duration(p.cfg.BrokerSessionTimeout),
		Logger:         p.log, Fsync: p.cfg.Fsync, LagMax: time.Duration(p.cfg.ReplicaLagTimeMax),
		CompactionInterval: time.Duration(p.cfg.CompactionInterval),
		Defaults: replication.Defaults{
			Partitions:        p.cfg.DefaultPartitions,
			ReplicationFactor: p.cfg.DefaultReplicationFactor,
			MinInSyncReplicas: p.cfg.MinInsyncReplicas,
			AutoCreateTopics:  p.cfg.AutoCreateTopics,
		}}
}

func (p *process) handlersConfig() handlers.Config {
	return handlers.Config{Broker: p.broker, Groups: p.groups, Logger: p.log, Metrics: p.metrics.registry, Version: version, AdvertiseURL: p.url,
		PublicURL: p.cfg.PublicURL, CommitMeaning: handlers.CommitMeaning(p.cfg.CommitOffsetMeaning == "last-processed"),
		DefaultAcks: replication.Acks(p.cfg.DefaultAcks), MaxRequestBytes: int64(p.cfg.MaxRequest),
		Now: time.Now, Draining: p.draining, LastCall: p.requests.ctx, Streams: &p.streams, Ready: p.ready}
}

// ready tells why this process doesn't serve in full: it starts or drains, or the
// cluster has fenced it.
func (p *process) ready() error {
	if err := p.gate.ready(); err != nil {
		return err
	}
	return p.broker.Ready()
}
