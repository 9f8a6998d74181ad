package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// A log that nobody takes, or whose reader is gone, holds up no request and ends no
// broker; also not its end.
func TestALogThatNobodyTakes(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(r *os.File){
		"a pipe that nobody reads":       func(*os.File) {},
		"a pipe whose other end is gone": func(r *os.File) { _ = r.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Getenv(envBinary), "--listen=127.0.0.1:0", "--data-dir="+t.TempDir(), "--log-format=json", "--log-level=debug")
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.Close() }()
			cmd.Stderr = w
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_ = w.Close()
			defer func() { _ = cmd.Process.Kill() }()
			c := newClient(t, servingURL(t, r))
			stop(r)
			c.must(t, 201, "PUT", "/topics/t", "application/json", `{"partitions":1}`)
			for i := range 3000 { // more than a pipe holds
				c.must(t, 200, "POST", "/topics/t/partitions/0", "application/json", fmt.Sprintf(`{"records":[{"value":%d}]}`, i))
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("it ended with %v", err)
				}
			case <-time.After(patience):
				t.Fatal("it doesn't end")
			}
		})
	}
}

// servingURL reads a log up to the line of a broker that serves.
func servingURL(t *testing.T, log io.Reader) string {
	t.Helper()
	for lines := bufio.NewScanner(log); lines.Scan(); {
		var line startLine
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "serving" {
			return line.URL
		}
	}
	t.Fatal("the broker doesn't serve")
	return ""
}

// slowWriter takes what is written once it is let go.
type slowWriter struct {
	free chan struct{}
	mu   sync.Mutex
	bytes.Buffer
}

func (w *slowWriter) Write(p []byte) (int, error) {
	<-w.free
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Buffer.Write(p)
}

// What is dropped is counted, and told of in the log; the rest stands in order.
func TestDroppedLogLinesAreTold(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{"by number": "x", "by size": strings.Repeat("x", maxQueuedBytes/64)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := &slowWriter{free: make(chan struct{})}
			q := newLogQueue(out, zerolog.InfoLevel)
			log := zerolog.New(q)
			const lines = maxQueuedLines + 1000
			for i := range lines {
				log.Info().Int("i", i).Msg(line)
			}
			q.close(time.Millisecond) // it doesn't wait for who never comes
			close(out.free)
			<-q.done
			kept, last, told := 0, -1, int64(0)
			for l := range bytes.Lines(out.Bytes()) {
				var v struct {
					I     *int  `json:"i"`
					Lines int64 `json:"lines"`
				}
				if err := json.Unmarshal(l, &v); err != nil {
					t.Fatalf("%v: %.100s", err, l)
				}
				if v.I == nil {
					told += v.Lines
					continue
				}
				if *v.I <= last {
					t.Fatalf("line %d after %d", *v.I, last)
				}
				kept, last = kept+1, *v.I
			}
			if told == 0 || told != q.dropped.Load() || int64(kept)+told != lines {
				t.Errorf("%d kept, %d told to be dropped, %d counted, of %d", kept, told, q.dropped.Load(), lines)
			}
			if out.Len() > 2*maxQueuedBytes {
				t.Errorf("%d bytes were held", out.Len())
			}
		})
	}
}

// While the log is taken a line is there when its logger goes on: the process may die in
// the next moment.
func TestALogLineIsWrittenAtOnce(t *testing.T) {
	t.Parallel()
	out := &slowWriter{free: make(chan struct{})}
	close(out.free)
	q := newLogQueue(out, zerolog.InfoLevel)
	defer q.close(patience)
	log := zerolog.New(q)
	for i := range 100 {
		log.Info().Int("i", i).Msg("x")
		out.mu.Lock()
		lines := bytes.Count(out.Bytes(), []byte("\n"))
		out.mu.Unlock()
		if lines != i+1 {
			t.Fatalf("%d lines of %d", lines, i+1)
		}
	}
}

// limitedWriter takes a line each moment, never as many as there are.
type limitedWriter struct {
	mu   sync.Mutex
	told int
	sum  int64
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	time.Sleep(100 * time.Microsecond)
	var v struct {
		Lines int64 `json:"lines"`
	}
	if json.Unmarshal(p, &v) == nil && v.Lines > 0 {
		w.mu.Lock()
		w.told, w.sum = w.told+1, w.sum+v.Lines
		w.mu.Unlock()
	}
	return len(p), nil
}

// A log that never catches up is told of its gaps all the same, unless its level says no.
func TestALogThatNeverCatchesUp(t *testing.T) {
	t.Parallel()
	for _, level := range []zerolog.Level{zerolog.InfoLevel, zerolog.ErrorLevel} {
		w := &limitedWriter{}
		q := newLogQueue(w, level)
		q.stuck.Store(true) // who writes doesn't wait: it is too many of them
		log := zerolog.New(q)
		var first int
		for until := time.Now().Add(patience); first == 0 && time.Now().Before(until); {
			q.stuck.Store(true)
			log.Error().Msg("x")
			w.mu.Lock()
			first = w.told
			w.mu.Unlock()
			if level == zerolog.ErrorLevel && q.dropped.Load() > 1000 {
				break
			}
		}
		q.close(patience)
		<-q.done
		switch {
		case level == zerolog.ErrorLevel && w.told > 0:
			t.Error("warned at the level error")
		case level == zerolog.InfoLevel && (first == 0 || w.sum != q.dropped.Load()):
			t.Errorf("told %d times while it was behind, of %d lines where %d were dropped", first, w.sum, q.dropped.Load())
		}
	}
}

// The last lines of a process are written before it ends.
func TestTheLastLogLinesAreWritten(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	b.stop()
	if !strings.Contains(b.output(), `"message":"stopped"`) {
		t.Errorf("no last line:\n%s", b.output())
	}
}
