package storage

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"highwater/storage/vfs"
)

// TestD5_DuplicateOfOneInFlight: it waits for the original's write, and fails with it.
func TestD5_DuplicateOfOneInFlight(t *testing.T) {
	for _, failing := range []bool{false, true} {
		r := newRemembering(t, "/d")
		fs := vfs.NewMem(rand.New(rand.NewPCG(1, 1)), "/d", "/d/partitions")
		r.opts = func(o *Options) { o.FS, o.Logger = fs, zerolog.Nop() }
		r.open()
		r.send(message{"committed", "1"})
		original, err := r.stage(r.batch(nil, message{"a", "1"}))
		if err != nil {
			t.Fatal(err)
		}
		again, err := r.stage(r.batch(nil, message{"committed", "1"}, message{"a", "1"}))
		if err != nil {
			t.Fatal(err)
		}
		r.want(again, []int64{0, 1}, []bool{true, true})
		if again.New || again.WaitFrom != 1 || again.WaitEnd != 2 {
			t.Fatalf("%+v", again)
		}
		mixed, err := r.stage(r.batch(nil, message{"a", "1"}, message{"b", "1"}))
		if err != nil {
			t.Fatal(err)
		}
		if !mixed.New || mixed.BaseOffset != 2 || mixed.WaitFrom != 1 || mixed.WaitEnd != 3 {
			t.Fatalf("%+v", mixed)
		}
		if failing {
			fs.SetRoom(0)
		}
		// The duplicate comes first to the write: it does it for all.
		for name, s := range map[string]Staged{"again": again, "original": original, "mixed": mixed} {
			if err := r.log.Write(s); failing != errors.Is(err, ErrDiskNearlyFull) || !failing && err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		fs.SetRoom(-1)
		want := int64(1)
		if failing {
			want = -1
		}
		if r.find("a") != want || r.find("committed") != 0 {
			t.Fatalf("found at %d, want %d", r.find("a"), want)
		}
		if failing { // it is nowhere, and so it is no duplicate
			s := r.send(message{"a", "1"})
			if !s.New || s.BaseOffset != 1 {
				t.Fatalf("%+v", s)
			}
		}
		r.consistent()
	}
}

// TestDuplicateWhileItsRoundIsWritten: the receipt is of the round under way.
func TestDuplicateWhileItsRoundIsWritten(t *testing.T) {
	r := newRemembering(t, "/d")
	fs := vfs.NewMem(rand.New(rand.NewPCG(1, 1)), "/d", "/d/partitions")
	r.opts = func(o *Options) { o.FS, o.Logger = fs, zerolog.Nop() }
	r.open()
	r.send(message{"first", "1"})
	entered, release := make(chan struct{}), make(chan struct{})
	blocked := false
	fs.SetFault(func(op, name string) error {
		if strings.HasSuffix(filepath.Base(name), segmentSuffix) && op == "write" && !blocked {
			blocked = true
			close(entered)
			<-release
			return syscall.ENOSPC
		}
		return nil
	})
	s, err := r.stage(r.batch(nil, message{"a", "1"}))
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() { failed <- r.log.Write(s) }()
	<-entered
	again, err := r.stage(r.batch(nil, message{"a", "1"}))
	if err != nil || again.New {
		t.Fatalf("%+v, %v", again, err)
	}
	dup := make(chan error, 1)
	go func() { dup <- r.log.Sync(again) }()
	close(release)
	if err := <-failed; !errors.Is(err, ErrDiskNearlyFull) {
		t.Fatal(err)
	}
	if err := <-dup; !errors.Is(err, ErrDiskNearlyFull) {
		t.Fatalf("the duplicate of what was not written: %v", err)
	}
	if r.find("a") != -1 {
		t.Fatal("remembered though it isn't there")
	}
}
