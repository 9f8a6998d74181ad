package model

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"highwater/replication/controller"
	"highwater/replication/replica"
)

// script is a world in which only what is said happens, with the same checks
// after each step. Brokers are called as in the failure catalogue: L leads the
// only partition of [L A B] in epoch 0.
type script struct {
	*world
	t *testing.T
}

const (
	L = int32(1)
	A = int32(2)
	B = int32(3)
)

// threeBrokers is the catalogue's: RF 3, min 2, fsync=commit, no unclean elections.
var threeBrokers = config{brokers: 3, factor: 3, partitions: 1, minInSync: 2, durable: true, patience: 1}

// scenario runs a story. Where it needs a rule, leaving the rule out must make it
// fail: unless is that rule's mutation, 0 for none.
func scenario(t *testing.T, cfg config, unless replica.Mutation, story func(s *script)) {
	t.Helper()
	s, found := play(t, cfg, story)
	if found != nil {
		t.Fatalf("%s\n%s", found.text, strings.Join(s.lines[max(0, len(s.lines)-40):], "\n"))
	}
	if unless == 0 {
		return
	}
	cfg.mutation = unless
	if _, found := play(t, cfg, story); found == nil {
		t.Error("without its rule the story ends well, too: it tells nothing")
	} else {
		t.Logf("without its rule: %s", found.text)
	}
}

func play(t *testing.T, cfg config, story func(s *script)) (s *script, found *violation) {
	s = &script{t: t}
	defer func() {
		if r := recover(); r != nil {
			v, ok := r.(violation)
			if !ok {
				panic(r)
			}
			found = &v
		}
	}()
	s.world = newWorld(cfg, rand.New(rand.NewPCG(1, 1)))
	s.scripted, s.tracing = true, true
	s.know()
	s.bag = nil // the notices of the first leader
	story(s)
	return s, nil
}

// p is a broker's partition.
func (s *script) p(id int32) *part { return s.nodes[id-1].parts[0] }

func (s *script) meta() controller.Partition { return s.world.meta().Partitions[0] }

// must ends the story unless ok.
func (s *script) must(ok bool, format string, args ...any) {
	if !ok {
		s.fail(format, args...)
	}
	s.check.step()
}

// append writes n records at a leader and makes them durable there.
func (s *script) append(id int32, n int) {
	for range n {
		s.p(id).produce(true)
	}
	s.p(id).fsync()
	s.check.step()
}

// deliver hands over the oldest message of a kind.
func (s *script) deliver(kind string, from, to int32) {
	m := s.pick(kind, from, to)
	s.tracef("deliver %s %d>%d", kind, from, to)
	m.deliver()
	s.check.step()
}

// pick takes the oldest message of a kind out of the bag: to lose it, or for later.
func (s *script) pick(kind string, from, to int32) *message {
	i := slices.IndexFunc(s.bag, func(m *message) bool { return m.kind == kind && m.from == from && m.to == to })
	if i < 0 {
		s.fail("no %s from %d to %d is under way", kind, from, to)
	}
	m := s.bag[i]
	s.bag = slices.Delete(s.bag, i, i+1)
	return m
}

// ask sends a follower's fetch and has the leader answer; the answer stays under way.
func (s *script) ask(from, to int32) {
	s.nodes[from-1].fetch(to, true)
	s.deliver("fetch", from, to)
}

// fetch is a whole fetch, and n of them are so many.
func (s *script) fetch(from, to int32, n int) {
	for range n {
		s.ask(from, to)
		s.deliver("fetched", to, from)
	}
}

// replicate has followers fetch until they have, and know, all.
func (s *script) replicate(leader int32, followers ...int32) {
	for range 4 {
		for _, id := range followers {
			s.fetch(id, leader, 1)
		}
	}
}

// know gives brokers, all of them if none is named, the newest metadata.
func (s *script) know(ids ...int32) {
	for _, n := range s.nodes {
		if n.up && (len(ids) == 0 || slices.Contains(ids, n.id)) {
			n.advance(s.index())
		}
	}
	s.check.step()
}

// propose has a leader send the change that is due, and the controller decide it.
// The answer stays under way.
func (s *script) propose(id int32) {
	s.nodes[id-1].change(s.p(id))
	s.deliver("alter", id, 0)
}

// changeISR is a whole proposal.
func (s *script) changeISR(id int32) {
	s.propose(id)
	s.deliver("altered", 0, id)
}

// disk is what a broker, running or not, has of the partition.
func (s *script) disk(id int32) *memLog { return s.nodes[id-1].disk.logs[0] }

func (s *script) fence(id int32) {
	b := s.state().Brokers[id]
	s.apply(&controller.SetBroker{ID: id, Epoch: b.Epoch, Fenced: true, Draining: b.Draining})
	s.check.step()
}

func (s *script) unfence(id int32) {
	b := s.state().Brokers[id]
	s.apply(&controller.SetBroker{ID: id, Epoch: b.Epoch})
	s.check.step()
}

func (s *script) elect(id int32) {
	if err, bad := s.apply(&controller.ElectLeader{Topic: s.topic, Broker: id}).(error); bad {
		s.fail("%v", err)
	}
	s.check.step()
}

func (s *script) crash(ids ...int32) {
	for _, id := range ids {
		s.nodes[id-1].crash()
	}
}

// register starts a broker's process and registers it; it stays fenced.
func (s *script) register(id int32) {
	n := s.nodes[id-1]
	n.start()
	n.applied = s.index()
	n.register()
	s.deliver("register", id, 0)
	s.deliver("registered", 0, id)
}

// restart registers and unfences a broker.
func (s *script) restart(id int32) {
	s.register(id)
	s.unfence(id)
	s.know(id)
}

func (s *script) wait(d time.Duration) { s.now = s.now.Add(d) }

// isolate loses all that is under way.
func (s *script) loseAll() { s.bag = nil }

// values are those of a broker's log.
func (s *script) values(id int32) (values []int64) {
	for _, r := range s.p(id).log.recs {
		values = append(values, r.value)
	}
	return values
}

func (s *script) isr(ids ...int32) bool {
	got := slices.Sorted(slices.Values(s.meta().ISR))
	slices.Sort(ids)
	return slices.Equal(got, ids)
}
