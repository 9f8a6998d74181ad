package replication

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"highwater/replication/wire"
	"highwater/storage"
)

// FoundMessage is a record that was found by its message id.
type FoundMessage struct {
	Partition int32
	// Record is a copy, with its offset; read only.
	Record      storage.Record
	LeaderEpoch int32 // of the record
}

// UnknownMessageError: no partition of the topic has a record with this message id,
// or the record isn't kept any more.
type UnknownMessageError struct {
	Topic, ID string
	// Where the record was, when it is known that there was one; -1, -1: it isn't.
	Partition int32
	Offset    int64
}

func (e *UnknownMessageError) Error() string {
	if e.Offset >= 0 {
		return fmt.Sprintf("replication: message %q of topic %q was at offset %d of partition %d and is no longer kept", e.ID, e.Topic, e.Offset, e.Partition)
	}
	return fmt.Sprintf("replication: topic %q has no message %q", e.Topic, e.ID)
}

// FindMessage finds the record with a message id in whichever partition has it: each
// leader is asked once for all its partitions, all at the same time. A record that
// isn't committed yet is waited for. Should more than one partition have the id, for
// ids are a partition's own (D1), it is any one of them.
//
// Errors: *UnknownMessageError, said only after every partition's leader said so, and
// could vouch for itself (R61); ErrTimeout: there is a record, and ctx ended before it
// was committed; one that IsTransient: a partition has no leader that answers;
// *controller.UnknownTopicError; controller.ErrNoController; *OfflineError; *storage.CorruptError.
func (b *Broker) FindMessage(ctx context.Context, topic, id string) (*FoundMessage, error) {
	for {
		// Its partitions may be more than this broker has heard of.
		f, err := b.newFinding(topic, id)
		if err != nil {
			return nil, err
		}
		found, err := f.run(ctx)
		if found != nil || err != nil {
			return found, err
		}
		if err := b.Hear(ctx); err != nil {
			return nil, err
		}
		if t, err := b.Topic(topic); err == nil && t.ID == f.topicID && len(t.Partitions) == len(f.todo) {
			return nil, f.unknown()
		}
	}
}

// finding is one look-up under way.
type finding struct {
	b       *Broker
	topic   string
	topicID uuid.UUID
	id      string
	todo    []bool // by partition: it hasn't said yet that it doesn't know the id

	mu    sync.Mutex // guards what follows
	known []gonePlace
}

type gonePlace struct {
	partition int32
	offset    int64
}

func (b *Broker) newFinding(topic, id string) (*finding, error) {
	t, err := b.Topic(topic)
	if err != nil {
		return nil, err
	}
	f := &finding{b: b, topic: topic, topicID: t.ID, id: id, todo: make([]bool, len(t.Partitions))}
	for i := range f.todo {
		f.todo[i] = true
	}
	return f, nil
}

// unknown is what is said when all have answered.
func (f *finding) unknown() error {
	err := &UnknownMessageError{Topic: f.topic, ID: f.id, Partition: -1, Offset: -1}
	for _, g := range f.known {
		if err.Partition < 0 || g.partition < err.Partition {
			err.Partition, err.Offset = g.partition, g.offset
		}
	}
	return err
}

// run asks until all have answered: nil and nil when none has the record.
func (f *finding) run(ctx context.Context) (*FoundMessage, error) {
	r := f.b.newRetries(readLeaderWait)
	for {
		changed := f.b.cfg.Controller.Changed()
		found, err := f.round(ctx)
		if found != nil || err == nil || !IsTransient(err) || !r.next(ctx, changed) {
			return found, err
		}
	}
}

// partAnswer is what came of asking one broker.
type partAnswer struct {
	found *FoundMessage
	err   error
}

// round asks all that haven't answered yet, once.
func (f *finding) round(ctx context.Context) (*FoundMessage, error) {
	local, remote, err := f.group()
	answers := make(chan partAnswer, len(remote)+1)
	for _, g := range remote {
		// Who finds it first is enough; the others' answers come as they may, for a
		// connection that is given up costs more.
		f.b.share.running.Go(func() { answers <- f.there(ctx, g) })
	}
	asked := len(remote)
	if len(local) > 0 {
		found, failed := f.here(ctx, local, 0)
		if found != nil {
			return found, nil
		}
		if errors.Is(failed, ErrTimeout) { // it is here, and to be waited for as well as others'
			asked++
			f.b.share.running.Go(func() {
				found, failed := f.here(ctx, local, timeLeft(ctx))
				answers <- partAnswer{found, failed}
			})
		} else {
			err = worse(err, failed)
		}
	}
	for range asked {
		a := <-answers
		if a.found != nil {
			return a.found, nil
		}
		err = worse(err, a.err)
	}
	return nil, err
}

// worse is the error to tell of two: one that is final, if there is one.
func worse(a, b error) error {
	if a == nil || b != nil && IsTransient(a) && !IsTransient(b) {
		return b
	}
	return a
}

// timeLeft is what is left of ctx's time.
func timeLeft(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return max(time.Until(deadline), 0)
	}
	return defaultAppendTimeout
}

// findParts is the partitions of one other leader.
type findParts struct {
	url  string
	at   location // of any of them
	nums []int32
}

// group divides the partitions by leader. err is about those that have none.
func (f *finding) group() (local []int32, remote map[int32]*findParts, err error) {
	for i := range f.todo {
		num := int32(i)
		if !f.todo[i] {
			continue
		}
		l, failed := f.b.locate(f.topic, num)
		switch {
		case failed != nil:
			err = worse(err, failed)
		case f.b.here(&l):
			local = append(local, num)
		case !f.b.elsewhere(&l):
			err = worse(err, l.notLeader())
		default:
			if remote == nil {
				remote = map[int32]*findParts{}
			}
			g := remote[l.leader]
			if g == nil {
				g = &findParts{url: l.url, at: l}
				remote[l.leader] = g
			}
			g.nums = append(g.nums, num)
		}
	}
	return local, remote, err
}

// here looks at the partitions that this broker leads.
func (f *finding) here(ctx context.Context, nums []int32, wait time.Duration) (*FoundMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	looks := f.b.findLocal(ctx, f.topic, f.topicID, nums, []byte(f.id))
	var err error
	for i := range looks {
		if looks[i].batch != nil {
			return foundMessage(nums[i], &looks[i])
		}
		err = worse(err, f.note(nums[i], &looks[i]))
	}
	return nil, err
}

// note takes down what a partition said that doesn't have the record.
func (f *finding) note(num int32, l *look) error {
	if l.err != nil {
		return l.err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.todo[num] = false
	if l.gone {
		f.known = append(f.known, gonePlace{partition: num, offset: l.offset})
	}
	return nil
}

// there asks another leader.
func (f *finding) there(ctx context.Context, g *findParts) partAnswer {
	wait := timeLeft(ctx)
	req := &wire.FindRequest{Version: wire.Version, Topic: f.topicID, Partitions: g.nums, ID: []byte(f.id), MaxWaitMs: wait.Milliseconds()}
	answer := &wire.FindAnswer{}
	ctx, cancel := withGrace(ctx, wait)
	defer cancel()
	err := f.b.call(ctx, g.url, wire.PathFindMessage, wait, &wire.JSON[wire.FindRequest]{V: req}, answer, nil)
	if err == nil && len(answer.Batch) == 0 {
		err = sameLength(len(answer.Results), len(g.nums))
	}
	if err == nil && len(answer.Results) > len(g.nums) {
		err = sameLength(len(answer.Results), len(g.nums))
	}
	if err != nil {
		return partAnswer{err: f.b.remote(&g.at, err)}
	}
	var out partAnswer
	for i := range answer.Results {
		r := &answer.Results[i]
		l := look{offset: r.Offset, epoch: r.LeaderEpoch, gone: r.Gone, err: f.b.remote(&g.at, decodeError(r.Error))}
		if last := i == len(answer.Results)-1; last && len(answer.Batch) > 0 {
			l.batch = answer.Batch
			out.found, out.err = foundMessage(g.nums[i], &l)
			return out
		}
		out.err = worse(out.err, f.note(g.nums[i], &l))
	}
	return out
}

// foundMessage takes the record out of the batch that it came in.
func foundMessage(num int32, l *look) (*FoundMessage, error) {
	m := &FoundMessage{Partition: num, LeaderEpoch: l.epoch}
	batch, _, err := storage.ParseBatch(l.batch)
	if err != nil {
		return nil, fmt.Errorf("%w: %w: a found record: %v", errCall, wire.ErrMalformed, err) //nolint:errorlint // not damage of a disk
	}
	it, err := batch.Records()
	if err == nil && !it.Next(&m.Record) {
		err = it.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w: a found record: %v", errCall, wire.ErrMalformed, err) //nolint:errorlint // as above
	}
	m.Record.Offset = l.offset
	return m, nil
}
