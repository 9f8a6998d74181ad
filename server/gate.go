package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
)

// errStarting and errDraining are why a broker isn't ready.
var (
	errStarting = errors.New("starting: recovering the logs")
	errDraining = errors.New("shutting down")
)

// gate stands before the handlers. The port is open from the first moment, so
// that a health check sees a live process while recovery runs; other calls are
// told to come back.
type gate struct {
	next  atomic.Pointer[http.Handler] // nil while starting; set once
	state atomic.Pointer[error]        // why not ready; nil: ready
}

func newGate() *gate {
	g := &gate{}
	g.state.Store(&errStarting)
	return g
}

// open lets requests through.
func (g *gate) open(next http.Handler) {
	g.next.Store(&next)
	g.state.CompareAndSwap(&errStarting, nil)
}

// drain makes the broker not ready for good.
func (g *gate) drain() { g.state.Store(&errDraining) }

// ready is nil when the broker is ready, else the reason.
func (g *gate) ready() error {
	if err := g.state.Load(); err != nil {
		return *err
	}
	return nil
}

// ServeHTTP passes the request on, or answers for a broker that isn't up yet.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.state.Load() == &errDraining {
		// Each connection ends behind its answer, so that no client sends a
		// request into one that is about to be cut. HTTP/2 says GOAWAY instead.
		w.Header().Set("Connection", "close")
	}
	if next := g.next.Load(); next != nil {
		(*next).ServeHTTP(w, r)
		return
	}
	if strings.TrimSuffix(r.URL.Path, "/") == "/healthz" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
		return
	}
	body := unavailable("This broker is starting: it is recovering its logs.", "Retry when GET /readyz answers 200.")
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write(body)
}

// unavailable is the problem body of a broker that takes no request now; nothing
// was written.
func unavailable(detail, fix string) []byte {
	body, err := json.Marshal(struct {
		Type      string `json:"type"`
		Title     string `json:"title"`
		Status    int    `json:"status"`
		Detail    string `json:"detail"`
		Code      int    `json:"error_code"`
		Message   string `json:"message"`
		Kafka     string `json:"kafka_error"`
		Retriable bool   `json:"retriable"`
		Fix       string `json:"fix"`
		Outcome   string `json:"outcome"`
	}{"/problems/broker-unavailable", "Broker unavailable", http.StatusServiceUnavailable, detail, 50305, detail,
		"BROKER_NOT_AVAILABLE", true, fix, "not_written"})
	if err != nil {
		panic(err) // plain strings and numbers
	}
	return body
}
