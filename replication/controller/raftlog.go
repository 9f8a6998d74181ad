package controller

import (
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/rs/zerolog"
)

// raftLogger hands raft's log lines to zerolog. raft tells every step at info
// level: that is debug to a broker. While the member starts, its warnings are
// the ordinary sight of an election without others, and are debug as well.
type raftLogger struct {
	hclog.Logger // answers what isn't overridden below
	out          zerolog.Logger
	starting     *atomic.Bool
}

func newRaftLogger(out zerolog.Logger) (l *raftLogger, started func()) {
	starting := &atomic.Bool{}
	starting.Store(true)
	l = &raftLogger{Logger: hclog.NewNullLogger(), out: out.With().Str("part", "raft").Logger(), starting: starting}
	return l, func() { starting.Store(false) }
}

// Log is called by the methods below and by raft with a level of its choice.
func (l *raftLogger) Log(level hclog.Level, msg string, args ...any) {
	to := zerolog.DebugLevel
	switch {
	case level == hclog.Trace:
		to = zerolog.TraceLevel
	case level == hclog.Error:
		to = zerolog.ErrorLevel
	case level == hclog.Warn && !l.starting.Load():
		to = zerolog.WarnLevel
	}
	e := l.out.WithLevel(to)
	if !l.enabled(to) {
		e.Discard()
		return
	}
	for i := 0; i+1 < len(args); i += 2 {
		e = e.Str(fmt.Sprint(args[i]), fmt.Sprint(args[i+1]))
	}
	e.Msg(msg)
}

func (l *raftLogger) enabled(level zerolog.Level) bool { return level >= l.out.GetLevel() }

// Trace and the methods after it log at the level of their name.
func (l *raftLogger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }

// Debug logs at debug level.
func (l *raftLogger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }

// Info logs at raft's info level.
func (l *raftLogger) Info(msg string, args ...any) { l.Log(hclog.Info, msg, args...) }

// Warn logs at warn level once the member has started.
func (l *raftLogger) Warn(msg string, args ...any) { l.Log(hclog.Warn, msg, args...) }

// Error logs at error level.
func (l *raftLogger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

// With returns a logger with more fields.
func (l *raftLogger) With(args ...any) hclog.Logger {
	c := l.out.With()
	for i := 0; i+1 < len(args); i += 2 {
		c = c.Str(fmt.Sprint(args[i]), fmt.Sprint(args[i+1]))
	}
	return &raftLogger{Logger: l.Logger, out: c.Logger(), starting: l.starting}
}

// Named returns the same logger: there is one part only.
func (l *raftLogger) Named(string) hclog.Logger { return l }

// ResetNamed is Named.
func (l *raftLogger) ResetNamed(string) hclog.Logger { return l }
