package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// clusterBrokers is the size of the clusters under test.
const clusterBrokers = 3

// brokers is a cluster of real processes on this machine.
type brokers struct {
	b     *bench
	nodes []*process // broker id i at i-1; nil: down
	addrs []netip.AddrPort
	dir   string
	flags []string
}

// startCluster starts three brokers with their defaults and waits until all serve.
func (b *bench) startCluster() (*brokers, error) {
	c := &brokers{b: b, dir: filepath.Join(b.dir, "cluster"), nodes: make([]*process, clusterBrokers)}
	var voters []string
	for i := range clusterBrokers {
		addr, err := freeAddr(b.ctx)
		if err != nil {
			return nil, err
		}
		c.addrs = append(c.addrs, addr)
		voters = append(voters, fmt.Sprintf("%d=http://%s", i+1, addr))
	}
	c.flags = []string{"--log-format", "json", "--cluster", strings.Join(voters, ",")}
	errs := make(chan error, clusterBrokers)
	for i := range clusterBrokers {
		go func() { errs <- c.startNode(i) }()
	}
	var err error
	for range clusterBrokers {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	b.broker = c.nodes[0] // b.call asks it
	return c, c.await("broker 1 knows all others", startLimit, func() (bool, error) {
		var view struct {
			Brokers []struct {
				State string `json:"state"`
			} `json:"brokers"`
		}
		err := askJSON(b.ctx, c.nodes[0].url("/cluster"), &view)
		active := 0
		for _, x := range view.Brokers {
			if x.State == "active" {
				active++
			}
		}
		return active == clusterBrokers, err
	})
}

// startNode starts broker i+1 and waits until it serves.
func (c *brokers) startNode(i int) (err error) {
	c.nodes[i], err = start(c.b.ctx, c.addrs[i], "/readyz", c.nodeDir(i)+".log", c.b.brokerBin, append([]string{
		"--node-id", fmt.Sprint(i + 1), "--listen", c.addrs[i].String(), "--data-dir", c.nodeDir(i)}, c.flags...)...)
	return err
}

func (c *brokers) nodeDir(i int) string { return filepath.Join(c.dir, fmt.Sprintf("node-%d", i+1)) }

// killNode is kill -9 of broker i+1.
func (c *brokers) killNode(i int) error {
	p := c.nodes[i]
	c.nodes[i] = nil
	err := p.cmd.Process.Kill()
	<-p.exited
	return err
}

// stop ends all brokers in order and throws their data away.
func (c *brokers) stop() error {
	var errs []error
	for i, p := range c.nodes {
		if p != nil {
			if err := p.stop(); err != nil {
				errs = append(errs, fmt.Errorf("broker %d: %w", i+1, err))
			}
		}
	}
	c.b.broker = nil
	return errors.Join(append(errs, os.RemoveAll(c.dir))...)
}

// withCluster runs a measurement on a cluster of its own.
func withCluster(run func(*bench, *brokers) error) func(*bench) error {
	return func(b *bench) (err error) {
		if err := os.MkdirAll(filepath.Join(b.dir, "cluster"), 0o750); err != nil {
			return err
		}
		c, err := b.startCluster()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.stop()) }()
		if err = run(b, c); err != nil {
			err = fmt.Errorf("%w\n%s", err, c.logTails())
		}
		return err
	}
}

func (c *brokers) logTails() string {
	var s strings.Builder
	for i := range clusterBrokers {
		tail, _ := os.ReadFile(c.nodeDir(i) + ".log")
		fmt.Fprintf(&s, "broker %d's log ends:\n%s\n", i+1, tail[max(0, len(tail)-1500):])
	}
	return s.String()
}

// partitionView is what the bench reads of a partition.
type partitionView struct {
	Leader int   `json:"leader"`
	ISR    []int `json:"isr"`
}

// partitions asks broker i+1 about a topic.
func (c *brokers) partitions(i int, topic string) (views []partitionView, err error) {
	err = askJSON(c.b.ctx, c.nodes[i].url("/topics/"+topic+"/partitions"), &views)
	return views, err
}

func askJSON(ctx context.Context, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// topic makes a topic with three copies, waits until all are in sync, and tells
// which broker leads its first partition.
func (c *brokers) topic(name string, partitions int) (leader int, err error) {
	if _, _, err := c.b.call(http.MethodPut, "/topics/"+name, fmt.Appendf(nil, `{"partitions":%d,"replication_factor":%d}`, partitions, clusterBrokers)); err != nil {
		return 0, err
	}
	err = c.await("every replica of "+name+" is in sync", startLimit, func() (bool, error) {
		views, err := c.partitions(0, name)
		if err != nil || len(views) != partitions {
			return false, err
		}
		leader = views[0].Leader - 1
		return !slices.ContainsFunc(views, func(v partitionView) bool { return v.Leader < 1 || len(v.ISR) < clusterBrokers }), nil
	})
	return leader, err
}

// await polls until done is true. Errors count as "not yet".
func (c *brokers) await(what string, limit time.Duration, done func() (bool, error)) error {
	var last error
	for begun := time.Now(); time.Since(begun) < limit; time.Sleep(5 * time.Millisecond) {
		if err := c.b.ctx.Err(); err != nil {
			return err
		}
		ok, err := done()
		if ok && err == nil {
			return nil
		}
		last = err
	}
	return errors.Join(fmt.Errorf("not within %s: %s", limit, what), last)
}

// pids of all brokers that run.
func (c *brokers) pids() (pids []int) {
	for _, p := range c.nodes {
		if p != nil {
			pids = append(pids, p.pid())
		}
	}
	return pids
}

// produceSide is a closed loop against the leader.
func (c *brokers) produceSide(name string, leader, conns, records int, target string) side {
	l := load{addr: c.addrs[leader], conns: conns, request: produceRequests(target, records), status: http.StatusOK,
		warm: c.b.warm, measure: c.b.measure, pids: c.pids()}
	return side{name, provedReplicated, records, l.closedLoop}
}

const provedReplicated = "fsynced on all three brokers"
