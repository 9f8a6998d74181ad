package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// clockTicks is USER_HZ, the unit of /proc/<pid>/stat: 100 a second on Linux.
	clockTicks = 100
	// startLimit and stopLimit bound how long a process may take; they guard the
	// bench and are no targets.
	startLimit = 2 * time.Minute
	stopLimit  = time.Minute
	// readyPoll is how often a starting process is asked whether it is ready; it
	// is the resolution of the start-up times.
	readyPoll = 2 * time.Millisecond
)

// process is a broker or reference that runs beside the bench.
type process struct {
	cmd     *exec.Cmd
	addr    netip.AddrPort
	startup time.Duration // from exec to the first answer that says ready
	exited  chan error    // holds what Wait gave, once
}

// start runs a command that listens on addr and waits until readyPath answers
// 200. Its standard error goes to the file logPath.
func start(ctx context.Context, addr netip.AddrPort, readyPath, logPath string, name string, args ...string) (*process, error) {
	logFile, err := os.Create(logPath)
	if err != nil {
		return nil, err
	}
	defer func() { _ = logFile.Close() }()
	p := &process{cmd: exec.Command(name, args...), addr: addr, exited: make(chan error, 1)}
	p.cmd.Stdout, p.cmd.Stderr = logFile, logFile
	// A bench that is killed takes its servers with it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	begun := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { p.exited <- p.cmd.Wait() }()
	if err := p.awaitReady(ctx, readyPath, begun); err != nil {
		tail, _ := os.ReadFile(logPath)
		return nil, errors.Join(fmt.Errorf("%s did not get ready: %w\n%s", name, err, tail[max(0, len(tail)-2000):]), p.stop())
	}
	return p, nil
}

func (p *process) awaitReady(ctx context.Context, path string, begun time.Time) error {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	var last error
	for time.Since(begun) < startLimit {
		resp, err := client.Get(p.url(path))
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				p.startup = time.Since(begun)
				return nil
			}
			err = errors.New(resp.Status)
		}
		last = err
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), last)
		case err := <-p.exited:
			p.exited <- err
			return fmt.Errorf("it exited: %w", errors.Join(err, last))
		case <-time.After(readyPoll):
		}
	}
	return last
}

// stop asks the process to end (SIGTERM) and waits for it.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case err := <-p.exited:
		return err
	case <-time.After(stopLimit):
		_ = p.cmd.Process.Kill()
		return errors.Join(fmt.Errorf("pid %d did not end within %s of SIGTERM", p.pid(), stopLimit), <-p.exited)
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) url(path string) string { return "http://" + p.addr.String() + path }

// freeAddr finds a loopback port that nobody listens on right now.
func freeAddr(ctx context.Context) (netip.AddrPort, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return netip.AddrPort{}, err
	}
	addr := l.Addr().(*net.TCPAddr).AddrPort()
	return addr, l.Close()
}

// cpuTime is the user and system time that a process has used, in steps of 10 ms.
func cpuTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field is the command in parentheses and may hold anything.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: %d fields", pid, len(fields))
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / clockTicks, errors.Join(err1, err2)
}

// cpuTimes is that of several processes together.
func cpuTimes(pids []int) (sum time.Duration, err error) {
	for _, pid := range pids {
		t, err := cpuTime(pid)
		if err != nil {
			return 0, err
		}
		sum += t
	}
	return sum, nil
}

// ownCPU is the user and system time that this process has used.
func ownCPU() time.Duration {
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
		return 0 // never of RUSAGE_SELF
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// procField reads one "Name: 123" line of a file in /proc/<pid>.
func procField(pid int, file, name string) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && key == name {
			return strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		}
	}
	return 0, fmt.Errorf("/proc/%d/%s has no %s", pid, file, name)
}

// rssBytes is the resident set of a process.
func rssBytes(pid int) (int64, error) {
	kib, err := procField(pid, "status", "VmRSS")
	return kib << 10, err
}

// waitIdle returns when the process has used at most one clock tick within half
// a second, so that what it holds is what it holds at rest.
func waitIdle(pid int) error {
	const span = 500 * time.Millisecond
	last, err := cpuTime(pid)
	for begun := time.Now(); err == nil && time.Since(begun) < stopLimit; {
		time.Sleep(span)
		var now time.Duration
		if now, err = cpuTime(pid); now-last <= time.Second/clockTicks {
			return err
		}
		last = now
	}
	if err == nil {
		err = fmt.Errorf("pid %d still works after %s", pid, stopLimit)
	}
	return err
}
