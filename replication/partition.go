package replication

import (
	"sync"
	"sync/atomic"

	"highwater/storage"
)

// Partition is this broker's replica of one partition.
type Partition struct {
	topic string
	num   int32
	log   *storage.Log

	// mu guards leadership: an append holds it shared from the leadership check
	// until its offsets are given out (R7), a role change exclusively.
	mu          sync.RWMutex
	leaderEpoch int32
	// stage orders expected_offset checks with the staging they guard.
	stage sync.Mutex

	hw atomic.Int64 // the high watermark; moved by advance alone

	subMu sync.Mutex // leaf lock; guards subs
	subs  map[*Signal]struct{}
}

// Signal is a wake-up shared by any number of partitions: C gets one token when
// at least one of them changed since the last token was taken.
type Signal struct{ C chan struct{} }

// NewSignal makes a Signal.
func NewSignal() *Signal { return &Signal{C: make(chan struct{}, 1)} }

func (s *Signal) wake() {
	select {
	case s.C <- struct{}{}:
	default:
	}
}

// advance moves the high watermark to the durable end (one replica) and wakes
// whoever waits. It is the log's onDurable.
func (p *Partition) advance() {
	end := p.log.DurableEnd()
	for {
		hw := p.hw.Load()
		if end <= hw {
			return
		}
		if p.hw.CompareAndSwap(hw, end) {
			break
		}
	}
	p.log.CheckpointHighWatermark(end)
	p.subMu.Lock()
	defer p.subMu.Unlock()
	for s := range p.subs {
		s.wake()
	}
}

// Subscribe has s woken at every change of what consumers may read, until the
// returned cancel is called. Subscribe first, read then, wait last: the other
// way round loses wake-ups.
func (p *Partition) Subscribe(s *Signal) (cancel func()) {
	p.subMu.Lock()
	defer p.subMu.Unlock()
	p.subs[s] = struct{}{}
	return func() {
		p.subMu.Lock()
		defer p.subMu.Unlock()
		delete(p.subs, s)
	}
}
