package storage_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"highwater/storage"
	"highwater/storage/vfs"
)

// TestR73_NeverHadIsNotLost: a log that is not on disk was lost, unless the
// directory can vouch that there never was anything of it to report.
func TestR73_NeverHadIsNotLost(t *testing.T) {
	dir := t.TempDir()
	open := func(dir string) *storage.Store {
		t.Helper()
		s, _ := openStore(t, dir)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	s := open(dir)
	if s.NeverHad(partition(1)) {
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
	if !s.NeverHad(partition(1)) || s.NeverHad(partition(2)) {
		t.Errorf("after a kill: %v, %v", s.NeverHad(partition(1)), s.NeverHad(partition(2)))
	}
	// A log's directory that somebody removed.
	k = killed()
	remove(k, "partitions", partition(2).String())
	s = open(k)
	if !s.NeverHad(partition(1)) || s.NeverHad(partition(2)) {
		t.Errorf("its directory is gone: %v, %v", s.NeverHad(partition(1)), s.NeverHad(partition(2)))
	}
	// Without the index nothing is known, also at later starts, until the controller
	// has heard of it; also when everything but the identity is gone.
	for _, more := range []string{"no such file", "partitions"} {
		k = killed()
		remove(k, "index.db")
		remove(k, more)
		for start := range 3 {
			s = open(k)
			if s.NeverHad(partition(1)) || s.NeverHad(partition(2)) {
				t.Errorf("without index and %s, start %d: it vouches", more, start)
			}
			if start == 2 {
				s.SetBrokerEpoch(9)
			}
			closeStore(t, s)
		}
		if s = open(k); !s.NeverHad(partition(1)) {
			t.Errorf("without index and %s: nothing is ever believed again", more)
		}
	}
}

// TestR73_PowerCutAfterATopicIsMade: whatever of a new, empty partition reached the
// disk, its replica counts as complete at the next start. Else a power cut of all
// brokers a moment after a topic was made would leave it without a leader for good.
func TestR73_PowerCutAfterATopicIsMade(t *testing.T) {
	for mode := range vfs.CrashModes {
		for _, after := range []time.Duration{0, time.Second / 2, 3 * time.Second, 10 * time.Second} {
			for _, killed := range []bool{false, true} {
				t.Run(fmt.Sprintf("mode %d/after %v/killed %v", mode, after, killed), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { powerCutAfterATopicIsMade(t, mode, after, killed) })
				})
			}
		}
	}
}

// powerCutAfterATopicIsMade, or after the start that followed when a run was killed
// that had just made the directories.
func powerCutAfterATopicIsMade(t *testing.T, mode int, after time.Duration, killed bool) {
	open := func(fs vfs.FS) *storage.Store {
		t.Helper()
		s, err := storage.Open(storage.Options{Dir: "/data", FS: fs, Fsync: storage.FsyncCommit, Logger: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	fs := vfs.NewMem(rand.New(rand.NewPCG(uint64(mode), uint64(after))))
	s := open(fs)
	s.SetBrokerEpoch(1) // from here on the directory may vouch
	stop := runStore(t, s)
	for topic := range byte(20) {
		if killed {
			if err := fs.Mkdir("/data/partitions/" + partition(topic).String()); err != nil {
				t.Fatal(err)
			}
		}
		if err := mustOpenLog(t, s, partition(topic)).BeginEpoch(0); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(after)
	fs = fs.Crash(mode)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	s = open(fs)
	held := heldBy(t, s)
	for topic := range byte(20) {
		if reason, there := held[partition(topic)]; there && reason != "" {
			t.Errorf("%v: %s", partition(topic), reason)
		} else if !there && !s.NeverHad(partition(topic)) {
			t.Errorf("%v is gone and counts as lost", partition(topic))
		}
	}
}

// namesFail is a disk on which the names of logs can't be made durable.
type namesFail struct {
	vfs.OS
	err error
}

func (f namesFail) SyncDir(name string) error {
	if filepath.Base(name) == "partitions" {
		return f.err
	}
	return f.OS.SyncDir(name)
}

// TestR73_NamesBeforeTheIndex: the index on a real disk says nothing of a log whose
// name isn't durable; only being short of descriptors is no failure (F50).
func TestR73_NamesBeforeTheIndex(t *testing.T) {
	for errno, final := range map[syscall.Errno]bool{syscall.EIO: true, syscall.EMFILE: false} {
		fs := namesFail{err: &os.PathError{Op: "sync", Path: "partitions", Err: errno}}
		s, err := storage.Open(storage.Options{Dir: t.TempDir(), FS: fs, Fsync: storage.FsyncCommit, Logger: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		mustOpenLog(t, s, partition(1))
		if err := s.Close(); errors.As(err, new(*storage.FailedError)) != final || !final && err != nil {
			t.Errorf("%v: %v", errno, err)
		}
	}
}
