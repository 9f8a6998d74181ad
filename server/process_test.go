package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for a process before it calls it hung. It
// is no measure of speed: this machine may be busy.
const patience = 2 * time.Minute

// process under test: one real broker.
type brokerProcess struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	line startLine

	mu   sync.Mutex // guards logs
	logs []string

	started chan struct{} // closed at the "starting" line
	serving chan struct{} // closed at the "serving" line
	exited  chan struct{} // closed when the process is gone and its log read
	err     error         // of Wait; read after exited
}

// startLine is the log line of a broker that serves.
type startLine struct {
	Message   string `json:"message"`
	Version   string `json:"version"`
	DataDir   string `json:"data_dir"`
	Listen    string `json:"listen"`
	URL       string `json:"url"`
	ClusterID string `json:"cluster_id"`
	Topics    *int   `json:"topics"`
	StartMs   *int64 `json:"start_ms"`

	BrokerEpoch int64 `json:"broker_epoch"`
}

// launch starts a broker and doesn't wait for anything.
func launch(t *testing.T, dir string, args ...string) *brokerProcess {
	t.Helper()
	return launchCommand(t, exec.Command(os.Getenv(envBinary), append([]string{"--listen=127.0.0.1:0", "--data-dir=" + dir, "--log-format=json"}, args...)...))
}

// launchArgs starts a broker with these flags alone.
func launchArgs(t *testing.T, args ...string) *brokerProcess {
	t.Helper()
	return launchCommand(t, exec.Command(os.Getenv(envBinary), args...))
}

func launchCommand(t *testing.T, cmd *exec.Cmd) *brokerProcess {
	t.Helper()
	b := &brokerProcess{t: t, cmd: cmd, started: make(chan struct{}), serving: make(chan struct{}), exited: make(chan struct{})}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go b.watch(stderr)
	t.Cleanup(func() {
		select {
		case <-b.exited:
		default:
			b.kill()
		}
		if t.Failed() {
			t.Logf("log of %s:\n%s", b.cmd, b.output())
		}
	})
	return b
}

// start starts a broker and waits until it serves.
func start(t *testing.T, dir string, args ...string) *brokerProcess {
	t.Helper()
	return launch(t, dir, args...).waitServing()
}

func (b *brokerProcess) waitServing() *brokerProcess {
	b.t.Helper()
	select {
	case <-b.serving:
	case <-b.exited:
		b.t.Fatalf("the broker ended before it served: %v\n%s", b.err, b.output())
	case <-time.After(patience):
		b.t.Fatalf("the broker doesn't serve\n%s", b.output())
	}
	return b
}

func (b *brokerProcess) watch(stderr io.Reader) {
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line startLine
		isJSON := json.Unmarshal(lines.Bytes(), &line) == nil
		if isJSON && (line.Message == "request" || line.Message == "internal request") {
			continue
		}
		b.mu.Lock()
		b.logs = append(b.logs, lines.Text())
		b.mu.Unlock()
		if !isJSON {
			continue
		}
		switch line.Message {
		case "starting":
			close(b.started)
		case "serving":
			b.line, b.url = line, line.URL
			close(b.serving)
		}
	}
	b.err = b.cmd.Wait()
	close(b.exited)
}

// output is the log so far, without the lines of requests.
func (b *brokerProcess) output() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.logs[max(0, len(b.logs)-100):], "\n")
}

// kill is kill -9.
func (b *brokerProcess) kill() {
	b.t.Helper()
	if err := b.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		b.t.Error(err)
	}
	<-b.exited
}

func (b *brokerProcess) signal(s syscall.Signal) {
	b.t.Helper()
	if err := b.cmd.Process.Signal(s); err != nil {
		b.t.Error(err)
	}
}

// exit waits until the process is gone by itself and returns its exit code.
func (b *brokerProcess) exit() int {
	b.t.Helper()
	select {
	case <-b.exited:
	case <-time.After(patience):
		b.t.Fatalf("the broker doesn't end\n%s", b.output())
	}
	return b.cmd.ProcessState.ExitCode()
}

// stop is SIGTERM and a clean end.
func (b *brokerProcess) stop() {
	b.t.Helper()
	b.signal(syscall.SIGTERM)
	if code := b.exit(); code != exitOK {
		b.t.Errorf("exit code %d after SIGTERM\n%s", code, b.output())
	}
}

// runToEnd runs the binary as it is told and returns code and output.
func runToEnd(t *testing.T, env []string, args ...string) (code int, output string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Getenv(envBinary), args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Fatalf("%s did not end:\n%s", fmt.Sprint(args), out)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}
