package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/hashicorp/raft"

	"highwater/replication/wire"
)

const (
	// maxMembers bounds the quorum's members, voters and others: the leader sends
	// each the log (K7).
	maxMembers = 15
	// memberTick is how often the leader looks whether a member can become a voter.
	memberTick = 250 * time.Millisecond
	// closeBehind is how many commands a member may lack and count as caught up.
	closeBehind = 64
	// nobodysGrace is how long a member may be without a registered broker: far
	// longer than a broker needs from joining to its registration.
	nobodysGrace = 5 * time.Minute
	// changeTimeout bounds the wait for raft to take a change of members.
	changeTimeout = 5 * time.Second
)

// ServeJoin answers a broker that wants to be a member, or to tell where it is.
// A new member has no vote at first. If it is the new self of a broker whose old
// member lost its directory, that one is removed first, unless its process is
// alive; and if the broker is one of the founders, its new member gets the vote
// once it has caught up (K8, K9).
func (c *Controller) ServeJoin(ctx context.Context, req *wire.Join) *wire.JoinAnswer {
	answer := &wire.JoinAnswer{ClusterID: c.ClusterID()}
	if answer.Code, answer.Detail = c.check(req.Version, req.ClusterID); answer.Code != wire.OK {
		return answer
	}
	t := c.leading()
	if t == nil {
		answer.Code = wire.CodeNotController
		_, answer.LeaderURL = c.leader()
		return answer
	}
	answer.LeaderURL = c.cfg.URL
	if err := t.verify(ctx); err != nil {
		answer.Code, answer.Detail = wire.CodeNotController, err.Error()
		return answer
	}
	err := c.admitMember(ctx, t, req)
	switch {
	case errors.As(err, new(*DuplicateBrokerError)):
		answer.Code, answer.Detail = wire.CodeDuplicateBroker, err.Error()
	case errors.As(err, new(*ImpossibleError)):
		answer.Code, answer.Detail = wire.CodeInvalidRequest, err.Error()
	case err != nil:
		answer.Code, answer.Detail = wire.CodeNotController, err.Error()
	}
	return answer
}

// admitMember makes the sender a member, one change at a time, each on top of the
// configuration that it was decided by.
func (c *Controller) admitMember(ctx context.Context, t *term, req *wire.Join) error {
	if err := t.acquire(ctx, t.change); err != nil {
		return err
	}
	defer func() { <-t.change }()
	id := serverID(req.Broker, req.Server)
	index, members := c.configuration(t.member.raft)
	for _, s := range members {
		if s.ID == id {
			// That is where it is now; unless the member is alive elsewhere, and the
			// sender works on a copy of its directory (F34).
			b := c.State().Brokers[req.Broker]
			if b != nil && b.RaftID == string(id) && b.URL != req.URL && (req.Broker == c.cfg.NodeID || t.sessions.alive(b.ID, b.Epoch, t.clock())) {
				return &DuplicateBrokerError{Broker: req.Broker}
			}
			c.moved.Store(id, req.URL)
			return nil
		}
	}
	others := 0
	for _, s := range members {
		if serverBroker(s.ID) != req.Broker {
			others++
		}
	}
	if others >= maxMembers {
		return &ImpossibleError{Reason: fmt.Sprintf("the quorum has %d members, and takes no more", others)}
	}
	for _, old := range members {
		if serverBroker(old.ID) != req.Broker {
			continue
		}
		b := c.State().Brokers[req.Broker]
		if req.Broker == c.cfg.NodeID || b != nil && b.RaftID == string(old.ID) && t.sessions.alive(b.ID, b.Epoch, t.clock()) {
			return &DuplicateBrokerError{Broker: req.Broker}
		}
		c.cfg.Logger.Warn().Int32("broker", req.Broker).Str("member", string(old.ID)).Str("new", string(id)).
			Msg("a broker is back without its metadata: its old member leaves the quorum")
		f := t.member.raft.RemoveServer(old.ID, index, changeTimeout)
		if err := within(changeTimeout, f); err != nil {
			return err
		}
		index = f.Index()
	}
	c.moved.Store(id, req.URL)
	if err := within(changeTimeout, t.member.raft.AddNonvoter(id, raftAddress(req.URL, id), index, changeTimeout)); err != nil {
		return err
	}
	c.cfg.Logger.Info().Int32("broker", req.Broker).Str("member", string(id)).Str("url", req.URL).Msg("a member joined the quorum")
	return c.slowDown(t.member)
}

// configuration is the newest configuration, and the index on top of which the next
// change may be made: that of the newest one that is committed. (raft 1.7.3 tells
// no index of its own.)
func (c *Controller) configuration(r *raft.Raft) (index uint64, members []raft.Server) {
	index = c.fsm.configuration.Load() // before the members: if they are newer, the change fails
	return index, servers(r)
}

// tendMembers gives, as long as the term lasts, the vote to members that are to
// have it: the new selves of founders.
func (c *Controller) tendMembers(t *term) {
	ticker := time.NewTicker(memberTick)
	defer ticker.Stop()
	nobodys := map[raft.ServerID]time.Duration{}
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-ticker.C:
			if err := c.promote(t); err != nil && t.ctx.Err() == nil {
				c.cfg.Logger.Warn().Err(err).Msg("a member did not get its vote")
			}
			if err := c.dismiss(t, nobodys); err != nil && t.ctx.Err() == nil {
				c.cfg.Logger.Warn().Err(err).Msg("a member that no broker is registered with was not removed")
			}
		}
	}
}

// dismiss removes one member without a vote that no broker is registered with: the
// broker was removed, or never came. nobodys remembers since when each is that; one
// that comes after all joins again.
func (c *Controller) dismiss(t *term, nobodys map[raft.ServerID]time.Duration) error {
	s := c.State()
	index, members := c.configuration(t.member.raft)
	still := map[raft.ServerID]time.Duration{}
	for _, m := range members {
		if b := s.Brokers[serverBroker(m.ID)]; m.Suffrage == raft.Voter || b != nil && b.RaftID == string(m.ID) {
			continue
		}
		still[m.ID] = t.clock()
		if since, ok := nobodys[m.ID]; ok {
			still[m.ID] = since
		}
	}
	clear(nobodys)
	maps.Copy(nobodys, still)
	for id, since := range nobodys {
		if t.clock()-since < nobodysGrace {
			continue
		}
		if err := t.acquire(t.ctx, t.change); err != nil {
			return err
		}
		err := within(changeTimeout, t.member.raft.RemoveServer(id, index, changeTimeout))
		<-t.change
		if err == nil {
			delete(nobodys, id)
			c.cfg.Logger.Info().Str("member", string(id)).Msg("a member that no broker is registered with left the quorum")
		}
		return err
	}
	return nil
}

// promote gives the vote to one member that has earned it, if there is one: its
// broker is a founder without a voter, alive, registered with it, and has all but
// the newest metadata.
func (c *Controller) promote(t *term) error {
	s := c.State()
	index, members := c.configuration(t.member.raft)
	voters := map[int32]bool{}
	for _, m := range members {
		if m.Suffrage == raft.Voter {
			voters[serverBroker(m.ID)] = true
		}
	}
	for _, m := range members {
		b := s.Brokers[serverBroker(m.ID)]
		if m.Suffrage == raft.Voter || b == nil || b.RaftID != string(m.ID) || voters[b.ID] || !s.isVoter(b.ID) ||
			!t.sessions.caughtUp(b, s.Index, t.clock()) {
			continue
		}
		if err := t.acquire(t.ctx, t.change); err != nil {
			return err
		}
		err := within(changeTimeout, t.member.raft.AddVoter(m.ID, raftAddress(b.URL, m.ID), index, changeTimeout))
		<-t.change
		if err == nil {
			c.noteAlone(t.member)
			c.cfg.Logger.Info().Int32("broker", b.ID).Str("member", string(m.ID)).Msg("a member got the vote of its former self")
		}
		return err
	}
	return nil
}

// caughtUp tells that the broker is alive and has nearly all metadata up to index.
func (s *sessions) caughtUp(b *Broker, index uint64, now time.Duration) bool {
	if !s.alive(b.ID, b.Epoch, now) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.brokers[b.ID].applied+closeBehind >= index
}
