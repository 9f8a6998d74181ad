package handlers

import "sync"

const (
	// readBytes is how much one read takes from a log at once: what a fetch gives
	// by default, and enough that the cost of a read vanishes.
	readBytes = 1 << 20
	// maxPooledBytes is the largest buffer that is kept for the next request. A
	// rare huge record must not stay in memory for ever.
	maxPooledBytes = 4 << 20
)

// buffers lends byte buffers to requests while they read and write, never while
// they wait. The zero value is ready.
type buffers struct{ pool sync.Pool }

func (b *buffers) get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return (*p)[:0]
	}
	return nil
}

// put takes back a buffer, or one that was made in its place.
func (b *buffers) put(buf []byte) {
	if cap(buf) > 0 && cap(buf) <= maxPooledBytes {
		b.pool.Put(&buf)
	}
}
