package dedupe

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// TestTail holds the tail against a list that is gone through: entries come, the oldest and the newest
// go, and ids come again, also of entries that are gone. Ids crowd in a few places of the table, which is swept
// meanwhile; ordinals come round.
func TestTail(t *testing.T) {
	stale, grown := 0, 0
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 7))
		places := 1 + rng.IntN(3000)
		ids := make([]ID, 20+rng.IntN(2000))
		for i := range ids {
			ids[i] = randomID(rng)
			binary.BigEndian.PutUint32(ids[i][8:], uint32(rng.IntN(places))*0x100000)
		}
		first := int64(0)
		if seed%2 == 1 {
			first = 1<<32 - 300
		}
		tl := tail{first: first}
		var list []int // indices of ids; the offset of an entry is its ordinal
		keep := 1 + rng.IntN(800)
		for range 400 {
			switch n := rng.IntN(40); rng.IntN(8) {
			case 0: // the newest go
				n = min(n, len(list))
				list = list[:len(list)-n]
				if got := tl.cut(tl.first + int64(len(list))); got != n {
					t.Fatalf("seed %d: %d cut instead of %d", seed, got, n)
				}
			case 1: // the oldest go
				if n = len(list) - keep; rng.IntN(20) == 0 {
					n = len(list)
				}
				if n > 0 {
					list = list[n:]
					tl.drop(n)
				}
			default:
				for range n {
					i := rng.IntN(len(ids))
					tl.push(&ids[i], tl.first+int64(len(list)), 0, uint64(i))
					list = append(list, i)
				}
			}
			stale, grown = max(stale, tl.used-tl.linked), max(grown, len(tl.slots))
			if rng.IntN(3) == 0 {
				continue // nobody asks
			}
			at := map[int]int64{}
			for k, i := range list {
				at[i] = tl.first + int64(k)
			}
			asked := make([]ID, 1+rng.IntN(200))
			var known []int
			for k := range asked {
				i := rng.IntN(len(ids))
				asked[k] = ids[i]
				if _, ok := at[i]; ok {
					known = append(known, k, i)
				}
			}
			found := tl.findAll(asked)
			if 2*len(found) != len(known) {
				t.Fatalf("seed %d: %d of %d are found", seed, len(found), len(known)/2)
			}
			for k, f := range found {
				i := known[2*k+1]
				if f.Index != known[2*k] || f.ID != ids[i] || f.Offset != at[i] || f.Ordinal != at[i] || f.Content != uint64(i) {
					t.Fatalf("seed %d: found %+v, want %d at %d", seed, f, known[2*k], at[i])
				}
			}
		}
	}
	if stale < 100 || grown < 1000 {
		t.Errorf("at most %d slots were stale, the largest table was of %d", stale, grown)
	}
}

// TestTheTableStaysWhatItIs: a tail of which as many go as come gets no other table, and the slots that
// get stale are freed as fast.
func TestTheTableStaysWhatItIs(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	const n = 10_000
	var tl tail
	come := func(n int) {
		ids := make([]ID, 10)
		for range n / 10 {
			for i := range ids {
				ids[i] = randomID(rng)
				tl.push(&ids[i], tl.first+int64(tl.list.n), 0, 0)
			}
			if found := tl.findAll(ids); len(found) != len(ids) {
				t.Fatalf("%d found", len(found))
			}
		}
	}
	come(n)
	was := &tl.slots[0]
	for range 40 * n / 500 {
		come(500)
		tl.drop(500)
		if &tl.slots[0] != was {
			t.Fatalf("another table of %d for %d, %d of it used", len(tl.slots), tl.list.n, tl.used)
		}
	}
	if tl.used > 3*len(tl.slots)/4 {
		t.Errorf("%d of %d are used", tl.used, len(tl.slots))
	}
}
