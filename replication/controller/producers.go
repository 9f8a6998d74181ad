package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"highwater/replication/wire"
)

// producerBlock is how many producer ids a broker reserves at once (I1): one command
// in the metadata for a thousand producers.
const producerBlock = 1000

// reservation is what this broker has of producer ids to give out.
type reservation struct {
	turn      chan struct{} // a token: who has it may use the fields below
	next, end int64
}

func newReservation() *reservation { return &reservation{turn: make(chan struct{}, 1)} }

// InitProducer gives out a producer id that nobody has had, in epoch 0. With a
// transactional id it is the one that belongs to that, in an epoch of its own: every
// producer that got an earlier one is fenced (I8), by every broker that can lead. The
// local State knows it when it returns. Errors: ErrNoController; ErrOutcomeUnknown (and then asking again is
// safe); *RefusedError for a transactional id of no bytes or more than 255;
// *TooManyProducersError.
func (c *Controller) InitProducer(ctx context.Context, transactionalID string) (pid int64, epoch int16, err error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	if transactionalID != "" {
		ids, err := c.proposeProducers(ctx, &InitProducer{TransactionalID: transactionalID})
		if err != nil {
			return 0, 0, err
		}
		return ids.First, ids.Epoch, c.fenceEverywhere(ctx, ids)
	}
	r := c.reserved
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, 0, fmt.Errorf("%w: %w", ErrNoController, ctx.Err())
	}
	defer func() { <-r.turn }()
	if r.next == r.end {
		ids, err := c.proposeProducers(ctx, &ReserveProducers{Count: producerBlock})
		if err != nil {
			return 0, 0, err
		}
		r.next, r.end = ids.First, ids.First+int64(ids.Count)
	}
	r.next++
	return r.next - 1, 0, nil
}

// knownTry bounds one question to a broker whether it knows the newest metadata.
const knownTry = time.Second

// fenceEverywhere returns when no broker can take a batch of a producer's former epoch
// any more: each knows the new one, or is fenced, and so leads nothing.
// ErrOutcomeUnknown: ctx ended before that.
func (c *Controller) fenceEverywhere(ctx context.Context, ids *ProducerIDs) error {
	s := c.State()
	if newest, _ := s.ProducerEpoch(ids.First); newest < ids.Epoch {
		return fmt.Errorf("%w: this broker doesn't know of it yet", ErrOutcomeUnknown)
	}
	if c.cfg.Peers == nil {
		return nil
	}
	var all errgroup.Group
	for _, id := range s.BrokerIDs() {
		if id != c.cfg.NodeID {
			all.Go(func() error { return c.awaitKnown(ctx, id, s.Index) })
		}
	}
	return all.Wait()
}

// awaitKnown waits until a broker knows the metadata at index, or is fenced or gone.
func (c *Controller) awaitKnown(ctx context.Context, id int32, index uint64) error {
	for {
		changed := c.Changed()
		b := c.State().Brokers[id]
		if b == nil || b.Fenced || b.Epoch > int64(index) {
			return nil // who is unfenced later knows what was agreed on before
		}
		try, cancel := context.WithTimeout(ctx, knownTry)
		answer, err := c.cfg.Peers.Propose(try, b.URL, &wire.Propose{Version: wire.Version, ClusterID: c.ClusterID(), AtLeast: index, TimeoutMs: knownTry.Milliseconds()})
		cancel()
		if err == nil && answer.Code == wire.OK && answer.Index >= index {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: broker %d may not know of it yet: %w", ErrOutcomeUnknown, id, ctx.Err())
		case <-c.failed:
			return c.failure()
		case <-changed:
		case <-time.After(leaderPoll):
		}
	}
}

// proposeProducers proposes the command until it is known what came of it. One that
// took effect and wasn't heard of costs ids or an epoch, which nobody has got.
func (c *Controller) proposeProducers(ctx context.Context, cmd Command) (*ProducerIDs, error) {
	var unknown error
	for {
		changed := c.watchLeader()
		res, err := c.propose(ctx, cmd)
		if err == nil {
			ids, ok := res.(*ProducerIDs)
			if !ok {
				return nil, fmt.Errorf("%w: the answer holds no producer ids", ErrOutcomeUnknown)
			}
			return ids, nil
		}
		if errors.Is(err, ErrOutcomeUnknown) {
			unknown = err
		} else if unknown == nil || !errors.Is(err, ErrNoController) {
			return nil, err
		}
		if errors.Is(err, ErrNoController) || c.awaitLeader(ctx, changed) != nil {
			return nil, unknown // also if a later try was provably not proposed
		}
	}
}

// ProducerGiven is State.ProducerGiven, asked of the quorum's newest metadata if
// these don't know the producer: another broker may have given it out a moment ago.
// It takes two seconds at most. ErrNoController: the quorum couldn't be asked.
func (c *Controller) ProducerGiven(ctx context.Context, pid int64, epoch int16) (bool, error) {
	if c.State().ProducerGiven(pid, epoch) {
		return true, nil
	}
	asked := c.ask(ctx)
	if c.State().ProducerGiven(pid, epoch) {
		return true, nil
	}
	if !asked {
		return false, fmt.Errorf("%w: whether producer %d was given out isn't known", ErrNoController, pid)
	}
	return false, nil
}
