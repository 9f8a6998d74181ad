package main

import (
	"bytes"
	"io"
	"log"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
)

// processLog is the process's logger and what stands behind it.
type processLog struct {
	zerolog.Logger
	queue *logQueue
}

// newLogger makes the process's logger. Times are UTC with milliseconds.
func newLogger(cfg *config, out *os.File) processLog {
	var w io.Writer = out
	if cfg.LogFormat == "console" || (cfg.LogFormat == "auto" && isatty.IsTerminal(out.Fd())) {
		w = zerolog.ConsoleWriter{Out: out, TimeFormat: "15:04:05.000", NoColor: !isatty.IsTerminal(out.Fd())}
	}
	queue := newLogQueue(w, cfg.level())
	return processLog{Logger: zerolog.New(queue).Level(cfg.level()).Hook(stamp{}), queue: queue}
}

// stamp puts the time on each line, as zerolog's own Timestamp does, but in a
// form that needs no global setting.
type stamp struct{}

// Run adds the time.
func (stamp) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().UTC().Format("2006-01-02T15:04:05.000Z"))
}

// httpErrorLog takes what net/http itself has to say (broken handshakes, clients
// that speak no HTTP). One line each, at debug: a stranger's bytes must not fill
// the log.
func httpErrorLog(logger zerolog.Logger) *log.Logger {
	return log.New(lineWriter{logger}, "", 0)
}

type lineWriter struct{ log zerolog.Logger }

// maxNetHTTPLine cuts net/http's messages, some of which quote the client.
const maxNetHTTPLine = 200

// Write logs the first line of p; the rest would be a stack trace.
func (w lineWriter) Write(p []byte) (int, error) {
	line, _, _ := bytes.Cut(p, []byte("\n"))
	level := zerolog.DebugLevel
	if bytes.Contains(line, []byte("Accept error")) || bytes.HasPrefix(line, []byte("http: panic")) {
		level = zerolog.WarnLevel
	}
	w.log.WithLevel(level).Str("from", "net/http").Msg(string(line[:min(len(line), maxNetHTTPLine)]))
	return len(p), nil
}
