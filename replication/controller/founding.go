package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"highwater/replication/wire"
)

// A quorum of several is founded by the voters of one --cluster list, and not by
// chance twice (K6):
//
//  1. Each asks all others who they are. A server id is drawn with the directory.
//  2. Who knows all ids writes the full list down: its pledge. It shows it from
//     then on, and founds a quorum with no other list.
//  3. Who has seen the same pledge from every other voter since it made its own
//     writes the list as raft's first configuration and is a member.
//
// So no list can be founded that one of its voters doesn't stand to, and every
// step may be interrupted and done again. A pledge is made anew only while a voter
// of it has turned out to be another (its directory is new) and no other voter
// has founded by it: were it founded, that would have taken this one's pledge.
// Who meets a member of a quorum that was founded without it lost its directory,
// and must not vote as the one that it was (K9, F71).

const (
	// foundingInterval is how often a voter looks for the others.
	foundingInterval = 100 * time.Millisecond
	// foundingCall bounds one question to another voter.
	foundingCall = 2 * time.Second
	// foundingNotice is how often the log says whom a voter still waits for.
	foundingNotice = 10 * time.Second
)

// self is this member as a voter.
func (c *Controller) self() wire.FoundingVoter {
	return wire.FoundingVoter{Broker: c.cfg.NodeID, Server: c.dir.ServerID, URL: c.cfg.URL}
}

// clusterID makes the cluster's id from its founders, so that all of them know it
// at once; their ids were drawn at random.
func clusterID(pledge []wire.FoundingVoter) string {
	var all []byte
	for _, v := range pledge {
		all = append(all, v.Server[:]...)
	}
	return uuid.NewSHA1(uuid.NameSpaceURL, all).String()
}

// samePledge compares who the voters are. Their URLs may change.
func samePledge(a, b []wire.FoundingVoter) bool {
	return slices.EqualFunc(a, b, func(v, w wire.FoundingVoter) bool { return v.Broker == w.Broker && v.Server == w.Server })
}

// found returns when this voter is a member of the quorum, founded with all
// others of the list. A voter that lost its directory is a *DirError.
func (c *Controller) found(ctx context.Context) error {
	ticker := time.NewTicker(foundingInterval)
	defer ticker.Stop()
	var noticed time.Time
	for {
		answers, missing := c.askFounders(ctx)
		done, err := c.foundStep(answers)
		if done || err != nil {
			return err
		}
		if len(missing) > 0 && time.Since(noticed) >= foundingNotice {
			noticed = time.Now()
			c.cfg.Logger.Info().Str("missing", strings.Join(missing, "; ")).Msg("founding the cluster: waiting for the other voters")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: the voters of the new cluster have not all been here: %s", ErrNoController, strings.Join(missing, "; "))
		case <-c.failed:
			return c.failure()
		case <-ticker.C:
		}
	}
}

// askFounders asks all other voters of the list at once who they are. missing
// tells, for people, of those that gave no usable answer.
func (c *Controller) askFounders(ctx context.Context) (answers map[int32]*wire.Founding, missing []string) {
	type got struct {
		id     int32
		answer *wire.Founding
		err    error
	}
	results := make(chan got, len(c.cfg.Cluster))
	ctx, cancel := context.WithTimeout(ctx, foundingCall)
	defer cancel()
	asked := 0
	for id, url := range c.cfg.Cluster {
		if id == c.cfg.NodeID {
			continue
		}
		asked++
		go func() { // ends with ctx at the latest; this function waits for it
			answer, err := c.cfg.Peers.Founding(ctx, url, c.foundingView())
			results <- got{id, answer, err}
		}()
	}
	answers = map[int32]*wire.Founding{}
	for range asked {
		r := <-results
		switch {
		case r.err != nil:
			missing = append(missing, fmt.Sprintf("broker %d at %s: %v", r.id, c.cfg.Cluster[r.id], r.err))
		case r.answer.Code != wire.OK || r.answer.Version != wire.Version:
			missing = append(missing, fmt.Sprintf("broker %d at %s: %s", r.id, c.cfg.Cluster[r.id], r.answer.Code))
		case r.answer.Self.Broker != r.id:
			missing = append(missing, fmt.Sprintf("at %s is broker %d, not broker %d", c.cfg.Cluster[r.id], r.answer.Self.Broker, r.id))
		case !r.answer.Founded && !maps.Equal(r.answer.Cluster, c.cfg.Cluster):
			missing = append(missing, fmt.Sprintf("broker %d was started with another --cluster list: %v", r.id, r.answer.Cluster))
		default:
			answers[r.id] = r.answer
		}
	}
	slices.Sort(missing)
	return answers, missing
}

// foundStep does what the answers allow; done: this is a member now.
func (c *Controller) foundStep(answers map[int32]*wire.Founding) (done bool, err error) {
	c.foundingMu.Lock()
	defer c.foundingMu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(answers)) {
		if a := answers[id]; a.Founded {
			return c.meetFounded(a)
		}
	}
	if len(answers) != len(c.cfg.Cluster)-1 {
		return false, nil
	}
	list := []wire.FoundingVoter{c.self()}
	for _, a := range answers {
		list = append(list, a.Self)
	}
	slices.SortFunc(list, func(a, b wire.FoundingVoter) int { return int(a.Broker) - int(b.Broker) })
	if !samePledge(list, c.dir.Pledge) {
		// The answers came before this pledge: they don't count for it.
		c.dir.Pledge = list
		return false, c.dir.writeIdentity()
	}
	for _, a := range answers {
		if !samePledge(a.Pledge, c.dir.Pledge) {
			return false, nil
		}
	}
	return true, c.begin()
}

// meetFounded is what a voter does about one that is a member already: its own
// founding was interrupted, or it was founded without it.
func (c *Controller) meetFounded(a *wire.Founding) (done bool, err error) {
	if slices.ContainsFunc(a.Pledge, func(v wire.FoundingVoter) bool { return v.Broker == c.cfg.NodeID && v.Server == c.dir.ServerID }) {
		c.dir.Pledge = a.Pledge
		return true, c.begin()
	}
	if len(a.Pledge) == 0 && len(c.dir.Pledge) > 0 {
		return false, nil // it joined later and doesn't know who founded it
	}
	return false, &DirError{Dir: c.cfg.Dir,
		Reason: fmt.Sprintf("broker %d at %s belongs to cluster %s, which this directory was never a member of: either broker %d is new to it, or its directory is gone",
			a.Self.Broker, a.Self.URL, a.ClusterID, c.cfg.NodeID),
		Fix: fmt.Sprintf("Start it once with --join %s (and leave the partitions, if there are any, where they are): it joins as a new member, and takes the place of a broker %d that is gone.",
			a.Self.URL, c.cfg.NodeID)}
}

// begin makes this a member and starts raft. c.foundingMu is held when others are
// asked for.
func (c *Controller) begin() error {
	file, err := c.dir.openStore()
	if err != nil {
		return err
	}
	m, err := c.startRaft(file)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	c.setCluster(c.dir.ClusterID)
	c.member.Store(m)
	c.followers.Add(1)
	go func() { defer c.followers.Done(); c.supervise(m) }()
	return nil
}

// foundingView is what this voter says of itself.
func (c *Controller) foundingView() *wire.Founding {
	c.foundingMu.Lock()
	defer c.foundingMu.Unlock()
	return &wire.Founding{Version: wire.Version, Self: c.self(), Cluster: c.cfg.Cluster, Pledge: c.dir.Pledge,
		Founded: c.dir.Founded, ClusterID: c.ClusterID()}
}

// ServeFounding answers an initial voter that looks for the others.
func (c *Controller) ServeFounding(_ context.Context, req *wire.Founding) *wire.Founding {
	if req.Version != wire.Version {
		return &wire.Founding{Version: wire.Version, Code: wire.CodeVersion}
	}
	return c.foundingView()
}
