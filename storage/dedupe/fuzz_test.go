package dedupe

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// FuzzRun: bytes that pass OpenRun can be read without a panic, and hold no more
// than they say. Checksums are made right, or nothing behind them would be reached.
func FuzzRun(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	f.Add(buildOf(0, 300, entriesOf(rng, 100)))
	f.Add(buildOf(7, 8, entriesOf(rng, 1)))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		mendRun(b)
		r, err := OpenRun(b)
		if err != nil {
			return
		}
		n := 0
		if err := r.each(stored(b), func(e Entry) {
			n++
			if _, _, err := r.find(stored(b), e.ID); err != nil {
				t.Fatal(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if n != r.Count {
			t.Fatalf("%d entries of %d", n, r.Count)
		}
		m := &Merge{Replaces: []*Run{r}, edge: (&Config{Age: -1, Count: -1}).edge(0, 0, 0)}
		if _, err := m.Build(stored(b)); err != nil {
			t.Fatal(err)
		}
	})
}

// mendRun sets the checksums where the lengths allow it.
func mendRun(b []byte) {
	if len(b) < runHeaderSize+4 {
		return
	}
	end := runHeaderSize + int(binary.BigEndian.Uint32(b[56:]))
	if end > len(b)-4 {
		return
	}
	binary.BigEndian.PutUint32(b[end:], crc32.Checksum(b[:end], castagnoli))
	for at := end + 4; at+4 <= len(b); at += blockSize {
		last := min(at+blockSize, len(b)) - 4
		if last > at {
			binary.BigEndian.PutUint32(b[last:], crc32.Checksum(b[at:last], castagnoli))
		}
	}
}

// FuzzSnapshot: what is taken for a snapshot is written again as the same bytes.
func FuzzSnapshot(f *testing.F) {
	s := New(Config{Age: -1, Count: -1})
	for i := range int64(20) {
		s.Note(&Batch{Base: i, Next: i + 1, Time: i, Producer: Producer{ID: i % 3, Sequence: int32(i / 3), Count: 1}})
	}
	_, snap := s.BeginFlush(20, 0).Build()
	f.Add(snap)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 4 {
			return
		}
		b = bytes.Clone(b)
		binary.BigEndian.PutUint32(b[len(b)-4:], crc32.Checksum(b[:len(b)-4], castagnoli))
		parsed, err := parseSnapshot(b)
		if err != nil {
			return
		}
		again := appendSnapshot(nil, parsed)
		if len(again) != len(b) {
			t.Fatalf("%d bytes became %d", len(b), len(again))
		}
		s := New(Config{ProducerAge: 10})
		if err := s.Restore(parsed.below, b, nil); err != nil {
			t.Fatal(err)
		}
		for _, p := range parsed.producers {
			_, _ = s.Check(Producer{ID: p.id, Epoch: p.epoch, Sequence: p.newest().last, Count: 1})
			s.Note(&Batch{Base: s.Next(), Next: s.Next() + 1, Time: 1, Producer: Producer{ID: p.id, Count: 1}})
		}
		s.Truncate(parsed.below)
		s.View()
	})
}

// FuzzImport: whatever a peer sends is refused or can be worked with.
func FuzzImport(f *testing.F) {
	s := New(Config{Age: -1, Count: -1})
	for i := range int64(200) {
		b := batchOf(i, i, string(rune(i)))
		b.Producer = Producer{ID: i % 3, Sequence: int32(i / 3), Count: 1}
		s.Note(b)
	}
	export, err := s.View().Export(150, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(export, 0, byte(0))
	f.Fuzz(func(_ *testing.T, b []byte, at int, with byte) {
		b = bytes.Clone(b)
		if at >= 0 && at < len(b) {
			b[at] ^= with
		}
		im, err := ParseImport(b)
		if err != nil {
			return
		}
		s := New(Config{Age: 10, Count: 5})
		if err := s.Restore(im.Covered, im.Snapshot, im.Runs); err != nil {
			panic(err)
		}
		s.Figures()
		s.BeginMerge()
	})
}
