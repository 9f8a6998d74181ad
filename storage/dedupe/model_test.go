package dedupe

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
)

// TestModel holds a State against what a plain recomputation from all batches says,
// over random appends, truncations, flushes and merges with things happening meanwhile, restarts, lost
// stores, repairs from below what is covered, and replicas made from an export.
// HIGHWATER_DEDUPE_MODEL_SEEDS sets how many.
func TestModel(t *testing.T) {
	seeds := 100
	if n, err := strconv.Atoi(os.Getenv("HIGHWATER_DEDUPE_MODEL_SEEDS")); err == nil {
		seeds = n
	}
	seen := map[string]int{}
	for seed := range seeds {
		if runSeed(t, seed, seen); t.Failed() {
			t.FailNow()
		}
	}
	for _, event := range []string{
		"duplicate", "old duplicate", "gap", "fenced", "unknown", "epoch bump", "wrap", "expired id used again", "truncated", "live again",
		"flush overtaken", "flush committed", "flush that changes nothing", "merge", "merge overtaken", "runs dropped", "merge drops entries", "restart",
		"index lost", "repair", "follower", "follower of a compacted log", "inside a batch", "flush that keeps ids", "ids let go", "evicted producer", "expired producer", "evicted producer back by undo", "late flush",
	} {
		if seen[event] == 0 {
			t.Errorf("no seed had this: %s", event)
		}
	}
	t.Logf("%d seeds: %v", seeds, seen)
}

// runSeed says which seed failed, also if nothing can go on.
func runSeed(t *testing.T, seed int, seen map[string]int) {
	w := newWorld(t, uint64(seed), seen)
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, config %+v", seed, w.cfg)
		}
	}()
	w.run(700)
}

const modelProducers = 5

type world struct {
	t    *testing.T
	rng  *rand.Rand
	cfg  Config
	seen map[string]int

	s          *State
	known      *naive // of log and knownStart
	knownStart int64
	log        []*Batch // all that counts
	end        int64
	start      int64
	committed  int64
	clock      int64
	monotone   bool  // the clock never goes back
	exact      int64 // below it an exported state lacks what was evicted up to there
	forgets    bool  // that producers wrote long ago may be unknown

	// What the owner has stored.
	runs     map[int64][]byte
	snapshot []byte
	covered  int64
	judged   int64

	flush      *Flush
	flushBytes [2][]byte
	merge      *Merge
	mergeBytes []byte
}

func newWorld(t *testing.T, seed uint64, seen map[string]int) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), seen: seen, clock: 1000, runs: map[int64][]byte{}}
	pick := func(of ...int64) int64 { return of[w.rng.IntN(len(of))] }
	w.cfg = Config{Age: pick(-1, 20, 20, 200, 200, 5), Count: pick(-1, -1, 3, 30), ProducerAge: pick(0, 60, 300)}
	if w.rng.IntN(40) == 0 {
		w.cfg.Age = 0
	}
	w.monotone = w.rng.IntN(2) == 0
	w.s = w.fresh()
	return w
}

func (w *world) fresh() *State {
	s := New(w.cfg)
	s.merges = mergeRule{maxSmall: 3, runs: 2} // so that a short run of the model merges, too
	s.producers.max = modelProducers
	s.SetStart(w.start)
	return s
}

func (w *world) read(r *Run, from, to int) ([]byte, error) {
	b, ok := w.runs[r.First]
	if !ok {
		return nil, fmt.Errorf("run [%d, %d) isn't stored", r.First, r.Next)
	}
	return b[from:to], nil
}

func (w *world) run(steps int) {
	for range steps {
		switch p := w.rng.IntN(100); {
		case p < 50:
			w.append()
		case p < 56:
			w.committed = w.boundary(w.committed, w.end)
		case p < 60:
			w.truncate()
		case p < 74:
			w.stepFlush()
		case p < 86:
			w.stepMerge()
		case p < 88:
			w.advanceStart()
		case p < 90:
			w.restart()
		case p < 92:
			w.repair()
		case p < 94:
			w.follower()
		case p < 95:
			if w.rng.IntN(4) == 0 {
				w.loseIndex()
			}
		default:
			w.compare(w.s)
		}
		w.probe()
		if w.t.Failed() {
			return
		}
	}
	w.compare(w.s)
}

// boundary is a random end of a batch, or one of the ends.
func (w *world) boundary(from, to int64) int64 {
	list := []int64{from, to}
	for _, b := range w.log {
		if b.Next > from && b.Next < to {
			list = append(list, b.Next)
		}
	}
	return list[w.rng.IntN(len(list))]
}

// wholeBatch is the offset, or the end of the batch that it lies inside of. A log is cut where a
// batch ends; what a state made from an export covers may end inside one.
func (w *world) wholeBatch(offset int64) int64 {
	for _, b := range w.log {
		if b.Base < offset && offset < b.Next {
			return b.Next
		}
	}
	return offset
}

func (w *world) truth() *naive {
	if w.known == nil || w.knownStart != w.start {
		w.known, w.knownStart = recompute(w.cfg, w.start, modelProducers, w.log), w.start
	}
	return w.known
}

func (w *world) setLog(log []*Batch) { w.log, w.known = log, nil }

func (w *world) append() {
	w.clock += w.rng.Int64N(10)
	if !w.monotone {
		w.clock -= w.rng.Int64N(6)
	}
	if w.rng.IntN(30) == 0 {
		w.clock += 150
	}
	base := w.end
	if w.rng.IntN(4) == 0 {
		base += w.rng.Int64N(4) // something unmarked
	}
	count := 1 + w.rng.IntN(4)
	b := &Batch{Base: base, Next: base + int64(count), Time: w.clock, Producer: Producer{ID: NoProducer}}
	if !w.monotone && w.rng.IntN(20) == 0 {
		b.Time = NoTime
	}
	truth := w.truth()
	if w.rng.IntN(3) > 0 {
		for i := range count {
			id := IDOf(fmt.Append(nil, w.rng.IntN(40)))
			if w.rng.IntN(5) == 0 {
				continue
			}
			if e, live := truth.find(id); !live && e.Time > 0 {
				w.seen["expired id used again"]++
			}
			b.Messages = append(b.Messages, Message{ID: id, Content: w.rng.Uint64(), Delta: int32(i)})
		}
	}
	if w.rng.IntN(3) == 0 {
		b.Producer = w.producer(truth, int32(count))
	}
	w.setLog(append(w.log, b))
	w.end = b.Next
	w.s.Note(b)
	if w.rng.IntN(10) == 0 {
		w.s.Note(w.log[w.rng.IntN(len(w.log))]) // once more
	}
}

// producer is one that may go on.
func (w *world) producer(truth *naive, count int32) Producer {
	p := Producer{ID: w.rng.Int64N(7), Count: count}
	known := truth.producer(p.ID, truth.newest)
	if known == nil {
		if i := slices.IndexFunc(truth.producers, func(q *naiveProducer) bool { return q.id == p.ID }); i >= 0 {
			w.seen["expired producer"]++
		}
		if len(truth.producers) == modelProducers {
			w.seen["evicted producer"]++
		}
		if w.rng.IntN(3) == 0 {
			p.Sequence = maxSequence - w.rng.Int32N(6) // as if its log had begun later
		}
		return p
	}
	p.Epoch = known.epoch
	if w.rng.IntN(12) == 0 {
		w.seen["epoch bump"]++
		p.Epoch++
		return p
	}
	p.Sequence = int32((int64(known.batches[len(known.batches)-1].last) + 1) % (1 << 31))
	if p.Sequence < known.batches[0].first {
		w.seen["wrap"]++
	}
	return p
}

func (w *world) truncate() {
	to := w.boundary(w.committed, w.end)
	before := w.truth()
	w.setLog(slices.DeleteFunc(w.log, func(b *Batch) bool { return b.Next > to }))
	w.end = to
	if !w.s.Truncate(to) {
		w.t.Fatalf("can't be truncated to %d, above %d", to, w.s.Judged())
	}
	w.seen["truncated"]++
	after := w.truth()
	for _, e := range after.all() {
		if was, live := before.find(e.ID); !live || was.Offset != e.Offset {
			w.seen["live again"]++
		}
	}
	for _, p := range after.producers {
		if !slices.ContainsFunc(before.producers, func(q *naiveProducer) bool { return q.id == p.id }) {
			w.seen["evicted producer back by undo"]++
		}
	}
}

func (w *world) open(b []byte) *Run {
	if b == nil {
		return nil
	}
	r, err := OpenRun(b)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// stepFlush does one step of a flush, so that others come in between.
func (w *world) stepFlush() {
	if w.flush == nil {
		w.beginFlush(w.committed, max(w.rng.IntN(80)-40, 0))
		return
	}
	f := w.flush
	w.flush = nil
	run := w.open(w.flushBytes[0])
	if w.end > f.Below && run != nil {
		w.seen["late flush"]++
	}
	if !w.s.CommitFlush(f, run) {
		w.seen["flush overtaken"]++
		return
	}
	w.seen["flush committed"]++
	if f.Below < w.s.Judged() {
		w.seen["flush that keeps ids"]++
		if run == nil {
			w.seen["ids let go"]++
		}
	}
	if w.s.Judged() < w.judged {
		w.t.Errorf("judged by %d after it was by %d", w.s.Judged(), w.judged)
	}
	w.covered, w.judged = f.Below, w.s.Judged()
	if f.Unchanged {
		w.seen["flush that changes nothing"]++
		return
	}
	w.snapshot = w.flushBytes[1]
	if run != nil {
		w.runs[run.First] = w.flushBytes[0]
	}
}

func (w *world) beginFlush(below int64, keep int) {
	if w.flush = w.s.BeginFlush(below, keep); w.flush != nil {
		w.flushBytes[0], w.flushBytes[1] = w.flush.Build()
	}
}

func (w *world) stepMerge() {
	if w.merge == nil {
		if w.merge = w.s.BeginMerge(); w.merge != nil {
			var err error
			if w.mergeBytes, err = w.merge.Build(w.read); err != nil {
				w.t.Fatal(err)
			}
		}
		return
	}
	m := w.merge
	w.merge = nil
	run := w.open(w.mergeBytes)
	if !w.s.CommitMerge(m, run) {
		w.seen["merge overtaken"]++
		return
	}
	count := 0
	for _, r := range m.Replaces {
		count += r.Count
		delete(w.runs, r.First)
	}
	if run == nil {
		w.seen["runs dropped"]++
		return
	}
	if run.Count < count {
		w.seen["merge drops entries"]++
	}
	w.seen["merge"]++
	w.runs[run.First] = w.mergeBytes
}

// advanceStart is retention: what goes was flushed before.
func (w *world) advanceStart() {
	start := w.boundary(w.start, w.committed)
	if w.rng.IntN(3) == 0 && start < w.committed {
		start++
	}
	for w.s.Covered() < start || w.flush != nil {
		if w.flush == nil {
			w.beginFlush(start, 0)
		}
		w.stepFlush()
	}
	w.start = start
	w.s.SetStart(start)
}

// onDisk is what of the log is still there.
func (w *world) onDisk() []*Batch {
	return slices.DeleteFunc(slices.Clone(w.log), func(b *Batch) bool { return b.Next <= w.start })
}

func (w *world) restart() {
	w.seen["restart"]++
	w.s, w.flush, w.merge = w.fresh(), nil, nil
	if w.restore(w.s); w.s.Judged() != w.judged {
		w.t.Errorf("judged by %d after a restart, by %d before", w.s.Judged(), w.judged)
	}
	for _, b := range w.onDisk() {
		if b.Next > w.covered || w.rng.IntN(3) == 0 {
			w.s.Note(b)
		}
	}
}

func (w *world) restore(s *State) {
	var runs []*Run
	for _, first := range slices.Sorted(maps.Keys(w.runs)) {
		runs = append(runs, w.open(w.runs[first]))
	}
	if err := s.Restore(w.covered, w.snapshot, runs); err != nil {
		w.t.Fatal(err)
	}
}

// loseIndex is a restart without what was stored: what the log doesn't tell is forgotten.
func (w *world) loseIndex() {
	w.seen["index lost"]++
	w.runs, w.snapshot, w.covered, w.judged = map[int64][]byte{}, nil, 0, 0
	w.setLog(w.onDisk())
	w.forgets = true
	w.restart()
}

// carry makes s what w.s exports below an offset.
func (w *world) carry(s *State, below int64) {
	w.exact = max(w.exact, w.s.Judged())
	b, err := w.s.View().Export(below, w.read)
	if err != nil {
		w.t.Fatal(err)
	}
	im, err := ParseImport(b)
	if err != nil {
		w.t.Fatal(err)
	}
	w.runs, w.snapshot, w.covered, w.judged = map[int64][]byte{}, im.Snapshot, im.Covered, im.Covered
	for i, r := range im.Runs {
		w.runs[r.First] = im.Bytes[i]
	}
	w.restore(s)
}

// repair cuts off what was committed, and gets the same batches again.
func (w *world) repair() {
	if f := w.flush; f != nil && max(w.s.Judged(), w.exact, w.start) < f.judged && w.rng.IntN(2) == 0 {
		to := w.boundary(max(w.s.Judged(), w.exact, w.start), f.judged)
		unclean := w.rng.IntN(2) == 0 // others come in their place
		if unclean {
			to = w.wholeBatch(to)
		}
		if !w.s.Truncate(to) {
			w.t.Fatal("can't be truncated")
		}
		if unclean {
			w.setLog(slices.DeleteFunc(w.log, func(b *Batch) bool { return b.Next > to }))
			w.end, w.committed = to, min(w.committed, to)
			return
		}
		for _, b := range w.log {
			w.s.Note(b)
		}
		return
	}
	if w.s.Covered() <= w.start || !w.monotone {
		return
	}
	if w.s.Truncate(w.s.Judged() - 1) {
		w.t.Fatal("was truncated below what is covered")
	}
	w.seen["repair"]++
	w.forgets = true
	w.carry(w.s, w.start) // a flush or merge goes on meanwhile
	for _, b := range w.onDisk() {
		w.s.Note(b)
	}
}

// follower is another replica, made from an export and the log, some of which was compacted.
func (w *world) follower() {
	w.seen["follower"]++
	below := w.boundary(w.start, w.committed)
	if !w.monotone {
		below = max(below, w.s.Covered())
	}
	if w.rng.IntN(3) == 0 && below < w.committed {
		w.seen["inside a batch"]++
		below++
	}
	runs, snapshot, covered, judged := w.runs, w.snapshot, w.covered, w.judged
	s := w.fresh()
	w.carry(s, below)
	for _, b := range w.onDisk() {
		if b.Next <= below && w.rng.IntN(2) == 0 {
			w.seen["follower of a compacted log"]++
			continue
		}
		s.Note(b)
	}
	w.compare(s)
	if w.rng.IntN(2) == 0 { // this one goes on
		w.s, w.flush, w.merge, w.forgets = s, nil, nil, true
		return
	}
	w.runs, w.snapshot, w.covered, w.judged = runs, snapshot, covered, judged
}
