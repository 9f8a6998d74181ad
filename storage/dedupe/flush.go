package dedupe

import "sort"

// Flush moves what is committed out of the tail into a run, and makes a snapshot of the
// producers: BeginFlush under the lock, Build without it, then the owner stores
// both and the new Covered together, then CommitFlush under the lock. There is one at a time.
//
// What the log drops or compacts has to be covered before, or a restart would know less than
// the State did.
type Flush struct {
	// Below is the offset that will be covered.
	Below int64
	// Unchanged: run and snapshot that are stored say all already; only Covered moves. There is
	// nothing to build.
	Unchanged bool

	newest    newestTime
	total     int64
	edge      edge
	tail      tail // those of its entries that move, without slots
	producers []*producer
	marks     int
}

// FlushDue tells that enough lies below the committed offset for a flush: so many ids, or
// batches of producers. It may be time for one for other reasons too.
func (s *State) FlushDue(committed int64, ids int) bool {
	if s.tail.list.n >= ids && s.tail.list.at(ids-1).offset < committed {
		return true
	}
	// A snapshot of many producers shouldn't be written for few batches.
	marks := max(flushMarks, len(s.producers.byID)/4)
	return len(s.journal) >= marks && s.journal[marks-1].next <= committed
}

// BeginFlush begins a flush of what lies below the committed offset, which should be
// the begin of a batch, and may never be cut off from the log again. nil: nothing is there that
// isn't covered.
func (s *State) BeginFlush(committed int64) *Flush {
	below := committed
	if below <= s.covered {
		return nil
	}
	n, marks := s.tail.list.below(below), s.marksBelow(below)
	if n > 0 && s.tail.list.at(n-1).offset-s.tail.list.at(0).offset > maxSpan/2 {
		// Not with any log that there can be; the rest comes with the next flush.
		below = s.tail.list.at(0).offset + 1
		n, marks = 1, s.marksBelow(below)
	}
	f := &Flush{Below: below, marks: marks, newest: s.newestAt(below), total: s.totalAt(below)}
	if f.Unchanged = n == 0 && marks == 0; !f.Unchanged {
		f.producers = without(s.producers.list(), s.journal[marks:])
		f.edge = s.cfg.edge(f.newest.time, f.total, s.start)
		f.tail = tail{list: s.tail.list.head(n), first: s.tail.first}
	}
	f.producers = youngEnough(f.producers, s.cfg.producerEdge(f.newest.time))
	s.flushing = f
	return f
}

// Build makes the bytes of a run, nil if no id is in it, and of the snapshot. Call it
// once, without the lock.
func (f *Flush) Build() (run, snap []byte) {
	n := f.tail.list.n
	gone := sort.Search(n, func(i int) bool { return f.edge.live(f.tail.entry(i)) })
	if gone < n {
		run = buildRun(f.tail.list.at(gone).offset, f.Below, n-gone, func(i int, e *Entry) { *e = f.tail.entry(gone + i) })
	}
	return run, appendSnapshot(nil, &snapshot{f.Below, f.newest, f.total, f.producers})
}

// CommitFlush takes the entries from the tail that the run has now; run is nil if
// Build gave none. False: the state was cut below f.Below meanwhile or made anew, and nothing was
// changed; what was stored is wrong then.
func (s *State) CommitFlush(f *Flush, run *Run) bool {
	if s.flushing != f {
		return false
	}
	s.flushing = nil
	s.tail.drop(s.tail.list.below(f.Below))
	s.journal = append([]mark(nil), s.journal[f.marks:]...)
	s.producers.forget(s.cfg.producerEdge(f.newest.time))
	if run != nil {
		s.runs = append(s.runs[:len(s.runs):len(s.runs)], run)
		s.generation++
	}
	s.next = max(s.next, f.Below)
	s.covered, s.coveredNewest, s.coveredTotal = f.Below, f.newest, f.total
	return true
}
