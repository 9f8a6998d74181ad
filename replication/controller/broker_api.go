package controller

import (
	"context"

	"highwater/replication/wire"
)

// Connect makes this process a working member of the quorum: it founds it with
// the other initial voters, joins it, or comes back to it; then it waits until the
// metadata is as new as the quorum's. Nothing is registered yet (R66).
func (c *Controller) Connect(ctx context.Context) error { panic("") }

// Register registers this broker, fenced, as a new incarnation, and returns when
// the local State has it. Errors: *DuplicateBrokerError while another process of
// this id is alive (R67).
func (c *Controller) Register(ctx context.Context, r Registration) error { panic("") }

// Unfence lets this broker lead and be in sync: its partitions stand. It returns
// when the local State has it (R66).
func (c *Controller) Unfence(ctx context.Context) error { panic("") }

// BrokerEpoch is the epoch of this broker's registration, 0 before it (R3).
func (c *Controller) BrokerEpoch() int64 {
	if b := c.State().Brokers[c.cfg.NodeID]; b != nil {
		return b.Epoch
	}
	return 0
}

// SessionValid tells whether the quorum's leader can't have fenced this broker
// yet, by a clock that goes on while the machine sleeps (R59). A quorum of this
// broker alone is valid by its own state.
func (c *Controller) SessionValid() bool { return true }

// AlterPartitions asks the quorum for ISR changes of partitions that this broker
// leads, in one command; the answer has a result for each, in order (R43, R44).
// ErrNoController: nothing was proposed; after any other error nothing is known of
// any of them (R45). The local State has what was changed when it returns.
func (c *Controller) AlterPartitions(ctx context.Context, changes []wire.AlterPartition) ([]wire.AlterResult, error) {
	return nil, ErrNoController
}

// ControlledShutdown has the quorum move this broker's leaderships away and
// returns nil once it leads nothing and every other active broker knows that
// (R74), or when ctx ends with its error. Until then the broker serves on.
func (c *Controller) ControlledShutdown(ctx context.Context) error { panic("") }

// ServePropose and the methods after it answer a peer's request of that name.
func (c *Controller) ServePropose(ctx context.Context, req *wire.Propose) *wire.ProposeAnswer {
	panic("")
}

// ServeHeartbeat answers a broker's heartbeat.
func (c *Controller) ServeHeartbeat(ctx context.Context, req *wire.Heartbeat) *wire.HeartbeatAnswer {
	panic("")
}

// ServeJoin answers a broker that wants to be a member.
func (c *Controller) ServeJoin(ctx context.Context, req *wire.Join) *wire.JoinAnswer { panic("") }

// ServeFounding answers an initial voter that looks for the others.
func (c *Controller) ServeFounding(ctx context.Context, req *wire.Founding) *wire.Founding {
	panic("")
}

// AcceptRaft tells whether a connection that a peer wants for raft is meant for
// this member: its error, for people, says why not.
func (c *Controller) AcceptRaft(to RaftTarget) error { panic("") }
