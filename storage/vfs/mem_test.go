package vfs

import (
	"errors"
	"math/rand/v2"
	"os"
	"testing"
)

// TestWholeFilesSurviveEveryCrash: after a crash at any operation of WriteFile, in
// any mode, the file is there whole, with the old or the new content (S3).
func TestWholeFilesSurviveEveryCrash(t *testing.T) {
	seen := map[string]int{}
	for mode := range CrashModes {
		for at := 1; ; at++ {
			fs := NewMem(rand.New(rand.NewPCG(uint64(mode), uint64(at))))
			if err := errors.Join(MkdirAll(fs, "/a/b"), WriteFile(fs, "/a/b/x", []byte("old"))); err != nil {
				t.Fatal(err)
			}
			fs.CrashAt(at)
			err := WriteFile(fs, "/a/b/x", []byte("newer"))
			done := !fs.Crashed()
			got, readErr := ReadFile(fs.Crash(mode), "/a/b/x")
			if s := string(got); readErr != nil || s != "old" && s != "newer" || err == nil && s != "newer" {
				t.Fatalf("mode %d, crash at %d (%v): %q, %v", mode, at, err, s, readErr)
			}
			seen[string(got)]++
			if done {
				break
			}
		}
	}
	if len(seen) != 2 {
		t.Errorf("seen %v", seen)
	}
}

// TestRenamedDirectoryTakesItsFiles with it, as programs see it and on the disk.
func TestRenamedDirectoryTakesItsFiles(t *testing.T) {
	fs := NewMem(rand.New(rand.NewPCG(1, 1)))
	if err := errors.Join(MkdirAll(fs, "/d/a"), WriteFile(fs, "/d/a/x", []byte("x")), fs.Rename("/d/a", "/d/b")); err != nil {
		t.Fatal(err)
	}
	check := func(when string, fs *Mem, has, hasNot string) {
		t.Helper()
		if got, err := ReadFile(fs, has+"/x"); err != nil || string(got) != "x" {
			t.Errorf("%s: %s/x holds %q, %v", when, has, got, err)
		}
		if _, err := fs.Open(hasNot+"/x", os.O_RDONLY); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %s/x is there, %v", when, hasNot, err)
		}
	}
	check("renamed", fs, "/d/b", "/d/a")
	if err := fs.Mkdir("/d/a"); err != nil {
		t.Fatal(err)
	}
	check("another one of the old name", fs, "/d/b", "/d/a")
	if err := fs.SyncDir("/d"); err != nil {
		t.Fatal(err)
	}
	check("durable", fs.Crash(CrashDropsAll), "/d/b", "/d/a")
}
