package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// referenceCommand is the hidden argument that makes this binary the reference.
const referenceCommand = "reference"

// bench is one run: a broker, a reference process, and what was measured.
type bench struct {
	options
	ctx       context.Context
	brokerDir string // data of the broker
	broker    *process
	reference *process
	rawAddr   netip.AddrPort // the reference's bare socket
	report    report
}

// measurement is one part of a run.
type measurement struct {
	name string // targets that it fills, joined by "+"
	run  func(*bench) error
	// cluster: it starts the brokers that it needs itself.
	cluster bool
}

func measurements() []measurement {
	return []measurement{
		{"P1+P3", (*bench).measureBatches, false},
		{"P2", (*bench).measureSingles, false},
		{"P4", (*bench).measureGroupCommit, false},
		{"P5", (*bench).measureOneConnection, false},
		{"open", (*bench).measureOpenLoop, false},
		{"P9", (*bench).measurePages, false},
		{"P11", (*bench).measureRandomReads, false},
		{"P12", (*bench).measureWaiters, false},
		{"P13", (*bench).measurePartitions, false},
		{"P17", (*bench).measureIDs, false},
		{"P18+P19+P20", (*bench).measureIDMemory, false},
		{"P6+P7", withCluster((*bench).measureReplicated), true},
		{"P8", withCluster((*bench).measureReplicatedLone), true},
		{"P10", withCluster((*bench).measureRawFetch), true},
		{"P14", withCluster((*bench).measureCatchUp), true},
		{"P15+P16", withCluster((*bench).measureFailover), true},
		{"P17+P20", withCluster((*bench).measureReplicatedIDs), true},
		{"allocs", (*bench).measureAllocations, false},
	}
}

func measurementNames() string {
	var names []string
	for _, m := range measurements() {
		names = append(names, m.name)
	}
	return strings.Join(names, " ")
}

func run(ctx context.Context, o options) (err error) {
	begun := time.Now()
	o.dir, err = filepath.Abs(o.dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.dir, 0o750); err != nil {
		return err
	}
	if o.dir, err = os.MkdirTemp(o.dir, "run-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	b := &bench{options: o, ctx: ctx, brokerDir: filepath.Join(o.dir, "broker")}
	if b.report.machine, err = describeMachine(o.dir); err != nil {
		return err
	}
	if err := b.build(); err != nil {
		return err
	}
	if err := b.startReference(); err != nil {
		return err
	}
	defer func() { _ = b.reference.stop() }()
	for _, m := range measurements() {
		if !b.wanted(m.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(begun).Seconds(), m.name)
		if err := b.isolated(m); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	b.report.took = time.Since(begun)
	return b.publish()
}

// isolated runs one measurement on a broker of its own with an empty data
// directory, so that none depends on what another left behind.
func (b *bench) isolated(m measurement) (err error) {
	if err := b.ctx.Err(); err != nil {
		return err
	}
	if m.cluster {
		return m.run(b)
	}
	if err := b.startBroker(); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, b.stopBroker(), os.RemoveAll(b.brokerDir))
	}()
	if err := m.run(b); err != nil {
		tail, _ := os.ReadFile(b.brokerDir + ".log")
		return fmt.Errorf("%w\nthe broker's log ends:\n%s", err, tail[max(0, len(tail)-2000):])
	}
	return nil
}

func (b *bench) wanted(name string) bool {
	if b.only == "" {
		return true
	}
	parts := strings.Split(name, "+")
	return slices.ContainsFunc(strings.Split(b.only, ","), func(o string) bool {
		return o == name || slices.Contains(parts, o)
	})
}

func (b *bench) build() error {
	if b.brokerBin != "" {
		return nil
	}
	b.brokerBin = filepath.Join(b.dir, "highwater")
	out, err := exec.CommandContext(b.ctx, "go", "build", "-o", b.brokerBin, "./server").CombinedOutput()
	if err != nil {
		return fmt.Errorf("building the broker: %w\n%s", err, out)
	}
	return nil
}

func (b *bench) startReference() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	addr, err1 := freeAddr(b.ctx)
	raw, err2 := freeAddr(b.ctx)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	b.rawAddr = raw
	b.reference, err = start(b.ctx, addr, "/ready", filepath.Join(b.dir, "reference.log"), self, referenceCommand, addr.String(), raw.String())
	return err
}

func (b *bench) startBroker() error {
	addr, err := freeAddr(b.ctx)
	if err != nil {
		return err
	}
	b.broker, err = start(b.ctx, addr, "/readyz", b.brokerDir+".log", b.brokerBin,
		"--listen", addr.String(), "--data-dir", b.brokerDir)
	return err
}

func (b *bench) stopBroker() error {
	if b.broker == nil {
		return nil
	}
	err := b.broker.stop()
	b.broker = nil
	return err
}

// call does one request that is not measured and returns the answer's body.
func (b *bench) call(method, path string, body []byte) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(b.ctx, method, b.broker.url(path), bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %.500s", method, path, resp.Status, answer)
	}
	return answer, resp.Header, err
}

// createTopic makes a topic with that many partitions and returns its id.
func (b *bench) createTopic(name string, partitions int) (id string, err error) {
	answer, _, err := b.call(http.MethodPut, "/topics/"+name, fmt.Appendf(nil, `{"partitions":%d}`, partitions))
	if err != nil {
		return "", err
	}
	var topic struct {
		ID string `json:"topic_id"`
	}
	if err := json.Unmarshal(answer, &topic); err != nil {
		return "", fmt.Errorf("create topic: %w", err)
	}
	return topic.ID, nil
}

// side is one of the two or more things that take turns.
type side struct {
	name       string
	durability string // what its answer proves, for the report
	records    int    // in a request
	run        func() (sample, error)
}

// interleave runs the sides in turns, A B A B, rounds times. samples[i][r] is
// side i in round r.
func (b *bench) interleave(sides ...side) (samples [][]sample, err error) {
	samples = make([][]sample, len(sides))
	for range b.rounds {
		for i, s := range sides {
			if err := b.ctx.Err(); err != nil {
				return nil, err
			}
			if err := settle(b.dir); err != nil {
				return nil, err
			}
			got, err := s.run()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			samples[i] = append(samples[i], got)
		}
	}
	for i, s := range sides {
		b.report.addAbsolute(s, samples[i])
	}
	return samples, nil
}

// each takes one figure out of every round of a side.
func each(samples []sample, figure func(*sample) float64) []float64 {
	out := make([]float64, len(samples))
	for i := range samples {
		out[i] = figure(&samples[i])
	}
	return out
}

func medianLatency(s *sample) float64 { return s.latency.quantile(0.5).Seconds() }

// produceSide is a closed loop of produce requests against the broker.
func (b *bench) produceSide(name, durability string, conns, records int, request func(int) []byte) side {
	return b.httpSide(name, durability, b.broker, conns, records, request)
}

func (b *bench) httpSide(name, durability string, p *process, conns, records int, request func(int) []byte) side {
	l := load{addr: p.addr, conns: conns, request: request, status: http.StatusOK, warm: b.warm, measure: b.measure, pids: []int{p.pid()}}
	return side{name, durability, records, l.closedLoop}
}
