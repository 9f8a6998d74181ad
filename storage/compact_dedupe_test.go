package storage

import (
	"os"
	"path/filepath"
	"testing"
)

// TestD11_CompactionAndCrash: a message id and a producer outlive their records when
// those are compacted away, also if the broker is killed right after.
func TestD11_CompactionAndCrash(t *testing.T) {
	r := newRemembering(t, t.TempDir())
	r.cfg.Compact = true
	r.open()
	// Records without a key go when a compacted log is compacted.
	r.send(numbered("m", 0, 5)...)
	r.mustCommit(r.batch(&Producer{ID: 7}, message{"", "x"}, message{"", "y"}))
	r.send(message{"last", "1"})
	if res := compactNow(t, r.log); res.Keyless != 8 {
		t.Fatalf("%+v", res)
	}
	dir := filepath.Join(t.TempDir(), "after the kill")
	if err := os.CopyFS(dir, os.DirFS(r.dir)); err != nil {
		t.Fatal(err)
	}
	after := newRemembering(t, dir)
	after.cfg.Compact = true
	after.open()
	if got := after.log.DedupeFigures(); got.Ids != 6 || got.Producers != 1 {
		t.Fatalf("%+v", got)
	}
	after.want(after.send(numbered("m", 0, 2)...), []int64{0, 1}, []bool{true, true})
	s, err := after.stage(after.batch(&Producer{ID: 7}, message{"", "x"}, message{"", "y"}))
	if err != nil || s.New {
		t.Fatalf("%+v, %v", s, err)
	}
	after.want(s, []int64{5, 6}, []bool{true, true})
	after.consistent()
}
