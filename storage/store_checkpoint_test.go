package storage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"go.etcd.io/bbolt"
)

// TestH43_HighWatermarkEmptyOrGarbage writes what H43 names into the index file,
// as bytes that are no checkpoint and as checkpoints with a right checksum.
func TestH43_HighWatermarkEmptyOrGarbage(t *testing.T) {
	id := PartitionID{Topic: uuid.New(), Partition: 1}
	const records = 50
	whole := t.TempDir()
	s, l := openOne(t, whole, id)
	for n := range records {
		if err := appendValue(l, fmt.Appendf(nil, "%d", n)); err != nil {
			t.Fatal(err)
		}
	}
	l.CheckpointHighWatermark(records - 3)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	stored := func(hw, flushed, start int64) func(key, value []byte) []byte {
		return func(key, value []byte) []byte {
			m, err := parseMeta(key, value)
			if err != nil {
				t.Fatal(err)
			}
			m.HighWatermark, m.Flushed, m.Start = hw, flushed, start
			return appendMeta(nil, key, &m)
		}
	}
	raw := func(s string) func(key, value []byte) []byte {
		return func(_, _ []byte) []byte { return []byte(s) }
	}
	for name, change := range map[string]func(key, value []byte) []byte{
		"as written":                   stored(records-3, records, 0),
		"empty":                        raw(""),
		"abc":                          raw("abc"),
		"-5 in text":                   raw("-5"),
		"-5":                           stored(-5, records, 0),
		"10^18":                        stored(1e18, records, 0),
		"the largest":                  stored(maxInt64, records, 0),
		"the smallest":                 stored(-maxInt64-1, records, 0),
		"flushed offset negative":      stored(7, -5, 0),
		"flushed offset behind":        stored(7, 3, 0),
		"high watermark below start":   stored(0, records, 0),
		"all negative":                 stored(-1, -1, -1),
		"log start in the middle":      stored(30, records, 20),
		"high watermark behind starts": stored(10, records, 20),
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			changeStoredMeta(t, dir, id, change)
			s, l := openOne(t, dir, id)
			hw, start, end := l.CheckpointedHighWatermark(), l.StartOffset(), l.WrittenEnd()
			if hw < start || hw > end || end != records || start < 0 {
				t.Fatalf("high watermark %d of [%d, %d)", hw, start, end)
			}
			if name == "as written" && hw != records-3 {
				t.Fatalf("high watermark is %d", hw)
			}
			for n := start; n < end; n++ {
				res, err := l.Read(n, end, 1, nil)
				if err != nil || len(res.Data) == 0 || Batch(res.Data).BaseOffset() != n {
					t.Fatalf("offset %d: %d bytes, %v", n, len(res.Data), err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func openOne(t *testing.T, dir string, id PartitionID) (*Store, *Log) {
	t.Helper()
	s, err := Open(Options{Dir: dir, Fsync: FsyncCommit, Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	l, err := s.OpenLog(id, LogConfig{SegmentBytes: 1024, RetentionBytes: -1, RetentionAge: -1}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	return s, l
}

// changeStoredMeta replaces a log's meta in a closed index file.
func changeStoredMeta(t *testing.T, dir string, id PartitionID, change func(key, value []byte) []byte) {
	t.Helper()
	db, err := openBolt(filepath.Join(dir, indexFileName))
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		key := appendLogKey(nil, id)
		value := tx.Bucket(bucketMeta).Get(key)
		if value == nil {
			return errors.New("the log has no meta")
		}
		return tx.Bucket(bucketMeta).Put(key, change(key, value))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestGenerationAfterACrashBetweenItsTwoFiles: the index was raised, meta.json
// wasn't yet. The index is the right one; the one before it is not.
func TestGenerationAfterACrashBetweenItsTwoFiles(t *testing.T) {
	dir, id := t.TempDir(), PartitionID{Topic: uuid.New()}
	s, l := openOne(t, dir, id)
	if err := appendValue(l, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	identity := s.identity.IndexGeneration
	for _, c := range []struct {
		stored  uint64
		rebuilt bool
	}{{identity - 1, true}, {identity, false}, {identity + 1, false}, {identity + 2, true}, {0, true}} {
		copied := filepath.Join(t.TempDir(), "data")
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		ix := testIndexOf(t, copied, identity)
		if err := ix.setGeneration(c.stored, true); err != nil {
			t.Fatal(err)
		}
		if err := ix.close(); err != nil {
			t.Fatal(err)
		}
		s, l := openOne(t, copied, id)
		_, err := os.Stat(filepath.Join(copied, damagedPrefix+"1"))
		if rebuilt := err == nil; rebuilt != c.rebuilt || s.CleanStart() != (c.stored == identity) {
			t.Fatalf("generation %d of %d: rebuilt %v, clean %v", c.stored, identity, rebuilt, s.CleanStart())
		}
		if l.WrittenEnd() != 1 {
			t.Fatalf("end is %d", l.WrittenEnd())
		}
		if s.identity.IndexGeneration <= identity || (!rebuiltHas(s, identity)) {
			t.Fatalf("generation went from %d to %d", identity, s.identity.IndexGeneration)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func rebuiltHas(s *Store, above uint64) bool {
	facts, err := checkIndexFile(filepath.Join(s.opts.Dir, indexFileName))
	return err == nil && facts.generation == s.identity.IndexGeneration && facts.generation > above
}

func testIndexOf(t *testing.T, dir string, generation uint64) *index {
	t.Helper()
	ix, _, rebuilt, err := openIndex(indexConfig{dir: dir, generation: generation, log: zerolog.Nop(), syncNames: func() error { return nil }, onWrite: func(time.Duration) {}, outOfSpace: func() {}})
	if err != nil || rebuilt {
		t.Fatalf("rebuilt %v, %v", rebuilt, err)
	}
	return ix
}

const childDirVariable = "STORAGE_TEST_CHILD_DIR"

// TestChildOpensStores is the process that TestF52_ProcessKilledWhileOpening
// kills: it opens and closes a store over and over. By itself it does nothing.
func TestChildOpensStores(t *testing.T) {
	dir := os.Getenv(childDirVariable)
	if dir == "" {
		t.Skip("runs as a child of TestF52_ProcessKilledWhileOpening")
	}
	for {
		s, l := openOne(t, dir, PartitionID{Topic: uuid.UUID{1}})
		fmt.Println("opened")
		if err := appendValue(l, []byte("x")); err != nil {
			t.Fatal(err)
		}
		fmt.Println(l.DurableEnd())
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestF52_ProcessKilledWhileOpening kills a real process at random moments of
// creating, opening, appending to and closing a store. The next start needs no
// hands and has every record whose append had returned.
func TestF52_ProcessKilledWhileOpening(t *testing.T) {
	rng := rand.New(rand.NewPCG(52, 52))
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	parent := t.TempDir()
	for round := range rounds {
		dir := filepath.Join(parent, fmt.Sprint(round/4)) // every fourth time a new one
		child := exec.Command(os.Args[0], "-test.run=^TestChildOpensStores$")
		child.Env = append(os.Environ(), childDirVariable+"="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(time.Duration(rng.IntN(60_000))*time.Microsecond, func() { _ = child.Process.Kill() })
		end := int64(0)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var n int64
			if _, err := fmt.Sscan(lines.Text(), &n); err == nil {
				end = n
			}
		}
		_ = child.Wait() // it was killed
		kill.Stop()
		s, l := openOne(t, dir, PartitionID{Topic: uuid.UUID{1}})
		if l.DurableEnd() < end {
			t.Fatalf("round %d: %d records were durable, %d are there", round, end, l.DurableEnd())
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestR86_IndexForgetsADeletedLog: also when the process dies between the rename
// and the index's next transaction.
func TestR86_IndexForgetsADeletedLog(t *testing.T) {
	dir, id, other := t.TempDir(), PartitionID{Topic: uuid.New()}, PartitionID{Topic: uuid.New()}
	s, l := openOne(t, dir, id)
	kept, err := s.OpenLog(other, LogConfig{}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []*Log{l, kept} {
		if err := appendValue(l, []byte("x")); err != nil {
			t.Fatal(err)
		}
		l.CheckpointHighWatermark(1)
		l.checkpoint()
	}
	if err := s.index.flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteLog(id); err != nil {
		t.Fatal(err)
	}
	killed := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	s, err = Open(Options{Dir: killed, Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, ok := s.index.meta(id); !ok {
		t.Fatal("the index had forgotten already: this test shows nothing")
	}
	if err := s.removeDeleted(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.index.(*index).storedMeta(id); ok {
		t.Fatal("the index still knows the log")
	}
	if _, ok := s.index.(*index).storedOffsetFloor(id, 1); ok {
		t.Fatal("the index still has the log's entries")
	}
	if _, ok := s.index.(*index).storedMeta(other); !ok {
		t.Fatal("the index forgot another log")
	}
}

// TestR73_IndexThatLostALogVouchesForNothing: an entry that had to go may have been
// that of a log whose directory is gone, too. died: a start before them got no
// further than taking it out.
func TestR73_IndexThatLostALogVouchesForNothing(t *testing.T) {
	for _, died := range []bool{false, true} {
		dir, lost, never := t.TempDir(), PartitionID{Topic: uuid.New()}, PartitionID{Topic: uuid.New()}
		s, l := openOne(t, dir, lost)
		s.SetBrokerEpoch(3)
		if err := errors.Join(appendValue(l, []byte("x")), s.Close()); err != nil {
			t.Fatal(err)
		}
		changeStoredMeta(t, dir, lost, func(_, value []byte) []byte {
			value = slices.Clone(value)
			value[0] ^= 4
			return value
		})
		if err := os.RemoveAll(filepath.Join(dir, "partitions", lost.String())); err != nil {
			t.Fatal(err)
		}
		if died {
			ix, _, told, err := openIndex(indexConfig{dir: dir, generation: s.identity.IndexGeneration, log: zerolog.Nop()})
			if err != nil || !told {
				t.Fatalf("%v, it tells of the loss: %v", err, told)
			}
			if err := ix.close(); err != nil {
				t.Fatal(err)
			}
		}
		for start := range 3 {
			s, err := Open(Options{Dir: dir, Fsync: FsyncCommit, Logger: zerolog.Nop()})
			if err != nil {
				t.Fatal(err)
			}
			if told := start == 2; s.NeverHad(lost) != told || s.NeverHad(never) != told {
				t.Errorf("died %v, start %d: it vouches: %v, %v", died, start, s.NeverHad(lost), s.NeverHad(never))
			}
			if start == 1 {
				s.SetBrokerEpoch(4)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
