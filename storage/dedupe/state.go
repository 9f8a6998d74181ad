package dedupe

import "sort"

// State is what is remembered of one log. Its methods touch memory only, and
// the log's mutex guards all of them.
type State struct {
	cfg   Config
	start int64 // the log start offset

	// next is above all that was noted: what lies below it is known. newest is
	// the newest append time, total the ordinal that the next entry gets.
	next, newest, total int64

	runs      []*Run // ascending and without overlap, below covered; the slice is never written to
	tail      tail
	producers producers
	// journal has a mark for each batch since covered that changed what the tail doesn't tell.
	journal []mark

	// Below covered all is in the runs and the stored snapshot, but for ids that had left the window
	// when the log reached up to judged. What newest and total were at covered.
	covered, coveredTotal int64
	coveredNewest         newestTime
	judged                int64

	generation   uint64
	flushing     *Flush // nil: none, or it was overtaken
	merging      *Merge
	merges       mergeRule
	evictedEarly uint64
}

// mark is what a batch changed apart from the tail.
type mark struct {
	next int64 // offset behind the batch
	time int64 // what newest was after it
	change
}

// New is the state of an empty log that begins at 0.
func New(cfg Config) *State {
	return &State{cfg: cfg, producers: producers{max: MaxProducers}, merges: mergeRule{maxSmall, mergeRuns}}
}

// Configure changes the windows. What the old ones have let go doesn't come back.
func (s *State) Configure(cfg Config) {
	if s.cfg != cfg {
		s.cfg = cfg
		s.generation++
	}
}

// SetStart tells the log start offset; it never goes back.
func (s *State) SetStart(offset int64) { s.start = max(s.start, offset) }

// Next is the offset below which all is known: Note does nothing below it.
func (s *State) Next() int64 { return s.next }

// Covered is the offset below which runs and the stored snapshot know all.
func (s *State) Covered() int64 { return s.covered }

// Judged is Covered, or the offset above it up to which the log was looked at when ids were let go
// that had left the window. Truncate can't go below it: some might be back in the window.
func (s *State) Judged() int64 { return max(s.covered, s.judged) }

// Newest is the newest append time of the log, ms; 0: none yet.
func (s *State) Newest() int64 { return s.newest }

// Generation changes whenever the runs do, or something was taken back: what
// was found in runs before holds as long as it stays the same.
func (s *State) Generation() uint64 { return s.generation }

// Note takes the facts of a batch that the log got or has, without judging them
// (I10). Batches come in the order of their offsets, and those that carry nothing may be left
// out. What is below Next is known and changes nothing, so that a batch may be noted
// again, and one that begins below is noted from there on.
func (s *State) Note(b *Batch) {
	if b.Next <= s.next {
		return
	}
	time := s.newest
	if b.Time != NoTime {
		time = max(time, min(b.Time, maxTime))
	}
	traced := s.noteMessages(b, time)
	if b.Producer.ID != NoProducer {
		// Forgotten by this batch's own time: so nobody has to know the time before it, as
		// a replica can't that begins with the offsets inside it.
		was := s.producer(b.Producer.ID, time)
		c := s.producers.set(was.with(b.Producer, b.Base, b.Next, time))
		s.journal = append(s.journal, mark{next: b.Next, time: time, change: c})
	} else if !traced && time > s.newest {
		s.journal = append(s.journal, mark{next: b.Next, time: time})
	}
	s.newest, s.next = time, b.Next
}

// Replay is Note of what the log has already: nobody is evicted anew by it.
func (s *State) Replay(b *Batch) {
	was := s.evictedEarly
	s.Note(b)
	s.evictedEarly = was
}

func (s *State) noteMessages(b *Batch, time int64) (any bool) {
	if s.cfg.Age == 0 {
		return false
	}
	for from, i := s.next, 0; i < len(b.Messages); i++ {
		m := &b.Messages[i]
		offset := b.Base + int64(m.Delta)
		if offset < from || offset >= b.Next {
			continue
		}
		from = offset + 1
		if s.tail.list.n == 0 {
			s.tail.first = s.total
		}
		s.tail.push(&m.ID, offset, time, m.Content)
		s.total++
		any = true
	}
	if any && s.cfg.Count >= 0 && s.total > s.cfg.Count {
		s.countEvicted(len(b.Messages), time)
	}
	return any
}

// producer is what is known of a producer; nil if it is forgotten when that is the newest time.
func (s *State) producer(id, newest int64) *producer {
	p := s.producers.get(id)
	if p == nil || s.cfg.producerEdge(newest) > p.newest().time {
		return nil
	}
	return p
}

// Check judges an append of an idempotent producer (I3). Errors: *GapError,
// *FencedError, ErrUnknownProducer.
func (s *State) Check(p Producer) (Verdict, error) { return s.producer(p.ID, s.newest).check(p) }

// Found is the newest entry of one of several ids that were asked for, by index.
type Found struct {
	Index int
	Entry
}

// FindTail gives the newest entries of those ids that are in the tail, live or not; they are newer
// than what runs have of the ids. Ascending by index.
func (s *State) FindTail(ids []ID) []Found { return s.tail.findAll(ids) }

// TailLen is the number of entries in the tail.
func (s *State) TailLen() int { return s.tail.list.n }

// Live tells whether an id's newest entry is in the window now.
func (s *State) Live(e Entry) bool { return s.edge().live(e) }

// LiveRuns are those runs that have entries in the window, oldest first, for FindRuns. They
// hold as long as Generation stays the same. The slice may not be written to.
func (s *State) LiveRuns() []*Run {
	edge := s.edge()
	return s.runs[sort.Search(len(s.runs), func(i int) bool { return edge.liveRun(s.runs[i]) }):]
}

// Runs are all runs, oldest first. The slice may not be written to.
func (s *State) Runs() []*Run { return s.runs }

// Find looks for a live entry in tail and runs. It calls read, under the lock
// then: without it take FindTail and LiveRuns under the lock, FindRuns, then Live if
// Generation is the same.
func (s *State) Find(id ID, read Reader) (e Entry, found bool, err error) {
	e, found = s.tail.find(&id)
	if !found {
		e, found, err = FindRuns(s.LiveRuns(), id, read)
	}
	if !found || err != nil || !s.Live(e) {
		return Entry{}, false, err
	}
	return e, true, nil
}

// Truncate takes back all that was noted of batches that reach above offset,
// because they were cut from the log or never written. It is where a batch ends, or Covered, which
// may lie inside one: what is below stays then. False: offset is below Judged
// and nothing was done; then the state has to be made anew (see View.Export: what no log can
// tell, then the log's batches).
func (s *State) Truncate(offset int64) bool {
	if offset < s.Judged() {
		return false
	}
	if offset >= s.next {
		return true
	}
	for n := len(s.journal); n > 0 && s.journal[n-1].next > offset; n-- {
		s.producers.undo(s.journal[n-1].change)
		s.journal[n-1] = mark{}
		s.journal = s.journal[:n-1]
	}
	s.total -= int64(s.tail.cut(offset))
	s.next, s.newest = offset, s.newestAt(offset).time
	if s.flushing != nil && offset < s.flushing.judged {
		s.flushing = nil
	}
	s.generation++
	return true
}

// newestTime is the newest append time of the log up to an offset, and the least offset for which it
// is known to be that: nothing else may be remembered of the batch that brought it.
type newestTime struct{ time, from int64 }

// note takes in that a batch has a time, of which something lies below an offset.
func (n *newestTime) note(time, below int64) {
	switch {
	case time > n.time:
		n.time, n.from = time, below
	case time == n.time:
		n.from = min(n.from, below)
	}
}

// newestAt is that up to offset, which isn't below covered.
func (s *State) newestAt(offset int64) newestTime {
	n := s.coveredNewest
	if i := s.tail.list.below(offset); i > 0 {
		time := s.tail.list.at(i - 1).time
		n.note(time, s.tail.list.at(s.tail.list.since(time)).offset+1)
	}
	if i := s.marksBelow(offset); i > 0 {
		time := s.journal[i-1].time
		first := sort.Search(i, func(i int) bool { return s.journal[i].time >= time })
		n.note(time, s.journal[first].next)
	}
	return n
}

// marksBelow is the number of marks of batches that end at offset or below.
func (s *State) marksBelow(offset int64) int {
	return sort.Search(len(s.journal), func(i int) bool { return s.journal[i].next > offset })
}

// totalAt is the ordinal of the first entry at or above offset, which isn't below covered.
func (s *State) totalAt(offset int64) int64 {
	if s.tail.list.n == 0 {
		return s.total
	}
	return s.tail.first + int64(s.tail.list.below(offset))
}
