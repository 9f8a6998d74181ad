package storage

import (
	"fmt"
	"path/filepath"
)

// AdvanceStart moves the log start to `to`, durably, and removes whole segments
// below it. The caller has checked that `to` is at most the high watermark.
func (l *Log) AdvanceStart(to int64) error {
	return l.maintain(func() error { return l.advanceStart(to) })
}

// maintain runs work as the writer, unless the log failed or is closed.
func (l *Log) maintain(work func() error) error {
	l.take(&l.writer)
	defer l.releaseWriter()
	l.mu.Lock()
	failed, closed := l.failed, l.closed
	l.mu.Unlock()
	switch {
	case failed != nil:
		return failed
	case closed:
		return ErrClosed
	}
	return work()
}

// advanceStart is AdvanceStart for the writer. The order of its steps lets a
// crash between any two of them be finished by the next one or by recovery: the
// new start is durable first, then files go, the oldest first.
func (l *Log) advanceStart(to int64) error {
	l.mu.Lock()
	if to <= l.start {
		l.mu.Unlock()
		return nil
	}
	if to > l.written {
		defer l.mu.Unlock()
		return &OffsetOutOfRangeError{Offset: to, Start: l.start, End: l.written}
	}
	all := to == l.written && l.active().size > 0
	l.mu.Unlock()
	if all { // leave a file that holds nothing, so that the log's end isn't lost with the rest
		if err := l.rollNow(); err != nil {
			return err
		}
	}
	l.mu.Lock()
	l.start = to
	n := 0
	for n+1 < len(l.segments) && l.segments[n+1].base <= to {
		n++
	}
	gone := l.segments[:n:n]
	l.segments = append([]*segment(nil), l.segments[n:]...)
	l.trimDamage(to)
	l.trimEpochs(to)
	l.mu.Unlock()
	if err := l.disk.index.updateNow(l.id, l.describe); err != nil {
		return l.fail(err)
	}
	if n == 0 {
		return nil
	}
	for _, s := range gone {
		l.disk.files.retire(s)
		if err := l.disk.fs.remove(filepath.Join(l.dir, segmentName(s.base))); err != nil {
			return l.fail(fmt.Errorf("removing %s: %w", segmentName(s.base), err))
		}
	}
	if err := l.disk.fs.syncDir(l.dir); err != nil {
		return l.fail(fmt.Errorf("fsync of the partition's directory: %w", err))
	}
	l.disk.index.deleteBelow(l.id, l.segments[0].base)
	return nil
}

// rollNow begins a new segment at the log's end. The caller is the writer.
func (l *Log) rollNow() error {
	l.mu.Lock()
	w, base := newRoundWriter(l), l.written
	l.mu.Unlock()
	err := w.roll(base)
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
	err := l.maintain(func() error {
		l.mu.Lock()
		to, roll := l.retainable(highWatermark, l.disk.nowMs())
		l.mu.Unlock()
		if roll {
			if err := l.rollNow(); err != nil {
				return err
			}
		}
		return l.advanceStart(to)
	})
	return l.StartOffset(), err
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
		if d.To > start || len(l.segments) > 0 && d.Segment >= l.segments[0].base {
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
