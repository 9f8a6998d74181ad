package storage_test

import (
	"os"
	"path/filepath"
	"testing"

	"highwater/storage"
)

// TestR73_NeverHadIsNotLost: a log that is not on disk was lost, unless the
// directory can vouch that there never was anything of it to report.
func TestR73_NeverHadIsNotLost(t *testing.T) {
	dir := t.TempDir()
	never := func(s *storage.Store, id storage.PartitionID) bool {
		t.Helper()
		ok, err := s.NeverHad(id)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	open := func(dir string) *storage.Store {
		t.Helper()
		s, _ := openStore(t, dir)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	s := open(dir)
	if never(s, partition(1)) {
		t.Error("a new directory vouches, though nobody knows it yet")
	}
	s.SetBrokerEpoch(3)
	appendRecords(t, mustOpenLog(t, s, partition(2)), 0, 40)
	// What a kill leaves, before anything was checkpointed.
	killed := func() string {
		t.Helper()
		to := filepath.Join(t.TempDir(), "data")
		if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		return to
	}
	remove := func(parts ...string) {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(parts...)); err != nil {
			t.Fatal(err)
		}
	}
	k := killed()
	s = open(k)
	if !never(s, partition(1)) || never(s, partition(2)) {
		t.Errorf("after a kill: %v, %v", never(s, partition(1)), never(s, partition(2)))
	}
	// A log's directory that somebody removed.
	k = killed()
	remove(k, "partitions", partition(2).String())
	s = open(k)
	if !never(s, partition(1)) || never(s, partition(2)) {
		t.Errorf("its directory is gone: %v, %v", never(s, partition(1)), never(s, partition(2)))
	}
	// Without the index nothing is known, also at later starts, until the controller
	// has heard of it; also when everything but the identity is gone.
	for _, more := range []string{"no such file", "partitions"} {
		k = killed()
		remove(k, "index.db")
		remove(k, more)
		for start := range 3 {
			s = open(k)
			if never(s, partition(1)) || never(s, partition(2)) {
				t.Errorf("without index and %s, start %d: it vouches", more, start)
			}
			if start == 2 {
				s.SetBrokerEpoch(9)
			}
			closeStore(t, s)
		}
		if s = open(k); !never(s, partition(1)) {
			t.Errorf("without index and %s: nothing is ever believed again", more)
		}
	}
}
