package replica

// Mutation switches one rule off. It exists so that tests can show that the model
// notices: each of these, left out, loses or forks records. Production code never
// sets one.
type Mutation uint32

// Mutations, by the rule they remove.
const (
	NoR16       Mutation = 1 << iota // a follower applies an answer of another epoch or offset
	NoR19                            // a leader takes a fetch of a stale broker epoch or session
	NoR20                            // a leader takes a fetch of another leader epoch
	NoR26                            // the high watermark ignores a larger ISR in flight
	NoR26Shrink                      // the high watermark takes a smaller ISR in flight for granted
	NoR42HighWatermark
	NoR42LeaderEpochStart
	NoR42FetchedInEpoch
	NoR42BrokerEpoch
	NoR44 // the controller takes a member in a former life, or fenced
	NoR45 // no clear answer to a proposal counts as a refusal
	NoR73 // an empty directory counts as complete
)

func (m Mutation) has(one Mutation) bool { return m&one != 0 }
