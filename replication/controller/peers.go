package controller

import (
	"context"
	"net"
	"time"

	"highwater/replication/wire"
)

// Peers reaches the controllers of other brokers. url is a broker's advertised
// URL. An error that wraps wire.ErrNotSent says that nothing reached the peer;
// every other one leaves open whether it acted on the request. Answers come from
// the Serve method of the same name over there.
type Peers interface {
	Propose(ctx context.Context, url string, req *wire.Propose) (*wire.ProposeAnswer, error)
	Heartbeat(ctx context.Context, url string, req *wire.Heartbeat) (*wire.HeartbeatAnswer, error)
	Join(ctx context.Context, url string, req *wire.Join) (*wire.JoinAnswer, error)
	Founding(ctx context.Context, url string, req *wire.Founding) (*wire.Founding, error)
}

// RaftTarget is whom a connection of raft is meant for. All of it goes along when
// the connection is made, and the other side holds it against itself (AcceptRaft).
type RaftTarget struct {
	URL       string // the broker's advertised URL
	Server    string // its server id in the quorum
	ClusterID string // empty as long as the caller knows none
}

// StreamLayer carries raft's connections over the brokers' one port (K3). Accept
// returns those that peers made and that AcceptRaft let in; Addr isn't asked.
type StreamLayer interface {
	net.Listener
	Dial(to RaftTarget, timeout time.Duration) (net.Conn, error)
}
