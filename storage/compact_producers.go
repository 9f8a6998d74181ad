package storage

// maxProducersKept bounds the producers that a compaction remembers. Of the others it
// keeps every batch, without records if need be.
const maxProducersKept = 1 << 20

// producers knows each producer's last batch in a part of the log (R92).
type producers struct {
	lastBase map[int64]int64 // producer id → base offset
	// scanned: the batches of the clean part are in it, from the first on that was asked about.
	scanned bool
}

func (p *producers) note(b Batch) {
	id := b.ProducerID()
	if id == NoProducer {
		return
	}
	if p.lastBase == nil {
		p.lastBase = map[int64]int64{}
	}
	if base, ok := p.lastBase[id]; ok {
		p.lastBase[id] = max(base, b.BaseOffset())
		return
	}
	if len(p.lastBase) >= maxProducersKept {
		return
	}
	p.lastBase[id] = b.BaseOffset()
}

// mustStay tells that the batch is its producer's last one, as far as is known.
func (c *compaction) mustStay(b Batch) (bool, error) {
	if b.ProducerID() == NoProducer {
		return false, nil
	}
	base, known := c.last.lastBase[b.ProducerID()]
	if known && base > b.BaseOffset() {
		return false, nil
	}
	if !c.last.scanned && b.BaseOffset() < c.plan.dirty {
		// A later one may stand in the part that was compacted before. Only logs with
		// producers are read once more for that.
		c.last.scanned = true
		for _, s := range c.plan.segments {
			if s.base >= c.plan.dirty || s.next <= b.BaseOffset() {
				continue
			}
			if err := c.batches(s, func(b Batch, _ int64) (bool, error) { c.last.note(b); return true, nil }); err != nil {
				return false, err
			}
		}
		base, known = c.last.lastBase[b.ProducerID()]
	}
	return !known || base <= b.BaseOffset(), nil
}
