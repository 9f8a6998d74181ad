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

	judged    int64 // State.Judged, when all is done
	newest    newestTime
	total     int64
	edge      edge
	tail      tail // those of its entries that move, without slots
	producers []*producer
	marks     int
}

// FlushDue tells that enough lies below the committed offset for a flush that keeps so many: so many
// ids more, or, mostly, a quarter of that has left the window.
func (s *State) FlushDue(committed int64, ids, keep int) bool {
	if s.tail.list.reaches(keep+ids, committed) {
		return true
	}
	gone := max(ids/4, 1)
	if len(s.producers.byID) > flushMarks {
		gone = ids // a snapshot of many producers shouldn't be written as often
	}
	if keep == 0 || !s.tail.list.reaches(gone, committed) {
		return false
	}
	last := s.tail.entry(gone - 1)
	return !s.edge().live(last) && !s.edgeAt(committed).live(last)
}

// SnapshotDue tells that so many batches of producers lie below the committed offset that a flush
// should come. It has to keep no ids, or it might reach none of them.
func (s *State) SnapshotDue(committed int64) bool {
	// A snapshot of many producers shouldn't be written for few batches.
	marks := max(flushMarks, len(s.producers.byID)/4)
	return len(s.journal) >= marks && s.journal[marks-1].next <= committed
}

// reaches tells that there are n entries below the offset.
func (l *tailList) reaches(n int, offset int64) bool { return l.n >= n && l.at(n-1).offset < offset }

// edgeAt is the edge of the window when the log reached up to offset, which isn't below covered.
func (s *State) edgeAt(offset int64) edge {
	return s.cfg.edge(s.newestAt(offset).time, s.totalAt(offset), s.start)
}

// BeginFlush begins a flush of what lies below the committed offset, which should be
// the begin of a batch, and may never be cut off from the log again. So many of the newest ids may stay
// where they are, and what is above the oldest of them with it. nil: nothing is there that isn't
// covered, or need be.
func (s *State) BeginFlush(committed int64, keep int) *Flush {
	below := committed
	if below <= s.covered {
		return nil
	}
	f := &Flush{judged: max(committed, s.judged), edge: s.edgeAt(committed)}
	n := s.tail.list.below(below)
	if keep > 0 {
		gone := sort.Search(n, func(i int) bool { return f.edge.live(s.tail.entry(i)) })
		if n = max(n-keep, gone); n == 0 {
			return nil
		}
		if n < s.tail.list.n {
			below = min(below, s.tail.list.at(n).offset)
		}
	}
	if n > 0 && s.tail.list.at(n-1).offset-s.tail.list.at(0).offset > maxSpan/2 {
		// Not with any log that there can be; the rest comes with the next flush.
		below = s.tail.list.at(0).offset + 1
		n = 1
	}
	f.Below, f.marks, f.newest, f.total = below, s.marksBelow(below), s.newestAt(below), s.totalAt(below)
	if f.Unchanged = n == 0 && f.marks == 0; !f.Unchanged {
		f.producers = without(s.producers.list(), s.journal[f.marks:])
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
	return run, appendSnapshot(nil, &snapshot{f.Below, f.judged, f.newest, f.total, f.producers})
}

// CommitFlush takes the entries from the tail that the run has now; run is nil if
// Build gave none. False: the state was cut below what f was judged by or made anew meanwhile, and nothing was
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
	s.covered, s.coveredNewest, s.coveredTotal, s.judged = f.Below, f.newest, f.total, f.judged
	return true
}
