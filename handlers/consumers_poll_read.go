package handlers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"highwater/replication"
	"highwater/replication/group"
	"highwater/storage"
)

// look reads once at all positions. done: there is something to answer. With
// mayWait less than the member's min bytes is nothing.
func (p *pollRun) look(ctx context.Context, mayWait bool) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if err := p.find(ctx); err != nil {
		return false, err
	}
	for attempt := 0; ; attempt++ {
		results, at := p.fetch(ctx)
		bytes, resets := 0, len(p.reset)
		for k := range results {
			if err := p.judge(at[k], &results[k]); err != nil {
				return false, err
			}
			bytes += len(results[k].Data)
		}
		if len(p.reset) > resets && attempt < maxStartAttempts {
			continue // now from where there is something
		}
		least := min(p.poll.State().Options.MinBytes, p.q.readBytes(p.q.maxBytes))
		if bytes == 0 || mayWait && bytes < least {
			p.held.giveBack()
			return false, p.allFailed(mayWait)
		}
		came, err := p.render(at, results)
		if err == nil && p.q.requestID != "" {
			err = p.inOrder(at, results)
		}
		if err != nil {
			return false, err
		}
		if p.budget.taken == 0 {
			p.held.giveBack()
			if came {
				continue // batches without a record that is left
			}
			return false, nil
		}
		return true, p.promise(ctx)
	}
}

// promise has a repeatable poll's records known before the first byte goes out.
func (p *pollRun) promise(ctx context.Context) error {
	if p.q.requestID == "" {
		return nil
	}
	var from, to []group.Position
	for i := range p.parts {
		if part := &p.parts[i]; part.next.Offset > part.from.Offset {
			from, to = append(from, part.from), append(to, part.next)
		}
	}
	return p.deliver(ctx, from, to)
}

// allFailed is the error when the wait is over and there was nothing that could be
// read at all: an empty answer would say that nothing came.
func (p *pollRun) allFailed(mayWait bool) error {
	if mayWait || len(p.parts) == 0 {
		return nil
	}
	for i := range p.parts {
		if p.parts[i].err == nil {
			return nil
		}
	}
	return p.parts[0].err
}

// find finds where to begin where nothing says so: by the member's reset policy.
func (p *pollRun) find(ctx context.Context) error {
	var at []int
	for i := range p.parts {
		if p.parts[i].next.Offset < 0 {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return nil
	}
	reset := p.poll.State().Options.Reset
	if reset == group.ResetNone {
		tp := &p.parts[at[0]].next.TopicPartition
		return &requestError{code: codeUnprocessable, detail: fmt.Sprintf("The group has no committed offset for %s-%d, and auto.offset.reset is none.", tp.Topic, tp.Partition),
			fix: "Commit an offset, seek, or make the instance with auto.offset.reset earliest or latest."}
	}
	_ = eachOf(len(at), func(k int) error {
		part := &p.parts[at[k]]
		o, err := p.api.cfg.Broker.Offsets(ctx, part.next.Topic, part.next.Partition, nil)
		if part.err = err; err == nil {
			part.next.Offset, part.next.LeaderEpoch = o.Beginning, -1
			if reset == group.ResetLatest {
				part.next.Offset = o.End
			}
			part.from, part.found = part.next, reset != group.ResetLatest
		}
		return nil
	})
	if reset == group.ResetLatest {
		return p.keepFound(ctx, at)
	}
	return nil
}

// keepFound makes the ends that were found at last: who polls again begins there, and
// not behind what has come meanwhile.
func (p *pollRun) keepFound(ctx context.Context, at []int) error {
	var found []group.Position
	for _, i := range at {
		if p.parts[i].next.Offset >= 0 {
			found = append(found, p.parts[i].next)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return p.deliver(ctx, found, found)
}

// fetch reads at every position that is known, within the budget.
func (p *pollRun) fetch(ctx context.Context) (results []replication.PartitionFetch, at []int) {
	drawn := p.held.draw(p.q.maxBytes)
	p.budget.bytes = int(drawn)
	req := replication.FetchManyRequest{MaxBytes: p.q.readBytes(drawn)}
	if p.poll.State().Options.Isolation == "read_uncommitted" {
		req.Isolation = replication.ReadUncommitted
	}
	for i := range p.parts {
		next := &p.parts[i].next
		if next.Offset < 0 {
			continue
		}
		pos := replication.Position{Topic: next.Topic, TopicID: next.TopicID, Partition: next.Partition, Offset: next.Offset}
		if next.LeaderEpoch >= 0 {
			pos.LeaderEpoch = &next.LeaderEpoch
		}
		at = append(at, i)
		req.Positions = append(req.Positions, pos)
	}
	if len(at) == 0 {
		return nil, nil
	}
	return p.api.cfg.Broker.FetchMany(ctx, req), at
}

// judge says what becomes of a partition's part of a read. An error is one that the
// client must hear of; it is never hidden behind other partitions' records.
func (p *pollRun) judge(i int, res *replication.PartitionFetch) error {
	part := &p.parts[i]
	part.err = nil
	p.stale = p.stale || res.Stale
	if res.Err == nil {
		if len(res.Data) == 0 && part.next.LeaderEpoch < 0 && part.next.Offset > 0 && part.next.Offset > res.LogStartOffset {
			part.next.LeaderEpoch = res.LeaderEpoch // of the record before: a later cut is noticed by it
		}
		return nil
	}
	var outside *storage.OffsetOutOfRangeError
	var truncated *replication.TruncatedError
	var corrupt *storage.CorruptError
	res.Data = nil
	switch {
	case errors.As(res.Err, &truncated):
		return p.truncated(truncated)
	case errors.As(res.Err, &outside) && outside.Offset > outside.End:
		return p.truncated(&replication.TruncatedError{Topic: part.next.Topic, Partition: part.next.Partition, Offset: outside.Offset,
			Epoch: part.next.LeaderEpoch, SafeOffset: outside.End, SafeEpoch: -1})
	case errors.As(res.Err, &outside):
		return p.outside(part, outside)
	case errors.As(res.Err, &corrupt):
		return res.Err
	}
	part.err = res.Err // it passes, or the coordinator takes the partition away
	if errors.Is(res.Err, context.DeadlineExceeded) || errors.Is(res.Err, context.Canceled) {
		part.err = &replication.NotLeaderError{Topic: part.next.Topic, Partition: part.next.Partition, Leader: -1} // it doesn't answer
	}
	return nil
}

// outside: retention has removed the position. The reset policy says where to go on.
func (p *pollRun) outside(part *pollPart, e *storage.OffsetOutOfRangeError) error {
	to := e.Start
	switch p.poll.State().Options.Reset {
	case group.ResetNone:
		return &requestError{code: codeBelowLogStart,
			detail:  fmt.Sprintf("Offset %d of %s-%d is below the log start, and auto.offset.reset is none: the readable range is %d to %d.", e.Offset, part.next.Topic, part.next.Partition, e.Start, e.End),
			fix:     "Seek to an offset of the range, or commit one and join anew.",
			members: []member{{"partition", int64(part.next.Partition)}, {"log_start_offset", e.Start}, {"high_watermark", e.End}}}
	case group.ResetLatest:
		to = e.End
	}
	p.reset = appendReset(p.reset, &part.next.TopicPartition, part.next.Offset, to)
	part.next.Offset, part.next.LeaderEpoch = to, -1
	part.from = part.next
	return nil
}

// truncated: what the member has read before its position is no longer in the log
// (F55). Nobody but the client can say what that means for what it did.
func (p *pollRun) truncated(e *replication.TruncatedError) error {
	problem := explain(e, p.api.where(p.request))
	st := p.poll.State()
	problem.detail = fmt.Sprintf("The log of %s-%d was truncated: what was read before offset %d in leader epoch %d is no longer in it. Both agree up to offset %d.", e.Topic, e.Partition, e.Offset, e.Epoch, e.SafeOffset)
	where := p.api.baseURL(p.request) + "/consumers/" + pathSegment(p.request, "group")
	if p.joined {
		where += "/offsets?member=" + st.Instance
	} else {
		where += "/instances/" + st.Instance + "/positions"
	}
	problem.fix = fmt.Sprintf(`Undo what was done from offset %d on, then go on there: curl '%s' --json '{"offsets":[{"topic":"%s","partition":%d,"next_offset":%d}]}'`,
		e.SafeOffset, where, e.Topic, e.Partition, e.SafeOffset)
	problem.members = append(problem.members, member{"partition", int64(e.Partition)})
	return answered{problem}
}

// render appends what was read, partition by partition, within the budget. came: some
// position has moved, be it behind records that are no more.
func (p *pollRun) render(at []int, results []replication.PartitionFetch) (came bool, err error) {
	for k, i := range at {
		if p.budget.full() || len(p.out) >= maxRenderedBytes {
			return came, nil
		}
		if len(results[k].Data) == 0 {
			continue
		}
		moved, err := p.renderPart(&p.parts[i], &results[k].FetchResult, results[k].HighWatermark)
		came = came || moved
		if err != nil && p.budget.taken == 0 {
			return came, err // else what was read is given, and the next poll meets it first
		}
	}
	return came, nil
}

// inOrder renders once more what was taken of several partitions, in the order of
// their names: that of a repeated answer.
func (p *pollRun) inOrder(at []int, results []replication.PartitionFetch) error {
	order := make([]int, 0, len(at))
	for k, i := range at {
		if p.parts[i].next.Offset > p.parts[i].from.Offset {
			order = append(order, k)
		}
	}
	if len(order) < 2 {
		return nil
	}
	slices.SortFunc(order, func(x, y int) int { return byName(p.parts[at[x]].from, p.parts[at[y]].from) })
	p.out, p.budget = openFrame(p.out[:0], p.q.frame), boundless()
	for _, k := range order {
		part := &p.parts[at[k]]
		limit := part.next.Offset
		part.next = part.from
		if _, err := p.renderPart(part, &results[k].FetchResult, limit); err != nil {
			return err
		}
	}
	return nil
}

func byName(x, y group.Position) int {
	return cmp.Or(strings.Compare(x.Topic, y.Topic), cmp.Compare(x.Partition, y.Partition))
}

// boundless lets everything through.
func boundless() budget { return budget{records: math.MaxInt, bytes: math.MaxInt} }

// renderPart appends records of one partition below limit.
func (p *pollRun) renderPart(part *pollPart, res *replication.FetchResult, limit int64) (moved bool, err error) {
	if part.renderer == nil {
		part.renderer = newRecordRenderer(p.q.format, part.next.Topic, part.next.Partition)
	}
	if p.out == nil {
		p.out = openFrame(p.api.buffers.get(), p.q.frame)
	}
	page := newPage(res.Data, part.next.Offset, limit)
	p.out, err = renderPage(p.out, &page, part.renderer, &p.budget, p.q.frame, maxRenderedBytes, nil, &p.rec)
	if page.next > part.next.Offset {
		part.next.Offset, part.next.LeaderEpoch, moved = page.next, page.batchEpoch, true
	}
	return moved, err
}

// repeat reads the records again that were answered under this request id.
func (p *pollRun) repeat(ctx context.Context) error {
	st := p.poll.State()
	p.parts = make([]pollPart, len(st.Positions))
	p.held.draw(p.q.maxBytes)
	p.budget = boundless()
	order := make([]int, len(st.Positions))
	for i := range order {
		order[i] = i
		p.parts[i] = pollPart{from: st.Positions[i], next: st.Positions[i]}
	}
	slices.SortFunc(order, func(x, y int) int { return byName(st.Positions[x], st.Positions[y]) })
	for _, i := range order {
		for part := &p.parts[i]; part.next.Offset < st.Repeat[i]; {
			req := replication.FetchRequest{Topic: part.next.Topic, TopicID: part.next.TopicID, Partition: part.next.Partition, Offset: part.next.Offset,
				MaxBytes: readBytes, MaxWait: max(time.Until(p.until), 1), Patience: max(time.Until(p.until.Add(pollGrace)), 1)}
			if part.next.LeaderEpoch >= 0 {
				req.LeaderEpoch = &part.next.LeaderEpoch
			}
			res, err := p.api.cfg.Broker.Fetch(ctx, req)
			var truncated *replication.TruncatedError
			switch {
			case errors.As(err, &truncated):
				return p.truncated(truncated)
			case err != nil:
				return err
			}
			moved, err := p.renderPart(part, &res, min(st.Repeat[i], res.HighWatermark))
			switch {
			case err != nil:
				return err
			case !moved: // its leader is new, and doesn't know yet that they may be read
				return &replication.OffsetNotAvailableError{Topic: part.next.Topic, Partition: part.next.Partition}
			}
		}
	}
	if p.q.frame == frameOne && p.budget.taken > 1 {
		return &requestError{code: codeNotAcceptable, detail: "The answer that this request_id repeats has more than one record.",
			fix: "Ask for it as before, or with Accept: " + typeEvents + "."}
	}
	return nil
}
