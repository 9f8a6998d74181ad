package group

import (
	"context"
	"sync"
	"time"

	"highwater/replication/wire"
)

// fronts is what a coordinator keeps of the brokers that read for members of its
// groups: which polls of each there are, so that the one of whose group something
// changes is woken.
type fronts struct {
	mu   sync.Mutex // guards what follows
	byID map[int32]*front
}

// front is one of them.
type front struct {
	round  uint64                               // of beats
	groups map[string]map[wire.GroupPoll]uint64 // the round in which a poll was told last
	dirty  map[string]struct{}                  // groups of which something changed
	wake   chan struct{}                        // has a token when dirty isn't empty
}

func newFronts() *fronts { return &fronts{byID: map[int32]*front{}} }

// of is a front. Call it under mu.
func (f *fronts) of(id int32) *front {
	n := f.byID[id]
	if n == nil {
		n = &front{groups: map[string]map[wire.GroupPoll]uint64{}, dirty: map[string]struct{}{}, wake: make(chan struct{}, 1)}
		f.byID[id] = n
	}
	return n
}

// note notes a poll. Call it under mu.
func (n *front) note(group string, p wire.GroupPoll) {
	polls := n.groups[group]
	if polls == nil {
		polls = map[wire.GroupPoll]uint64{}
		n.groups[group] = polls
	}
	polls[p] = n.round
}

// begun notes a poll before its front has told of it.
func (f *fronts) begun(id int32, group, instance string, token uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of(id).note(group, wire.GroupPoll{Instance: instance, Token: token})
}

// ended forgets a poll.
func (f *fronts) ended(group, instance string, token uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.byID {
		delete(n.groups[group], wire.GroupPoll{Instance: instance, Token: token})
	}
}

// changed tells all fronts that have polls of a group to look at them.
func (f *fronts) changed(group string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.byID {
		if len(n.groups[group]) > 0 {
			n.dirty[group] = struct{}{}
			give(n.wake)
		}
	}
}

// beat takes over a front's list. A poll that isn't on it is forgotten, unless it was
// begun after the list before: the front may not have known yet.
func (f *fronts) beat(req *wire.GroupBeat) (wake <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.of(req.Front)
	n.round++
	for i := range req.Groups {
		for _, p := range req.Groups[i].Polls {
			n.note(req.Groups[i].Group, p)
		}
	}
	for group, polls := range n.groups {
		for p, round := range polls {
			if round+1 < n.round {
				delete(polls, p)
			}
		}
		if len(polls) == 0 {
			delete(n.groups, group)
		}
	}
	return n.wake
}

// take returns the polls of the groups of which something changed.
func (f *fronts) take(id int32) []wire.GroupPolls {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.of(id)
	var out []wire.GroupPolls
	for group := range n.dirty {
		g := wire.GroupPolls{Group: group}
		for p := range n.groups[group] {
			g.Polls = append(g.Polls, p)
		}
		out = append(out, g)
	}
	clear(n.dirty)
	return out
}

// maxBeatWait bounds how long a beat waits for news; a poll without beats is over
// after pollLife.
const maxBeatWait = time.Second

// ServeBeat takes the signs of life of another broker's polls, and waits until there
// is news for one of them.
func (g *Groups) ServeBeat(ctx context.Context, req *wire.GroupBeat) *wire.GroupBeatAnswer {
	answer := &wire.GroupBeatAnswer{Version: wire.Version}
	wake := g.fronts.beat(req)
	answer.Changed = g.fates(req.Groups, true)
	timer := time.NewTimer(min(time.Duration(req.MaxWaitMs)*time.Millisecond, maxBeatWait))
	defer timer.Stop()
	for len(answer.Changed) == 0 {
		select {
		case <-wake:
			answer.Changed = g.fates(g.fronts.take(req.Front), false)
		case <-timer.C:
			return answer
		case <-ctx.Done():
			return answer
		}
	}
	return answer
}

// fates finds the polls among these that have to look again. alive: it is a sign of
// life of all.
func (g *Groups) fates(groups []wire.GroupPolls, alive bool) []wire.GroupPolls {
	var out []wire.GroupPolls
	state := g.cfg.Metadata.State()
	for i := range groups {
		at, ok := g.locate(state, groups[i].Group)
		if !ok || at.leader != g.cfg.NodeID {
			continue // the front will hear of the coordinator of now
		}
		if s := g.shard(at.partition); s != nil {
			if changed := s.fates(&groups[i], alive); len(changed) > 0 {
				out = append(out, wire.GroupPolls{Group: groups[i].Group, Polls: changed})
			}
		}
	}
	return out
}

// fates is that for one group.
func (s *shard) fates(polls *wire.GroupPolls, alive bool) (changed []wire.GroupPoll) {
	select {
	case <-s.loaded:
	default:
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return nil
	}
	c := s.groups[polls.Group]
	now := time.Now()
	for _, p := range polls.Polls {
		f := pollOver
		switch {
		case c != nil && alive:
			f = c.state.beat(now, p.Instance, p.Token)
		case c != nil:
			f = c.state.poll(p.Instance, p.Token)
		}
		if f != pollGoesOn {
			changed = append(changed, p)
		}
	}
	return changed
}
