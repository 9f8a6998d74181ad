package dedupe

import "slices"

// producer is what is known of one producer. It never changes: each batch makes
// another one, so that an undo and a snapshot only keep a pointer.
type producer struct {
	id    int64
	epoch int16
	n     uint8 // batches that are filled
	// before is how many sequence numbers the epoch had before batches[0], as far as is known and
	// maxBehind at most.
	before  uint32
	batches [RetainedBatches]sequenced // of the epoch, oldest first
}

// sequenced is a batch that a producer wrote.
type sequenced struct {
	first, last int32 // sequence numbers; first > last where they wrap
	base, next  int64 // offsets
	time        int64 // of the append, ms
}

func (p *producer) newest() *sequenced { return &p.batches[p.n-1] }

// with is p after one more batch. p may be nil.
func (p *producer) with(b Producer, base, next, time int64) *producer {
	s := sequenced{first: b.Sequence & maxSequence, base: base, next: next, time: time}
	s.last = addSequence(s.first, max(b.Count, 1)-1)
	after := &producer{id: b.ID, epoch: b.Epoch, before: min(uint32(s.first), maxBehind)}
	if p != nil && p.epoch == b.Epoch {
		*after = *p
		if after.n == RetainedBatches {
			gone := after.batches[0]
			after.before = min(after.before+uint32(behind(gone.first, gone.last)), maxBehind-1) + 1
			copy(after.batches[:], after.batches[1:])
			after.n--
		}
	}
	after.batches[after.n] = s
	after.n++
	return after
}

// producers are those of one log, from the one that has been silent longest to
// the one that wrote last.
type producers struct {
	byID           map[int64]*node
	oldest, newest *node
	max            int
}

type node struct {
	producer     *producer
	older, newer *node
	out          bool // it isn't in the list
}

// change is what a batch changed, to be undone in the opposite order.
type change struct {
	node    *node // nil: nothing
	id      int64
	was     *producer // nil: there was none
	older   *node     // behind which it stood
	evicted *node     // who had to go
	gone    *producer // the same; unlike a node it never changes
}

func (ps *producers) get(id int64) *producer {
	if n := ps.byID[id]; n != nil {
		return n.producer
	}
	return nil
}

// set makes p the producer that wrote last.
func (ps *producers) set(p *producer) change {
	if ps.byID == nil {
		ps.byID = map[int64]*node{}
	}
	n := ps.byID[p.id]
	if n != nil {
		c := change{node: n, id: p.id, was: n.producer, older: n.older}
		ps.unlink(n)
		n.producer = p
		ps.linkBehind(n, ps.newest)
		return c
	}
	n = &node{producer: p}
	c := change{node: n, id: p.id}
	ps.byID[p.id] = n
	ps.linkBehind(n, ps.newest)
	if len(ps.byID) > ps.max {
		c.evicted, c.gone = ps.oldest, ps.oldest.producer
		ps.remove(c.evicted)
	}
	return c
}

func (ps *producers) undo(c change) {
	if c.node == nil {
		return
	}
	if e := c.evicted; e != nil {
		ps.byID[e.producer.id] = e
		ps.linkBehind(e, nil)
	}
	if c.was == nil {
		ps.remove(c.node)
		return
	}
	ps.unlink(c.node)
	c.node.producer = c.was
	if c.older != nil && c.older.out { // forgotten since
		c.older = ps.lastBelow(c.was.newest().next)
	}
	ps.linkBehind(c.node, c.older)
}

// lastBelow is who wrote last below an offset; nil: nobody. It is for offsets below which only those
// are left that had written again when others were forgotten, and are back by an undo: few.
func (ps *producers) lastBelow(offset int64) (last *node) {
	for n := ps.oldest; n != nil && n.producer.newest().next < offset; n = n.newer {
		last = n
	}
	return last
}

func (ps *producers) remove(n *node) {
	ps.unlink(n)
	delete(ps.byID, n.producer.id)
}

func (ps *producers) unlink(n *node) {
	if n.older != nil {
		n.older.newer = n.newer
	} else {
		ps.oldest = n.newer
	}
	if n.newer != nil {
		n.newer.older = n.older
	} else {
		ps.newest = n.older
	}
	n.older, n.newer, n.out = nil, nil, true
}

// linkBehind puts n behind the older one; nil: it becomes the oldest.
func (ps *producers) linkBehind(n, older *node) {
	n.older, n.out = older, false
	if older == nil {
		n.newer, ps.oldest = ps.oldest, n
	} else {
		n.newer, older.newer = older.newer, n
	}
	if n.newer == nil {
		ps.newest = n
	} else {
		n.newer.older = n
	}
}

// forget removes those whose last append was before ms.
func (ps *producers) forget(ms int64) {
	for ps.oldest != nil && ps.oldest.producer.newest().time < ms {
		ps.remove(ps.oldest)
	}
}

// list gives all, oldest first.
func (ps *producers) list() []*producer {
	list := make([]*producer, 0, len(ps.byID))
	for n := ps.oldest; n != nil; n = n.newer {
		list = append(list, n.producer)
	}
	return list
}

// without gives the producers of a list as they were before changes were made to
// it, oldest changes first; in no order. It is pure.
func without(list []*producer, undone []mark) []*producer {
	if len(undone) == 0 {
		return list
	}
	was := map[int64]*producer{}
	for i := len(undone) - 1; i >= 0; i-- {
		c := &undone[i].change
		if c.gone != nil {
			was[c.gone.id] = c.gone
		}
		if c.node != nil {
			was[c.id] = c.was
		}
	}
	before := make([]*producer, 0, len(list))
	for _, p := range list {
		if _, changed := was[p.id]; !changed {
			before = append(before, p)
		}
	}
	for _, p := range was {
		if p != nil {
			before = append(before, p)
		}
	}
	return before
}

// youngEnough filters a list in place.
func youngEnough(list []*producer, edge int64) []*producer {
	return slices.DeleteFunc(list, func(p *producer) bool { return p.newest().time < edge })
}

// byLastOffset sorts producers as they stand in the list.
func byLastOffset(list []*producer) {
	slices.SortFunc(list, func(a, b *producer) int {
		switch x, y := a.newest().next, b.newest().next; {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
}
