package storage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

const testReserve = 1 << 20

// fakeDisk is a disk whose free space a test sets.
type fakeDisk struct {
	free atomic.Int64
	dir  string
}

// freeSpace counts the ballast as used, as a file system would.
func (d *fakeDisk) freeSpace() (int64, error) {
	free := d.free.Load()
	if info, err := os.Stat(filepath.Join(d.dir, ballastFileName)); err == nil {
		free -= info.Size()
	}
	return max(free, 0), nil
}

// TestS5_ReserveAndBallast walks the free space down and up again.
func TestS5_ReserveAndBallast(t *testing.T) {
	disk := &fakeDisk{dir: t.TempDir()}
	disk.free.Store(10 * testReserve)
	g, err := newDiskGuard(disk.dir, testReserve, disk.freeSpace, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		free            int64 // with the ballast's bytes
		ballast, refuse bool
	}{
		{10 * testReserve, true, false},
		{2*testReserve + 1, true, false},
		{2*testReserve - 1, true, true},
		{2*testReserve + 1, true, true}, // not before 5/4 of the reserve
		{9*testReserve/4 + 1, true, false},
		{3*testReserve/2 + 1, true, true},
		{3*testReserve/2 - 1, false, true}, // others fill the disk
		{testReserve / 10, false, true},
		{0, false, true},
		{2 * testReserve, false, true},
		{9*testReserve/4 - 1, false, true},
		{9 * testReserve / 4, true, false},
	} {
		disk.free.Store(step.free)
		if err := g.sample(); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(g.path)
		if exists := err == nil; exists != step.ballast || g.ballast != step.ballast {
			t.Fatalf("step %d: ballast is %v", i, exists)
		}
		if err := g.admit(1); errors.Is(err, ErrDiskNearlyFull) != step.refuse || g.full() != step.refuse {
			t.Fatalf("step %d: admit says %v", i, err)
		}
	}
	info, err := os.Stat(g.path)
	if err != nil || info.Size() != testReserve || info.Sys().(*syscall.Stat_t).Blocks*512 < testReserve {
		t.Fatalf("the ballast takes no room: %+v, %v", info, err)
	}

	// What is admitted counts before the file system knows of it.
	disk.free.Store(5 * testReserve)
	if err := g.sample(); err != nil {
		t.Fatal(err)
	}
	for admitted := 0; admitted < 3; admitted++ {
		if err := g.admit(testReserve); err != nil {
			t.Fatalf("after %d reserves: %v", admitted, err)
		}
	}
	if err := g.admit(testReserve); !errors.Is(err, ErrDiskNearlyFull) {
		t.Fatalf("the reserve itself was admitted: %v", err)
	}
}

// TestS5_BallastOfAnotherSize: the reserve was reconfigured, or the file is a torso.
func TestS5_BallastOfAnotherSize(t *testing.T) {
	for _, size := range []int{0, 17, 2 * testReserve} {
		disk := &fakeDisk{dir: t.TempDir()}
		disk.free.Store(100 * testReserve)
		path := filepath.Join(disk.dir, ballastFileName)
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := newDiskGuard(disk.dir, testReserve, disk.freeSpace, zerolog.Nop()); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() != testReserve {
			t.Fatalf("%d bytes: ballast is %v, %v", size, info, err)
		}
		if _, err := newDiskGuard(disk.dir, 0, disk.freeSpace, zerolog.Nop()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("without a reserve the ballast stays: %v", err)
		}
	}
}

// mountSmallDisk mounts a tmpfs of the given size, or skips.
func mountSmallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestF46_DiskFull fills a real, small file system: first by produce, which stops
// at the reserve, then by somebody else, down to the last byte. Reads, the index
// and deletes work all the time, and produce goes on when there is space again.
func TestF46_DiskFull(t *testing.T) {
	dir := mountSmallDisk(t, "24m")
	s, err := Open(Options{Dir: filepath.Join(dir, "data"), Fsync: FsyncCommit, ReserveBytes: 4 << 20, Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	big, small := PartitionID{Topic: uuid.New()}, PartitionID{Topic: uuid.New()}
	logs := map[PartitionID]*Log{}
	for _, id := range []PartitionID{big, small} {
		if logs[id], err = s.OpenLog(id, LogConfig{SegmentBytes: 1 << 20, RetentionBytes: -1, RetentionAge: -1}, func() {}); err != nil {
			t.Fatal(err)
		}
	}
	value := bytes.Repeat([]byte("v"), 100<<10)
	if err := appendValue(logs[small], value); err != nil {
		t.Fatal(err)
	}
	appended := int64(0)
	for err = nil; err == nil; appended++ {
		err = appendValue(logs[big], value)
	}
	appended--
	if !errors.Is(err, ErrDiskNearlyFull) {
		t.Fatalf("after %d records: %v", appended, err)
	}
	if free, err := freeBytes(dir); err != nil || free < 3<<20 {
		t.Fatalf("produce went into the reserve: %d bytes free, %v", free, err)
	}

	fillDisk(t, filepath.Join(dir, "somebody else's"))
	if err := s.guard.sample(); err != nil {
		t.Fatal(err)
	}
	if free, err := freeBytes(dir); err != nil || free < 4<<20 {
		t.Fatalf("the ballast made no room: %d bytes free, %v", free, err)
	}
	fillDisk(t, filepath.Join(dir, "somebody else's too"))
	if res, err := logs[big].Read(appended-1, appended, 1, nil); err != nil || len(res.Data) < len(value) {
		t.Fatalf("read on a full disk: %d bytes, %v", len(res.Data), err)
	}
	if err := appendValue(logs[small], []byte("x")); !errors.Is(err, ErrDiskNearlyFull) {
		t.Fatalf("produce on a full disk: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "somebody else's too")); err != nil {
		t.Fatal(err)
	}

	if err := s.DeleteLog(big); err != nil {
		t.Fatalf("delete on a full disk: %v", err)
	}
	if err := s.index.flush(); err != nil {
		t.Fatalf("index on a full disk: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "somebody else's")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	for err = ErrDiskNearlyFull; errors.Is(err, ErrDiskNearlyFull); runtime.Gosched() { // until the removal is done and seen
		err = appendValue(logs[small], value)
	}
	if err != nil {
		t.Fatalf("produce after space came back: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestS5_IndexWriteOnAFullDisk: the disk is full before anybody has looked. The
// index's write fails, lets the ballast go, and succeeds; nothing failed for good.
func TestS5_IndexWriteOnAFullDisk(t *testing.T) {
	dir := mountSmallDisk(t, "16m")
	s, err := Open(Options{Dir: filepath.Join(dir, "data"), ReserveBytes: 4 << 20, Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	fillDisk(t, filepath.Join(dir, "somebody else's"))
	if !s.guard.ballast || s.guard.full() {
		t.Fatal("the guard has looked")
	}
	id := PartitionID{Topic: uuid.New()}
	if err := s.index.updateNow(id, func(m *logMeta) { m.Segments = make([]segmentMeta, 100_000) }); err != nil {
		t.Fatal(err)
	}
	if s.guard.ballast || !errors.Is(s.admit(1), ErrDiskNearlyFull) || s.Failure() != nil {
		t.Fatalf("ballast %v, admit %v, failure %v", s.guard.ballast, s.admit(1), s.Failure())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = Open(Options{Dir: filepath.Join(dir, "data"), ReserveBytes: 4 << 20, Logger: zerolog.Nop()})
	if err != nil {
		t.Fatalf("start on a full disk: %v", err)
	}
	if m, ok := s.index.meta(id); !ok || len(m.Segments) != 100_000 || !s.CleanStart() {
		t.Fatalf("%d segments %v, clean %v", len(m.Segments), ok, s.CleanStart())
	}
	if !errors.Is(s.admit(1), ErrDiskNearlyFull) {
		t.Fatal("produce is admitted on a full disk")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func appendValue(l *Log, value []byte) error {
	b := NewBatchBuilder(nil)
	b.Append(&Record{Timestamp: 1, Value: value})
	batch, err := b.Seal(CompressionNone, nil)
	if err != nil {
		return err
	}
	staged, err := l.Stage([]Batch{batch}, 1)
	if err != nil {
		return err
	}
	if err := l.Write(staged); err != nil {
		return err
	}
	return l.Sync(staged)
}

// fillDisk writes zeros until nothing more fits.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil && !errors.Is(err, io.ErrShortWrite) {
			t.Fatal(err)
		}
	}
}
