package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"highwater/storage/vfs"
)

// memStore is a log on a memFS with an index of its own.
type memStore struct {
	t   testing.TB
	fs  *vfs.Mem
	ix  *memIndex
	cfg LogConfig
	log *Log
	d   *disk
	// indexLost since the last open
	indexLost bool
	// failures that reached the store
	failures []error
}

// newMemFS is a file system with an empty data directory.
func newMemFS(seed uint64) *vfs.Mem {
	return vfs.NewMem(rand.New(rand.NewPCG(seed, seed)), "/d", "/d/partitions")
}

// newMemIndex is an index that a crash of the file system stops too.
func newMemIndex(fs *vfs.Mem) *memIndex { return newMemoryIndex(stepOn(fs)) }

func stepOn(fs *vfs.Mem) func(map[PartitionID]*memIndexed) error {
	return func(map[PartitionID]*memIndexed) error { return fs.Step("index", "") }
}

func newMemStore(t testing.TB, cfg LogConfig) *memStore {
	s := &memStore{t: t, cfg: cfg, fs: newMemFS(7)}
	s.ix = newMemIndex(s.fs)
	s.open()
	return s
}

func (s *memStore) tryOpen() (err error) {
	s.d = newDisk(s.fs, "/d", s.ix, Options{Fsync: FsyncCommit, Now: func() time.Time { return time.UnixMilli(1_000_000) }, Logger: zerolog.Nop()})
	s.d.indexLost, s.indexLost = s.indexLost, false
	s.d.failed = func(err error) { s.failures = append(s.failures, err) }
	s.log, err = openLog(s.d, testID, s.cfg, nil)
	return err
}

func (s *memStore) open() {
	s.t.Helper()
	if err := s.tryOpen(); err != nil {
		s.t.Fatal(err)
	}
}

// kill ends the process without a close; the machine and the index stay.
func (s *memStore) kill() {
	s.log.discard()
	s.fs = s.fs.Crash(vfs.CrashKeepsAll)
	s.ix.save = stepOn(s.fs)
}

func (s *memStore) loseIndex() { s.ix, s.indexLost = newMemIndex(s.fs), true }

func (s *memStore) path(base int64) string {
	return filepath.Join("/d/partitions", testID.String(), segmentName(base))
}

// edit changes a segment's bytes behind the log's back.
func (s *memStore) edit(base int64, change func([]byte) []byte) {
	s.fs.SetContent(s.path(base), change(s.fs.Content(s.path(base))))
}

// batches appends n batches of k records each.
func (s *memStore) batches(n, k int) {
	for i := range n {
		mustAppend(s.t, s.log, makeBatch(s.t, CompressionNone, int(s.log.StagedEnd()), k, 10+i, steady))
	}
}

// expect reads every offset in [0, end) and wants exactly those in lost to be
// refused as corrupt.
func (s *memStore) expect(end int64, lost func(offset int64) bool) {
	s.t.Helper()
	if got := s.log.WrittenEnd(); got != end {
		s.t.Fatalf("the log ends at %d, want %d", got, end)
	}
	for o := s.log.StartOffset(); o < end; o++ {
		res, err := s.log.Read(o, end, 1, nil)
		var corrupt *CorruptError
		switch {
		case lost(o):
			if !errors.As(err, &corrupt) {
				s.t.Fatalf("read at %d, which is damaged: %d bytes, %v", o, len(res.Data), err)
			}
		case err != nil:
			s.t.Fatalf("read at %d: %v", o, err)
		default:
			found := false
			for _, r := range decodeAll(s.t, res.Data) {
				if r.Offset == o {
					found = number(s.t, r) == int(o)
				}
			}
			if !found {
				s.t.Fatalf("read at %d doesn't return it", o)
			}
		}
	}
}

func none(int64) bool { return false }

func within(from, to int64) func(int64) bool {
	return func(o int64) bool { return o >= from && o < to }
}

// batchStart is where the i-th batch begins in a segment's bytes.
func batchStart(t testing.TB, data []byte, i int) int {
	pos := 0
	for ; i > 0; i-- {
		size, err := batchSize(data[pos:])
		if err != nil {
			t.Fatal(err)
		}
		pos += size
	}
	return pos
}

// TestF41_TornTail cuts the last segment at every byte: what is whole stays, the
// rest goes, and the next append continues there.
func TestF41_TornTail(t *testing.T) {
	s := newMemStore(t, LogConfig{})
	s.batches(4, 3)
	s.kill()
	whole := s.fs.Content(s.path(0))
	for cut := 0; cut < len(whole); cut++ {
		s.loseIndex()
		s.edit(0, func([]byte) []byte { return slices.Clone(whole[:cut]) })
		end := int64(0)
		for end < 12 && batchStart(t, whole, int(end/3)+1) <= cut {
			end += 3
		}
		s.open()
		s.expect(end, none)
		if len(s.log.damage) > 0 || !s.log.Lossy() { // without the index, who knows
			t.Fatalf("cut at %d: lossy %v, damage %v", cut, s.log.Lossy(), s.log.damage)
		}
		s.batches(1, 2)
		s.expect(end+2, none)
		s.kill()
		if got := s.fs.Content(s.path(0)); !bytes.HasPrefix(whole, got[:batchStart(t, whole, int(end/3))]) {
			t.Fatalf("cut at %d: the log's begin changed", cut)
		}
	}
}

// TestF42_BitFlips flips one bit in every byte of a log of three segments, of
// which the index is lost: only the batch that holds it is lost, and if it is the
// very last one it can't be told from a torn tail (S6).
func TestF42_BitFlips(t *testing.T) {
	cfg := LogConfig{SegmentBytes: 700}
	s := newMemStore(t, cfg)
	s.batches(9, 2)
	bases := []int64{}
	for _, seg := range s.log.segments {
		bases = append(bases, seg.base)
	}
	if len(bases) < 3 {
		t.Fatalf("segments %v", bases)
	}
	s.kill()
	for i, base := range bases {
		next := int64(18)
		if i+1 < len(bases) {
			next = bases[i+1]
		}
		whole := s.fs.Content(s.path(base))
		for at := range whole {
			s.loseIndex()
			s.edit(base, func([]byte) []byte {
				b := slices.Clone(whole)
				b[at] ^= 1 << (at % 8)
				return b
			})
			k := 0
			for batchStart(t, whole, k+1) <= at && base+int64(k+1)*2 < next {
				k++
			}
			from := base + int64(k)*2
			last := next == 18 && from == 16
			inBatch := at - batchStart(t, whole, k)
			uncovered := inBatch >= offLeaderEpoch && inBatch < offMagic // no CRC covers it
			if err := s.tryOpen(); err != nil {
				t.Fatalf("segment %d byte %d: %v", base, at, err)
			}
			switch {
			case uncovered:
				s.expect(18, none)
			case last:
				s.expect(16, none)
			default:
				s.expect(18, within(from, from+2))
				if !s.log.Lossy() {
					t.Fatal("not lossy")
				}
			}
			s.kill()
			for _, name := range s.fs.Files() { // what the recovery made
				if seg, ok := parseSegmentName(filepath.Base(name)); ok && !slices.Contains(bases, seg) {
					s.fs.SetContent(name, nil)
				}
			}
			s.edit(base, func([]byte) []byte { return slices.Clone(whole) })
		}
	}
}

// TestF42_MiddleDamage damages a batch in the middle in ways that a header can't
// help with, above and below what is known to be flushed.
func TestF42_MiddleDamage(t *testing.T) {
	garbage := func(n int) []byte { return bytes.Repeat([]byte{0xa5}, n) }
	cases := []struct {
		name   string
		change func(data []byte, from, to int) []byte
		// lost is relative to the damaged batch [4, 6) of 12 offsets.
		lostFrom, lostTo int64
		// torn: without an index, that says what was flushed, it looks like a crash.
		torn bool
	}{
		{"overwritten", func(d []byte, a, b int) []byte { copy(d[a:b], garbage(b-a)); return d }, 4, 6, false},
		{"header overwritten", func(d []byte, a, b int) []byte { copy(d[a:a+BatchHeaderSize], garbage(BatchHeaderSize)); return d }, 4, 6, false},
		{"length says too much", func(d []byte, a, b int) []byte {
			binary.BigEndian.PutUint32(d[a+offBatchLength:], 1<<20)
			return d
		}, 4, 6, false},
		{"cut out", func(d []byte, a, b int) []byte { return slices.Delete(d, a, b) }, 4, 6, false},
		{"half cut out", func(d []byte, a, b int) []byte { return slices.Delete(d, a+30, b) }, 4, 6, false},
		{"bytes put between", func(d []byte, a, b int) []byte { return slices.Insert(d, a, garbage(99)...) }, 4, 4, false},
		{"repeated", func(d []byte, a, b int) []byte { return slices.Insert(d, b, d[a:b]...) }, 6, 6, false},
	}
	for _, c := range cases {
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/index known %v", c.name, known), func(t *testing.T) {
				s := newMemStore(t, LogConfig{})
				s.batches(6, 2)
				s.log.checkpoint()
				s.kill()
				if !known {
					s.loseIndex()
				}
				s.edit(0, func(d []byte) []byte { return c.change(d, batchStart(t, d, 2), batchStart(t, d, 3)) })
				for range 2 { // and it stays so
					s.open()
					s.expect(12, within(c.lostFrom, c.lostTo))
					if !s.log.Lossy() {
						t.Fatal("not lossy")
					}
					if c.name != "cut out" && s.copies() == 0 {
						t.Fatal("nothing in quarantine")
					}
					s.kill()
				}
				s.open()
				s.batches(2, 2)
				s.expect(16, within(c.lostFrom, c.lostTo))
			})
		}
	}
}

// copies counts the files in quarantine.
func (s *memStore) copies() (n int) {
	for _, name := range s.fs.Files() {
		if filepath.Dir(name) == "/d/quarantine" {
			n++
		}
	}
	return n
}

// TestF42_FoundByReading damages a closed segment and the active one while the
// log is open: reads before and behind the place work at once.
func TestF42_FoundByReading(t *testing.T) {
	for _, base := range []int64{0, 12} {
		s := newMemStore(t, LogConfig{SegmentBytes: 1500})
		for s.log.WrittenEnd() < 24 {
			s.batches(1, 2)
			if s.log.WrittenEnd() == 12 {
				if err := s.log.maintain(s.log.rollNow); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.edit(base, func(d []byte) []byte {
			copy(d[batchStart(t, d, 2):], bytes.Repeat([]byte{0xa5}, 100))
			return d
		})
		s.expect(24, within(base+4, base+6))
		if !s.log.Lossy() {
			t.Fatal("not lossy")
		}
		_, _, err := s.log.OffsetForTimestamp(steady(int(base)+5), 24)
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) {
			t.Fatalf("offset for a timestamp that may be in the damage: %v", err)
		}
		s.kill()
		s.open()
		s.expect(24, within(base+4, base+6))
	}
}

// TestS6_FlushedOffsetsAreNeverGivenOutAgain removes files that the index knows
// to be flushed.
func TestS6_FlushedOffsetsAreNeverGivenOutAgain(t *testing.T) {
	t.Run("cut below the flushed offset", func(t *testing.T) {
		s := newMemStore(t, LogConfig{})
		s.batches(6, 2)
		s.log.checkpoint()
		s.kill()
		s.edit(0, func(d []byte) []byte { return d[:batchStart(t, d, 4)-5] })
		s.open()
		s.expect(12, within(6, 12))
		s.batches(1, 2)
		s.expect(14, within(6, 12))
	})
	t.Run("all files gone", func(t *testing.T) {
		s := newMemStore(t, LogConfig{SegmentBytes: 500})
		s.batches(6, 2)
		s.log.checkpoint()
		s.kill()
		for _, name := range s.fs.Files() {
			if _, ok := parseSegmentName(filepath.Base(name)); ok {
				s.fs.SetContent(name, nil)
			}
		}
		s.open()
		if s.log.StagedEnd() != 12 || !s.log.Lossy() {
			t.Fatalf("the log goes on at %d, want 12", s.log.StagedEnd())
		}
	})
	t.Run("a file in the middle gone", func(t *testing.T) {
		s := newMemStore(t, LogConfig{SegmentBytes: 400})
		s.batches(6, 2)
		from, to := s.log.segments[1].base, s.log.segments[2].base
		s.kill()
		s.fs.SetContent(s.path(from), nil)
		for range 2 {
			s.open()
			s.expect(12, within(from, to))
			s.kill()
			s.loseIndex()
		}
	})
}

// TestUnreadablePage: a page that gives EIO is damage like any other.
func TestUnreadablePage(t *testing.T) {
	s := newMemStore(t, LogConfig{SegmentBytes: 400})
	s.batches(6, 2)
	s.fs.SetFault(func(op, name string) error {
		if op == "read" && name == s.path(s.log.segments[1].base) {
			return syscall.EIO
		}
		return nil
	})
	from, to := s.log.segments[1].base, s.log.segments[2].base
	s.expect(12, within(from, to))
}
