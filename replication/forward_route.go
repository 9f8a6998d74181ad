package replication

import (
	"context"
	"errors"
	"fmt"
	"time"

	"highwater/replication/controller"
	"highwater/replication/wire"
	"highwater/storage"
)

// Caller sends a message to a path of the broker at url and reads its answer into
// out, which may keep parts of *buf. wait is how long the other side may take on
// purpose. An error that wraps wire.ErrNotSent says that the request came to
// nothing; after any other one nobody knows.
type Caller interface {
	Call(ctx context.Context, url, path string, wait time.Duration, in, out wire.Message, buf *[]byte) error
}

const (
	// readLeaderWait is how long a read that doesn't say so itself looks for a leader:
	// longer than an election takes.
	readLeaderWait = 10 * time.Second
	// produceLeaderMargin is what a produce waits for a leader beyond the session
	// timeout after which a dead one is replaced.
	produceLeaderMargin = 4 * time.Second
	// defaultSessionTimeout is Kafka's broker session by our measure (R70).
	defaultSessionTimeout = 6 * time.Second
	// remoteReadTimeout is how long another broker may take to answer a read, beyond
	// the wait that was asked for. A leader that hangs is given up then: the metadata
	// may know of another by now.
	remoteReadTimeout = 3 * time.Second
	// A question of leadership is asked again after firstRetry, then after twice as
	// long each time up to lastRetry, and at once when the metadata changes.
	firstRetry, lastRetry = 10 * time.Millisecond, 250 * time.Millisecond
)

// location is where a partition's leader is, by this broker's metadata.
type location struct {
	wire.TopicPartition
	name   string
	leader int32 // controller.NoLeader: none
	epoch  int32
	url    string // of the leader, "" when it isn't registered
}

func (l *location) notLeader() *NotLeaderError {
	return &NotLeaderError{Topic: l.name, Partition: l.Partition, Leader: l.leader, Epoch: l.epoch}
}

// locate finds a partition's leader. Errors: *controller.UnknownTopicError,
// *UnknownPartitionError.
func (b *Broker) locate(name string, num int32) (location, error) {
	s := b.State()
	t, ok := s.Topic(name)
	if !ok {
		return location{}, &controller.UnknownTopicError{Topic: name}
	}
	if num < 0 || int(num) >= len(t.Partitions) {
		return location{}, &UnknownPartitionError{Topic: name, Partition: num, Count: len(t.Partitions)}
	}
	meta := &t.Partitions[num]
	l := location{TopicPartition: wire.TopicPartition{Topic: t.ID, Partition: num}, name: name, leader: meta.Leader, epoch: meta.LeaderEpoch}
	if leader := s.Brokers[meta.Leader]; leader != nil {
		l.url = leader.URL
	}
	return l, nil
}

// elsewhere tells whether another broker leads the partition, and can be asked.
func (b *Broker) elsewhere(l *location) bool {
	return l.leader != b.cfg.NodeID && l.url != "" && b.cfg.Forward != nil
}

// here tells whether what concerns the partition is this broker's own to answer:
// it leads it, or nobody else could be asked.
func (b *Broker) here(l *location) bool {
	return l.leader == b.cfg.NodeID || b.cfg.Forward == nil
}

// IsTransient tells whether an error of a read, or of an append that wrote
// nothing, is about a leader that is missing, new or unsure: it passes by itself.
func IsTransient(err error) bool {
	var notLeader *NotLeaderError
	var notConfirmed *NotConfirmedError
	var notAvailable *OffsetNotAvailableError
	return errors.As(err, &notLeader) || errors.As(err, &notConfirmed) || errors.As(err, &notAvailable)
}

// retries tells when to ask again, until it is time to give up.
type retries struct {
	b     *Broker
	until time.Time
	pause time.Duration
}

func (b *Broker) newRetries(limit time.Duration) *retries {
	return &retries{b: b, until: time.Now().Add(limit), pause: firstRetry}
}

// next waits; false: no more. changed was taken from the controller before the
// try that failed.
func (r *retries) next(ctx context.Context, changed <-chan struct{}) bool {
	left := time.Until(r.until)
	if left <= 0 || ctx.Err() != nil {
		return false
	}
	timer := time.NewTimer(min(r.pause, left))
	defer timer.Stop()
	select {
	case <-timer.C:
		r.pause = min(2*r.pause, lastRetry)
	case <-changed:
		r.pause = firstRetry
	case <-ctx.Done():
		return false
	}
	return true
}

// atLeader has a partition's leader do what may be done twice: here, where this
// broker is the leader, else there. It tries for as long as limit while the answer
// is a question of leadership; limit ≤ 0: once.
func (b *Broker) atLeader(ctx context.Context, name string, num int32, limit time.Duration, here func() error, there func(l *location) error) error {
	r := b.newRetries(limit)
	for {
		changed := b.cfg.Controller.Changed()
		l, err := b.locate(name, num)
		if err != nil {
			return err
		}
		switch {
		case b.here(&l):
			err = here()
		case b.elsewhere(&l):
			err = b.remote(&l, there(&l))
		default:
			err = l.notLeader()
		}
		if err == nil || !IsTransient(err) || !r.next(ctx, changed) {
			return err
		}
	}
}

// remote makes of an error that came of asking another broker what it means here:
// one that is only about that broker's state is *NotLeaderError.
func (b *Broker) remote(l *location, err error) error {
	var unknownTopic *controller.UnknownTopicError
	var unknownPartition *UnknownPartitionError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errCall), errors.Is(err, ErrShuttingDown), errors.Is(err, storage.ErrClosed):
		return fmt.Errorf("%w: %w", l.notLeader(), err)
	case errors.As(err, &unknownTopic), errors.As(err, &unknownPartition):
		// It may not have heard of it yet. If it is gone, locate will say so.
		return fmt.Errorf("%w: %w", l.notLeader(), errBehind)
	}
	return err
}

var (
	errCall   = errors.New("replication: the leader could not be asked")
	errBehind = errors.New("replication: the leader doesn't know the partition yet")
)

// call asks another broker what may be asked twice.
func (b *Broker) call(ctx context.Context, url, path string, wait time.Duration, in, out wire.Message, buf *[]byte) error {
	ctx, cancel := context.WithTimeout(ctx, wait+remoteReadTimeout)
	defer cancel()
	if err := b.cfg.Forward.Call(ctx, url, path, wait, in, out, buf); err != nil {
		return fmt.Errorf("%w: %w", errCall, err)
	}
	return nil
}

// ask is call with messages that are JSON.
func ask[Q, A any](ctx context.Context, b *Broker, url, path string, wait time.Duration, req *Q) (*A, error) {
	answer := &wire.JSON[A]{}
	if err := b.call(ctx, url, path, wait, &wire.JSON[Q]{V: req}, answer, nil); err != nil {
		return nil, err
	}
	return answer.V, nil
}

// sameLength checks that an answer has a result for each question.
func sameLength(have, want int) error {
	if have != want {
		return fmt.Errorf("%w: %w: %d results for %d questions", errCall, wire.ErrMalformed, have, want)
	}
	return nil
}

// readWait is how long a read looks for a leader.
func readWait(patience, maxWait time.Duration) time.Duration {
	switch {
	case patience != 0:
		return patience
	case maxWait > 0:
		return maxWait
	}
	return readLeaderWait
}
