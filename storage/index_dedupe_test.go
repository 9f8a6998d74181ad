package storage

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/bbolt"
)

// keptDedupe is what the index should have of a log.
type keptDedupe struct {
	state   []byte
	runs    map[runKey][]byte
	covered int64
}

// TestDedupeEntriesAgainstModel notes, drops, writes and reopens at random.
func TestDedupeEntriesAgainstModel(t *testing.T) {
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 8))
		dir := memoryDir(t)
		ix := testIndex(t, dir)
		models := map[PartitionID]*keptDedupe{}
		for n := range 4 {
			models[testPartition(n)] = &keptDedupe{runs: map[runKey][]byte{}}
		}
		for step := range 200 {
			id := testPartition(rng.IntN(4))
			dedupeStep(t, rng, ix, id, models[id])
			switch rng.IntN(12) {
			case 0:
				if err := ix.flush(); err != nil {
					t.Fatal(err)
				}
			case 1:
				if err := ix.close(); err != nil {
					t.Fatal(err)
				}
				if facts, err := checkIndexFile(filepath.Join(dir, indexFileName)); err != nil || len(facts.damaged) > 0 {
					t.Fatalf("seed %d step %d: %+v, %v", seed, step, facts, err)
				}
				ix = testIndex(t, dir)
			}
			for id, m := range models {
				checkDedupe(t, ix, id, m, fmt.Sprintf("seed %d step %d", seed, step))
			}
		}
	}
}

func dedupeStep(t *testing.T, rng *rand.Rand, ix *index, id PartitionID, m *keptDedupe) {
	note := dedupeNote{runs: map[runKey][]byte{}}
	if rng.IntN(8) == 0 {
		if rng.IntN(2) == 0 {
			if err := ix.drop(id); err != nil {
				t.Fatal(err)
			}
			*m = keptDedupe{runs: map[runKey][]byte{}}
			return
		}
		note.dropped = true
		m.state, m.runs = nil, map[runKey][]byte{}
	}
	if rng.IntN(2) == 0 {
		note.state = randomBytes(rng, 1+rng.IntN(200))
		m.state = note.state
	}
	for k := range m.runs {
		if rng.IntN(4) == 0 {
			note.runs[k] = nil
			delete(m.runs, k)
		}
	}
	for range rng.IntN(3) {
		k := runKey{uint8(rng.IntN(runClasses)), rng.Int64N(25), 30 + rng.Int64N(2)}
		note.runs[k] = randomBytes(rng, 1+rng.IntN([...]int{20_000, 5 * pieceBytes}[rng.IntN(2)]))
		m.runs[k] = note.runs[k]
	}
	m.covered = rng.Int64N(1000)
	ix.noteDedupe(id, func(meta *logMeta) (dedupeNote, bool) {
		meta.Covered = m.covered
		return note, true
	})
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func checkDedupe(t *testing.T, ix *index, id PartitionID, m *keptDedupe, when string) {
	t.Helper()
	if got := ix.dedupeState(id); !bytes.Equal(got, m.state) {
		t.Fatalf("%s: state of %d bytes instead of %d", when, len(got), len(m.state))
	}
	if meta, _ := ix.meta(id); meta.Covered != m.covered {
		t.Fatalf("%s: covered is %d, not %d", when, meta.Covered, m.covered)
	}
	var keys []runKey
	for class := range uint8(runClasses) {
		for n := range int64(50) {
			keys = append(keys, runKey{class, n / 2, 30 + n%2})
		}
	}
	done := ix.viewRuns(id, keys, func(get readPiece) {
		for _, k := range keys {
			want, there := m.runs[k]
			run, err := get(k, 0, max(len(want), 1))
			if !bytes.Equal(run, want) || there != (err == nil) || !there && !errors.Is(err, errRunUnread) {
				t.Fatalf("%s: run %v has %d bytes instead of %d: %v", when, k, len(run), len(want), err)
			}
			for from := 0; from < len(want); from += 1 + len(want)/7 {
				for _, to := range []int{from + 1, min(from+pieceBytes, len(want)), len(want)} {
					if run, err := get(k, from, to); err != nil || !bytes.Equal(run, want[from:to]) {
						t.Fatalf("%s: [%d, %d) of run %v: %v", when, from, to, k, err)
					}
				}
			}
			if run, err := get(k, 0, len(want)+1); err == nil {
				t.Fatalf("%s: run %v of %d bytes gives %d", when, k, len(want), len(run))
			}
		}
	})
	if !done {
		t.Fatalf("%s: no look into the runs", when)
	}
	for k, want := range m.runs {
		if got := ix.copyRun(id, k); !bytes.Equal(got, want) {
			t.Fatalf("%s: copy of run %v has %d bytes instead of %d", when, k, len(got), len(want))
		}
	}
}

// TestIndexFileOfFourBuckets: one that was made before there were ids is no damage.
func TestIndexFileOfFourBuckets(t *testing.T) {
	dir, id := t.TempDir(), testPartition(1)
	ix := testIndex(t, dir)
	ix.update(id, func(m *logMeta) { m.Start = 77 })
	if err := ix.close(); err != nil {
		t.Fatal(err)
	}
	db, err := openBolt(filepath.Join(dir, indexFileName))
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range indexBuckets()[len(firstBuckets()):] {
			if err := tx.DeleteBucket(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || db.Close() != nil {
		t.Fatal(err)
	}
	ix = testIndex(t, dir)
	m := &keptDedupe{runs: map[runKey][]byte{}}
	dedupeStep(t, rand.New(rand.NewPCG(3, 3)), ix, id, m)
	checkDedupe(t, ix, id, m, "after the upgrade")
	if meta, ok := ix.meta(id); !ok || meta.Start != 77 {
		t.Fatalf("%v, %+v", ok, meta)
	}
}

// TestDamagedRunsAreNoticed flips bits of large values in a file: the check at the
// next open names them, or takes what is whole.
func TestDamagedRunsAreNoticed(t *testing.T) {
	dir, id := t.TempDir(), testPartition(2)
	ix := testIndex(t, dir)
	rng := rand.New(rand.NewPCG(5, 5))
	runs := map[runKey][]byte{}
	for i := range int64(4) {
		runs[runKey{uint8(i), i, 9}] = randomBytes(rng, 300_000)
	}
	ix.noteDedupe(id, func(*logMeta) (dedupeNote, bool) { return dedupeNote{runs: maps.Clone(runs)}, true })
	if err := ix.close(); err != nil {
		t.Fatal(err)
	}
	damaged := runKey{2, 2, 9}
	db, err := openBolt(filepath.Join(dir, indexFileName))
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		key := appendPieceKey(nil, id, damaged, 3)
		value := slices.Clone(tx.Bucket(bucketIDs).Get(key))
		value[200_000-3*pieceBytes] ^= 4
		return tx.Bucket(bucketIDs).Put(key, value)
	})
	if err != nil || db.Close() != nil {
		t.Fatal(err)
	}
	facts, err := checkIndexFile(filepath.Join(dir, indexFileName))
	if err != nil || len(facts.damaged) != 1 || !bytes.Equal(facts.damaged[0].bucket, bucketIDs) {
		t.Fatalf("%+v, %v", facts, err)
	}
	ix = testIndex(t, dir)
	for k, want := range runs {
		if k == damaged {
			want = nil
		}
		if got := ix.copyRun(id, k); !bytes.Equal(got, want) {
			t.Fatalf("run %v has %d bytes instead of %d", k, len(got), len(want))
		}
	}
}
