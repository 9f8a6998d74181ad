package peer

import (
	"context"
	"errors"
	"time"

	"highwater/replication"
	"highwater/replication/controller"
	"highwater/replication/group"
	"highwater/replication/wire"
)

var (
	_ replication.Peers  = (*Client)(nil)
	_ replication.Caller = (*Client)(nil)
	_ controller.Peers   = (*Client)(nil)
	_ group.Peers        = (*Client)(nil)
)

// Fetch sends a follower's long-poll.
func (c *Client) Fetch(ctx context.Context, url string, req *wire.FetchRequest, buf *[]byte) (*wire.FetchResponse, error) {
	res := &wire.FetchResponse{}
	if err := c.Call(ctx, url, wire.PathFetch, ms(int64(req.MaxWaitMs)), req, res, buf); err != nil {
		return nil, err
	}
	return res, nil
}

// Dedupe asks a leader for what its log doesn't tell any more.
func (c *Client) Dedupe(ctx context.Context, url string, req *wire.DedupeRequest) (*wire.DedupeAnswer, error) {
	res := &wire.DedupeAnswer{}
	if err := c.Call(ctx, url, wire.PathDedupe, exportWait, &wire.JSON[wire.DedupeRequest]{V: req}, res, nil); err != nil {
		return nil, err
	}
	return res, nil
}

// exportWait is how long a leader may take to read what it remembers: some 40 MB for a
// million ids.
const exportWait = 30 * time.Second

// LeaderEpoch tells a broker of newer leaders.
func (c *Client) LeaderEpoch(ctx context.Context, url string, notices *wire.LeaderEpochNotices) error {
	_, err := ask[wire.LeaderEpochNotices, wire.LeaderEpochAnswer](ctx, c, url, wire.PathLeaderEpoch, 0, notices)
	return err
}

// Propose asks the quorum's leader for a change.
func (c *Client) Propose(ctx context.Context, url string, req *wire.Propose) (*wire.ProposeAnswer, error) {
	return ask[wire.Propose, wire.ProposeAnswer](ctx, c, url, wire.PathPropose, ms(req.TimeoutMs), req)
}

// Heartbeat is a broker's sign of life.
func (c *Client) Heartbeat(ctx context.Context, url string, req *wire.Heartbeat) (*wire.HeartbeatAnswer, error) {
	return ask[wire.Heartbeat, wire.HeartbeatAnswer](ctx, c, url, wire.PathHeartbeat, 0, req)
}

// Join asks to become a member. A broker of another cluster refuses before it looks
// at the request; that is an answer, too.
func (c *Client) Join(ctx context.Context, url string, req *wire.Join) (*wire.JoinAnswer, error) {
	answer, err := ask[wire.Join, wire.JoinAnswer](ctx, c, url, wire.PathJoin, joinWait, req)
	if refused := (*RefusedError)(nil); errors.As(err, &refused) && refused.Code == wire.CodeClusterID {
		return &wire.JoinAnswer{Code: wire.CodeClusterID}, nil
	}
	return answer, err
}

// joinWait is how long a member may be in becoming one.
const joinWait = 20 * time.Second

// Founding speaks to another initial voter.
func (c *Client) Founding(ctx context.Context, url string, req *wire.Founding) (*wire.Founding, error) {
	return ask[wire.Founding, wire.Founding](ctx, c, url, wire.PathFounding, 0, req)
}

// GroupCall has a group's coordinator do a call.
func (c *Client) GroupCall(ctx context.Context, url string, req *wire.GroupCall) (*wire.GroupAnswer, error) {
	return ask[wire.GroupCall, wire.GroupAnswer](ctx, c, url, wire.PathGroupCall, ms(req.TimeoutMs), req)
}

// GroupBeat tells a coordinator of the polls under way here.
func (c *Client) GroupBeat(ctx context.Context, url string, req *wire.GroupBeat) (*wire.GroupBeatAnswer, error) {
	return ask[wire.GroupBeat, wire.GroupBeatAnswer](ctx, c, url, wire.PathGroupBeat, ms(req.MaxWaitMs), req)
}

// GroupList asks for the groups that a broker coordinates.
func (c *Client) GroupList(ctx context.Context, url string, req *wire.GroupList) (*wire.GroupListAnswer, error) {
	return ask[wire.GroupList, wire.GroupListAnswer](ctx, c, url, wire.PathGroupList, 0, req)
}

// ask calls with messages that are JSON.
func ask[Q, A any](ctx context.Context, c *Client, url, path string, wait time.Duration, req *Q) (*A, error) {
	res := &wire.JSON[A]{}
	if err := c.Call(ctx, url, path, wait, &wire.JSON[Q]{V: req}, res, nil); err != nil {
		return nil, err
	}
	return res.V, nil
}

// ms makes a Duration of milliseconds, within bounds.
func ms(n int64) time.Duration {
	return time.Duration(min(max(n, 0), int64(24*time.Hour/time.Millisecond))) * time.Millisecond
}
