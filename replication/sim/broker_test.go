package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"highwater/handlers"
	"highwater/replication"
	"highwater/replication/controller"
	"highwater/replication/group"
	"highwater/replication/peer"
	"highwater/storage"
	"highwater/storage/vfs"
)

const (
	sessionTimeout = 3 * time.Second
	lagMax         = 2 * time.Second
	dataDir        = "/data"
)

// member is a broker: its disk, and one process after another.
type member struct {
	c       *cluster
	id      int32
	raftDir string // bbolt needs real files; what it commits is never lost here

	mu   sync.Mutex // guards what follows
	disk *vfs.Mem
	proc *process // the one that runs; nil: none
}

// process is what the program's main does, without the settings.
type process struct {
	m     *member
	log   zerolog.Logger
	disk  *vfs.Mem
	store *storage.Store
	ctl   *controller.Controller
	peers *peer.Client
	raft  *peer.Stream
	http  *http.Server

	mu     sync.Mutex // guards what follows
	broker *replication.Broker
	groups *group.Groups
	serves bool

	endGroups context.CancelFunc // ends coordinating; set with broker
	draining  chan struct{}
	ctx       context.Context
	cancel    context.CancelFunc
	loopsCtx  context.Context
	stopLoops context.CancelFunc
	loops     sync.WaitGroup
	begun     chan struct{} // closed when serve has returned
	gone      chan struct{} // closed when the process has ended
	ending    atomic.Bool   // somebody ends it
}

// serving is the broker that answers clients, or nil.
func (m *member) serving() (*process, *replication.Broker) {
	m.mu.Lock()
	p := m.proc
	m.mu.Unlock()
	if p == nil {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.serves {
		return nil, nil
	}
	return p, p.broker
}

// coordinating is the way to groups of the broker that answers clients, or nil.
func (m *member) coordinating() (*process, *replication.Broker, *group.Groups) {
	p, b := m.serving()
	if p == nil {
		return nil, nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p, b, p.groups
}

// partitions is what a broker says of its replicas of the clients' topic.
func partitions(b *replication.Broker) []replication.DebugPartition {
	return slices.DeleteFunc(b.DebugPartitions(), func(d replication.DebugPartition) bool { return d.Topic != "t" })
}

// start starts a process unless one runs.
func (m *member) start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc != nil {
		return
	}
	p := &process{m: m, log: m.c.logger(m.id), disk: m.disk, draining: make(chan struct{}), begun: make(chan struct{}), gone: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.loopsCtx, p.stopLoops = context.WithCancel(context.Background())
	m.proc = p
	m.c.processes.Go(func() {
		err := p.serve()
		close(p.begun)
		if err != nil {
			p.log.Info().Err(err).Msg("process ends")
			p.crash(vfs.CrashKeepsAll)
		}
	})
}

// loop runs something that ends the process when it ends before its time.
func (p *process) loop(run func(context.Context) error) {
	p.loops.Go(func() {
		err := run(p.loopsCtx)
		if p.loopsCtx.Err() == nil {
			p.log.Info().AnErr("error", err).Msg("process fails")
			p.m.c.processes.Go(func() { p.crash(vfs.CrashKeepsAll) })
		}
	})
}

// serve is the order of server's start (R66).
func (p *process) serve() error {
	id := p.m.id
	p.log.Info().Msg("process starts")
	l := p.m.c.net.listen(id)
	p.peers = peer.New(peer.Config{Secret: "sim", Dial: p.m.c.net.dial(id), ClusterID: func() string { return "" }})
	p.raft = peer.NewStream(p.peers)
	internal := handlers.NewInternal(handlers.InternalConfig{Logger: p.log, Secret: "sim", Raft: p.raft, Draining: p.draining})
	p.http = &http.Server{Handler: internal.Before(http.NotFoundHandler()), ReadHeaderTimeout: 10 * time.Second}
	p.loops.Go(func() { _ = p.http.Serve(l) })

	var err error
	if p.store, err = storage.Open(storage.Options{Dir: dataDir, FS: p.disk, Fsync: storage.FsyncCommit, NodeID: id, Now: time.Now, Logger: p.log}); err != nil {
		return err
	}
	p.loop(p.store.Run)
	logs, err := p.store.LogsOnDisk()
	if err != nil {
		return err
	}
	began := p.m.c.began
	p.ctl, err = controller.Open(controller.Config{Dir: p.m.raftDir, NodeID: id, URL: urlOf(id), Version: "sim", Logger: p.log, PartitionsOnDisk: len(logs) > 0,
		Cluster: p.m.c.voters(), Peers: p.peers, Stream: p.raft, SessionTimeout: sessionTimeout,
		Clock: func() time.Duration { return time.Since(began) }})
	if err != nil {
		return err
	}
	internal.SetController(p.ctl)
	p.loop(p.ctl.Run)
	p.loop(p.tellState)
	if err := p.ctl.Connect(p.ctx); err != nil {
		return err
	}
	if err := p.store.SetIdentity(p.ctl.State().ClusterID, id); err != nil {
		return err
	}
	if err := p.register(); err != nil {
		return err
	}
	b := replication.New(replication.Config{NodeID: id, URL: urlOf(id), Store: p.store, Controller: p.ctl, Peers: p.peers, Forward: p.peers,
		SessionTimeout: sessionTimeout, LagMax: lagMax, FetchPartitionBytes: p.m.c.fetchBytes, Logger: p.log, Fsync: storage.FsyncCommit})
	p.mu.Lock()
	p.broker = b
	p.mu.Unlock()
	if err := b.Start(p.ctx); err != nil {
		return err
	}
	if p.m.c.ids != nil {
		p.recovered(b)
	}
	internal.SetBroker(b)
	p.loop(b.Run)
	g := group.New(group.Config{NodeID: id, Log: b.GroupLog(), Metadata: p.ctl, Peers: p.peers, Errors: replication.GroupErrors{}, Logger: p.log})
	internal.SetGroups(g)
	groupsCtx, endGroups := context.WithCancel(p.loopsCtx)
	p.loops.Go(func() { _ = g.Run(groupsCtx) })
	p.mu.Lock()
	p.groups, p.endGroups = g, endGroups
	p.serves = true
	p.mu.Unlock()
	p.log.Info().Msg("process serves")
	return nil
}

// tellState keeps the run's view of the metadata as new as what any broker has
// ever applied: that is what was committed, whoever runs now.
func (p *process) tellState(ctx context.Context) error {
	for {
		changed := p.ctl.Changed()
		p.m.c.learn(p.ctl.State())
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

func (p *process) register() error {
	r, err := replication.Registration(p.ctx, p.store, p.ctl.State(), p.m.id)
	if err != nil {
		return err
	}
	if err := p.ctl.Register(p.ctx, r); err != nil {
		return err
	}
	p.store.SetBrokerEpoch(p.ctl.BrokerEpoch())
	return nil
}

// crash ends the process at once: nobody hears of it any more, and its disk is as
// a crash of that mode leaves it.
func (p *process) crash(mode int) {
	if p.ending.CompareAndSwap(false, true) {
		p.log.Info().Int("mode", mode).Msg("process crashes")
		p.m.c.net.unplug(p.m.id)
		p.mu.Lock()
		p.serves = false
		p.mu.Unlock()
		next := p.disk.Crash(mode)
		p.m.mu.Lock()
		p.m.disk = next
		p.m.mu.Unlock()
		p.down(time.Second)
	}
	<-p.gone
}

// stop ends the process in order, as server does; one that doesn't serve yet
// crashes.
func (p *process) stop() {
	p.mu.Lock()
	serves := p.serves
	p.mu.Unlock()
	if !serves {
		p.crash(vfs.CrashKeepsAll)
		return
	}
	if p.ending.CompareAndSwap(false, true) {
		p.log.Info().Msg("process stops")
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		p.mu.Lock()
		b := p.broker
		p.mu.Unlock()
		held, resume := b.HandOver(ctx)
		err := p.ctl.ControlledShutdown(ctx)
		resume()
		p.log.Info().AnErr("error", err).Int("partitions", held).Msg("process handed over")
		p.mu.Lock()
		p.serves = false
		p.mu.Unlock()
		close(p.draining)
		_ = p.http.Shutdown(ctx)
		p.down(10 * time.Second)
	}
	<-p.gone
}

// down takes the rooms down from the outside in.
func (p *process) down(grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	p.cancel()
	<-p.begun
	_ = p.http.Close()
	p.mu.Lock()
	b := p.broker
	if p.endGroups != nil {
		p.endGroups()
	}
	p.mu.Unlock()
	if b != nil {
		_ = b.Close(ctx)
	}
	p.stopLoops()
	if p.ctl != nil {
		_ = p.ctl.Close()
	}
	_ = p.raft.Close()
	_ = p.peers.Close()
	p.m.c.net.unplug(p.m.id)
	p.loops.Wait()
	if p.store != nil {
		if err := p.store.Close(); err != nil && !errors.Is(err, vfs.ErrCrashed) {
			p.log.Info().Err(err).Msg("store closed")
		}
	}
	p.log.Info().Msg("process ended")
	p.m.mu.Lock()
	p.m.proc = nil
	p.m.mu.Unlock()
	close(p.gone)
}

// running is the process, or nil.
func (m *member) running() *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.proc
}

func newDisk(seed uint64) *vfs.Mem {
	d := vfs.NewMem(rand.New(rand.NewPCG(seed, 7)), "/")
	d.SetNow(time.Now)
	return d
}
