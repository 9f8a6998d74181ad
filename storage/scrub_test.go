package storage_test

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"highwater/storage"
	"highwater/storage/vfs"
)

// TestS8_ScrubFindsWhatNobodyReads: a bit that flips in a closed segment is found
// without a reader, counted, and the scrub reads each segment once a
// week, slowly.
func TestS8_ScrubFindsWhatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem(rand.New(rand.NewPCG(1, 1)))
		var ahead atomic.Int64 // the broker's clock: days of ticks would take long
		s, err := storage.Open(storage.Options{Dir: "/data", FS: fs, Fsync: storage.FsyncCommit, Logger: zerolog.Nop(),
			Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
		if err != nil {
			t.Fatal(err)
		}
		pass := func(d time.Duration) {
			ahead.Add(int64(d))
			time.Sleep(2 * time.Minute)
		}
		t.Cleanup(func() { _ = s.Close() })
		stop := runStore(t, s)
		l, other := mustOpenLog(t, s, partition(1)), mustOpenLog(t, s, partition(2))
		appendRecords(t, l, 0, 2000)
		appendRecords(t, other, 0, 2000)
		var segments []string
		for _, name := range fs.Files() {
			if strings.Contains(name, partition(1).String()) {
				segments = append(segments, name)
			}
		}
		closed := func() (bytes int64) {
			for _, id := range []storage.PartitionID{partition(1), partition(2)} {
				var names []string
				for _, name := range fs.Files() {
					if strings.Contains(name, id.String()) {
						names = append(names, name)
					}
				}
				for _, name := range names[:len(names)-1] {
					bytes += int64(len(fs.Content(name)))
				}
			}
			return bytes
		}
		pass(30 * time.Minute)
		if read := s.Stats().ScrubbedBytes; read != 0 {
			t.Fatalf("%d bytes read of segments that are half an hour old", read)
		}
		pass(time.Hour)
		if read := s.Stats().ScrubbedBytes; read != closed() || l.Lossy() || other.Lossy() {
			t.Fatalf("%d bytes read, the closed segments have %d", read, closed())
		}
		flip := segments[1]
		data := fs.Content(flip)
		data[len(data)/2] ^= 8
		fs.SetContent(flip, data)
		pass(6 * 24 * time.Hour)
		if read := s.Stats().ScrubbedBytes; read != closed() {
			t.Fatalf("%d bytes read within a week", read)
		}
		pass(24 * time.Hour)
		damage := l.Damage()
		if len(damage) != 1 || s.Stats().DamagedRanges != 1 || !l.Lossy() || other.Lossy() {
			t.Fatalf("damage %v, of the other log %v", damage, other.Damage())
		}
		pass(30 * 24 * time.Hour)
		if again := l.Damage(); !slices.Equal(again, damage) {
			t.Errorf("damage %v, was %v", again, damage)
		}
		for n := range int64(2000) {
			_, err := readRecord(l, n)
			var corrupt *storage.CorruptError
			if lost := n >= damage[0].From && n < damage[0].To; lost != errors.As(err, &corrupt) || !lost && err != nil {
				t.Fatalf("offset %d: %v", n, err)
			}
		}
		if copies := slices.DeleteFunc(fs.Files(), func(n string) bool { return filepath.Dir(n) != "/data/quarantine" }); len(copies) != 1 {
			t.Errorf("quarantine holds %v", copies)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestS8_ScrubEndsWithTheStore in the middle of a segment, and takes no half-read
// one for damaged.
func TestS8_ScrubEndsWithTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem(rand.New(rand.NewPCG(1, 1)))
		s, err := storage.Open(storage.Options{Dir: "/data", FS: fs, Fsync: storage.FsyncCommit, Logger: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		l := mustOpenLog(t, s, partition(1))
		appendRecords(t, l, 0, 8000)
		stop := runStore(t, s)
		time.Sleep(time.Hour) // to the tick with which the scrub begins
		for s.Stats().ScrubbedBytes < 100_000 {
			time.Sleep(time.Millisecond)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if l.Lossy() {
			t.Errorf("damage %v", l.Damage())
		}
		closeStore(t, s)
	})
}
