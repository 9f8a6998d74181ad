package dedupe

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMutations shows that the model notices: each of these rules, left out or made
// wrong, has to fail it. It compiles the package once for each, so it runs only with
// HIGHWATER_DEDUPE_MUTATIONS set (make dedupe).
func TestMutations(t *testing.T) {
	if os.Getenv("HIGHWATER_DEDUPE_MUTATIONS") == "" {
		t.Skip("HIGHWATER_DEDUPE_MUTATIONS isn't set")
	}
	for _, m := range []struct{ rule, file, old, new string }{
		{"the window has an age", "window.go", "e.time = newest - c.Age + 1", "e.time = 0"},
		{"the age to the millisecond", "window.go", "e.time = newest - c.Age + 1", "e.time = newest - c.Age"},
		{"the window has a count", "window.go", "e.ordinal = total - c.Count", "e.ordinal = 0"},
		{"the count exactly", "window.go", "e.ordinal = total - c.Count", "e.ordinal = total - c.Count - 1"},
		{"the window ends at the log start", "window.go", "e.offset = start", "e.offset = 0"},
		{"producers are forgotten", "window.go", "return newest - c.ProducerAge + 1", "return 0"},
		{"time doesn't go back", "state.go", "time = max(time, min(b.Time, maxTime))", "time = min(b.Time, maxTime)"},
		{"a batch is noted once", "state.go", "if b.Next <= s.next {", "if b.Next < 0 {"},
		{"offsets are noted once", "state.go", "if offset < from || offset >= b.Next {", "if from < 0 || offset >= b.Next {"},
		{"a truncation takes producers back", "state.go", "s.producers.undo(s.journal[n-1].change)", ""},
		{"a truncation takes ordinals back", "state.go", "s.total -= int64(s.tail.cut(offset))", "s.tail.cut(offset)"},
		{"a truncation takes the time back", "state.go", "s.next, s.newest = offset, s.newestAt(offset).time", "s.next = offset"},
		{"who was evicted comes back", "producers.go", "if e := c.evicted; e != nil {", "if e := c.evicted; false {"},
		{"a truncation overtakes a flush", "state.go", "if s.flushing != nil && offset < s.flushing.judged {", "if false {"},
		{"a producer forgotten begins anew", "state.go", "was := s.producer(b.Producer.ID, time)", "was := s.producers.get(b.Producer.ID)"},
		{"the tail has older entries of an id", "tail.go", "slotOf(&e.id, ordinal-e.prev)", "slotOf(&e.id, ordinal)"},
		{"the newest entry of an id counts", "run_sort.go", "return bytes.Compare(ey[ordinalAt:ordinalAt+4], ex[ordinalAt:ordinalAt+4])", "return 0"},
		{"an epoch is fenced by a newer one", "sequence.go", "case b.Epoch < p.epoch:", "case false:"},
		{"a new epoch begins at 0", "sequence.go", "case b.Epoch > p.epoch && b.Sequence != 0:", "case false:"},
		{"who is unknown begins at 0", "sequence.go", "case p == nil && b.Sequence != 0:", "case false:"},
		{"five batches", "dedupe.go", "RetainedBatches = 5", "RetainedBatches = 4"},
		{"sequence numbers wrap", "sequence.go", "return int32((uint32(s) + uint32(n)) & maxSequence)", "return s + n"},
		{"what was never written is no duplicate", "sequence.go", "uint32(back) <= p.before &&", ""},
		{"a duplicate is one as a whole", "sequence.go", "&& b.Count <= back", ""},
		{"a new epoch has no batches of the old", "producers.go", "if p != nil && p.epoch == b.Epoch {", "if p != nil {"},
		{"the one silent longest goes", "producers.go", "ps.linkBehind(n, ps.newest)\n\t\treturn c", "ps.linkBehind(n, nil)\n\t\treturn c"},
		{"a merge drops by what is committed", "merge.go", "edge := s.cfg.edge(s.coveredNewest.time, s.coveredTotal, min(s.start, s.covered))", "edge := s.edge()"},
		{"a flush drops by what is committed", "flush.go", "f.producers = without(s.producers.list(), s.journal[f.marks:])", "f.producers = s.producers.list()"},
		{"a flush lets go by what is committed", "flush.go", "edge: s.edgeAt(committed)}", "edge: s.edge()}"},
		{"a flush lets go what has left the window", "flush.go", "n = max(n-keep, gone)", "n = max(n-keep, gone+1)"},
		{"what is let go is judged by all below", "state.go", "return max(s.covered, s.judged)", "return s.covered"},
		{"a snapshot knows what ids were judged by", "snapshot.go", "snap.newest, snap.total, snap.judged", "snap.newest, snap.total, covered"},
		{"what ids were judged by doesn't go back", "flush.go", "judged: max(committed, s.judged)", "judged: committed"},
		{"slots of entries that are gone are stale", "tail.go", "if i := t.index(in); i < uint32(t.linked) && t.list.at", "if i := t.index(in); t.list.at"},
		{"an export is of what is committed", "export.go", "without(v.producers, marks)", "v.producers"},
		{"an export knows the newest time", "export.go", "if x.below >= v.coveredNewest.from {", "if false {"},
		{"a merge is overtaken", "merge.go", "if s.merging != m {", "if m == nil {"},
	} {
		t.Run(strings.ReplaceAll(m.rule, " ", "_"), func(t *testing.T) {
			source, err := os.ReadFile(m.file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Count(string(source), m.old) != 1 {
				t.Fatalf("%s doesn't have this once: %s", m.file, m.old)
			}
			dir := t.TempDir()
			mutant := filepath.Join(dir, m.file)
			if err := os.WriteFile(mutant, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			original, err := filepath.Abs(m.file)
			if err != nil {
				t.Fatal(err)
			}
			overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: mutant}})
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "overlay.json")
			if err := os.WriteFile(file, overlay, 0o600); err != nil {
				t.Fatal(err)
			}
			// The seeds' events needn't all occur: only what fails before counts.
			run := exec.Command("go", "test", "-vet=off", "-count=1", "-overlay", file, "-run", "^TestModel$", ".")
			run.Env = append(os.Environ(), "HIGHWATER_DEDUPE_MODEL_SEEDS=300")
			out, err := run.CombinedOutput()
			switch {
			case strings.Contains(string(out), "[build failed]"):
				t.Fatalf("the mutant doesn't compile:\n%s", out)
			case err == nil || !strings.Contains(string(out), ", config {") && !strings.Contains(string(out), "panic:"):
				t.Errorf("nobody noticed:\n%s", out)
			}
		})
	}
}
