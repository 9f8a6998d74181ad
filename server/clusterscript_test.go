package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// scriptBrokers is how many brokers the script's test starts.
const scriptBrokers = 1

// clusterScript runs scripts/cluster.sh from another directory than the tree's.
type clusterScript struct {
	t    *testing.T
	path string
	dir  string
	port int
}

func newClusterScript(t *testing.T, brokers int) *clusterScript {
	skipSlowRace(t)
	t.Helper()
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the script needs %s", tool)
		}
	}
	path, err := filepath.Abs("../scripts/cluster.sh")
	if err != nil {
		t.Fatal(err)
	}
	s := &clusterScript{t: t, path: path, dir: filepath.Join(t.TempDir(), "a cluster"), port: freePorts(t, brokers)}
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := filepath.Glob(filepath.Join(s.dir, "*.log"))
			for _, path := range logs {
				data, _ := os.ReadFile(path)
				t.Logf("%s:\n%s", path, data)
			}
		}
		if out, err := s.try("down"); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
	})
	return s
}

func (s *clusterScript) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.path, append([]string{"-d", s.dir, "-p", fmt.Sprint(s.port)}, args...)...)
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "HIGHWATER_BIN="+os.Getenv(envBinary))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// run is try with success and something that must be said.
func (s *clusterScript) run(want string, args ...string) {
	s.t.Helper()
	out, err := s.try(args...)
	if err != nil || !strings.Contains(out, want) {
		s.t.Fatalf("%q: %v, want %q\n%s", args, err, want, out)
	}
}

// refuse is try with a refusal that says why.
func (s *clusterScript) refuse(want string, args ...string) {
	s.t.Helper()
	if out, err := s.try(args...); err == nil || !strings.Contains(out, want) {
		s.t.Errorf("%q: %v, want a refusal with %q\n%s", args, err, want, out)
	}
}

// TestClusterScript goes through every command of scripts/cluster.sh.
func TestClusterScript(t *testing.T) {
	t.Parallel()
	s := newClusterScript(t, scriptBrokers)
	s.refuse("there is no cluster", "status")
	s.refuse("want a number of brokers", "up", "0")
	s.refuse("there is no cluster", "kill", "1")
	s.run("there is no cluster", "down")
	other, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
	if err != nil {
		t.Fatal(err)
	}
	s.refuse("another process listens there", "up", fmt.Sprint(scriptBrokers))
	_ = other.Close()
	s.run("Now try", "up", fmt.Sprint(scriptBrokers), "--log-level=debug")
	s.run("ready", "status")
	s.run("Now try", "up") // nothing left to do
	s.run("after: ", "up", "--log-level=debug")
	s.refuse("a second cluster needs a directory", "-p", "1", "status")
	s.refuse("want the number of a broker", "kill", "7")
	s.run("is dead", "kill", "1")
	s.run("not running", "status")
	s.refuse("isn't running", "stop", "1")
	s.run("broker 1 serves", "restart", "1")
	s.run("is frozen", "stop", "1")
	s.run("frozen", "status")
	s.run("goes on", "cont", "1")
	s.run("broker 1 serves", "restart", "1")
	s.run(`"level":"debug"`, "logs", "1")
	s.run("all brokers have ended", "down")
	s.run("not running", "status")

	// The number of a process that isn't ours is left alone.
	stranger := exec.CommandContext(t.Context(), "sleep", "600")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "node-1.pid"), fmt.Appendln(nil, stranger.Process.Pid), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run("not running", "status")
	s.refuse("isn't running", "kill", "1")
	s.run("all brokers have ended", "down")
	if err := stranger.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the script ended a process that it didn't start: %v", err)
	}
	_ = stranger.Process.Kill()
	_ = stranger.Wait()
}

// TestClusterPages runs the "sh cluster" blocks of README.md and docs/*.md, in their
// order, each page on a fresh copy of the tree and a cluster that its first block
// starts and its last one ends. The pages' ports stand for others.
func TestClusterPages(t *testing.T) {
	t.Parallel()
	skipSlowRace(t)
	for _, page := range []string{"README.md", "docs/OPERATIONS.md", "docs/REPLICATION.md"} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			tree := copyTree(t)
			all := blocks(t, filepath.Join(tree, page))
			all = slices.DeleteFunc(all, func(b block) bool { return !b.is("sh", "cluster") })
			if len(all) == 0 {
				t.Skip("no commands for a cluster")
			}
			const brokers = 5
			first := freePorts(t, brokers)
			env := []string{"HIGHWATER_BIN=" + os.Getenv(envBinary), fmt.Sprintf("HIGHWATER_CLUSTER_PORT=%d", first)}
			var ports []string
			for i := range brokers {
				ports = append(ports, fmt.Sprint(8081+i), fmt.Sprint(first+i))
			}
			replace := strings.NewReplacer(ports...)
			t.Cleanup(func() {
				logs, _ := filepath.Glob(filepath.Join(tree, "cluster-data", "*.log"))
				for _, path := range logs {
					if data, _ := os.ReadFile(path); t.Failed() {
						t.Logf("%s:\n%s", path, data)
					}
				}
				down := exec.CommandContext(context.Background(), "scripts/cluster.sh", "down")
				down.Dir, down.Env = tree, append(os.Environ(), env...)
				if out, err := down.CombinedOutput(); err != nil {
					t.Errorf("down: %v\n%s", err, out)
				}
			})
			for _, b := range all {
				b.text = replace.Replace(b.text)
				out := runBlock(t, tree, "", b, env...)
				t.Logf("%s\n%s", b.text, out)
				if t.Failed() {
					return
				}
			}
		})
	}
}
