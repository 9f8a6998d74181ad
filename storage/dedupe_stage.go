package storage

import "highwater/storage/dedupe"

// StageOffer is StageAt (at < 0: Stage) for an offer that Prepare has seen: records
// that the log has already aren't staged again, and the result names the offsets
// they have. It looks once more whether what Prepare found is still so, stages and
// notes in one step (I6), in memory only. An offer of nothing but duplicates changes nothing, so
// `at` doesn't matter then, nor a full disk.
//
// ErrStale: what Prepare has found is no longer so; Prepare again, then come again.
// ErrBacklogged: so does it, after AwaitRoom.
// Other errors: those of Stage, and of Prepare about the producer.
func (l *Log) StageOffer(at int64, o *Offer, leaderEpoch int32) (s Staged, ok bool, err error) {
	if !o.prepared {
		return Staged{}, false, ErrStale
	}
	if len(o.out) > 0 {
		if err := l.disk.admit(o.outBytes); err != nil {
			if !o.tail {
				err = ErrStale // who brings nothing new needs no room
			}
			return Staged{}, false, err
		}
	}
	now := l.disk.nowMs()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refusal(); err != nil {
		return Staged{}, false, err
	}
	if err := l.recheck(o, now); err != nil {
		return Staged{}, false, err
	}
	if len(o.out) == 0 {
		s = Staged{AppendTime: l.appendTime}
	} else {
		if at >= 0 && at != l.stagedEnd {
			return Staged{EndOffset: l.stagedEnd}, false, nil
		}
		if l.stagedBytes >= l.disk.backlog {
			return Staged{}, false, ErrBacklogged
		}
		s = l.stage(o.out, o.outFacts, o.outBytes, now, leaderEpoch)
		s.New, s.WaitFrom, s.WaitEnd = true, s.BaseOffset, s.EndOffset
	}
	if o.fates != nil {
		l.tellFates(o, &s)
	}
	return s, true, nil
}

// recheck looks whether what Prepare found is still so. Call it under mu.
func (l *Log) recheck(o *Offer, now int64) error {
	if o.facts == nil {
		return nil
	}
	if l.learning || l.seen() != o.seen || l.isAhead() {
		return ErrStale
	}
	for _, f := range o.outFacts {
		if f != nil && skewed(f.Time, now) {
			return ErrStale // it waited that long
		}
	}
	if p := o.producer(); p.ID != dedupe.NoProducer {
		verdict, err := l.judge(p)
		switch {
		case err != nil:
			return err
		case verdict != o.repeats:
			return ErrStale
		case verdict.Duplicate:
			return nil
		}
	}
	if l.memory == nil || l.cfg.DedupeAge == 0 {
		return nil
	}
	known := o.known
	for _, now := range l.memory.FindTail(o.ids) {
		for len(known) > 0 && known[0].Index < now.Index {
			if !l.memory.Live(known[0].Entry) {
				return ErrStale
			}
			known = known[1:]
		}
		was := len(known) > 0 && known[0].Index == now.Index
		if live := l.memory.Live(now.Entry); live != was || live && known[0].Offset != now.Offset {
			return ErrStale
		}
		if was {
			known = known[1:]
		}
	}
	for _, was := range known {
		if !l.memory.Live(was.Entry) {
			return ErrStale
		}
	}
	return nil
}

// tellFates fills in where the records are, and what an answer has to wait for. Call
// it under mu.
func (l *Log) tellFates(o *Offer, s *Staged) {
	s.Offsets, s.Duplicate = make([]int64, o.records), make([]bool, o.records)
	next := s.BaseOffset
	from, end := int64(maxInt64), int64(0)
	uncommitted := func(base, next int64) {
		if next > l.hw {
			from, end = min(from, max(base, l.hw)), max(end, next)
		}
	}
	for i, fate := range o.fates {
		s.Duplicate[i] = fate != fateNew
		switch {
		case fate == fateNew:
			s.Offsets[i] = next
			next++
			continue
		case fate >= 0:
			s.Offsets[i] = fate
			uncommitted(fate, fate+1)
		case fate == fateUnknown: // below all that is known of its producer
			s.Offsets[i] = -1
			uncommitted(l.hw, l.stagedEnd)
		default:
			s.Offsets[i] = s.Offsets[fateSame-fate]
		}
		l.hits++
	}
	switch {
	case s.New:
		s.WaitFrom = min(from, s.WaitFrom)
	case end > 0:
		s.WaitFrom, s.WaitEnd = from, end
		s.BaseOffset, s.EndOffset = from, end
		s.round = l.roundOf(end)
	default:
		s.round = l.roundOf(0)
	}
}

// roundOf is the round that writes what lies below end: one that is under way, or
// that has ended. Call it under mu.
func (l *Log) roundOf(end int64) *round {
	switch {
	case end <= l.written:
	case l.round != nil && (l.writing == nil || end > l.staged[0].base):
		return l.round
	case l.writing != nil:
		return l.writing
	}
	done := &round{done: make(chan struct{})}
	done.settle(l.written, ErrClosed)
	return done
}
