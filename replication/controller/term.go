package controller

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"highwater/replication/wire"
)

// term is this member's leadership of the quorum, from the moment that everything
// committed before is applied until it is lost. Nothing of it outlives it.
type term struct {
	member   *member
	ctx      context.Context // ends with the leadership
	cancel   context.CancelFunc
	clock    clock
	sessions *sessions
	verified *atomic.Int64 // the clock's time of the last question that proved it
	pause    time.Duration // how long ago that may be for answers to be new ones
	// turn holds a token: whoever has it may decide about a broker's state by what
	// the metadata say of it.
	turn chan struct{}
	// change holds a token for changes of the quorum's members (K8).
	change chan struct{}
}

func (c *Controller) newTerm(m *member) *term {
	t := &term{member: m, clock: c.clock, verified: &atomic.Int64{}, pause: c.timing().Heartbeat / 2, turn: make(chan struct{}, 1), change: make(chan struct{}, 1),
		sessions: newSessions(c.cfg.SessionTimeout, c.silence(), c.State(), c.clock())}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// silence is what newSessions may count on: it must end before the lease's margin.
func (c *Controller) silence() time.Duration {
	if c.timing() == aloneTiming {
		return 0
	}
	margin := c.cfg.SessionTimeout * (leaseDenominator - leaseNumerator) / leaseDenominator
	return min(c.timing().Heartbeat, margin*5/6)
}

// verify proves that this member still leads: a majority says so (K15). raft takes any
// answer of another member that comes in meanwhile for one to this question. A process
// that was frozen finds answers that were given before; so, when none was asked for a
// while, they are asked twice: the first time takes those in.
func (t *term) verify(ctx context.Context) error {
	if now := t.clock(); now-time.Duration(t.verified.Load()) > t.pause {
		if err := t.ask(ctx); err != nil {
			return err
		}
	}
	asked := t.clock()
	if err := t.ask(ctx); err != nil {
		return err
	}
	t.verified.Store(int64(asked))
	return nil
}

// ask is one question to the others.
func (t *term) ask(ctx context.Context) error {
	select {
	case err := <-t.member.ask(t.member.raft.VerifyLeader):
		if err == nil {
			err = t.ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNoController, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNoController, ctx.Err())
	}
}

// admit judges a registration before it is proposed: it may replace the broker's
// present life only if no process of that was heard lately in this term (R67).
// The leader's own broker needs no such proof: its directory's lock is one.
func (t *term) admit(r *RegisterBroker, s *State, self int32) (*RegisterBroker, error) {
	old := s.Brokers[r.ID]
	if old == nil || old.Incarnation == r.Incarnation {
		return r, nil
	}
	if r.ID != self && t.sessions.alive(r.ID, old.Epoch, t.clock()) {
		return nil, &DuplicateBrokerError{Broker: r.ID}
	}
	admitted := *r
	admitted.Replaces = old.Epoch
	return &admitted, nil
}

// acquire takes a token or gives up with ctx or the term.
func (t *term) acquire(ctx context.Context, token chan struct{}) error {
	select {
	case token <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNoController, ctx.Err())
	case <-t.ctx.Done():
		return fmt.Errorf("%w: %w", ErrNoController, t.ctx.Err())
	}
}

// ServeHeartbeat answers a broker's heartbeat if this member leads, once it has
// proved that it does: the sender counts its lease from when it sent it (R59).
func (c *Controller) ServeHeartbeat(ctx context.Context, req *wire.Heartbeat) *wire.HeartbeatAnswer {
	answer := &wire.HeartbeatAnswer{}
	if answer.Code, _ = c.check(req.Version, req.ClusterID); answer.Code != wire.OK {
		return answer
	}
	t := c.leading()
	if t == nil {
		answer.Code = wire.CodeNotController
		_, answer.LeaderURL = c.leader()
		return answer
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.SessionTimeout)
	defer cancel()
	if err := t.verify(ctx); err != nil {
		answer.Code = wire.CodeNotController
		_, answer.LeaderURL = c.leader()
		return answer
	}
	answer.LeaderURL = c.cfg.URL
	s := c.State()
	if b := s.Brokers[req.Broker]; b == nil || b.Epoch != req.BrokerEpoch {
		answer.Code = wire.CodeStaleBrokerEpoch // R68
		return answer
	}
	t.sessions.beat(req, s.Index, t.clock())
	b, err := c.follow(ctx, t, req)
	switch {
	case errors.As(err, new(*StaleBrokerEpochError)):
		answer.Code = wire.CodeStaleBrokerEpoch
	case err != nil:
		answer.Code = wire.CodeNotController
	default:
		s = c.State()
		answer.Fenced, answer.MetadataIndex = b.Fenced, s.Index
		answer.ShouldShutdown = b.Draining && t.sessions.allApplied(s, b.DrainIndex, b.ID)
	}
	return answer
}

// follow makes of a broker what its heartbeat asks for, where that may be: it is
// unfenced only when it knows of its own registration (R66) and keeps up (R99).
func (c *Controller) follow(ctx context.Context, t *term, hb *wire.Heartbeat) (*Broker, error) {
	for locked := false; ; {
		b := c.State().Brokers[hb.Broker]
		if b == nil || b.Epoch != hb.BrokerEpoch {
			return nil, &StaleBrokerEpochError{Broker: hb.Broker, Epoch: hb.BrokerEpoch}
		}
		fenced := hb.WantFence || hb.Leaving || b.Fenced && int64(hb.MetadataIndex) < b.Epoch || t.sessions.behind(b.ID, t.clock())
		draining := b.Draining || hb.WantShutdown
		if fenced == b.Fenced && draining == b.Draining {
			return b, nil
		}
		if !locked {
			if err := t.acquire(ctx, t.turn); err != nil {
				return nil, err
			}
			defer func() { <-t.turn }()
			locked = true
			continue // it may have changed while this one waited
		}
		why := "its heartbeat asks for it"
		if !hb.WantFence && !hb.Leaving && fenced {
			why = "its metadata are too old"
		}
		return c.setBroker(ctx, t, b, fenced, draining, why)
	}
}

// setBroker proposes a broker's new state. t.turn is held.
func (c *Controller) setBroker(ctx context.Context, t *term, b *Broker, fenced, draining bool, why string) (*Broker, error) {
	res, index, err := c.apply(ctx, t, &SetBroker{ID: b.ID, Epoch: b.Epoch, Fenced: fenced, Draining: draining})
	if err != nil {
		return nil, err
	}
	if fenced && !b.Fenced {
		c.counted.fencings.Add(1)
	}
	c.cfg.Logger.Info().Int32("broker", b.ID).Int64("broker_epoch", b.Epoch).Bool("fenced", fenced).Bool("draining", draining).
		Str("reason", why).Uint64("index", index).Msg("broker state")
	return res.(*Broker), nil
}

// fenceExpired fences, one entry each, the brokers whose sessions are over (R69).
func (c *Controller) fenceExpired(t *term, every time.Duration) {
	expired := t.sessions.expired(c.State(), t.clock(), every)
	if len(expired) == 0 {
		return
	}
	// A leader that stood still may not know yet that it leads no more (F29).
	if t.verify(t.ctx) != nil {
		return
	}
	if t.acquire(t.ctx, t.turn) != nil {
		return
	}
	defer func() { <-t.turn }()
	for _, seen := range t.sessions.expired(c.State(), t.clock(), every) {
		b := c.State().Brokers[seen.ID]
		if b == nil || b.Epoch != seen.Epoch || b.Fenced {
			continue
		}
		if _, err := c.setBroker(t.ctx, t, b, true, b.Draining, "its session is over"); err != nil && t.ctx.Err() == nil {
			c.cfg.Logger.Warn().Err(err).Int32("broker", b.ID).Msg("a broker without a session could not be fenced")
		}
	}
}

// lead does the leader's work until the term ends.
func (c *Controller) lead(t *term) {
	if c.State().ClusterID == "" {
		if _, _, err := c.apply(t.ctx, t, &InitCluster{ClusterID: c.ClusterID(), Voters: c.founders()}); err != nil && t.ctx.Err() == nil {
			c.cfg.Logger.Warn().Err(err).Msg("the cluster's first entry was not made")
		}
	}
	every := max(c.cfg.SessionTimeout/fenceTicks, minFenceTick)
	tended := make(chan struct{})
	go func() { defer close(tended); c.tendMembers(t) }() // it waits for catching up; sessions must not
	defer func() { <-tended }()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-ticker.C:
			c.fenceExpired(t, every)
		}
	}
}

const (
	// fenceTicks is how often in a session timeout the leader looks for brokers
	// whose sessions are over: so much later at most are they fenced.
	fenceTicks   = 30
	minFenceTick = 10 * time.Millisecond
)

// founders are the brokers whose members are to be voters.
func (c *Controller) founders() []int32 {
	var out []int32
	for _, s := range servers(c.member.Load().raft) {
		if s.Suffrage == raft.Voter {
			out = append(out, serverBroker(s.ID))
		}
	}
	return out
}
