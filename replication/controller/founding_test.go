package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

func TestK6_VotersFoundOneQuorum(t *testing.T) {
	t.Parallel()
	for _, n := range []int32{3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc := startCluster(t, n)
				want := []int32{1, 2, 3, 4, 5}[:n]
				id := tc.nodes[1].c.State().ClusterID
				for i, node := range tc.alive() {
					// Any broker takes a change, and has it when it has answered.
					name := fmt.Sprintf("t%d", i)
					tc.create(node.id, name, 3, 3)
					s := node.c.State()
					if _, ok := s.Topic(name); !ok {
						t.Errorf("R98: broker %d does not know what it answered", node.id)
					}
					if s.ClusterID == "" || s.ClusterID != id || node.c.ClusterID() != id {
						t.Errorf("broker %d is of cluster %q, broker 1 of %q", node.id, s.ClusterID, id)
					}
					if q := node.c.Quorum(); !slices.Equal(q.Voters, want) || q.Leader == NoLeader {
						t.Errorf("broker %d: quorum %+v", node.id, q)
					}
					if !node.c.SessionValid() || node.c.BrokerEpoch() != s.Brokers[node.id].Epoch {
						t.Errorf("broker %d has no session", node.id)
					}
				}
				tc.sameState()
			})
		})
	}
}

// This bubble ends only when all goroutines in it have.
func TestV35_NothingIsLeftOfAClosedMember(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tc := startCluster(t, 3)
		tc.create(1, "a", 3, 3)
		tc.kill(2)
		tc.create(1, "b", 3, 1)
		tc.stop(3)
		tc.kill(1)
	})
}

// Whatever is interrupted when, all voters end in the same quorum, or none is
// founded. Single steps of the real thing, in random order, with restarts.
func TestK6_AFoundingInterruptedAnywhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seeds := 12
		if testing.Short() {
			seeds = 3
		}
		for range seeds {
			seed := rand.Uint64()
			r := rand.New(rand.NewPCG(seed, 1))
			tc := newCluster(t, 3)
			founded := func() (n int) {
				for _, node := range tc.alive() {
					if node.c.member.Load() != nil {
						n++
					}
				}
				return n
			}
			var lists [][]string
			wiped := 0
			for id := range tc.nodes {
				if _, err := tc.openNode(id); err != nil {
					t.Fatal(err)
				}
			}
			for step := 0; founded() < 3-wiped; step++ {
				if step > 500 {
					t.Fatalf("seed %d: not founded after %d steps", seed, step)
				}
				id := int32(1 + r.IntN(3))
				node := tc.nodes[id]
				switch what := r.IntN(10); {
				case node.c == nil:
				case what < 7 && node.c.member.Load() == nil:
					answers, _ := node.c.askFounders(context.Background())
					if r.IntN(4) == 0 { // and here it dies
						tc.kill(id)
						reopen(tc, id)
						continue
					}
					done, err := node.c.foundStep(answers)
					if lost := (*DirError)(nil); errors.As(err, &lost) && wiped > 0 {
						if !strings.Contains(lost.Fix, "--join "+tc.list[0+otherOf(id, lost.Fix)]) {
							t.Errorf("K9: %v", lost)
						}
						tc.kill(id)
						continue
					}
					if err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					if done {
						var list []string
						for _, s := range servers(node.c.member.Load().raft) {
							list = append(list, string(s.ID))
						}
						lists = append(lists, list)
					}
				case what == 8:
					tc.kill(id)
					reopen(tc, id)
				case what == 9 && r.IntN(4) == 0 && wiped == 0 && node.c.member.Load() == nil && founded() == 0:
					// Its directory is gone before anybody founded a quorum: no harm.
					tc.kill(id)
					if err := os.RemoveAll(node.dir); err != nil {
						t.Fatal(err)
					}
					reopen(tc, id)
				}
			}
			for _, list := range lists {
				if !slices.Equal(list, lists[0]) {
					t.Fatalf("seed %d: two quorums: %v and %v", seed, list, lists[0])
				}
			}
			for id := range tc.nodes {
				if tc.nodes[id].c != nil {
					tc.kill(id)
				}
			}
		}
	})
}

func otherOf(id int32, fix string) int32 {
	for other := int32(1); other <= 3; other++ {
		if other != id && strings.Contains(fix, nodeURL(other)) {
			return other
		}
	}
	return 0
}

func reopen(tc *testCluster, id int32) {
	tc.Helper()
	if _, err := tc.openNode(id); err != nil {
		tc.Fatal(err)
	}
}
