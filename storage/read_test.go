package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// TestH46_EveryOffset asks for every offset of logs with segments of 1 KB, also
// after the index was lost in every way (H42).
func TestH46_EveryOffset(t *testing.T) {
	for _, v := range []struct {
		k int
		c Compression
	}{{1, CompressionNone}, {7, CompressionNone}, {100, CompressionNone}, {7, CompressionGzip}, {100, CompressionZstd}} {
		t.Run(fmt.Sprintf("batches of %d, %v", v.k, v.c), func(t *testing.T) { everyOffset(t, v.k, v.c) })
	}
}

func everyOffset(t *testing.T, k int, c Compression) {
	const total = 600
	dir := t.TempDir()
	cfg := LogConfig{SegmentBytes: 1024}
	index := filepath.Join(dir, indexFileName)
	open := func() (*Store, *Log) {
		s := openTestStore(t, dir, func(o *Options) { o.Fsync = FsyncNever })
		return s, openTestLog(t, s, cfg)
	}
	s, l := open()
	var old []byte
	for n := 0; n < total; n += k {
		st, err := l.Stage([]Batch{makeBatch(t, c, n, min(k, total-n), n%97, steady)}, 1)
		if err == nil {
			err = l.Write(st)
		}
		if err != nil {
			t.Fatal(err)
		}
		if n >= total/2 && old == nil { // a copy taken in between, as a backup does
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if old, err = os.ReadFile(index); err != nil {
				t.Fatal(err)
			}
			s, l = open()
		}
	}
	check := func(when string) {
		t.Helper()
		if lost := strings.HasPrefix(when, "index ") && !strings.Contains(when, "half"); l.WrittenEnd() != total || l.StartOffset() != 0 || l.Lossy() != lost {
			t.Fatalf("%s: log is [%d, %d), lossy %v", when, l.StartOffset(), l.WrittenEnd(), l.Lossy())
		}
		buf := make([]byte, 0, 64)
		for o := int64(0); o < total; o++ {
			res, err := l.Read(o, total, 1, buf)
			if err != nil {
				t.Fatalf("%s: read at %d: %v", when, o, err)
			}
			found := 0
			for _, r := range decodeAll(t, res.Data) {
				if r.Offset == o && number(t, r) == int(o) {
					found++
				}
			}
			if found != 1 {
				t.Fatalf("%s: read at %d returned it %d times", when, o, found)
			}
			buf = res.Data
		}
		if res, err := l.Read(total, total, 1, nil); err != nil || len(res.Data) != 0 {
			t.Fatalf("%s: read at the end: %d bytes, %v", when, len(res.Data), err)
		}
		var outside *OffsetOutOfRangeError
		if _, err := l.Read(total+1, total+1, 1, nil); !errors.As(err, &outside) || outside.Start != 0 || outside.End != total {
			t.Fatalf("%s: read beyond the end: %v", when, err)
		}
	}
	check("as written")
	defer func() { must(t, s.Close()) }()
	for when, damage := range map[string]func(){
		"restarted":     func() {},
		"index deleted": func() { must(t, os.Remove(index)) },
		"index empty":   func() { must(t, os.Truncate(index, 0)) },
		"index zeroed": func() {
			info, err := os.Stat(index)
			must(t, err)
			must(t, os.WriteFile(index, make([]byte, info.Size()), 0o640))
		},
		"index cut in half": func() {
			info, err := os.Stat(index)
			must(t, err)
			must(t, os.Truncate(index, info.Size()/2))
		},
		"index older": func() { must(t, os.WriteFile(index, old, 0o640)) },
	} {
		must(t, s.Close())
		damage()
		s, l = open()
		check(when)
		check(when + ", again")
		_, err := s.Held(t.Context())
		must(t, err)
		s.SetBrokerEpoch(1)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestF44_WrongIndexEntries fills the index with lies: each is checked against the
// segment and passed over.
func TestF44_WrongIndexEntries(t *testing.T) {
	s := newMemStore(t, LogConfig{SegmentBytes: 40_000})
	s.batches(300, 3)
	have := s.ix.current[testID].offsets
	for shift := int64(-70); shift <= 70; shift += 7 {
		for i := range have {
			e := have[i]
			e.Position = max(e.Position+shift, 0)
			s.ix.current[testID].offsets[i] = e
		}
		s.expect(900, none)
	}
	for i := range have {
		have[i].Segment = 0
	}
	s.expect(900, none)
	if s.log.Lossy() {
		t.Fatal("a wrong index was taken for damage")
	}
}

// TestReadLimits: whole batches, as many as fit, none at or above the limit.
func TestReadLimits(t *testing.T) {
	s := newMemStore(t, LogConfig{SegmentBytes: 3000})
	s.batches(20, 5)
	size := int(s.log.SizeBytes())
	for _, maxBytes := range []int{0, 1, 500, 1000, 2999, 10000, size, 1 << 30} {
		for limit := int64(0); limit <= 100; limit += 5 {
			for o := int64(0); o <= limit; o++ {
				res, err := s.log.Read(o, limit, maxBytes, nil)
				must(t, err)
				if o == limit {
					if len(res.Data) != 0 {
						t.Fatalf("read at the limit %d returned data", o)
					}
					continue
				}
				got := decodeAll(t, res.Data)
				first, last := got[0].Offset, got[len(got)-1].Offset
				if first > o || first+5 <= o || last >= limit {
					t.Fatalf("read of [%d, %d) returned [%d, %d]", o, limit, first, last)
				}
				if len(res.Data) > maxBytes && len(got) > 5 {
					t.Fatalf("%d bytes in more than one batch, asked for %d", len(res.Data), maxBytes)
				}
				if maxBytes == 1<<30 && last != limit-1 {
					t.Fatalf("read of [%d, %d) without a bound ended at %d", o, limit, last)
				}
			}
		}
	}
}

// TestH44_OffsetForTimestamp: the first record at or after a time.
func TestH44_OffsetForTimestamp(t *testing.T) {
	now := time.UnixMilli(10_000)
	s := openTestStore(t, t.TempDir(), func(o *Options) { o.Now = func() time.Time { return now } })
	defer func() { must(t, s.Close()) }()
	l := openTestLog(t, s, LogConfig{SegmentBytes: 300, RetentionAge: time.Hour})
	ask := func(ms, wantOffset int64, wantFound bool) {
		t.Helper()
		o, found, err := l.OffsetForTimestamp(ms, l.WrittenEnd())
		if err != nil || found != wantFound || found && o != wantOffset {
			t.Fatalf("offset at %d: %d %v %v, want %d %v", ms, o, found, err, wantOffset, wantFound)
		}
	}
	ask(0, 0, false)
	for i := range 4 {
		mustAppend(t, l, makeBatch(t, CompressionNone, i, 1, 10, func(int) int64 { return 1010 + int64(i)*10 }))
	}
	for ms, want := range map[int64]int64{1005: 0, 1010: 0, 1011: 1, 1030: 2, 1040: 3, -1: 0} {
		ask(ms, want, true)
	}
	ask(1041, 0, false)
	now = now.Add(2 * time.Hour)
	if start, err := l.Retain(l.DurableEnd()); err != nil || start != 4 {
		t.Fatalf("retained from %d, %v", start, err)
	}
	ask(1005, 0, false)
	must(t, s.Close())
	s = openTestStore(t, s.opts.Dir)
	l = openTestLog(t, s, LogConfig{})
	if l.StartOffset() != 4 || l.StagedEnd() != 4 {
		t.Fatalf("log is [%d, %d) after the restart", l.StartOffset(), l.StagedEnd())
	}
	ask(1005, 0, false)
}

// TestOffsetForTimestampOutOfOrder compares with a scan over all records, for
// timestamps in any order, over segments, with limits and a moved start.
func TestOffsetForTimestampOutOfOrder(t *testing.T) {
	wild := func(i int) int64 { return int64(i*7919%1000) * 10 }
	for _, c := range []Compression{CompressionNone, CompressionZstd} {
		s := newMemStore(t, LogConfig{SegmentBytes: 5000})
		for n := 0; n < 400; n += 4 {
			mustAppend(t, s.log, makeBatch(t, c, n, 4, 150, wild))
		}
		check := func() {
			t.Helper()
			start := s.log.StartOffset()
			for ms := int64(-5); ms < 10_010; ms += 35 {
				for _, limit := range []int64{400, 397, 123} {
					want, wantFound := int64(0), false
					for o := start; o < limit && !wantFound; o++ {
						if wild(int(o)) >= ms {
							want, wantFound = o, true
						}
					}
					got, found, err := s.log.OffsetForTimestamp(ms, limit)
					if err != nil || found != wantFound || found && got != want {
						t.Fatalf("offset at %d below %d, start %d: %d %v %v, want %d %v", ms, limit, start, got, found, err, want, wantFound)
					}
				}
			}
		}
		check()
		must(t, s.log.AdvanceStart(61))
		check()
		s.kill()
		s.open()
		check()
		s.kill()
		s.loseIndex()
		s.open()
		must(t, s.log.AdvanceStart(61))
		check()
	}
}

// TestStrangeFilesAreLeftAlone: a file that isn't a segment is neither read nor
// removed.
func TestStrangeFilesAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, dir)
	l := openTestLog(t, s, LogConfig{})
	mustAppend(t, l, makeBatch(t, CompressionNone, 0, 3, 5, steady))
	must(t, s.Close())
	names := []string{"00000000000000000001.log.bak", "1.log", "notes.txt", "-0000000000000000001.log", "00000000000000000003.index"}
	for _, name := range names {
		must(t, os.WriteFile(filepath.Join(l.dir, name), []byte("mine"), 0o600))
	}
	s = openTestStore(t, dir, func(o *Options) { o.Logger = zerolog.Nop() })
	l = openTestLog(t, s, LogConfig{})
	if got := readAll(t, l, 0, 1000); len(got) != 3 || l.Lossy() {
		t.Fatalf("%d records", len(got))
	}
	must(t, s.Close())
	for _, name := range names {
		if b, err := os.ReadFile(filepath.Join(l.dir, name)); err != nil || string(b) != "mine" {
			t.Fatalf("%s: %q %v", name, b, err)
		}
	}
}
