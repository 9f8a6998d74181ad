package controller

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/rs/zerolog"
)

func TestALostPeerIsToldOfOnce(t *testing.T) {
	var out bytes.Buffer
	l, started := newRaftLogger(zerolog.New(&out).Level(zerolog.InfoLevel))
	l.Error("failed to heartbeat to", "peer", "a")
	l.Warn("heartbeat timeout reached, starting election")
	if out.Len() > 0 {
		t.Errorf("while it starts: %s", out.String())
	}
	started()
	for range 5 {
		for _, peer := range []string{"a", "b"} {
			l.Error("failed to heartbeat to", "peer", peer, "error", "refused")
			l.With("x", 1).Warn("failed to contact", "server-id", peer)
		}
		l.Error("failed to decode incoming command", "error", "EOF")
		l.Info("entering follower state")
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 || strings.Contains(out.String(), `"error","`) {
		t.Errorf("%d lines:\n%s", len(lines), out.String())
	}
	out.Reset()
	for range 2 {
		l.Error("failed to commit logs", "error", "input/output error")
		l.Log(hclog.Warn, "failed to contact quorum of nodes, stepping down")
	}
	if got := strings.Count(out.String(), "\n"); got != 4 || !strings.Contains(out.String(), `"level":"error"`) {
		t.Errorf("what is wrong here is told each time:\n%s", out.String())
	}
}
