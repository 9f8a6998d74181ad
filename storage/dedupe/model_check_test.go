package dedupe

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// What the model holds against the truth.

// probe asks about an id and a producer.
func (w *world) probe() {
	truth := w.truth()
	id := IDOf(fmt.Append(nil, w.rng.IntN(40)))
	e, found, err := w.s.Find(id, w.read)
	if err != nil {
		w.t.Fatal(err)
	}
	want, live := truth.find(id)
	if found != live || found && (e.Offset != want.Offset || e.Time != want.Time || e.Content != want.Content) {
		w.t.Errorf("found %v %+v, want %v %+v", found, e, live, want)
	}
	p := Producer{ID: w.rng.Int64N(7), Epoch: int16(w.rng.IntN(3)), Count: 1 + w.rng.Int32N(4), Sequence: w.rng.Int32N(8)}
	if known := truth.producer(p.ID, truth.newest); known != nil && w.rng.IntN(5) > 0 {
		p.Epoch = known.epoch
		s := known.batches[w.rng.IntN(len(known.batches))]
		p.Sequence = int32((int64(s.first) + w.rng.Int64N(24) - 12 + 1<<31) % (1 << 31))
		if w.rng.IntN(2) == 0 {
			p.Sequence, p.Count = s.first, int32(s.next-s.base)
		}
	}
	w.checkProducer(truth, p)
}

func (w *world) checkProducer(truth *naive, p Producer) {
	v, err := w.s.Check(p)
	got, detail := isNew, int64(0)
	var gap *GapError
	var fenced *FencedError
	switch {
	case errors.As(err, &gap):
		got, detail = isGap, int64(gap.Expected)
	case errors.As(err, &fenced):
		got, detail = isFenced, int64(fenced.Current)
	case errors.Is(err, ErrUnknownProducer):
		got = isUnknown
	case v.Duplicate && v.Base < 0:
		got, detail = isOldDuplicate, -1
	case v.Duplicate:
		got, detail = isDuplicate, v.Base
	}
	w.seen[[]string{"new", "duplicate", "old duplicate", "gap", "fenced", "unknown"}[got]]++
	want, wantDetail := truth.check(p)
	if want == isOldDuplicate && got == isGap && w.forgets {
		return
	}
	if got != want || detail != wantDetail {
		w.t.Errorf("%+v is %d (%d), want %d (%d)", p, got, detail, want, wantDetail)
	}
}

// compare holds all of a state against the truth.
func (w *world) compare(s *State) {
	truth, view := w.truth(), s.View()
	got, err := view.Entries(w.read)
	if err != nil {
		w.t.Fatal(err)
	}
	want := truth.all()
	if len(got) != len(want) {
		w.t.Errorf("%d ids are live, want %d", len(got), len(want))
		return
	}
	for i := range got {
		if got[i].Ordinal, want[i].Ordinal = 0, 0; got[i] != want[i] {
			w.t.Errorf("entry %d is %+v, want %+v", i, got[i], want[i])
		}
	}
	if view.newest != truth.newest {
		w.t.Errorf("newest append was at %d, want %d", view.newest, truth.newest)
	}
	var have, wanted []naiveProducer
	for _, p := range youngEnough(slices.Clone(view.producers), view.producerEdge) {
		have = append(have, naiveProducer{id: p.id, epoch: p.epoch, batches: slices.Clone(p.batches[:p.n])})
	}
	for _, p := range truth.producers {
		if truth.producer(p.id, truth.newest) != nil {
			wanted = append(wanted, naiveProducer{id: p.id, epoch: p.epoch, batches: slices.Clone(p.batches)})
		}
	}
	if !reflect.DeepEqual(have, wanted) {
		w.t.Errorf("producers are\n%+v, want\n%+v", have, wanted)
	}
	w.compareDigest(view, truth)
}

// compareDigest holds the digest against that of a state that saw nothing but the batches.
func (w *world) compareDigest(view *View, truth *naive) {
	plain := w.fresh()
	for _, b := range w.log {
		plain.Note(b)
	}
	want, err := plain.View().Digest(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	got, err := view.Digest(w.read)
	if err != nil {
		w.t.Fatal(err)
	}
	if got != want {
		w.t.Error("digests differ")
	}
	f, live := w.s.Figures(), int64(0)
	for _, e := range truth.entries {
		if truth.live(e) {
			live++
		}
	}
	if len(w.s.Runs()) == 0 && f.IDs != live {
		w.t.Errorf("figures say %d ids, want %d", f.IDs, live)
	}
}
