package controller

import (
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// supervise follows raft: who leads, and whether its file is whole. It alone
// writes c.term, and after begin it alone replaces c.member.
func (c *Controller) supervise(m *member) {
	defer c.endTerm()
	ticker := time.NewTicker(resync)
	defer ticker.Stop()
	storeFailed := m.store.failed
	for {
		select {
		case <-c.stop:
			return
		case gained := <-m.raft.LeaderCh(): // the newest change only: a slow barrier doesn't block raft (K12)
			c.turn(m, gained)
		case <-m.leaders:
			c.notifyLeader()
		case <-ticker.C:
			if leads := m.raft.State() == raft.Leader; leads != (c.leading() != nil) {
				c.turn(m, leads) // H48
			}
		case <-storeFailed:
			storeFailed = nil
			c.fail(m.store.Err())
		case <-m.store.overtaken:
			next, err := c.restartRaft(m)
			if err != nil {
				c.fail(err)
				return
			}
			m, storeFailed = next, next.store.failed
		}
		c.noteAlone(m)
	}
}

// turn begins a term or ends it. Two changes seen as one are a new term all the
// same: what the former one remembered is void.
func (c *Controller) turn(m *member, leads bool) {
	c.endTerm()
	if leads && c.barrier(m) {
		t := c.newTerm(m)
		c.mu.Lock()
		c.term = t
		c.mu.Unlock()
		c.counted.terms.Add(1)
		c.cfg.Logger.Info().Uint64("term", m.raft.CurrentTerm()).Msg("this broker leads the quorum")
		c.followers.Add(1) // this goroutine is one of them
		go func() { defer c.followers.Done(); c.lead(t) }()
	}
	c.notifyLeader()
}

// barrier waits until all is applied that former leaders committed: decisions need
// it. It tells whether this member still leads then.
func (c *Controller) barrier(m *member) bool {
	select {
	case err := <-m.ask(func() raft.Future { return m.raft.Barrier(0) }):
		return err == nil
	case <-c.stop:
		return false
	}
}

func (c *Controller) endTerm() {
	c.mu.Lock()
	t := c.term
	c.term = nil
	c.mu.Unlock()
	if t != nil {
		t.cancel()
		c.cfg.Logger.Info().Msg("this broker leads the quorum no more")
	}
}

// leading is this member's term, nil when it doesn't lead.
func (c *Controller) leading() *term {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.term
}

// watchLeader returns a channel that is closed when the leader may be another one.
func (c *Controller) watchLeader() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

func (c *Controller) notifyLeader() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
}

// noteAlone keeps c.alone.
func (c *Controller) noteAlone(m *member) {
	voters := 0
	self := false
	for _, s := range servers(m.raft) {
		if s.Suffrage == raft.Voter {
			voters++
			self = self || s.ID == c.dir.server()
		}
	}
	c.alone.Store(voters == 1 && self && c.leading() != nil)
}

// restartRaft starts raft again over its file, whose log a leader's snapshot
// overtook (latchedStore.DeleteRange).
func (c *Controller) restartRaft(m *member) (*member, error) {
	c.counted.restarts.Add(1)
	c.cfg.Logger.Warn().Msg("the quorum's log and this member's had parted; it goes on from the leader's snapshot")
	if err := m.end(); err != nil {
		return nil, err
	}
	next, err := c.startRaft(m.store.raftStore)
	if err != nil {
		return nil, err
	}
	c.member.Store(next)
	c.notifyLeader()
	return next, nil
}

// leader tells which broker leads the quorum, and its URL, as far as this member
// knows: NoLeader and nothing otherwise.
func (c *Controller) leader() (broker int32, url string) {
	m := c.member.Load()
	if m == nil {
		return NoLeader, ""
	}
	address, id := m.raft.LeaderWithID()
	if id == "" {
		return NoLeader, ""
	}
	url, _ = splitRaftAddress(address) // it comes from the leader itself
	return serverBroker(id), url
}

// QuorumInfo is what /cluster says about the quorum.
type QuorumInfo struct {
	Leader int32 // the broker; NoLeader: none
	Term   uint64
	Voters []int32 // brokers, in order
}

// Quorum describes the raft quorum as this member sees it.
func (c *Controller) Quorum() QuorumInfo {
	info := QuorumInfo{Leader: NoLeader}
	m := c.member.Load()
	if m == nil {
		return info
	}
	info.Leader, _ = c.leader()
	info.Term = m.raft.CurrentTerm()
	for _, s := range servers(m.raft) {
		if s.Suffrage == raft.Voter {
			info.Voters = append(info.Voters, serverBroker(s.ID))
		}
	}
	slices.Sort(info.Voters)
	return info
}
