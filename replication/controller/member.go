package controller

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
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

	// Of the connections to another member (K5): kept ones, requests in flight on
	// one, and what a request may take.
	raftPool     = 3
	raftInFlight = 2
	raftTimeout  = 10 * time.Second
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
}

// startRaft starts raft over a checked file. It owns the file from then on.
func (c *Controller) startRaft(file raftStore) (*member, error) {
	m := &member{store: newLatchedStore(file, storeTimeout), leaders: make(chan raft.Observation, 1)}
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
	c.dir.Founded = true
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

// newTransport makes the transport, which outlives a restart of raft.
func (c *Controller) newTransport(logger hclog.Logger) raft.Transport {
	if c.cfg.Stream == nil {
		_, loopback := raft.NewInmemTransport(raftAddress(c.cfg.URL, c.dir.server()))
		return loopback
	}
	return lasting{raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{ServerAddressProvider: addresses{c}, Logger: logger,
		Stream: streams{c.cfg.Stream, c}, MaxPool: raftPool, MaxRPCsInFlight: raftInFlight, Timeout: raftTimeout, MsgpackUseNewTimeFormat: true})}
}

// closeTransport ends all connections.
func (c *Controller) closeTransport() error {
	switch t := c.transport.(type) {
	case *raft.InmemTransport:
		return t.Close()
	case lasting:
		t.CloseStreams()
		return t.NetworkTransport.Close()
	}
	if c.cfg.Stream != nil { // raft never ran
		return c.cfg.Stream.Close()
	}
	return nil
}

// lasting is a transport that doesn't end with the raft that uses it.
type lasting struct{ *raft.NetworkTransport }

// Close does nothing: see closeTransport.
func (lasting) Close() error { return nil }

// A raft address is a broker's advertised URL and, behind a '#', the server id
// that is meant there: "http://10.0.0.1:8080#1-550e8400-…". The id goes along
// when a connection is made, and AcceptRaft holds it against the member's own, so
// that a broker that came back without its metadata is never taken for the voter
// that it was (K9).
func raftAddress(url string, id raft.ServerID) raft.ServerAddress {
	return raft.ServerAddress(url + "#" + string(id))
}

func splitRaftAddress(a raft.ServerAddress) (url string, id raft.ServerID) {
	before, after, _ := strings.Cut(string(a), "#")
	return before, raft.ServerID(after)
}

// addresses tells raft where a member is now: what its entry in the configuration
// says may be years old.
type addresses struct{ c *Controller }

// ServerAddr is raft.ServerAddressProvider's.
func (a addresses) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	if id == a.c.dir.server() {
		return raftAddress(a.c.cfg.URL, id), nil
	}
	if urls := a.c.memberURLs(id); len(urls) > 0 {
		return raftAddress(urls[0], id), nil
	}
	return "", fmt.Errorf("no URL of member %s is known", id)
}

// memberURLs lists where a member may be, the likeliest first: where it said that
// it is when it came back, where its broker registered, where the settings have it.
func (c *Controller) memberURLs(id raft.ServerID) []string {
	broker := serverBroker(id)
	var urls []string
	add := func(url string) {
		if url == "" {
			return
		}
		for _, have := range urls {
			if have == url {
				return
			}
		}
		urls = append(urls, url)
	}
	if moved, ok := c.moved.Load(id); ok {
		add(moved.(string))
	}
	if b := c.State().Brokers[broker]; b != nil && b.RaftID == string(id) {
		add(b.URL)
	}
	add(c.cfg.Cluster[broker])
	return urls
}

// streams lets raft dial over the StreamLayer.
type streams struct {
	StreamLayer
	c *Controller
}

type streamAddr string

// Network is net.Addr's.
func (streamAddr) Network() string { return "raft" }

// String is the raft address.
func (a streamAddr) String() string { return string(a) }

// Addr is this member's raft address.
func (s streams) Addr() net.Addr { return streamAddr(raftAddress(s.c.cfg.URL, s.c.dir.server())) }

// Dial tries each place where the member may be. A wrong one is no danger: the
// member there says that it isn't the one meant.
func (s streams) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	url, id := splitRaftAddress(address)
	urls := []string{url}
	for _, u := range s.c.memberURLs(id) {
		if u != url {
			urls = append(urls, u)
		}
	}
	var errs []error
	for _, u := range urls {
		conn, err := s.StreamLayer.Dial(RaftTarget{URL: u, Server: string(id), ClusterID: s.c.ClusterID()}, timeout/time.Duration(len(urls)))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
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
