package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"highwater/handlers"
)

// errDraining is why a broker that ends isn't ready.
var errDraining = errors.New("shutting down")

// startPatience is how long a request waits for the end of a start before it is
// told to come back: a restart within a cluster takes less, so that its clients
// see no error. A poll of a consumer group is held for no longer than its own time.
const startPatience = 10 * time.Second

// gate stands before the handlers. The port is open from the first moment, so that
// a health check sees a live process while the broker starts; other requests wait
// for its end, and are told to come back if that takes long. An event stream waits
// without limit: a browser's EventSource comes back after a cut, but any status
// other than 200 ends it for good, and a restart must not.
type gate struct {
	patience time.Duration                 // of a request with a start
	next     atomic.Pointer[http.Handler]  // nil while starting; set once
	up       chan struct{}                 // closed when next is set
	down     chan struct{}                 // closed by drain
	once     sync.Once                     // closes down
	held     atomic.Pointer[chan struct{}] // requests wait for its close; nil: they don't

	mu     sync.Mutex // guards reason
	reason error      // why not ready; nil: ready
}

func newGate() *gate {
	return &gate{patience: startPatience, up: make(chan struct{}), down: make(chan struct{}), reason: errors.New("starting")}
}

// phase says what the start is about.
func (g *gate) phase(what string) { g.become(errors.New("starting: " + what)) }

// become sets the reason, if the drain hasn't begun.
func (g *gate) become(reason error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !errors.Is(g.reason, errDraining) {
		g.reason = reason
	}
}

// open lets requests through.
func (g *gate) open(next http.Handler) {
	g.next.Store(&next)
	g.become(nil)
	close(g.up)
}

// drain makes the broker not ready for good.
func (g *gate) drain() {
	g.become(errDraining)
	g.once.Do(func() { close(g.down) })
}

// hold has requests wait that come from now on, until release.
func (g *gate) hold() (release func()) {
	until := make(chan struct{})
	g.held.Store(&until)
	return func() { close(until) }
}

// ready is nil when the broker is ready, else the reason.
func (g *gate) ready() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reason
}

// draining tells whether the drain has begun.
func (g *gate) draining() bool {
	select {
	case <-g.down:
		return true
	default:
		return false
	}
}

// ServeHTTP passes the request on, or answers for a broker that isn't up yet.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.next.Load() == nil {
		switch path := strings.TrimSuffix(r.URL.Path, "/"); {
		case path == "/healthz" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte("{\"status\":\"ok\"}\n"))
			return
		case path == "/readyz" || path == "/metrics": // who asks these wants to know how it is now
		default:
			came := time.Now()
			g.wait(r)
			r = r.WithContext(handlers.Arrived(r.Context(), came))
		}
	}
	if held := g.held.Load(); held != nil {
		select {
		case <-*held:
		case <-r.Context().Done():
		}
	}
	if next := g.next.Load(); next != nil {
		(*next).ServeHTTP(w, r)
		return
	}
	body := whileStarting(g.ready()).body()
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write(body)
}

// leastPatience is what even a request that doesn't want to wait is given: most
// starts are over by then.
const leastPatience = 500 * time.Millisecond

// ownPatience is how long a request says that it may take: a produce by timeout_ms,
// a read by timeout, a poll of a group as it says itself.
func ownPatience(r *http.Request) time.Duration {
	if d, ok := handlers.PollTime(r); ok {
		return d
	}
	query := r.URL.Query()
	for _, name := range [...]string{"timeout_ms", "timeout"} {
		if ms, err := strconv.ParseUint(query.Get(name), 10, 31); err == nil {
			return max(time.Duration(ms)*time.Millisecond, leastPatience)
		}
	}
	return startPatience
}

// wait returns when the start ends, one way or the other, or takes too long for
// the request.
func (g *gate) wait(r *http.Request) {
	var late <-chan time.Time // never, for a stream
	if !wantsEvents(r) {
		timer := time.NewTimer(min(g.patience, ownPatience(r)))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-g.up:
	case <-g.down:
	case <-r.Context().Done():
	case <-late:
	}
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

// whileStarting is the answer of a broker whose partitions have no leader yet, or
// never will have.
func whileStarting(reason error) refusal {
	return refusal{"no-leader", "No leader right now", 50302, "LEADER_NOT_AVAILABLE",
		"This broker is " + reason.Error() + ".", "Retry when GET /readyz answers 200."}
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
