package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"

	"highwater/replication/wire"
)

const (
	// joinInterval is how often a member that no leader has reached says where it
	// is, or that it wants to be one.
	joinInterval = 500 * time.Millisecond
	// joinCall bounds one such request: the leader waits for the quorum.
	joinCall = 5 * time.Second
	// joinNotice is how long a member may be kept waiting before it says why: others
	// that start with it take about as long.
	joinNotice = time.Second
	// duplicateGrace is how many session timeouts a member waits for another
	// process of its id to turn out dead.
	duplicateGrace = 3
)

// Connect makes this process a working member of the quorum: it founds it with
// the other initial voters, joins it, or comes back to it; then it waits until the
// metadata is as new as the quorum's. Nothing is registered yet (R66).
// Errors: *DirError, *DuplicateBrokerError, *IncompatibleError, ErrStoreFailed;
// ErrNoController when ctx ended first.
func (c *Controller) Connect(ctx context.Context) error {
	if c.member.Load() == nil {
		if err := c.found(ctx); err != nil {
			return err
		}
		c.cfg.Logger.Info().Str("cluster_id", c.ClusterID()).Int("voters", len(c.dir.Pledge)).Msg("the cluster is founded")
	}
	joined := make(chan error, 1)
	joinCtx, cancel := context.WithCancel(ctx)
	var joining sync.WaitGroup
	joining.Go(func() { joined <- c.keepJoining(joinCtx) })
	err := c.catchUp(ctx, joined)
	cancel()
	joining.Wait()
	if err != nil {
		return err
	}
	c.started()
	if s := c.State(); s.Incompatible != 0 {
		return &IncompatibleError{Index: s.Incompatible, Reason: "unknown to this version"}
	}
	c.setCluster(c.State().ClusterID)
	return nil
}

// catchUp waits until this member has applied all that the quorum had agreed on
// when it was asked, at least the cluster's id.
func (c *Controller) catchUp(ctx context.Context, joined <-chan error) error {
	for {
		changed, founded := c.watchLeader(), c.Changed()
		index, err := c.fence(ctx)
		if err == nil {
			if err = c.waitApplied(ctx, index); err == nil && c.State().ClusterID != "" {
				return nil
			}
		}
		if err != nil {
			founded = nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrNoController, ctx.Err())
		case <-c.failed:
			return c.failure()
		case err := <-joined: // it gave up
			if err == nil {
				err = fmt.Errorf("%w: %w", ErrNoController, ctx.Err())
			}
			return err
		case <-changed:
		case <-founded: // the first entry, perhaps
		case <-time.After(joinInterval):
		}
	}
}

// keepJoining asks, until ctx ends, to be a member, or tells where this member is
// now, as long as no leader reaches it. Its error is final.
func (c *Controller) keepJoining(ctx context.Context) error {
	if c.cfg.Peers == nil {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(joinInterval)
	defer ticker.Stop()
	var refused, told time.Time
	notice := time.Now().Add(joinNotice)
	for {
		if id, _ := c.leader(); id == NoLeader || !c.isMember() {
			err := c.joinOnce(ctx)
			told = c.unreached(err, told)
			duplicate := (*DuplicateBrokerError)(nil)
			switch {
			case err == nil || ctx.Err() != nil:
				refused = time.Time{}
			case errors.As(err, &duplicate):
				if refused.IsZero() {
					refused = time.Now()
				}
				if time.Since(refused) > duplicateGrace*c.cfg.SessionTimeout {
					return err
				}
			case errors.As(err, new(*DirError)):
				return err
			}
			if err != nil && ctx.Err() == nil && time.Now().After(notice) {
				notice = time.Now().Add(foundingNotice)
				c.cfg.Logger.Info().Err(err).Msg("waiting to be a member of the quorum")
			}
		} else {
			told = time.Time{}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// unreached says, once the quorum has long been told where this member is, that its
// leader doesn't reach it there: nothing else would tell why this broker doesn't
// start. err is that of the newest telling; told is when the first one of a row of
// them was, and is returned.
func (c *Controller) unreached(err error, told time.Time) time.Time {
	switch {
	case err != nil:
		return time.Time{}
	case told.IsZero():
		return time.Now()
	case time.Since(told) < foundingNotice:
		return told
	}
	c.cfg.Logger.Warn().Str("url", c.cfg.URL).Msg("the metadata quorum knows of this broker, and its leader doesn't reach it at this URL: does it listen there (--listen, --advertise-url, --cluster)?")
	return time.Now()
}

// isMember tells whether this member is in the quorum's newest configuration that
// it knows.
func (c *Controller) isMember() bool {
	m := c.member.Load()
	return m != nil && slices.ContainsFunc(servers(m.raft), func(s raft.Server) bool { return s.ID == c.dir.server() })
}

// joinOnce asks every broker it knows, and whom they name, until one says yes.
func (c *Controller) joinOnce(ctx context.Context) error {
	req := &wire.Join{Version: wire.Version, ClusterID: c.ClusterID(), Broker: c.cfg.NodeID, Server: c.dir.ServerID, URL: c.cfg.URL}
	urls := c.otherURLs()
	var errs []error
	var foreign []string // URLs of brokers of another cluster
	for i := 0; i < len(urls); i++ {
		call, cancel := context.WithTimeout(ctx, joinCall)
		answer, err := c.cfg.Peers.Join(call, urls[i], req)
		cancel()
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", urls[i], err))
		case answer.Code == wire.OK:
			return c.rememberCluster(answer.ClusterID)
		case answer.Code == wire.CodeDuplicateBroker:
			return &DuplicateBrokerError{Broker: c.cfg.NodeID}
		case answer.Code == wire.CodeClusterID:
			foreign = append(foreign, urls[i])
			errs = append(errs, fmt.Errorf("%s belongs to another cluster", urls[i]))
		default:
			errs = append(errs, fmt.Errorf("%s: %s %s", urls[i], answer.Code, answer.Detail))
			if answer.LeaderURL != "" && answer.LeaderURL != c.cfg.URL && !slices.Contains(urls, answer.LeaderURL) {
				urls = append(urls, answer.LeaderURL)
			}
		}
	}
	// F37. One that nobody names may be at a port that was ours; those of --join are meant.
	named := len(c.cfg.Join) > 0 && !slices.ContainsFunc(c.cfg.Join, func(url string) bool { return !slices.Contains(foreign, url) })
	if len(foreign) > 0 && (named || len(foreign) == len(urls)) {
		return &DirError{Dir: c.cfg.Dir, Reason: fmt.Sprintf("it belongs to cluster %s, but the brokers at %s to another one", c.ClusterID(), strings.Join(foreign, " and ")),
			Fix: "Name brokers of its own cluster, or start with another data directory."}
	}
	return errors.Join(errs...)
}

// rememberCluster writes down which cluster this member joined.
func (c *Controller) rememberCluster(id string) error {
	if id == "" || c.ClusterID() == id {
		return nil
	}
	c.foundingMu.Lock()
	defer c.foundingMu.Unlock()
	c.dir.ClusterID = id
	if err := c.dir.writeIdentity(); err != nil {
		return err
	}
	c.setCluster(id)
	return nil
}

// otherURLs lists where other brokers may be: those of the settings, those that
// registered, those of the quorum's configuration.
func (c *Controller) otherURLs() []string {
	var urls []string
	add := func(url string) {
		if url != "" && url != c.cfg.URL && !slices.Contains(urls, url) {
			urls = append(urls, url)
		}
	}
	if _, url := c.leader(); url != "" {
		add(url)
	}
	for _, url := range c.cfg.Join {
		add(url)
	}
	s := c.State()
	for _, id := range s.BrokerIDs() {
		if id != c.cfg.NodeID {
			add(s.Brokers[id].URL)
		}
	}
	for id, url := range c.cfg.Cluster {
		if id != c.cfg.NodeID {
			add(url)
		}
	}
	if m := c.member.Load(); m != nil {
		for _, member := range servers(m.raft) { // where they were when they became members
			if member.ID != c.dir.server() {
				url, _ := splitRaftAddress(member.Address)
				add(url)
			}
		}
	}
	return urls
}

// Start is Connect and Register of a broker that has nothing on disk, or whose
// partitions are its alone.
func (c *Controller) Start(ctx context.Context) error {
	if err := c.Connect(ctx); err != nil {
		return err
	}
	return c.Register(ctx, Registration{})
}

// Register registers this broker, fenced, as a new incarnation, and returns when
// the local State has it. Errors: *DuplicateBrokerError while another process of
// this id is alive (R67); it is waited for as long as a dead one may seem alive.
func (c *Controller) Register(ctx context.Context, r Registration) error {
	cmd := &RegisterBroker{ID: c.cfg.NodeID, Incarnation: uuid.New(), URL: c.cfg.URL, Version: c.cfg.Version,
		RaftID: string(c.dir.server()), MinProtocol: c.cfg.MinProtocol, MaxProtocol: c.cfg.MaxProtocol, Data: r}
	began := time.Now()
	for {
		res, err := c.propose(ctx, cmd)
		if errors.Is(err, ErrOutcomeUnknown) {
			if b := c.State().Brokers[c.cfg.NodeID]; b != nil && b.Incarnation == cmd.Incarnation {
				res, err = b, nil
			} else if ctx.Err() == nil {
				continue // the same incarnation again changes nothing
			}
		}
		if err == nil {
			c.registered(res.(*Broker))
			return nil
		}
		if duplicate := (*DuplicateBrokerError)(nil); !errors.As(err, &duplicate) || time.Since(began) > duplicateGrace*c.cfg.SessionTimeout {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-c.failed:
			return c.failure()
		case <-time.After(c.heartbeatInterval()):
		}
	}
}

// registered takes up the life that the registration began.
func (c *Controller) registered(b *Broker) {
	c.epoch.Store(b.Epoch)
	c.cfg.Logger.Info().Int64("broker_epoch", b.Epoch).Msg("registered")
	close(c.alive)
}

// BrokerEpoch is the epoch of this broker's registration, 0 before it (R3).
func (c *Controller) BrokerEpoch() int64 { return c.epoch.Load() }
