package replication

import (
	"context"
	"time"
)

// handOverWait bounds how long leaders that hold their appends wait for the in-sync
// replicas to have all: those that are alive need one fetch.
const handOverWait = 2 * time.Second

// HandOver readies this broker's partitions for other leaders, before the
// controller is asked to move them (R74): those that others could lead give out no
// more offsets, and are waited for until everything in them is committed, so that
// the next leader begins with nothing unknown and no append of this one is left in
// doubt. Appends meanwhile get *NotLeaderError, with nothing written, and are sent
// on as soon as the new leader is known. It returns how many partitions are held.
//
// resume takes appends again where this broker still leads: for a hand-over that
// didn't come about.
func (b *Broker) HandOver(ctx context.Context) (held int, resume func()) {
	ctx, cancel := context.WithTimeout(ctx, handOverWait)
	defer cancel()
	var parts []*Partition
	for _, p := range b.openPartitions(nil) {
		if p.hold() {
			parts = append(parts, p)
		}
	}
	signal := NewSignal()
	for _, p := range parts {
		if !p.awaitCommitted(ctx, signal) {
			break
		}
	}
	return len(parts), func() {
		for _, p := range parts {
			p.mu.Lock()
			p.held = false
			p.mu.Unlock()
		}
	}
}

// hold stops appends to a partition that another in-sync replica can lead.
func (p *Partition) hold() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n, leads := p.inSync(); !p.leader || !leads || n < 2 {
		return false
	}
	p.held = true
	return true
}

// awaitCommitted waits until all of the log is committed, or this replica leads no
// more; false: ctx ended.
func (p *Partition) awaitCommitted(ctx context.Context, signal *Signal) bool {
	defer p.Subscribe(signal)()
	p.log.SyncSoon()
	for {
		hw, _, err := p.readable()
		if err != nil || hw >= p.log.StagedEnd() {
			return true
		}
		select {
		case <-signal.C:
		case <-ctx.Done():
			return false
		}
	}
}
