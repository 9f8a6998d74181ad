package storage

import "fmt"

// The crash model's part of what a log remembers: batches with message ids and producers,
// flushes, and what must be known after whatever happened.

// modelIDs is how many ids there are; each comes again and again.
const modelIDs = 80

// makeBatch is makeBatch, with ids and a producer now and then if the model is about them.
// The ids are those of the records, or empty.
func (m *crashModel) makeBatch(c Compression, first, n, size int) (Batch, []string) {
	ids := make([]string, n)
	if !m.remembers || m.rng.IntN(5) == 0 {
		return makeBatch(m.t, c, first, n, size, steady), ids
	}
	var b BatchBuilder
	b.AppendTime = m.now.Load() + int64(m.rng.IntN(200)) - 100
	plain := decodeAll(m.t, makeBatch(m.t, CompressionNone, first, n, size, steady))
	for i := range plain {
		if m.rng.IntN(4) > 0 {
			ids[i] = fmt.Sprint("id ", m.rng.IntN(modelIDs))
			plain[i].Headers = append(plain[i].Headers, Header{[]byte(MessageIDHeader), []byte(ids[i])})
		}
		b.Append(&plain[i])
	}
	var p *Producer
	if m.rng.IntN(3) == 0 {
		p = &Producer{ID: int64(m.rng.IntN(4)), Epoch: int16(m.rng.IntN(2)), BaseSequence: int32(m.rng.IntN(100))}
	}
	sealed, err := b.Seal(c, p)
	if err != nil {
		m.t.Fatal(err)
	}
	return sealed, ids
}

// flush brings what is committed of the memory to the index, as far as a high watermark.
func (m *crashModel) flush() {
	hw := min(m.log.DurableEnd(), m.synced)
	if hw > m.log.StartOffset() {
		hw -= m.rng.Int64N(min(hw-m.log.StartOffset(), 20) + 1)
	}
	m.note("flush below %d", hw)
	m.log.CheckpointHighWatermark(hw)
	m.log.flushMemory(0)
	m.log.mergeRuns()
	m.rare["flushed"]++
}

// checkMemory compares what the log remembers with what it says.
func (m *crashModel) checkMemory() {
	if !m.remembers {
		return
	}
	newest := map[string]int64{}
	for offset, r := range m.records[:m.log.WrittenEnd()] {
		if r.id != "" {
			newest[r.id] = int64(offset)
		}
	}
	start := m.log.StartOffset()
	for i := range modelIDs {
		id := fmt.Sprint("id ", i)
		offset, found, err := m.log.FindMessage([]byte(id))
		want, known := newest[id]
		switch {
		case err != nil:
			m.fatalf("%s: %v", id, err)
		case found && (!known || offset != want):
			m.fatalf("%s is found at %d, it stands at %d (%v)", id, offset, want, known)
		case !found && known && want >= start:
			m.fatalf("%s stands at %d, and is not found", id, want)
		case found && want < start:
			m.rare["found below the start"]++
		case !found && known:
			m.rare["forgotten below the start"]++
		}
	}
	got, err := m.log.DedupeDigest()
	if err != nil {
		m.fatalf("digest: %v", err)
	}
	want, err := m.log.RecomputeDedupeDigest()
	if err != nil {
		m.fatalf("digest of the log: %v", err)
	}
	if got != want {
		m.fatalf("what is remembered of [%d, %d) is not what the log says: %+v", m.log.StartOffset(), m.log.StagedEnd(), m.log.memory)
	}
	m.rare["memory compared"]++
}
