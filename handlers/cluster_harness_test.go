package handlers

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"highwater/replication"
	"highwater/replication/controller"
	"highwater/replication/group"
	"highwater/replication/peer"
	"highwater/storage"
)

// testCluster is three whole brokers in this process that talk to each other over
// loopback HTTP, each through links that a test can cut.
type testCluster struct {
	t     testing.TB
	nodes []*clusterNode // broker i is nodes[i-1]
}

// clusterNode is one of them.
type clusterNode struct {
	*testBroker
	cluster *testCluster
	id      int32
	links   *links
	peers   *peer.Client
	raft    *peer.Stream
	down    bool
	// serving is held for reading by each request; gone under it: none is begun any more.
	serving sync.RWMutex
	gone    bool
}

const (
	clusterSecret = "a secret of the cluster"
	// clusterSession is short, so that a dead leader is replaced soon, and longer than a
	// busy machine, or its disk, may stand still: else leaders give up in the midst of a test.
	clusterSession = 6 * time.Second
)

// startCluster starts brokers 1, 2 and 3 and stops them at the end of the test.
func startCluster(t testing.TB) *testCluster {
	t.Helper()
	c := &testCluster{t: t}
	urls := map[int32]string{}
	listeners := make([]net.Listener, 3)
	for i := range listeners {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		listeners[i] = l
		urls[int32(i+1)] = "http://" + l.Addr().String()
	}
	for i, l := range listeners {
		n := &clusterNode{testBroker: &testBroker{t: t, dir: t.TempDir(), log: &syncBuffer{}, url: urls[int32(i+1)], addr: l.Addr().String()},
			id: int32(i + 1), links: &links{cut: map[string]bool{}, conns: map[net.Conn]string{}}}
		n.open(l, urls)
		n.cluster = c
		c.nodes = append(c.nodes, n)
	}
	t.Cleanup(c.close)
	var all sync.WaitGroup
	errs := make([]error, len(c.nodes))
	for i, n := range c.nodes {
		all.Go(func() { errs[i] = n.join() })
	}
	all.Wait()
	must(t, errors.Join(errs...))
	for _, n := range c.nodes {
		c.waitFor(n, func(s *controller.State) bool {
			active := 0
			for _, b := range s.Brokers {
				if !b.Fenced {
					active++
				}
			}
			return active == 3
		})
	}
	return c
}

// open brings up all that is there before the quorum is.
func (n *clusterNode) open(l net.Listener, urls map[int32]string) {
	logger := zerolog.New(n.log)
	var err error
	n.store, err = storage.Open(storage.Options{Dir: n.dir, Fsync: storage.FsyncCommit, NodeID: n.id, Logger: logger})
	must(n.t, err)
	n.peers = peer.New(peer.Config{Secret: clusterSecret, Dial: n.links.dial, ClusterID: func() string { return n.store.Identity().ClusterID }})
	n.raft = peer.NewStream(n.peers)
	n.metrics = prometheus.NewRegistry()
	n.draining = make(chan struct{})
	n.internal = NewInternal(InternalConfig{Logger: logger, Secret: clusterSecret, Raft: n.raft, Metrics: n.metrics, Draining: n.draining})
	n.ctl, err = controller.Open(controller.Config{Dir: filepath.Join(n.dir, "raft"), NodeID: n.id, URL: n.url, Version: "test", Logger: logger,
		Cluster: urls, Peers: n.peers, Stream: n.raft, SessionTimeout: clusterSession,
		Timing: controller.Timing{Heartbeat: 500 * time.Millisecond, Election: 500 * time.Millisecond, Lease: 250 * time.Millisecond}})
	must(n.t, err)
	n.internal.SetController(n.ctl)
	n.server = &http.Server{Protocols: bothProtocols(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		Handler: n.internal.Before(http.HandlerFunc(n.serve))}
	n.stopped.Go(func() { _ = n.server.Serve(l) })
	n.client = &http.Client{Transport: &http.Transport{DisableCompression: true}}
}

// join makes it a broker of the cluster.
func (n *clusterNode) join() error {
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	for _, run := range []func(context.Context) error{n.store.Run, n.ctl.Run} {
		n.stopped.Go(func() { _ = run(ctx) })
	}
	if err := n.ctl.Connect(ctx); err != nil {
		return err
	}
	if err := n.store.SetIdentity(n.ctl.State().ClusterID, n.id); err != nil {
		return err
	}
	if err := n.ctl.Register(ctx, controller.Registration{Directory: uuid.MustParse(n.store.Identity().DirectoryID), Durable: true}); err != nil {
		return err
	}
	n.store.SetBrokerEpoch(n.ctl.BrokerEpoch())
	n.broker = replication.New(replication.Config{NodeID: n.id, URL: n.url, Store: n.store, Controller: n.ctl, Peers: n.peers, Forward: n.peers,
		SessionTimeout: clusterSession, LagMax: clusterSession, Logger: zerolog.New(n.log)})
	if err := n.broker.Start(ctx); err != nil {
		return err
	}
	n.internal.SetBroker(n.broker)
	n.stopped.Go(func() { _ = n.broker.Run(ctx) })
	n.groups = group.New(group.Config{NodeID: n.id, Log: n.broker.GroupLog(), Metadata: n.ctl, Peers: n.peers, Errors: replication.GroupErrors{}, Logger: zerolog.New(n.log)})
	n.internal.SetGroups(n.groups)
	n.stopped.Go(func() { _ = n.groups.Run(ctx) })
	n.handler = New(Config{Broker: n.broker, Groups: n.groups, Logger: zerolog.New(n.log), Metrics: n.metrics, Version: "test", AdvertiseURL: n.url,
		DefaultAcks: replication.AcksLeader, Now: time.Now, Draining: n.draining, Streams: &n.streams})
	return nil
}

func (n *clusterNode) serve(w http.ResponseWriter, r *http.Request) {
	n.serving.RLock()
	defer n.serving.RUnlock()
	if !n.gone {
		n.handler.ServeHTTP(w, r)
	}
}

// node is broker id.
func (c *testCluster) node(id int32) *clusterNode { return c.nodes[id-1] }

// close stops all of them.
func (c *testCluster) close() {
	var all sync.WaitGroup
	for _, n := range c.nodes {
		all.Go(n.shut)
	}
	all.Wait()
}

// shut ends a broker without asking anybody: its connections are cut, and what it
// answers nobody hears.
func (n *clusterNode) shut() {
	if n.down {
		return
	}
	n.down = true
	for _, other := range n.cluster.nodes {
		other.patience.Store(int64(clusterSession))
	}
	n.links.cutAll()
	n.drain()
	_ = n.server.Close()
	n.client.CloseIdleConnections()
	if n.broker != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = n.broker.Close(ctx) // who waits for others waits in vain
		cancel()
	}
	n.serving.Lock() // Close waits for no request, and each may leave a stream behind
	n.gone = true
	n.serving.Unlock()
	n.streams.Wait()
	if n.stop != nil {
		n.stop()
	}
	_ = n.raft.Close()
	_ = n.ctl.Close()
	n.stopped.Wait()
	_ = n.peers.Close()
	if err := n.store.Close(); err != nil {
		n.t.Errorf("store close: %v", err)
	}
}

// links are the connections that one broker makes.
type links struct {
	mu    sync.Mutex // guards the fields below
	cut   map[string]bool
	none  bool
	conns map[net.Conn]string
}

var errCut = errors.New("the link is cut")

func (l *links) dial(ctx context.Context, network, address string) (net.Conn, error) {
	l.mu.Lock()
	cut := l.none || l.cut[address]
	l.mu.Unlock()
	if cut {
		return nil, errCut
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.none || l.cut[address] {
		_ = conn.Close()
		return nil, errCut
	}
	l.conns[conn] = address
	return conn, nil
}

// cutOff ends the connections to an address and makes none until mend.
func (l *links) cutOff(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut[address] = true
	for conn, to := range l.conns {
		if to == address {
			_ = conn.Close()
			delete(l.conns, conn)
		}
	}
}

func (l *links) mend(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.cut, address)
}

func (l *links) cutAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.none = true
	for conn := range l.conns {
		_ = conn.Close()
	}
	clear(l.conns)
}

// create makes a topic whose partitions have the replicas 1, 2 and 3, each in sync.
func (c *testCluster) create(name string, partitions int) {
	c.t.Helper()
	c.node(1).do(http.MethodPut, "/topics/"+name, map[string]any{"partitions": partitions, "replication_factor": 3}).want(201)
	for _, n := range c.nodes {
		c.waitFor(n, func(s *controller.State) bool { _, ok := s.Topic(name); return ok })
	}
}

// waitFor waits until a broker's metadata is as wanted.
func (c *testCluster) waitFor(n *clusterNode, done func(*controller.State) bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		changed := n.ctl.Changed()
		if done(n.ctl.State()) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			c.t.Fatalf("broker %d never learned of it", n.id)
		}
	}
}

// leader is the broker that leads a partition, and one that doesn't.
func (c *testCluster) leader(topic string, partition int) (leader, other *clusterNode) {
	c.t.Helper()
	for {
		changed := c.node(2).ctl.Changed()
		t, ok := c.node(2).ctl.State().Topic(topic)
		if ok && t.Partitions[partition].Leader > 0 {
			id := t.Partitions[partition].Leader
			return c.node(id), c.node(id%3 + 1)
		}
		<-changed
	}
}

// move has another in-sync broker lead a partition, and returns when all know it.
func (c *testCluster) move(topic string, partition int, to int32) {
	c.t.Helper()
	must(c.t, c.node(to).ctl.ElectLeader(context.Background(), topic, int32(partition), to, false))
	for _, n := range c.nodes {
		if !n.down {
			c.waitFor(n, func(s *controller.State) bool {
				t, ok := s.Topic(topic)
				return ok && t.Partitions[partition].Leader == to
			})
		}
	}
}
