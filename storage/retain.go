package storage

import (
	"errors"
	"fmt"
)

// AdvanceStart moves the log start to `to`, durably, and removes whole segments
// below it. The caller has checked that `to` is at most the high watermark.
func (l *Log) AdvanceStart(to int64) error {
	return l.removeOld(func() ([]*segment, error) { return l.advanceStart(to) })
}

// removeOld has the writer move the log start, and then removes the segments
// that are no longer part of the log. That takes long when they are many, so it
// is done by the remover, and appends go on.
func (l *Log) removeOld(move func() ([]*segment, error)) error {
	l.take(&l.remover)
	defer l.releaseRemover()
	var gone []*segment
	err := l.maintain(func() (err error) {
		gone, err = move()
		return err
	})
	// Oldest first and one by one: should the index be lost too, a gap between
	// segments would look like damage.
	for _, s := range gone {
		if removeErr := l.removeSegment(s); removeErr != nil {
			return l.fail(fmt.Errorf("removing %s: %w", segmentName(s.base), removeErr))
		}
	}
	if len(gone) > 0 {
		l.disk.index.deleteBelow(l.id, gone[len(gone)-1].base+1)
	}
	return err
}

func (l *Log) releaseRemover() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.remover.pass() {
		l.remover.held = false
	}
}

// maintain runs work as the writer, unless the log failed or is closed.
func (l *Log) maintain(work func() error) error {
	l.take(&l.writer)
	defer l.releaseWriter()
	if err := l.failure(); err != nil {
		return err
	}
	return work()
}

// failure tells why nothing can be done with the log any more, or nil.
func (l *Log) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.failed != nil:
		return l.failed
	case l.closed:
		return ErrClosed
	}
	return nil
}

// advanceStart is AdvanceStart for the writer; it returns the segments whose files
// are to be removed. A crash between any two steps is finished by the next call
// or by recovery: the new start is durable first.
func (l *Log) advanceStart(to int64) (gone []*segment, err error) {
	l.mu.Lock()
	if to <= l.start {
		l.mu.Unlock()
		return nil, nil
	}
	if to > l.written {
		defer l.mu.Unlock()
		return nil, &OffsetOutOfRangeError{Offset: to, Start: l.start, End: l.written}
	}
	all := to == l.written && l.active().size > 0
	durable := to <= l.synced
	l.mu.Unlock()
	if !durable { // no crash may leave the log's end below its start
		l.take(&l.syncer)
		l.syncRound()
		l.releaseSyncer()
		if err := l.failure(); err != nil {
			return nil, err
		}
	}
	if all { // leave a file that holds nothing, so that the log's end isn't lost with the rest
		// On a full disk the last file stays, and what can go goes all the same.
		if err := l.rollNow(); err != nil && !errors.Is(err, ErrDiskNearlyFull) {
			return nil, err
		}
	}
	// What no log will tell any more has to be in the index when the start is (D11).
	l.flushBelow(to, 0, false)
	l.mu.Lock()
	start, segments, damage, epochs := l.start, l.segments, l.damage, l.epochs
	l.start = to
	n := 0
	for n+1 < len(l.segments) && l.segments[n+1].base <= to {
		n++
	}
	gone = l.segments[:n:n]
	l.segments = append([]*segment(nil), l.segments[n:]...)
	l.trimDamage(to)
	l.trimEpochs(to)
	l.mu.Unlock()
	err = l.disk.index.updateNow(l.id, l.describe)
	switch {
	case errors.Is(err, ErrDiskNearlyFull): // no file goes before the new start is durable
		l.mu.Lock()
		l.start, l.segments, l.damage, l.epochs = start, segments, damage, epochs
		l.mu.Unlock()
		l.disk.index.update(l.id, l.describe)
		return nil, err
	case err != nil:
		return nil, l.fail(err)
	}
	l.mu.Lock()
	if l.memory != nil {
		l.memory.SetStart(to)
	}
	if l.hole < to && len(l.damage) == 0 {
		l.hole = maxInt64 // nobody will ever know
	}
	l.mu.Unlock()
	return gone, nil
}

// rollNow begins a new segment at the log's end. The caller is the writer.
func (l *Log) rollNow() error {
	l.mu.Lock()
	w, base := newRoundWriter(l), l.written
	l.mu.Unlock()
	err := withSpace(l.disk.outOfSpace, func() error { return w.roll(base) })
	if err != nil && (w.final || !isRefusal(err)) {
		return l.fail(w.abandon(err))
	}
	// Nothing was written, so nothing is to take back when it was refused.
	durable := l.publish(w, nil, nil, nil)
	w.note()
	if durable && l.onDurable != nil {
		l.onDurable()
	}
	return w.told(err)
}

// Retain removes whole closed segments that the retention configs let go, never
// one that reaches above highWatermark. It returns the new log start.
//
// Age counts from a segment's last append by the broker's clock, not from the
// timestamps of its records (H28). An active segment that is old enough is closed
// first, so that an idle log is emptied too.
func (l *Log) Retain(highWatermark int64) (int64, error) {
	err := l.removeOld(func() ([]*segment, error) {
		l.mu.Lock()
		to, roll := l.retainable(highWatermark, l.disk.nowMs())
		l.mu.Unlock()
		if roll {
			if err := l.rollNow(); err != nil && !errors.Is(err, ErrDiskNearlyFull) {
				return nil, err
			}
		}
		return l.advanceStart(to)
	})
	return l.StartOffset(), err
}

// Retainable is where the log would start after Retain: what a leader proposes to
// its followers before it moves its own with AdvanceStart.
func (l *Log) Retainable(highWatermark int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	to, _ := l.retainable(highWatermark, l.disk.nowMs())
	return to
}

// retainable finds the log start that retention asks for, and whether the active
// segment must be closed for it. Call it under mu.
func (l *Log) retainable(highWatermark, nowMs int64) (to int64, roll bool) {
	to = l.start
	var total int64
	for _, s := range l.segments {
		total += s.size
	}
	for i, s := range l.segments {
		end, active := l.written, i == len(l.segments)-1
		if !active {
			end = l.segments[i+1].base
		}
		tooOld := l.cfg.RetentionAge > 0 && nowMs-s.lastAppend > l.cfg.RetentionAge.Milliseconds()
		tooMuch := l.cfg.RetentionBytes > 0 && total-s.size >= l.cfg.RetentionBytes
		if end > highWatermark || active && (!tooOld || s.size == 0) || !tooOld && !tooMuch {
			break
		}
		to, roll = max(to, end), active
		total -= s.size
	}
	return to, roll
}

// trimDamage forgets damage below the log start. Call it under mu.
func (l *Log) trimDamage(start int64) {
	var kept []damage
	for _, d := range l.damage {
		if d.To > start || d.Bytes > 0 && len(l.segments) > 0 && d.Segment >= l.segments[0].base {
			kept = append(kept, d)
		}
	}
	l.damage = kept
}

// trimEpochs forgets epochs that ended below the log start; the one that holds it
// begins there, as in Kafka. Call it under mu.
func (l *Log) trimEpochs(start int64) {
	n := 0
	for n+1 < len(l.epochs) && l.epochs[n+1].StartOffset <= start {
		n++
	}
	kept := append([]EpochEntry(nil), l.epochs[n:]...)
	if len(kept) > 0 && kept[0].StartOffset < start {
		kept[0].StartOffset = start
	}
	l.epochs = kept
}
