// Package handlers is the HTTP gate: what a request says, who may say it, and
// how the answer is said. Records go through as bytes; it touches no disk.
package handlers

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"highwater/openapi"
	"highwater/replication"
	"highwater/replication/group"
	"highwater/web"
)

// DefaultMaxRequestBytes bounds an expanded request body when Config leaves it
// open: room for a bulk load of 100 MB in one request.
const DefaultMaxRequestBytes = 128 << 20

// Config of the HTTP room.
type Config struct {
	Broker       *replication.Broker
	Groups       *group.Groups
	Logger       zerolog.Logger
	Metrics      *prometheus.Registry // one per broker; never the global one
	Version      string
	AdvertiseURL string
	// PublicURL is where clients reach the brokers when a proxy stands in between, as
	// the beginning of addresses in answers; "": where the request came in.
	PublicURL       string
	DefaultAcks     replication.Acks
	CommitMeaning   CommitMeaning // of the member offset in a commit
	MaxRequestBytes int64         // of an expanded request body; 0: DefaultMaxRequestBytes
	Now             func() time.Time
	// Draining is closed when the broker begins to shut down: streams end, waiting
	// polls are answered, new produces get 50305. nil: never.
	Draining <-chan struct{}
	// LastCall ends when requests can't be waited for any longer: it is the parent of
	// their contexts, and ends appends too, which a client's leaving doesn't. nil: never.
	LastCall context.Context
	// Streams counts the goroutines of tails that have left their request behind,
	// which Draining ends: wait for it after the HTTP server has shut down. nil:
	// every tail stays in its request, at three times the memory.
	Streams *sync.WaitGroup
	// WriteTimeout is how long a client may take to accept one write of an answer,
	// however long the answer takes as a whole; 0: 30 s.
	WriteTimeout time.Duration
	// TailHeartbeat is how long an event stream may be silent before a comment is
	// sent; 0: 15 s.
	TailHeartbeat time.Duration
	// Ready tells why the broker isn't ready, nil when it is.
	Ready func() error
}

// New returns the handler of the broker's one port.
func New(cfg Config) http.Handler {
	return newAPI(cfg)
}

func newAPI(cfg Config) *api {
	if cfg.Groups == nil {
		cfg.Groups = &group.Groups{} // nobody coordinates any
	}
	if cfg.LastCall == nil {
		cfg.LastCall = context.Background()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.WriteTimeout <= 0 {
		cfg.WriteTimeout = defaultWriteTimeout
	}
	if cfg.TailHeartbeat <= 0 {
		cfg.TailHeartbeat = defaultHeartbeat
	}
	if cfg.MaxRequestBytes <= 0 {
		cfg.MaxRequestBytes = DefaultMaxRequestBytes
	}
	if cfg.Metrics == nil {
		cfg.Metrics = prometheus.NewRegistry()
	}
	a := &api{
		cfg:      cfg,
		patience: bodyPatience,
		metrics:  newMetrics(cfg.Metrics),
		waiters:  limit{most: maxWaiters},
		reads:    limit{most: maxReadBytesInFlight},
		bodies:   limit{most: max(maxBodyBytesInFlight, 2*cfg.MaxRequestBytes)},
	}
	a.metrics.watch(a)
	a.document = newDocument(cfg.AdvertiseURL)
	a.docs = newSite(openapi.UI(), docsPolicy)
	a.console = newSite(web.Console(), consolePolicy)
	a.mux = newMux(a, a.routes())
	return a
}

// api is what all handlers share. It is immutable but for its counters.
type api struct {
	cfg      Config
	mux      http.Handler
	patience time.Duration // with slow request bodies
	pools    pools
	metrics  *metrics
	// The pages and the written contract, as they are sent.
	document      *staticFile
	docs, console *site
	waiters       limit         // of requests that wait: long-polls and tails
	bodies        limit         // of expanded request bodies held in memory, in bytes
	reads         limit         // of records being read and sent, in bytes
	buffers       buffers       // of reads: batches and rendered records
	sticky        atomic.Uint32 // spreads the keyless batches over the partitions
}

// draining says whether the broker has begun to shut down.
func (a *api) draining() bool {
	select {
	case <-a.cfg.Draining:
		return true
	default:
		return false
	}
}
