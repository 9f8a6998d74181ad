package handlers

import (
	"sync/atomic"
	"time"
)

const (
	// maxWaiters bounds the requests that wait for records at once. Each costs a
	// connection, two goroutines and some 16 KiB.
	maxWaiters = 20_000
	// maxBodyBytesInFlight bounds the memory of all request bodies together; it is
	// raised to hold two of the largest.
	maxBodyBytesInFlight = 512 << 20
	// maxReadBytesInFlight bounds the memory of all records that are being read and
	// sent to clients, who may be slow to take them.
	maxReadBytesInFlight = 512 << 20
	// crowdedReadBytes is what a read may take when that is used up: readers get
	// smaller pages then, not errors.
	crowdedReadBytes = 32 << 10
	// retryAfter is what an overloaded or leaderless broker asks clients to wait.
	retryAfter = 1 * time.Second
)

// limit counts something that may not go above most.
type limit struct {
	most int64
	used atomic.Int64
}

// take reserves n and reports whether there was room for it.
func (l *limit) take(n int64) bool {
	if l.used.Add(n) > l.most {
		l.used.Add(-n)
		return false
	}
	return true
}

func (l *limit) give(n int64) { l.used.Add(-n) }

// enterWait counts a request that is about to wait. Too many: *overloadedError.
// release must be called when the wait is over.
func (a *api) enterWait() (release func(), err error) {
	if !a.waiters.take(1) {
		return nil, &overloadedError{what: "requests that wait for records"}
	}
	return func() { a.waiters.give(1) }, nil
}

// ration is one answer's part of the memory for reads. It is held from the read
// until the client has taken the answer, never while a request waits.
type ration struct {
	of   *limit
	held int64
}

// draw says how many bytes may be read when want are wanted.
func (n *ration) draw(want int64) int64 {
	if n.held < want {
		if !n.of.take(want - n.held) {
			return min(want, max(n.held, crowdedReadBytes))
		}
		n.held = want
	}
	return want
}

func (n *ration) giveBack() {
	n.of.give(n.held)
	n.held = 0
}
