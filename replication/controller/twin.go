package controller

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// twinCall bounds the question whether this member is at work elsewhere. A broker that
// can't reach the address that it has told others waits so long at each start.
const twinCall = time.Second

// seekTwin looks, before raft starts, for another process that works with a copy of
// this directory: as a *DuplicateBrokerError. The other members can't tell the two
// apart, so that both would vote, and a copy of the quorum's leader would be elected
// next to it (F34, K9). It is asked for where this member is to be reached, where
// nobody of this process answers yet, and where it was when it last started: a twin
// that can't be reached is not found.
func (c *Controller) seekTwin() error {
	if c.cfg.Peers == nil {
		return nil
	}
	urls := []string{c.cfg.URL}
	if c.dir.URL != "" && c.dir.URL != c.cfg.URL {
		urls = append(urls, c.dir.URL)
	}
	ctx, cancel := context.WithTimeout(context.Background(), twinCall)
	defer cancel()
	found := make([]bool, len(urls))
	var asking sync.WaitGroup
	for i, url := range urls {
		asking.Go(func() {
			answer, err := c.cfg.Peers.Founding(ctx, url, c.foundingView())
			found[i] = err == nil && answer.Self.Broker == c.cfg.NodeID && answer.Self.Server == c.dir.ServerID
		})
	}
	asking.Wait()
	for i, url := range urls {
		if found[i] {
			return fmt.Errorf("%w. It answers at %s, and works with a copy of %s, or this is the copy: a broker needs a data directory of its own",
				&DuplicateBrokerError{Broker: c.cfg.NodeID}, url, c.cfg.Dir)
		}
	}
	return nil
}

// noteURL writes down where this member is from now on.
func (c *Controller) noteURL() error {
	if c.dir.URL == c.cfg.URL {
		return nil
	}
	c.dir.URL = c.cfg.URL
	return c.dir.writeIdentity()
}
