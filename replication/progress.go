package replication

import "slices"

// progress works out a leader's high watermark from what it knows of its
// replicas in this leader epoch. It is a plain calculator: whoever owns it locks.
type progress struct {
	self      int32
	minInSync int     // effective: min(min.insync.replicas, replicas) (R27)
	isr       []int32 // committed by the controller
	joining   []int32 // members of an expansion in flight: counted for the ends (R26)
	own       int64   // this replica's durable end
	// ends are the followers' durable ends, each learned from a fetch in this
	// leader epoch; one that isn't here is unknown and blocks (R5, R25). May be nil.
	ends map[int32]int64
}

// highWatermark is the high watermark that follows current: never less (R25).
func (p *progress) highWatermark(current int64) int64 {
	if len(p.isr) < p.minInSync {
		return current // R28: not for any acks
	}
	hw := p.own
	for _, members := range [][]int32{p.isr, p.joining} {
		for _, id := range members {
			if id == p.self {
				continue
			}
			end, known := p.ends[id]
			if !known {
				return current
			}
			hw = min(hw, end)
		}
	}
	return max(current, hw)
}

// inSync is the number of replicas that an acknowledgement at the high watermark
// stands for: the committed ISR.
func (p *progress) inSync() int { return len(p.isr) }

// has tells whether a broker is in the committed ISR.
func (p *progress) has(id int32) bool { return slices.Contains(p.isr, id) }
