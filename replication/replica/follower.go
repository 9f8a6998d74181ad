package replica

import (
	"encoding/binary"
	"fmt"

	"highwater/replication/wire"
)

// Sent is what a follower asked for in one partition.
type Sent struct {
	LeaderEpoch int32
	Offset      int64
}

// Now is the follower when the answer arrives.
type Now struct {
	LeaderEpoch int32 // of its metadata
	Assigned    bool  // still this fetcher's
	End         int64 // its log end
	LogStart    int64
	Epochs      []wire.EpochStart
}

// Step is what a follower does about an answer.
type Step int

// Steps.
const (
	Drop     Step = iota // not for us any more (R16)
	Append               // the batches, if any; then HighWatermark, then LogStart (R18)
	Truncate             // to Decision.Offset, then fetch again (R36)
	Reset                // throw everything away and start at Decision.Offset (R90)
	Wait                 // for newer metadata (R20), or back off
)

// Decision is a Step with what it needs.
type Decision struct {
	Step          Step
	Offset        int64 // Truncate: to here, which may be the end: epoch entries are cut then, too. Reset: start here
	HighWatermark int64 // Append: the leader's; the follower's is the smaller of this and its own end after the append
	LogStart      int64 // Append: the leader's
	Code          wire.Code
	Err           error // Wait with CodeCorrupt: what is wrong with the batches (R17)
}

// Decide judges an answer (R16, R17 but for the checksums, R36, R37, R90).
func Decide(sent Sent, now Now, answer *wire.FetchedPartition) Decision {
	return Mutation(0).Decide(sent, now, answer)
}

// Decide is the function Decide without some rules, for tests of the tests.
func (m Mutation) Decide(sent Sent, now Now, answer *wire.FetchedPartition) Decision {
	if !now.Assigned || (now.LeaderEpoch != sent.LeaderEpoch || now.End != sent.Offset) && !m.has(NoR16) {
		return Decision{Step: Drop}
	}
	if answer.Code != wire.OK && answer.Code != wire.CodeOffsetOutOfRange {
		return Decision{Step: Wait, Code: answer.Code}
	}
	if answer.LeaderEpoch != sent.LeaderEpoch && !m.has(NoR16) {
		return Decision{Step: Drop}
	}
	if answer.Code == wire.CodeOffsetOutOfRange {
		return outOfRange(now, answer)
	}
	if answer.Diverging != nil {
		return Decision{Step: Truncate, Offset: truncateTo(now, *answer.Diverging)}
	}
	if err := checkBatches(now, answer); err != nil {
		return Decision{Step: Wait, Code: wire.CodeCorrupt, Err: err}
	}
	return Decision{Step: Append, HighWatermark: answer.HighWatermark, LogStart: answer.LogStart}
}

// outOfRange starts anew where the leader's log begins when nothing here can
// still be continued: all of it lies before that (R90), or there is nothing and
// it would begin beyond the leader's end. A log that isn't empty and ends beyond
// the leader's would have diverged: never thrown away on that ground.
func outOfRange(now Now, answer *wire.FetchedPartition) Decision {
	before := now.End <= answer.LogStart && now.LogStart < answer.LogStart
	if before || now.End > answer.LeaderEnd && LastEpoch(now.Epochs) < 0 {
		return Decision{Step: Reset, Offset: answer.LogStart}
	}
	return Decision{Step: Wait, Code: answer.Code}
}

// truncateTo is where both logs can still be equal: the leader's end of that
// epoch, or this log's end of the largest epoch up to it, whichever is smaller
// (R36, KIP-279).
func truncateTo(now Now, leader wire.EpochEnd) int64 {
	own := EndOfEpoch(now.Epochs, leader.Epoch, now.End)
	return max(min(leader.EndOffset, own.EndOffset, now.End), now.LogStart)
}

// Where the fields lie in a record batch (KIP-98), whose length doesn't count
// what stands before batchEpoch.
const (
	batchBase      = 0  // int64: base offset
	batchLength    = 8  // int32
	batchEpoch     = 12 // int32: leader epoch
	batchLastDelta = 23 // int32: last offset - base offset
	batchRecords   = 57 // int32: number of records
	batchHeader    = 61 // bytes
)

// checkBatches is R17 but for the checksums, which storage checks: each batch
// begins where the one before ends, the first at the log's end, and epochs never
// go back nor beyond the leader's. The first may begin before the log's end if the
// leader's compaction has made it cover what came behind it; storage takes the rest
// of it if no record is there.
func checkBatches(now Now, answer *wire.FetchedPartition) error {
	next, epoch := now.End, LastEpoch(now.Epochs)
	for rest := answer.Batches; len(rest) > 0; {
		if len(rest) < batchHeader {
			return fmt.Errorf("replica: %d bytes at offset %d are no batch", len(rest), next)
		}
		size := int64(int32(binary.BigEndian.Uint32(rest[batchLength:]))) + batchEpoch
		if size < batchHeader || size > int64(len(rest)) {
			return fmt.Errorf("replica: a batch of %d bytes at offset %d, in %d bytes", size, next, len(rest))
		}
		base := int64(binary.BigEndian.Uint64(rest[batchBase:]))
		e := int32(binary.BigEndian.Uint32(rest[batchEpoch:]))
		delta := int32(binary.BigEndian.Uint32(rest[batchLastDelta:]))
		first := len(rest) == len(answer.Batches)
		sparse := int32(binary.BigEndian.Uint32(rest[batchRecords:])) <= delta
		if base != next && !(first && sparse && base < next && next <= base+int64(delta)) || delta < 0 {
			return fmt.Errorf("replica: a batch of offsets %d to %d where %d comes next", base, base+int64(delta), next)
		}
		if e < epoch || e > answer.LeaderEpoch {
			return fmt.Errorf("replica: a batch of leader epoch %d at offset %d, between epochs %d and %d", e, base, epoch, answer.LeaderEpoch)
		}
		next, epoch, rest = base+int64(delta)+1, e, rest[size:]
	}
	return nil
}

// LastEpoch is what a follower reports as the leader epoch of its log's end: that
// of the newest entry, or -1 for a log that never had one (R14).
func LastEpoch(epochs []wire.EpochStart) int32 {
	if len(epochs) == 0 {
		return -1
	}
	return epochs[len(epochs)-1].Epoch
}

// EndOfEpoch finds the largest epoch that is at most the asked one, and where it
// ends: at the start of the next, or at end. When the asked one is older than
// all, it ends where the oldest begins (R21).
func EndOfEpoch(epochs []wire.EpochStart, asked int32, end int64) wire.EpochEnd {
	for i := len(epochs) - 1; i >= 0; i-- {
		if epochs[i].Epoch <= asked {
			return wire.EpochEnd{Epoch: epochs[i].Epoch, EndOffset: end}
		}
		end = epochs[i].StartOffset
	}
	return wire.EpochEnd{Epoch: asked, EndOffset: end}
}
