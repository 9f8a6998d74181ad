package replication

import (
	"context"
	"sync"

	"highwater/replication/wire"
)

// readShare lets readers who want the very same of another broker share the asking:
// ten thousand tails at the end of one partition are woken together, and all want
// the next record.
//
// Whoever asks gets what was read after it asked, never what was on its way
// already: it was woken by something that the read must see. So while one read is
// under way all who come wait for the next, which one of them is enough for.
type readShare struct {
	mu      sync.Mutex // guards byKey and each turn's next
	byKey   map[readKey]*readTurn
	running sync.WaitGroup
}

// readKey is what makes two reads the same.
type readKey struct {
	wire.TopicPartition
	url       string
	offset    int64
	epoch     int32 // -1: none
	isolation Isolation
	maxBytes  int
}

// readTurn is a read under way, and who waits for the one after it.
type readTurn struct{ next *sharedRead }

// sharedRead is a read for all who wait for done.
type sharedRead struct {
	done   chan struct{} // closed when result and err are there
	result wire.ReadResult
	err    error
}

func newReadShare() *readShare { return &readShare{byKey: map[readKey]*readTurn{}} }

// read is own, called at once, or else what a call of common gives that begins from
// now on; its Data is others', too.
func (s *readShare) read(ctx context.Context, key readKey, own, common func(ctx context.Context) (wire.ReadResult, error)) (res wire.ReadResult, err error) {
	s.mu.Lock()
	turn := s.byKey[key]
	if turn == nil {
		turn = &readTurn{}
		s.byKey[key] = turn
		s.mu.Unlock()
		res, err = own(ctx)
		s.end(key, turn, common)
		return res, err
	}
	if turn.next == nil {
		turn.next = &sharedRead{done: make(chan struct{})}
	}
	wait := turn.next
	s.mu.Unlock()
	select {
	case <-wait.done:
		return wait.result, wait.err
	case <-ctx.Done():
		return wire.ReadResult{}, ctx.Err()
	}
}

// end is the end of a read: the next one begins if somebody waits for it. That is
// nobody's own, and so nobody's leaving ends it.
func (s *readShare) end(key readKey, turn *readTurn, common func(ctx context.Context) (wire.ReadResult, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := turn.next
	if next == nil {
		delete(s.byKey, key)
		return
	}
	turn.next = nil
	s.running.Go(func() {
		next.result, next.err = common(context.Background()) // bounded by remoteReadTimeout
		close(next.done)
		s.end(key, turn, common)
	})
}
