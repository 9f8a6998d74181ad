// Package handlers is the HTTP gate: what a request says, who may say it, and
// how the answer is said. Records go through as bytes; it touches no disk.
package handlers

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"highwater/replication"
)

// Config of the HTTP room.
type Config struct {
	Broker          *replication.Broker
	Logger          zerolog.Logger
	Metrics         *prometheus.Registry // one per broker; never the global one
	Version         string
	AdvertiseURL    string
	DefaultAcks     replication.Acks
	MaxRequestBytes int64 // of an expanded request body
	Now             func() time.Time
	// Draining is closed when the broker begins to shut down: streams end, waiting
	// polls are answered, new produces get 50305.
	Draining <-chan struct{}
	// Ready tells why the broker isn't ready, nil when it is.
	Ready func() error
}

// New returns the handler of the broker's one port.
func New(cfg Config) http.Handler {
	a := &api{cfg: cfg}
	r := chi.NewRouter()
	r.Use(middleware.RequestID, middleware.Recoverer)
	r.Put("/topics/{topic}", a.putTopic)
	r.Post("/topics/{topic}", a.produceBatch)
	r.Get("/topics/{topic}/partitions/{partition}/records", a.fetchRecords)
	r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	return r
}

type api struct{ cfg Config }
