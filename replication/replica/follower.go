package replica

import "highwater/replication/wire"

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
	HighWatermark int64 // Append: min(leader's, end after the append) is the caller's
	Code          wire.Code
}

// Decide judges an answer (R16, R17, R36, R90).
func Decide(sent Sent, now Now, answer *wire.FetchedPartition) Decision { panic("") }

// LastEpoch is what a follower reports as the leader epoch of its log's end: that
// of the newest entry, or -1 for a log that never had one (R14).
func LastEpoch(epochs []wire.EpochStart) int32 { panic("") }

// EndOfEpoch finds the largest epoch that is at most the asked one, and where it
// ends: at the start of the next, or at end. When the asked one is older than
// all, it ends where the oldest begins (R21).
func EndOfEpoch(epochs []wire.EpochStart, asked int32, end int64) wire.EpochEnd { panic("") }
