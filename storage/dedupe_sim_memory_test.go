package storage

import (
	"fmt"
	"slices"
	"time"

	"highwater/storage/dedupe"
)

// What the simulator's replicas have to remember.

// simMemory is a memory made of a list of batches: the ids in the plainest way, the rest by a
// State that has seen nothing else.
type simMemory struct {
	entries []simEntry
	newest  int64
	start   int64
	cfg     dedupe.Config
	state   *dedupe.State
}

type simEntry struct {
	id           dedupe.ID
	offset, time int64
	content      uint64
}

func newSimMemory(r *simReplica) *simMemory {
	m := &simMemory{cfg: r.sim.cfg.memoryConfig(), start: r.log.StartOffset()}
	m.state = dedupe.New(m.cfg)
	m.state.SetStart(m.start)
	for _, b := range r.memory {
		f := *b.facts
		m.state.Note(&f)
		if f.Time != dedupe.NoTime {
			m.newest = max(m.newest, f.Time)
		}
		for _, e := range f.Messages {
			m.entries = append(m.entries, simEntry{e.ID, f.Base + int64(e.Delta), m.newest, e.Content})
		}
	}
	return m
}

// find gives the newest entry of an id, and whether it is live; offset -1: there is none.
func (m *simMemory) find(id string) (e simEntry, live bool) {
	hash := dedupe.IDOf([]byte(id))
	for i, e := range slices.Backward(m.entries) {
		if e.id != hash {
			continue
		}
		young := m.newest-e.time < m.cfg.Age
		if m.cfg.Age < 0 {
			young = e.offset >= m.start
		}
		return e, young && (m.cfg.Count < 0 || int64(len(m.entries)-i) <= m.cfg.Count)
	}
	return simEntry{offset: -1}, false
}

// compare holds all that a replica remembers against what it has to.
func (r *simReplica) compare() {
	s := r.sim
	if r.fs.Crashed() || r.end() < r.exact {
		return
	}
	got, err := r.log.DedupeDigest()
	if !r.try("digest", err) {
		return
	}
	m := newSimMemory(r)
	want, err := m.state.View().Digest(nil)
	if err != nil {
		s.fatalf("digest: %v", err)
	}
	if got != want {
		r.explain(m)
	}
	exact := !s.skewed || r.log.memory == nil || r.log.untold() >= r.log.memory.Judged()
	if r.log.StagedEnd() == r.end() && exact {
		again, err := r.log.RecomputeDedupeDigest()
		if r.try("recompute", err) && again != want {
			s.fatalf("replica %d: recomputed, it is another: start %d, compacted below %d, imported %d, covered %d", r.number, r.log.StartOffset(), r.log.cleaned, r.log.imported, r.log.memory.Covered())
		}
	}
}

// explain says where a memory differs.
func (r *simReplica) explain(m *simMemory) {
	view := m.state.View()
	want, _ := view.Entries(nil)
	mine := dedupe.New(m.cfg)
	if r.log.memory != nil {
		mine = r.log.memory
	}
	got, _ := mine.View().Entries(r.log.readRun)
	var lines []string
	for _, e := range want {
		if !slices.ContainsFunc(got, func(g dedupe.Entry) bool {
			return g.ID == e.ID && g.Offset == e.Offset && g.Time == e.Time && g.Content == e.Content
		}) {
			lines = append(lines, fmt.Sprintf("lacks %d at %s", e.Offset, time.UnixMilli(e.Time).Format("04:05.000")))
		}
	}
	for _, e := range got {
		if !slices.ContainsFunc(want, func(g dedupe.Entry) bool {
			return g.ID == e.ID && g.Offset == e.Offset && g.Time == e.Time && g.Content == e.Content
		}) {
			lines = append(lines, fmt.Sprintf("has %d at %s", e.Offset, time.UnixMilli(e.Time).Format("04:05.000")))
		}
	}
	lines = append(lines, fmt.Sprintf("producers %v, want %v", mine.View().ProducerBatches(), view.ProducerBatches()))
	r.sim.fatalf("replica %d [%d, %d) remembers something else (newest %d, want %d; covered %d, imported %d): %v", r.number, r.log.StartOffset(), r.end(),
		mine.Newest(), m.state.Newest(), mine.Covered(), r.imported, lines)
}
