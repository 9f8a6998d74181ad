package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"
)

const (
	// maxHeaderBytes of one request: far above what browsers and proxies send.
	maxHeaderBytes = 64 << 10
	// An HTTP/2 connection that is silent is asked, and cut when it doesn't answer.
	http2Ping, http2PingTimeout = 30 * time.Second, 15 * time.Second
	// settleWait bounds the wait for connections to lie idle; a request that takes
	// longer is Shutdown's to wait for.
	settleWait, settlePoll = time.Second, 5 * time.Millisecond
	// maxHTTP2Streams on one connection; a page of tails and a few producers fit.
	maxHTTP2Streams = 256
)

// newHTTPServer has no ReadTimeout and WriteTimeout: they would cut tails and
// long polls. The handlers set deadlines per read and write instead.
func newHTTPServer(cfg *config, handler http.Handler, log zerolog.Logger) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           handler,
		Protocols:         &protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxHTTP2Streams, SendPingTimeout: http2Ping, PingTimeout: http2PingTimeout},
		ReadHeaderTimeout: time.Duration(cfg.ReadHeaderTimeout),
		IdleTimeout:       time.Duration(cfg.IdleTimeout),
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          httpErrorLog(log),
	}
}

// serveHTTP accepts connections until shutdownHTTP.
func (p *process) serveHTTP() error {
	err := p.http.Serve(p.listener)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	if errors.Is(err, net.ErrClosed) && p.gate.draining() {
		return nil // shutdownHTTP has closed the port
	}
	return err
}

// shutdownHTTP ends the HTTP side in order after a last while, or by force when ctx ends:
// a process that stood still at that time is that much later.
func (p *process) shutdownHTTP(ctx context.Context, lameDuck time.Duration) {
	// Those that still wait for something shortly before ctx ends are told to answer
	// what they know, and have lastCall for it from when they are told.
	by, _ := ctx.Deadline()
	ctx, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer time.AfterFunc(time.Until(by)-lastCall, func() {
		p.log.Debug().Msg("requests that still wait are answered now")
		p.requests.end()
		time.AfterFunc(lastCall, cut)
	}).Stop()
	select {
	case <-time.After(lameDuck):
	case <-ctx.Done():
	}
	// The port first, and then what came through it: from Shutdown on the server
	// drops even a request that it has just read. Each answer ends its connection by
	// now, and its client makes another one: held back for a moment, they leave the
	// port alone.
	release := p.gate.hold()
	p.listener.closeStill(ctx)
	release()
	p.settle(ctx)
	p.listener.closeSilent()
	if err := p.http.Shutdown(ctx); err != nil {
		p.log.Warn().Err(err).Msg("requests did not end in time; their connections are cut")
		_ = p.http.Close()
	}
	ended := make(chan struct{})
	go func() {
		p.streams.Wait() // the drain has told them to end
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		p.log.Warn().Msg("streams did not end in time; their connections are cut")
	}
	if n := p.listener.closeConnections(); n > 0 {
		p.log.Debug().Int("connections", n).Msg("closed connections that were left")
	}
	<-ended // a stream without its connection can't go on
}

// settle waits until no connection is in a request.
func (p *process) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	tick := time.NewTicker(settlePoll)
	defer tick.Stop()
	for {
		select { // at least once: a connection may be on its way from the kernel's queue
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if p.listener.settled() {
			return
		}
	}
}
