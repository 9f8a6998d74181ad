package storage

import (
	"testing"
	"unsafe"
)

// TestIdleLogIsSmall bounds what a log costs that nobody uses: ten thousand of
// them must be cheap (P13).
func TestIdleLogIsSmall(t *testing.T) {
	const most = 1200 // bytes; the path, closures and the map entry come on top
	if n := unsafe.Sizeof(Log{}) + unsafe.Sizeof(segment{}); n > most {
		t.Fatalf("a log and its segment take %d bytes, more than %d", n, most)
	}
	s := newMemStore(t, LogConfig{})
	s.batches(3, 2)
	for _, stop := range []func(){s.kill, func() { must(t, s.log.close()) }} {
		stop()
		s.open()
		if s.log.staged != nil || s.log.spare != nil || s.log.round != nil || s.d.files.count != 0 {
			t.Fatal("a log that was opened holds memory for appends, or an open file")
		}
	}
}
