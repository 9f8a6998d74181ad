package group

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"highwater/replication/controller"
	"highwater/replication/wire"
)

// movedGrace is how long a coordinator that isn't it any more may still answer: it may
// have, and the answer be on its way. One that is frozen never does.
const movedGrace = 250 * time.Millisecond

// there has another broker do a call.
func (g *Groups) there(ctx context.Context, at coordinator, call *Call) (*Answer, error) {
	text, err := json.Marshal(call)
	if err != nil {
		return nil, fmt.Errorf("group: %w", err)
	}
	deadline, _ := ctx.Deadline() // do has set one
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() { g.whileCoordinator(ctx, call.Group, at, cancel) })
	res, err := g.send(ctx, at.url, text, deadline)
	switch {
	case errors.Is(err, wire.ErrNotSent):
		return nil, fmt.Errorf("%w: %w", ErrNoCoordinator, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	case res.Late:
		return nil, fmt.Errorf("%w: the call came late", ErrNoCoordinator)
	case res.Error != nil:
		return nil, g.decodeError(res.Error)
	}
	answer := &Answer{}
	if err := json.Unmarshal(res.Answer, answer); err != nil {
		return nil, fmt.Errorf("%w: %w: %w", ErrUnknownOutcome, wire.ErrMalformed, err)
	}
	return answer, nil
}

// send has a coordinator do a call by the deadline, after which it isn't done any more.
func (g *Groups) send(ctx context.Context, url string, call []byte, deadline time.Time) (*wire.GroupAnswer, error) {
	for again := false; ; again = true {
		req := &wire.GroupCall{Version: wire.Version, TimeoutMs: max(time.Until(deadline).Milliseconds(), 1), Clock: g.clocks.of(url), Call: call}
		res, err := g.cfg.Peers.GroupCall(ctx, url, req)
		if err != nil {
			return nil, err
		}
		g.clocks.heard(url, res.Clock)
		if !res.Late || again {
			return res, nil
		}
	}
}

// whileCoordinator gives up, a moment after the metadata names another coordinator,
// until ctx ends.
func (g *Groups) whileCoordinator(ctx context.Context, group string, at coordinator, giveUp func()) {
	for {
		changed := g.cfg.Metadata.Changed()
		if now, ok := g.locate(g.cfg.Metadata.State(), group); ok && (now.leader != at.leader || now.epoch != at.epoch) {
			pause(ctx, movedGrace)
			giveUp()
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// ServeCall does a call for another broker. It is never sent on: what this broker
// doesn't coordinate is ErrNoCoordinator.
func (g *Groups) ServeCall(ctx context.Context, req *wire.GroupCall) *wire.GroupAnswer {
	most := time.Duration(min(max(req.TimeoutMs, 0), maxDoTime.Milliseconds())) * time.Millisecond
	left := g.clock.left(req.Clock, most)
	if left <= 0 {
		return &wire.GroupAnswer{Version: wire.Version, Clock: g.clock.now(), Late: true}
	}
	late := time.Now().Add(left)
	ctx, cancel := context.WithDeadline(ctx, late)
	defer cancel()
	answer, err := g.serveCall(ctx, req, late)
	res := &wire.GroupAnswer{Version: wire.Version, Clock: g.clock.now()}
	if err == nil {
		res.Answer, err = json.Marshal(answer)
	}
	if err != nil {
		res.Error = g.encodeError(err)
	}
	return res
}

func (g *Groups) serveCall(ctx context.Context, req *wire.GroupCall, late time.Time) (*Answer, error) {
	call := &Call{late: late}
	if err := json.Unmarshal(req.Call, call); err != nil {
		return nil, fmt.Errorf("%w: %w", wire.ErrMalformed, err)
	}
	at, ok := g.locate(g.cfg.Metadata.State(), call.Group)
	if !ok {
		return nil, ErrNoCoordinator
	}
	return g.here(ctx, at.partition, call)
}

// Listing is one group in a list.
type Listing struct {
	Group       string `json:"group"`
	State       string `json:"state"`
	Members     int    `json:"members"`
	Coordinator int32  `json:"coordinator"`
}

// List asks all coordinators for their groups, by name. Errors: ErrNoCoordinator.
func (g *Groups) List(ctx context.Context) ([]Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, maxDoTime)
	defer cancel()
	if _, ok := g.cfg.Metadata.State().Topic(Topic); !ok { // the first group may be a moment old
		if err := g.cfg.Metadata.Newest(ctx); err != nil {
			return nil, &noAnswerError{err}
		}
	}
	wait := firstRetry
	for {
		changed := g.cfg.Metadata.Changed()
		all, err := g.listOnce(ctx)
		if err == nil {
			slices.SortFunc(all, func(a, b Listing) int { return strings.Compare(a.Group, b.Group) })
			return all, nil
		}
		if !g.retry(ctx, wait, changed) {
			return nil, &noAnswerError{err}
		}
		wait = min(2*wait, lastRetry)
	}
}

// listOnce asks each coordinator once.
func (g *Groups) listOnce(ctx context.Context) ([]Listing, error) {
	s := g.cfg.Metadata.State()
	t, ok := s.Topic(Topic)
	if !ok {
		return nil, nil
	}
	leaders := map[int32][]int32{}
	for i := range t.Partitions {
		leaders[t.Partitions[i].Leader] = append(leaders[t.Partitions[i].Leader], int32(i))
	}
	var mu sync.Mutex // guards all and failed
	var all []Listing
	var failed error
	var asked sync.WaitGroup
	for leader, partitions := range leaders {
		asked.Go(func() {
			groups, err := g.listAt(ctx, s, leader, partitions)
			mu.Lock()
			defer mu.Unlock()
			all, failed = append(all, groups...), errors.Join(failed, err)
		})
	}
	asked.Wait()
	return all, failed
}

// listAt asks one broker for the groups of the partitions that it leads.
func (g *Groups) listAt(ctx context.Context, s *controller.State, leader int32, partitions []int32) ([]Listing, error) {
	if leader == g.cfg.NodeID {
		return g.listHere(ctx, partitions)
	}
	b := s.Brokers[leader]
	if b == nil || g.cfg.Peers == nil {
		return nil, ErrNoCoordinator
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	res, err := g.cfg.Peers.GroupList(ctx, b.URL, &wire.GroupList{Version: wire.Version, Partitions: partitions})
	switch {
	case err != nil:
		return nil, err
	case res.Error != nil:
		return nil, g.decodeError(res.Error)
	}
	var groups []Listing
	if err := json.Unmarshal(res.Groups, &groups); err != nil {
		return nil, fmt.Errorf("%w: %w", wire.ErrMalformed, err)
	}
	return groups, nil
}

// listTimeout is how long one coordinator may take to list its groups: it may be
// frozen, and be replaced meanwhile.
const listTimeout = 3 * time.Second

// listHere lists the groups of partitions that this broker leads.
func (g *Groups) listHere(ctx context.Context, partitions []int32) ([]Listing, error) {
	out := []Listing{}
	for _, num := range partitions {
		s := g.shard(num)
		if s == nil {
			return nil, ErrNoCoordinator
		}
		groups, err := s.list(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, groups...)
	}
	return out, nil
}

// ServeList lists this broker's groups for another one.
func (g *Groups) ServeList(ctx context.Context, req *wire.GroupList) *wire.GroupListAnswer {
	res := &wire.GroupListAnswer{Version: wire.Version}
	groups, err := g.listHere(ctx, req.Partitions)
	if err == nil {
		res.Groups, err = json.Marshal(groups)
	}
	if err != nil {
		res.Error = g.encodeError(err)
	}
	return res
}

// list lists the shard's groups.
func (s *shard) list(ctx context.Context) ([]Listing, error) {
	if err := s.awaitLoaded(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	groups, st := s.listings(), step{last: s.decided}
	s.mu.Unlock()
	if err := s.awaitCommitted(ctx, &st); err != nil {
		return nil, err
	}
	return groups, s.g.cfg.Log.Leads(s.num, s.epoch)
}

// listings is the groups as they are. Call it under mu.
func (s *shard) listings() []Listing {
	out := make([]Listing, 0, len(s.groups))
	for _, c := range s.groups {
		if c.state.exists() {
			l := c.state.listing()
			l.Coordinator = s.g.cfg.NodeID
			out = append(out, l)
		}
	}
	return out
}
