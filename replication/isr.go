package replication

import (
	"context"
	"errors"
	"sync"
	"time"

	"highwater/replication/controller"
	"highwater/replication/replica"
	"highwater/replication/wire"
)

const (
	// defaultLagMax is replica.lag.time.max: how long a member of the ISR may be
	// behind. Ten seconds outlast a restart of the controller, not a dead follower.
	defaultLagMax = 10 * time.Second
	// isrPause is the least time between two proposals of a partition after one that
	// came to nothing: it bounds what a flapping follower costs the quorum (F21).
	isrPause = 500 * time.Millisecond
	// alterTimeout bounds one proposal.
	alterTimeout = 5 * time.Second
	// maxAlter bounds the partitions of one proposal, which is one raft entry.
	maxAlter = 1000
)

// isrManager proposes what the leaders' rules want of their ISRs: one proposal at a
// time, for all partitions that want one (R43). It looks at a partition when a
// follower has come far enough to join, after the answer to a proposal, and at all
// that are led here each half lag time (R41).
type isrManager struct {
	b    *Broker
	wake chan struct{} // one token

	mu    sync.Mutex // a leaf; guards what follows
	due   map[*Partition]struct{}
	sweep bool // look at all
}

func newISRManager(b *Broker) *isrManager {
	return &isrManager{b: b, wake: make(chan struct{}, 1), due: map[*Partition]struct{}{}}
}

// look has the manager look at a partition soon.
func (m *isrManager) look(p *Partition) {
	m.mu.Lock()
	m.due[p] = struct{}{}
	m.mu.Unlock()
	m.signal()
}

// lookAtAll has it look at all partitions: brokers have come or gone.
func (m *isrManager) lookAtAll() {
	m.mu.Lock()
	m.sweep = true
	m.mu.Unlock()
	m.signal()
}

func (m *isrManager) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// take returns the partitions to look at.
func (m *isrManager) take() []*Partition {
	m.mu.Lock()
	due, sweep := m.due, m.sweep
	m.due, m.sweep = map[*Partition]struct{}{}, false
	m.mu.Unlock()
	if sweep {
		return m.b.openPartitions(nil)
	}
	list := make([]*Partition, 0, len(due))
	for p := range due {
		list = append(list, p)
	}
	return list
}

// run proposes until ctx ends.
func (m *isrManager) run(ctx context.Context) {
	tick := time.NewTicker(max(m.b.cfg.LagMax/2, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.lookAtAll()
		case <-m.wake:
		}
		proposals := m.collect(m.take(), time.Now())
		settled := true
		for len(proposals) > 0 {
			n := min(len(proposals), maxAlter)
			settled = m.propose(ctx, proposals[:n]) && settled
			proposals = proposals[n:]
		}
		if settled {
			continue
		}
		pause := time.NewTimer(isrPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
	}
}

// proposal is one partition's change on its way.
type proposal struct {
	p      *Partition
	change *replica.Change
	from   []int32 // the ISR before
}

// collect asks the rules for changes that are due, and for those whose answer
// settled nothing.
func (m *isrManager) collect(parts []*Partition, now time.Time) []proposal {
	var out []proposal
	for _, p := range parts {
		p.water.Lock()
		if p.lead != nil {
			c := p.lead.Resend()
			if c == nil {
				c = p.lead.Change(now)
			}
			if c != nil {
				out = append(out, proposal{p: p, change: c, from: p.lead.Meta().ISR})
			}
		}
		p.water.Unlock()
	}
	return out
}

// propose sends changes and takes over what came of them; false: some of them
// came to nothing, and are to be looked at again after a pause.
func (m *isrManager) propose(ctx context.Context, proposals []proposal) (settled bool) {
	changes := make([]wire.AlterPartition, len(proposals))
	for i, o := range proposals {
		id := o.p.id()
		changes[i] = wire.AlterPartition{Topic: id.Topic, Partition: id.Partition, LeaderEpoch: o.change.LeaderEpoch,
			PartitionEpoch: o.change.PartitionEpoch, ISR: o.change.ISR, Recovered: o.change.Recovered}
	}
	ctx, cancel := context.WithTimeout(ctx, alterTimeout)
	defer cancel()
	results, err := m.b.cfg.Controller.AlterPartitions(ctx, changes)
	if err == nil && len(results) != len(changes) {
		err = errors.New("replication: the controller's answer is not one to what was asked")
	}
	if err != nil {
		m.b.cfg.Logger.Warn().Err(err).Int("partitions", len(changes)).Msg("ISR changes were not decided")
	}
	settled = true
	now := m.b.State() // has what was committed
	for i := range proposals {
		var result wire.AlterResult
		if err == nil {
			result = results[i]
		}
		outcome := outcomeOf(&result, err)
		m.decided(&proposals[i], outcome, &result, now)
		if outcome != replica.Committed {
			settled = false
			m.look(proposals[i].p)
		}
	}
	return settled
}

// outcomeOf is R45: only what surely wasn't done counts as refused.
func outcomeOf(result *wire.AlterResult, err error) replica.Outcome {
	switch {
	case errors.Is(err, controller.ErrNoController):
		return replica.Rejected // it was never proposed
	case err != nil:
		return replica.Ambiguous
	case result.Code == wire.OK:
		return replica.Committed
	case result.Code == wire.CodeIneligibleReplica:
		return replica.Rejected
	}
	return replica.Ambiguous
}

// decided tells the rules, and the log.
func (m *isrManager) decided(o *proposal, outcome replica.Outcome, result *wire.AlterResult, now *controller.State) {
	p, name := o.p, o.p.topic.name()
	var meta replica.Meta
	if t, ok := now.TopicByID(p.topic.meta.Load().ID); ok && int(p.num) < len(t.Partitions) {
		meta = metaOf(t, p.num)
	}
	p.water.Lock()
	moved := false
	if p.lead != nil {
		p.lead.Decided(o.change, outcome, meta)
		p.failUnderMin(name)
		moved = p.raise()
	}
	start := p.start
	p.water.Unlock()
	if start > 0 {
		m.b.starts.add(p)
	}
	if moved {
		p.moved()
	}
	event := m.b.cfg.Logger.Info()
	if outcome != replica.Committed {
		event = m.b.cfg.Logger.Warn().Str("code", string(result.Code))
	}
	to := make([]int32, len(o.change.ISR))
	for i, member := range o.change.ISR {
		to[i] = member.Broker
	}
	event.Str("topic", name).Int32("partition", p.num).Int32("leader_epoch", o.change.LeaderEpoch).Int32("partition_epoch", result.PartitionEpoch).
		Ints32("from", o.from).Ints32("to", to).Str("reason", o.change.Reason).Msg("ISR change")
	if outcome != replica.Committed {
		return
	}
	switch {
	case len(to) < len(o.from):
		m.b.metrics.isrShrinks.Inc()
	case len(to) > len(o.from):
		m.b.metrics.isrExpands.Inc()
	}
}
