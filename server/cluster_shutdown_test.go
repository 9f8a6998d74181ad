package main

import (
	"context"
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"highwater/replication/wire"
)

// TestCluster_SigtermBesideFrozenVoters: SIGTERM of a broker whose peers are silent. Nobody
// agrees to its shutdown and nothing that waits comes about; each request that waits is
// answered all the same, with an outcome, and the process is gone within 10 s; a process
// that stands still over the end of its drain is that much later, and answers too.
func TestCluster_SigtermBesideFrozenVoters(t *testing.T) {
	t.Run("all the while", func(t *testing.T) { sigtermBesideFrozenVoters(t, func(*node) {}) })
	t.Run("standing still", func(t *testing.T) {
		sigtermBesideFrozenVoters(t, func(leader *node) {
			time.Sleep(drainTime - lastCall - 500*time.Millisecond)
			leader.freeze()
			time.Sleep(lastCall + time.Second)
			leader.thaw()
		})
	})
}

// sigtermBesideFrozenVoters does with the broker what a subtest does, once it has SIGTERM.
func sigtermBesideFrozenVoters(t *testing.T, meanwhile func(leader *node)) {
	t.Helper()
	// A session that outlasts the test: the leader goes on waiting for its followers.
	c := newCluster(t, 3, "--broker-session-timeout=30s")
	c.topic("orders", 1, 3, "min.insync.replicas", "2")
	leader := c.leader("orders", 0)
	for _, m := range c.others(leader) {
		m.freeze()
	}
	type answer struct {
		what    string
		status  int
		outcome string
		err     error
	}
	answers := make(chan answer, 2)
	send := func(method, path, body string) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		status, got, err := c.client(leader).do(ctx, method, path, "application/json", []byte(body))
		var said struct{ Outcome string }
		if err == nil {
			err = json.Unmarshal(got, &said)
		}
		answers <- answer{method, status, said.Outcome, err}
	}
	go send("POST", "/topics/orders?acks=-1&timeout_ms=30000", `{"records":[{"value":1}]}`)
	go send("PATCH", "/topics/orders", `{"partitions":2}`)
	until(t, "the record is written and the quorum is lost", func() bool {
		_, state, err := c.client(leader).do(context.Background(), "GET", wire.PathPrefix+wire.PathDebugPartitions, "", nil)
		// The partition's leader may or may not be the quorum's: each misses the others in its way.
		missed := leader.logged("failed to contact") + leader.logged("heartbeat timeout reached")
		return err == nil && strings.Contains(string(state), `"log_end":1`) && missed > 0
	})
	began := time.Now()
	leader.signal(syscall.SIGTERM)
	meanwhile(leader)
	code := leader.exit()
	took := time.Since(began)
	for range 2 {
		a := <-answers
		t.Logf("%s: %d, outcome %q", a.what, a.status, a.outcome)
		if a.err != nil || a.status < 500 || a.outcome == "" || a.what == "POST" && a.outcome != "unknown" {
			t.Errorf("%s got %d, outcome %q, %v; want an error that tells the outcome", a.what, a.status, a.outcome, a.err)
		}
	}
	if code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if t.Logf("gone after %v", took.Round(time.Millisecond)); took > 10*time.Second {
		t.Errorf("the broker ended after %v, want 10 s at most", took)
	}
	for _, m := range c.others(leader) {
		m.thaw()
	}
}

// TestCluster_ControllerLeaderEndsBesideASilentBroker: one voter is frozen while the
// quorum's leader, which waits for its answers, gets SIGTERM. It ends in order.
func TestCluster_ControllerLeaderEndsBesideASilentBroker(t *testing.T) {
	c := newCluster(t, 3)
	leader := c.controller()
	silent := c.others(leader)[0]
	silent.freeze()
	until(t, "the leader misses it", func() bool { return leader.logged("failed to contact") > 0 })
	began := time.Now()
	leader.signal(syscall.SIGTERM)
	if code := leader.exit(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the broker ended after %v, want 10 s at most", took)
	}
	silent.thaw()
	c.start(leader)
	c.stopAll()
}
