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
