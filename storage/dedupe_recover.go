package storage

import (
	"errors"
	"fmt"

	"highwater/storage/dedupe"
)

// learnBytes is how much of the log is read at once to learn from it.
const learnBytes = 1 << 20

// recall makes the memory at a start: from what the index has, and the log from where
// that ends.
func (l *Log) recall(m logMeta) error {
	defer func() {
		for _, s := range l.segments { // an idle log has no file open
			l.disk.files.rest(s)
		}
	}()
	l.forgot = l.lossReason != ""
	restored := true
	if m.Remembers {
		l.memory = dedupe.New(l.cfg.memoryConfig())
		err := l.restore(m)
		l.memory.SetStart(l.start)
		switch {
		case err != nil:
		case m.Sound < l.memory.Judged():
			err = fmt.Errorf("storage: the log was cut at %d", m.Sound)
		case l.memory.Judged() > max(l.written, m.Imported):
			err = fmt.Errorf("storage: they reach to %d, and the log to %d", l.memory.Judged(), l.written)
		}
		if err != nil {
			restored = false
			l.disk.logger.Warn().Stringer("partition", l.id).Err(err).Msg("message ids and producers in the index are not those of the log, learning them anew")
		}
	}
	l.imported, l.stored, l.recalled = m.Imported, m.Remembers && restored, true
	if !restored {
		l.unsettled = true // nothing is appended that might hide from the next start what this one saw
		return l.relearn()
	}
	if err := l.learn(m.Covered); err != nil {
		return err
	}
	if l.memory == nil && m.Covered != l.synced { // or the next start would look there again
		l.disk.index.update(l.id, l.describe)
	}
	return nil
}

// restore gives the memory what the index has. What can't be restored leaves it empty.
func (l *Log) restore(m logMeta) error {
	snapshot := l.disk.index.dedupeState(l.id)
	if snapshot == nil {
		return errors.New("storage: the snapshot of the producers is missing")
	}
	var runs []*dedupe.Run
	var err error
	done := l.disk.index.viewRuns(l.id, m.Runs, func(get readPiece) {
		for _, k := range m.Runs {
			var run *dedupe.Run
			run, err = dedupe.ReadRun(func(_ *dedupe.Run, from, to int) ([]byte, error) { return get(k, from, to) })
			for end := pieceBytes; err == nil && end < run.Size+pieceBytes; end += pieceBytes {
				_, err = get(k, min(end, run.Size)-1, min(end, run.Size)) // the last byte of each piece
			}
			if err == nil && k != keyOfRun(run) {
				err = errors.New("it is under another one's key")
			}
			if err != nil {
				err = fmt.Errorf("storage: run of message ids from offset %d: %w", k.first, err)
				return
			}
			runs = append(runs, run)
		}
	})
	if err == nil && !done {
		err = errRunUnread
	}
	if err != nil {
		return err
	}
	return l.memory.Restore(m.Covered, snapshot, runs)
}

// learn notes what the log has from an offset on. The caller is the writer, or the
// log isn't open yet. A part that is damaged is passed over; what is remembered stays out of the index
// then, until it is mended or cut off.
func (l *Log) learn(from int64) error {
	l.mu.Lock()
	l.learning = true
	from, limit := max(from, l.start), l.written
	l.mu.Unlock()
	defer l.learned()
	var fr factsReader
	var buf []byte
	for from < limit {
		res, err := l.Read(from, limit, learnBytes, buf)
		if bad := (*CorruptError)(nil); errors.As(err, &bad) {
			from = l.passHole(from, limit)
			continue
		}
		if err != nil {
			l.mu.Lock()
			l.hole = min(l.hole, from) // the next start tries again
			l.mu.Unlock()
			return err
		}
		buf = res.Data
		l.mu.Lock()
		l.unflushed += int64(len(res.Data))
		l.mu.Unlock()
		for rest := res.Data; len(rest) > 0; {
			b := Batch(rest[:Batch(rest).Size()])
			rest = rest[len(b):]
			from = b.NextOffset()
			f, _ := fr.batch(b) // of records that can't be decoded nobody remembers more
			if f == nil {
				continue
			}
			l.mu.Lock()
			l.remember(f.Base).Replay(f)
			l.mu.Unlock()
		}
		l.flushLearned(from)
	}
	return nil
}

// flushLearned brings to the index what was learned below an offset, if it is time.
func (l *Log) flushLearned(below int64) {
	l.mu.Lock()
	l.countHeld()
	to := min(l.flushable(), below)
	due, keep := l.flushRule(to)
	l.mu.Unlock()
	if due {
		l.flushBelow(to, keep, true)
	}
}

// learned ends learn: what is staged is noted too.
func (l *Log) learned() {
	var fr factsReader
	l.mu.Lock()
	defer l.mu.Unlock()
	l.learning = false
	for i := range l.staged {
		facts, _ := fr.all(l.staged[i].batches, nil)
		l.note(l.staged[i].batches, facts)
	}
}

// passHole notes that the log is damaged at an offset, and returns the one after the damage.
func (l *Log) passHole(from, limit int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hole = min(l.hole, from)
	for _, d := range l.damage {
		if d.From <= from && from < d.To {
			return d.To
		}
	}
	return limit // nobody knows where it ends
}

// awaitLearned returns when nobody makes the memory anew.
func (l *Log) awaitLearned() {
	l.mu.Lock()
	learning := l.learning
	l.mu.Unlock()
	if learning {
		l.take(&l.writer) // who learns has it
		l.releaseWriter()
	}
}

// untold is the offset below which the log can't tell what is to be remembered: it
// begins there, was compacted, or another replica told it. Call it under mu.
func (l *Log) untold() int64 { return max(l.start, l.cleaned, l.imported) }

// relearn makes the memory anew from what no log can tell, as far as it is remembered, and
// the log. The caller is the writer, or the log isn't open yet.
func (l *Log) relearn() error {
	l.mu.Lock()
	old, below := l.memory, min(l.untold(), max(l.written, l.imported))
	var view *dedupe.View
	if old != nil {
		view = old.View()
	}
	l.learning = true
	l.mu.Unlock()
	var kept *dedupe.Import
	if view != nil && below > 0 {
		export, err := view.Export(below, l.readRun)
		if err == nil {
			kept, err = dedupe.ParseImport(export)
		}
		if err != nil {
			l.disk.logger.Warn().Stringer("partition", l.id).Err(err).Int64("below", below).Msg("message ids and producers of records that are gone are forgotten")
		}
	}
	if err := l.begin(kept, below); err != nil {
		l.learned()
		return err
	}
	return l.learn(below)
}

// begin begins the memory with what is kept, in the index too; nil: with nothing.
func (l *Log) begin(kept *dedupe.Import, at int64) error {
	l.mu.Lock()
	fresh := dedupe.New(l.cfg.memoryConfig())
	fresh.SetStart(l.start)
	l.mu.Unlock()
	note := dedupeNote{dropped: true, runs: map[runKey][]byte{}}
	if kept != nil {
		if err := fresh.Restore(max(kept.Covered, at), kept.Snapshot, kept.Runs); err != nil {
			return err
		}
		note.state = kept.Snapshot
		for i, r := range kept.Runs {
			note.runs[keyOfRun(r)] = kept.Bytes[i]
		}
	} else if err := fresh.Restore(at, nil, nil); err != nil {
		return err
	}
	l.disk.index.noteDedupe(l.id, func(m *logMeta) (dedupeNote, bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.memory, l.stored, l.unmerged, l.unflushed, l.hole, l.doubted = fresh, kept != nil, false, 0, maxInt64, maxInt64
		fresh.Configure(l.cfg.memoryConfig())
		l.describeLocked(m)
		return note, true
	})
	return nil
}

// fillHole learns what stands where the log was damaged when it was opened, and behind it.
// The caller is the writer.
func (l *Log) fillHole() error {
	l.mu.Lock()
	from := l.hole
	if from == maxInt64 {
		l.mu.Unlock()
		return nil
	}
	again := l.forgetFrom(from, l.written)
	l.learning = true
	l.mu.Unlock()
	if again {
		return l.relearn()
	}
	return l.learn(from)
}

// isAhead tells that more is remembered than the log has: a follower imported it, and
// the records were to come. If it leads instead, by an unclean election, they are lost
// (D6). Call it under mu.
func (l *Log) isAhead() bool { return l.memory != nil && l.memory.Covered() > l.stagedEnd }

// forgetAhead forgets what isAhead tells of, of a log that is about to be appended to by its leader.
func (l *Log) forgetAhead() error {
	l.mu.Lock()
	ahead := l.isAhead()
	l.mu.Unlock()
	if !ahead {
		return nil
	}
	return l.maintain(func() error {
		l.mu.Lock()
		if ahead = l.isAhead(); ahead {
			l.imported, l.doubted = min(l.imported, l.written), min(l.doubted, l.written)
		}
		l.mu.Unlock()
		if !ahead {
			return nil
		}
		if err := l.relearn(); err != nil {
			return err
		}
		// Durably: other records come in their place, and a start would find them known.
		if err := l.disk.index.settle(l.id); !errors.Is(err, ErrDiskNearlyFull) {
			return wrapFailed(l, err)
		}
		return ErrDiskNearlyFull
	})
}

// relearnAll is relearn for who has no role: bytes in the index are damaged. Nothing happens if
// the memory isn't any more what it was when that was seen.
func (l *Log) relearnAll(seen seenAt, reason error) error {
	return l.maintain(func() error {
		l.mu.Lock()
		changed := l.seen() != seen
		l.mu.Unlock()
		if changed {
			return nil
		}
		l.disk.logger.Warn().Stringer("partition", l.id).Err(reason).Msg("message ids in the index are damaged, learning them anew")
		return l.relearn()
	})
}

// forgetFrom takes back what was noted from an offset on, at which the log ends now; it
// ended at `was`. again: that isn't possible, and the memory has to be made anew. Call it
// under mu.
func (l *Log) forgetFrom(end, was int64) (again bool) {
	if end <= l.hole {
		l.hole = maxInt64
	}
	defer l.countHeld()
	switch {
	case l.memory == nil || l.memory.Truncate(end):
		return false
	case !l.stored:
		l.memory = nil // it began above
		return false
	case end == was:
		l.memory.Truncate(l.memory.Judged())
		return false // what is left another replica told, of records that come yet
	}
	l.doubted = min(l.doubted, end)
	return true
}

// forgetAll forgets everything. Call it under mu; the index is to be told.
func (l *Log) forgetAll() {
	l.memory, l.stored, l.imported, l.unmerged, l.unflushed = nil, false, 0, false, 0
	l.hole, l.doubted = maxInt64, maxInt64
	l.countHeld()
}
