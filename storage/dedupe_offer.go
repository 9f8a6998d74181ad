package storage

import (
	"encoding/binary"
	"errors"

	"highwater/storage/dedupe"
)

// maxClockSkew is how far the append time that a batch came with may be from the
// leader's clock, in ms. Beyond it the leader's own time counts (D3).
const maxClockSkew = 10_000

// Offer is an append on its way: the batches of one request for one partition, and
// what was found out about their message ids and producer outside of all locks. It
// is for one goroutine at a time.
type Offer struct {
	batches []Batch
	facts   []*dedupe.Batch // of each batch, nil if it isn't marked; nil: none is
	records int

	ids []dedupe.ID // of all records that have a message id, in order
	// twice are messages whose id an earlier one has, by index.
	twice map[int]int

	// What Prepare found out.
	prepared bool
	tail     bool // of the memory's tail, too: a first look leaves it to StageOffer, and is often enough
	seen     seenAt
	known    []dedupe.Found // ids that the log knows
	repeats  dedupe.Verdict // on the producer's batch
	// fates tells, record by record, where it is, see below; nil: all are new.
	fates []int64
	// What is to be staged of it.
	out      []Batch
	outFacts []*dedupe.Batch
	outBytes int64
}

// offered is a record that has a message id.
type offered struct {
	record, batch int
	content       uint64
}

// A fate is the offset of the record's original, or one of these.
const (
	fateNew     = -1
	fateUnknown = -2 // a duplicate of which nobody knows the offset any more
	// fateSame - i: it repeats record i of the same offer.
	fateSame = -3
)

// NewOffer takes the batches of an append, as BatchBuilder sealed them, and what it told of them, and reads
// what else is needed of those that are marked (Batch.Marked). A batch with a producer must be
// the only one. The error is a *CorruptError.
func NewOffer(batches []Batch, known []*Facts) (*Offer, error) {
	o := &Offer{batches: batches}
	var fr factsReader
	var err error
	if o.facts, err = fr.all(batches, known); err != nil {
		return nil, err
	}
	for i, b := range batches {
		if o.facts != nil && o.facts[i] != nil {
			f := o.facts[i]
			if o.ids == nil && len(batches) == 1 {
				o.ids = make([]dedupe.ID, 0, len(f.Messages))
			}
			if f.Producer.ID != dedupe.NoProducer && len(batches) > 1 {
				return nil, &CorruptError{Reason: "a batch with a producer is not the only one of its request"}
			}
			for j := range f.Messages {
				o.ids = append(o.ids, f.Messages[j].ID)
			}
		}
		o.records += int(b.RecordCount())
	}
	o.findTwice()
	return o, nil
}

// findTwice finds ids that come more than once. They are hashes already, so that a
// table of places is enough, and several times as fast as a map.
func (o *Offer) findTwice() {
	if len(o.ids) < 2 {
		return
	}
	size := 4
	for size < 2*len(o.ids) {
		size *= 2
	}
	places := make([]int32, size) // 1 + index
	for i := range o.ids {
		id := &o.ids[i]
		at := int(binary.BigEndian.Uint32(id[8:])) & (size - 1)
		for ; places[at] != 0; at = (at + 1) & (size - 1) {
			if first := int(places[at]) - 1; o.ids[first] == *id {
				if o.twice == nil {
					o.twice = map[int]int{}
				}
				o.twice[i] = first
				break
			}
		}
		if places[at] == 0 {
			places[at] = int32(i + 1)
		}
	}
}

// messages are the records that have a message id, in the order of ids.
func (o *Offer) messages() []offered {
	list, first := make([]offered, 0, len(o.ids)), 0
	for i, b := range o.batches {
		if f := o.facts[i]; f != nil {
			for j := range f.Messages {
				m := &f.Messages[j]
				list = append(list, offered{record: first + int(m.Delta), batch: i, content: m.Content})
			}
		}
		first += int(b.RecordCount())
	}
	return list
}

// producer is the offer's; its ID is NoProducer if it has none.
func (o *Offer) producer() dedupe.Producer {
	if len(o.facts) == 1 && o.facts[0] != nil {
		return o.facts[0].Producer
	}
	return dedupe.Producer{ID: dedupe.NoProducer}
}

// Prepare looks up what the log knows of the offer's ids and producer, and makes its
// batches anew without what the log has already. It may read the index's file, so no
// lock of the caller's may be held. Errors: *MessageReusedError, *SequenceGapError,
// *UnknownProducerError, *ProducerFencedError, *CorruptError, ErrClosed, *FailedError.
func (l *Log) Prepare(o *Offer) error {
	o.tail = o.prepared
	o.known, o.fates, o.repeats = nil, nil, dedupe.Verdict{}
	o.out, o.outFacts = o.batches, o.facts
	o.prepared = true
	if o.facts == nil {
		o.count()
		return nil
	}
	l.awaitLearned()
	if err := l.forgetAhead(); err != nil {
		return err
	}
	if p := o.producer(); p.ID != dedupe.NoProducer {
		l.mu.Lock()
		o.seen = l.seen()
		verdict, err := l.judge(p)
		l.mu.Unlock()
		if err != nil {
			return err
		}
		if o.repeats = verdict; verdict.Duplicate {
			o.repeat()
			return nil
		}
	}
	var err error
	if o.known, o.seen, err = l.lookUp(o.ids, o.tail); len(o.known) > 0 && err == nil && !o.tail {
		o.tail = true // which has what is newer than in a run
		o.known, o.seen, err = l.lookUp(o.ids, true)
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	looked := l.cfg.DedupeAge != 0
	l.mu.Unlock()
	if looked {
		if err := o.decide(); err != nil {
			return err
		}
	}
	return o.build(l.disk.nowMs())
}

// judge asks the memory about a producer's batch (I3). Call it under mu.
func (l *Log) judge(p dedupe.Producer) (dedupe.Verdict, error) {
	memory := l.memory
	if memory == nil {
		memory = dedupe.New(dedupe.Config{})
	}
	verdict, err := memory.Check(p)
	gap, fenced := (*dedupe.GapError)(nil), (*dedupe.FencedError)(nil)
	switch {
	case errors.As(err, &gap):
		err = &SequenceGapError{ProducerID: p.ID, Epoch: p.Epoch, Expected: gap.Expected, Got: p.Sequence}
	case errors.As(err, &fenced):
		err = &ProducerFencedError{ProducerID: p.ID, Epoch: p.Epoch, Current: fenced.Current}
	case errors.Is(err, dedupe.ErrUnknownProducer):
		err = &UnknownProducerError{ProducerID: p.ID}
	}
	return verdict, err
}

// repeat notes that the producer has sent the whole batch before.
func (o *Offer) repeat() {
	o.fates = make([]int64, o.records)
	for i := range o.fates {
		o.fates[i] = fateUnknown
		if o.repeats.Base >= 0 {
			o.fates[i] = o.repeats.Base + int64(i)
		}
	}
	o.out, o.outFacts = nil, nil
	o.count()
}

// decide tells new records from duplicates.
func (o *Offer) decide() error {
	if len(o.known) == 0 && len(o.twice) == 0 {
		return nil
	}
	o.fates = make([]int64, o.records)
	for i := range o.fates {
		o.fates[i] = fateNew
	}
	messages := o.messages()
	ordered := o.producer().ID != dedupe.NoProducer // no record may be left out of a batch with sequence numbers
	for _, k := range o.known {
		m := &messages[k.Index]
		if ordered || k.Content != m.content {
			return o.reused(m, k.Offset)
		}
		o.fates[m.record] = k.Offset
	}
	for i := range messages {
		at, ok := o.twice[i]
		if !ok {
			continue
		}
		m, original := &messages[i], &messages[at]
		switch {
		case o.fates[m.record] != fateNew: // the log knows both
		case ordered || m.content != original.content:
			return o.reused(m, -1)
		default:
			o.fates[m.record] = fateSame - int64(original.record)
		}
	}
	return nil
}

// reused is the error about a message whose id is another one's.
func (o *Offer) reused(m *offered, offset int64) error {
	e := &MessageReusedError{Record: m.record, Offset: offset}
	first := 0
	for _, b := range o.batches[:m.batch] {
		first += int(b.RecordCount())
	}
	var r Record
	if it, err := o.batches[m.batch].Records(); err == nil {
		for i := first; it.Next(&r); i++ {
			if i == m.record {
				e.ID = string(messageIDOf(&r))
			}
		}
	}
	return e
}

// build makes what is to be staged: batches without duplicates, and with this
// broker's time where the one they came with is too far from it.
func (o *Offer) build(now int64) error {
	first, copied := 0, false
	for i, b := range o.batches {
		n := int(b.RecordCount())
		fates := o.fates
		if fates != nil {
			fates = fates[first : first+n]
		}
		first += n
		if o.facts[i] == nil {
			if copied {
				o.out, o.outFacts = append(o.out, b), append(o.outFacts, nil)
			}
			continue
		}
		time := o.facts[i].Time
		if skewed(time, now) {
			time = now
		}
		dropped := false
		for _, fate := range fates {
			dropped = dropped || fate != fateNew
		}
		if !copied && (dropped || time != o.facts[i].Time) {
			copied = true
			o.out, o.outFacts = append([]Batch(nil), o.batches[:i]...), append([]*dedupe.Batch(nil), o.facts[:i]...)
		}
		if !copied {
			continue
		}
		f := o.facts[i]
		if dropped || time != f.Time {
			var err error
			if b, f, err = anew(b, f, time, fates); err != nil {
				return err
			}
		}
		if b != nil {
			o.out, o.outFacts = append(o.out, b), append(o.outFacts, f)
		}
	}
	o.count()
	return nil
}

func (o *Offer) count() {
	o.outBytes = 0
	for _, b := range o.out {
		o.outBytes += int64(len(b))
	}
}

// skewed tells that a batch's append time can't be taken for the time of its append.
func skewed(time, now int64) bool { return time < now-maxClockSkew || time > now+maxClockSkew }

// anew makes a batch of those records whose fate is to be new, nil if there are none,
// with that append time, and what is remembered of it.
func anew(b Batch, facts *dedupe.Batch, time int64, fates []int64) (Batch, *dedupe.Batch, error) {
	it, err := b.Records()
	if err != nil {
		return nil, nil, err
	}
	builder := NewBatchBuilder(make([]byte, 0, len(b)+64))
	builder.AppendTime = time
	out := *facts
	out.Time, out.Messages = time, nil
	var r Record
	messages := facts.Messages
	for i := int32(0); it.Next(&r); i++ {
		var message *dedupe.Message
		if len(messages) > 0 && messages[0].Delta == i {
			message, messages = &messages[0], messages[1:]
		}
		if fates != nil && fates[i] != fateNew {
			continue
		}
		if message != nil {
			out.Messages = append(out.Messages, dedupe.Message{ID: message.ID, Content: message.Content, Delta: int32(builder.Len())})
		}
		builder.Append(&r)
	}
	if err := it.Err(); err != nil || builder.Len() == 0 {
		return nil, nil, err
	}
	var producer *Producer
	if id := b.ProducerID(); id != NoProducer {
		producer = &Producer{ID: id, Epoch: b.ProducerEpoch(), BaseSequence: b.BaseSequence()}
	}
	sealed, err := builder.Seal(b.Compression(), producer)
	if err != nil {
		return nil, nil, err
	}
	if !sealed.Marked() { // none of those that are left has an id
		return sealed, nil, nil
	}
	return sealed, &out, nil
}
