package vfs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestParsePlan(t *testing.T) {
	p, err := ParsePlan("# nothing\n\nfsync-error 3 # the third\n fsync-delay 1.5s\nno-space\nwrite-error 1\nread-error 20\n")
	if want := (Plan{FsyncError: 3, FsyncDelay: 1500 * time.Millisecond, NoSpace: true, WriteError: 1, ReadError: 20}); err != nil || p != want {
		t.Errorf("%+v, %v", p, err)
	}
	for _, bad := range []string{"fsync-error", "fsync-error 0", "fsync-error x", "no-space now", "fsync-delay 5", "fsink 1"} {
		if p, err := ParsePlan(bad); err == nil || p != (Plan{}) {
			t.Errorf("%q: %+v, %v", bad, p, err)
		}
	}
}

// faulty is a Faults over a real directory, its control file, and what it told.
type faulty struct {
	*Faults
	dir, control string
	struck       []string
	told         []error
}

func newFaulty(t *testing.T) *faulty {
	f := &faulty{dir: t.TempDir(), control: filepath.Join(t.TempDir(), "faults")}
	f.Faults = NewFaults(OS{}, f.control, func(fault, _ string) { f.struck = append(f.struck, fault) }, func(err error) { f.told = append(f.told, err) })
	return f
}

func (f *faulty) set(t *testing.T, plan string) {
	t.Helper()
	if err := os.WriteFile(f.control+".new", []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(f.control+".new", f.control); err != nil {
		t.Fatal(err)
	}
}

func (f *faulty) file(t *testing.T) File {
	t.Helper()
	file, err := f.Open(filepath.Join(f.dir, "x"), os.O_CREATE|os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func write(t *testing.T, f File, off int64, data string) {
	t.Helper()
	if n, err := f.WriteBuffers([][]byte{[]byte(data)}, off); err != nil || n != len(data) {
		t.Fatalf("%d bytes written, %v", n, err)
	}
}

// TestF47_FailedFsyncLosesWhatWasDirty and nothing else, and only once.
func TestF47_FailedFsyncLosesWhatWasDirty(t *testing.T) {
	f := newFaulty(t)
	x := f.file(t)
	write(t, x, 0, "synced..")
	if err := x.Sync(); err != nil {
		t.Fatal(err)
	}
	write(t, x, 8, "lost....")
	write(t, x, 16, "lost, too, and cut off")
	if err := x.Truncate(20); err != nil {
		t.Fatal(err)
	}
	f.set(t, "fsync-error 1")
	if err := x.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	if err := x.Sync(); err != nil { // as the kernel does (S4)
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(f.dir, "x"))
	if want := append([]byte("synced.."), make([]byte, 12)...); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the file holds %q, %v", got, err)
	}
	if len(f.struck) != 1 || f.struck[0] != "fsync-error" {
		t.Errorf("struck %v", f.struck)
	}
}

func TestFaultsBeginAndEnd(t *testing.T) {
	f := newFaulty(t)
	x := f.file(t)
	write(t, x, 0, "0123456789")
	f.set(t, "no-space")
	n, err := x.WriteBuffers([][]byte{[]byte("abcdef"), []byte("gh")}, 10)
	if !errors.Is(err, syscall.ENOSPC) || n != 3 {
		t.Errorf("%d bytes written, %v", n, err)
	}
	if _, err := f.Open(filepath.Join(f.dir, "y"), os.O_CREATE|os.O_RDWR); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	if err := f.Mkdir(filepath.Join(f.dir, "z")); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	f.set(t, "write-error 2\nread-error 1")
	write(t, x, 0, "1")
	if n, err := x.WriteBuffers([][]byte{[]byte("2")}, 0); !errors.Is(err, syscall.EIO) || n != 0 {
		t.Errorf("%d bytes written, %v", n, err)
	}
	write(t, x, 0, "3")
	b := make([]byte, 1)
	if _, err := x.ReadAt(b, 0); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if _, err := x.ReadAt(b, 0); err != nil || b[0] != '3' {
		t.Errorf("%q, %v", b, err)
	}
	f.set(t, "write-error 1") // what makes no sense leaves it
	f.set(t, "gibberish")
	if _, err := x.ReadAt(b, 0); err != nil || len(f.told) != 1 {
		t.Errorf("%v, told %v", err, f.told)
	}
	if err := os.Remove(f.control); err != nil {
		t.Fatal(err)
	}
	write(t, x, 0, "4")
	if want := 5; len(f.struck) != want {
		t.Errorf("struck %v", f.struck)
	}
}
