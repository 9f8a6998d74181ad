package model

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"highwater/replication/replica"
	"highwater/replication/wire"
)

type record struct {
	epoch int32
	value int64
}

// memLog is a replica's log: one record a batch, the part above durable is lost in
// a crash, as is an epoch without records. It behaves as storage.Log does.
type memLog struct {
	start   int64
	recs    []record // from start
	epochs  []wire.EpochStart
	durable int64
	hw      int64
	hwSaved int64 // checkpointed (R33)
	// lossy: lost something durable, and knows it. It stays so until a
	// registration has told it (R34, R73).
	lossy   bool
	matched int64 // the checker's: so far equal to what is committed
}

func (l *memLog) end() int64        { return l.start + int64(len(l.recs)) }
func (l *memLog) at(o int64) record { return l.recs[o-l.start] }
func (l *memLog) lastEpoch() int32  { return replica.LastEpoch(l.epochs) }
func (l *memLog) sync()             { l.durable = l.end() }
func (l *memLog) append(r record)   { l.note(r.epoch); l.recs = append(l.recs, r) }
func (l *memLog) local() replica.Local {
	return replica.Local{Start: l.start, Written: l.end(), Durable: l.durable, Epochs: l.epochs}
}

// note begins an epoch at the end unless it is known. An epoch without records
// gives way, as in storage.
func (l *memLog) note(epoch int32) {
	n, end := len(l.epochs), l.end()
	if n > 0 && l.epochs[n-1].Epoch >= epoch {
		return
	}
	for n > 0 && l.epochs[n-1].StartOffset >= end {
		n--
	}
	l.epochs = append(l.epochs[:n:n], wire.EpochStart{Epoch: epoch, StartOffset: end})
}

func (l *memLog) cutEpochs(to int64) {
	n := len(l.epochs)
	for n > 0 && l.epochs[n-1].StartOffset >= to {
		n--
	}
	l.epochs = l.epochs[:n:n]
}

// truncate cuts the epochs also when to is the end (R36, KAFKA-10706).
func (l *memLog) truncate(to int64) {
	l.cutEpochs(to)
	if to < l.end() {
		l.recs = l.recs[:to-l.start]
	}
	l.durable = min(l.durable, to)
	l.hw, l.hwSaved = min(l.hw, to), min(l.hwSaved, to)
	l.matched = min(l.matched, to)
}

func (l *memLog) reset(at int64) {
	*l = memLog{start: at, durable: at, hw: at, hwSaved: at, matched: at, lossy: l.lossy}
}

func (l *memLog) advanceStart(to int64) {
	if to <= l.start {
		return
	}
	l.recs = l.recs[to-l.start:]
	l.start = to
	l.durable, l.hw, l.hwSaved, l.matched = max(l.durable, to), max(l.hw, to), max(l.hwSaved, to), max(l.matched, to)
	n := 0
	for n+1 < len(l.epochs) && l.epochs[n+1].StartOffset <= to {
		n++
	}
	kept := append([]wire.EpochStart(nil), l.epochs[n:]...)
	if len(kept) > 0 && kept[0].StartOffset < to {
		kept[0].StartOffset = to
	}
	l.epochs = kept
}

// crash loses what isn't durable: some of it, for what was written may have
// reached the disk.
func (l *memLog) crash(rng *rand.Rand) {
	end := l.durable
	if n := l.end() - l.durable; n > 0 {
		end += rng.Int64N(n + 1)
	}
	if n := len(l.epochs); end < l.end() || n > 0 && l.epochs[n-1].StartOffset >= end && rng.IntN(2) == 0 {
		l.truncate(end)
	}
	l.sync()
	l.hw = max(min(l.hwSaved, l.end()), l.start) // R34
}

// lose takes durable records away.
func (l *memLog) lose(rng *rand.Rand) {
	l.truncate(l.start + rng.Int64N(int64(len(l.recs))+1))
	l.lossy = true
}

const batchSize = 61 + 8

// read encodes up to n batches from an offset on, as the log holds them (R15).
func (l *memLog) read(from int64, n int) []byte {
	n = min(n, int(l.end()-from))
	if n <= 0 {
		return nil
	}
	out := make([]byte, n*batchSize)
	for i := range n {
		r, b := l.at(from+int64(i)), out[i*batchSize:]
		binary.BigEndian.PutUint64(b, uint64(from+int64(i)))
		binary.BigEndian.PutUint32(b[8:], batchSize-12)
		binary.BigEndian.PutUint32(b[12:], uint32(r.epoch))
		b[16] = 2
		binary.BigEndian.PutUint64(b[61:], uint64(r.value))
	}
	return out
}

// appendRaw is storage's append of a follower, which knows nothing of the rules'
// judgement: what doesn't fit here is a hole.
func (l *memLog) appendRaw(raw []byte) {
	for ; len(raw) > 0; raw = raw[batchSize:] {
		if base := int64(binary.BigEndian.Uint64(raw)); base != l.end() {
			panic(fmt.Sprintf("batch %d appended at %d", base, l.end()))
		}
		l.append(record{epoch: int32(binary.BigEndian.Uint32(raw[12:])), value: int64(binary.BigEndian.Uint64(raw[61:]))})
	}
}
