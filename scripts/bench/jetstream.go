package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// jetstream is a cluster of three NATS servers. They are a program of a module of
// its own, scripts/bench/jetstream.
type jetstream struct {
	b          *bench
	binary     string
	dir        string
	durability string
	servers    string // NAME=URL,..
	processes  []*exec.Cmd
}

// buildJetstream builds the program of servers and load.
func (b *bench) buildJetstream() (binary string, err error) {
	binary = filepath.Join(b.dir, "jetstream")
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	cmd := exec.CommandContext(b.ctx, "go", "build", "-o", binary, ".")
	cmd.Dir = "scripts/bench/jetstream"
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the JetStream peer: %w\n%s", err, out)
	}
	return binary, nil
}

// startJetstream starts three servers whose streams are synced always, or by
// default (every two minutes).
func (b *bench) startJetstream(sync, durability string) (*jetstream, error) {
	binary, err := b.buildJetstream()
	if err != nil {
		return nil, err
	}
	j := &jetstream{b: b, binary: binary, dir: filepath.Join(b.dir, "jetstream-"+sync), durability: durability}
	var ports, clusterPorts [clusterBrokers]netip.AddrPort
	var routes, servers []string
	for i := range clusterBrokers {
		var err1, err2 error
		ports[i], err1 = freeAddr(b.ctx)
		clusterPorts[i], err2 = freeAddr(b.ctx)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		routes = append(routes, "nats://"+clusterPorts[i].String())
		servers = append(servers, fmt.Sprintf("n%d=nats://%s", i+1, ports[i]))
	}
	j.servers = strings.Join(servers, ",")
	for i := range clusterBrokers {
		cmd := exec.Command(binary, "serve", "-name", fmt.Sprintf("n%d", i+1), "-port", fmt.Sprint(ports[i].Port()), "-cluster", fmt.Sprint(clusterPorts[i].Port()),
			"-routes", strings.Join(routes, ","), "-dir", filepath.Join(j.dir, fmt.Sprintf("n%d", i+1)), "-sync", sync)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			return nil, errors.Join(err, j.stop())
		}
		j.processes = append(j.processes, cmd)
	}
	return j, nil
}

func (j *jetstream) stop() error {
	for _, cmd := range j.processes {
		_ = cmd.Process.Kill() // its data is thrown away
		_ = cmd.Wait()
	}
	return os.RemoveAll(j.dir)
}

// side publishes: one message after the other on each connection, or batches whose
// acknowledgements are awaited together.
func (j *jetstream) side(name string, conns, batch int) side {
	return side{name, j.durability, batch, func() (s sample, err error) {
		cmd := exec.CommandContext(j.b.ctx, j.binary, "load", "-servers", j.servers, "-conns", fmt.Sprint(conns), "-batch", fmt.Sprint(batch),
			"-bytes", fmt.Sprint(valueBytes), "-warm", j.b.warm.String(), "-measure", j.b.measure.String())
		cmd.Stderr = os.Stderr
		before, err := j.cpu()
		if err != nil {
			return s, err
		}
		out, err := cmd.Output()
		if err != nil {
			return s, fmt.Errorf("JetStream: %w", err)
		}
		after, err := j.cpu()
		if err != nil {
			return s, err
		}
		var got struct {
			Requests    int64           `json:"requests"`
			ElapsedNs   time.Duration   `json:"elapsed_ns"`
			LatenciesNs []time.Duration `json:"latencies_ns"`
		}
		if err := json.Unmarshal(out, &got); err != nil {
			return s, fmt.Errorf("JetStream: %w", err)
		}
		// The servers' CPU is that of warm-up and measuring; it is scaled to the latter.
		share := float64(got.ElapsedNs) / float64(got.ElapsedNs+j.b.warm)
		return sample{requests: got.Requests, elapsed: got.ElapsedNs, latency: got.LatenciesNs,
			cpu: time.Duration(float64(after-before) * share), own: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}, nil
	}}
}

func (j *jetstream) cpu() (sum time.Duration, err error) {
	for _, cmd := range j.processes {
		t, err := cpuTime(cmd.Process.Pid)
		if err != nil {
			return 0, err
		}
		sum += t
	}
	return sum, nil
}
