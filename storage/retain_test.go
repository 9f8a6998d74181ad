package storage

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"highwater/storage/vfs"
)

// fileCount counts the segment files of the log.
func (s *memStore) fileCount() (n int) {
	for _, name := range s.fs.Files() {
		if _, ok := parseSegmentName(filepath.Base(name)); ok {
			n++
		}
	}
	return n
}

func TestRetainBySize(t *testing.T) {
	s := newMemStore(t, LogConfig{SegmentBytes: 600})
	s.batches(30, 3)
	size, segments := s.log.SizeBytes(), len(s.log.segments)
	if start, err := s.log.Retain(90); err != nil || start != 0 || s.fileCount() != segments {
		t.Fatalf("without a limit: %d, %v", start, err)
	}
	cfg := s.cfg
	cfg.RetentionBytes = size / 2
	s.log.Configure(cfg)
	if start, err := s.log.Retain(2); err != nil || start != 0 {
		t.Fatalf("retained above the high watermark: %d, %v", start, err)
	}
	start, err := s.log.Retain(90)
	must(t, err)
	if left := s.log.SizeBytes(); left < size/2 || left > size/2+600 || start == 0 {
		t.Fatalf("%d of %d bytes left, start %d", left, size, start)
	}
	if s.fileCount() != len(s.log.segments) || s.log.segments[0].base != start {
		t.Fatalf("%d files for %d segments from %d", s.fileCount(), len(s.log.segments), s.log.segments[0].base)
	}
	var outside *OffsetOutOfRangeError
	if _, err := s.log.Read(start-1, 90, 1, nil); !errors.As(err, &outside) || outside.Start != start {
		t.Fatalf("read below the start: %v", err)
	}
	s.expect(90, none)
	s.kill()
	s.loseIndex() // then the first file tells the start
	s.open()
	if s.log.StartOffset() != start {
		t.Fatalf("start %d after the restart, want %d", s.log.StartOffset(), start)
	}
	s.expect(90, none)
}

// TestH28_RetainByAge: age counts from the append by the broker's clock; what
// clients say about time is of no account.
func TestH28_RetainByAge(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	dir := t.TempDir()
	s := openTestStore(t, dir, func(o *Options) { o.Now = func() time.Time { return now } })
	l := openTestLog(t, s, LogConfig{SegmentBytes: 400, RetentionAge: time.Hour})
	for i, stamp := range []int64{0, 1, 253_402_300_799_999, 1_700_000_000, 5} {
		mustAppend(t, l, makeBatch(t, CompressionNone, i, 1, 200, func(int) int64 { return stamp }))
		now = now.Add(10 * time.Minute)
	}
	if start, err := l.Retain(5); err != nil || start != 0 {
		t.Fatalf("young records gone: %d, %v", start, err)
	}
	now = now.Add(25 * time.Minute) // the first is 75 minutes old now, the second 65
	if start, err := l.Retain(5); err != nil || start != 2 {
		t.Fatalf("start %d, %v, want 2", start, err)
	}
	must(t, s.Close())
	s = openTestStore(t, dir, func(o *Options) { o.Now = func() time.Time { return now } })
	l = openTestLog(t, s, LogConfig{SegmentBytes: 400, RetentionAge: time.Hour})
	if start, err := l.Retain(5); err != nil || start != 2 {
		t.Fatalf("after a restart: start %d, %v, want 2", start, err)
	}
	now = now.Add(time.Hour)
	if start, err := l.Retain(4); err != nil || start != 4 {
		t.Fatalf("start %d, %v, want the high watermark's segment to stay", start, err)
	}
	if start, err := l.Retain(5); err != nil || start != 5 {
		t.Fatalf("start %d, %v, want all gone, the active segment too", start, err)
	}
	if l.SizeBytes() != 0 || l.StagedEnd() != 5 {
		t.Fatalf("%d bytes, next offset %d", l.SizeBytes(), l.StagedEnd())
	}
	mustAppend(t, l, makeBatch(t, CompressionNone, 5, 1, 5, steady))
	must(t, s.Close())
	files, err := os.ReadDir(l.dir)
	must(t, err)
	if len(files) != 1 || files[0].Name() != segmentName(5) {
		t.Fatalf("files %v", files)
	}
}

func TestRollByAge(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	s := openTestStore(t, t.TempDir(), func(o *Options) { o.Now = func() time.Time { return now } })
	defer func() { must(t, s.Close()) }()
	l := openTestLog(t, s, LogConfig{SegmentAge: time.Minute})
	for i := range 10 {
		mustAppend(t, l, makeBatch(t, CompressionNone, i, 1, 5, steady))
		now = now.Add(25 * time.Second)
	}
	var bases []int64
	for _, seg := range l.segments {
		bases = append(bases, seg.base)
	}
	if !slices.Equal(bases, []int64{0, 3, 6, 9}) {
		t.Fatalf("segments begin at %v", bases)
	}
}

func TestAdvanceStart(t *testing.T) {
	s := newMemStore(t, LogConfig{SegmentBytes: 600})
	s.batches(10, 3)
	for _, to := range []int64{0, 1, 1, 14, 29} {
		must(t, s.log.AdvanceStart(to))
		if s.log.StartOffset() != to {
			t.Fatalf("start %d, want %d", s.log.StartOffset(), to)
		}
		s.expect(30, none)
		s.kill()
		s.open()
		s.expect(30, none)
	}
	must(t, s.log.AdvanceStart(7)) // it never goes back (R89)
	if s.log.StartOffset() != 29 {
		t.Fatalf("start %d", s.log.StartOffset())
	}
	var outside *OffsetOutOfRangeError
	if err := s.log.AdvanceStart(31); !errors.As(err, &outside) {
		t.Fatalf("beyond the end: %v", err)
	}
	must(t, s.log.AdvanceStart(30))
	if s.log.SizeBytes() != 0 || s.fileCount() != 1 {
		t.Fatalf("%d bytes in %d files after deleting all", s.log.SizeBytes(), s.fileCount())
	}
	s.kill()
	s.loseIndex()
	s.open()
	if s.log.StartOffset() != 30 || s.log.StagedEnd() != 30 {
		t.Fatalf("log [%d, %d)", s.log.StartOffset(), s.log.StagedEnd())
	}
	s.batches(2, 2)
	s.expect(34, none)
}

func TestTruncateTo(t *testing.T) { // R36, R40
	for to := int64(0); to <= 30; to++ {
		s := newMemStore(t, LogConfig{SegmentBytes: 600})
		must(t, s.log.BeginEpoch(1))
		s.batches(5, 3)
		must(t, s.log.BeginEpoch(3))
		s.batches(5, 3)
		must(t, s.log.BeginEpoch(4)) // without records
		want := to / 3 * 3
		for range 2 {
			end, err := s.log.TruncateTo(to)
			if err != nil || end != want {
				t.Fatalf("truncated to %d: %d, %v", to, end, err)
			}
			s.expect(want, none)
			var epochs []EpochEntry
			for _, e := range []EpochEntry{{1, 0}, {3, 15}} {
				if e.StartOffset < want {
					epochs = append(epochs, e)
				}
			}
			if got := s.log.Epochs(); !slices.Equal(got, epochs) {
				t.Fatalf("epochs %v after truncation to %d, want %v", got, to, epochs)
			}
			s.kill()
			s.open()
		}
		s.batches(3, 2)
		s.expect(want+6, none)
		s.kill()
		s.loseIndex()
		s.open()
		s.expect(want+6, none)
	}
}

func TestResetTo(t *testing.T) { // R90
	for crash := 0; crash < 30; crash++ {
		s := newMemStore(t, LogConfig{SegmentBytes: 600})
		s.batches(6, 3)
		if crash > 0 {
			s.fs.CrashAt(crash)
		}
		err := s.log.ResetTo(1000)
		if crash == 0 {
			must(t, err)
		}
		if s.fs.Crashed() {
			s.ix.current = cloneIndexed(s.ix.durable)
		}
		s.kill()
		s.open()
		start, end := s.log.StartOffset(), s.log.StagedEnd()
		if !(start == 1000 && end == 1000) && !(err != nil && start == 0 && end == 18) {
			t.Fatalf("crash at operation %d: log [%d, %d), %v", crash, start, end, err)
		}
		if s.log.Lossy() || start == 1000 && s.fileCount() != 1 {
			t.Fatalf("crash at operation %d: lossy %v, %d files", crash, s.log.Lossy(), s.fileCount())
		}
	}
}

// TestEpochsSurvive: an epoch without records survives a restart (R50), and is
// durable before the first record of it is written (R49).
func TestEpochsSurvive(t *testing.T) {
	s := newMemStore(t, LogConfig{})
	must(t, s.log.BeginEpoch(5))
	must(t, s.log.BeginEpoch(5))
	must(t, s.log.BeginEpoch(4))
	s.batches(2, 2)
	must(t, s.log.BeginEpoch(7))
	must(t, s.ix.flush())
	want := []EpochEntry{{5, 0}, {7, 4}}
	for range 2 {
		if got := s.log.Epochs(); !slices.Equal(got, want) {
			t.Fatalf("epochs %v, want %v", got, want)
		}
		s.kill()
		s.open()
	}
	must(t, s.log.BeginEpoch(9)) // 7 had no records
	st, err := s.log.Stage([]Batch{makeBatch(t, CompressionNone, 4, 1, 1, steady)}, 9)
	must(t, err)
	must(t, s.log.Write(st))
	if got := s.ix.durable[testID].meta.Epochs; !slices.Equal(got, []EpochEntry{{5, 0}, {9, 4}}) {
		t.Fatalf("epochs on disk %v when the first record is written", got)
	}
}

// TestF50_HandlesAreBounded: ten times more segments than handles can be read, and
// running out of descriptors closes idle ones and goes on (F50).
func TestF50_HandlesAreBounded(t *testing.T) {
	s := newMemStore(t, LogConfig{SegmentBytes: 1})
	n := maxIdleHandles + 50
	for i := range n {
		mustAppend(t, s.log, makeBatch(t, CompressionNone, i, 1, 1, steady))
	}
	s.expect(int64(n), none)
	if got := s.d.files.count; got > maxIdleHandles {
		t.Fatalf("%d idle handles", got)
	}
	s.fs.SetFault(nil)
	tight := &tightFS{Mem: s.fs, left: 0}
	s.d.files.fs = tight
	s.expect(int64(n), none)
	if tight.refused == 0 {
		t.Fatal("no open was refused")
	}
}

// tightFS refuses every other open for want of descriptors.
type tightFS struct {
	*vfs.Mem
	left, refused int
}

func (f *tightFS) Open(name string, flag int) (vfs.File, error) {
	if f.left = 1 - f.left; f.left == 1 {
		f.refused++
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
	}
	return f.Mem.Open(name, flag)
}
