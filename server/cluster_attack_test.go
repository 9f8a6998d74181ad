package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"highwater/replication/controller"
	"highwater/replication/wire"
)

// propose sends a command to the quorum as a broker of the cluster would.
func propose(t *testing.T, c *client, clusterID, kind string, command controller.Command, secret string) *wire.ProposeAnswer {
	t.Helper()
	data, err := json.Marshal(command)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(map[string]any{"v": 1, "t": kind, "d": json.RawMessage(data)})
	if err != nil {
		t.Fatal(err)
	}
	body := wire.AppendFrame(nil, &wire.JSON[wire.Propose]{V: &wire.Propose{Version: wire.Version, ClusterID: clusterID, Command: encoded, TimeoutMs: 5000}})
	var answer wire.JSON[wire.ProposeAnswer]
	if err := wire.DecodeBody(c.must(t, 200, "POST", wire.PathPrefix+wire.PathPropose, wire.ContentType, string(body), wire.HeaderSecret, secret), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.V
}

// TestH49_BadInSyncProposals: proposals for a partition's ISR that no honest leader
// makes are refused by the quorum, whatever they come with, while honest ones go on;
// the leader stays in the set, the set is never empty, and the partition writable.
// HIGHWATER_H49_SECONDS sets how long (default 5).
func TestH49_BadInSyncProposals(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.topic("orders", 2, 3, "min.insync.replicas", "2")
	l := startLoad(c, "orders", 2, 3, "-1", nil)
	first := c.nodes[0]
	var topic struct {
		ID uuid.UUID `json:"topic_id"`
	}
	if err := json.Unmarshal(c.client(first).must(t, 200, "GET", "/topics/orders", "", ""), &topic); err != nil || topic.ID == uuid.Nil {
		t.Fatal(err)
	}
	epochs := brokerEpochs(t, c)
	seconds := number(t, "HIGHWATER_H49_SECONDS", 5)
	attacks, refusals := 0, 0
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); {
		controllerNode := c.controller()
		cc, id := c.client(controllerNode), c.view(controllerNode).ClusterID
		v := c.partitions(first, "orders")[0]
		leader := wire.Member{Broker: v.Leader, Epoch: epochs[v.Leader]}
		var followers []wire.Member
		for b, e := range epochs {
			if b != v.Leader {
				followers = append(followers, wire.Member{Broker: b, Epoch: e})
			}
		}
		good := wire.AlterPartition{Topic: topic.ID, LeaderEpoch: v.LeaderEpoch, PartitionEpoch: debugPartition(t, c, c.nodes[v.Leader-1], "orders", 0).PartitionEpoch,
			ISR: append([]wire.Member{leader}, followers...)}
		for name, a := range badProposals(good) {
			answer := propose(t, cc, id, "alter_partitions", &controller.AlterPartitions{Broker: v.Leader, Epoch: leader.Epoch, Changes: []wire.AlterPartition{a}}, "")
			attacks++
			if answer.Code != wire.OK { // not the controller any more: nothing was judged
				continue
			}
			var results []wire.AlterResult
			if err := json.Unmarshal(answer.Result, &results); err == nil && len(results) == 1 && results[0].Code == wire.OK {
				t.Errorf("%s: accepted: %s", name, answer.Result)
			}
			refusals++
		}
		// A follower that says that it leads, and a broker in its former life.
		for name, from := range map[string]controller.AlterPartitions{
			"not the leader":   {Broker: followers[0].Broker, Epoch: followers[0].Epoch},
			"former life":      {Broker: v.Leader, Epoch: leader.Epoch - 1},
			"a broker unknown": {Broker: 77, Epoch: 1},
		} {
			from.Changes = []wire.AlterPartition{good}
			from.Changes[0].ISR = good.ISR[:1]
			answer := propose(t, cc, id, "alter_partitions", &from, "")
			var results []wire.AlterResult
			if answer.Code == wire.OK && len(answer.Error) == 0 && json.Unmarshal(answer.Result, &results) == nil && len(results) == 1 && results[0].Code == wire.OK {
				t.Errorf("%s: accepted: %s", name, answer.Result)
			}
		}
		for _, m := range c.nodes {
			for _, p := range c.partitions(m, "orders") {
				if len(p.ISR) == 0 || (p.Leader > 0 && !containsID(p.ISR, p.Leader)) {
					t.Errorf("broker %d says: leader %d, in sync %d", m.id, p.Leader, p.ISR)
				}
			}
		}
		if t.Failed() {
			break
		}
	}
	l.await(50, 0, 1)
	l.end()
	l.noFailures()
	l.verify()
	t.Logf("%d bad proposals, %d judged and refused", attacks, refusals)
	if refusals == 0 {
		t.Error("no proposal was judged")
	}
	c.stopAll()
}

// badProposals are variants of a good one, whose set is all replicas, the leader first.
func badProposals(good wire.AlterPartition) map[string]wire.AlterPartition {
	bad := func(change func(a *wire.AlterPartition)) wire.AlterPartition {
		a := good
		a.ISR = slices.Clone(good.ISR)
		change(&a)
		return a
	}
	return map[string]wire.AlterPartition{
		"empty":             bad(func(a *wire.AlterPartition) { a.ISR = nil }),
		"no leader":         bad(func(a *wire.AlterPartition) { a.ISR = a.ISR[1:] }),
		"unknown broker":    bad(func(a *wire.AlterPartition) { a.ISR = append(a.ISR, wire.Member{Broker: 77, Epoch: 1}) }),
		"twice the leader":  bad(func(a *wire.AlterPartition) { a.ISR = []wire.Member{a.ISR[0], a.ISR[0]} }),
		"old life":          bad(func(a *wire.AlterPartition) { a.ISR[1].Epoch-- }),
		"old leader epoch":  bad(func(a *wire.AlterPartition) { a.LeaderEpoch-- }),
		"old partition":     bad(func(a *wire.AlterPartition) { a.PartitionEpoch-- }),
		"epoch to come":     bad(func(a *wire.AlterPartition) { a.LeaderEpoch += 10 }),
		"unknown topic":     bad(func(a *wire.AlterPartition) { a.Topic = uuid.New() }),
		"unknown partition": bad(func(a *wire.AlterPartition) { a.Partition = 99 }),
	}
}

func containsID(ids []int32, id int32) bool {
	for _, i := range ids {
		if i == id {
			return true
		}
	}
	return false
}

// debugView is what a broker tells its peers of a replica.
type debugView struct {
	Topic          string `json:"topic"`
	Partition      int    `json:"partition"`
	Role           string `json:"role"`
	PartitionEpoch int32  `json:"partition_epoch"`
}

func debugPartition(t *testing.T, c *cluster, m *node, topic string, partition int) debugView {
	t.Helper()
	var all []debugView
	body := c.client(m).must(t, 200, "GET", wire.PathPrefix+wire.PathDebugPartitions, "", "")
	if err := json.Unmarshal(body, &all); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	for _, p := range all {
		if p.Topic == topic && p.Partition == partition {
			return p
		}
	}
	t.Fatalf("%s-%d isn't in %s", topic, partition, body)
	return debugView{}
}

// brokerEpochs are the epochs of the running brokers' lives, by their log.
func brokerEpochs(t *testing.T, c *cluster) map[int32]int64 {
	t.Helper()
	epochs := map[int32]int64{}
	for _, m := range c.running() {
		epochs[m.id] = m.line.BrokerEpoch
		if epochs[m.id] == 0 {
			t.Fatalf("broker %d doesn't log its epoch: %s", m.id, m.output())
		}
	}
	return epochs
}

// TestH54_StrangersAreRefused: with a secret, whatever brokers ask each other is 403
// without it or with a wrong one, on every path and method; nothing that profiles or
// dumps the process is served at all; a broker without the secret can't join; and the
// secret is in no log.
func TestH54_StrangersAreRefused(t *testing.T) {
	t.Parallel()
	const secret = "correct-horse-battery-staple"
	file := secretFile(t, secret+"\n", 0o600)
	c := newCluster(t, 3, "--cluster-secret-file="+file)
	c.topic("orders", 1, 3, "min.insync.replicas", "2")
	m := c.nodes[0]
	sc := c.client(m)
	id := c.view(m).ClusterID
	paths := []string{wire.PathRaft, wire.PathFetch, wire.PathLeaderEpoch, wire.PathPropose, wire.PathHeartbeat, wire.PathJoin, wire.PathFounding,
		wire.PathAppend, wire.PathRead, wire.PathWatch, wire.PathOffsets, wire.PathDeleteRecords, wire.PathStatus, wire.PathFindMessage, wire.PathDedupe, wire.PathDebugPartitions, wire.PathDebugDedupe, "", "nothing-there"}
	for _, path := range paths {
		for _, method := range []string{"GET", "POST", "DELETE", "OPTIONS"} {
			for _, given := range []string{"", secret + "x", secret[:len(secret)-1]} {
				headers := []string{"Connection", "Upgrade", "Upgrade", wire.UpgradeRaft, wire.HeaderClusterID, id, "X-Forwarded-For", "127.0.0.1"}
				if given != "" {
					headers = append(headers, wire.HeaderSecret, given)
				}
				status, body, err := sc.do(t.Context(), method, wire.PathPrefix+path, wire.ContentType, []byte("\x00\x00\x00\x02{}"), headers...)
				if err != nil || status != http.StatusForbidden {
					t.Errorf("%s %s with secret %q: %d %v %s", method, path, given, status, err, body)
				}
				if strings.Contains(string(body), id) {
					t.Errorf("%s %s tells the cluster's id", method, path)
				}
			}
		}
	}
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/vars", "/internal", "/internal/", "/internal/v1/../../internal/v1/propose", "//internal/v1/propose",
		"/%69nternal/v1/propose", "/Internal/v1/propose"} {
		req, err := http.NewRequest("POST", m.base()+"/", strings.NewReader("\x00\x00\x00\x02{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.URL.Opaque = path // as it stands
		res, err := sc.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode < 400 || res.StatusCode >= 500 {
			t.Errorf("%s: %s", path, res.Status)
		}
	}

	// A broker without the secret, and one with another.
	for i, flag := range []string{"", "--cluster-secret-file=" + secretFile(t, "0123456789abcdef", 0o600)} {
		stranger := &node{id: int32(7 + i), dir: t.TempDir(), address: fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)), flags: []string{"--join=" + m.base()}}
		args := []string{"--listen=" + stranger.address, "--data-dir=" + stranger.dir, fmt.Sprintf("--node-id=%d", stranger.id), "--log-format=json", "--join=" + m.base()}
		if flag != "" {
			args = append(args, flag)
		}
		stranger.brokerProcess = launchArgs(t, args...)
		until(t, "the stranger is refused", func() bool {
			select {
			case <-stranger.exited:
				return true
			default:
				return stranger.logged("403")+stranger.logged("refused")+stranger.logged("secret") > 0
			}
		})
		stranger.kill()
	}
	if v := c.view(m); len(v.Brokers) != 3 {
		t.Errorf("a stranger is in: %+v", v)
	}
	c.client(m).must(t, 200, "POST", "/topics/orders?acks=-1", "application/json", `{"records":[{"value":1}]}`)
	for _, m := range c.nodes {
		if m.logged(secret) > 0 {
			t.Errorf("broker %d logs the secret", m.id)
		}
	}
	c.stopAll()
}
