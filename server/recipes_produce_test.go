package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// held counts each line of a topic's records: their values, as they were sent.
func held(t *testing.T, c *cluster, topic string, partitions int) (values []string, times map[string]int) {
	t.Helper()
	times = map[string]int{}
	for p := range partitions {
		c.client(c.running()[0]).read(t, topic, p, 0, func(r *stored) {
			value := string(r.Value)
			if r.Encoding == "text" {
				if err := json.Unmarshal(r.Value, &value); err != nil {
					t.Fatal(err)
				}
			}
			values = append(values, value)
			times[value]++
		})
	}
	return values, times
}

// TestRecipe_Produce: a record that is produced by script is there once, whatever is
// killed or lost; without its id that wouldn't be so.
func TestRecipe_Produce(t *testing.T) {
	t.Parallel()
	needTools(t)
	withoutID := func(text string) string { return strings.Replace(text, `-H "Message-Id: $id" `, "", 1) }
	for _, tc := range []struct {
		name    string
		brokers int
		edit    func(string) string
	}{{"brokers=1", 1, nil}, {"brokers=3", 3, nil}, {"without ids", 1, withoutID}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, tc.brokers)
			c.topic("orders", recipeParts, tc.brokers)
			r := newRecipeRig(t, c, "produce.sh", tc.edit)
			r.env = []string{"FAULT_ODDS=10", "TRIES=3"}
			r.faults(true)
			sent, doubled, lost := 0, 0, 0
			for sent < 15 || tc.edit != nil && doubled == 0 && sent < 150 {
				r.stdin = fmt.Sprintf("order %d of \"many\"\nwith a %%41 & é", sent)
				if sent == 6 {
					r.killBroker(func() {})
				}
				r.toEnd("orders", fmt.Sprintf("order/%d ü", sent), fmt.Sprintf("a key & %d é", sent))
				sent++
				if tc.edit != nil && sent%15 == 0 {
					values, times := held(t, c, "orders", recipeParts)
					doubled = len(values) - len(times)
				}
			}
			values, times := held(t, c, "orders", recipeParts)
			for i := range sent {
				if times[fmt.Sprintf("order %d of \"many\"\nwith a %%41 & é", i)] == 0 {
					lost++
				}
			}
			doubled = len(values) - len(times)
			t.Logf("%d records sent: %d lost, %d doubled; %d disturbances", sent, lost, doubled, r.lines("faults"))
			if lost > 0 || len(times) != sent || tc.edit == nil && doubled > 0 || tc.edit != nil && doubled == 0 {
				t.Errorf("%d records sent, %d lost, %d values held, %d doubled", sent, lost, len(times), doubled)
			}
		})
	}
}

// TestRecipe_ProduceAfterPartitionsWereAdded: a record whose answer was lost is looked
// for before it is sent again, as its id now falls into another partition (F54).
func TestRecipe_ProduceAfterPartitionsWereAdded(t *testing.T) {
	t.Parallel()
	needTools(t)
	blind := func(text string) string {
		return strings.Replace(text, `"/topics/$topic/messages/$(encode "$id")"`, `"/healthz/no"`, 1)
	}
	for name, edit := range map[string]func(string) string{"looks": nil, "blind": blind} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 1)
			r := newRecipeRig(t, c, "produce.sh", edit)
			// The first POST's answer is lost, and partitions are added meanwhile.
			r.file("curl", `#!/usr/bin/env bash
case "$*" in *"-X POST"*) if mkdir "$TMPDIR/lost.$RECORD" 2>/dev/null; then
	"$REAL_CURL" "$@" >/dev/null
	while [ $# -gt 0 ]; do [ "$1" != -o ] || : >"$2"; shift; done
	"$REAL_CURL" -sS --fail -X PATCH "${BROKERS}/topics/$RECORD" --json '{"partitions":7}' >/dev/null || kill -9 0
	exit 56
fi ;; esac
exec "$REAL_CURL" "$@"
`)
			doubled := 0
			for i := range 4 {
				topic := fmt.Sprintf("orders-%d", i)
				c.topic(topic, 1, 1)
				r.stdin, r.env = "a value", []string{"RECORD=" + topic}
				r.toEnd(topic, topic) // an id that falls anywhere
				values, _ := held(t, c, topic, 7)
				if len(values) == 0 {
					t.Errorf("%s is empty", topic)
				}
				doubled += len(values) - 1
			}
			if (doubled > 0) != (edit != nil) {
				t.Errorf("%d records doubled", doubled)
			}
		})
	}
}

// TestRecipe_ProduceFile: each line of a file is produced once and in order, whatever is
// killed or lost, and lines that are added later, too. Without the ids that
// wouldn't be so.
func TestRecipe_ProduceFile(t *testing.T) {
	t.Parallel()
	needTools(t)
	withoutIDs := func(text string) string { return strings.Replace(text, `\"id\":\"$name:$((sent + n))\"$comma`, "", 1) }
	for _, tc := range []struct {
		name    string
		brokers int
		edit    func(string) string
	}{{"brokers=1", 1, nil}, {"brokers=3", 3, nil}, {"without ids", 1, withoutIDs}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, tc.brokers)
			c.topic("orders", recipeParts, tc.brokers)
			r := newRecipeRig(t, c, "produce-file.sh", tc.edit)
			r.env = []string{"FAULT_ODDS=10"} // each life has batches of another size
			r.faults(true)
			lines, doubled, whole := 0, 0, ""
			for round := 0; round < 3 || tc.edit != nil && doubled == 0 && round < 10; round++ {
				var text strings.Builder
				for range 50 {
					fmt.Fprintf(&text, `{"key":"k%d","value":%d}`+"\n", lines%5, lines)
					lines++
				}
				whole += text.String()
				// Half a line is there already; its end comes in the next round.
				r.file("file", whole+fmt.Sprintf(`{"key":"k%d","val`, lines%5))
				if round == 1 {
					r.killBroker(func() {})
				}
				r.toEnd("orders", r.path("file"))
				values, times := held(t, c, "orders", recipeParts)
				doubled = len(values) - len(times)
				if len(times) != lines {
					t.Errorf("%d lines, %d records", lines, len(times))
				}
				last := map[int]int{} // by key
				for _, value := range values {
					var n int
					if _, err := fmt.Sscan(value, &n); err != nil {
						t.Fatal(err)
					}
					if before, ok := last[n%5]; ok && n <= before && tc.edit == nil {
						t.Errorf("line %d stands behind line %d", n, before)
					}
					last[n%5] = n
				}
			}
			t.Logf("%d lines, %d doubled; %d disturbances", lines, doubled, r.lines("faults"))
			if (doubled > 0) != (tc.edit != nil) {
				t.Errorf("%d lines doubled", doubled)
			}
		})
	}
}

// TestRecipe_ProduceLargeFile: a file is sent to its end, however much of it is behind the
// first batch; lines of all shapes get an id.
func TestRecipe_ProduceLargeFile(t *testing.T) {
	t.Parallel()
	needTools(t)
	c := newCluster(t, 1)
	c.topic("orders", 1, 1)
	r := newRecipeRig(t, c, "produce-file.sh", nil)
	r.env = []string{"COUNT=100", `NAME=a "name" \ of\its own`}
	const lines = 500
	var text strings.Builder
	for i := range lines {
		fmt.Fprintf(&text, ` { "value" : %d, "headers":[{"key":"pad","value":"%s"}]}`+"\r\n", i, strings.Repeat("x", 1000))
	}
	r.file("file", text.String())
	r.toEnd("orders", r.path("file"))
	if values, times := held(t, c, "orders", 1); len(values) != lines || len(times) != lines {
		t.Errorf("%d lines, %d records, %d of them different", lines, len(values), len(times))
	}
	if sent, _, _ := strings.Cut(r.read("file.sent"), " "); sent != fmt.Sprint(lines) {
		t.Errorf("file.sent says %s", sent)
	}
	// What was sent to one topic isn't in another one.
	c.topic("others", 1, 1)
	r.args = []string{"others", r.path("file")}
	r.launch()
	<-r.exited
	if code, log := r.process.ProcessState.ExitCode(), r.read("log"); code != 1 || !strings.Contains(log, "file.sent is of another topic") {
		t.Errorf("to another topic it ends with %d: %s", code, log)
	}
}
