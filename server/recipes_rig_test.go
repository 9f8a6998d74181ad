package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// recipeBatch is how many records a recipe under test takes at a time, at most: each
// of its lives has another number.
const recipeBatch = 10

// curlShim stands before curl in a recipe's PATH. While the file FAULTS_ON is there
// it kills the recipe at the points that matter: before a request, after its answer,
// and while it is on its way; has the answer lost; or holds a POST back until the
// next life of the recipe has fetched, and kills that one, too. Each fault is a line in
// FAULTS.
const curlShim = `#!/usr/bin/env bash
fault() { echo "$1" >>"$FAULTS"; }
real=$REAL_CURL
if [ -e "$FAULTS_ON" ]; then
	case $((${FIRST_FAULT:-0} + RANDOM % ${FAULT_ODDS:-25})) in
	0) fault before; kill -9 0 ;;
	1) "$real" "$@" >/dev/null; fault after; kill -9 0 ;;
	2) read -r _ _ _ _ group _ </proc/self/stat; fault orphan; kill -9 "$group" ;;
	3)
		"$real" "$@" >/dev/null
		while [ $# -gt 0 ]; do [ "$1" != -o ] || : >"$2"; shift; done
		fault answer
		exit 56
		;;
	4 | 5) case "$*" in *"-X POST"*) printf '%s\0' "$@" >"$TMPDIR/held"; fault held; kill -9 0 ;; esac ;;
	esac
	case "$*" in *"-X GET"*) if mv "$TMPDIR/held" "$TMPDIR/late.$$" 2>/dev/null; then
		"$real" "$@" >/dev/null
		xargs -0 "$real" <"$TMPDIR/late.$$" >/dev/null; fault late; kill -9 0
	fi ;; esac
fi
exec "$real" "$@"
`

// recipeWork is the work of a recipe under test: a line in WORK for each record, and
// at times the end of everything in the middle of it.
const recipeWork = `#!/usr/bin/env bash
while IFS= read -r record; do
	printf '%s\n' "$record" >>"$WORK"
	if [ -e "$FAULTS_ON" ] && [ $((RANDOM % 80)) = 0 ]; then echo work >>"$FAULTS"; kill -9 0; fi
done
`

// recipeRig runs a recipe of scripts/recipes, again and again, while it and the
// brokers are killed.
type recipeRig struct {
	t       *testing.T
	c       *cluster
	rnd     *rand.Rand
	dir     string // all files of the run
	script  string
	args    []string
	process *exec.Cmd
	exited  chan struct{} // closed at the end of process
	env     []string      // further environment
	stdin   string        // what the recipe reads
	ended   bool          // the recipe says that all is done
	kills   int           // of the recipe, by the test itself
	brokers int           // kills of brokers
}

// newRecipeRig prepares a recipe against a cluster. edit, if any, makes another
// recipe of it: one that has to be caught.
func newRecipeRig(t *testing.T, c *cluster, recipe string, edit func(string) string) *recipeRig {
	t.Helper()
	seed := uint64(number(t, "HIGHWATER_KILL_SEED", int(time.Now().UnixNano()%1e9)+1))
	t.Logf("HIGHWATER_KILL_SEED=%d (the shims have their own)", seed)
	r := &recipeRig{t: t, c: c, rnd: rand.New(rand.NewPCG(seed, 0)), dir: t.TempDir()}
	text, err := os.ReadFile(filepath.Join("..", "scripts", "recipes", recipe))
	if err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		changed := edit(string(text))
		if changed == string(text) {
			t.Fatalf("the edit of %s changes nothing", recipe)
		}
		text = []byte(changed)
	}
	r.script = r.file(recipe, string(text))
	r.file("curl", curlShim)
	r.file("work", recipeWork)
	t.Cleanup(r.kill)
	return r
}

// file writes an executable file of the run.
func (r *recipeRig) file(name, text string) (path string) {
	r.t.Helper()
	path = r.path(name)
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		r.t.Fatal(err)
	}
	return path
}

func (r *recipeRig) path(name string) string { return filepath.Join(r.dir, name) }

// faults turns those of the shims on or off.
func (r *recipeRig) faults(on bool) {
	r.t.Helper()
	if on {
		r.file("faults-on", "")
	} else if err := os.Remove(r.path("faults-on")); err != nil {
		r.t.Error(err)
	}
}

// launch starts a life of the recipe, in a process group of its own.
func (r *recipeRig) launch() {
	r.t.Helper()
	real, err := exec.LookPath("curl")
	if err != nil {
		r.t.Fatal(err)
	}
	log, err := os.OpenFile(r.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		r.t.Fatal(err)
	}
	var urls []string
	for _, m := range r.c.nodes {
		urls = append(urls, m.base())
	}
	r.process = exec.Command(r.script, r.args...)
	r.process.Stdin, r.process.Stdout, r.process.Stderr = strings.NewReader(r.stdin), log, log
	r.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.process.Env = append(os.Environ(), "PATH="+r.dir+":"+os.Getenv("PATH"), "TMPDIR="+r.dir, "REAL_CURL="+real,
		"FAULTS="+r.path("faults"), "FAULTS_ON="+r.path("faults-on"), "WORK="+r.path("work.log"),
		"BROKERS="+strings.Join(urls, " "), "COUNT="+strconv.Itoa(r.count()), "WAIT_MS=300")
	r.process.Env = append(r.process.Env, r.env...)
	if err := r.process.Start(); err != nil {
		r.t.Fatal(err)
	}
	process, exited := r.process, make(chan struct{})
	r.exited = exited
	go func() {
		_ = process.Wait()
		_ = log.Close()
		close(exited)
	}()
}

// count is the size of the next life's batches.
func (r *recipeRig) count() int { return recipeBatch/2 + r.rnd.IntN(recipeBatch/2+1) }

// exitAgain is how a recipe says that it is to be run again (EX_TEMPFAIL).
const exitAgain = 75

// running starts the recipe's next life if the last one is over.
func (r *recipeRig) running() {
	r.t.Helper()
	if r.process == nil {
		r.launch()
		return
	}
	select {
	case <-r.exited:
		switch r.process.ProcessState.ExitCode() {
		case 0:
			r.ended = true
		case exitAgain, -1: // or killed
			r.launch()
		default:
			r.t.Fatalf("the recipe gave up: %v\n%s", r.process.ProcessState, r.read("log"))
		}
	default:
	}
}

// toEnd runs the recipe, again and again, until all is done.
func (r *recipeRig) toEnd(args ...string) {
	r.t.Helper()
	r.args, r.process, r.ended = args, nil, false
	r.until("the recipe ends", func() bool { return r.ended })
}

// kill is kill -9 of the recipe and of all that it started.
func (r *recipeRig) kill() {
	if r.process == nil {
		return
	}
	select {
	case <-r.exited:
	default:
		if err := syscall.Kill(-r.process.Process.Pid, syscall.SIGKILL); err != nil {
			r.t.Error(err)
		}
		<-r.exited
	}
}

// killShell is kill -9 of the recipe alone: what it started goes on without it.
func (r *recipeRig) killShell() {
	r.t.Helper()
	if err := r.process.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.t.Error(err)
	}
	<-r.exited
}

// read is a file of the run, empty if there is none.
func (r *recipeRig) read(name string) string {
	r.t.Helper()
	text, err := os.ReadFile(r.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.t.Fatal(err)
	}
	return string(text)
}

// size is a file's, 0 if there is none.
func (r *recipeRig) size(name string) int64 {
	info, err := os.Stat(r.path(name))
	if err != nil {
		return 0
	}
	return info.Size()
}

// lines counts a file's.
func (r *recipeRig) lines(name string) int { return strings.Count(r.read(name), "\n") }

// until keeps the recipe running until f is true, as long as it gets on, and no longer
// than twice the usual time. It looks less often than others do, as the recipe needs the
// processor more.
func (r *recipeRig) until(what string, f func() bool) {
	r.t.Helper()
	patient, end := time.NewTimer(patience), time.Now().Add(2*patience)
	defer patient.Stop()
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	for done := int64(-1); ; {
		if r.running(); f() {
			return
		}
		if now := r.size("work.log") + r.size("faults"); now != done {
			done = now
			patient.Reset(min(patience, time.Until(end)))
		}
		select {
		case <-tick.C:
		case <-patient.C:
			r.t.Fatalf("not within %v: %s\n%s", patience, what, r.read("log"))
		}
	}
}

// more waits until a file has n more lines.
func (r *recipeRig) more(name string, n int) {
	r.t.Helper()
	from := r.lines(name)
	r.until(fmt.Sprintf("%s grows by %d", name, n), func() bool { return r.lines(name) >= from+n })
}

// killBroker kills one at random and starts it again when the others went on.
func (r *recipeRig) killBroker(goOn func()) {
	r.t.Helper()
	m := r.c.nodes[r.rnd.IntN(len(r.c.nodes))]
	m.kill()
	r.brokers++
	if len(r.c.nodes) > 1 {
		goOn()
	}
	r.c.start(m)
}

// worked counts how often each record of the topic was worked on.
func (r *recipeRig) worked() map[string]int {
	r.t.Helper()
	seen := map[string]int{}
	for line := range strings.Lines(r.read("work.log")) {
		var rec stored
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			r.t.Fatalf("%v in %q", err, line)
		}
		seen[fmt.Sprintf("%d/%d", rec.Partition, rec.Offset)]++
	}
	return seen
}

// disturbed is how many times something was killed or lost: each may cost a batch,
// and nothing else may.
func (r *recipeRig) disturbed() int {
	unanswered := 0
	for line := range strings.Lines(r.read("log")) {
		if strings.HasPrefix(line, "POST ") || strings.HasPrefix(line, "GET ") {
			unanswered++
		}
	}
	return r.kills + r.lines("faults") + unanswered
}
