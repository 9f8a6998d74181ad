package handlers

import "sync"

// pools lend what requests use for a short while and is dear to make. The zero
// value is ready.
type pools struct {
	bodies  sync.Pool // of *requestBody
	plans   sync.Pool // of *plan
	parsers sync.Pool // of *recordParser
	gzip    sync.Pool // of *gzip.Reader
	zstd    sync.Pool // of *zstd.Decoder
}

// borrow takes a T from the pool, or makes one.
func borrow[T any](pool *sync.Pool) *T {
	if v, ok := pool.Get().(*T); ok {
		return v
	}
	return new(T)
}
