package controller

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// raft ends without an answer to what it has not taken up yet. Whoever asked would
// wait for ever, and this bubble would not end.
func TestK16_NobodyWaitsForAClosedMember(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Config{Dir: t.TempDir(), NodeID: 1})
		start(t, c)
		m, term := c.member.Load(), c.leading()
		hang := make(chan struct{})
		m.store.mu.Lock()
		m.store.raftStore = &flakyStore{raftStore: m.store.raftStore, hang: hang}
		m.store.timeout = 300 * time.Millisecond
		m.store.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		answers := make(chan error, 10)
		for range cap(answers) / 2 {
			go func() {
				_, _, err := c.apply(ctx, term, &InitCluster{ClusterID: "x"})
				answers <- err
			}()
			synctest.Wait() // the first one holds raft's loop, all others wait in its queue
			go func() { answers <- term.verify(ctx) }()
		}
		began := time.Now()
		_ = c.Close() // says that the disk hangs
		for range cap(answers) {
			if err := <-answers; !errors.Is(err, ErrNoController) && !errors.Is(err, ErrOutcomeUnknown) {
				t.Errorf("answered: %v", err)
			}
		}
		if took := time.Since(began); took > leaveTimeout+answerTimeout+shutdownTimeout {
			t.Errorf("the last answer came after %s", took)
		}
		if _, _, err := c.apply(ctx, term, &InitCluster{ClusterID: "x"}); !errors.Is(err, ErrNoController) || errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("asked of a closed member: %v", err)
		}
		if c.barrier(m) {
			t.Error("a closed member would lead")
		}
		close(hang)
	})
}

// A barrier that is asked of a raft that has ended would be answered every other time.
func TestK16_NoEndWaitsForRaftsAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tc := startCluster(t, 1)
		n := tc.nodes[1]
		c, m := n.c, n.c.member.Load()
		tc.stop(n.id)
		for range 32 {
			c.turn(m, true)
		}
		if c.leading() != nil {
			t.Error("a member that has ended leads")
		}
	})
}

// Nothing is waited for in vain: the first entry comes right after the election.
func TestANewQuorumOfOneIsUpAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for range 3 { // by luck, one may be up at once anyhow
			began := time.Now()
			start(t, open(t, Config{Dir: t.TempDir(), NodeID: 1}))
			if took := time.Since(began); took >= joinInterval {
				t.Errorf("it took %s", took)
			}
		}
	})
}
