package controller

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// snapshotThreshold is the number of entries after which raft makes a
	// snapshot: metadata changes are rare, and so should snapshots be (K11).
	snapshotThreshold = 8192
	snapshotInterval  = 120 * time.Second
	trailingLogs      = 10240
	retainSnapshots   = 2
	// maxAppendEntries is the number of waiting proposals that share one write.
	maxAppendEntries = 512
)

// Timing of the quorum. Lease is at most Heartbeat.
type Timing struct {
	Heartbeat, Election, Lease time.Duration
}

// aloneTiming lets a quorum of one elect itself at once: there is nobody whose
// slowness could be taken for death. othersTiming is for several (K17).
var (
	aloneTiming  = Timing{50 * time.Millisecond, 50 * time.Millisecond, 50 * time.Millisecond}
	othersTiming = Timing{time.Second, time.Second, 500 * time.Millisecond}
)

// member is one run of raft over this directory. There is a second one when raft
// had to be started again over the same file (see latchedStore.DeleteRange).
type member struct {
	raft    *raft.Raft
	store   *latchedStore
	leaders chan raft.Observation // raft has another leader; the newest matters
	watch   *raft.Observer
	ending  chan struct{} // closed by settle

	mu      sync.Mutex     // guards ended, and that pending grows no more once it is set
	ended   bool           // ending is closed
	pending sync.WaitGroup // the requests of ask that raft has not answered
}

// ask sends raft a request and returns where its answer comes: errClosed when raft
// is ending. What raft has not taken up by then it leaves without an answer for ever
// (v1.7.3: nobody reads the rest of applyCh and verifyCh), so settle waits for those.
func (m *member) ask(request func() raft.Future) <-chan error {
	answer := make(chan error, 1)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		answer <- errClosed
		return answer
	}
	m.pending.Go(func() { answer <- request().Error() })
	return answer
}

// startRaft starts raft over a checked file. It owns the file from then on.
func (c *Controller) startRaft(file raftStore) (*member, error) {
	m := &member{store: newLatchedStore(file, storeTimeout), leaders: make(chan raft.Observation, 1), ending: make(chan struct{})}
	if c.cfg.OutOfSpace != nil {
		m.store.outOfSpace = c.cfg.OutOfSpace
	}
	timing := c.timing()
	rc := raft.DefaultConfig()
	rc.LocalID = c.dir.server()
	rc.Logger = c.raftLog
	rc.SnapshotThreshold, rc.SnapshotInterval, rc.TrailingLogs = snapshotThreshold, snapshotInterval, trailingLogs
	if c.cfg.trailingLogs != nil {
		rc.TrailingLogs = *c.cfg.trailingLogs
	}
	rc.MaxAppendEntries, rc.BatchApplyCh = maxAppendEntries, true
	rc.HeartbeatTimeout, rc.ElectionTimeout, rc.LeaderLeaseTimeout = timing.Heartbeat, timing.Election, timing.Lease
	rc.ShutdownOnRemove = false // nobody removes itself, and an old entry must not stop a member that is back (K8)

	snapshots, err := raft.NewFileSnapshotStoreWithLogger(c.cfg.Dir, retainSnapshots, c.raftLog)
	if err != nil {
		return nil, err
	}
	if c.transport == nil {
		c.transport = c.newTransport(rc.Logger)
	}
	if !c.dir.Founded {
		if err := c.bootstrap(rc, m.store, snapshots); err != nil {
			return nil, err
		}
	}
	if err := c.checkWhole(m.store, snapshots); err != nil {
		return nil, err
	}
	m.store.frozen, m.store.snapshots = true, snapshots
	if m.raft, err = raft.NewRaft(rc, c.fsm, m.store, m.store, snapshots, c.transport); err != nil {
		return nil, c.dir.damage(fmt.Sprintf("raft can't start from it: %v", err))
	}
	m.watch = raft.NewObserver(m.leaders, false, func(o *raft.Observation) bool { _, ok := o.Data.(raft.LeaderObservation); return ok })
	m.raft.RegisterObserver(m.watch)
	return m, c.slowDown(m)
}

// bootstrap makes the pledge the quorum's first configuration, and this a member
// of it.
func (c *Controller) bootstrap(rc *raft.Config, store *latchedStore, snapshots raft.SnapshotStore) error {
	if !c.dir.Joined {
		var first raft.Configuration
		for _, v := range c.dir.Pledge {
			id := serverID(v.Broker, v.Server)
			first.Servers = append(first.Servers, raft.Server{ID: id, Address: raftAddress(v.URL, id)})
		}
		if err := raft.BootstrapCluster(rc, store, store, snapshots, c.transport, first); err != nil {
			return err
		}
		c.dir.ClusterID = clusterID(c.dir.Pledge)
	}
	c.dir.Founded, c.dir.URL = true, c.cfg.URL
	return c.dir.writeIdentity()
}

// checkWhole tells whether the newest snapshot and the log join: raft takes that
// for granted (K9).
func (c *Controller) checkWhole(store *latchedStore, snapshots raft.SnapshotStore) error {
	first, err := store.FirstIndex()
	if err != nil {
		return err
	}
	have, err := snapshots.List() // the newest comes first
	if err != nil {
		return err
	}
	switch {
	case len(have) == 0 && first == 0 && c.dir.Joined:
		return nil
	case len(have) == 0 && first != 1:
		return c.dir.damage(fmt.Sprintf("its log begins at entry %d, and there is no snapshot of those before", first))
	case len(have) > 0 && first > have[0].Index+1:
		return c.dir.damage(fmt.Sprintf("its newest snapshot ends at entry %d, and its log begins at %d", have[0].Index, first))
	}
	return nil
}

// timing is what this member starts with.
func (c *Controller) timing() Timing {
	switch {
	case c.cfg.Timing != Timing{}:
		return c.cfg.Timing
	case !c.dir.Joined && len(c.dir.Pledge) == 1:
		return aloneTiming
	}
	return othersTiming
}

// slowDown gives a quorum of one that has got other members their timing: its
// heartbeats would otherwise come every few milliseconds. Its own lease may stay
// short, as no other voter can end it.
func (c *Controller) slowDown(m *member) error {
	if c.timing() != aloneTiming || len(servers(m.raft)) <= 1 || m.raft.ReloadableConfig().HeartbeatTimeout >= othersTiming.Heartbeat {
		return nil
	}
	rc := m.raft.ReloadableConfig()
	rc.HeartbeatTimeout, rc.ElectionTimeout = othersTiming.Heartbeat, othersTiming.Election
	return m.raft.ReloadConfig(rc)
}

// servers are the quorum's members as the newest configuration in the log has
// them, committed or not.
func servers(r *raft.Raft) []raft.Server {
	f := r.GetConfiguration()
	if f.Error() != nil {
		return nil
	}
	return f.Configuration().Servers
}

// AcceptRaft tells whether a connection that a peer wants for raft is meant for
// this member: its error, for people, says why not.
func (c *Controller) AcceptRaft(to RaftTarget) error {
	if c.member.Load() == nil {
		return errors.New("controller: this broker is not a member of the quorum yet")
	}
	if own := c.dir.server(); to.Server != string(own) {
		return fmt.Errorf("controller: member %s is meant, but this is %s", to.Server, own)
	}
	if own := c.ClusterID(); own != "" && to.ClusterID != "" && own != to.ClusterID {
		return fmt.Errorf("controller: cluster %s is meant, but this broker is of cluster %s", to.ClusterID, own) // F37
	}
	return nil
}
