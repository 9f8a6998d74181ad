package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"highwater/replication/wire"
)

const (
	// enqueueTimeout bounds how long a proposal waits for raft to take it.
	enqueueTimeout = 5 * time.Second
	// proposeTimeout bounds a whole proposal when the caller set no deadline.
	proposeTimeout = 15 * time.Second
	// leaderPoll is how often a proposal looks for a leader that no event told of.
	leaderPoll = 50 * time.Millisecond
)

// propose has the quorum agree on a command, wherever its leader is, and returns
// what applying it gave, once the local State has it. It goes on until ctx ends
// as long as the command was provably not proposed: ErrNoController. Then and
// only then sending it again is safe by itself. ErrOutcomeUnknown: it was
// proposed, and then lost sight of (K12). All else is the state machine's answer.
func (c *Controller) propose(ctx context.Context, cmd Command) (any, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	var hint string // the leader's URL, from an answer
	for {
		changed := c.watchLeader()
		result, err := c.proposeOnce(ctx, cmd, &hint)
		if !errors.Is(err, ErrNoController) {
			return result, err
		}
		if hint != "" {
			continue
		}
		if ended := c.awaitLeader(ctx, changed); ended != nil {
			return nil, fmt.Errorf("%w (%w)", err, ended)
		}
	}
}

// bounded gives a proposal a deadline, if the caller didn't.
func (c *Controller) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, proposeTimeout)
}

// awaitLeader waits for news of the leader, or a moment. Its error: there is no
// point in waiting on.
func (c *Controller) awaitLeader(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.failed:
		return c.failure()
	case <-c.stop:
		return errClosed
	case <-changed:
		return nil
	case <-time.After(leaderPoll):
		return nil
	}
}

// proposeOnce tries the leader that is known now: *hint if it is set, which it
// consumes and may set anew.
func (c *Controller) proposeOnce(ctx context.Context, cmd Command, hint *string) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoController, err)
	}
	url := *hint
	*hint = ""
	if t := c.leading(); t != nil {
		result, _, err := c.apply(ctx, t, cmd)
		return result, err
	}
	if url == "" {
		_, url = c.leader()
	}
	if url == "" || url == c.cfg.URL || c.cfg.Peers == nil {
		return nil, ErrNoController
	}
	answer, err := c.forward(ctx, url, encode(cmd))
	if err != nil {
		return nil, err
	}
	if answer.Code == wire.CodeNotController {
		if answer.LeaderURL != url && answer.LeaderURL != c.cfg.URL {
			*hint = answer.LeaderURL
		}
		return nil, fmt.Errorf("%w: %s does not lead", ErrNoController, url)
	}
	// What came of it is known whether or not this member gets to see it in time.
	_ = c.waitApplied(ctx, answer.Index)
	return decodeOutcome(answer.Result, answer.Error)
}

// forward sends a command to another broker. The answer's code is OK or
// CodeNotController.
func (c *Controller) forward(ctx context.Context, url string, command []byte) (*wire.ProposeAnswer, error) {
	deadline, _ := ctx.Deadline()
	ctx, done := c.whileLeads(ctx, url)
	defer done()
	answer, err := c.cfg.Peers.Propose(ctx, url, &wire.Propose{Version: wire.Version, ClusterID: c.ClusterID(), Command: command,
		TimeoutMs: time.Until(deadline).Milliseconds()})
	switch {
	case errors.Is(err, wire.ErrNotSent):
		return nil, fmt.Errorf("%w: %w", ErrNoController, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	switch answer.Code {
	case wire.OK, wire.CodeNotController:
		return answer, nil
	case wire.CodeOutcomeUnknown:
		return nil, fmt.Errorf("%w: %s: %s", ErrOutcomeUnknown, url, answer.Detail)
	}
	return nil, fmt.Errorf("%w: %s: %s %s", ErrNoController, url, answer.Code, answer.Detail)
}

// whileLeads is ctx, and ends also when this member learns that another broker than
// the one at url leads: a leader that is frozen or cut off doesn't answer, and what
// was proposed to it is decided by others. (What this member believed before it was
// sent on to url is no news.)
func (c *Controller) whileLeads(ctx context.Context, url string) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	_, was := c.leader()
	go func() { // ends with ctx, and done waits for it
		defer close(ended)
		for {
			changed := c.watchLeader()
			if id, now := c.leader(); id != NoLeader && now != url && now != was {
				cancel()
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	}()
	return ctx, func() {
		cancel()
		<-ended
	}
}

// apply proposes a command as the leader. The result is what the state machine
// made of it at the index.
func (c *Controller) apply(ctx context.Context, t *term, cmd Command) (result any, index uint64, err error) {
	if r, ok := cmd.(*RegisterBroker); ok {
		if r, err = t.admit(r, c.State(), c.cfg.NodeID); err != nil {
			return nil, 0, err
		}
		cmd = r
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrNoController, err)
	}
	var f raft.ApplyFuture // made before the answer
	answer := t.member.ask(func() raft.Future {
		f = t.member.raft.Apply(encode(cmd), enqueueTimeout)
		return f
	})
	select {
	case err := <-answer:
		switch {
		case errors.Is(err, errClosed), errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrEnqueueTimeout), errors.Is(err, raft.ErrLeadershipTransferInProgress):
			return nil, 0, fmt.Errorf("%w: %w", ErrNoController, err)
		case err != nil:
			return nil, 0, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		}
	case <-ctx.Done():
		return nil, 0, fmt.Errorf("%w: %w", ErrOutcomeUnknown, ctx.Err())
	}
	if err, ok := f.Response().(error); ok {
		return nil, f.Index(), err
	}
	if b, ok := f.Response().(*Broker); ok {
		if _, ok := cmd.(*RegisterBroker); ok {
			t.sessions.registered(b.ID, b.Epoch, t.clock())
		}
	}
	return f.Response(), f.Index(), nil
}

// ServePropose proposes a peer's command if this member leads. No command at all
// asks how far the quorum has come: the answer's Index.
func (c *Controller) ServePropose(ctx context.Context, req *wire.Propose) *wire.ProposeAnswer {
	answer := &wire.ProposeAnswer{}
	if answer.Code, answer.Detail = c.check(req.Version, req.ClusterID); answer.Code != wire.OK {
		return answer
	}
	timeout := time.Duration(req.TimeoutMs) * time.Millisecond
	if timeout <= 0 || timeout > proposeTimeout {
		timeout = proposeTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if req.AtLeast > 0 {
		_ = c.waitApplied(ctx, req.AtLeast) // the index tells
		answer.Index = c.State().Index
		return answer
	}
	t := c.leading()
	if t == nil {
		answer.Code = wire.CodeNotController
		_, answer.LeaderURL = c.leader()
		return answer
	}
	var result any
	var err error
	if len(req.Command) == 0 {
		answer.Index, err = c.fenceHere(ctx, t)
	} else {
		var cmd Command
		if cmd, err = decode(req.Command); err != nil {
			answer.Code, answer.Detail = wire.CodeInvalidRequest, err.Error()
			return answer
		}
		result, answer.Index, err = c.apply(ctx, t, cmd)
	}
	switch {
	case errors.Is(err, ErrNoController):
		answer.Code, answer.Detail = wire.CodeNotController, err.Error()
		_, answer.LeaderURL = c.leader()
	case errors.Is(err, ErrOutcomeUnknown):
		answer.Code, answer.Detail = wire.CodeOutcomeUnknown, err.Error()
	default:
		answer.Result, answer.Error = encodeOutcome(result, err)
	}
	return answer
}

// check judges what every request between controllers carries.
func (c *Controller) check(version int, cluster string) (wire.Code, string) {
	if version < wire.MinVersion || version > wire.Version {
		return wire.CodeVersion, fmt.Sprintf("message version %d; this broker speaks %d to %d", version, wire.MinVersion, wire.Version)
	}
	if own := c.ClusterID(); own != "" && cluster != "" && own != cluster {
		return wire.CodeClusterID, fmt.Sprintf("this broker belongs to cluster %s", own) // F37
	}
	return wire.OK, ""
}

// fence returns the index of the newest command that the quorum has agreed on
// when it is called, or a later one (K15).
func (c *Controller) fence(ctx context.Context) (uint64, error) {
	if t := c.leading(); t != nil {
		return c.fenceHere(ctx, t)
	}
	_, url := c.leader()
	if url == "" || url == c.cfg.URL || c.cfg.Peers == nil {
		return 0, ErrNoController
	}
	ctx, cancel := context.WithTimeout(ctx, joinCall)
	defer cancel()
	answer, err := c.forward(ctx, url, nil)
	if err != nil {
		return 0, err
	}
	if answer.Code != wire.OK {
		return 0, ErrNoController
	}
	return answer.Index, nil
}

func (c *Controller) fenceHere(ctx context.Context, t *term) (uint64, error) {
	if err := t.verify(ctx); err != nil {
		return 0, err
	}
	return c.State().Index, nil // all of former terms is in it, and all that this one answered
}

// waitApplied waits until the local State has the command at index.
func (c *Controller) waitApplied(ctx context.Context, index uint64) error {
	for {
		changed := c.Changed()
		if c.State().Index >= index {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.failed:
			return c.failure()
		case <-changed:
		}
	}
}

// AlterPartitions asks the quorum for ISR changes of partitions that this broker
// leads, in one command; the answer has a result for each, in order (R43, R44).
// ErrNoController: nothing was proposed; after any other error nothing is known of
// any of them (R45). The local State has what was changed when it returns.
func (c *Controller) AlterPartitions(ctx context.Context, changes []wire.AlterPartition) ([]wire.AlterResult, error) {
	res, err := c.propose(ctx, &AlterPartitions{Broker: c.cfg.NodeID, Epoch: c.BrokerEpoch(), Changes: changes})
	return alterResults(res, err, len(changes))
}

// alterResults is a command's result as one for each of its items. It may have come
// from another broker.
func alterResults(res any, err error, items int) ([]wire.AlterResult, error) {
	if err != nil {
		return nil, err
	}
	results, _ := res.([]wire.AlterResult)
	if len(results) != items {
		return nil, fmt.Errorf("%w: %d results for %d partitions", ErrOutcomeUnknown, len(results), items)
	}
	return results, nil
}
