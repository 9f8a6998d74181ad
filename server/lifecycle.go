package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"highwater/handlers"
	"highwater/replication"
	"highwater/replication/controller"
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

	store  *storage.Store
	ctl    *controller.Controller
	broker *replication.Broker
}

func newProcess(cfg *config, log zerolog.Logger) *process {
	return &process{cfg: cfg, log: log, metrics: newMetrics(), gate: newGate(), draining: make(chan struct{})}
}

// start brings the rooms up from the outside in, so that the port answers health
// checks at once, and lets requests in when all of them stand. Loops are started
// under loopsCtx. When it fails, stop takes down what stands.
func (p *process) start(ctx, loopsCtx context.Context, loops *errgroup.Group) (err error) {
	began := time.Now()

	// The port first: if it is taken nothing on disk has been touched; the real
	// port is part of the URL that the controller registers; and a health check
	// gets its answer however long recovery takes.
	connections, idleFiles, err := shareDescriptors(p.cfg.MaxConnections)
	if err != nil {
		return err
	}
	if p.listener, err = listen(ctx, p.cfg.Listen, connections, p.metrics); err != nil {
		return err
	}
	if p.url = p.cfg.AdvertiseURL; p.url == "" {
		p.url = p.listener.url()
	}
	p.http = newHTTPServer(p.cfg, p.gate, p.log)
	loops.Go(func() error { return p.serveHTTP() })
	p.log.Info().Str("version", version).Stringer("listen", p.listener.Addr()).Str("data_dir", p.cfg.DataDir).Msg("starting")

	// The store before all that writes: it holds the lock on the directory.
	if p.store, err = p.openStore(idleFiles); err != nil {
		return err
	}
	loops.Go(func() error { return p.store.Run(loopsCtx) }) // appends wait for its fsyncs

	// The controller before the broker: it says which partitions live here.
	logs, err := p.store.LogsOnDisk()
	if err != nil {
		return err
	}
	if p.ctl, err = controller.Open(controller.Config{Dir: filepath.Join(p.cfg.DataDir, "raft"), NodeID: p.cfg.NodeID,
		URL: p.url, Version: version, Logger: p.log, PartitionsOnDisk: len(logs) > 0}); err != nil {
		return err
	}
	loops.Go(func() error { return p.ctl.Run(loopsCtx) })
	if err := p.ctl.Start(ctx); err != nil {
		return err
	}

	// The broker recovers every log before it follows the metadata.
	p.broker = replication.New(p.replicationConfig())
	if err := p.broker.Start(ctx); err != nil {
		return err
	}
	if err := p.metrics.registry.Register(p.broker.Collector()); err != nil {
		return err
	}
	loops.Go(func() error { return p.broker.Run(loopsCtx) })

	// The gate last: nothing behind it is half built.
	p.gate.open(handlers.New(p.handlersConfig()))
	state := p.broker.State()
	p.log.Info().Str("version", version).Str("data_dir", p.cfg.DataDir).Stringer("listen", p.listener.Addr()).Str("url", p.url).
		Int32("node_id", p.cfg.NodeID).Str("cluster_id", state.ClusterID).Int("topics", state.TopicCount()).
		Str("fsync", string(p.cfg.Fsync)).Int64("start_ms", time.Since(began).Milliseconds()).Msg("serving")
	return nil
}

// lameDuck is how long a draining broker still takes requests, refusing new
// produces, before its port closes: clients learn of it from an answer, and the
// connections that are in use end behind one.
const lameDuck = 200 * time.Millisecond

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
	// 2. Streams end in order, long polls are answered, new produces get 50305, and
	//    each connection ends behind its answer, so that no client sends a request
	//    into one that is about to be cut. Shutdown below would wait for streams
	//    for ever.
	if p.broker != nil {
		p.broker.Drain()
	}
	close(p.draining)
	// 3. Requests in flight get their answer; the port closes. The loops still
	//    run: an acks=-1 produce is waiting for the store's fsync.
	if p.http != nil {
		if p.broker != nil { // else there was nothing but health checks
			p.log.Info().Msg("draining")
		}
		p.shutdownHTTP(ctx)
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

func (p *process) replicationConfig() replication.Config {
	return replication.Config{NodeID: p.cfg.NodeID, URL: p.url, Store: p.store, Controller: p.ctl, Logger: p.log, Fsync: p.cfg.Fsync,
		Defaults: replication.Defaults{
			Partitions:        p.cfg.DefaultPartitions,
			ReplicationFactor: p.cfg.DefaultReplicationFactor,
			MinInSyncReplicas: p.cfg.MinInsyncReplicas,
			AutoCreateTopics:  p.cfg.AutoCreateTopics,
		}}
}

func (p *process) handlersConfig() handlers.Config {
	return handlers.Config{Broker: p.broker, Logger: p.log, Metrics: p.metrics.registry, Version: version, AdvertiseURL: p.url,
		DefaultAcks: replication.Acks(p.cfg.DefaultAcks), MaxRequestBytes: int64(p.cfg.MaxRequest),
		Now: time.Now, Draining: p.draining, Streams: &p.streams, Ready: p.ready}
}

// ready tells why this process doesn't serve in full: it starts or drains, or the
// cluster has fenced it.
func (p *process) ready() error {
	if err := p.gate.ready(); err != nil {
		return err
	}
	return p.broker.Ready()
}
