package dedupe

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

func entriesOf(rng *rand.Rand, n int) []Entry {
	entries := make([]Entry, n)
	for i := range entries {
		entries[i] = Entry{ID: IDOf(fmt.Append(nil, rng.Uint64())), Offset: int64(i) * 3, Time: 1000 + int64(i)/2, Content: rng.Uint64(), Ordinal: 50 + int64(i)}
	}
	return entries
}

func stored(b []byte) Reader { return bytesOf(b) }

// Runs of many sizes hold what was put in, nothing else, and the newest of an id that stands in it often.
func TestRun(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	sizes := []int{1, 2, blockEntries - 1, blockEntries, blockEntries + 1, 5 * blockEntries, 3000}
	for range 40 {
		sizes = append(sizes, 1+rng.IntN(700))
	}
	for _, n := range sizes {
		entries := entriesOf(rng, n)
		newest := map[ID]Entry{}
		for i := range entries {
			if n%2 == 0 && i > 0 && rng.IntN(3) > 0 {
				entries[i].ID = entries[rng.IntN(min(i, 3))].ID // stretches of one id over several blocks
			}
			newest[entries[i].ID] = entries[i]
		}
		b := buildOf(0, int64(n)*3, entries)
		r, err := OpenRun(b)
		if err != nil {
			t.Fatal(err)
		}
		if r.Count != n {
			t.Fatalf("run of %d entries has %d", n, r.Count)
		}
		for id, want := range newest {
			if got, found, err := FindRuns([]*Run{r}, id, stored(b)); err != nil || !found || got != want {
				t.Fatalf("of %d: found %v %+v %v, want %+v", n, found, got, err, want)
			}
		}
		for i := range 1000 {
			id := IDOf(fmt.Append(nil, "other", i))
			if _, found, err := r.find(stored(b), id); found || err != nil {
				t.Fatalf("of %d: an id that isn't there: %v %v", n, found, err)
			}
		}
	}
}

// The filter lets through about 2 of 1,000 ids that aren't there.
func TestFilter(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	r, err := OpenRun(buildOf(0, 1<<30, entriesOf(rng, 100_000)))
	if err != nil {
		t.Fatal(err)
	}
	through := 0
	for i := range 100_000 {
		if id := IDOf(fmt.Append(nil, "other", i)); r.filter.has(&id) {
			through++
		}
	}
	t.Logf("%d of 100,000 pass", through)
	if through > 400 {
		t.Errorf("%d of 100,000 ids that aren't there pass the filter", through)
	}
}

// A flipped bit is never answered from: a look-up that meets it fails, and others are right.
func TestRunDamaged(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	entries := entriesOf(rng, 1000)
	sound := buildOf(0, 3000, entries)
	r, err := OpenRun(sound)
	if err != nil {
		t.Fatal(err)
	}
	met := 0
	for range 2000 {
		b := append([]byte(nil), sound...)
		at := rng.IntN(len(b))
		b[at] ^= 1 << rng.IntN(8)
		if at < runHeaderSize+len(r.filter)+4 {
			if _, err := OpenRun(b); err == nil {
				t.Fatalf("byte %d is wrong, and nobody saw it", at)
			}
			continue
		}
		want := entries[rng.IntN(len(entries))]
		got, found, err := FindRuns([]*Run{r}, want.ID, stored(b))
		var damaged *CorruptError
		switch {
		case errors.As(err, &damaged):
			met++
		case err != nil || !found || got != want:
			t.Fatalf("byte %d is wrong: %v %+v %v", at, found, got, err)
		}
	}
	if met == 0 {
		t.Error("no look-up met damage")
	}
	last := slices.MaxFunc(entries, func(a, b Entry) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	if _, _, err := FindRuns([]*Run{r}, last.ID, stored(sound[:len(sound)-1])); err == nil {
		t.Error("a run that is cut off was read")
	}
}

// docs/FORMAT.md shows a run, byte for byte.
func TestFormatRun(t *testing.T) {
	b := buildOf(100, 103, []Entry{
		{ID: IDOf([]byte("order-1")), Offset: 100, Time: 1795910400000, Content: 0x1122334455667788, Ordinal: 7},
		{ID: IDOf([]byte("order-2")), Offset: 102, Time: 1795910400250, Content: 0x99aabbccddeeff00, Ordinal: 8},
	})
	doc, err := os.ReadFile("../../docs/FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(doc), "A run by hand")
	_, shown, _ = strings.Cut(shown, "```\n")
	shown, _, _ = strings.Cut(shown, "```")
	var want []string
	for line := range strings.Lines(hex.Dump(b)) {
		want = append(want, strings.TrimRight(line[:58], " "))
	}
	if strings.TrimSpace(shown) != strings.Join(want, "\n") {
		t.Errorf("docs/FORMAT.md shows\n%swant\n%s", shown, strings.Join(want, "\n"))
	}
}

// MaybeIn says of each id what the filters say one by one.
func TestMaybeIn(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	var runs []*Run
	var ids []ID
	for range 5 {
		entries := entriesOf(rng, 100+rng.IntN(400))
		r, err := OpenRun(buildOf(0, 1500, entries))
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r)
		for i := range 30 {
			ids = append(ids, entries[i].ID, randomID(rng))
		}
	}
	for n := range len(ids) + 1 {
		var want []int
		for i := range n {
			if slices.ContainsFunc(runs, func(r *Run) bool { return r.filter.has(&ids[i]) }) {
				want = append(want, i)
			}
		}
		if got := MaybeIn(runs, ids[:n]); !slices.Equal(got, want) {
			t.Fatalf("of %d ids %v, want %v", n, got, want)
		}
	}
}
