package replication

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"highwater/replication/wire"
)

// However many ask, one read serves all who came while another was under way; and
// nobody gets one that began before it asked.
func TestSharedReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newReadShare()
		var mu sync.Mutex
		calls, now := 0, int64(0) // now is what the log's end is at the moment
		release := make(chan struct{})
		read := func(ctx context.Context) (wire.ReadResult, error) {
			mu.Lock()
			calls++
			seen := now
			mu.Unlock()
			<-release
			return wire.ReadResult{HighWatermark: seen}, nil
		}
		var readers sync.WaitGroup
		ask := func(n int, least int64) {
			for range n {
				readers.Go(func() {
					res, err := s.read(context.Background(), readKey{offset: 1}, read, read)
					if err != nil || res.HighWatermark < least {
						t.Errorf("got %d %v, want at least %d", res.HighWatermark, err, least)
					}
				})
			}
			synctest.Wait()
		}
		ask(1, 0)
		mu.Lock()
		now = 1 // something happens: all are woken, and must see it
		mu.Unlock()
		ask(1000, 1)
		readers.Go(func() { _, _ = s.read(context.Background(), readKey{offset: 2}, read, read) }) // another read
		synctest.Wait()
		left, cancel := context.WithCancel(context.Background())
		readers.Go(func() {
			if _, err := s.read(left, readKey{offset: 1}, read, read); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		synctest.Wait()
		cancel() // the others don't mind
		synctest.Wait()
		close(release)
		readers.Wait()
		s.running.Wait()
		if calls != 3 {
			t.Errorf("%d reads, want 3", calls)
		}
		if len(s.byKey) != 0 {
			t.Errorf("%d reads are remembered", len(s.byKey))
		}
	})
}
