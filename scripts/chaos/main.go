// Command chaos runs a cluster of real brokers under faults and checks what its
// clients were told against what the logs hold.
//
//	make chaos SEED=1 SECONDS=60      from the source tree
//	go run . -history FILE            check an earlier run's history again
//
// The seed decides the faults and their times. What the brokers and the machine
// make of them differs from run to run, so a failed run keeps its data, its
// brokers' logs and its history, and says where.
//
// The exit code is 0 when every invariant held and the faults had an effect: a run
// in which nothing rare happened proves nothing, and fails as "no evidence".
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"chaos/history"
	"chaos/nemesis"
)

type options struct {
	seed     uint64
	duration time.Duration
	brokers  int
	dir      string
	binary   string
	only     []string
	keep     bool
	history  string
	session  time.Duration
	clients  int
	groups   bool
	retries  int
}

func parseOptions() (o options) {
	var only string
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano())%1_000_000, "decides the faults and their times")
	flag.DurationVar(&o.duration, "duration", time.Minute, "how long faults are made")
	flag.IntVar(&o.brokers, "brokers", 3, "brokers of the cluster")
	flag.StringVar(&o.dir, "dir", defaultDir(), "where runs are kept; memory is kinder to other users of the disk")
	flag.StringVar(&o.binary, "broker", "", "a broker binary to run instead of building one")
	flag.StringVar(&only, "only", "", "comma-separated faults to make, of: "+nemesis.Names())
	flag.BoolVar(&o.keep, "keep", false, "keep a good run's files too")
	flag.StringVar(&o.history, "history", "", "check the history in this file and run nothing")
	flag.DurationVar(&o.session, "session", 2*time.Second, "the brokers' session timeout; other times follow it")
	flag.IntVar(&o.clients, "clients", 24, "clients, of all kinds")
	flag.BoolVar(&o.groups, "groups", true, "consumer groups too, and faults of their coordinators")
	flag.IntVar(&o.retries, "retries", 8, "clients that send every request again, also after success and twice at once; 0: none")
	flag.Parse()
	if only != "" {
		o.only = strings.Split(only, ",")
	}
	return o
}

// defaultDir is in memory where there is such a place: three brokers that fsync
// on one disk wait for each other more than for faults.
func defaultDir() string {
	const memory = "/dev/shm"
	if s, err := os.Stat(memory); err == nil && s.IsDir() {
		return filepath.Join(memory, "highwater-chaos")
	}
	return filepath.Join(os.TempDir(), "highwater-chaos")
}

func main() {
	o := parseOptions()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := runAll(ctx, o)
	switch {
	case err == nil:
		return
	case errors.Is(err, errFailed):
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(2)
	}
}

// errFailed is a run whose verdict, printed already, is bad.
var errFailed = errors.New("failed")

func runAll(ctx context.Context, o options) error {
	if o.history != "" {
		return checkAgain(o.history)
	}
	dir := filepath.Join(o.dir, fmt.Sprintf("seed-%d-%s", o.seed, time.Now().UTC().Format("150405")))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if o.binary == "" {
		o.binary = filepath.Join(dir, "highwater")
		if err := build(ctx, o.binary); err != nil {
			return err
		}
	}
	fmt.Printf("chaos: seed %d, %v, %d brokers, files in %s\n", o.seed, o.duration, o.brokers, dir)
	rec, err := history.NewRecorder(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		return err
	}
	r := &run{options: o, dir: dir, rec: rec}
	verdict, err := r.do(ctx)
	if err != nil {
		return fmt.Errorf("%w (files in %s)", err, dir)
	}
	verdict.print(os.Stdout)
	if !verdict.good() {
		fmt.Printf("kept: %s\n", dir)
		return errFailed
	}
	if o.keep {
		fmt.Printf("kept: %s\n", dir)
		return nil
	}
	return os.RemoveAll(dir)
}

// build makes the broker from the source tree that this program lies in.
func build(ctx context.Context, binary string) error {
	root, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return fmt.Errorf("finding the source tree: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, "./server")
	cmd.Dir = strings.TrimSpace(string(root))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the broker: %w\n%s", err, out)
	}
	return nil
}
