package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

const recipeParts = 3

// needTools skips a test of a recipe where its tools are missing.
func needTools(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"bash", "curl", "sed", "mktemp"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the recipes need %s", tool)
		}
	}
}

// consumption is a recipe for consumers at work on a topic, while it and the brokers
// are killed.
type consumption struct {
	*recipeRig
	records int // a partition
}

// startConsumption first has the recipe work in peace, when each record must be
// worked on once. edit, if any, makes another recipe of it.
func startConsumption(t *testing.T, brokers int, recipe string, edit func(string) string) *consumption {
	t.Helper()
	needTools(t)
	c := newCluster(t, brokers)
	c.topic("orders", recipeParts, brokers)
	w := &consumption{recipeRig: newRecipeRig(t, c, recipe, edit)}
	w.args = []string{"orders", "billing", "worker-1", w.path("work")}
	w.give(10)
	w.until("the group has gone past all", func() bool { return c.lag("billing") == 0 && w.lines("work.log") >= w.records*recipeParts })
	for record, n := range w.worked() {
		if n != 1 {
			t.Errorf("%s was worked on %d times although nothing failed", record, n)
		}
	}
	w.faults(true)
	return w
}

// give appends so many records to each partition.
func (w *consumption) give(each int) {
	w.t.Helper()
	for p := range recipeParts {
		var body strings.Builder
		for i := range each {
			// A value that looks like a record must not lead a recipe astray.
			fmt.Fprintf(&body, `{"value":{"topic":"x","partition":9,"offset":99,"n":%d,"text":"\"id\":\"a\",'$(b)\\n"}}`+"\n", i)
		}
		w.c.client(w.c.running()[0]).must(w.t, 200, "POST", fmt.Sprintf("/topics/orders/partitions/%d?acks=-1", p), "application/x-ndjson", body.String())
	}
	w.records += each
}

// suffer is so many records a partition during which things die.
func (w *consumption) suffer(each int) {
	w.t.Helper()
	w.give(each)
	for i := range 4 {
		w.goOn(1 + w.rnd.IntN(2*recipeBatch))
		switch i {
		case 1:
			w.killBroker(func() { w.goOn(recipeBatch) })
		case 2:
			w.kill()
			w.kills++
		default:
			w.killShell()
			w.kills++
		}
	}
	w.until("the group has gone past all", func() bool { return w.c.lag("billing") == 0 })
	w.kills++ // with what it works on now
	w.kill()
}

// goOn waits until n more records were worked on, or there is nothing left to work on.
func (w *consumption) goOn(n int) {
	w.t.Helper()
	from, looks := w.lines("work.log"), 0
	w.until(fmt.Sprintf("%d more records are worked on", n), func() bool {
		looks++
		return w.lines("work.log") >= from+n || looks%20 == 0 && w.c.lag("billing") == 0
	})
}

// tally counts the records that were never worked on, and how many times one was
// worked on again, and what the faults may cost of the one or the other.
func (w *consumption) tally() (lost, again, bound int) {
	w.t.Helper()
	bound = w.disturbed() * recipeBatch
	seen := w.worked()
	for p := range recipeParts {
		for offset := range w.records {
			n := seen[fmt.Sprintf("%d/%d", p, offset)]
			if n == 0 {
				lost++
			}
			again += max(0, n-1)
		}
	}
	w.t.Logf("of %d records %d lost, %d times one worked on again; %d disturbances, of them in the shims %d; %d kills of brokers",
		recipeParts*w.records, lost, again, w.disturbed(), w.lines("faults"), w.brokers)
	return lost, again, bound
}

// TestRecipe_AtMostOnce: no record is ever worked on twice; each kill costs a batch at
// most.
func TestRecipe_AtMostOnce(t *testing.T) {
	t.Parallel()
	for _, brokers := range []int{1, 3} {
		t.Run(fmt.Sprint("brokers=", brokers), func(t *testing.T) {
			t.Parallel()
			w := startConsumption(t, brokers, "at-most-once.sh", nil)
			w.suffer(40)
			if lost, again, bound := w.tally(); again > 0 || lost > bound {
				t.Errorf("%d times a record was worked on again, none may be; %d are lost, %d may be", again, lost, bound)
			}
		})
	}
}

// TestRecipe_AtLeastOnce: no record is lost; each kill has a batch come again at most.
func TestRecipe_AtLeastOnce(t *testing.T) {
	t.Parallel()
	for _, brokers := range []int{1, 3} {
		t.Run(fmt.Sprint("brokers=", brokers), func(t *testing.T) {
			t.Parallel()
			w := startConsumption(t, brokers, "at-least-once.sh", nil)
			w.suffer(40)
			if lost, again, bound := w.tally(); lost > 0 || again > bound {
				t.Errorf("%d records are lost, none may be; %d times one was worked on again, %d may be", lost, again, bound)
			}
		})
	}
}

// TestRecipe_WrongOnesAreCaught: the tests above see it when a recipe does things in
// the wrong order, or lets an earlier life of its member commit.
func TestRecipe_WrongOnesAreCaught(t *testing.T) {
	t.Parallel()
	swap := func(text string) string {
		work := regexp.MustCompile(`(?m)^\t"\$@" .*\n`).FindString(text)
		commit := regexp.MustCompile(`(?m)^\task POST .*\n`).FindString(text)
		return strings.NewReplacer(work, commit, commit, work).Replace(text)
	}
	unfenced := func(text string) string {
		return regexp.MustCompile(`(?m)^\tme=.*`).ReplaceAllString(text, "\tme=$$member")
	}
	for _, wrong := range []struct {
		name, recipe string
		edit         func(string) string
		loses        bool // else it works on records again
		env          []string
	}{
		{"at most once, commit last", "at-most-once.sh", swap, false, nil},
		{"at least once, commit first", "at-least-once.sh", swap, true, nil},
		{"at least once, unfenced", "at-least-once.sh", unfenced, true, []string{"FIRST_FAULT=4", "FAULT_ODDS=6"}}, // late commits
	} {
		t.Run(wrong.name, func(t *testing.T) {
			t.Parallel()
			w := startConsumption(t, 1, wrong.recipe, wrong.edit)
			w.env = wrong.env
			for range 10 {
				w.suffer(40)
				if lost, again, _ := w.tally(); wrong.loses && lost > 0 || !wrong.loses && again > 0 {
					return
				}
			}
			t.Error("it does no harm")
		})
	}
}

// TestRecipe_SleepCutShort: Ctrl-C kills what a recipe waits in, too. A failure before that
// is a failure all the same: nothing is committed that wasn't worked on, and at most
// once nothing is worked on that wasn't committed.
func TestRecipe_SleepCutShort(t *testing.T) {
	t.Parallel()
	needTools(t)
	c := newCluster(t, 1)
	c.topic("orders", recipeParts, 1)
	c.topic("bills", recipeParts, 1)
	const total = recipeBatch * recipeParts
	const bash, failsOnce = "#!/usr/bin/env bash\n", `[ -e "$WORK.tried" ] || { : >"$WORK.tried"; exit 1; }` + "\n"
	for _, recipe := range []string{"at-most-once.sh", "at-least-once.sh", "effectively-once.sh"} {
		w := &consumption{recipeRig: newRecipeRig(t, c, recipe, nil)}
		w.file("sleep", "#!/bin/sh\nexit 130\n")
		group := strings.TrimSuffix(recipe, ".sh")
		switch recipe {
		case "at-most-once.sh": // its first commit fails, for the others it is the first work
			w.args = []string{"orders", group, "worker-1", w.path("work")}
			w.file("curl", bash+`case "$*" in *"-X POST"*) `+failsOnce+`;; esac; exec "$REAL_CURL" "$@"`)
		case "at-least-once.sh":
			w.args = []string{"orders", group, "worker-1", w.file("fails", bash+failsOnce+"exec "+w.path("work"))}
		default:
			w.args = []string{"orders", "bills", group, "worker-1", w.dir, w.file("fails", bash+failsOnce+"exec "+w.file("result", recipeResult))}
		}
		if recipe == "at-most-once.sh" {
			w.give(recipeBatch) // for all three
		}
		w.until("the group has gone past all", func() bool {
			worked := w.lines("work.log") // at most once it ends after the commit
			return c.lag(group) == 0 && worked > 0 && (recipe != "at-most-once.sh" || worked >= total)
		})
		w.kill()
		worked := w.worked()
		if len(worked) != total {
			t.Errorf("%s: %d of %d records are worked on, all are committed", recipe, len(worked), total)
		}
		for record, n := range worked {
			if n != 1 {
				t.Errorf("%s: %s was worked on %d times", recipe, record, n)
			}
		}
	}
}
