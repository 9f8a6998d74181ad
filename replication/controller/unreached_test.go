package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// notices is a log that keeps the lines with a text.
type notices struct {
	text string

	mu    sync.Mutex // guards lines
	lines []string
}

// Write is io.Writer's.
func (n *notices) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if strings.Contains(string(p), n.text) {
		n.lines = append(n.lines, string(p))
	}
	return len(p), nil
}

func (n *notices) seen() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.lines)
}

// A member that says where it is, and isn't there: it can't start, and the log tells
// why. Before that it has patience.
func TestAMemberThatNobodyReachesSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tc := startCluster(t, 3)
		_, others := tc.followers()
		n := others[0]
		tc.kill(n.id)
		log := &notices{text: "doesn't reach it at this URL"}
		n.cfg = func(c *Config) { c.Logger = zerolog.New(log) }
		c, err := tc.openNode(n.id)
		if err != nil {
			t.Fatal(err)
		}
		tc.net.remove(n.url)
		for _, step := range []struct {
			wait time.Duration
			want int
		}{{foundingNotice / 2, 0}, {3 * foundingNotice / 2, 1}} {
			ctx, cancel := context.WithTimeout(context.Background(), step.wait)
			if err := c.Connect(ctx); !errors.Is(err, ErrNoController) {
				t.Fatal(err)
			}
			cancel()
			if got := log.seen(); len(got) != step.want {
				t.Errorf("after %s: %q", step.wait, got)
			}
		}
		if said := log.seen(); len(said) > 0 && !strings.Contains(said[0], `"url":"`+n.url+`"`) {
			t.Errorf("it doesn't say where: %s", said[0])
		}
	})
}
