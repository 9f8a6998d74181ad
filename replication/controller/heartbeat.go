package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"highwater/replication/wire"
)

const (
	defaultSessionTimeout = 6 * time.Second
	// heartbeatsPerSession is how many heartbeats fit into a session timeout, of
	// which several may be lost; maxHeartbeat is the longest pause between two (R70).
	heartbeatsPerSession = 6
	maxHeartbeat         = time.Second
	// retryHeartbeat is the pause after one that no leader answered.
	retryHeartbeat = 50 * time.Millisecond

	// leaseNumerator/leaseDenominator of the session timeout is how long this
	// broker counts on not being fenced after it sent a heartbeat that was
	// answered: less than the timeout, because two clocks don't run alike (R59).
	leaseNumerator, leaseDenominator = 8, 10
)

// heartbeatInterval is the pause between two heartbeats.
func (c *Controller) heartbeatInterval() time.Duration {
	return min(maxHeartbeat, c.cfg.SessionTimeout/heartbeatsPerSession)
}

// beatOnce sends one heartbeat to the quorum's leader and takes in the answer.
// ErrNoController: no leader answered. *StaleBrokerEpochError: this process's
// registration is over (R68); Run returns it, too.
func (c *Controller) beatOnce(ctx context.Context, leaving bool) (*wire.HeartbeatAnswer, error) {
	select {
	case c.beating <- struct{}{}:
		defer func() { <-c.beating }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrNoController, ctx.Err())
	}
	// A leader that doesn't answer must not keep this broker from finding the next.
	ctx, cancel := context.WithTimeout(ctx, max(c.cfg.SessionTimeout/3, retryHeartbeat))
	defer cancel()
	sent := c.clock()
	req := &wire.Heartbeat{Version: wire.Version, ClusterID: c.ClusterID(), Broker: c.cfg.NodeID, BrokerEpoch: c.BrokerEpoch(),
		MetadataIndex: c.State().Index, WantFence: c.wantFence.Load() || c.lagging(sent), WantShutdown: c.wantShutdown.Load(), Leaving: leaving}
	answer, err := c.sendHeartbeat(ctx, req)
	if err != nil {
		return nil, err
	}
	switch answer.Code {
	case wire.OK:
	case wire.CodeStaleBrokerEpoch:
		err := &StaleBrokerEpochError{Broker: c.cfg.NodeID, Epoch: req.BrokerEpoch}
		c.fail(err)
		return nil, err
	default:
		return nil, fmt.Errorf("%w: heartbeat answered %s", ErrNoController, answer.Code)
	}
	c.counted.heartbeats.Add(1)
	l := *c.lag.Load() // c.beating is held, so nobody else replaces it
	l.note(c.State().Index, answer.MetadataIndex, sent)
	c.lag.Store(&l)
	if answer.Fenced {
		c.lease.Store(&lease{})
	} else {
		c.lease.Store(&lease{until: sent + c.cfg.SessionTimeout*leaseNumerator/leaseDenominator, index: answer.MetadataIndex, before: c.leaseEnd()})
	}
	return answer, nil
}

// lease is until when this broker counts on not being fenced (R59). An answer may end
// a fence that came before it, and others lead by then what this broker led: it counts
// only for who knows the metadata that were agreed on until it was given. Up to then
// the lease before it does.
type lease struct {
	until  time.Duration // by the controller's clock; 0: never
	index  uint64        // of the metadata that this broker must know
	before time.Duration // what until was before
}

// leaseEnd is when the lease ends that this broker can count on now.
func (c *Controller) leaseEnd() time.Duration {
	l := c.lease.Load()
	switch {
	case l == nil:
		return 0
	case c.State().Index < l.index:
		return l.before
	}
	return l.until
}

// sendHeartbeat finds the leader: by raft, or by the answer of who was taken for it
// or of any other broker. A member that raft has forgotten, because another process
// took its place, hears of it in no other way.
func (c *Controller) sendHeartbeat(ctx context.Context, req *wire.Heartbeat) (*wire.HeartbeatAnswer, error) {
	if c.leading() != nil || c.cfg.Peers == nil {
		answer := c.ServeHeartbeat(ctx, req)
		if answer.Code != wire.CodeNotController || c.cfg.Peers == nil {
			return answer, nil
		}
	}
	_, url := c.leader()
	if url == "" || url == c.cfg.URL {
		others := c.otherURLs()
		if len(others) == 0 {
			return nil, ErrNoController
		}
		url = others[c.asked.Add(1)%uint32(len(others))]
	}
	for range 2 {
		call, done := c.whileLeads(ctx, url)
		answer, err := c.cfg.Peers.Heartbeat(call, url, req)
		done()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoController, err)
		}
		if answer.Code != wire.CodeNotController || answer.LeaderURL == url || answer.LeaderURL == c.cfg.URL || answer.LeaderURL == "" {
			return answer, nil
		}
		url = answer.LeaderURL
	}
	return nil, ErrNoController
}

// lagging tells that this broker's metadata are older than a session (R99).
func (c *Controller) lagging(now time.Duration) bool {
	return c.lag.Load().over(c.State().Index, now, c.cfg.SessionTimeout)
}

// keepSession sends heartbeats from the registration on until ctx ends: at the
// interval, and at once when there is something to tell or another leader.
func (c *Controller) keepSession(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-c.failed:
		return
	case <-c.alive:
	}
	ctx, cancel := context.WithCancel(ctx)
	var nudging sync.WaitGroup
	nudging.Go(func() { c.nudgeOnBrokers(ctx) })
	defer nudging.Wait()
	defer cancel()
	for {
		changed := c.watchLeader()
		_, err := c.beatOnce(ctx, false)
		if err != nil {
			c.counted.failedHeartbeats.Add(1)
		}
		pause := c.heartbeatInterval()
		if err != nil {
			pause = min(pause, retryHeartbeat)
		} else {
			changed = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-c.failed:
			return
		case <-c.nudge:
		case <-changed:
		case <-time.After(pause):
		}
	}
}

// nudgeOnBrokers has a heartbeat sent whenever the metadata say something new of
// the brokers: the leader may be waiting to hear that this one knows it (R74).
func (c *Controller) nudgeOnBrokers(ctx context.Context) {
	var seen map[int32]*Broker
	for {
		changed := c.Changed()
		now := c.State().Brokers
		same := len(now) == len(seen)
		for id, b := range now {
			same = same && seen[id] == b
		}
		if !same {
			seen = now
			c.poke()
		}
		if b := now[c.cfg.NodeID]; b != nil && b.Epoch > c.BrokerEpoch() {
			c.fail(&StaleBrokerEpochError{Broker: c.cfg.NodeID, Epoch: c.BrokerEpoch()})
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// poke has a heartbeat sent now.
func (c *Controller) poke() {
	select {
	case c.nudge <- struct{}{}:
	default: // one is due already
	}
}

// SessionValid tells whether the quorum's leader can't have fenced this broker
// yet, by a clock that goes on while the machine sleeps (R59). A quorum of this
// broker alone is valid by its own state.
func (c *Controller) SessionValid() bool {
	if c.alone.Load() {
		b := c.State().Brokers[c.cfg.NodeID]
		return b != nil && b.Epoch == c.BrokerEpoch() && !b.Fenced
	}
	now := c.clock()
	return now < c.leaseEnd() && !c.lagging(now)
}

// Unfence lets this broker lead and be in sync: its partitions stand. It returns
// when the local State has it (R66).
func (c *Controller) Unfence(ctx context.Context) error { return c.setFence(ctx, false) }

// Fence takes this broker out of leadership and ISRs until Unfence; it goes on as
// a follower. It returns when the local State has it.
func (c *Controller) Fence(ctx context.Context) error { return c.setFence(ctx, true) }

func (c *Controller) setFence(ctx context.Context, want bool) error {
	c.wantFence.Store(want)
	for {
		changed, leaders := c.Changed(), c.watchLeader()
		if b := c.State().Brokers[c.cfg.NodeID]; b != nil && b.Epoch == c.BrokerEpoch() && b.Fenced == want {
			return nil
		}
		answer, err := c.beatOnce(ctx, false)
		if errors.As(err, new(*StaleBrokerEpochError)) {
			return err
		}
		if err == nil && answer.Fenced == want {
			leaders = nil // agreed on; the local state comes after
		} else {
			changed = nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrNoController, ctx.Err())
		case <-c.failed:
			return c.failure()
		case <-changed:
		case <-leaders:
		case <-time.After(leaderPoll):
		}
	}
}

// ControlledShutdown has the quorum move this broker's leaderships away and
// returns nil once it leads nothing that another could, and every other active
// broker knows that (R74), or when ctx ends with its error. Until then the broker
// serves on.
func (c *Controller) ControlledShutdown(ctx context.Context) error {
	if c.BrokerEpoch() == 0 {
		return nil
	}
	c.wantShutdown.Store(true)
	for {
		leaders := c.watchLeader()
		answer, err := c.beatOnce(ctx, false)
		switch {
		case errors.As(err, new(*StaleBrokerEpochError)):
			return err
		case err == nil && answer.ShouldShutdown:
			// So that this broker knows it, too.
			if err := c.waitApplied(ctx, answer.MetadataIndex); err != nil {
				return err
			}
			// While its port is still open: the others need a leader that they reach (K16).
			c.handOver(c.member.Load())
			return nil
		}
		select {
		case <-ctx.Done():
			c.unheard.Store(err != nil)
			return fmt.Errorf("controller: the shutdown was not agreed on: %w", ctx.Err())
		case <-c.failed:
			return c.failure()
		case <-leaders:
		case <-time.After(drainPoll):
		}
	}
}

// drainPoll is how often a broker that wants to end asks whether it may. Others
// tell the leader at once when they know of it, so few questions are asked.
const drainPoll = 20 * time.Millisecond
