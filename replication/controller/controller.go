// Package controller is the metadata quorum: brokers, topics, partitions and
// configs as a deterministic state machine on hashicorp/raft. No record passes
// through it and it opens no segment.
//
// A broker is a member of the quorum from Connect on, has an epoch from Register
// on, and leads partitions from Unfence on. Its goroutines: supervise, from the
// moment that raft runs until Close; lead, while this member leads the quorum; the
// session's, under Run; and raft's own.
package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"highwater/replication/wire"
)

// Config of a Controller.
type Config struct {
	Dir     string // raft's own directory
	NodeID  int32
	URL     string // this broker's advertised URL
	Version string
	Logger  zerolog.Logger
	// PartitionsOnDisk: the data directory holds partitions. Then a missing
	// metadata directory is a loss, not a new cluster.
	PartitionsOnDisk bool

	// Cluster is --cluster: the URLs of the initial voters by broker id, 1, 3 or 5
	// of them, this one among them; the same on each. Empty: this broker alone.
	Cluster map[int32]string
	// Join is --join: URLs of members of a cluster that this broker is to join. It
	// is asked for once; after that the directory remembers.
	Join []string
	// Peers and Stream reach the other brokers' controllers; nil: there are none,
	// and never will be. Close closes Stream.
	Peers  Peers
	Stream StreamLayer
	// SessionTimeout is how long after a broker's last heartbeat it is fenced
	// (R70); 0: 6 s.
	SessionTimeout time.Duration
	// MinProtocol and MaxProtocol are the versions of wire that this broker says it
	// speaks (R100); 0: what it does speak.
	MinProtocol, MaxProtocol int
	// Timing of elections; zero: as suits the number of voters.
	Timing Timing
	// OutOfSpace is called when a write found the disk full, and may make room; nil: none can.
	OutOfSpace func()
	// Clock tells time since some moment for sessions, instead of the machine's that
	// never jumps, in simulations; nil: that.
	Clock func() time.Duration

	trailingLogs *uint64 // instead of the constant, for tests of snapshots; nil: that
}

const (
	// transferTimeout, leaveTimeout, snapshotTimeout, answerTimeout and
	// shutdownTimeout bound Close (K16).
	transferTimeout = 2 * time.Second
	leaveTimeout    = time.Second
	snapshotTimeout = 2 * time.Second
	answerTimeout   = time.Second // a leader without a quorum gives up sooner (K17)
	shutdownTimeout = 4 * time.Second

	// closeSnapshotThreshold is the number of entries behind the newest snapshot
	// from which on Close makes another.
	closeSnapshotThreshold = 1000

	// resync is how often supervise compares what it was told of the leadership
	// with what is so: an elected leader that never takes up its work would be
	// everybody's leader and nobody's (H48).
	resync = time.Second
)

// Controller is this process's member of the metadata quorum.
type Controller struct {
	cfg       Config
	fsm       *fsm
	clock     clock
	raftLog   *raftLogger
	started   func()         // ends the quiet time of raft's log
	transport raft.Transport // made with the first member
	stop      chan struct{}  // closed by Close
	followers sync.WaitGroup // the goroutines of this Controller

	member  atomic.Pointer[member] // nil before this is a member of a quorum
	cluster atomic.Value           // string, the cluster's id as soon as it is known
	moved   sync.Map               // raft.ServerID → string: where a member said that it is

	foundingMu sync.Mutex // guards dir's identity while it can change
	dir        *raftDir

	counted counters

	mu      sync.Mutex    // guards the fields below
	term    *term         // nil: another leads, or nobody
	changed chan struct{} // closed when the leader may be another one
	closed  bool
	failErr error         // what Run returns
	failed  chan struct{} // closed when failErr is set

	// The session of this broker (heartbeat.go).
	alive        chan struct{} // closed by the registration
	epoch        atomic.Int64  // of the registration
	wantFence    atomic.Bool   // until Unfence
	wantShutdown atomic.Bool   // from ControlledShutdown on
	unheard      atomic.Bool   // ControlledShutdown found no leader to hear of it
	lease        atomic.Pointer[lease]
	alone        atomic.Bool         // this member leads, and there is no other voter
	beating      chan struct{}       // a token: one heartbeat at a time
	nudge        chan struct{}       // a heartbeat is due now
	asked        atomic.Uint32       // whose turn it is to be asked for the leader
	lag          atomic.Pointer[lag] // of this broker's metadata; what it points to is constant

	refresh  *refresh     // see Newest
	reserved *reservation // see InitProducer
}

// Open checks the directory and starts raft if this broker is a member of a quorum
// already, or needs nobody else to be one. A directory that can't be trusted is a
// *DirError, one whose copy is at work elsewhere a *DuplicateBrokerError.
func Open(cfg Config) (*Controller, error) {
	if cfg.SessionTimeout == 0 {
		cfg.SessionTimeout = defaultSessionTimeout
	}
	if cfg.MaxProtocol == 0 {
		cfg.MinProtocol, cfg.MaxProtocol = wire.MinVersion, wire.Version
	}
	if _, ok := cfg.Cluster[cfg.NodeID]; !ok && len(cfg.Cluster) > 0 && len(cfg.Join) == 0 {
		return nil, fmt.Errorf("controller: --cluster names no broker %d, which this one is", cfg.NodeID)
	}
	dir, err := openDir(cfg)
	if err != nil {
		return nil, err
	}
	c := &Controller{cfg: cfg, dir: dir, fsm: newFSM(cfg.Logger), clock: cfg.Clock, stop: make(chan struct{}), changed: make(chan struct{}),
		failed: make(chan struct{}), alive: make(chan struct{}), beating: make(chan struct{}, 1), nudge: make(chan struct{}, 1), refresh: newRefresh(), reserved: newReservation()}
	if c.clock == nil {
		c.clock = newClock()
	}
	c.raftLog, c.started = newRaftLogger(cfg.Logger)
	c.fsm.restored = func() {
		if m := c.member.Load(); m != nil {
			m.store.installed.Store(true)
		}
	}
	c.setCluster(dir.ClusterID)
	c.wantFence.Store(true)
	c.lag.Store(&lag{})
	switch {
	case dir.Founded:
		if err := c.seekTwin(); err != nil {
			return nil, err
		}
		if err := c.noteURL(); err != nil {
			return nil, err
		}
	case len(cfg.Join) > 0:
		dir.Joined, dir.Pledge = true, nil
	case len(cfg.Cluster) <= 1:
		dir.Pledge = []wire.FoundingVoter{c.self()}
	default:
		return c, nil // Connect founds it with the others
	}
	if err := c.begin(); err != nil {
		if damaged := (*DirError)(nil); !errors.As(err, &damaged) {
			err = fmt.Errorf("controller: %w", err)
		}
		return nil, err
	}
	return c, nil
}

func (c *Controller) setCluster(id string) { c.cluster.Store(id) }

// ClusterID is the cluster's id, empty as long as this member knows none. It is
// known from the founding on, which may be before it is in State.
func (c *Controller) ClusterID() string { return c.cluster.Load().(string) }

// State is the newest applied metadata.
func (c *Controller) State() *State { return c.fsm.state.Load() }

// Run keeps this broker's session and watches over the member until ctx ends. An
// error is final, and the process must exit: *IncompatibleError, ErrStoreFailed
// with its cause (S4), or *StaleBrokerEpochError: another process has registered
// as this broker (R68).
func (c *Controller) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	session := make(chan struct{})
	go func() { defer close(session); c.keepSession(ctx) }()
	defer func() { cancel(); <-session }()
	select {
	case <-ctx.Done():
		return nil
	case <-c.failed:
		return c.failure()
	case <-c.fsm.incompatible:
		return &IncompatibleError{Index: c.State().Incompatible, Reason: "unknown to this version"}
	}
}

// fail notes the first error that must end the process.
func (c *Controller) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failErr == nil {
		c.failErr = err
		close(c.failed)
	}
}

func (c *Controller) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failErr
}

// errClosed: Close was called.
var errClosed = errors.New("controller: closed")

// Close hands leadership to another voter if there is one, says goodbye to the
// quorum, and stops the member. It is bounded, also when the disk hangs.
func (c *Controller) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()

	m := c.member.Load()
	if m == nil {
		close(c.stop)
		return c.closeTransport()
	}
	healthy := m.store.Err() == nil
	if healthy {
		c.leave(m)
	}
	if healthy && c.fsm.unsaved.Load() >= closeSnapshotThreshold {
		// So that the next start needn't apply them one by one.
		if err := within(snapshotTimeout, m.raft.Snapshot()); err != nil {
			c.cfg.Logger.Debug().Err(err).Msg("no metadata snapshot at the end")
		}
	}
	close(c.stop)
	m.settle()
	// Its connections first: raft ends when its requests have, and a member that is
	// there but silent would let them wait for raftTimeout.
	err := errors.Join(c.closeTransport(), m.end())
	c.followers.Wait()
	if last := c.member.Load(); last != m { // it was just being started again
		err = errors.Join(err, last.end())
		m = last
	}
	return errors.Join(err, m.store.Close())
}

// leave hands over what this member does for the others, and tells them that this
// broker ends, so that nobody waits for its session to end (K16). If it can't be
// told, that is what they do.
func (c *Controller) leave(m *member) {
	c.handOver(m)
	if c.BrokerEpoch() == 0 || c.failure() != nil || m.raft.State() == raft.Leader || c.unheard.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	for {
		changed := c.watchLeader()
		if _, err := c.beatOnce(ctx, true); !errors.Is(err, ErrNoController) {
			return
		}
		if c.awaitLeader(ctx, changed) != nil {
			return
		}
	}
}

// handOver makes another voter the leader, one that is alive and, if there is one,
// not about to end as well: raft itself would also choose a dead one.
func (c *Controller) handOver(m *member) {
	t := c.leading()
	if t == nil || len(c.Quorum().Voters) <= 1 {
		return
	}
	var targets []raft.Server
	for _, s := range servers(m.raft) {
		b := c.State().Brokers[serverBroker(s.ID)]
		switch {
		case s.Suffrage != raft.Voter, b == nil, b.ID == c.cfg.NodeID, b.RaftID != string(s.ID), !t.sessions.alive(b.ID, b.Epoch, c.clock()):
		case b.Draining:
			targets = append(targets, s)
		default:
			targets = slices.Insert(targets, 0, s)
		}
	}
	err := errors.New("no other voter is alive")
	began := time.Now()
	for _, s := range targets {
		address, _ := addresses{c}.ServerAddr(s.ID)
		if err = within(transferTimeout-time.Since(began), m.raft.LeadershipTransferToServer(s.ID, address)); err == nil {
			return
		}
	}
	c.cfg.Logger.Warn().Err(err).Msg("the quorum's leadership was not handed over")
}

// settle has raft take no more requests, and waits a moment for the answers to those
// that it has.
func (m *member) settle() {
	m.mu.Lock()
	was := m.ended
	m.ended = true
	m.mu.Unlock()
	if was {
		return
	}
	close(m.ending)
	answered := make(chan struct{})
	go func() { m.pending.Wait(); close(answered) }()
	select {
	case <-answered:
	case <-time.After(answerTimeout):
	}
}

// end stops raft, also when its loop is held by the store.
func (m *member) end() error {
	m.settle()
	m.raft.DeregisterObserver(m.watch)
	down := m.raft.Shutdown()
	m.store.release()
	return within(shutdownTimeout, down)
}

// within waits for f, but not for ever.
func within(d time.Duration, f raft.Future) error {
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	select {
	case err := <-done:
		return err
	case <-time.After(d):
		return fmt.Errorf("controller: raft did not answer within %s", d)
	}
}
