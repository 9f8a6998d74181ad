package main

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"highwater/replication/controller"
)

// defaultListen is reached from this machine alone: the broker asks nobody for a
// password.
const defaultListen = "127.0.0.1:8080"

// Bounds of the cluster's settings, and why.
const (
	minLagTime       = 500 * time.Millisecond // a follower's poll must fit
	minSession       = time.Second            // several heartbeats must fit
	maxClusterTime   = 10 * time.Minute
	minQuorumTimeout = 100 * time.Millisecond // of an election
	maxQuorumTimeout = 10 * time.Second
	// maxVoters: each further one makes every metadata change slower, and seven
	// survive the loss of three already.
	maxVoters = 9
	// maxReplicas of a partition; an acks=-1 produce waits for the slowest.
	maxReplicas = 100
)

// resolveListen fills in --listen: with --cluster a node listens where the list
// says that it is, so that one value tells everything.
func (c *config) resolveListen() {
	if c.Listen != "" {
		return
	}
	c.Listen = defaultListen
	own := c.Cluster.find(c.NodeID)
	if own == nil {
		return
	}
	u, err := url.Parse(own.URL)
	if err != nil || u.Scheme != "http" || u.Port() == "" {
		return // something in front of the broker has this address
	}
	host := u.Hostname()
	if net.ParseIP(host) == nil && host != "localhost" {
		host = "" // a name; on which of this machine's addresses is for the resolver of the others to say
	}
	c.Listen = net.JoinHostPort(host, u.Port())
}

// quorumTiming is what --quorum-timeout asks for. A lone broker has nobody to wait for.
func (c *config) quorumTiming() controller.Timing {
	wait := time.Duration(c.QuorumTimeout)
	if wait == 0 || c.alone() {
		return controller.Timing{}
	}
	return controller.Timing{Heartbeat: wait, Election: wait, Lease: wait / 2}
}

// urls are the voters' addresses by id.
func (v voters) urls() map[int32]string {
	urls := map[int32]string{}
	for _, m := range v {
		urls[m.ID] = m.URL
	}
	return urls
}

// alone says that the flags make this process a cluster of its own.
func (c *config) alone() bool { return len(c.Cluster) <= 1 && c.Join == "" }

// checkTopics checks the defaults of topics. How many brokers there will be isn't
// known to one that founds or joins a cluster; then the creation of a topic says it.
func (c *config) checkTopics(bad func(flag string, value any, want string)) {
	if c.DefaultPartitions < 1 || c.DefaultPartitions > maxPartitionsDefault {
		bad("default-partitions", c.DefaultPartitions, fmt.Sprintf("must be 1 to %d", maxPartitionsDefault))
	}
	switch factor := c.DefaultReplicationFactor; {
	case factor < 0 || factor > maxReplicas:
		bad("default-replication-factor", factor, fmt.Sprintf("must be 1 to %d, or 0 for the usual", maxReplicas))
	case factor > 1 && c.alone():
		bad("default-replication-factor", factor, "there is one broker, so a topic can have 1 copy; leave it out, or start a cluster with --cluster")
	}
	factor := c.DefaultReplicationFactor
	if factor == 0 {
		if factor = 3; c.alone() {
			factor = 1
		}
	}
	if c.MinInsyncReplicas < 0 || c.MinInsyncReplicas > factor {
		bad("min-insync-replicas", c.MinInsyncReplicas, fmt.Sprintf("must not be above the replication factor (%d), or no acks=-1 could succeed", factor))
	}
}

// checkCluster checks the settings of a cluster.
func (c *config) checkCluster(bad func(flag string, value any, want string)) {
	if c.NodeID < 1 {
		bad("node-id", c.NodeID, "must be 1 or more")
	}
	between(bad, "replica-lag-time-max", c.ReplicaLagTimeMax, minLagTime, maxClusterTime)
	between(bad, "broker-session-timeout", c.BrokerSessionTimeout, minSession, maxClusterTime)
	if c.QuorumTimeout != 0 {
		between(bad, "quorum-timeout", c.QuorumTimeout, minQuorumTimeout, maxQuorumTimeout)
	}
	if c.Join != "" {
		if clean, err := baseURL(c.Join); err != nil {
			bad("join", c.Join, err.Error())
		} else {
			c.Join = clean
		}
	}
	c.checkVoters(bad)
	c.checkSecret(bad)
}

func (c *config) checkVoters(bad func(flag string, value any, want string)) {
	if len(c.Cluster) == 0 {
		return
	}
	own := c.Cluster.find(c.NodeID)
	switch {
	case own == nil && c.Join == "":
		bad("cluster", c.Cluster, fmt.Sprintf("does not name this node; --node-id is %d. Give each node its own id out of the list, or start a further broker with --join URL", c.NodeID))
	case own == nil:
	case c.AdvertiseURL == "":
		c.AdvertiseURL = own.URL
	case c.AdvertiseURL != own.URL:
		bad("cluster", c.Cluster, fmt.Sprintf("gives node %d another URL than --advertise-url %s", own.ID, c.AdvertiseURL))
	}
	if c.Join != "" && own != nil && c.Join == own.URL {
		bad("join", c.Join, "is this node itself; name another broker of the cluster")
	}
	switch n := len(c.Cluster); {
	case n > maxVoters:
		bad("cluster", c.Cluster, fmt.Sprintf("names %d voters; at most %d: start the others with --join URL", n, maxVoters))
	case n > 5:
		c.advice = append(c.advice, fmt.Sprintf("--cluster names %d voters: 5 survive the loss of two; start the others with --join URL, which makes metadata changes faster", n))
	case n%2 == 0:
		c.advice = append(c.advice, fmt.Sprintf("--cluster names %d voters: an even number survives no more losses than %d does; name 1, 3 or 5, and start the others with --join URL", n, n-1))
	}
}

// checkSecret reads the secret. Without one, peers are answered on loopback only,
// so a cluster over several machines could never form.
func (c *config) checkSecret(bad func(flag string, value any, want string)) {
	if c.ClusterSecretFile == "" {
		const want = "brokers on several machines prove themselves by a secret, and there is none: " +
			"make one (openssl rand -hex 32 > secret; chmod 600 secret), copy it to each machine and say --cluster-secret-file secret"
		if i := slices.IndexFunc(c.Cluster, func(v voter) bool { return !loopbackURL(v.URL) }); i >= 0 && len(c.Cluster) > 1 {
			bad("cluster", c.Cluster[i].URL, want)
		}
		if c.Join != "" && !loopbackURL(c.Join) {
			bad("join", c.Join, want)
		}
		return
	}
	secret, mode, err := readSecret(c.ClusterSecretFile)
	switch {
	case err != nil:
		bad("cluster-secret-file", c.ClusterSecretFile, err.Error())
	case mode&0o022 != 0:
		bad("cluster-secret-file", c.ClusterSecretFile, fmt.Sprintf("has mode %04o: others may write it; say: chmod 600 %s", mode, c.ClusterSecretFile))
	case mode&0o004 != 0:
		c.advice = append(c.advice, fmt.Sprintf("--cluster-secret-file %s has mode %04o: everybody on this machine may read it; say: chmod 600 %s",
			c.ClusterSecretFile, mode, c.ClusterSecretFile))
	}
	c.secret = secret
}

// loopbackURL tells whether a broker's URL leads back to this machine. Of a name
// other than localhost only the resolver knows, and it may change its mind.
func loopbackURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	host := u.Hostname()
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || (ip != nil && ip.IsLoopback())
}

// find is the voter with that id, nil if there is none.
func (v voters) find(id int32) *voter {
	for i := range v {
		if v[i].ID == id {
			return &v[i]
		}
	}
	return nil
}
