package handlers

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	// bodyPatience is how long a request body may take before it must have come
	// at minBodyRate on the average (H17).
	bodyPatience = 30 * time.Second
	// minBodyRate, bytes/s: below it a body is a way to hold a connection.
	minBodyRate = 1 << 10
	// firstBodyBuffer is the room for a body of unknown length.
	firstBodyBuffer = 16 << 10
	// maxPooledBody: larger buffers go back to the garbage collector.
	maxPooledBody = 4 << 20
	// maxZstdWindow is what RFC 8878 asks every decoder to support; more would let
	// a small request allocate a lot.
	maxZstdWindow = 8 << 20
)

// requestBody is a whole, expanded request body in pooled memory.
type requestBody struct {
	data   []byte
	api    *api
	budget int64 // of api.bodies
}

// release gives the memory back. Nothing may alias data after it.
func (b *requestBody) release() {
	a := b.api
	a.bodies.give(b.budget)
	b.api, b.budget = nil, 0
	if cap(b.data) > maxPooledBody {
		b.data = nil
	}
	b.data = b.data[:0]
	a.pools.bodies.Put(b)
}

// readBody reads and expands r's body, at most limit bytes of it (413/41301).
// Other errors: 40001 for a broken encoding or a cut-off body, 40801 for one that
// comes too slowly, 41501 for an unknown encoding, *overloadedError.
func (a *api) readBody(w http.ResponseWriter, r *http.Request, limit int64) (*requestBody, error) {
	encoding, err := contentEncoding(r)
	if err != nil {
		return nil, err
	}
	if r.ContentLength > limit {
		return nil, bodyTooLarge(limit)
	}
	b := borrow[requestBody](&a.pools.bodies)
	b.api = a
	if err := b.fill(w.(*exchange), r, encoding, limit); err != nil {
		b.release()
		return nil, err
	}
	a.metrics.received.Add(float64(len(b.data)))
	return b, nil
}

func bodyTooLarge(limit int64) *requestError {
	return &requestError{code: codeBodyTooLarge, detail: fmt.Sprintf("The request body is larger than %d bytes after decompression.", limit),
		fix: "Send it in several requests, or raise --max-request-bytes."}
}

func (b *requestBody) fill(x *exchange, r *http.Request, encoding string, limit int64) error {
	if r.Body == nil || r.Body == http.NoBody {
		b.data = b.data[:0]
		return nil
	}
	x.touched = true
	plain := b.api.paced(x, r, limit+1)
	size := min(firstBodyBuffer, limit+1)
	if r.ContentLength >= 0 && encoding == "" {
		size = r.ContentLength + 1 // one more, so that EOF is seen without growing
	}
	if err := b.reserve(size); err != nil {
		return err
	}
	src, done, err := b.api.pools.expand(plain, encoding)
	if err == nil {
		err = b.readAll(src, limit)
		done()
	}
	x.drained = plain.ended
	plain.finish()
	return bodyError(err, encoding, limit)
}

// reserve makes room for size bytes in all, counted against the broker's budget.
func (b *requestBody) reserve(size int64) error {
	if size > b.budget {
		if !b.api.bodies.take(size - b.budget) {
			return &overloadedError{what: "bytes of request bodies"}
		}
		b.budget = size
	}
	if int64(cap(b.data)) < size {
		grown := make([]byte, len(b.data), size)
		copy(grown, b.data)
		b.data = grown
	}
	return nil
}

func (b *requestBody) readAll(src io.Reader, limit int64) error {
	for {
		if int64(len(b.data)) == b.budget {
			if err := b.reserve(min(2*b.budget, limit+1)); err != nil {
				return err
			}
		}
		n, err := src.Read(b.data[len(b.data):b.budget])
		b.data = b.data[:len(b.data)+n]
		if int64(len(b.data)) > limit {
			return errBodyLimit
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

var errBodyLimit = errors.New("handlers: body above its limit")

// bodyError says what went wrong while a body was read.
func bodyError(err error, encoding string, limit int64) error {
	if err == nil {
		return nil
	}
	var overloaded *overloadedError
	switch {
	case errors.As(err, &overloaded):
		return overloaded
	case errors.Is(err, errBodyLimit), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return bodyTooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &requestError{code: codeSlowRequest, detail: fmt.Sprintf("The request body came too slowly: after %s it must come at %d bytes per second or more on the average.", bodyPatience, minBodyRate)}
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return malformed("The body's zstd window is larger than %d bytes.", maxZstdWindow)
	case encoding != "":
		return malformed("The body is not whole, valid %s.", encoding)
	}
	return malformed("The body ended before its announced length, or its chunks are malformed.")
}

// contentEncoding is "", "gzip" or "zstd".
func contentEncoding(r *http.Request) (string, error) {
	lines := r.Header["Content-Encoding"]
	if len(lines) == 0 {
		return "", nil
	}
	switch coding := strings.ToLower(strings.TrimSpace(strings.Join(lines, ","))); coding {
	case "", "identity":
		return "", nil
	case "gzip", "x-gzip":
		return "gzip", nil
	case "zstd":
		return "zstd", nil
	default:
		e := unsupportedType("The Content-Encoding " + shown(coding) + " is not read here: gzip or zstd, once.")
		e.fix = "Send the body plain, or with Content-Encoding: gzip or zstd."
		return "", e
	}
}

// expand returns the plain form of src. done must be called after the last read.
func (ps *pools) expand(src io.Reader, encoding string) (plain io.Reader, done func(), err error) {
	switch encoding {
	case "gzip":
		z := borrow[gzip.Reader](&ps.gzip)
		if err := z.Reset(src); err != nil {
			ps.gzip.Put(z)
			return nil, nil, err
		}
		return z, func() { ps.gzip.Put(z) }, nil
	case "zstd":
		z, _ := ps.zstd.Get().(*zstd.Decoder)
		if z == nil {
			z, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
			if err != nil {
				return nil, nil, err
			}
		}
		if err := z.Reset(src); err != nil {
			z.Close()
			return nil, nil, err
		}
		return z, func() {
			if z.Reset(nil) == nil { // lets go of src
				ps.zstd.Put(z)
			}
		}, nil
	}
	return src, func() {}, nil
}

// pacedReader reads a body from the connection under a deadline that moves on
// with what has come, and no further.
type pacedReader struct {
	src  io.Reader
	rc   *http.ResponseController
	from time.Time // when all would have to be there if nothing more came
	read int64
	left int64 // bytes that may still come; also bounds what expands to nothing
	// ended: the source said that this was all.
	ended bool
}

func (a *api) paced(x *exchange, r *http.Request, most int64) *pacedReader {
	return &pacedReader{src: r.Body, rc: http.NewResponseController(x.ResponseWriter), from: time.Now().Add(a.patience), left: most}
}

func (p *pacedReader) Read(dst []byte) (int, error) {
	if p.left <= 0 {
		return 0, errBodyLimit
	}
	// A transport without deadlines (a test recorder) has no slow client either.
	_ = p.rc.SetReadDeadline(p.from.Add(time.Duration(p.read/minBodyRate) * time.Second))
	n, err := p.src.Read(dst[:min(int64(len(dst)), p.left)])
	p.read += int64(n)
	p.left -= int64(n)
	p.ended = p.ended || err == io.EOF
	return n, err
}

// finish takes the deadline off the connection again.
func (p *pacedReader) finish() { _ = p.rc.SetReadDeadline(time.Time{}) }

// maxIgnoredBody bounds the body of a request that has no use for one.
const maxIgnoredBody = 256 << 10

// discardBody reads away the body of a request that has no use for one.
func (a *api) discardBody(x *exchange, r *http.Request) error {
	refused := malformed("This resource has no use for a request body, and this one is larger than %d bytes, cut off or too slow to be ignored.", maxIgnoredBody)
	if r.ContentLength > maxIgnoredBody {
		return refused
	}
	x.touched = true
	p := a.paced(x, r, maxIgnoredBody+1)
	n, err := io.Copy(io.Discard, p)
	x.drained = p.ended
	p.finish()
	if err != nil || n > maxIgnoredBody {
		return refused
	}
	return nil
}

// acceptedTypes refuses a request whose content type isn't one of known, "" being
// no type at all. hint is what to do instead.
func acceptedTypes(got string, known []string, hint string) error {
	if slices.Contains(known, got) {
		return nil
	}
	e := unsupportedType("The Content-Type " + shown(got) + " is not read here. Accepted: " + strings.Join(slices.DeleteFunc(slices.Clone(known), func(s string) bool { return s == "" }), ", ") + ".")
	e.fix = hint
	return e
}
