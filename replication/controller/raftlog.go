package controller

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/rs/zerolog"
)

// raftLogger hands raft's log lines to zerolog. raft tells every step at info
// level: that is debug to a broker. While the member starts, its warnings are
// the ordinary sight of an election without others, and are debug as well.
//
// A peer that is down is told of by several goroutines several times a second:
// such a line comes once in repeatAfter, as a warning.
type raftLogger struct {
	hclog.Logger // answers what isn't overridden below
	out          zerolog.Logger
	starting     *atomic.Bool
	told         *told
}

// repeatAfter is how long a line about a peer isn't repeated.
const repeatAfter = 30 * time.Second

// aboutPeers are the beginnings of raft's lines about one peer, which is their
// first argument; notWorthIt are of connections that end, as they do.
var (
	aboutPeers = []string{"failed to heartbeat to", "failed to appendEntries to", "failed to pipeline appendEntries", "failed to start pipeline",
		"failed to make requestVote RPC", "failed to send snapshot to", "failed to install snapshot", "unable to get address", "rejecting vote", "rejecting pre-vote"}
	notWorthIt = []string{"failed to decode incoming command", "failed to flush response", "failed to accept connection", "peer has newer term, stopping replication"}
)

// told remembers when which line was written last.
type told struct {
	mu   sync.Mutex // guards when
	when map[string]time.Time
}

// again tells whether the line was written lately; if not, it is now.
func (t *told) again(line string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if last, ok := t.when[line]; ok && now.Sub(last) < repeatAfter {
		return true
	}
	if len(t.when) > maxMembers*len(aboutPeers) {
		clear(t.when) // members came and went
	}
	t.when[line] = now
	return false
}

// level is what a line of raft's is worth.
func (l *raftLogger) level(level hclog.Level, msg string, args []any) zerolog.Level {
	begins := func(with string) bool { return strings.HasPrefix(msg, with) }
	switch {
	case level == hclog.Trace:
		return zerolog.TraceLevel
	case level < hclog.Warn, level == hclog.Warn && l.starting.Load(), slices.ContainsFunc(notWorthIt, begins):
		return zerolog.DebugLevel
	case msg == "failed to contact", slices.ContainsFunc(aboutPeers, begins):
		if l.starting.Load() || len(args) > 1 && l.told.again(msg+fmt.Sprint(args[1])) {
			return zerolog.DebugLevel
		}
		return zerolog.WarnLevel
	case level == hclog.Error:
		return zerolog.ErrorLevel
	}
	return zerolog.WarnLevel
}

func newRaftLogger(out zerolog.Logger) (l *raftLogger, started func()) {
	starting := &atomic.Bool{}
	starting.Store(true)
	l = &raftLogger{Logger: hclog.NewNullLogger(), out: out.With().Str("part", "raft").Logger(), starting: starting,
		told: &told{when: map[string]time.Time{}}}
	return l, func() { starting.Store(false) }
}

// Log is called by the methods below and by raft with a level of its choice.
func (l *raftLogger) Log(level hclog.Level, msg string, args ...any) {
	to := l.level(level, msg, args)
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
	return &raftLogger{Logger: l.Logger, out: c.Logger(), starting: l.starting, told: l.told}
}

// Named returns the same logger: there is one part only.
func (l *raftLogger) Named(string) hclog.Logger { return l }

// ResetNamed is Named.
func (l *raftLogger) ResetNamed(string) hclog.Logger { return l }
