// Package cluster runs real brokers on this machine: one process each, with a
// fault proxy in every directed link between two of them.
package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"chaos/history"
	"chaos/proxy"
)

// Config of a Cluster.
type Config struct {
	Binary  string
	Dir     string // data and logs
	Brokers int
	Flags   []string // of every broker
	Record  *history.Recorder
}

// Pair is a directed link: From dials To.
type Pair struct{ From, To int }

// Cluster is the brokers and the links between them.
type Cluster struct {
	cfg     Config
	Brokers []*Broker // id i at i-1
	Links   map[Pair]*proxy.Link
	voters  string
}

// New lays a cluster out without starting a broker.
func New(cfg Config) (*Cluster, error) {
	first, err := freePorts(cfg.Brokers)
	if err != nil {
		return nil, err
	}
	c := &Cluster{cfg: cfg, Links: map[Pair]*proxy.Link{}}
	var voters []string
	for i := range cfg.Brokers {
		b := &Broker{ID: i + 1, address: fmt.Sprintf("127.0.0.1:%d", first+i), dir: filepath.Join(cfg.Dir, fmt.Sprintf("node-%d", i+1)),
			logPath: filepath.Join(cfg.Dir, fmt.Sprintf("node-%d.log", i+1)), cluster: c}
		c.Brokers = append(c.Brokers, b)
		voters = append(voters, fmt.Sprintf("%d=%s", b.ID, b.URL()))
	}
	c.voters = strings.Join(voters, ",")
	for _, from := range c.Brokers {
		for _, to := range c.Brokers {
			if from == to {
				continue
			}
			l, err := proxy.Listen(to.address)
			if err != nil {
				return nil, errors.Join(err, c.Close())
			}
			c.Links[Pair{from.ID, to.ID}] = l
		}
	}
	return c, nil
}

// Broker by its id.
func (c *Cluster) Broker(id int) *Broker { return c.Brokers[id-1] }

// Heal takes every fault off every link.
func (c *Cluster) Heal() {
	for _, l := range c.Links {
		l.Set(proxy.Fault{})
	}
}

// Passed is how many bytes went through the links.
func (c *Cluster) Passed() (n int64) {
	for _, l := range c.Links {
		n += l.Passed()
	}
	return n
}

// Close kills what still runs.
func (c *Cluster) Close() error {
	var errs []error
	for _, b := range c.Brokers {
		errs = append(errs, b.Kill())
	}
	for _, l := range c.Links {
		l.Close()
	}
	return errors.Join(errs...)
}

// AwaitReady waits until every broker says that it is ready.
func (c *Cluster) AwaitReady(ctx context.Context) error {
	for _, b := range c.Brokers {
		if err := b.awaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// freePorts finds n ports in a row that nobody listens on, below the range that
// systems hand out to connections themselves: a broker that is down for a while
// must find its port free again.
func freePorts(n int) (first int, err error) {
	for range 1000 {
		base := 12000 + rand.IntN(20000)
		held := make([]net.Listener, 0, n)
		for p := base; p < base+n; p++ {
			if l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", p)); err == nil {
				held = append(held, l)
			}
		}
		for _, l := range held {
			_ = l.Close()
		}
		if len(held) == n {
			return base, nil
		}
	}
	return 0, errors.New("cluster: no free ports")
}

// probe is for questions about health.
var probe = http.Client{Timeout: 3 * time.Second}

// awaitReady waits until the broker is ready; it is an error if it ends instead.
func (b *Broker) awaitReady(ctx context.Context) error {
	last := errors.New("not asked")
	for {
		res, err := probe.Get(b.URL() + "/readyz")
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(res.Status)
		}
		last = err
		if !b.Running() {
			return fmt.Errorf("cluster: broker %d ended before it was ready; see %s", b.ID, b.logPath)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cluster: broker %d isn't ready: %w", b.ID, last)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Broker is one broker over all its lives.
type Broker struct {
	ID      int
	address string // HOST:PORT
	dir     string
	logPath string
	cluster *Cluster

	mu     sync.Mutex // guards what follows
	life   *life      // nil before the first
	lives  int
	joins  bool // its data was wiped: it comes back by --join
	paused bool
	mayEnd bool     // by itself
	full   bool     // its disk has no room
	exits  []string // ends that nobody asked for
}

// life is one process.
type life struct {
	process *os.Process
	exited  chan struct{} // closed when state is set
	state   *os.ProcessState
	// Guarded by Broker.mu:
	asked bool // the end was asked for
	full  bool // its disk had no room for a while
}

// URL of the broker.
func (b *Broker) URL() string { return "http://" + b.address }

// Dir is where its data is.
func (b *Broker) Dir() string { return b.dir }

// Life tells which life this is, from 1 on.
func (b *Broker) Life() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lives
}

// PID of the running process, 0 if none runs.
func (b *Broker) PID() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.life == nil || b.ended() {
		return 0
	}
	return b.life.process.Pid
}

func (b *Broker) ended() bool {
	select {
	case <-b.life.exited:
		return true
	default:
		return false
	}
}

// Running tells that there is a process, paused or not.
func (b *Broker) Running() bool { return b.PID() != 0 }

// UnaskedExits tells how lives ended that nobody had ended.
func (b *Broker) UnaskedExits() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.exits...)
}

// Start begins the next life, if none runs, and doesn't wait.
func (b *Broker) Start() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.life != nil && !b.ended() {
		return nil
	}
	out, err := os.OpenFile(b.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	c := b.cluster
	args := append([]string{c.cfg.Binary, "--listen=" + b.address, "--data-dir=" + b.dir, fmt.Sprintf("--node-id=%d", b.ID), "--log-format=json",
		"--advertise-url=" + b.URL(), "--disk-faults=" + b.faultsPath()}, c.cfg.Flags...)
	if via := b.detours(); via != "" {
		args = append(args, "--peer-via="+via)
	}
	if b.joins {
		args = append(args, "--join="+c.Brokers[b.ID%len(c.Brokers)].URL())
	} else {
		args = append(args, "--cluster="+c.voters)
	}
	process, err := os.StartProcess(c.cfg.Binary, args, &os.ProcAttr{
		Env:   append(os.Environ(), "GOMAXPROCS=2"),
		Files: []*os.File{nil, out, out},
		Sys:   &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}, // a run that is killed takes its brokers with it
	})
	if err != nil {
		return fmt.Errorf("cluster: broker %d: %w", b.ID, err)
	}
	l := &life{process: process, exited: make(chan struct{}), full: b.full}
	b.life, b.paused = l, false
	b.lives++
	c.cfg.Record.Event(history.EventUp, b.ID, fmt.Sprintf("life %d, pid %d", b.lives, process.Pid))
	go b.wait(l, b.lives)
	return nil
}

// wait takes down how a life ends.
func (b *Broker) wait(l *life, number int) {
	state, err := l.process.Wait()
	l.state = state
	b.mu.Lock()
	how := fmt.Sprintf("life %d: %v", number, state)
	if err != nil {
		how = fmt.Sprintf("life %d: %v", number, err)
	}
	if !l.asked && !b.mayEnd && !(l.full && b.foundNoRoomToStart()) {
		b.exits = append(b.exits, how)
		how += ", by itself"
	}
	b.cluster.cfg.Record.Event(history.EventDown, b.ID, how)
	b.mu.Unlock()
	close(l.exited)
}

func (b *Broker) detours() string {
	var pairs []string
	for _, to := range b.cluster.Brokers {
		if l := b.cluster.Links[Pair{b.ID, to.ID}]; l != nil {
			pairs = append(pairs, to.address+"="+l.Addr())
		}
	}
	return strings.Join(pairs, ",")
}

// signal sends a signal to the running process.
func (b *Broker) signal(s syscall.Signal, ends bool) *life {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.life == nil || b.ended() {
		return nil
	}
	l := b.life
	if ends {
		l.asked = true
	}
	switch s {
	case syscall.SIGSTOP:
		b.paused = true
		b.cluster.cfg.Record.Event(history.EventDown, b.ID, "SIGSTOP")
	case syscall.SIGKILL:
		// From now on it may be gone, though the end of the process comes later.
		b.cluster.cfg.Record.Event(history.EventDown, b.ID, "SIGKILL")
	}
	_ = l.process.Signal(s)
	if s == syscall.SIGCONT && b.paused {
		b.paused = false
		b.cluster.cfg.Record.Event(history.EventUp, b.ID, "SIGCONT")
	}
	return l
}

// Kill is kill -9; it returns when the process is gone.
func (b *Broker) Kill() error {
	if l := b.signal(syscall.SIGKILL, true); l != nil {
		<-l.exited
	}
	return nil
}

// Pause is SIGSTOP.
func (b *Broker) Pause() { b.signal(syscall.SIGSTOP, false) }

// Resume is SIGCONT.
func (b *Broker) Resume() { b.signal(syscall.SIGCONT, false) }

// Expect says whether the broker may end by itself from now on, such as of a disk
// that fails.
func (b *Broker) Expect(end bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mayEnd = end
}

// ErrHung is a broker that did not end within its time.
var ErrHung = errors.New("cluster: did not end in time")

// Stop is SIGTERM; it returns the exit code when the process is gone. One that
// doesn't end within the limit is killed.
func (b *Broker) Stop(limit time.Duration) (code int, err error) {
	l := b.signal(syscall.SIGTERM, true)
	if l == nil {
		return 0, nil
	}
	b.cluster.cfg.Record.Event("SIGTERM", b.ID, "")
	select {
	case <-l.exited:
		return l.state.ExitCode(), nil
	case <-time.After(limit):
		return -1, errors.Join(fmt.Errorf("broker %d, %v: %w", b.ID, limit, ErrHung), b.Kill())
	}
}

func (b *Broker) faultsPath() string { return b.dir + ".faults" }

// foundNoRoomToStart tells whether the last life said that its disk was too full to
// start on: the only end that a full disk may lead to.
func (b *Broker) foundNoRoomToStart() bool {
	log, err := os.ReadFile(b.logPath)
	if err != nil {
		return false
	}
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	last := lines[len(lines)-1]
	return bytes.Contains(last, []byte("highwater stopped")) && bytes.Contains(last, []byte("then start again"))
}

// Disk makes the broker's disk fail as the plan says (the lines of --disk-faults),
// until the next call.
func (b *Broker) Disk(plan string) error {
	b.mu.Lock()
	b.full = strings.Contains(plan, "no-space")
	if b.life != nil {
		b.life.full = b.life.full || b.full
	}
	b.mu.Unlock()
	if err := os.WriteFile(b.faultsPath()+".new", []byte(plan), 0o600); err != nil {
		return err
	}
	return os.Rename(b.faultsPath()+".new", b.faultsPath())
}

// Wipe throws the data of a broker that doesn't run away. It comes back by
// joining the others.
func (b *Broker) Wipe() error {
	if b.Running() {
		return fmt.Errorf("cluster: broker %d runs", b.ID)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.joins = true
	return os.RemoveAll(b.dir)
}
