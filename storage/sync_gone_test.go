package storage

import (
	"context"
	"testing"
)

// TestAFsyncWhoseSegmentIsReplaced: between the choice of the active segment and its fsync the writer goes on
// to the next one, and a compaction puts another file in its place. No disk has failed.
func TestAFsyncWhoseSegmentIsReplaced(t *testing.T) {
	store := openTestStore(t, t.TempDir())
	l := openTestLog(t, store, compactConfig(2000))
	write := func() {
		staged, err := l.Stage([]Batch{keyed(t, CompressionNone, nil, 1, "k=v")}, 1)
		if err == nil {
			err = l.Write(staged)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write()
	l.take(&l.syncer)
	s, size, end := l.beginSync()
	for l.mu.Lock(); l.active() == s; l.mu.Lock() {
		l.mu.Unlock()
		write()
	}
	c := &compaction{log: l, ctx: context.Background(), opts: CompactOptions{HighWatermark: l.written}, plan: l.planCompaction(l.written, true, 0)}
	c.end = c.plan.dirty
	l.mu.Unlock()
	l.take(&l.cleaner)
	if err := c.run(); err != nil {
		t.Fatal(err)
	}
	l.releaseCleaner()
	l.endSync(s, size, end, l.syncSegment(s))
	l.releaseSyncer()
	if !s.gone || l.failure() != nil {
		t.Fatalf("the segment is gone: %v, %v", s.gone, l.failure())
	}
	mustAppend(t, l, keyed(t, CompressionNone, nil, 1, "k=w"))
	if end := l.DurableEnd(); end != l.WrittenEnd() {
		t.Errorf("durable up to %d of %d", end, l.WrittenEnd())
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}
