package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"highwater/storage/vfs"
)

// needRoom are the operations of a file system that may find no room; "index" is the
// writing of the index.
var needRoom = []string{"create", "mkdir", "write", "rename", "index"}

// fillAt lets the disk be full from the n-th of these operations on, but for those on
// names with one of these ends; met tells whether one has found no room.
func (s *memStore) fillAt(n int, except ...string) (met *bool) {
	met = new(bool)
	s.fs.SetFault(func(op, name string) error {
		if !slices.Contains(needRoom, op) || slices.Contains(except, filepath.Ext(name)) {
			return nil
		}
		if n--; n > 0 {
			return nil
		}
		*met = true
		return syscall.ENOSPC
	})
	return met
}

// TestS5_NoRoomAtAnyStep of what changes a follower's files: the disk is full from
// some step on, with or without a ballast to let go. Nothing of it is a broken disk;
// what was done is what the leader has, now and after a crash; and with space the
// follower goes on. With the ballast only an append is refused.
func TestS5_NoRoomAtAnyStep(t *testing.T) {
	for _, f := range failpoints {
		for _, ballast := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/ballast %v", f.name, ballast), func(t *testing.T) {
				refused := 0
				for at := 1; ; at++ {
					met, err := noRoomAt(t, f, ballast, at)
					if err != nil {
						refused++
					}
					if err != nil && ballast && f.name != failpoints[0].name && !f.harmed {
						t.Errorf("full from step %d on: %v", at, err)
					}
					if !met {
						break
					}
				}
				if f.name == failpoints[0].name && refused == 0 {
					t.Error("no append was refused: not much of a test")
				}
			})
		}
	}
}

// noRoomAt has one failpoint find no room at its n-th operation that needs some; met:
// it has so many.
func noRoomAt(t *testing.T, f failpoint, ballast bool, n int) (met bool, failed error) {
	t.Helper()
	for _, crash := range []bool{false, true} {
		p := newPair(t)
		s := p.follower
		if !f.harmed { // there is something to append
			if _, err := s.log.TruncateTo(p.midway(t) * 3 / 2); err != nil {
				t.Fatal(err)
			}
		} else {
			flipAt(s, s.log.segments[2].base, func(size int) int { return size / 2 })
			for o := range s.log.WrittenEnd() {
				_, _ = s.log.Read(o, s.log.WrittenEnd(), 1, nil)
			}
			must(t, s.ix.flush())
		}
		if ballast {
			s.d.outOfSpace = func() { s.fs.SetFault(nil) }
			save := s.ix.save
			s.ix.save = func(logs map[PartitionID]*memIndexed) error { // as the real index does it
				return withSpace(s.d.outOfSpace, func() error { return save(logs) })
			}
		}
		full := s.fillAt(n)
		err := f.do(p, s)
		met = *full
		when := fmt.Sprintf("full from step %d on (%v), crash %v", n, err, crash)
		if err != nil && !errors.Is(err, ErrDiskNearlyFull) || len(s.failures) > 0 {
			t.Fatalf("%s: %v", when, s.failures)
		}
		failed = err
		if crash {
			s.fs.Stop()
			s.log.discard()
			s.fs = s.fs.Crash(vfs.CrashKeepsAll)
			s.ix.current = cloneIndexed(s.ix.durable)
			s.ix.save = stepOn(s.fs)
			s.fillAt(1) // it still is when the next process starts
			if err := s.tryOpen(); err != nil && !errors.Is(err, ErrDiskNearlyFull) {
				t.Fatalf("%s: open: %v", when, err)
			} else if err != nil {
				s.fs.SetFault(nil)
				s.open()
			}
		}
		s.fs.SetFault(nil)
		if len(s.log.Damage()) == 0 {
			p.wantPart(t, when)
		}
		if _, err := s.log.DropDamage(); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		p.wantPart(t, when)
		if err == nil && !crash && f.name != failpoints[0].name {
			if redone := f.do(p, s); redone != nil {
				t.Fatalf("%s: once more: %v", when, redone)
			}
		}
		p.catchUp(t)
		p.wantPart(t, when+", caught up")
		if s.log.WrittenEnd() != p.leader.log.WrittenEnd() || len(s.failures) > 0 {
			t.Fatalf("%s: ends at %d, %v", when, s.log.WrittenEnd(), s.failures)
		}
		s.kill()
		s.open()
		p.wantPart(t, when+", after a kill")
	}
	return met, failed
}

// TestS5_LeaderFindsNoRoom for its epoch, a segment or a record, at any step: the
// records are refused whole, the next ones take their place, and nothing comes back.
func TestS5_LeaderFindsNoRoom(t *testing.T) {
	for at := 1; ; at++ {
		s := newMemStore(t, LogConfig{SegmentBytes: 600})
		s.batches(2, 2)
		must(t, s.log.BeginEpoch(7))
		met := s.fillAt(at)
		end := s.log.WrittenEnd()
		for i := range 6 {
			st, err := s.log.Stage([]Batch{makeBatch(t, CompressionNone, int(end), 2, 100+i, steady)}, 7)
			must(t, err)
			if err = s.log.Sync(st); err == nil {
				end = st.EndOffset
			} else if !errors.Is(err, ErrDiskNearlyFull) {
				t.Fatalf("full from step %d on: %v", at, err)
			}
		}
		if len(s.failures) > 0 || s.log.StagedEnd() != end {
			t.Fatalf("full from step %d on: %v, next offset %d, want %d", at, s.failures, s.log.StagedEnd(), end)
		}
		s.fs.SetFault(nil)
		s.expect(end, none)
		st, err := s.log.Stage([]Batch{makeBatch(t, CompressionNone, int(end), 2, 100, steady)}, 7)
		must(t, err)
		must(t, s.log.Write(st))
		if known := s.ix.durable[testID].meta.Epochs; len(known) == 0 || known[len(known)-1].Epoch != 7 {
			t.Fatalf("full from step %d on: a byte of epoch 7 is written, and the index knows of %v (R49)", at, known)
		}
		end = st.EndOffset
		s.kill()
		s.open()
		s.expect(end, none)
		s.batches(2, 2)
		s.expect(end+4, none)
		if !*met {
			if at < 6 {
				t.Errorf("done after %d steps: not much of a test", at)
			}
			return
		}
	}
}

// TestS5_CompactionFindsNoRoom at any step: it is refused, or done as far as it has
// got; nothing is lost or in the way, now and after a crash; and with space it goes on.
// Without a ballast a name can still take another one's place: that needs no new one.
func TestS5_CompactionFindsNoRoom(t *testing.T) {
	for _, crash := range []bool{false, true} {
		for _, ballast := range []bool{false, true} {
			refused := 0
			for at := 1; ; at++ {
				s := newMemStore(t, compactConfig(250))
				for i := range 9 {
					mustAppend(t, s.log, keyed(t, CompressionNone, nil, 1, fmt.Sprintf("k%d=%d", i%2, i), "x=1"))
				}
				must(t, s.ix.flush())
				s.cfg.SegmentBytes = 600 // two groups
				s.log.Configure(s.cfg)
				met := s.fillAt(at, swapSuffix)
				if ballast {
					s.d.outOfSpace = func() { s.fs.SetFault(nil) }
					met = s.fillAt(at)
				}
				_, err := s.log.Compact(t.Context(), CompactOptions{HighWatermark: s.log.WrittenEnd(), AtOnce: true})
				if err != nil {
					refused++
				}
				if err != nil && !errors.Is(err, ErrDiskNearlyFull) || len(s.failures) > 0 {
					t.Fatalf("full from step %d on, ballast %v: %v, the store heard %v", at, ballast, err, s.failures)
				}
				checkBatches(t, s.log)
				s.fs.SetFault(nil)
				if crash {
					s.crash(vfs.CrashKeepsAll)
				}
				if damage := s.log.Damage(); len(damage) > 0 || s.log.whyLossy() != "" {
					t.Fatalf("full from step %d on, ballast %v: damage %v, %s", at, ballast, damage, s.log.whyLossy())
				}
				compactNow(t, s.log)
				wantContents(t, s.log, "14 k1=7", "16 k0=8", "17 x=1")
				s.kill()
				s.open()
				wantContents(t, s.log, "14 k1=7", "16 k0=8", "17 x=1")
				if !*met {
					break
				}
			}
			if refused == 0 {
				t.Errorf("ballast %v: nothing was refused: not much of a test", ballast)
			}
		}
	}
}

// TestS4_FsyncWithoutRoomIsFinal: some file systems find out at the fsync that there
// is no room. The bytes may be gone then, so it is no refusal.
func TestS4_FsyncWithoutRoomIsFinal(t *testing.T) {
	for _, op := range []string{"sync", "syncdir"} {
		s := newMemStore(t, LogConfig{SegmentBytes: 600})
		s.batches(2, 2)
		s.fs.SetFault(func(did, name string) error {
			if did == op {
				return &os.PathError{Op: "sync", Path: name, Err: syscall.ENOSPC}
			}
			return nil
		})
		st, err := s.log.Stage([]Batch{makeBatch(t, CompressionNone, 4, 2, 600, steady)}, 1)
		must(t, err)
		if err := s.log.Sync(st); !errors.As(err, new(*FailedError)) || len(s.failures) == 0 {
			t.Errorf("%s: %v, the store heard %v", op, err, s.failures)
		}
	}
}

// fullFS is a disk that is full from the left-th operation on that needs room.
// With a ballast there is room as soon as that is gone.
type fullFS struct {
	vfs.OS
	left    int // 0: never full
	ballast string
	met     bool
}

func (f *fullFS) noRoom(op, name string) error {
	if f.left == 0 {
		return nil
	}
	if f.left > 1 {
		f.left--
		return nil
	}
	f.met = true
	if f.ballast != "" {
		if _, err := os.Stat(f.ballast); errors.Is(err, os.ErrNotExist) {
			return nil
		}
	}
	return &os.PathError{Op: op, Path: name, Err: syscall.ENOSPC}
}

func (f *fullFS) Open(name string, flag int) (vfs.File, error) {
	if _, err := os.Stat(name); flag&os.O_CREATE != 0 && err != nil {
		if err := f.noRoom("open", name); err != nil {
			return nil, err
		}
	}
	file, err := f.OS.Open(name, flag)
	if err != nil {
		return nil, err
	}
	return &fullFile{file, f, name}, nil
}

func (f *fullFS) Mkdir(name string) error {
	if err := f.noRoom("mkdir", name); err != nil {
		return err
	}
	return f.OS.Mkdir(name)
}

func (f *fullFS) Rename(from, to string) error {
	if err := f.noRoom("rename", from); err != nil {
		return err
	}
	return f.OS.Rename(from, to)
}

type fullFile struct {
	vfs.File
	fs   *fullFS
	name string
}

func (f *fullFile) WriteBuffers(bufs [][]byte, off int64) (int, error) {
	if err := f.fs.noRoom("write", f.name); err != nil {
		n, _ := f.File.WriteBuffers([][]byte{bufs[0][:len(bufs[0])/2]}, off)
		return n, err
	}
	return f.File.WriteBuffers(bufs, off)
}

// TestS5_StartAndStopOnAFullDisk goes through every step of a start and a stop. With
// the ballast both go as ever. Without, a stop is in order all the same and the next
// start finds everything; a start says that there is no room, and harms nothing.
func TestS5_StartAndStopOnAFullDisk(t *testing.T) {
	for _, ballast := range []bool{true, false} {
		for _, stop := range []bool{true, false} {
			t.Run(fmt.Sprintf("ballast %v, stop %v", ballast, stop), func(t *testing.T) {
				at := 1
				for fullAt(t, ballast, stop, at) {
					at++
				}
				if at < 3 {
					t.Errorf("%d steps: not much of a test", at)
				}
			})
		}
	}
}

// fullAt has the disk be full from the n-th step of a start or a stop on; false: it
// has no such step.
func fullAt(t *testing.T, ballast, stop bool, n int) bool {
	t.Helper()
	fs := &fullFS{}
	opts := Options{Dir: t.TempDir(), FS: fs, Fsync: FsyncCommit, NodeID: 3, Logger: zerolog.Nop(), Now: time.Now}
	if ballast {
		opts.ReserveBytes, fs.ballast = 1<<16, filepath.Join(opts.Dir, ballastFileName)
	}
	id := PartitionID{Topic: uuid.New()}
	begin := func() (*Store, error) {
		s, err := Open(opts)
		if err != nil {
			return nil, err
		}
		l, err := s.OpenLog(id, LogConfig{SegmentBytes: 1000}, nil)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		if end := l.WrittenEnd(); end > 0 && (end != 5 || l.Lossy()) {
			t.Fatalf("full from step %d on: the log ends at %d, %s", n, end, l.whyLossy())
		}
		return s, nil
	}
	s, err := begin()
	must(t, err)
	for range 5 {
		must(t, appendValue(s.logs[id].log, make([]byte, 400)))
	}
	var met, stopped bool
	if stop {
		fs.left = n
		must(t, s.Close())
		met, fs.left, fs.met = fs.met, 0, false
		stopped = !met || ballast
	} else {
		must(t, s.Close())
		fs.left = n
		s, err = begin()
		if err != nil && (ballast || !foundNoRoom(err)) {
			t.Fatalf("full from step %d on: start: %v", n, err)
		}
		if met, fs.left = fs.met, 0; err == nil {
			must(t, s.Close())
		}
		stopped = err == nil // a start that was cut short doesn't count as a run that ended in order
	}
	s, err = begin()
	must(t, err)
	if s.CleanStart() != stopped || !s.DurableStart() {
		t.Errorf("full from step %d on: clean %v, durable %v", n, s.CleanStart(), s.DurableStart())
	}
	must(t, s.Close())
	return met
}

// TestS5_IndexWithoutRoom: bbolt finds no room, and there is no ballast. Who waits is
// refused, what was noted is found and written as soon as there is space, and a
// deleted log's bytes go at once, which is what makes space.
func TestS5_IndexWithoutRoom(t *testing.T) {
	dir := mountSmallDisk(t, "16m")
	s, err := Open(Options{Dir: filepath.Join(dir, "data"), Logger: zerolog.Nop()})
	must(t, err)
	gone := PartitionID{Topic: uuid.New()}
	l, err := s.OpenLog(gone, LogConfig{}, nil)
	must(t, err)
	must(t, appendValue(l, make([]byte, 4<<20)))
	must(t, s.index.flush())
	fillDisk(t, filepath.Join(dir, "somebody else's"))
	id, large := PartitionID{Topic: uuid.New()}, func(m *logMeta) { m.Segments = make([]segmentMeta, 100_000) }
	for range 2 {
		if err := s.index.updateNow(id, large); !errors.Is(err, ErrDiskNearlyFull) {
			t.Fatalf("update: %v", err)
		}
		if err := s.index.settle(id); !errors.Is(err, ErrDiskNearlyFull) {
			t.Fatalf("settle: %v", err)
		}
		if m, ok := s.index.meta(id); !ok || len(m.Segments) != 100_000 {
			t.Fatalf("%d segments, %v", len(m.Segments), ok)
		}
	}
	must(t, s.DeleteLog(gone))
	if err := s.removeDeleted(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.index.settle(id); err != nil {
		t.Fatalf("with space: %v", err)
	}
	if _, known := s.index.meta(gone); known {
		t.Error("the index knows a deleted log")
	}
	must(t, s.Close())
	s, err = Open(Options{Dir: filepath.Join(dir, "data"), Logger: zerolog.Nop()})
	must(t, err)
	if m, ok := s.index.meta(id); !ok || len(m.Segments) != 100_000 || !s.CleanStart() {
		t.Fatalf("%d segments, %v, clean %v", len(m.Segments), ok, s.CleanStart())
	}
	must(t, s.Close())
}
