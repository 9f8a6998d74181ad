package dedupe

import "math"

// edge is the oldest end of the window: an entry is live if none of its values is below. All three
// rise with the offset, so that what isn't live is the log's oldest part.
type edge struct{ time, ordinal, offset int64 }

func (c *Config) edge(newest, total, start int64) edge {
	e := edge{time: math.MinInt64, ordinal: math.MinInt64, offset: math.MinInt64}
	switch {
	case c.Age == 0:
		e.time = math.MaxInt64
	case c.Age > 0:
		e.time = newest - c.Age + 1
	default:
		e.offset = start
	}
	if c.Count >= 0 {
		e.ordinal = total - c.Count
	}
	return e
}

// producerEdge is the smallest time of a last batch with which a producer isn't forgotten.
func (c *Config) producerEdge(newest int64) int64 {
	if c.ProducerAge <= 0 {
		return math.MinInt64
	}
	return newest - c.ProducerAge + 1
}

func (e edge) live(x Entry) bool {
	return x.Time >= e.time && x.Ordinal >= e.ordinal && x.Offset >= e.offset
}

// liveRun tells that some entry of the run may be live.
func (e edge) liveRun(r *Run) bool {
	return r.MaxTime >= e.time && r.nextOrdinal > e.ordinal && r.Next > e.offset
}

func (s *State) edge() edge { return s.cfg.edge(s.newest, s.total, s.start) }

// Figures of a State.
type Figures struct {
	// IDs in the window. Where its end lies in a run the figure is an estimate, as if the
	// run's appends had come evenly. An id that was appended again after it had expired counts twice for a while.
	IDs int64
	// Oldest and Newest append time of an id in the window, ms; 0: there is none. Oldest is an
	// estimate likewise.
	Oldest, Newest int64
	Producers      int64
	// EvictedEarly counts ids since the start that left the window for their number though they
	// were young enough (D4).
	EvictedEarly uint64
	TailIDs      int // of them, those that are in memory as a whole
	Runs         int
	HeapBytes    int64 // about what all of this takes
}

// Figures takes a few accesses to each run.
func (s *State) Figures() Figures {
	f := Figures{Producers: int64(len(s.producers.byID)), EvictedEarly: s.evictedEarly, TailIDs: s.tail.list.n, Runs: len(s.runs)}
	for _, r := range s.runs {
		f.HeapBytes += int64(len(r.filter)) + 160
	}
	f.HeapBytes += int64(s.tail.list.n*48+len(s.tail.slots)*8) + f.Producers*280 + int64(cap(s.journal))*48
	first := s.firstLive()
	if first >= s.total {
		return f
	}
	f.IDs = s.total - first
	f.Oldest = s.timeOf(first)
	f.Newest = s.timeOf(s.total - 1)
	return f
}

// firstLive estimates the ordinal of the oldest live entry.
func (s *State) firstLive() int64 {
	edge := s.edge()
	for _, r := range s.runs {
		if edge.liveRun(r) {
			from := r.firstOrdinal
			from = max(from, r.firstOrdinal+share(r.nextOrdinal-r.firstOrdinal, r.MinTime, edge.time, r.MaxTime+1))
			from = max(from, r.firstOrdinal+share(r.nextOrdinal-r.firstOrdinal, r.First, edge.offset, r.Next))
			return max(from, edge.ordinal)
		}
	}
	if s.tail.list.n == 0 {
		return s.total
	}
	i := max(s.tail.list.since(edge.time), s.tail.list.below(edge.offset))
	return max(s.tail.first+int64(i), edge.ordinal)
}

// timeOf estimates the append time of the entry with the ordinal.
func (s *State) timeOf(ordinal int64) int64 {
	if s.tail.list.n > 0 && ordinal >= s.tail.first {
		return s.tail.list.at(int(ordinal - s.tail.first)).time
	}
	for _, r := range s.runs {
		if ordinal < r.nextOrdinal {
			return r.MinTime + share(r.MaxTime-r.MinTime, r.firstOrdinal, ordinal, r.nextOrdinal)
		}
	}
	return s.coveredNewest.time
}

// share is the part of n that at is of the way from from to to, between 0 and n.
func share(n, from, at, to int64) int64 {
	if at <= from {
		return 0
	}
	return int64(float64(n) * min(1, float64(at-from)/float64(to-from)))
}

// countEvicted counts those of the last n entries' predecessors that had to go for their number.
func (s *State) countEvicted(n int, newest int64) {
	gone := min(int64(n), s.total-s.cfg.Count)
	if s.cfg.Age < 0 || newest-s.timeOf(max(s.total-s.cfg.Count-1, 0)) < s.cfg.Age {
		s.evictedEarly += uint64(gone)
	}
}
