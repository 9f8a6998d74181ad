package storage

import (
	"bytes"
	"cmp"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
)

// testIndex opens the index of dir, without a store around it.
func testIndex(t testing.TB, dir string) *index {
	t.Helper()
	ix, _, _, err := openIndex(indexConfig{dir: dir, log: zerolog.Nop(), syncNames: func() error { return nil }, onWrite: func(d time.Duration) {}, outOfSpace: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ix.close() })
	return ix
}

// memoryDir is a directory in memory, where there is one, for tests that open and
// sync a lot and don't ask anything of the disk.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "storage-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func testPartition(n int) PartitionID {
	return PartitionID{Topic: uuid.NewSHA1(uuid.NameSpaceOID, []byte{byte(n / 3)}), Partition: int32(n % 3)}
}

// indexModel is what an index should know of one log.
type indexModel struct {
	meta    *logMeta
	offsets []indexEntry
	times   []timeEntry
}

// TestIndexAgainstModel does random work on an index and its model, with writes
// to the file and reopenings in between, and compares every look-up.
func TestIndexAgainstModel(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 1))
		dir := memoryDir(t)
		ix := testIndex(t, dir)
		models := map[PartitionID]*indexModel{}
		for step := range 300 {
			id := testPartition(rng.IntN(5))
			m := models[id]
			if m == nil {
				m = &indexModel{}
				models[id] = m
			}
			indexStep(t, rng, ix, id, m)
			switch rng.IntN(30) {
			case 0:
				if err := ix.flush(); err != nil {
					t.Fatal(err)
				}
				if facts, err := checkIndexFile(filepath.Join(dir, indexFileName)); err != nil || len(facts.damaged) > 0 {
					t.Fatalf("seed %d step %d: %+v, %v", seed, step, facts, err)
				}
			case 1:
				if err := ix.close(); err != nil {
					t.Fatal(err)
				}
				ix = testIndex(t, dir)
			}
			compareIndex(t, rng, ix, models, seed, step)
		}
		if _, err := checkIndexFile(filepath.Join(dir, indexFileName)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func indexStep(t *testing.T, rng *rand.Rand, ix *index, id PartitionID, m *indexModel) {
	t.Helper()
	end, last := int64(0), int64(-5)
	if n := len(m.offsets); n > 0 {
		end = m.offsets[n-1].Offset
	}
	if n := len(m.times); n > 0 {
		end, last = max(end, m.times[n-1].Offset), m.times[n-1].MaxTimestamp
	}
	switch rng.IntN(11) {
	case 0, 1, 2, 3:
		var batch []indexEntry
		for range rng.IntN(40) {
			end += 1 + rng.Int64N(5)
			batch = append(batch, indexEntry{Offset: end, Segment: end / 100 * 100, Position: rng.Int64N(1 << 40)})
		}
		m.offsets = append(m.offsets, batch...)
		ix.addOffsets(id, batch)
	case 4, 5:
		var batch []timeEntry
		for range rng.IntN(40) {
			end, last = end+1+rng.Int64N(5), last+1+rng.Int64N(3)
			batch = append(batch, timeEntry{MaxTimestamp: last, Offset: end})
		}
		m.times = append(m.times, batch...)
		ix.addTimes(id, batch)
	case 6:
		to := rng.Int64N(end + 2)
		m.offsets = slices.DeleteFunc(m.offsets, func(e indexEntry) bool { return e.Offset >= to })
		m.times = slices.DeleteFunc(m.times, func(e timeEntry) bool { return e.Offset >= to })
		ix.truncate(id, to)
	case 7:
		below := rng.Int64N(end/2 + 2)
		m.offsets = slices.DeleteFunc(m.offsets, func(e indexEntry) bool { return e.Offset < below })
		m.times = slices.DeleteFunc(m.times, func(e timeEntry) bool { return e.Offset < below })
		ix.deleteBelow(id, below)
	case 8:
		if m.meta == nil {
			m.meta = &logMeta{}
		}
		change := randomMeta(rng)
		*m.meta = change
		if rng.IntN(2) == 0 {
			ix.update(id, func(lm *logMeta) { *lm = change.clone() })
		} else if err := ix.updateNow(id, func(lm *logMeta) { *lm = change.clone() }); err != nil {
			t.Fatal(err)
		}
	case 10:
		from := rng.Int64N(end + 2)
		to := from + 1 + rng.Int64N(60)
		var entries []indexEntry
		for o := from; o < min(to, end+1); o += 1 + rng.Int64N(30) {
			entries = append(entries, indexEntry{Offset: o, Segment: o / 100 * 100, Position: rng.Int64N(1 << 40)})
		}
		m.offsets = slices.DeleteFunc(m.offsets, func(e indexEntry) bool { return from <= e.Offset && e.Offset < to })
		m.offsets = append(m.offsets, entries...)
		slices.SortFunc(m.offsets, func(a, b indexEntry) int { return cmp.Compare(a.Offset, b.Offset) })
		ix.replaceOffsets(id, from, to, entries)
	case 9:
		if rng.IntN(4) > 0 {
			return
		}
		*m = indexModel{}
		if err := ix.drop(id); err != nil {
			t.Fatal(err)
		}
	}
}

func randomMeta(rng *rand.Rand) logMeta {
	m := logMeta{Start: rng.Int64N(100), Flushed: rng.Int64(), HighWatermark: -rng.Int64N(5)}
	for i := range rng.IntN(4) {
		m.Epochs = append(m.Epochs, EpochEntry{Epoch: int32(i), StartOffset: rng.Int64()})
	}
	for range rng.IntN(200) {
		m.Segments = append(m.Segments, segmentMeta{Base: rng.Int64(), Size: rng.Int64(), MaxTimestamp: -rng.Int64(), LastAppend: rng.Int64()})
	}
	for range rng.IntN(2) {
		m.Damage = append(m.Damage, damage{From: 3, To: 9, Segment: 1, Position: rng.Int64(), Bytes: 17, Copy: "a/b"})
	}
	return m
}

func compareIndex(t *testing.T, rng *rand.Rand, ix *index, models map[PartitionID]*indexModel, seed uint64, step int) {
	t.Helper()
	for id, m := range models {
		got, ok := ix.meta(id)
		if ok != (m.meta != nil) || (ok && !reflect.DeepEqual(got, *m.meta)) {
			t.Fatalf("seed %d step %d: meta is %+v %v, want %+v", seed, step, got, ok, m.meta)
		}
		for range 5 {
			at := rng.Int64N(600) - 10
			i, found := slices.BinarySearchFunc(m.offsets, at, func(e indexEntry, o int64) int { return cmp.Compare(e.Offset, o) })
			if !found {
				i--
			}
			e, ok := ix.offsetFloor(id, at)
			if ok != (i >= 0) || (ok && e != m.offsets[i]) {
				t.Fatalf("seed %d step %d: offsetFloor(%d) is %+v %v, want element %d of %+v", seed, step, at, e, ok, i, m.offsets)
			}
			i, _ = slices.BinarySearchFunc(m.times, at, func(e timeEntry, ms int64) int { return cmp.Compare(e.MaxTimestamp, ms) })
			te, ok := ix.timeFloor(id, at)
			if ok != (i > 0) || (ok && te != m.times[i-1]) {
				t.Fatalf("seed %d step %d: timeFloor(%d) is %+v %v, want element %d of %+v", seed, step, at, te, ok, i-1, m.times)
			}
		}
	}
}

// TestIndexMetaKeepsEveryField fills every field there is, so that one that was
// added to logMeta and not to its encoding is found.
func TestIndexMetaKeepsEveryField(t *testing.T) {
	var m logMeta
	next := int64(1)
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		if v.Type() == reflect.TypeFor[runKey]() { // its fields can't be set one by one
			v.Set(reflect.ValueOf(runKey{class: uint8(next/1000)%(runClasses-1) + 1, first: next, next: next + 500}))
			next += 1000
			return
		}
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				fill(v.Field(i))
			}
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			fill(v.Index(0))
			fill(v.Index(1))
		case reflect.Int64, reflect.Int32:
			v.SetInt(next)
			next += 1000
		case reflect.Bool:
			v.SetBool(true)
		case reflect.String:
			v.SetString("name")
		default:
			t.Fatalf("no value for a %s", v.Kind())
		}
	}
	fill(reflect.ValueOf(&m).Elem())
	key := appendLogKey(nil, testPartition(1))
	got, err := parseMeta(key, appendMeta(nil, key, &m))
	if err != nil || !reflect.DeepEqual(got, m) {
		t.Fatalf("got %+v, %v\nwant %+v", got, err, m)
	}
}

// filledIndex makes an index file with entries of several logs and returns its bytes.
func filledIndex(t *testing.T, rng *rand.Rand, logs int, freelist bool) []byte {
	t.Helper()
	dir := t.TempDir()
	ix := testIndex(t, dir)
	for n := range logs {
		id := testPartition(n)
		var offsets []indexEntry
		var times []timeEntry
		for i := range int64(300) {
			offsets = append(offsets, indexEntry{Offset: i * 10, Segment: i / 50 * 500, Position: i * 1000})
			times = append(times, timeEntry{MaxTimestamp: 1000 + i, Offset: i*10 + 5})
		}
		ix.addOffsets(id, offsets)
		ix.addTimes(id, times)
		m := randomMeta(rng)
		m.Start = int64(n)
		if err := ix.updateNow(id, func(lm *logMeta) { *lm = m }); err != nil {
			t.Fatal(err)
		}
	}
	if err := ix.setGeneration(0, freelist); err != nil {
		t.Fatal(err)
	}
	if err := ix.close(); err != nil {
		t.Fatal(err)
	}
	facts, err := checkIndexFile(filepath.Join(dir, indexFileName))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, indexFileName))
	if err != nil {
		t.Fatal(err)
	}
	return data[:facts.pages*indexPageSize] // without the sparse rest
}

// TestF43_FlippedBitsInTheIndex flips bits all over the index file, as a killed
// and as a closed run leave it. Whatever is hit, the index opens, and what it
// still knows is what was written: damage may cost knowledge, it never makes any up.
func TestF43_FlippedBitsInTheIndex(t *testing.T) {
	for _, closed := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(43, 43))
		const logs = 6
		good := filledIndex(t, rng, logs, closed)
		truth := map[PartitionID]logMeta{}
		reference, _ := openIndexBytes(t, good)
		for n := range logs {
			truth[testPartition(n)], _ = reference.meta(testPartition(n))
		}
		rounds := 3
		if testing.Short() {
			rounds = 1
		}
		rebuilt, noticed, asked, kept := 0, 0, 0, 0
		for page := 0; page < len(good)/indexPageSize; page++ {
			for round := range rounds {
				wasRebuilt, lost, metas := openFlipped(t, flipBits(rng, good, page, 1+round/2), truth)
				if wasRebuilt {
					rebuilt++
					asked += logs
					kept += metas
				}
				if lost {
					noticed++
				}
			}
		}
		t.Logf("closed %v: %d pages, %d files rebuilt, %d lost something; of %d logs in rebuilt ones %d kept their meta",
			closed, len(good)/indexPageSize, rebuilt, noticed, asked, kept)
		if rebuilt == 0 || noticed == 0 {
			t.Fatal("the damage never bit, in structure or in an entry")
		}
		if kept < asked/2 {
			t.Fatal("a flipped bit costs more than half of all logs")
		}
	}
}

// flipBits returns a copy of data with bits of one page flipped, half of them
// near its front, where the figures are.
func flipBits(rng *rand.Rand, data []byte, page, bits int) []byte {
	bad := bytes.Clone(data)
	for range bits {
		at := page * indexPageSize
		if rng.IntN(2) == 0 {
			at += rng.IntN(512)
		} else {
			at += rng.IntN(indexPageSize)
		}
		bad[at] ^= 1 << rng.IntN(8)
	}
	return bad
}

// openFlipped opens a damaged file, asks it for everything, and writes to it.
func openFlipped(t *testing.T, bad []byte, truth map[PartitionID]logMeta) (rebuilt, lost bool, metas int) {
	t.Helper()
	ix, dir := openIndexBytes(t, bad)
	for id, m := range truth {
		lost = checkAgainstTruth(t, ix, id, m) || lost
		if _, ok := ix.meta(id); ok {
			metas++
		}
	}
	if err := ix.updateNow(testPartition(1), func(m *logMeta) { m.HighWatermark++ }); err != nil {
		t.Fatalf("write after damage: %v", err)
	}
	if err := ix.close(); err != nil {
		t.Fatal(err)
	}
	if facts, err := checkIndexFile(filepath.Join(dir, indexFileName)); err != nil || len(facts.damaged) > 0 {
		t.Fatalf("after opening and writing: %d damaged entries, %v", len(facts.damaged), err)
	}
	_, err := os.Stat(filepath.Join(dir, damagedPrefix+"1"))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	return err == nil, lost, metas
}

func openIndexBytes(t *testing.T, data []byte) (*index, string) {
	t.Helper()
	dir := memoryDir(t)
	if err := os.WriteFile(filepath.Join(dir, indexFileName), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return testIndex(t, dir), dir
}

// checkAgainstTruth fails on a wrong answer and reports whether any was missing.
func checkAgainstTruth(t *testing.T, ix *index, id PartitionID, truth logMeta) (lost bool) {
	t.Helper()
	if m, ok := ix.meta(id); !ok {
		lost = true
	} else if !reflect.DeepEqual(m, truth) {
		t.Fatalf("meta is %+v, was %+v", m, truth)
	}
	for i := range int64(300) {
		if e, ok := ix.offsetFloor(id, i*10+3); !ok || e.Offset != i*10 {
			lost = true
			n := e.Offset / 10
			if ok && (n > i || e != (indexEntry{Offset: n * 10, Segment: n / 50 * 500, Position: n * 1000})) {
				t.Fatalf("offsetFloor(%d) is %+v", i*10+3, e)
			}
		}
		if e, ok := ix.timeFloor(id, 1001+i); !ok || e.MaxTimestamp != 1000+i {
			lost = true
			n := e.MaxTimestamp - 1000
			if ok && (n > i || e != (timeEntry{MaxTimestamp: 1000 + n, Offset: n*10 + 5})) {
				t.Fatalf("timeFloor(%d) is %+v", 1001+i, e)
			}
		}
	}
	return lost
}

// FuzzIndexFile overwrites a stretch of an index file with arbitrary bytes: the
// check finds it or not, but neither panics nor asks for impossible memory.
func FuzzIndexFile(f *testing.F) {
	dir := f.TempDir()
	ix := testIndex(f, dir)
	for n := range 3 {
		ix.addOffsets(testPartition(n), []indexEntry{{Offset: 10}, {Offset: 20, Position: 7}})
		ix.update(testPartition(n), func(m *logMeta) { m.Segments = make([]segmentMeta, 1000) })
	}
	if err := errors.Join(ix.flush(), ix.setGeneration(1, true), ix.close()); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(dir, indexFileName))
	if err != nil {
		f.Fatal(err)
	}
	good = bytes.TrimRight(good, "\x00")
	good = append(good, make([]byte, -len(good)&(indexPageSize-1))...)
	for page := range len(good) / indexPageSize {
		f.Add(uint32(page*indexPageSize), []byte{1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, false)
		f.Add(uint32(page*indexPageSize+pageHeaderSize), []byte{0xff, 0xff, 0xff, 0x7f}, true)
	}
	f.Fuzz(func(t *testing.T, at uint32, stretch []byte, truncate bool) {
		data := bytes.Clone(good)
		at %= uint32(len(data))
		copy(data[at:], stretch)
		if truncate {
			data = data[:at]
		}
		w := indexWalk{file: bytes.NewReader(data), size: uint64(len(data))}
		if err := w.run(); err == nil && w.facts.pages == 0 {
			t.Fatal("no pages and no error")
		}
	})
}

// TestMetaOf010: what 0.1.0 has written is no damage, or an upgrade would take every
// log for one that may have lost something.
func TestMetaOf010(t *testing.T) {
	key := appendLogKey(nil, PartitionID{Topic: uuid.New(), Partition: 3})
	want := logMeta{Start: 7, Flushed: 300, HighWatermark: 299, Epochs: []EpochEntry{{Epoch: 1, StartOffset: 7}}}
	now := appendMeta(nil, key, &want)
	at := 2 + len(appendVarints(nil, want.Start, want.Flushed, want.HighWatermark))
	want.Covered, want.Sound = want.Flushed, want.Flushed                      // they marked no batch
	old := slices.Concat([]byte{2, now[1]}, now[2:at+2], now[at+6:len(now)-4]) // without four zeroes, and the checksum
	got, err := parseMeta(key, seal(bucketMeta, key, old, 0))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("version 2: %+v, %v", got, err)
	}
	old = slices.Concat([]byte{1, now[1]}, now[2:at], now[at+6:len(now)-4]) // without six
	got, err = parseMeta(key, seal(bucketMeta, key, old, 0))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	old[0] = metaVersion + 1
	if _, err := parseMeta(key, seal(bucketMeta, key, old, 0)); !errors.Is(err, errEntryDamaged) {
		t.Errorf("one of a version to come: %v", err)
	}
}
