package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"highwater/replication/wire"
)

// rawFetchBytes is what a follower asks for at most in one answer of P10.
const rawFetchBytes = 1 << 20

// measureRawFetch fills P10: the bench asks as a follower that is away would, and
// the reference serves the same segment by http.ServeContent, which is sendfile.
func (b *bench) measureRawFetch(c *brokers) error {
	leader, err := c.topic("raw", 1)
	if err != nil {
		return err
	}
	follower := (leader + 1) % clusterBrokers
	if _, err := c.fill(leader, "raw", 64<<20); err != nil {
		return err
	}
	epoch, err := c.brokerEpoch(follower)
	if err != nil {
		return err
	}
	if err := c.killNode(follower); err != nil {
		return err
	}
	b.broker = c.nodes[leader]
	requests, err := c.fetchRequests(leader, follower, epoch)
	if err != nil {
		return err
	}
	segment, err := filepath.Glob(filepath.Join(c.nodeDir(leader), "partitions", "*", "00000000000000000000.log"))
	if err != nil || len(segment) != 1 {
		return errors.Join(fmt.Errorf("%d segments", len(segment)), err)
	}
	if err := b.shareFiles(segment); err != nil {
		return err
	}
	served := func(int) []byte {
		return fmt.Appendf(nil, "GET /content HTTP/1.1\r\nHost: bench\r\nRange: bytes=0-%d\r\n\r\n", rawFetchBytes-1)
	}
	reference := load{addr: b.reference.addr, conns: 1, request: served, status: http.StatusPartialContent, warm: b.warm, measure: b.measure, pids: []int{b.reference.pid()}}
	fetch := load{addr: c.addrs[leader], conns: 1, request: requests, status: http.StatusOK, warm: b.warm, measure: b.measure, pids: []int{c.nodes[leader].pid()}}
	s, err := b.interleave(
		side{"http.ServeContent of 1 MiB of a segment", provedCached, 0, reference.closedLoop},
		side{"a follower's fetch of 1 MiB of batches", provedCached, 0, fetch.closedLoop})
	if err != nil {
		return err
	}
	b.report.add(row{id: "P10", work: "raw batches to a follower, one connection: bytes/s against http.ServeContent (sendfile)", target: 0.85, stretch: 0.95, unit: percent, atLeast: true,
		rounds: perRound(each(s[1], (*sample).bytesPerSecond), each(s[0], (*sample).bytesPerSecond))})
	return nil
}

// provedCached: the bytes come from the page cache.
const provedCached = "page cache"

// fetchRequests are those of a follower that begins at the log's start and is
// never satisfied.
func (c *brokers) fetchRequests(leader, follower int, epoch int64) (func(int) []byte, error) {
	var root struct {
		ClusterID string `json:"cluster_id"`
	}
	var topic struct {
		ID         uuid.UUID `json:"topic_id"`
		Partitions []struct {
			LeaderEpoch int32 `json:"leader_epoch"`
		} `json:"partitions"`
	}
	if err := errors.Join(askJSON(c.b.ctx, c.nodes[leader].url("/cluster"), &root), askJSON(c.b.ctx, c.nodes[leader].url("/topics/raw"), &topic)); err != nil {
		return nil, err
	}
	seq := int64(1 << 40) // above all that the follower sent itself
	return func(int) []byte {
		seq++
		body := wire.AppendFrame(nil, &wire.FetchRequest{Version: wire.Version, ClusterID: root.ClusterID, Replica: int32(follower + 1), BrokerEpoch: epoch, Seq: seq, Full: true,
			MaxWaitMs: 500, MinBytes: 1, MaxBytes: rawFetchBytes, Partitions: []wire.FetchPartition{{
				TopicPartition: wire.TopicPartition{Topic: topic.ID}, LeaderEpoch: topic.Partitions[0].LeaderEpoch, LastEpoch: -1, MaxBytes: rawFetchBytes}}})
		return post(wire.PathPrefix+wire.PathFetch, wire.ContentType, body)
	}, nil
}

// brokerEpoch finds a broker's epoch in its log.
func (c *brokers) brokerEpoch(i int) (epoch int64, err error) {
	f, err := os.Open(c.nodeDir(i) + ".log")
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var line struct {
			Message string `json:"message"`
			Epoch   int64  `json:"broker_epoch"`
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "registered" {
			epoch = line.Epoch
		}
	}
	if epoch == 0 {
		return 0, fmt.Errorf("broker %d's log tells no epoch", i+1)
	}
	return epoch, lines.Err()
}
