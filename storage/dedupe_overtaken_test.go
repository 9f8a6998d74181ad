package storage

import (
	"errors"
	"fmt"
	"testing"
)

// A run that was merged away between a look-up's two steps is gone, whatever part of it is asked for; that
// isn't damage, which would have the log learned anew.
func TestARunThatIsGoneIsNotDamaged(t *testing.T) {
	ix, id := testIndex(t, t.TempDir()), testPartition(1)
	k := runKey{class: 1, first: 0, next: 10}
	for _, run := range [][]byte{make([]byte, 3*pieceBytes), nil} {
		ix.noteDedupe(id, func(*logMeta) (dedupeNote, bool) { return dedupeNote{runs: map[runKey][]byte{k: run}}, true })
		if err := ix.flush(); err != nil {
			t.Fatal(err)
		}
	}
	done := ix.viewRuns(id, []runKey{k}, func(get readPiece) {
		for _, at := range []int{0, pieceBytes - 1, pieceBytes + 5, 3*pieceBytes - 1} {
			if _, err := get(k, at, at+1); !errors.Is(err, errRunUnread) {
				t.Errorf("at %d: %v", at, err)
			}
		}
	})
	if !done {
		t.Error("no look into the runs")
	}
}

// A flush that waited for its turn while the log is learned anew doesn't take what isn't learned yet for
// all there is.
func TestAFlushWhileTheLogIsLearned(t *testing.T) {
	r := newRemembering(t, t.TempDir()).open()
	for i := range 20 {
		r.send(message{fmt.Sprint("id", i), "v"})
	}
	err := r.log.maintain(func() error { // relearn, taken apart
		r.log.mu.Lock()
		r.log.learning = true
		r.log.mu.Unlock()
		if err := r.log.begin(nil, 0); err != nil {
			return err
		}
		r.log.flushMemory(0)
		return r.log.learn(0)
	})
	if err != nil || r.find("id10") != 10 {
		t.Errorf("%v; id10 is found at %d", err, r.find("id10"))
	}
	if r.reopen(); r.find("id10") != 10 {
		t.Errorf("after a restart id10 is found at %d", r.find("id10"))
	}
}

// What a compaction is about to take from the log has to be covered first, or it isn't taken: also when
// the memory can't be flushed just then.
func TestNoCompactionOfWhatIsNotCovered(t *testing.T) {
	r := newRemembering(t, t.TempDir()).open()
	for i := range 20 {
		r.send(message{fmt.Sprint("id", i), "v"})
	}
	r.log.mu.Lock()
	r.log.hole = 5
	r.log.mu.Unlock()
	if err := r.log.keepRemembering(10); !errors.Is(err, errLogChanged) {
		t.Errorf("with a hole: %v", err)
	}
	r.log.mu.Lock()
	r.log.hole = maxInt64
	imported := r.log.imported
	r.log.mu.Unlock()
	if imported != 0 {
		t.Errorf("the log is not asked below %d any more", imported)
	}
	if err := r.log.keepRemembering(10); err != nil {
		t.Error(err)
	}
	r.log.mu.Lock()
	covered := r.log.memory.Covered()
	r.log.mu.Unlock()
	if covered < 10 {
		t.Errorf("covered below %d", covered)
	}
}
