package controller

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
)

// F70 (hashicorp/raft#697): a member whose log parted from the quorum's gets a
// snapshot that ends where its own log does. raft 1.7.3 would ask for it again and
// again.
func TestF70_ASnapshotOverALogThatParted(t *testing.T) {
	t.Parallel()
	for _, beyond := range []int{0, 3} { // entries of its own behind the snapshot's end
		t.Run(fmt.Sprint(beyond), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc := newCluster(t, 3)
				var none uint64
				for _, n := range tc.nodes {
					n.cfg = func(c *Config) { c.trailingLogs = &none }
				}
				tc.upAll(1, 2, 3)
				tc.create(1, "a", 1, 1)
				leader, others := tc.followers()
				n := others[0]
				tc.kill(n.id)
				// What it writes of its own is of this term, all else of the next.
				if leader.c.handOver(leader.c.member.Load()); leader.c.member.Load().raft.State() == raft.Leader {
					t.Fatal("no other leader")
				}
				for i := range 5 {
					tc.create(leader.id, fmt.Sprintf("b%d", i), 1, 1)
				}
				leader = tc.leader()
				for _, up := range tc.alive() { // none has the log any more
					if err := up.c.member.Load().raft.Snapshot().Error(); err != nil {
						t.Fatal(err)
					}
				}
				end := leader.c.member.Load().raft.LastIndex()
				part(t, n.dir, end+uint64(beyond))
				tc.upAll(n.id)
				if _, ok := n.c.State().Topic("b4"); !ok {
					t.Error("it lacks what the snapshot has")
				}
				tc.create(n.id, "c", 1, 1)
				tc.sameState()
				// And it votes by what it has now.
				tc.kill(others[1].id)
				tc.create(n.id, "d", 1, 1)
			})
		})
	}
}

// part writes entries of a lost term behind a dead member's log.
func part(t *testing.T, dir string, to uint64) {
	t.Helper()
	d := &raftDir{path: dir}
	file, err := d.openStore()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	last, err := file.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	var log raft.Log
	if err := file.GetLog(last, &log); err != nil {
		t.Fatal(err)
	}
	for i := last + 1; i <= to; i++ {
		if err := file.StoreLog(&raft.Log{Index: i, Term: log.Term, Type: raft.LogCommand, Data: encode(&InitCluster{ClusterID: "lost"})}); err != nil {
			t.Fatal(err)
		}
	}
}

// A member that is down for long gets the log at once when it is back.
func TestAMemberThatIsBackGetsTheLogAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tc := startCluster(t, 3)
		_, others := tc.followers()
		tc.kill(others[0].id)
		tc.create(others[1].id, "a", 1, 1)
		// The sender waits in one call, and gives it up with the term or the membership.
		var leader *testNode
		var m *member
		tc.eventually("a leader that waits for a member that is down", func() bool {
			leader = tc.leader()
			m = leader.c.member.Load()
			return leader.c.waitToRedial(m.peerOf(others[0].id), m.raft.CurrentTerm())
		})
		if leader.c.waitToRedial(m.peerOf(others[0].id), m.raft.CurrentTerm()-1) || leader.c.waitToRedial("9-x", m.raft.CurrentTerm()) {
			t.Error("it waits for a former term, or for no member")
		}
		tc.upAll(others[0].id)
		tc.sameState()
	})
}

func (m *member) peerOf(broker int32) raft.ServerID {
	for _, s := range servers(m.raft) {
		if serverBroker(s.ID) == broker {
			return s.ID
		}
	}
	return ""
}
