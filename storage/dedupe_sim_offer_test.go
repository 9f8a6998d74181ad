package storage

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"highwater/storage/dedupe"
)

// The simulator's clients, and what has to come of what they send.

// simBatch is a batch that a log got; it never changes.
type simBatch struct {
	base, next int64
	facts      *dedupe.Batch // nil: it isn't marked
}

// from is what lies at or above an offset; nil: nothing.
func (b *simBatch) from(offset int64) *simBatch {
	switch {
	case b.next <= offset:
		return nil
	case b.base >= offset || b.facts == nil:
		return b
	}
	f := *b.facts
	f.Messages = slices.DeleteFunc(slices.Clone(f.Messages), func(m dedupe.Message) bool { return f.Base+int64(m.Delta) < offset })
	return &simBatch{base: b.base, next: b.next, facts: &f}
}

// upTo is what lies below an offset; nil: nothing.
func (b *simBatch) upTo(offset int64) *simBatch {
	switch {
	case b.base >= offset || b.facts == nil:
		return nil
	case b.next <= offset:
		return b
	}
	f := *b.facts
	f.Next, f.Producer = offset, dedupe.Producer{ID: dedupe.NoProducer}
	f.Messages = slices.DeleteFunc(slices.Clone(f.Messages), func(m dedupe.Message) bool { return f.Base+int64(m.Delta) >= offset })
	return &simBatch{base: b.base, next: offset, facts: &f}
}

// simRecord is one of an offer.
type simRecord struct {
	key, value, id string
}

func (r *simRecord) content() uint64 {
	var c dedupe.Content
	c.Begin([]byte(r.key), []byte(r.value))
	c.Header([]byte("n"), []byte(r.value))
	return c.Sum()
}

// simOffer is what a client sends.
type simOffer struct {
	batches  [][]simRecord
	producer *Producer
}

// simPending is an offer that was prepared and waits to be staged.
type simPending struct {
	what  *simOffer
	times []int64
	offer *Offer
	at    int64 // when it was prepared, by the leader's clock
}

func (s *dedupeSim) id() string { return fmt.Sprint("id-", s.rng.IntN(50)) }

// newOffer makes up what a client sends, or takes what one sent before.
func (s *dedupeSim) newOffer() *simOffer {
	if len(s.sent) > 0 && s.rng.IntN(3) == 0 {
		return s.sent[max(0, len(s.sent)-1-s.rng.IntN(30))]
	}
	o := &simOffer{}
	count := 1
	if s.rng.IntN(2) == 0 {
		count += s.rng.IntN(3)
	}
	withIDs := s.rng.IntN(4)
	// Where an unclean election cuts a compacted log, what its producers had written below may
	// be known no more: the batches went with the compaction, and of each producer the last are remembered.
	if s.rng.IntN(3) == 0 && !(s.unclean && s.cfg.Compact) {
		count = 1
		o.producer = s.newProducer()
		withIDs = max(withIDs-2, 0)
	}
	for range count {
		var batch []simRecord
		for range 1 + s.rng.IntN(4) {
			r := simRecord{key: fmt.Sprint("k", s.rng.IntN(8)), value: fmt.Sprint("value ", s.next)}
			s.next++
			if s.rng.IntN(4) < withIDs {
				if r.id = s.id(); s.rng.IntN(8) > 0 {
					r.value = "of " + r.id // what another client would say under this id
					r.key = fmt.Sprint("k", len(r.id)+int(r.id[len(r.id)-1]))
				}
			}
			batch = append(batch, r)
		}
		o.batches = append(o.batches, batch)
	}
	if p := o.producer; p != nil {
		mine := &s.producers[p.ID-100]
		if p.Epoch == mine.Epoch && p.BaseSequence == mine.BaseSequence {
			mine.BaseSequence += int32(len(o.batches[0]))
		}
	}
	s.sent = append(s.sent, o)
	return o
}

// newProducer is mostly one that goes on as it should.
func (s *dedupeSim) newProducer() *Producer {
	p := &s.producers[s.rng.IntN(len(s.producers))]
	switch s.rng.IntN(12) {
	case 0:
		p.Epoch, p.BaseSequence = p.Epoch+1, 0
	case 1: // what was lost by a leader change, or forgotten, makes it begin anew
		p.Epoch, p.BaseSequence = p.Epoch+1, 0
	case 2:
		return &Producer{ID: p.ID, Epoch: p.Epoch, BaseSequence: p.BaseSequence + 3}
	case 3:
		return &Producer{ID: p.ID, Epoch: max(p.Epoch-1, 0), BaseSequence: p.BaseSequence}
	}
	q := *p
	return &q
}

// build encodes an offer at the gate of some broker.
func (s *dedupeSim) build(o *simOffer) *simPending {
	p := &simPending{what: o}
	var batches []Batch
	var facts []*Facts
	for _, records := range o.batches {
		b := BatchBuilder{AppendTime: s.any().now(), KeepFacts: s.rng.IntN(2) == 0} // led at the gate's broker, or elsewhere
		if s.rng.IntN(25) == 0 {
			b.AppendTime += 30_000 * (s.rng.Int64N(3) - 1)
		}
		for _, r := range records {
			rec := Record{Key: []byte(r.key), Value: []byte(r.value), Timestamp: 500 + s.rng.Int64N(1000), Headers: []Header{{Key: []byte("n"), Value: []byte(r.value)}}}
			if r.id != "" {
				rec.Headers = append(rec.Headers, Header{Key: []byte(MessageIDHeader), Value: []byte(r.id)})
			}
			b.Append(&rec)
		}
		p.times = append(p.times, b.AppendTime)
		sealed, err := b.Seal([]Compression{CompressionNone, CompressionNone, CompressionZstd}[s.rng.IntN(3)], o.producer)
		if err != nil {
			s.fatalf("seal: %v", err)
		}
		batches, facts = append(batches, sealed), append(facts, b.Facts())
	}
	var err error
	if p.offer, err = NewOffer(batches, facts); err != nil {
		s.fatalf("offer: %v", err)
	}
	return p
}

func (s *dedupeSim) offer() {
	l := s.leader
	if l.fs.Crashed() {
		return
	}
	p := s.build(s.newOffer())
	if s.rng.IntN(8) == 0 { // it is prepared, and others come first
		p.at = l.now()
		if err := l.log.Prepare(p.offer); err == nil {
			s.pending = append(s.pending, p)
		} else {
			s.refused(p, s.expect(p), err)
		}
		return
	}
	s.stage(p, false)
}

func (s *dedupeSim) stagePending() {
	if len(s.pending) == 0 || s.leader.fs.Crashed() {
		return
	}
	i := s.rng.IntN(len(s.pending))
	p := s.pending[i]
	s.pending = slices.Delete(s.pending, i, i+1)
	s.stage(p, true)
}

// stage brings an offer into the leader's log.
func (s *dedupeSim) stage(p *simPending, prepared bool) {
	l := s.leader
	base := l.log.StagedEnd()
	for tries := 0; ; tries++ {
		if !prepared {
			p.at = l.now()
		}
		want := s.expect(p)
		if !prepared {
			if err := l.log.Prepare(p.offer); err != nil {
				s.refused(p, want, err)
				return
			}
		}
		prepared = false
		st, ok, err := l.log.StageOffer(-1, p.offer, s.epoch)
		switch {
		case errors.Is(err, ErrStale) && tries == 0:
			s.rare["stale"]++
			continue
		case err != nil:
			s.refused(p, want, err)
			return
		case !ok:
			s.fatalf("not staged: %+v", st)
		}
		s.staged(p, want, base, st)
		return
	}
}

// expected is what an offer comes to.
type expected struct {
	refused string  // why; empty: it isn't
	offsets []int64 // of each record; -1: as if new; -2: not known any more
	dup     []bool
	batches []*simBatch // relative to offset 0
	copies  map[int]int // record → the one of the same offer that it repeats
}

// expect says what the leader has to answer, by its memory as it should be.
func (s *dedupeSim) expect(p *simPending) expected {
	l, o := s.leader, p.what
	m := newSimMemory(l)
	x := expected{copies: map[int]int{}}
	if o.producer != nil {
		v, err := m.state.Check(dedupe.Producer{ID: o.producer.ID, Epoch: o.producer.Epoch, Sequence: o.producer.BaseSequence, Count: int32(len(o.batches[0]))})
		var gap *dedupe.GapError
		var fenced *dedupe.FencedError
		switch {
		case errors.As(err, &gap):
			x.refused = fmt.Sprint("gap ", gap.Expected)
		case errors.As(err, &fenced):
			x.refused = fmt.Sprint("fenced ", fenced.Current)
		case err != nil:
			x.refused = "unknown"
		}
		if err != nil {
			return x
		}
		if v.Duplicate {
			for i := range o.batches[0] {
				x.dup, x.offsets = append(x.dup, true), append(x.offsets, -2)
				if v.Base >= 0 {
					x.offsets[i] = v.Base + int64(i)
				}
			}
			return x
		}
	}
	first := map[string]int{}
	contents := map[string]uint64{}
	at, n := int64(0), 0
	for i, records := range o.batches {
		b := &simBatch{base: at}
		facts := &dedupe.Batch{Base: at, Time: p.times[i], Producer: dedupe.Producer{ID: dedupe.NoProducer}}
		if facts.Time < p.at-10_000 || facts.Time > p.at+10_000 {
			facts.Time = p.at
		}
		for _, r := range records {
			offset, dup := int64(-1), false
			if r.id != "" && s.cfg.DedupeAge != 0 {
				e, live := m.find(r.id)
				earlier, twice := first[r.id]
				switch {
				case live && (o.producer != nil || e.content != r.content()):
					x.refused = "reused"
				case live:
					offset, dup = e.offset, true
				case twice && (o.producer != nil || contents[r.id] != r.content()):
					x.refused = "reused"
				case twice:
					dup = true
					x.copies[n] = earlier
				default:
					first[r.id], contents[r.id] = n, r.content()
				}
			}
			x.offsets, x.dup = append(x.offsets, offset), append(x.dup, dup)
			if !dup {
				if r.id != "" {
					facts.Messages = append(facts.Messages, dedupe.Message{ID: dedupe.IDOf([]byte(r.id)), Content: r.content(), Delta: int32(at - b.base)})
				}
				x.offsets[n] = -1
				at++
			}
			n++
		}
		if b.next = at; at == b.base {
			continue
		}
		if o.producer != nil {
			facts.Producer = dedupe.Producer{ID: o.producer.ID, Epoch: o.producer.Epoch, Sequence: o.producer.BaseSequence, Count: int32(at - b.base)}
		}
		if facts.Next = at; len(facts.Messages) > 0 || o.producer != nil {
			b.facts = facts
		}
		x.batches = append(x.batches, b)
	}
	return x
}

// refused holds an error against what was expected.
func (s *dedupeSim) refused(p *simPending, want expected, err error) {
	l := s.leader
	var gap *SequenceGapError
	var fenced *ProducerFencedError
	var unknown *UnknownProducerError
	var reused *MessageReusedError
	got := ""
	switch {
	case l.fs.Crashed():
		return
	case errors.As(err, &gap):
		got = fmt.Sprint("gap ", gap.Expected)
		s.rare["sequence gap"]++
	case errors.As(err, &fenced):
		got = fmt.Sprint("fenced ", fenced.Current)
		s.rare["fenced"]++
	case errors.As(err, &unknown):
		got = "unknown"
		s.rare["unknown producer"]++
	case errors.As(err, &reused):
		got = "reused"
		s.rare["reused"]++
		if e, live := newSimMemory(l).find(reused.ID); reused.Offset >= 0 && (!live || e.offset != reused.Offset) {
			s.fatalf("%v: the id is at %d", err, e.offset)
		}
	case errors.Is(err, ErrDiskNearlyFull) && len(want.batches) > 0:
		s.rare["disk full"]++
		return
	}
	if got == "" || got != want.refused {
		s.fatalf("offer %+v was refused: %v; want %+v", p.what, err, want)
	}
	s.note("offer refused: %s", got)
}

// staged holds an answer against what was expected, and writes.
func (s *dedupeSim) staged(p *simPending, want expected, base int64, st Staged) {
	l := s.leader
	if want.refused != "" {
		s.fatalf("offer %+v was staged at %d, but should be refused: %s", p.what, st.BaseOffset, want.refused)
	}
	anyDup, at := false, base
	for i, offset := range want.offsets {
		switch {
		case !want.dup[i]:
			want.offsets[i], at = at, at+1
		case offset == -2:
			want.offsets[i] = -1
		case offset == -1:
			want.offsets[i] = want.offsets[want.copies[i]]
		}
		anyDup = anyDup || want.dup[i]
	}
	s.note("offer %+v at %d: %v %v", p.what, base, want.offsets, want.dup)
	if st.New != (at > base) || anyDup != (st.Duplicate != nil) || anyDup && (!slices.Equal(st.Offsets, want.offsets) || !slices.Equal(st.Duplicate, want.dup)) {
		s.fatalf("answer is %+v, want %v %v", st, want.offsets, want.dup)
	}
	for i, offset := range want.offsets {
		if want.dup[i] && offset >= l.log.CheckpointedHighWatermark() && (offset < st.WaitFrom || offset >= st.WaitEnd) {
			s.fatalf("duplicate of %d, above %d, is not waited for: [%d, %d)", offset, l.log.CheckpointedHighWatermark(), st.WaitFrom, st.WaitEnd)
		}
	}
	s.countAnswer(p, want, base)
	for _, b := range want.batches {
		placed := &simBatch{base: base + b.base, next: base + b.next}
		if b.facts != nil {
			f := *b.facts
			f.Base, f.Next = placed.base, placed.next
			placed.facts = &f
			if f.Time != p.times[0] && len(p.times) == 1 {
				s.rare["skewed clock"]++
			}
		}
		l.append(placed)
	}
	s.write(st, base, want)
}

func (s *dedupeSim) countAnswer(p *simPending, want expected, base int64) {
	l := s.leader
	for i, offset := range want.offsets {
		if !want.dup[i] {
			continue
		}
		_, copied := want.copies[i]
		switch {
		case p.what.producer != nil && offset < 0:
			s.rare["producer old duplicate"]++
		case p.what.producer != nil:
			s.rare["producer duplicate"]++
		case copied:
			s.rare["same id twice in an offer"]++
		default:
			s.rare["duplicate"]++
			if offset >= l.log.WrittenEnd() {
				s.rare["duplicate in flight"]++
			}
			if offset < l.log.StartOffset() {
				s.rare["id of a record that is gone"]++
			} else if offset < l.log.WrittenEnd() && !s.readable(offset) {
				s.rare["id of a record compacted away"]++
			}
		}
	}
	if p.what.producer != nil && p.what.producer.Epoch > 0 && p.what.producer.BaseSequence == 0 && len(want.batches) > 0 {
		s.rare["epoch bump"]++
	}
	m := newSimMemory(l)
	for _, b := range p.what.batches {
		for _, r := range b {
			if r.id == "" {
				continue
			}
			if e, live := m.find(r.id); !live && e.offset >= 0 && base > 0 {
				s.rare["expired id again"]++
			}
		}
	}
}

// readable tells whether the leader has a record at the offset.
func (s *dedupeSim) readable(offset int64) bool {
	res, err := s.leader.log.Read(offset, offset+1, 1, nil)
	if err != nil || len(res.Data) == 0 {
		return false
	}
	it, err := Batch(res.Data).Records()
	if err != nil {
		return false
	}
	var r Record
	for it.Next(&r) {
		if r.Offset == offset {
			return true
		}
	}
	return false
}

// write does one of what acks ask for.
func (s *dedupeSim) write(st Staged, base int64, want expected) {
	l := s.leader
	var err error
	switch s.rng.IntN(4) {
	case 0:
		return
	case 1:
		err = l.log.Write(st)
	default:
		if err = l.log.Sync(st); err == nil {
			l.synced = max(l.synced, min(st.EndOffset, l.log.DurableEnd()))
		}
	}
	switch {
	case l.fs.Crashed():
	case errors.Is(err, ErrDiskNearlyFull):
		s.rare["staged and lost"]++
		s.note("no room: the log ends at %d, %d was staged at %d", l.log.StagedEnd(), len(want.batches), base)
		l.cut(l.log.StagedEnd())
	case err != nil && strings.Contains(err.Error(), "closed") && !st.New:
		// It waited for what had been lost before.
	case err != nil:
		s.fatalf("write: %v", err)
	}
}
