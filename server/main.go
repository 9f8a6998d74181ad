// Command server is the Highwater broker.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"highwater/handlers"
	"highwater/replication"
	"highwater/replication/controller"
	"highwater/storage"
)

// main starts the broker.
//
//	@title					Highwater
//	@version				1
//	@description			An HTTP broker that keeps partitioned logs with Kafka's reliability model. Paths and field names are a superset of the Kafka REST v2 dialect.
//	@license.name			Apache-2.0
//	@license.url			https://www.apache.org/licenses/LICENSE-2.0
//	@BasePath				/
//	@schemes				http
//	@tag.name				produce
//	@tag.description		Append records.
//	@tag.name				fetch
//	@tag.description		Read records: by offset or time, waiting, or as an endless tail.
//	@tag.name				topics
//	@tag.description		Create, look at, change and delete topics.
//	@tag.name				cluster
//	@tag.description		Brokers, health and metrics.
func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "highwater:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	log := zerolog.New(os.Stderr).With().Timestamp().Logger()
	const dir, listen = "data", "127.0.0.1:8080"

	store, err := storage.Open(storage.Options{Dir: dir, Fsync: storage.FsyncCommit, Logger: log})
	if err != nil {
		return err
	}
	ctl, err := controller.Open(controller.Config{Dir: filepath.Join(dir, "raft"), NodeID: 1, URL: "http://" + listen, Logger: log})
	if err != nil {
		return err
	}
	if err := ctl.Start(ctx); err != nil {
		return err
	}
	broker := replication.New(replication.Config{NodeID: 1, URL: "http://" + listen, Store: store, Controller: ctl, Logger: log,
		Defaults: replication.Defaults{Partitions: 1, ReplicationFactor: 1, MinInSyncReplicas: 1}})
	if err := broker.Start(ctx); err != nil {
		return err
	}
	srv := &http.Server{Addr: listen, Handler: handlers.New(handlers.Config{Broker: broker, Logger: log, Metrics: prometheus.NewRegistry(), Now: time.Now})}
	go func() {
		<-ctx.Done()
		_ = srv.Shutdown(context.Background())
	}()
	log.Info().Str("listen", listen).Msg("serving")
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return errors.Join(ctl.Close(), store.Close())
}
