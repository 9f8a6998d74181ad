package storage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// What a log with many ids lets go without bringing it to the index.

// lettingGo is a log that keeps the newest 6,000 ids in memory, of which 5,000 are in the window.
func lettingGo(t *testing.T, fsync Fsync) *remembering {
	r := newRemembering(t, t.TempDir())
	r.opts = func(o *Options) { o.Fsync = fsync }
	r.cfg.DedupeAge, r.cfg.DedupeCount = -1, 5_000
	r.keep = 6_000
	return r.open()
}

func (r *remembering) judged() int64 {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return r.log.memory.Judged()
}

func (r *remembering) runs() int {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return len(r.log.memory.Runs())
}

// TestIDsThatLeaveTheWindowInMemoryAreLetGo: none of them is stored, the memory is bounded, and a start
// learns the window, and little more.
func TestIDsThatLeaveTheWindowInMemoryAreLetGo(t *testing.T) {
	r := lettingGo(t, FsyncCommit)
	for i := range 40 {
		r.many(fmt.Sprint(i), 1_000)
	}
	covered, held, runs := r.covered(), r.log.memory.TailLen(), r.runs()
	t.Logf("covered %d, judged by %d, %d held", covered, r.judged(), held)
	if runs != 0 || held > 5_000+2*testFlushIDs || covered != int64(40_000-held) || covered > 35_000 {
		t.Errorf("%d are held, %d covered, %d runs", held, covered, runs)
	}
	r.consistent()
	r.indexNow()
	r.kill()
	var read atomic.Int64
	r.opts = func(o *Options) { o.FS = countedFS{read: &read} }
	r.open()
	if size := r.log.SizeBytes(); read.Load() < size/10 || read.Load() > size/4 {
		t.Errorf("%d bytes of %d are read at a start", read.Load(), size)
	}
	if got := r.covered(); got != covered {
		t.Errorf("%d is covered after a start, %d was", got, covered)
	}
	r.consistent()
	if f := r.log.DedupeFigures(); f.Ids != 5_000 || f.EvictedEarly != 0 { // since it was opened
		t.Errorf("%+v", f)
	}
	r.log.CheckpointHighWatermark(r.log.DurableEnd())
	r.reopen() // a clean stop leaves nothing to learn
	if covered, runs := r.covered(), r.runs(); covered != 40_000 || runs != 1 {
		t.Errorf("%d is covered after a clean stop, %d runs", covered, runs)
	}
	r.consistent()
}

// TestACutBelowWhereIDsWereLetGo: what had left the window is back in it, and is learned anew; also when the
// process ends before that is in the index, and the log has grown again by then.
func TestACutBelowWhereIDsWereLetGo(t *testing.T) {
	for _, crash := range []bool{false, true} {
		r := lettingGo(t, FsyncCommit)
		for i := range 20 {
			r.many(fmt.Sprint(i), 1_000)
		}
		covered, judged := r.covered(), r.judged()
		to := judged - 2_000
		if oldest := to - 5_000; covered >= to || oldest >= covered || r.runs() != 0 {
			t.Fatalf("covered is %d, judged by %d", covered, judged)
		}
		r.log.mu.Lock()
		r.log.doubted = to // as the cut has it, before the memory is made anew
		r.log.mu.Unlock()
		r.store.index.update(r.id, r.log.describe)
		index := r.indexNow()
		if _, err := r.log.TruncateTo(to); err != nil {
			t.Fatal(err)
		}
		end := to
		if crash {
			for ; end < 20_000; end += 100 { // to where it was, with records that have no ids
				r.send(make([]message, 100)...)
			}
			r.kill()
			r.putIndex(index)
			r.open()
		}
		r.consistent()
		if f := r.log.DedupeFigures(); f.Ids != 5_000 || r.log.WrittenEnd() != end {
			t.Errorf("crash %v: %+v, the log ends at %d", crash, f, r.log.WrittenEnd())
		}
		oldest := to - 5_000
		for offset, want := range map[int64]int64{oldest - 1: -1, oldest: oldest, to - 1: to - 1, to: -1} {
			if got := r.find(fmt.Sprintf("%d-%d", offset/1_000, offset%1_000)); got != want {
				t.Errorf("crash %v: the id at %d is found at %d", crash, offset, got)
			}
		}
	}
}

// indexNow is the index's file with all that is noted.
func (r *remembering) indexNow() []byte {
	r.t.Helper()
	if err := r.store.index.flush(); err != nil {
		r.t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(r.dir, indexFileName))
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// putIndex puts an index in the place of that of a store that isn't open.
func (r *remembering) putIndex(b []byte) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, indexFileName), b, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// TestALogThatEndsBelowWhereIDsWereLetGo: a crash takes the log's end, which was never fsynced.
func TestALogThatEndsBelowWhereIDsWereLetGo(t *testing.T) {
	r := lettingGo(t, FsyncNever)
	for i := range 20 {
		r.many(fmt.Sprint(i), 1_000)
	}
	covered, judged := r.covered(), r.judged()
	to := judged - 2_000
	if covered >= to || to-5_000 >= covered {
		t.Fatalf("covered is %d, judged by %d", covered, judged)
	}
	index := r.indexNow()
	if _, err := r.log.TruncateTo(to); err != nil {
		t.Fatal(err)
	}
	r.kill()
	r.putIndex(index)
	r.open()
	if end := r.log.WrittenEnd(); end != to {
		t.Fatalf("the log ends at %d", end)
	}
	r.consistent()
	if got, want := r.find(fmt.Sprintf("%d-%d", (to-5_000)/1_000, (to-5_000)%1_000)), to-5_000; got != want {
		t.Errorf("the oldest id is found at %d instead of %d", got, want)
	}
	// The next start must learn anew, too, though the log has grown above that.
	for end := to; end < 20_000; end += 100 {
		r.send(make([]message, 100)...)
	}
	r.kill()
	r.open()
	r.consistent()
	if f := r.log.DedupeFigures(); f.Ids != 5_000 {
		t.Errorf("%+v", f)
	}
}

// TestAFewIDsAmongMuchElseAreNotKept: the log would be read again at a start for little.
func TestAFewIDsAmongMuchElseAreNotKept(t *testing.T) {
	r := newRemembering(t, t.TempDir())
	r.keep = 6_000
	r.open()
	r.many("m", testFlushIDs)
	r.log.mu.Lock()
	_, dense := r.log.flushRule(r.log.flushable())
	r.log.unflushed = denseBytes * int64(r.log.memory.TailLen())
	_, sparse := r.log.flushRule(r.log.flushable())
	r.log.unflushed = flushEveryBytes
	due, _ := r.log.flushRule(r.log.flushable())
	r.log.mu.Unlock()
	if dense != 6_000 || sparse != 0 || !due {
		t.Errorf("%d are kept of a log that has many, %d of another one; it is flushed: %v", dense, sparse, due)
	}
}

// TestACutOfALogThatBeginsInTheWindow: what is remembered of records below the log start is as old as it was,
// also where the ids right behind it had been let go.
func TestACutOfALogThatBeginsInTheWindow(t *testing.T) {
	r := newRemembering(t, t.TempDir())
	r.opts = func(o *Options) { o.Fsync = FsyncNever }
	r.cfg.DedupeCount, r.keep = 5_000, 6_000
	r.open()
	for i := range 10 {
		r.many(fmt.Sprint(i), 1_000)
	}
	if err := r.log.AdvanceStart(10_000); err != nil {
		t.Fatal(err)
	}
	for i := 10; i < 17; i++ {
		r.many(fmt.Sprint(i), 1_000)
	}
	const to = 12_000
	if covered, judged := r.covered(), r.judged(); covered < 11_000 || judged <= to {
		t.Fatalf("covered is %d, judged by %d", covered, judged)
	}
	if _, err := r.log.TruncateTo(to); err != nil {
		t.Fatal(err)
	}
	r.consistent()
	for offset := int64(to - 5_001); offset < to; offset += 50 {
		want := offset
		if offset < to-5_000 {
			want = -1
		}
		if got := r.find(fmt.Sprintf("%d-%d", offset/1_000, offset%1_000)); got != want {
			t.Fatalf("the id at %d is found at %d", offset, got)
		}
	}
}

// TestAFlushThatWaitsLooksAgain: when its turn comes there may be room again.
func TestAFlushThatWaitsLooksAgain(t *testing.T) {
	r := lettingGo(t, FsyncCommit)
	r.many("m", 4_000)
	r.store.disk.flushes <- struct{}{} // another log's is under way
	r.store.disk.heldIDs.Add(heldIDs)
	r.send(numbered("n", 0, 100)...)
	r.store.disk.heldIDs.Add(-heldIDs)
	<-r.store.disk.flushes
	r.log.bg.Wait()
	if n := r.log.memory.TailLen(); n != 4_100 || r.runs() != 0 {
		t.Errorf("%d ids are held, in %d runs are others", n, r.runs())
	}
}

// TestRetentionDoesNotMakeALogDense: a flush of a little leaves most of the log to be read at a start.
func TestRetentionDoesNotMakeALogDense(t *testing.T) {
	r := newRemembering(t, t.TempDir())
	r.keep = 6_000
	r.open()
	big := strings.Repeat("x", 4000)
	for i := range 100 {
		messages := numbered(fmt.Sprint(i), 0, 10)
		for j := range messages {
			messages[j].value = big
		}
		r.send(messages...)
	}
	if err := r.log.AdvanceStart(10); err != nil {
		t.Fatal(err)
	}
	r.log.mu.Lock()
	_, keep := r.log.flushRule(r.log.flushable())
	unflushed := r.log.unflushed
	r.log.mu.Unlock()
	if size := r.log.SizeBytes(); keep != 0 || unflushed < size*9/10 || unflushed > size {
		t.Errorf("%d are kept, %d of %d bytes are behind what is covered", keep, unflushed, size)
	}
}
