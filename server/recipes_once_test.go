package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

// recipeResult is the command of effectively-once.sh under test. Its result is another one
// each time, as that of a careless command is.
const recipeResult = `#!/usr/bin/env bash
IFS= read -r record
printf '%s\n' "$record" >>"$WORK"
if [ -e "$FAULTS_ON" ] && [ $((RANDOM % 60)) = 0 ]; then echo work >>"$FAULTS"; kill -9 0; fi
case $record in *9,'"timestamp"'*) exit ;; esac # offsets that end in 9 have no result
printf '{"key":"k","value":{"attempt":"%s","of":%s}}\n' "$$.$RANDOM" "$record"
`

// startEffectivelyOnce is startConsumption of effectively-once.sh.
func startEffectivelyOnce(t *testing.T, brokers int, edit func(string) string) *consumption {
	t.Helper()
	needTools(t)
	c := newCluster(t, brokers)
	c.topic("orders", recipeParts, brokers)
	c.topic("bills", recipeParts, brokers)
	w := &consumption{recipeRig: newRecipeRig(t, c, "effectively-once.sh", edit)}
	if err := os.Mkdir(w.path("store"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.args = []string{"orders", "bills", "billing", "worker-1", w.path("store"), w.file("result", recipeResult)}
	w.faults(true)
	return w
}

// results checks what is in the topic of the results and in the store against the
// records, and counts the results that are there more than once.
func (w *consumption) results() (doubled int) {
	w.t.Helper()
	seen := map[string]int{}
	for p := range recipeParts {
		w.c.client(w.c.running()[0]).read(w.t, "bills", p, 0, func(r *stored) {
			var value struct {
				Attempt string `json:"attempt"`
				Of      stored `json:"of"`
			}
			if err := json.Unmarshal(r.Value, &value); err != nil {
				w.t.Fatalf("%v in %s", err, r.Value)
			}
			if value.Of.Partition != p {
				w.t.Errorf("the result of %d/%d is in partition %d", value.Of.Partition, value.Of.Offset, p)
			}
			id := fmt.Sprintf("orders-%d-%d", p, value.Of.Offset)
			seen[id]++ // one that nobody sent is found to have no effect
			if effect, err := os.ReadFile(w.path("store/" + id)); err != nil || !strings.Contains(string(effect), value.Attempt) {
				w.t.Errorf("%s: the result %s is not the effect %s (%v)", id, r.Value, effect, err)
			}
		})
	}
	for _, n := range seen {
		doubled += n - 1
	}
	for p := range recipeParts {
		for offset := range w.records {
			id := fmt.Sprintf("orders-%d-%d", p, offset)
			if _, err := os.Stat(w.path("store/" + id)); err != nil || (seen[id] > 0) == (offset%10 == 9) {
				w.t.Errorf("%s has %d results; its effect: %v", id, seen[id], err)
			}
		}
	}
	effects, err := os.ReadDir(w.path("store"))
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for _, e := range effects {
		if !strings.HasPrefix(e.Name(), ".") { // what was under way when something died
			n++
		}
	}
	if n != w.records*recipeParts {
		w.t.Errorf("%d records have %d effects", w.records*recipeParts, n)
	}
	w.t.Logf("%d records, %d results too many, %d times processed; %d disturbances, of them in the shims %d; %d kills of brokers",
		w.records*recipeParts, doubled, w.lines("work.log"), w.disturbed(), w.lines("faults"), w.brokers)
	return doubled
}

// TestRecipe_EffectivelyOnce: each record has one result in the other topic, and one
// effect, the same.
func TestRecipe_EffectivelyOnce(t *testing.T) {
	t.Parallel()
	for _, brokers := range []int{1, 3} {
		t.Run(fmt.Sprint("brokers=", brokers), func(t *testing.T) {
			t.Parallel()
			w := startEffectivelyOnce(t, brokers, nil)
			w.suffer(20)
			if doubled := w.results(); doubled > 0 {
				t.Errorf("%d results too many", doubled)
			}
		})
	}
}

// TestRecipe_WithoutIDsIsCaught: the test above sees it when the results have no ids.
func TestRecipe_WithoutIDsIsCaught(t *testing.T) {
	t.Parallel()
	w := startEffectivelyOnce(t, 1, func(text string) string {
		return strings.Replace(text, `{"id":"%s",`, `{"headers":[{"key":"%s","value":""}],`, 1)
	})
	for range 10 {
		w.suffer(20)
		if w.results() > 0 {
			return
		}
	}
	t.Error("it does no harm")
}

// TestRecipe_EndsInOrder: told to stop, a consumer finishes its batch, commits and
// leaves its group.
func TestRecipe_EndsInOrder(t *testing.T) {
	t.Parallel()
	needTools(t)
	c := newCluster(t, 1)
	c.topic("orders", recipeParts, 1)
	c.topic("bills", recipeParts, 1)
	for _, recipe := range []string{"at-most-once.sh", "at-least-once.sh", "effectively-once.sh"} {
		w := &consumption{recipeRig: newRecipeRig(t, c, recipe, nil)}
		group := strings.TrimSuffix(recipe, ".sh")
		w.args = []string{"orders", group, "worker-1", w.path("work")}
		if recipe == "effectively-once.sh" {
			w.args = []string{"orders", "bills", group, "worker-1", w.dir, w.file("result", recipeResult)}
		}
		w.give(2 * recipeBatch)
		w.more("work.log", 1)
		if err := w.process.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		w.until("it ends", func() bool { return w.ended })
		var view struct {
			Members []any `json:"members"`
		}
		if err := json.Unmarshal(c.client(c.nodes[0]).must(t, 200, "GET", "/consumers/"+group, "", ""), &view); err != nil || len(view.Members) > 0 {
			t.Errorf("%s: %v; it left members %v", recipe, err, view.Members)
		}
		var offsets []struct {
			Committed int `json:"committed"`
		}
		answer := c.client(c.nodes[0]).must(t, 200, "GET", "/consumers/"+group+"/offsets", "", "")
		if err := json.Unmarshal(answer, &offsets); err != nil {
			t.Fatal(err)
		}
		done := 0
		for _, o := range offsets {
			done += o.Committed
		}
		if done != w.lines("work.log") {
			t.Errorf("%s: %d records are worked on, %d committed: %s", recipe, w.lines("work.log"), done, answer)
		}
	}
}
