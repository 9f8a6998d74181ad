// Package controller is the metadata quorum: brokers, topics, partitions and
// configs as a deterministic state machine on hashicorp/raft. No record passes
// through it and it opens no segment.
package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
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
	// Transport reaches the other voters; nil: there are none. Its owner closes it.
	Transport raft.Transport

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
	// Timing of elections; zero: as suits the number of voters.
	Timing Timing
}

// Timing of the quorum. Lease is at most Heartbeat.
type Timing struct {
	Heartbeat, Election, Lease time.Duration
}

// soloTiming lets a quorum of one elect itself at once: there is nobody whose
// slowness could be taken for death.
const soloTiming = 50 * time.Millisecond

const (
	// snapshotThreshold is the number of entries after which raft makes a
	// snapshot: metadata changes are rare, and so should snapshots be (K11).
	snapshotThreshold = 8192
	snapshotInterval  = 120 * time.Second
	trailingLogs      = 10240
	retainSnapshots   = 2
	// maxAppendEntries is the number of waiting proposals that share one write.
	maxAppendEntries = 512

	// enqueueTimeout bounds how long a proposal waits for raft to take it.
	enqueueTimeout = 5 * time.Second
	// proposeTimeout bounds a whole proposal when the caller set no deadline.
	proposeTimeout = 15 * time.Second
	// transferTimeout, snapshotTimeout and shutdownTimeout bound Close (K16).
	transferTimeout = 2 * time.Second
	snapshotTimeout = 2 * time.Second
	shutdownTimeout = 4 * time.Second

	// closeSnapshotThreshold is the number of entries behind the newest snapshot
	// from which on Close makes another.
	closeSnapshotThreshold = 1000
)

// Controller is this process's member of the metadata quorum.
type Controller struct {
	cfg       Config
	dir       *raftDir
	raft      *raft.Raft
	store     *latchedStore
	fsm       *fsm
	loopback  *raft.InmemTransport // nil when the transport is the caller's
	started   func()               // ends the quiet time of raft's log
	stop      chan struct{}        // closed by Close
	followers sync.WaitGroup       // the goroutines of this Controller

	mu      sync.Mutex // guards the fields below
	leading bool       // leader, and everything committed before is applied
	changed chan struct{}
	closed  bool
}

// Open checks the directory and starts the raft member; a directory that is new
// becomes a quorum of one voter. A directory that can't be trusted is a *DirError.
func Open(cfg Config) (*Controller, error) {
	dir, err := openDir(cfg.Dir, cfg.NodeID, cfg.PartitionsOnDisk)
	if err != nil {
		return nil, err
	}
	bolt, err := dir.openStore()
	if err != nil {
		return nil, err
	}
	c := &Controller{cfg: cfg, dir: dir, store: newLatchedStore(bolt, storeTimeout), fsm: newFSM(cfg.Logger),
		stop: make(chan struct{}), changed: make(chan struct{})}
	if err := c.startRaft(); err != nil {
		if damaged := (*DirError)(nil); !errors.As(err, &damaged) {
			err = fmt.Errorf("controller: %w", err)
		}
		return nil, errors.Join(err, c.store.Close())
	}
	c.followers.Add(1)
	go func() { defer c.followers.Done(); c.followLeadership() }()
	return c, nil
}

func (c *Controller) startRaft() error {
	logger, started := newRaftLogger(c.cfg.Logger)
	c.started = started
	rc := raft.DefaultConfig()
	rc.LocalID = raft.ServerID(c.dir.ServerID.String())
	rc.Logger = logger
	rc.SnapshotThreshold, rc.SnapshotInterval, rc.TrailingLogs = snapshotThreshold, snapshotInterval, trailingLogs
	rc.MaxAppendEntries, rc.BatchApplyCh = maxAppendEntries, true
	timing := c.cfg.Timing
	if timing == (Timing{}) {
		timing = Timing{soloTiming, soloTiming, soloTiming}
	}
	rc.HeartbeatTimeout, rc.ElectionTimeout, rc.LeaderLeaseTimeout = timing.Heartbeat, timing.Election, timing.Lease

	transport := c.cfg.Transport
	if transport == nil {
		_, c.loopback = raft.NewInmemTransport(raft.ServerAddress(rc.LocalID))
		transport = c.loopback
	}
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(c.cfg.Dir, retainSnapshots, logger)
	if err != nil {
		return err
	}
	if !c.dir.Founded {
		servers := []raft.Server{{ID: rc.LocalID, Address: transport.LocalAddr()}}
		err := raft.BootstrapCluster(rc, c.store, c.store, snapshots, transport, raft.Configuration{Servers: servers})
		if err != nil {
			return err
		}
		c.dir.Founded = true
		if err := c.dir.writeIdentity(); err != nil {
			return err
		}
	}
	if err := c.checkWhole(snapshots); err != nil {
		return err
	}
	c.store.frozen = true
	if c.raft, err = raft.NewRaft(rc, c.fsm, c.store, c.store, snapshots, transport); err != nil {
		return c.dir.damage(fmt.Sprintf("raft can't start from it: %v", err))
	}
	return nil
}

// checkWhole tells whether the newest snapshot and the log join: raft takes that
// for granted (K9).
func (c *Controller) checkWhole(snapshots raft.SnapshotStore) error {
	first, err := c.store.FirstIndex()
	if err != nil {
		return err
	}
	have, err := snapshots.List() // the newest comes first
	if err != nil {
		return err
	}
	switch {
	case len(have) == 0 && first != 1:
		return c.dir.damage(fmt.Sprintf("its log begins at entry %d, and there is no snapshot of those before", first))
	case len(have) > 0 && first > have[0].Index+1:
		return c.dir.damage(fmt.Sprintf("its newest snapshot ends at entry %d, and its log begins at %d", have[0].Index, first))
	}
	return nil
}

// followLeadership keeps c.leading. LeaderCh holds the newest change only, so a
// slow barrier doesn't block raft (K12).
func (c *Controller) followLeadership() {
	for {
		select {
		case <-c.stop:
			return
		case gained := <-c.raft.LeaderCh():
			if gained {
				// Decisions need all that former leaders committed.
				gained = c.raft.Barrier(0).Error() == nil
			}
			c.setLeading(gained)
		}
	}
}

func (c *Controller) setLeading(leading bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leading = leading
	close(c.changed)
	c.changed = make(chan struct{})
}

// leadership tells whether this member leads, and a channel that is closed at
// the next change.
func (c *Controller) leadership() (bool, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leading && !c.closed, c.changed
}

// Start waits for a leader, founds the cluster if it is new and registers this
// broker as a new incarnation. *IncompatibleError says that a newer version
// wrote the metadata.
func (c *Controller) Start(ctx context.Context) error {
	for {
		leading, changed := c.leadership()
		if leading {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrNoController, ctx.Err())
		case <-c.store.failed:
			return c.store.Err()
		case <-changed:
		}
	}
	c.started()
	if s := c.State(); s.Incompatible != 0 {
		return &IncompatibleError{Index: s.Incompatible, Reason: "unknown to this version"}
	}
	if c.State().ClusterID == "" {
		if _, err := c.propose(ctx, &InitCluster{ClusterID: uuid.NewString()}); err != nil {
			return err
		}
	}
	register := &RegisterBroker{ID: c.cfg.NodeID, Incarnation: uuid.New(), URL: c.cfg.URL, Version: c.cfg.Version, RaftID: c.dir.ServerID.String(),
		MinProtocol: wire.MinVersion, MaxProtocol: wire.Version}
	if old := c.State().Brokers[c.cfg.NodeID]; old != nil {
		register.Replaces = old.Epoch // that process had this directory's lock
	}
	_, err := c.propose(ctx, register)
	return err
}

// Run watches over the member until ctx ends. An error is final, and the process
// must exit: *IncompatibleError, or ErrStoreFailed with its cause (S4).
func (c *Controller) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.store.failed:
		return c.store.Err()
	case <-c.fsm.incompatible:
		return &IncompatibleError{Index: c.State().Incompatible, Reason: "unknown to this version"}
	}
}

// State is the newest applied metadata.
func (c *Controller) State() *State { return c.fsm.state.Load() }

// QuorumInfo is what /cluster says about the quorum.
type QuorumInfo struct {
	Leader int32 // the broker; NoLeader: none
	Term   uint64
	Voters []int32 // brokers; one that never registered isn't told
}

// Quorum describes the raft quorum as this member sees it.
func (c *Controller) Quorum() QuorumInfo {
	info := QuorumInfo{Leader: NoLeader, Term: c.raft.CurrentTerm()}
	s := c.State()
	_, leader := c.raft.LeaderWithID()
	voters := map[string]bool{}
	if f := c.raft.GetConfiguration(); f.Error() == nil {
		for _, server := range f.Configuration().Servers {
			voters[string(server.ID)] = server.Suffrage == raft.Voter
		}
	}
	for _, id := range s.BrokerIDs() {
		member := s.Brokers[id].RaftID
		if voters[member] {
			info.Voters = append(info.Voters, id)
		}
		if member != "" && member == string(leader) {
			info.Leader = id
		}
	}
	return info
}

// SetBrokerState fences, unfences or drains a broker in the incarnation that is
// registered now; its leaderships move as the state machine says (R69, R74, R80).
// Errors: *StaleBrokerEpochError when it isn't registered, or anew meanwhile.
func (c *Controller) SetBrokerState(ctx context.Context, id int32, fenced, draining bool) error {
	b := c.State().Brokers[id]
	if b == nil {
		return &StaleBrokerEpochError{Broker: id}
	}
	_, err := c.propose(ctx, &SetBroker{ID: id, Epoch: b.Epoch, Fenced: fenced, Draining: draining})
	return err
}

// propose has the quorum agree on a command and returns what applying it gave.
// ErrNoController: not proposed. ErrOutcomeUnknown: proposed, and then lost
// sight of. All else is the state machine's own answer.
func (c *Controller) propose(ctx context.Context, p Command) (any, error) {
	if leading, _ := c.leadership(); !leading {
		return nil, ErrNoController
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, proposeTimeout)
		defer cancel()
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoController, err)
	}
	f := c.raft.Apply(encode(p), enqueueTimeout)
	done := make(chan error, 1)
	go func() { done <- f.Error() }() // ends with raft at the latest
	select {
	case err := <-done:
		switch {
		case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrEnqueueTimeout), errors.Is(err, raft.ErrLeadershipTransferInProgress):
			return nil, fmt.Errorf("%w: %w", ErrNoController, err)
		case err != nil:
			return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		}
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, ctx.Err())
	}
	if err, ok := f.Response().(error); ok {
		return nil, err
	}
	return f.Response(), nil
}

// Close hands leadership to another voter if there is one, and stops the member.
// It is bounded, also when the disk hangs.
func (c *Controller) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()

	healthy := c.store.Err() == nil
	if healthy && c.raft.State() == raft.Leader && len(c.Quorum().Voters) > 1 {
		if err := within(transferTimeout, c.raft.LeadershipTransfer()); err != nil {
			c.cfg.Logger.Warn().Err(err).Msg("controller leadership was not handed over")
		}
	}
	if healthy && c.fsm.unsaved.Load() >= closeSnapshotThreshold {
		// So that the next start needn't apply them one by one.
		if err := within(snapshotTimeout, c.raft.Snapshot()); err != nil {
			c.cfg.Logger.Debug().Err(err).Msg("no metadata snapshot at the end")
		}
	}
	down := c.raft.Shutdown()
	c.store.release()
	err := within(shutdownTimeout, down)
	close(c.stop)
	c.followers.Wait()
	if c.loopback != nil {
		err = errors.Join(err, c.loopback.Close())
	}
	return errors.Join(err, c.store.Close())
}

// within waits for f, but not for ever.
func within(d time.Duration, f raft.Future) error {
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("controller: raft did not answer within %s", d)
	}
}
