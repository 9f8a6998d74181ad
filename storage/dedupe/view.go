package dedupe

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// View is a State as it was at a moment. It never changes; its methods may be
// called without the lock. They read runs: their errors are read's or a *CorruptError.
type View struct {
	edge          edge
	producerEdge  int64
	newest, total int64
	coveredNewest newestTime
	runs          []*Run
	tail          tail // without slots
	producers     []*producer
	journal       []mark // of their nodes nothing may be looked at
}

// View lists the producers.
func (s *State) View() *View {
	return &View{
		edge: s.edge(), producerEdge: s.cfg.producerEdge(s.newest), newest: s.newest, total: s.total,
		coveredNewest: s.coveredNewest, runs: s.runs, producers: s.producers.list(), journal: slices.Clone(s.journal),
		tail: tail{list: s.tail.list.head(s.tail.list.n), first: s.tail.first},
	}
}

// Entries are the live ones, in offset order: each id's newest.
func (v *View) Entries(read Reader) ([]Entry, error) {
	newest := map[ID]Entry{}
	note := func(e Entry) {
		if was, ok := newest[e.ID]; !ok || was.Offset < e.Offset {
			newest[e.ID] = e
		}
	}
	for _, r := range v.runs {
		if err := r.each(read, note); err != nil {
			return nil, err
		}
	}
	for i := range v.tail.list.n {
		note(v.tail.entry(i))
	}
	var live []Entry
	for _, e := range newest {
		if v.edge.live(e) {
			live = append(live, e)
		}
	}
	slices.SortFunc(live, func(a, b Entry) int {
		if a.Offset < b.Offset {
			return -1
		}
		return 1
	})
	return live, nil
}

// Digest is a hash of all that is live: entries, producers with their epoch and last
// batches, and the newest append time. Two states of the same content have the same one, whatever of it
// is in runs (V29).
func (v *View) Digest(read Reader) ([32]byte, error) {
	entries, err := v.Entries(read)
	if err != nil {
		return [32]byte{}, err
	}
	h := sha256.New()
	var b []byte
	for _, e := range entries {
		b = append(b[:0], e.ID[:]...)
		b = binary.BigEndian.AppendUint64(b, uint64(e.Offset))
		b = binary.BigEndian.AppendUint64(b, uint64(e.Time))
		h.Write(binary.BigEndian.AppendUint64(b, e.Content))
	}
	list := youngEnough(slices.Clone(v.producers), v.producerEdge)
	for i, p := range list {
		same := *p
		same.before = 0 // how much is known of it depends on where the log began
		list[i] = &same
	}
	h.Write(appendSnapshot(nil, &snapshot{newest: newestTime{time: v.newest}, producers: list}))
	return [32]byte(h.Sum(nil)), nil
}

// ProducerBatch is a batch that is remembered of a producer.
type ProducerBatch struct {
	ID          int64
	Epoch       int16
	First, Last int32 // sequence numbers
	Base, Next  int64 // offsets
	Time        int64 // of the append, ms
}

// ProducerBatches are all that are remembered, of the producer that has been silent longest first.
func (v *View) ProducerBatches() (list []ProducerBatch) {
	for _, p := range youngEnough(slices.Clone(v.producers), v.producerEdge) {
		for _, b := range p.batches[:p.n] {
			list = append(list, ProducerBatch{ID: p.id, Epoch: p.epoch, First: b.first, Last: b.last, Base: b.base, Next: b.next, Time: b.time})
		}
	}
	return list
}
