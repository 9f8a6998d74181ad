package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// errStarting and errDraining are why a broker isn't ready.
var (
	errStarting = errors.New("starting: recovering the logs")
	errDraining = errors.New("shutting down")
)

// gate stands before the handlers. The port is open from the first moment, so
// that a health check sees a live process while recovery runs; other calls are
// told to come back. An event stream waits: a browser's EventSource comes back after
// a cut, but any status other than 200 ends it for good, and a restart must not.
type gate struct {
	next  atomic.Pointer[http.Handler] // nil while starting; set once
	state atomic.Pointer[error]        // why not ready; nil: ready
	up    chan struct{}                // closed when next is set
	down  chan struct{}                // closed by drain
	once  sync.Once                    // closes down
}

func newGate() *gate {
	g := &gate{up: make(chan struct{}), down: make(chan struct{})}
	g.state.Store(&errStarting)
	return g
}

// open lets requests through.
func (g *gate) open(next http.Handler) {
	g.next.Store(&next)
	g.state.CompareAndSwap(&errStarting, nil)
	close(g.up)
}

// drain makes the broker not ready for good.
func (g *gate) drain() {
	g.state.Store(&errDraining)
	g.once.Do(func() { close(g.down) })
}

// ready is nil when the broker is ready, else the reason.
func (g *gate) ready() error {
	if err := g.state.Load(); err != nil {
		return *err
	}
	return nil
}

// ServeHTTP passes the request on, or answers for a broker that isn't up yet.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.next.Load() == nil && wantsEvents(r) {
		select {
		case <-g.up:
		case <-g.down:
		case <-r.Context().Done():
		}
	}
	if next := g.next.Load(); next != nil {
		(*next).ServeHTTP(w, r)
		return
	}
	if strings.TrimSuffix(r.URL.Path, "/") == "/healthz" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{\"status\":\"ok\"}\n"))
		return
	}
	body := whileStarting().body()
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write(body)
}

// wantsEvents tells what an EventSource asks for.
func wantsEvents(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(strings.ToLower(r.Header.Get("Accept")), "text/event-stream")
}

// refusal is a request that is turned away before the handlers see it. Slug, code
// and Kafka name are those of the handlers' table of errors.
type refusal struct {
	slug, title string
	code        int
	kafka       string
	detail, fix string
}

// whileStarting is the answer of a broker whose partitions have no leader yet.
func whileStarting() refusal {
	return refusal{"no-leader", "No leader right now", 50302, "LEADER_NOT_AVAILABLE",
		"This broker is starting: it is recovering its logs.", "Retry when GET /readyz answers 200."}
}

// whenFull is the answer to a connection that is one too many.
func whenFull() refusal {
	return refusal{"overloaded", "Broker is overloaded", 50306, "THROTTLING_QUOTA_EXCEEDED",
		"Every connection of this broker is taken.", "Retry after a second, reuse connections, or start the broker with a higher --max-connections."}
}

// body is the problem document; nothing was written.
func (r refusal) body() []byte {
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
	}{"/problems/" + r.slug, r.title, http.StatusServiceUnavailable, r.detail, r.code, r.detail, r.kafka, true, r.fix, "not_written"})
	if err != nil {
		panic(err) // plain strings and numbers
	}
	return body
}
