package dedupe

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"
)

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// randomID is as good as a hash and costs less.
func randomID(rng *rand.Rand) (id ID) {
	binary.BigEndian.PutUint64(id[:], rng.Uint64())
	binary.BigEndian.PutUint64(id[8:], rng.Uint64())
	return id
}

// disk is what an owner stores, outside of what a State holds.
type disk map[int64][]byte

func (d disk) read(r *Run, from, to int) ([]byte, error) { return d[r.First][from:to], nil }

// settle flushes and merges all that is due, and leaves so many ids in memory.
func settle(t testing.TB, s *State, d disk, keep int) {
	for s.FlushDue(s.Next(), FlushEntries, keep) {
		f := s.BeginFlush(s.Next(), keep)
		b, _ := f.Build()
		r := open(t, b)
		if r != nil {
			d[r.First] = b
		}
		s.CommitFlush(f, r)
	}
	for m := s.BeginMerge(); m != nil; m = s.BeginMerge() {
		b, err := m.Build(d.read)
		if err != nil {
			t.Fatal(err)
		}
		r := open(t, b)
		for _, gone := range m.Replaces {
			delete(d, gone.First)
		}
		if r != nil {
			d[r.First] = b
		}
		s.CommitMerge(m, r)
	}
}

func open(t testing.TB, b []byte) *Run {
	if b == nil {
		return nil
	}
	r, err := OpenRun(b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// fill looks for n ids and notes them in batches of 10, and leaves so many in memory.
func fill(t testing.TB, s *State, d disk, rng *rand.Rand, n, keep int) {
	ids := make([]ID, 10)
	b := &Batch{Producer: Producer{ID: NoProducer}, Messages: make([]Message, 10)}
	for i := 0; i < n; i += 10 {
		for j := range b.Messages {
			ids[j] = randomID(rng)
			b.Messages[j] = Message{ID: ids[j], Content: 1, Delta: int32(j)}
		}
		if s.FindTail(ids) != nil {
			t.Fatal("new ids are known")
		}
		b.Base, b.Next, b.Time = s.Next(), s.Next()+10, int64(i)
		s.Note(b)
		settle(t, s, d, keep)
	}
}

// A million ids in the window take 80 MB of heap at most where the newest stay in memory, and nothing is
// stored of them; else 25 MB: 2.7 for filters, the rest for what isn't flushed yet. What an owner stores of
// them is not on the heap.
func TestHeapOfAMillionIDs(t *testing.T) {
	const million = 1_000_000
	for _, tc := range []struct {
		keep, bound int
		stores      bool
	}{{KeptEntries, 80 << 20, false}, {0, 25 << 20, true}} {
		rng := rand.New(rand.NewPCG(1, 1))
		s, d := New(Config{Age: -1, Count: million}), disk{}
		fill(t, s, d, rng, 10, tc.keep) // what is there once
		before := heap()
		fill(t, s, d, rng, 2*million, tc.keep)
		stored := int64(0)
		for _, b := range d {
			stored += int64(cap(b))
		}
		took := heap() - before - stored
		f := s.Figures()
		t.Logf("%d ids, of which %d may stay: %d bytes of heap, figures say %d; %d in the tail, %d runs, %d bytes stored", f.IDs, tc.keep, took, f.HeapBytes, f.TailIDs, f.Runs, stored)
		if took > int64(tc.bound) || stored > 0 != tc.stores {
			t.Errorf("1 M ids take %d bytes of heap, and %d are stored", took, stored)
		}
		if f.IDs != million || f.HeapBytes < took/2 || f.HeapBytes > took*2 {
			t.Errorf("figures are %+v", f)
		}
		runtime.KeepAlive(s)
		runtime.KeepAlive(d)
	}
}

// An id in the tail takes 100 bytes at most, however many there are.
func TestHeapOfTheTail(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, n := range []int{50_000, FlushEntries, 300_000} {
		before := heap()
		s := New(Config{Age: -1, Count: -1})
		b := &Batch{Producer: Producer{ID: NoProducer}, Messages: make([]Message, 1)}
		for i := range int64(n) {
			b.Base, b.Next, b.Time, b.Messages[0].ID = i, i+1, i, randomID(rng)
			s.Note(b)
		}
		each := float64(heap()-before) / float64(n)
		t.Logf("%d ids: %.1f bytes each", n, each)
		if each > 100 {
			t.Errorf("%d ids take %.1f bytes each", n, each)
		}
		runtime.KeepAlive(s)
	}
}

// An idle log's State is small: there may be 10,000 of them.
func TestHeapOfAnIdleState(t *testing.T) {
	before := heap()
	states := make([]*State, 1000)
	for i := range states {
		states[i] = New(Config{Age: 3_600_000, Count: 1_000_000, ProducerAge: 86_400_000})
	}
	each := (heap() - before) / int64(len(states))
	t.Logf("%d bytes", each)
	if each > 512 {
		t.Errorf("an idle State takes %d bytes", each)
	}
	runtime.KeepAlive(states)
}

// BenchmarkMillion notes an id that is new and looks for it before, in a log of a million, with
// flushes and merges; the runs are in memory.
func BenchmarkMillion(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	s, d := New(Config{Age: -1, Count: 1_000_000}), disk{}
	fill(b, s, d, rng, 1_000_000, 0)
	batch := &Batch{Producer: Producer{ID: NoProducer}, Messages: make([]Message, 1)}
	var known []ID
	find := func(id ID, want bool) {
		if _, found, err := s.Find(id, d.read); err != nil || found != want {
			b.Fatal(found, err)
		}
	}
	note := func(id ID) {
		batch.Base, batch.Next, batch.Time, batch.Messages[0] = s.Next(), s.Next()+1, s.Newest(), Message{ID: id}
		s.Note(batch)
	}
	for range 200_000 {
		id := randomID(rng)
		note(id)
		known = append(known, id)
		settle(b, s, d, 0)
	}
	b.Run("FindNew", func(b *testing.B) {
		for b.Loop() {
			find(randomID(rng), false)
		}
	})
	b.Run("FindKnown", func(b *testing.B) {
		for b.Loop() {
			find(known[rng.IntN(len(known))], true)
		}
	})
	b.Run("FindAndNote", func(b *testing.B) {
		for b.Loop() {
			id := randomID(rng)
			find(id, false)
			note(id)
			settle(b, s, d, 0)
		}
	})
	b.Run("NoteOnly", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			note(randomID(rng))
			if i%1_000_000 == 0 {
				s.Truncate(s.Covered())
			}
		}
	})
}

// BenchmarkIDOf is what an id costs before anything is looked at.
func BenchmarkIDOf(b *testing.B) {
	id := []byte("2f1b6c0e-7d7c-4b4e-9a53-0d6f2f6a9a11")
	for b.Loop() {
		IDOf(id)
	}
}

// BenchmarkContent is the hash of a record of 1 KiB.
func BenchmarkContent(b *testing.B) {
	var c Content
	value := make([]byte, 1024)
	for b.Loop() {
		c.Begin(nil, value)
		c.Header([]byte("content-type"), value[:10])
		c.Sum()
	}
}

// BenchmarkProducer checks and notes a batch of one of 1,000 producers.
func BenchmarkProducer(b *testing.B) {
	s := New(Config{Age: -1, Count: -1, ProducerAge: 86_400_000})
	var at [1000]int32
	for i := 0; b.Loop(); i++ {
		p := Producer{ID: int64(i % 1000), Sequence: at[i%1000], Count: 1}
		if _, err := s.Check(p); err != nil {
			b.Fatal(err)
		}
		at[i%1000]++
		s.Note(&Batch{Base: s.Next(), Next: s.Next() + 1, Time: s.Next(), Producer: p})
		if s.SnapshotDue(s.Next()) {
			f := s.BeginFlush(s.Next(), 0)
			f.Build()
			s.CommitFlush(f, nil)
		}
	}
}
