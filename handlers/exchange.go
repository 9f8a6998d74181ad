package handlers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/rs/zerolog"
)

// defaultWriteTimeout is how long a client may take to accept one write of an
// answer. It rolls: a stream lives as long as its reader reads.
const defaultWriteTimeout = 30 * time.Second

// exchange is one request's answer under way. It is the http.ResponseWriter that
// every handler gets.
type exchange struct {
	http.ResponseWriter
	start    time.Time
	id       string // request id, also in X-Request-Id
	route    string // pattern of the table, "" while unrouted
	writes   bool   // errors of this request tell their outcome
	frequent bool   // a success is no news
	status   int    // 0 until the header is written
	bytes    int64  // of the body so far
	touched  bool   // the request body was read from
	drained  bool   // … to its end
	detached bool   // a stream has taken the connection, and tells its end itself
	err      error  // what a 5xx came from, for the log
	// patience is Config.WriteTimeout; 0, in what has no connection: none is kept.
	patience time.Duration
}

// Unwrap is for http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// WriteHeader notes the first final status.
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 && status >= http.StatusOK {
		x.status = status
		x.rollWriteDeadline()
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write counts the bytes and gives the client a new patience.
func (x *exchange) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	} else {
		x.rollWriteDeadline()
	}
	n, err := x.ResponseWriter.Write(p)
	x.bytes += int64(n)
	return n, err
}

// FlushError sends what was written so far.
func (x *exchange) FlushError() error {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	x.rollWriteDeadline()
	return http.NewResponseController(x.ResponseWriter).Flush()
}

// Flush is FlushError for those who know only http.Flusher.
func (x *exchange) Flush() { _ = x.FlushError() }

func (x *exchange) rollWriteDeadline() {
	if x.patience == 0 {
		return
	}
	// A transport without deadlines (a test recorder) has no slow reader either.
	_ = http.NewResponseController(x.ResponseWriter).SetWriteDeadline(time.Now().Add(x.patience))
}

// Header values that every answer carries. They are shared: never appended to.
var (
	nosniff         = []string{"nosniff"}
	closeConnection = []string{"close"}
	// lockedDown is the policy of answers that are no pages.
	lockedDown = []string{"default-src 'none'; frame-ancestors 'none'"}
)

// ServeHTTP is the outermost frame: request id, panics, log line, metrics.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{ResponseWriter: w, patience: a.cfg.WriteTimeout, start: time.Now(), id: requestID(r)}
	h := w.Header()
	h["X-Request-Id"] = []string{x.id}
	h["X-Content-Type-Options"] = nosniff
	h["Content-Security-Policy"] = lockedDown
	if a.draining() {
		h["Connection"] = closeConnection
	}
	a.metrics.inFlight.Inc()
	defer func() {
		if p := recover(); p != nil {
			a.recovered(x, r, p)
		}
		if x.detached {
			return
		}
		a.metrics.inFlight.Dec()
		a.observe(x, r.Method, r.RemoteAddr, time.Since(x.start))
		if x.broken() {
			panic(http.ErrAbortHandler) // the answer is cut: the client must see that
		}
	}()
	canonicalRequest, err := canonical(r)
	if err != nil {
		a.fail(x, r, err)
		return
	}
	a.mux.ServeHTTP(x, canonicalRequest)
}

// errAborted ends a connection whose answer can't be finished.
var errAborted = errors.New("handlers: answer cut off")

func (x *exchange) broken() bool { return errors.Is(x.err, errAborted) }

// recovered turns a panic into a 500 that tells nothing of it.
func (a *api) recovered(x *exchange, r *http.Request, p any) {
	if p == http.ErrAbortHandler { //nolint:errorlint // the value itself is panicked with
		x.err = errAborted
		return
	}
	a.logPanic(x, p)
	a.fail(x, r, errPanicked)
}

func (a *api) logPanic(x *exchange, p any) {
	what := fmt.Sprintf("%T", p) // its text may hold anything
	if fault, ok := p.(runtime.Error); ok {
		what = fault.Error() // an index, a nil pointer: the runtime's own words
	}
	// The stack names functions and arguments' addresses, no bytes of a record.
	a.cfg.Logger.Error().Str("request_id", x.id).Str("route", x.route).Str("panic", what).
		Bytes("stack", debug.Stack()).Msg("handler panicked")
}

// observe writes the request's log line and counts it.
func (a *api) observe(x *exchange, method, remote string, took time.Duration) {
	route := x.route
	if route == "" {
		route = "unmatched"
	}
	status := x.status
	if status == 0 {
		status = http.StatusOK // net/http's own default
	}
	a.metrics.observe(route, method, status, x.bytes, took)
	level := zerolog.InfoLevel
	switch {
	case status == http.StatusInternalServerError:
		level = zerolog.ErrorLevel
	case status > http.StatusInternalServerError: // not now: draining, full, timed out
		level = zerolog.WarnLevel
	case x.frequent && status < http.StatusBadRequest && x.err == nil:
		level = zerolog.DebugLevel
	}
	event := a.cfg.Logger.WithLevel(level)
	if event == nil {
		return
	}
	event = event.Str("request_id", x.id).Str("method", knownMethod(method)).Str("route", route).Int("status", status).
		Int64("bytes", x.bytes).Dur("took_ms", took).Str("remote", remote)
	if x.err != nil {
		event = event.AnErr("cause", x.err)
	}
	event.Msg("request")
}

// maxRequestIDBytes bounds a client's request id.
const maxRequestIDBytes = 128

// requestID is the client's X-Request-Id when it is sane, else a new one.
func requestID(r *http.Request) string {
	if ids := r.Header["X-Request-Id"]; len(ids) == 1 && saneRequestID(ids[0]) {
		return ids[0]
	}
	return strconv.FormatUint(rand.Uint64()|1<<63, 36) // one length, unique enough to find a line
}

func saneRequestID(id string) bool {
	if id == "" || len(id) > maxRequestIDBytes {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case unreserved(c), c == ':', c == '/', c == '+', c == '=', c == '@':
		default:
			return false
		}
	}
	return true
}
