package dedupe

import "slices"

// naive is what a State should be, made from the list of all batches in the plainest way.
type naive struct {
	newest    int64
	entries   []Entry // all there ever were
	producers []*naiveProducer
	cfg       Config
	start     int64
}

type naiveProducer struct {
	id      int64
	epoch   int16
	written int64 // sequence numbers of the epoch before the first of batches
	batches []sequenced
}

func recompute(cfg Config, start int64, maxProducers int, log []*Batch) *naive {
	n := &naive{cfg: cfg, start: start}
	for _, b := range log {
		if b.Time != NoTime && b.Time > n.newest {
			n.newest = b.Time
		}
		if cfg.Age != 0 {
			for _, m := range b.Messages {
				n.entries = append(n.entries, Entry{ID: m.ID, Offset: b.Base + int64(m.Delta), Time: n.newest, Content: m.Content, Ordinal: int64(len(n.entries))})
			}
		}
		if b.Producer.ID == NoProducer {
			continue
		}
		p := n.producer(b.Producer.ID, n.newest)
		n.producers = slices.DeleteFunc(n.producers, func(q *naiveProducer) bool { return q.id == b.Producer.ID })
		if p == nil || p.epoch != b.Producer.Epoch {
			p = &naiveProducer{id: b.Producer.ID, epoch: b.Producer.Epoch, written: int64(b.Producer.Sequence)}
		}
		last := int64(b.Producer.Sequence) + int64(b.Producer.Count) - 1
		p.batches = append(p.batches, sequenced{first: b.Producer.Sequence, last: int32(last % (1 << 31)), base: b.Base, next: b.Next, time: n.newest})
		if len(p.batches) > 5 {
			p.written += p.batches[0].next - p.batches[0].base
			p.batches = p.batches[1:]
		}
		n.producers = append(n.producers, p)
		if len(n.producers) > maxProducers {
			n.producers = n.producers[1:]
		}
	}
	return n
}

func (n *naive) producer(id, newest int64) *naiveProducer {
	for _, p := range n.producers {
		if p.id == id && (n.cfg.ProducerAge <= 0 || newest-p.batches[len(p.batches)-1].time < n.cfg.ProducerAge) {
			return p
		}
	}
	return nil
}

func (n *naive) live(e Entry) bool {
	switch {
	case n.cfg.Age == 0, n.cfg.Age > 0 && n.newest-e.Time >= n.cfg.Age, n.cfg.Age < 0 && e.Offset < n.start:
		return false
	}
	return n.cfg.Count < 0 || int64(len(n.entries))-e.Ordinal <= n.cfg.Count
}

func (n *naive) find(id ID) (Entry, bool) {
	for _, e := range slices.Backward(n.entries) {
		if e.ID == id {
			return e, n.live(e)
		}
	}
	return Entry{}, false
}

// all are the live entries in offset order, each id's newest.
func (n *naive) all() (live []Entry) {
	seen := map[ID]bool{}
	for _, e := range slices.Backward(n.entries) {
		if !seen[e.ID] && n.live(e) {
			live = append(live, e)
		}
		seen[e.ID] = true
	}
	slices.Reverse(live)
	return live
}

// verdicts of naive.check.
const (
	isNew = iota
	isDuplicate
	isOldDuplicate
	isGap
	isFenced
	isUnknown
)

// check gives a verdict, and the base offset of the original or the number that is expected.
func (n *naive) check(p Producer) (verdict int, detail int64) {
	known := n.producer(p.ID, n.newest)
	switch {
	case known == nil && p.Sequence == 0:
		return isNew, 0
	case known == nil:
		return isUnknown, 0
	case p.Epoch < known.epoch:
		return isFenced, int64(known.epoch)
	case p.Epoch > known.epoch && p.Sequence == 0:
		return isNew, 0
	case p.Epoch > known.epoch:
		return isGap, 0
	}
	for _, s := range known.batches {
		if s.first == p.Sequence && s.next-s.base == int64(p.Count) {
			return isDuplicate, s.base
		}
	}
	expected := (int64(known.batches[len(known.batches)-1].last) + 1) % (1 << 31)
	if int64(p.Sequence) == expected {
		return isNew, 0
	}
	back := (int64(known.batches[0].first) - int64(p.Sequence) + 1<<31) % (1 << 31)
	if back > 0 && back <= min(known.written, 1<<30) && int64(p.Count) <= back {
		return isOldDuplicate, -1
	}
	return isGap, expected
}
