package controller

import (
	"context"

	"highwater/replication/wire"
)

// BrokerEpoch is the epoch of this broker's registration, 0 before it.
func (c *Controller) BrokerEpoch() int64 {
	if b := c.State().Brokers[c.cfg.NodeID]; b != nil {
		return b.Epoch
	}
	return 0
}

// SessionValid tells that this broker can't have been fenced yet (R59): a quorum
// of one fences nobody.
func (c *Controller) SessionValid() bool { return true }

// AlterPartitions proposes new ISRs (R43). ErrNoController: nothing was proposed.
func (c *Controller) AlterPartitions(context.Context, []wire.AlterPartition) ([]wire.AlterResult, error) {
	return nil, ErrNoController
}
