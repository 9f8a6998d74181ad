package dedupe

import (
	"bytes"
	"slices"
	"sort"
)

const (
	// maxSmall is how many runs that aren't large there may be.
	maxSmall = 7
	// mergeRuns of them, the oldest, become one when there are more.
	mergeRuns = 8
	// topRun is the number of entries from which on a run isn't merged any more: a log that gets many
	// ids flushes more than that at once, and writes each of them once.
	topRun = FlushEntries / 4
	// maxMerged bounds the entries of a merge, 20 MiB, and lets mergeRuns of any size be merged.
	maxMerged = mergeRuns * topRun
)

// mergeRule is when to merge, and how many.
type mergeRule struct{ maxSmall, runs int }

// Top tells that the run is large enough to stay what it is.
func (r *Run) Top() bool { return r.Count >= topRun }

// Merge makes one run of several, without what has expired, or drops expired runs:
// BeginMerge under the lock, Build without it, then the owner stores the new run and removes
// those that it replaces, in one transaction, then CommitMerge under the lock. There is one at a time.
type Merge struct {
	// Replaces are the runs that go, neighbours and oldest first.
	Replaces []*Run
	edge     edge
}

// BeginMerge finds runs that should become one, or are expired. Ask it again
// after each. nil: there are none.
func (s *State) BeginMerge() *Merge {
	// Judged by what is covered, which is never taken back.
	edge := s.cfg.edge(s.coveredNewest.time, s.coveredTotal, min(s.start, s.covered))
	m := &Merge{edge: edge}
	live := sort.Search(len(s.runs), func(i int) bool { return edge.liveRun(s.runs[i]) })
	if live > 0 {
		m.Replaces = s.runs[:live]
	} else if from, to := s.merges.mergeable(s.runs); to > from {
		m.Replaces = s.runs[from:to]
	} else {
		return nil
	}
	s.merging = m
	return m
}

// mergeable finds neighbours to merge if there are too many small runs: the oldest that are
// all small, more of them where flushes were small, or, if large ones lie between, the
// stretch that has the most.
func (rule mergeRule) mergeable(runs []*Run) (from, to int) {
	small := 0
	for _, r := range runs {
		if !r.Top() {
			small++
		}
	}
	if small <= rule.maxSmall {
		return 0, 0
	}
	most := 1
	for i := range runs {
		if runs[i].Top() {
			continue
		}
		if end := rule.stretch(runs, i); end-i >= rule.runs {
			return i, end
		}
		if end, n := mixed(runs, i); n > most {
			from, to, most = i, end, n
		}
	}
	return from, to
}

// stretch is the end of the small neighbours from that one on that can become one run.
func (rule mergeRule) stretch(runs []*Run, from int) (to int) {
	count := 0
	for to = from; to < len(runs) && !runs[to].Top() && (to-from < rule.runs || count < topRun) && count+runs[to].Count <= maxMerged && together(runs[from], runs[to]); to++ {
		count += runs[to].Count
	}
	return to
}

// mixed is the same of neighbours of any size, up to a small one, and the number of those that are
// small.
func mixed(runs []*Run, from int) (to, small int) {
	count := 0
	for i := from; i < len(runs) && count+runs[i].Count <= maxMerged && together(runs[from], runs[i]); i++ {
		count += runs[i].Count
		if !runs[i].Top() {
			to, small = i+1, small+1
		}
	}
	return to, small
}

// together tells that one run can say offsets and ordinals of both.
func together(first, last *Run) bool {
	return last.Next-first.First <= maxSpan/2 && last.nextOrdinal-first.firstOrdinal < 1<<31
}

// Build makes the bytes of the run that takes the place of the others; nil: nothing of
// them is live. Call it without the lock. The error is read's or a *CorruptError.
func (m *Merge) Build(read Reader) (run []byte, err error) {
	oldest, newest := m.Replaces[0], m.Replaces[len(m.Replaces)-1]
	if !m.edge.liveRun(newest) {
		return nil, nil
	}
	var cursors []*runCursor
	var heads []uint64 // of the entries that cursors are at, for a quick look
	capacity := 0
	for _, r := range m.Replaces {
		if !m.edge.liveRun(r) {
			continue
		}
		b, err := read(r, 0, r.Size)
		if err != nil {
			return nil, err
		}
		c := &runCursor{run: r, read: bytesOf(b)}
		if err := c.next(); err != nil {
			return nil, err
		}
		cursors, heads = append(cursors, c), append(heads, c.head())
		capacity += r.Count
	}
	// What is live isn't below the edge.
	w := newRunWriter(oldest.First, max(oldest.MinTime, m.edge.time), max(oldest.firstOrdinal, m.edge.ordinal), capacity)
	for len(cursors) > 0 {
		least := len(cursors) - 1 // of equal ids the newest comes first
		for i := least - 1; i >= 0; i-- {
			if heads[i] < heads[least] || heads[i] == heads[least] && bytes.Compare(cursors[i].entry.ID[:], cursors[least].entry.ID[:]) < 0 {
				least = i
			}
		}
		c := cursors[least]
		if m.edge.live(c.entry) {
			w.add(&c.entry)
		}
		if err := c.next(); err != nil {
			return nil, err
		}
		if heads[least] = c.head(); c.done {
			cursors, heads = slices.Delete(cursors, least, least+1), slices.Delete(heads, least, least+1)
		}
	}
	return w.finish(newest.Next), nil
}

// runCursor walks over a run.
type runCursor struct {
	run   *Run
	read  Reader
	block []byte // what is left of it
	at    int    // the next one
	entry Entry
	done  bool
}

func (c *runCursor) head() uint64 { return c.entry.ID.head() }

func (c *runCursor) next() (err error) {
	if len(c.block) == 0 {
		if c.done = c.at == c.run.blocks(); c.done {
			return nil
		}
		if c.block, err = c.run.block(c.read, c.at); err != nil {
			return err
		}
		c.at++
	}
	c.entry, c.block = c.run.decode(c.block), c.block[entrySize:]
	return nil
}

// CommitMerge puts the run in the place of those that m replaces; nil: nothing. False: the state
// was made anew meanwhile, and nothing was changed.
func (s *State) CommitMerge(m *Merge, run *Run) bool {
	if s.merging != m {
		return false
	}
	s.merging = nil
	from := sort.Search(len(s.runs), func(i int) bool { return s.runs[i].First >= m.Replaces[0].First })
	runs := append([]*Run(nil), s.runs[:from]...)
	if run != nil {
		runs = append(runs, run)
	}
	s.runs = append(runs, s.runs[from+len(m.Replaces):]...)
	s.generation++
	return true
}
