package storage

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"highwater/storage/vfs"
)

// countedFS counts the bytes that are read of segments.
type countedFS struct {
	vfs.OS
	read *atomic.Int64
}

type countedFile struct {
	vfs.File
	read *atomic.Int64
}

func (fs countedFS) Open(name string, flag int) (vfs.File, error) {
	f, err := fs.OS.Open(name, flag)
	if err != nil || filepath.Ext(name) != segmentSuffix {
		return f, err
	}
	return countedFile{f, fs.read}, nil
}

func (f countedFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	f.read.Add(int64(n))
	return n, err
}

// many sends n ids, in batches of 100, and has them flushed.
func (r *remembering) many(prefix string, n int) {
	r.t.Helper()
	for from := 0; from < n; from += 100 {
		r.send(numbered(prefix, from, min(from+100, n))...)
	}
	r.log.bg.Wait()
}

// kill ends the process of a store without closing it: what the index has noted is lost,
// if it isn't in the file.
func (r *remembering) kill() {
	r.t.Helper()
	dir := filepath.Join(r.t.TempDir(), "after the kill")
	if err := os.CopyFS(dir, os.DirFS(r.dir)); err != nil {
		r.t.Fatal(err)
	}
	r.dir = dir
}

// TestStartReadsTheTailAtMost: nothing after a clean stop, and after another one what
// was written since the last flush, whatever there is below.
func TestStartReadsTheTailAtMost(t *testing.T) {
	var read atomic.Int64
	r := newRemembering(t, t.TempDir())
	r.opts = func(o *Options) { o.FS = countedFS{read: &read} }
	r.open()
	const ids = 40_000
	r.many("m", ids)
	size := r.log.SizeBytes()
	runs := 0
	r.log.mu.Lock()
	covered := r.log.memory.Covered()
	for _, run := range r.log.memory.Runs() {
		runs += run.Count
	}
	r.log.mu.Unlock()
	if covered < ids-2*testFlushIDs || runs < ids-2*testFlushIDs {
		t.Fatalf("covered is %d, %d ids in runs", covered, runs)
	}
	if err := r.store.index.flush(); err != nil {
		t.Fatal(err)
	}
	r.kill() // its index doesn't know what was fsynced
	read.Store(0)
	r.open()
	// The flush noted how far the log was fsynced, so that recovery reads what came after, and
	// what is remembered is learned from it.
	if got := read.Load(); got == 0 || got > size/2 {
		t.Errorf("%d bytes are read after a kill, of %d", got, size)
	}
	learned := read.Load()
	r.consistent()
	r.log.CheckpointHighWatermark(r.log.DurableEnd())
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	read.Store(0)
	r.open()
	if got := read.Load(); got != 0 {
		t.Errorf("%d bytes are read after a clean stop", got)
	}
	t.Logf("%d bytes of log, %d read after a kill", size, learned)
	r.want(r.send(numbered("m", 0, 2)...), []int64{0, 1}, []bool{true, true})
	r.want(r.send(numbered("m", ids-2, ids)...), []int64{ids - 2, ids - 1}, []bool{true, true})
	if f := r.log.DedupeFigures(); f.Ids != ids {
		t.Errorf("%+v", f)
	}
	r.consistent()
}

// TestDamagedMemoryIsLearnedAnew takes away or changes what the index keeps of a
// log, entry by entry: the next start knows all the same.
func TestDamagedMemoryIsLearnedAnew(t *testing.T) {
	r := newRemembering(t, t.TempDir()).open()
	r.many("m", 9_000)
	r.mustCommit(r.batch(&Producer{ID: 5}, message{"", "x"}))
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	whole := r.dir
	type change struct{ bucket, key, value []byte }
	var changes []change
	db, err := openBolt(filepath.Join(whole, indexFileName))
	if err != nil {
		t.Fatal(err)
	}
	err = db.View(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketIDs, bucketProducers} {
			err := tx.Bucket(name).ForEach(func(k, v []byte) error {
				flipped := slices.Clone(v)
				flipped[len(v)/2] ^= 1
				changes = append(changes, change{name, slices.Clone(k), nil}, change{name, slices.Clone(k), flipped}, change{name, slices.Clone(k), v[:5:5]})
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	for i := range changes {
		changes[i].value = slices.Clone(changes[i].value)
	}
	if err != nil || db.Close() != nil || len(changes) < 6 {
		t.Fatal(err, len(changes))
	}
	for i, c := range changes {
		dir := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		db, err := openBolt(filepath.Join(dir, indexFileName))
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(func(tx *bbolt.Tx) error {
			if len(c.value) == 0 {
				return tx.Bucket(c.bucket).Delete(c.key)
			}
			return tx.Bucket(c.bucket).Put(c.key, c.value)
		})
		if err != nil || db.Close() != nil {
			t.Fatal(err)
		}
		r.dir = dir
		r.open()
		what := fmt.Sprintf("change %d, %s", i, c.bucket)
		if f := r.log.DedupeFigures(); f.Ids != 9_000 || f.Producers != 1 {
			t.Fatalf("%s: %+v", what, f)
		}
		for _, n := range []int{0, 4_000, 8_999} {
			if got := r.find(fmt.Sprint("m-", n)); got != int64(n) {
				t.Fatalf("%s: m-%d is found at %d", what, n, got)
			}
		}
		r.consistent()
		if err := r.store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDamagedRunIsNoticedByALookUp: bytes that change while the broker runs.
func TestDamagedRunIsNoticedByALookUp(t *testing.T) {
	r := newRemembering(t, t.TempDir()).open()
	r.many("m", 5_000)
	ix := r.store.index.(*index)
	if err := ix.flush(); err != nil {
		t.Fatal(err)
	}
	r.log.mu.Lock()
	key := keyOfRun(r.log.memory.Runs()[0])
	r.log.mu.Unlock()
	run := slices.Clone(ix.copyRun(r.id, key))
	for i := len(run) / 2; i < len(run); i += 50 {
		run[i] ^= 0x10
	}
	ix.noteDedupe(r.id, func(*logMeta) (dedupeNote, bool) { return dedupeNote{runs: map[runKey][]byte{key: run}}, true })
	for _, n := range []int{0, 1_000, 4_999} {
		if got := r.find(fmt.Sprint("m-", n)); got != int64(n) {
			t.Fatalf("m-%d is found at %d", n, got)
		}
	}
	r.consistent()
	r.want(r.send(numbered("m", 3, 4)...), []int64{3}, []bool{true})
}

// TestD11_IDsOutliveTheirRecords: until the window ends, also over a restart; not with a
// window that is as long as the record is kept.
func TestD11_IDsOutliveTheirRecords(t *testing.T) {
	for _, age := range []time.Duration{time.Hour, -1} {
		r := newRemembering(t, t.TempDir())
		r.cfg.DedupeAge = age
		r.open()
		r.send(numbered("m", 0, 10)...)
		r.send(numbered("m", 10, 20)...)
		if err := r.log.AdvanceStart(10); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			want := int64(4)
			if age < 0 {
				want = -1
			}
			if got := r.find("m-4"); got != want {
				t.Fatalf("window %v: found at %d", age, got)
			}
			if got := r.find("m-14"); got != 14 {
				t.Fatalf("window %v: found at %d", age, got)
			}
			r.consistent()
			r.reopen()
		}
	}
}

// TestIDsOfAnotherReplica: what the log can't tell comes from an export.
func TestIDsOfAnotherReplica(t *testing.T) {
	leader := newRemembering(t, t.TempDir()).open()
	leader.many("m", 6_000)
	leader.mustCommit(leader.batch(&Producer{ID: 5}, message{"", "x"}))
	leader.send(numbered("m", 6_000, 6_010)...)
	if err := leader.log.AdvanceStart(6_001); err != nil {
		t.Fatal(err)
	}
	export, err := leader.log.ExportDedupe(6_001)
	if err != nil {
		t.Fatal(err)
	}
	follower := newRemembering(t, t.TempDir()).open()
	if err := follower.log.ImportDedupe(export[:len(export)-1]); err == nil {
		t.Fatal("an export that is cut off was taken")
	}
	for range 2 {
		if err := follower.log.ResetTo(6_001); err != nil {
			t.Fatal(err)
		}
		if err := follower.log.ImportDedupe(export); err != nil {
			t.Fatal(err)
		}
	}
	follower.reopen()
	res, err := leader.log.Read(6_001, 6_011, 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := follower.log.StageReplica(res.Data, 1)
	if err != nil {
		t.Fatal(err)
	}
	follower.commit(s)
	for range 2 {
		want, err := leader.log.DedupeDigest()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := follower.log.DedupeDigest(); err != nil || got != want {
			t.Fatalf("%x instead of %x, %v", got[:4], want[:4], err)
		}
		if got := follower.find("m-17"); got != 17 {
			t.Fatalf("found at %d", got)
		}
		follower.consistent()
		follower.reopen()
	}
}

// TestManyLogsHoldFewIDsEach: when all logs together hold many ids in memory, each brings its
// own to the index early.
func TestManyLogsHoldFewIDsEach(t *testing.T) {
	r := newRemembering(t, t.TempDir()).open()
	r.many("m", flushHeldIDs+100)
	if covered := r.covered(); covered != 0 {
		t.Fatalf("covered is %d with few ids", covered)
	}
	const others = heldIDs
	r.store.disk.heldIDs.Add(others)
	r.many("n", 200)
	r.log.bg.Wait()
	if covered := r.covered(); covered < flushHeldIDs {
		t.Errorf("covered is %d", covered)
	}
	held := int64(r.log.memory.TailLen())
	if r.many("o", 10); r.store.disk.heldIDs.Load() < others+held {
		t.Errorf("%d ids are counted of %d", r.store.disk.heldIDs.Load()-others, held)
	}
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	if n := r.store.disk.heldIDs.Load(); n != others {
		t.Errorf("a closed log holds %d ids", n-others)
	}
}

// TestIDsThatAreNotHeldDoNotCount: after a flush, a cut, and when the log begins anew.
func TestIDsThatAreNotHeldDoNotCount(t *testing.T) {
	r := newRemembering(t, t.TempDir())
	r.keep = 6_000
	r.open()
	check := func(what string, some bool) {
		t.Helper()
		held := 0
		if r.log.memory != nil {
			held = r.log.memory.TailLen()
		}
		if counted := int(r.store.disk.heldIDs.Load()); counted != held || held > 0 != some {
			t.Errorf("%s: %d are counted, %d are held", what, counted, held)
		}
	}
	r.many("m", 3_000)
	check("appended", true)
	if _, err := r.log.TruncateTo(2_000); err != nil {
		t.Fatal(err)
	}
	check("cut", true)
	r.store.disk.heldIDs.Add(heldIDs) // others
	r.many("n", 1)
	r.store.disk.heldIDs.Add(-heldIDs)
	check("flushed", false)
	r.many("o", 3_000)
	check("appended again", true)
	if err := r.log.ResetTo(9_000); err != nil {
		t.Fatal(err)
	}
	check("reset", false)
}

// TestAnIdleLogGivesUpItsIDs: what nobody appends to any more must not have all others bring theirs
// to the index a few at a time for ever.
func TestAnIdleLogGivesUpItsIDs(t *testing.T) {
	r := newRemembering(t, t.TempDir()).open()
	const ids = 2 * flushHeldIDs
	r.many("m", ids)
	check := func(want int64) {
		t.Helper()
		if err := r.store.checkpoint(); err != nil {
			t.Fatal(err)
		}
		r.log.bg.Wait()
		if covered := r.covered(); covered != want {
			t.Fatalf("covered is %d, want %d", covered, want)
		}
	}
	check(0)
	r.store.disk.heldIDs.Add(heldIDs)
	check(ids)
}

func (r *remembering) covered() int64 {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	if r.log.memory == nil {
		return 0
	}
	return r.log.memory.Covered()
}
