package group

import (
	"context"
	"time"

	"highwater/storage"
)

// decide takes the records that a group's state has decided, as one batch. Call it
// under mu.
func (s *shard) decide(c *coordinated, records []record) {
	if len(records) > 0 {
		s.queue = append(s.queue, encodeBatch(records, time.Now()))
		s.decided++
		c.last = s.decided
		give(s.queued)
		s.note(records)
		s.g.fronts.changed(c.name)
		c.wake()
	}
	s.schedule(c)
}

// wake has those look again who wait for the group. Call it under the shard's mu.
func (c *coordinated) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// encodeBatch makes a batch of records.
func encodeBatch(records []record, now time.Time) storage.Batch {
	var b storage.BatchBuilder
	for i := range records {
		key, value := records[i].encode()
		b.Append(&storage.Record{Timestamp: now.UnixMilli(), Key: key, Value: value})
	}
	batch, err := b.Seal(storage.CompressionNone, nil)
	if err != nil {
		panic(err) // the limits of a group are far below a batch's
	}
	return batch
}

// write appends what is decided, in order, until ctx ends or an append fails. While
// one is under way the next batches gather.
func (s *shard) write(ctx context.Context) error {
	for {
		select {
		case <-s.queued:
		case <-ctx.Done():
			return ctx.Err()
		}
		s.mu.Lock()
		batches := s.queue
		s.queue, s.sent = nil, s.decided
		s.mu.Unlock()
		if len(batches) == 0 {
			continue
		}
		if err := s.g.cfg.Log.Append(ctx, s.num, s.epoch, batches); err != nil {
			return err
		}
		s.mu.Lock()
		s.committed = s.sent
		close(s.progress)
		s.progress = make(chan struct{})
		s.mu.Unlock()
	}
}

const (
	// maxTickPause is how long the ticker sleeps when nothing is due, minTickPause how
	// long a group rests between two ticks.
	maxTickPause, minTickPause = time.Hour, 10 * time.Millisecond
	// unwritable is how long what is due waits while nothing can be appended.
	unwritable = time.Second
	// A ticker that is late by stalled has stood still, with all of the process, maybe:
	// what members sent meanwhile is heard first, for stalledGrace.
	stalled, stalledGrace = time.Second, 2 * time.Second
)

// tickAll has the groups do what is due, until ctx ends.
func (s *shard) tickAll(ctx context.Context) {
	for {
		wait := s.untilDue()
		begun := time.Now()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-s.sooner:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
		switch {
		case time.Since(begun) > wait+stalled:
			pause(ctx, stalledGrace)
		case s.g.cfg.Log.Ready(s.num, s.epoch) != nil:
			pause(ctx, unwritable)
		default:
			s.tickDue()
		}
	}
}

// untilDue is how long nothing is due.
func (s *shard) untilDue() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.due) == 0 {
		return maxTickPause
	}
	return min(max(time.Until(s.due[0].at), 0), maxTickPause)
}

// tickDue ticks the groups that are due.
func (s *shard) tickDue() {
	topics := s.g.known()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for len(s.due) > 0 && !s.due[0].at.After(now) && s.over == nil {
		c := s.due[0]
		records := c.state.tick(now, topics)
		if len(records) == 0 {
			c.wake() // a poll may be over
		}
		s.decide(c, records)
		if c.index >= 0 && !c.at.After(now) {
			s.dueAt(c, now.Add(minTickPause)) // it has more to do, and others come first
		}
		s.forget(c)
	}
}

// reconcile has all groups look at the topics.
func (s *shard) reconcile() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, c := range s.groups {
		s.dueAt(c, now)
	}
	give(s.sooner)
}

// note counts and logs what records say; never what is in them.
func (s *shard) note(records []record) {
	for i := range records {
		r := &records[i]
		switch {
		case r.meta != nil:
			s.g.metrics.generations.Inc()
			s.log.Info().Str("group", r.group).Int32("generation", r.meta.generation).Msg("group generation")
		case r.member != nil && r.member.status == expired:
			s.g.metrics.expired.Inc()
			s.log.Info().Str("group", r.group).Str("member", r.name).Dur("silent_ms", r.member.silent).Msg("member expired")
		case r.offset != nil && !r.offset.initial:
			s.g.metrics.commits.Inc()
		}
	}
}
