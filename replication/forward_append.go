package replication

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"highwater/replication/controller"
	"highwater/replication/wire"
	"highwater/storage"
)

// defaultAppendTimeout is what another broker is given for an append whose context
// has no deadline.
const defaultAppendTimeout = 30 * time.Second

// unsureLeaderWait is how long an append that a leader refused because it wasn't
// sure of itself is tried again: a lost session comes back with the next heartbeat
// once the quorum has a leader.
const unsureLeaderWait = 3 * time.Second

// answerGrace is how much longer than the request's own time this broker waits for
// the leader's answer: that a time is over the leader knows best what came of it.
const answerGrace = 250 * time.Millisecond

// forwarded is an append under way to the leaders of its partitions.
//
// Each of its parts is in one of three states: answered; refused with nothing
// written by somebody who doesn't lead the partition, or never sent: it is tried
// again within the time there is; or lost with a leader that may have it, and that
// is an outcome too: unknown (R11), unless the log recognises its records (forward_resend.go).
type forwarded struct {
	b       *Broker
	acks    Acks
	reqs    []AppendRequest
	results []AppendResult
	sent    []bool // was on its way to another broker once, or to this one's log
	lost    losses
}

// forwardAppend is Append for partitions of which not all are led here.
func (b *Broker) forwardAppend(ctx context.Context, acks Acks, reqs []AppendRequest) []AppendResult {
	f := &forwarded{b: b, acks: acks, reqs: reqs, results: make([]AppendResult, len(reqs)), sent: make([]bool, len(reqs))}
	todo := make([]int, len(reqs))
	for i := range todo {
		todo[i] = i
	}
	f.deliver(ctx, todo)
	return f.results
}

// deliver brings the parts of todo to their leaders and fills in their results.
func (f *forwarded) deliver(ctx context.Context, todo []int) {
	patience := f.b.cfg.SessionTimeout + produceLeaderMargin
	r := f.b.newRetries(patience)
	unsure := time.Now().Add(unsureLeaderWait)
	for {
		changed := f.b.cfg.Controller.Changed()
		f.round(ctx, todo)
		left, lost := todo[:0], len(f.lost)
		for _, i := range todo {
			if f.again(i, unsure) {
				left = append(left, i)
			}
		}
		if len(f.lost) > lost {
			r = f.b.newRetries(patience) // the next leader has yet to be found
		}
		if todo = left; len(todo) == 0 || !r.next(ctx, changed) {
			return
		}
	}
}

// isMisdirected tells whether a part that was not written may find another leader.
func isMisdirected(err error) bool {
	var notLeader *NotLeaderError
	return errors.As(err, &notLeader)
}

// isUnsure tells whether the leader couldn't vouch for being the leader (R61): it
// can in a moment, or there will be another; when neither happens its refusal stands.
func isUnsure(err error) bool {
	var notConfirmed *NotConfirmedError
	return errors.As(err, &notConfirmed)
}

// round tries each part of todo once, all leaders at the same time.
func (f *forwarded) round(ctx context.Context, todo []int) {
	local, groups := f.group(todo)
	var remote sync.WaitGroup
	for leader, g := range groups {
		remote.Go(func() { f.there(ctx, leader, g) })
	}
	f.here(ctx, local)
	remote.Wait()
}

// leaderParts is the parts for one other leader.
type leaderParts struct {
	url  string
	at   []location
	part []int // indexes of reqs
}

// group divides the parts by leader. Those with none have their result.
func (f *forwarded) group(todo []int) (local []int, groups map[int32]*leaderParts) {
	for _, i := range todo {
		l, err := f.b.locate(f.reqs[i].Topic, f.reqs[i].Partition)
		switch {
		case err != nil:
			f.results[i] = AppendResult{Err: err}
		case f.b.here(&l):
			local = append(local, i)
		case !f.b.elsewhere(&l):
			f.results[i] = AppendResult{Err: l.notLeader()}
		default:
			if groups == nil {
				groups = map[int32]*leaderParts{}
			}
			g := groups[l.leader]
			if g == nil {
				g = &leaderParts{url: l.url}
				groups[l.leader] = g
			}
			g.at, g.part = append(g.at, l), append(g.part, i)
		}
	}
	return local, groups
}

// here appends what this broker leads.
func (f *forwarded) here(ctx context.Context, parts []int) {
	if len(parts) == 0 {
		return
	}
	reqs := make([]AppendRequest, len(parts))
	for k, i := range parts {
		reqs[k] = f.reqs[i]
		if f.sent[i] {
			// The log writes into batches, and a connection, or the log, may still be reading them.
			reqs[k].Batches, reqs[k].Facts = make([]storage.Batch, len(f.reqs[i].Batches)), nil
			for j, batch := range f.reqs[i].Batches {
				reqs[k].Batches[j] = bytes.Clone(batch)
			}
		}
	}
	for k, res := range f.b.appendLocal(ctx, f.acks, reqs) {
		f.results[parts[k]], f.sent[parts[k]] = res, true
	}
}

// there sends a group to its leader.
func (f *forwarded) there(ctx context.Context, leader int32, g *leaderParts) {
	left := defaultAppendTimeout
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	req := &wire.AppendRequest{Version: wire.Version, Acks: int(f.acks), TimeoutMs: max(left.Milliseconds(), 0), Partitions: make([]wire.AppendPartition, len(g.part))}
	for k, i := range g.part {
		f.sent[i] = true
		p := &req.Partitions[k]
		p.TopicPartition, p.ExpectedOffset = g.at[k].TopicPartition, f.reqs[i].ExpectedOffset
		p.Batches = make([][]byte, len(f.reqs[i].Batches))
		for j, batch := range f.reqs[i].Batches {
			p.Batches[j] = batch
		}
	}
	callCtx, cancel := withGrace(ctx, left)
	defer cancel()
	fate := f.b.fates.of(f.b.State, leader)
	defer context.AfterFunc(fate, cancel)()
	answer := &wire.JSON[wire.AppendAnswer]{}
	err := f.b.cfg.Forward.Call(callCtx, g.url, wire.PathAppend, left, req, answer, nil)
	if err == nil {
		err = f.wholeAnswer(answer.V, g)
	}
	for k, i := range g.part {
		l := &g.at[k]
		switch {
		case err == nil:
			f.results[i] = f.b.appendedThere(l, &answer.V.Results[k])
		case errors.Is(err, wire.ErrNotSent):
			f.results[i] = AppendResult{Err: fmt.Errorf("%w: %w", l.notLeader(), err)}
		case callCtx.Err() != nil && fate.Err() == nil:
			f.results[i] = AppendResult{Err: ErrTimeout, Unknown: true}
		default:
			f.results[i] = AppendResult{Err: &LeaderLostError{Topic: l.name, Partition: l.Partition, Leader: leader, Cause: err}, Unknown: true}
		}
	}
}

// withGrace is for asking a leader who is to answer before ctx ends, and knows best what
// to say then: who gives up ends it at once, the deadline not quite.
func withGrace(ctx context.Context, left time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithTimeout(context.WithoutCancel(ctx), left+answerGrace)
	stop := context.AfterFunc(ctx, func() {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			cancel()
		}
	})
	return out, func() { stop(); cancel() }
}

// wholeAnswer checks that an answer has a result for each part, and that one which
// tells of each record does so of each.
func (f *forwarded) wholeAnswer(answer *wire.AppendAnswer, g *leaderParts) error {
	if err := sameLength(len(answer.Results), len(g.part)); err != nil {
		return err
	}
	for k, i := range g.part {
		r := &answer.Results[k]
		if r.Offsets == nil && r.Duplicate == nil {
			continue
		}
		records := 0
		for _, batch := range f.reqs[i].Batches {
			records += int(batch.RecordCount())
		}
		if err := errors.Join(sameLength(len(r.Offsets), records), sameLength(len(r.Duplicate), records)); err != nil {
			return err
		}
	}
	return nil
}

// appendedThere is a leader's result.
func (b *Broker) appendedThere(l *location, r *wire.AppendResult) AppendResult {
	res := AppendResult{BaseOffset: r.BaseOffset, LastOffset: r.LastOffset, Offsets: r.Offsets, Duplicate: r.Duplicate, LeaderEpoch: r.LeaderEpoch, HighWatermark: r.HighWatermark,
		InSyncReplicas: r.InSyncReplicas, AppendTime: r.AppendTime, Durability: Durability(r.Durability)}
	if err := decodeError(r.Error); err != nil {
		res.Err, res.Unknown = err, r.Unknown
		if !r.Unknown {
			res.Err = b.remote(l, err)
		}
	}
	return res
}

// ServeAppend appends, for another broker, to partitions that this one leads. It
// forwards nothing: what it doesn't lead is *NotLeaderError. The sender's leaving
// doesn't end it.
func (b *Broker) ServeAppend(ctx context.Context, req *wire.AppendRequest) *wire.AppendAnswer {
	answer := &wire.AppendAnswer{Version: wire.Version, Results: make([]wire.AppendResult, len(req.Partitions))}
	if !b.appends.enter() {
		for i := range answer.Results {
			answer.Results[i].Error = encodeError(ErrShuttingDown)
		}
		return answer
	}
	defer b.appends.leave()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(min(max(req.TimeoutMs, 0), maxAppendTimeoutMs))*time.Millisecond)
	defer cancel()
	reqs := make([]AppendRequest, 0, len(req.Partitions))
	at := make([]int, 0, len(req.Partitions)) // their places in the answer
	for i := range req.Partitions {
		part, err := b.appendRequest(&req.Partitions[i])
		if err != nil {
			answer.Results[i].Error = encodeError(err)
			continue
		}
		reqs, at = append(reqs, part), append(at, i)
	}
	for k, res := range b.appendLocal(ctx, Acks(req.Acks), reqs) {
		answer.Results[at[k]] = wire.AppendResult{BaseOffset: res.BaseOffset, LastOffset: res.LastOffset, Offsets: res.Offsets, Duplicate: res.Duplicate, LeaderEpoch: res.LeaderEpoch,
			HighWatermark: res.HighWatermark, InSyncReplicas: res.InSyncReplicas, AppendTime: res.AppendTime,
			Durability: string(res.Durability), Error: encodeError(res.Err), Unknown: res.Unknown}
	}
	return answer
}

// maxAppendTimeoutMs bounds what another broker may ask to wait, as a client's
// timeout_ms is bounded.
const maxAppendTimeoutMs = int64(24 * time.Hour / time.Millisecond)

// appendRequest checks what came over the network as a client's batches are checked
// by being made here: whole batches of sound records, nothing else.
func (b *Broker) appendRequest(p *wire.AppendPartition) (AppendRequest, error) {
	name, err := b.topicName(p.TopicPartition)
	if err != nil {
		return AppendRequest{}, err
	}
	req := AppendRequest{Topic: name, TopicID: p.Topic, Partition: p.Partition, ExpectedOffset: p.ExpectedOffset, Batches: make([]storage.Batch, len(p.Batches))}
	for i, bytes := range p.Batches {
		batch, rest, err := storage.ParseBatch(bytes)
		if err != nil || len(rest) > 0 || batch.Sparse() {
			return AppendRequest{}, fmt.Errorf("%w: no whole batch", wire.ErrMalformed) // err would be damage of a disk
		}
		req.Batches[i] = batch
	}
	if len(req.Batches) == 0 {
		return AppendRequest{}, fmt.Errorf("%w: no batch", wire.ErrMalformed)
	}
	return req, nil
}

// topicName finds the name of a topic id; *controller.UnknownTopicError when this
// broker doesn't know it, yet or any more.
func (b *Broker) topicName(tp wire.TopicPartition) (string, error) {
	t, ok := b.State().TopicByID(tp.Topic)
	if !ok {
		return "", &controller.UnknownTopicError{Topic: tp.Topic.String()}
	}
	return t.Name, nil
}
