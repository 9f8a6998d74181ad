package controller

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"

	"highwater/replication/replica"
	"highwater/replication/wire"
)

// A ghost of the logs stands beside the state machine: how much each replica has
// on disk, as a count of commits. A leader commits when its ISR is large enough
// and every member of it, and of the ISRs that it has proposed, has the record
// (R25, R26, R28). Whatever the brokers do then, every member of ISR and ELR that
// is up or comes back must hold all commits (V21), and so must each leader (V22).
type ghost struct {
	*machine
	r    *rand.Rand
	held map[int32]int   // by broker
	up   map[int32]bool  // the process runs
	sent []ghostProposal // on their way to the controller
	seen map[int32]int   // V31: partition epochs that accepted proposals carried

	commits                                  int
	topics, all, elr, lossy, late, elections int // how often it came to that
}

type ghostProposal struct {
	broker int32
	epoch  int64
	change wire.AlterPartition
}

const ghostBrokers = 4

func newGhost(t *testing.T, seed uint64, mutation replica.Mutation) *ghost {
	g := &ghost{machine: newMachine(t), r: rand.New(rand.NewPCG(seed, 11)), held: map[int32]int{}, up: map[int32]bool{}}
	g.state = NewState(mutation)
	for id := int32(1); id <= ghostBrokers; id++ {
		g.register(id, Registration{Directory: dirOf(id)})
		g.set(id, false, false)
		g.up[id] = true
	}
	g.newTopic()
	return g
}

func (g *ghost) newTopic() {
	g.must(&CreateTopic{Name: "a", ID: uuid.New(), Replicas: [][]int32{{1, 2, 3}}, MinInSync: 1 + g.r.IntN(3)})
	g.topics++
	g.commits, g.sent, g.seen = 0, nil, map[int32]int{}
	clear(g.held)
}

// maxISR is what the leader counts before it commits.
func (g *ghost) maxISR(p *Partition) []int32 {
	out := p.ISR
	for _, s := range g.sent {
		if s.change.LeaderEpoch == p.LeaderEpoch {
			for _, m := range s.change.ISR {
				out = with(out, m.Broker)
			}
		}
	}
	return out
}

func (g *ghost) leading() (*Topic, *Partition) {
	topic, _ := g.state.Topic("a")
	p := &topic.Partitions[0]
	if p.Leader == NoLeader || !g.up[p.Leader] {
		return topic, nil
	}
	return topic, p
}

// step does one thing at random and tells what is wrong then.
func (g *ghost) step() error {
	topic, p := g.leading()
	before := topic.Partitions[0]
	id := int32(1 + g.r.IntN(ghostBrokers))
	b := g.state.Brokers[id]
	switch k := g.r.IntN(40); {
	case k < 10 && p != nil: // commit
		max := g.maxISR(p)
		if len(p.ISR) < topic.EffectiveMinInSync() || slices.ContainsFunc(max, func(id int32) bool { return !g.up[id] }) {
			return nil
		}
		g.commits++
		g.all++
		for _, id := range max {
			g.held[id] = g.commits
		}
	case k < 14 && p != nil && g.up[id] && slices.Contains(p.Replicas, id): // a follower catches up
		g.held[id] = max(g.held[id], g.held[p.Leader])
	case k < 20 && p != nil: // the leader proposes
		isr := []int32{p.Leader}
		for _, id := range p.Replicas {
			_, ok := g.state.Eligible(id)
			if id != p.Leader && ok && g.up[id] && g.held[id] == g.held[p.Leader] && g.r.IntN(4) > 0 {
				isr = append(isr, id)
			}
		}
		g.sent = append(g.sent, ghostProposal{p.Leader, g.state.Brokers[p.Leader].Epoch, g.proposal(isr...)})
	case k < 24 && len(g.sent) > 0: // one arrives, in any order, maybe once more later
		i := g.r.IntN(len(g.sent))
		s := g.sent[i]
		if g.r.IntN(4) > 0 {
			g.sent = slices.Delete(g.sent, i, i+1)
		}
		if err := g.arrive(&s); err != nil {
			return err
		}
	case k < 32: // the controller loses sight of it, or sees it again, or it drains
		g.apply(&SetBroker{ID: id, Epoch: b.Epoch, Fenced: !g.up[id] || g.r.IntN(12) == 0, Draining: g.r.IntN(16) == 0})
	case k < 34: // it dies
		g.up[id] = false
	case k < 39 && (!g.up[id] || k < 36): // also one that was killed just now
		g.restart(topic, id)
		if g.r.IntN(2) == 0 {
			now := g.partition("a", 0)
			if err := g.checkAll(&before, &now); err != nil {
				return err
			}
			before = now
			g.set(id, false, false)
		}
	case k == 39:
		g.admin(topic)
	}
	topic, _ = g.state.Topic("a")
	if q := &topic.Partitions[0]; len(q.ISR)+len(q.ELR) == 0 {
		// Nobody is known to be whole: the end of this topic, in practice a case for
		// a person. On with another one.
		g.apply(&DeleteTopic{ID: topic.ID})
		g.newTopic()
		return nil
	}
	return g.checkAll(&before, &topic.Partitions[0])
}

func (g *ghost) arrive(s *ghostProposal) error {
	res, ok := g.apply(&AlterPartitions{Broker: s.broker, Epoch: s.epoch, Changes: []wire.AlterPartition{s.change}}).([]wire.AlterResult)
	switch {
	case !ok || res[0].Code != wire.OK && res[0].Code != wire.CodeFencedLeaderEpoch:
		g.late++
	case res[0].PartitionEpoch == s.change.PartitionEpoch+1 && res[0].Code == wire.OK:
		if g.seen[s.change.PartitionEpoch]++; g.seen[s.change.PartitionEpoch] > 1 {
			return fmt.Errorf("V31: partition epoch %d was changed twice", s.change.PartitionEpoch)
		}
	}
	return nil
}

// restart begins a broker's new life: with all it had, or without.
func (g *ghost) restart(topic *Topic, id int32) {
	old := g.state.Brokers[id]
	data := Registration{Directory: dirOf(id), Durable: true, Held: map[uuid.UUID][]int32{topic.ID: {0}}}
	if old != nil {
		data.Directory = old.Directory
	}
	switch g.r.IntN(12) {
	case 0: // another disk
		g.held[id], data.Directory, data.Held = 0, uuid.UUID{0: 1, 14: byte(g.r.Uint32()), 15: byte(g.r.Uint32())}, nil
		g.lossy++
	case 1: // this partition's directory is gone
		g.held[id], data.Held = 0, nil
		g.lossy++
	case 2: // a tail that was never flushed
		g.held[id], data.Durable = g.r.IntN(g.held[id]+1), false
		g.lossy++
	case 3: // never flushed, but ended in order
		data.Durable = false
		if old != nil {
			data.PreviousEpoch = old.Epoch
		}
	}
	g.register(id, data)
	g.up[id] = true
}

// admin changes the topic or its replicas.
func (g *ghost) admin(topic *Topic) {
	p := &topic.Partitions[0]
	switch g.r.IntN(6) {
	case 0:
		// Leaders know a minimum as soon as they know the ISR that goes with it.
		g.apply(&AlterTopic{ID: topic.ID, Set: map[string]string{ConfigMinInSyncReplicas: fmt.Sprint(1 + g.r.IntN(3))}})
	case 1:
		target := []int32{1, 2, 3, 4}
		g.r.Shuffle(len(target), func(i, j int) { target[i], target[j] = target[j], target[i] })
		g.apply(&Reassign{Items: []Reassignment{{Topic: topic.ID, Replicas: target[:3]}}})
	case 2:
		g.apply(&Reassign{Items: []Reassignment{{Topic: topic.ID}}})
	case 3:
		g.apply(&ElectLeader{Topic: topic.ID, Broker: p.Replicas[g.r.IntN(len(p.Replicas))]})
	case 4:
		if id := p.Replicas[g.r.IntN(len(p.Replicas))]; g.up[id] {
			b := g.state.Brokers[id]
			g.apply(&DropReplicas{Broker: id, Epoch: b.Epoch, Partitions: []wire.TopicPartition{{Topic: topic.ID}}})
		}
	}
	// What a replica had is void once it is none (R83).
	after := g.partition("a", 0)
	for _, id := range minus(p.Replicas, after.Replicas) {
		g.held[id] = 0
	}
}

func (g *ghost) checkAll(before, after *Partition) error {
	if len(after.ELR) > 0 {
		g.elr++
	}
	if after.Leader != before.Leader && after.Leader != NoLeader {
		g.elections++
	}
	for _, id := range slices.Concat(after.ISR, after.ELR) {
		// One that is down shows what it lost when it comes back, and then leaves.
		if g.held[id] < g.commits && g.up[id] {
			return fmt.Errorf("V21: broker %d holds %d of %d commits, ISR %v, ELR %v", id, g.held[id], g.commits, after.ISR, after.ELR)
		}
	}
	if err := checkChange(before, after); err != nil {
		return err
	}
	return checkInvariants(g.state)
}

// runGhost returns the step at which something was wrong, and what.
func runGhost(t *testing.T, seed uint64, steps int, mutation replica.Mutation) (*ghost, int, error) {
	g := newGhost(t, seed, mutation)
	for i := range steps {
		if err := g.step(); err != nil {
			return g, i, err
		}
	}
	return g, steps, nil
}

// V18, V19, V21, V31 under random lives, losses, proposals that are late or come
// twice, reassignments and changes of the minimum.
func TestV19_V21_V31_WhoeverMayLeadHoldsEveryCommit(t *testing.T) {
	seeds, steps := uint64(120), 400
	if testing.Short() {
		seeds = 30
	}
	var topics, commits, elr, lossy, late, elections int
	for seed := range seeds {
		g, at, err := runGhost(t, seed, steps, 0)
		if err != nil {
			t.Fatalf("seed %d, step %d: %v", seed, at, err)
		}
		topics, commits, elr, lossy, late, elections = topics+g.topics, commits+g.all, elr+g.elr, lossy+g.lossy, late+g.late, elections+g.elections
	}
	t.Logf("%d seeds of %d steps: %d topics, %d commits, %d states with an ELR, %d losses, %d late proposals, %d elections", seeds, steps, topics, commits, elr, lossy, late, elections)
	if commits == 0 || elr == 0 || lossy == 0 || late == 0 || elections == 0 {
		t.Error("something never happened: this is no evidence")
	}
}

// The same runs notice when a rule is left out.
func TestMutationsOfTheStateMachineAreNoticed(t *testing.T) {
	for name, mutation := range map[string]replica.Mutation{"NoR44": replica.NoR44, "NoR73": replica.NoR73} {
		var err error
		var at int
		for seed := uint64(0); err == nil; seed++ {
			if seed == 300 {
				t.Fatalf("%s is not noticed by %d seeds", name, seed)
			}
			if _, at, err = runGhost(t, seed, 400, mutation); err != nil {
				t.Logf("%s: seed %d, step %d: %v", name, seed, at, err)
			}
		}
	}
}
