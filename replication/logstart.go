package replication

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"highwater/replication/replica"
	"highwater/storage"
)

// The log start moves in two steps, so that it never goes back for a client, whoever
// leads next: the leader says in its answers to fetches where it is to be; the
// followers move theirs and say so with their next fetch; when all have that may
// lead next, the leader moves its own, which is the one that clients are told of
// (R89).

// starts are the partitions whose log start may move now.
type starts struct {
	wake chan struct{} // one token

	mu  sync.Mutex // a leaf; guards due
	due map[*Partition]struct{}
}

func newStarts() *starts {
	return &starts{wake: make(chan struct{}, 1), due: map[*Partition]struct{}{}}
}

func (s *starts) add(p *Partition) {
	s.mu.Lock()
	s.due[p] = struct{}{}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *starts) take() map[*Partition]struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := s.due
	s.due = map[*Partition]struct{}{}
	return due
}

// runStarts moves log starts until ctx ends. Errors are the log's own matter: a
// failed disk ends the process by itself (S4).
func (b *Broker) runStarts(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.starts.wake:
		}
		for p := range b.starts.take() {
			if err := b.advanceStart(p); err != nil {
				b.cfg.Logger.Error().Err(err).Str("topic", p.topic.name()).Int32("partition", p.num).Msg("the log start was not moved")
			}
		}
	}
}

// wantStart has the leader move the log start, as soon as the others have. Only
// the leader of a partition decides on that (R89).
func (b *Broker) wantStart(p *Partition, to int64) error {
	p.water.Lock()
	if p.lead != nil {
		p.start = max(p.start, to)
	}
	p.water.Unlock()
	p.watches.wake(false)
	return b.advanceStart(p)
}

// wantedStart is where the leader's log is to begin, as followers are told.
func (p *Partition) wantedStart() int64 {
	p.water.Lock()
	defer p.water.Unlock()
	return max(p.start, p.log.StartOffset())
}

// advanceStart moves the leader's log start as far as all replicas have that may be
// elected next.
func (b *Broker) advanceStart(p *Partition) error {
	p.water.Lock()
	to := p.start
	may := p.lead != nil && to > p.log.StartOffset() && othersStart(p.lead, b.cfg.NodeID) >= to
	p.water.Unlock()
	if !may {
		return nil
	}
	err := p.log.AdvanceStart(to)
	p.subs.wake()
	p.topic.data.wake()
	if err == nil || p.topic.deleted.Load() || errors.Is(err, storage.ErrClosed) {
		return nil
	}
	return fmt.Errorf("replication: moving the log start of %s-%d: %w", p.topic.name(), p.num, err)
}

// othersStart is the smallest log start of those who may be in sync besides self:
// -1 while it isn't known, or while somebody else may be elected (R77).
func othersStart(l *replica.Leader, self int32) int64 {
	if m := l.Meta(); len(m.ISR) < m.MinInSync {
		return -1
	}
	least := int64(1<<63 - 1)
	for _, id := range l.MaximalISR() {
		if id == self {
			continue
		}
		v := l.View(id)
		if v.End < 0 {
			return -1
		}
		least = min(least, v.LogStart)
	}
	return least
}

// deleteWait bounds how long a deletion of records waits for the in-sync replicas:
// those that are alive need two fetches.
const deleteWait = 5 * time.Second

// deleteRecordsIn is DeleteRecords of a partition that this broker leads. ErrTimeout:
// the records will go, but nobody knows when.
func (b *Broker) deleteRecordsIn(ctx context.Context, p *Partition, before int64) (int64, error) {
	if !b.vouches(p) {
		return 0, p.notConfirmed()
	}
	hw, knowsEnd, err := p.readable()
	if err != nil {
		return 0, err
	}
	if before == -1 {
		before = hw
	}
	if before > hw && !knowsEnd { // R51
		return 0, &OffsetNotAvailableError{Topic: p.topic.name(), Partition: p.num}
	}
	if before < 0 || before > hw {
		return 0, &storage.OffsetOutOfRangeError{Offset: before, Start: p.log.StartOffset(), End: hw}
	}
	signal := NewSignal()
	defer p.Subscribe(signal)()
	if err := b.wantStart(p, before); err != nil {
		return 0, p.gone(err)
	}
	deadline := time.NewTimer(deleteWait)
	defer deadline.Stop()
	for {
		if _, _, err := p.readable(); err != nil {
			return 0, p.gone(err)
		}
		if start := p.log.StartOffset(); start >= before {
			return start, nil
		}
		if !wait(ctx, signal, deadline, b.drain) {
			return 0, ErrTimeout
		}
	}
}
