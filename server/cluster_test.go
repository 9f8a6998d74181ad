package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Times of the clusters under test. They are short, so that a test is; a machine
// that runs other things too needs them not to be shorter.
const (
	testSession = slowness * 4 * time.Second // several of the quorum's elections, or a leader loses touch while one is held
	testQuorum  = slowness * 500 * time.Millisecond
	testLag     = slowness * 3 * time.Second // more than a busy disk stands still, or it puts followers out
)

// cluster is a set of brokers, each a real process. Tests that judge how long
// something took are not parallel: what they measured would be the others' load.
type cluster struct {
	t      *testing.T
	nodes  []*node // node with id i at i-1
	voters string  // --cluster
	flags  []string

	mu      sync.Mutex // guards clients
	clients map[string]*client
}

// node is one broker over all its lives.
type node struct {
	*brokerProcess // of the present life, or the last one
	id             int32
	dir            string
	address        string // HOST:PORT
	flags          []string
	frozen         bool
}

// newCluster starts n voters and waits until all of them serve.
func newCluster(t *testing.T, n int, flags ...string) *cluster {
	t.Helper()
	c := layCluster(t, n, flags...)
	for _, m := range c.nodes {
		c.launch(m)
	}
	c.waitServing(c.nodes...)
	return c
}

// skipSlowRace leaves out, of a short run under the race detector, what takes
// several brokers that are built with it: minutes each on two cores. The brokers of
// the rooms below run in one process under the detector all the same.
func skipSlowRace(t *testing.T) {
	if raceBuild && testing.Short() {
		t.Skip("several processes under the race detector: go test -race without -short runs it")
	}
}

// layCluster is newCluster without a start.
func layCluster(t *testing.T, n int, flags ...string) *cluster {
	t.Helper()
	skipSlowRace(t)
	c := &cluster{t: t, clients: map[string]*client{}, flags: append([]string{"--broker-session-timeout=" + testSession.String(), "--quorum-timeout=" + testQuorum.String(),
		"--replica-lag-time-max=" + testLag.String(), "--log-format=json"}, flags...)}
	first := freePorts(t, n)
	var list voters
	for i := range n {
		m := c.add(fmt.Sprintf("127.0.0.1:%d", first+i))
		list = append(list, voter{m.id, m.base()})
	}
	c.voters = "--cluster=" + list.String()
	for _, m := range c.nodes {
		m.flags = []string{c.voters}
	}
	return c
}

// add makes the next node, which isn't started yet.
func (c *cluster) add(address string) *node {
	id := int32(len(c.nodes) + 1)
	m := &node{id: id, dir: filepath.Join(c.t.TempDir(), fmt.Sprintf("node-%d", id)), address: address}
	c.nodes = append(c.nodes, m)
	return m
}

// base is the broker's URL.
func (m *node) base() string { return "http://" + m.address }

// launch starts a node's next life and doesn't wait.
func (c *cluster) launch(m *node, flags ...string) {
	c.t.Helper()
	args := []string{"--listen=" + m.address, "--data-dir=" + m.dir, fmt.Sprintf("--node-id=%d", m.id)}
	args = slices.Concat(args, c.flags, m.flags, flags)
	cmd := exec.Command(os.Getenv(envBinary), args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	m.brokerProcess, m.frozen = launchCommand(c.t, cmd), false
}

func (c *cluster) waitServing(nodes ...*node) {
	c.t.Helper()
	for _, m := range nodes {
		m.waitServing()
	}
}

// start is a node's next life, serving.
func (c *cluster) start(nodes ...*node) {
	c.t.Helper()
	for _, m := range nodes {
		c.launch(m)
	}
	c.waitServing(nodes...)
}

// freeze is SIGSTOP: the process is there and says nothing.
func (m *node) freeze() {
	m.t.Helper()
	m.signal(syscall.SIGSTOP)
	m.frozen = true
}

// thaw is SIGCONT.
func (m *node) thaw() {
	m.t.Helper()
	m.signal(syscall.SIGCONT)
	m.frozen = false
}

// runs tells whether the node can be talked to.
func (m *node) runs() bool {
	if m.brokerProcess == nil || m.frozen {
		return false
	}
	select {
	case <-m.exited:
		return false
	default:
		return true
	}
}

// running are the nodes that can be talked to.
func (c *cluster) running() (nodes []*node) {
	for _, m := range c.nodes {
		if m.runs() {
			nodes = append(nodes, m)
		}
	}
	return nodes
}

// others are the running nodes but m.
func (c *cluster) others(m *node) []*node {
	return slices.DeleteFunc(c.running(), func(o *node) bool { return o == m })
}

// client talks to one node. All that do share its connections.
func (c *cluster) client(m *node) *client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clients[m.base()] == nil {
		c.clients[m.base()] = newClient(c.t, m.base())
	}
	return c.clients[m.base()]
}

// topic creates a topic on any node, and waits until its partitions are led and
// every replica of them is in sync.
func (c *cluster) topic(name string, partitions, factor int, configs ...string) {
	c.t.Helper()
	pairs := map[string]string{}
	for i := 0; i < len(configs); i += 2 {
		pairs[configs[i]] = configs[i+1]
	}
	body, err := json.Marshal(map[string]any{"partitions": partitions, "replication_factor": factor, "configs": pairs})
	if err != nil {
		c.t.Fatal(err)
	}
	c.client(c.running()[0]).must(c.t, 201, "PUT", "/topics/"+name, "application/json", string(body))
	c.waitInSync(name, factor)
}

// partitionView is what a broker says of a partition.
type partitionView struct {
	Partition     int     `json:"partition"`
	Leader        int32   `json:"leader"`
	LeaderEpoch   int32   `json:"leader_epoch"`
	ISR           []int32 `json:"isr"`
	HighWatermark *int64  `json:"high_watermark"`
	LogEnd        *int64  `json:"log_end_offset"`
	Replicas      []struct {
		Broker int32 `json:"broker"`
		InSync bool  `json:"in_sync"`
	} `json:"replicas"`
}

// partitions is what node m says of a topic; nil while it can't.
func (c *cluster) partitions(m *node, topic string) (views []partitionView) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	status, body, err := c.client(m).do(ctx, "GET", "/topics/"+topic+"/partitions", "", nil)
	if err != nil || status != 200 || json.Unmarshal(body, &views) != nil {
		return nil
	}
	return views
}

// waitInSync waits until each running node sees every partition of the topic led
// by a running node, with n replicas in sync.
func (c *cluster) waitInSync(topic string, n int) {
	c.t.Helper()
	for _, m := range c.running() {
		var last []partitionView
		until(c.t, fmt.Sprintf("%s has %d replicas in sync, says broker %d", topic, n, m.id), func() bool {
			last = c.partitions(m, topic)
			return last != nil && !slices.ContainsFunc(last, func(v partitionView) bool {
				return len(v.ISR) != n || v.Leader < 1 || !c.nodes[v.Leader-1].runs()
			})
		})
	}
}

// waitISR waits until node m sees exactly these brokers in the partition's ISR.
func (c *cluster) waitISR(m *node, topic string, partition int, want ...int32) {
	c.t.Helper()
	until(c.t, fmt.Sprintf("%s-%d has the in-sync set %d", topic, partition, want), func() bool {
		views := c.partitions(m, topic)
		return partition < len(views) && sameIDs(views[partition].ISR, want)
	})
}

func sameIDs(a, b []int32) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// leader is the node that leads the partition, as soon as there is one that runs.
func (c *cluster) leader(topic string, partition int) (leader *node) {
	c.t.Helper()
	until(c.t, fmt.Sprintf("%s-%d has a leader", topic, partition), func() bool {
		for _, m := range c.running() {
			views := c.partitions(m, topic)
			if partition < len(views) && views[partition].Leader > 0 {
				leader = c.nodes[views[partition].Leader-1]
				return leader.runs()
			}
		}
		return false
	})
	return leader
}

// clusterView is what a broker says of the cluster.
type clusterView struct {
	ClusterID  string `json:"cluster_id"`
	Controller struct {
		Leader int32   `json:"leader"`
		Voters []int32 `json:"voters"`
	} `json:"controller"`
	Brokers []struct {
		ID    int32  `json:"id"`
		URL   string `json:"url"`
		State string `json:"state"`
	} `json:"brokers"`
}

func (c *cluster) view(m *node) (v clusterView) {
	c.t.Helper()
	if err := json.Unmarshal(c.client(m).must(c.t, 200, "GET", "/cluster", "", ""), &v); err != nil {
		c.t.Fatal(err)
	}
	return v
}

// controller is the node that leads the metadata quorum, by what a majority says.
func (c *cluster) controller() (leader *node) {
	c.t.Helper()
	until(c.t, "the quorum has a leader", func() bool {
		votes := map[int32]int{}
		for _, m := range c.running() {
			v := c.view(m)
			if votes[v.Controller.Leader]++; v.Controller.Leader > 0 && 2*votes[v.Controller.Leader] > len(v.Controller.Voters) {
				leader = c.nodes[v.Controller.Leader-1]
			}
		}
		return leader != nil && leader.runs()
	})
	return leader
}

// killAll is kill -9 of every running node, as close to at once as can be.
func (c *cluster) killAll() {
	c.t.Helper()
	for _, m := range c.nodes {
		if err := m.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			c.t.Error(err)
		}
	}
	for _, m := range c.nodes {
		<-m.exited
	}
}

// stopAll ends every running node in order, together; each must exit with 0.
func (c *cluster) stopAll() {
	c.t.Helper()
	nodes := c.running()
	for _, m := range nodes {
		m.signal(syscall.SIGTERM)
	}
	for _, m := range nodes {
		if code := m.exit(); code != exitOK {
			c.t.Errorf("broker %d: exit code %d after SIGTERM\n%s", m.id, code, m.output())
		}
	}
}

// logged counts the lines of a node's present life that hold the text.
func (m *node) logged(text string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, line := range m.logs {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// portBlock is how many ports a holder of a block has: its first one is the claim.
const portBlock = 8

// freePorts finds n ports in a row that nobody listens on, and that nobody else who
// asks here gets before the test ends: brokers of theirs may be down at times.
// Another process may take one meanwhile, so they lie below the range that systems
// hand out themselves.
func freePorts(t *testing.T, n int) (first int) {
	t.Helper()
	if n >= portBlock {
		t.Fatalf("%d ports are too many", n)
	}
	listen := func(port int) net.Listener {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return nil // taken
		}
		return l
	}
	for range 1000 {
		base := 12000 + portBlock*rand.IntN(20000/portBlock)
		claim := listen(base)
		if claim == nil {
			continue
		}
		free := true
		for p := base + 1; p <= base+n; p++ {
			if l := listen(p); l != nil {
				_ = l.Close()
			} else {
				free = false
			}
		}
		if free {
			t.Cleanup(func() { _ = claim.Close() })
			return base + 1
		}
		_ = claim.Close()
	}
	t.Fatal("no free ports")
	return 0
}
