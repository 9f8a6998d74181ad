package storage

import (
	"errors"

	"highwater/storage/dedupe"
)

const (
	// flushEveryBytes of log at most are read again at a start for what they may hold
	// of ids and producers, apart from what isn't committed.
	flushEveryBytes = 64 << 20
	// flushRolledBytes: a closed segment is a reason to flush if it was that much.
	flushRolledBytes = 4 << 20
	// denseBytes: a log with an id for so many bytes, or more ids than that, keeps its newest ids in memory
	// (disk.keepIDs) and not in the index, and they are read again at a start: at most as many as
	// a window has by default, instead of flushEveryBytes.
	denseBytes = 512
	// heldIDs is how many ids all logs together may hold in memory, at 48 bytes each and, where their
	// log is led, 12 to 24 more, until each log brings all of its own to the index, from flushHeldIDs on.
	heldIDs      = 4 << 20
	flushHeldIDs = 1 << 10
)

// flushSoon has a goroutine bring to the index what is committed of the memory, if
// it is time. Call it under mu.
func (l *Log) flushSoon() {
	l.countHeld()
	if l.memory == nil || l.flushing || l.learning || l.closed || l.failed != nil || l.hole != maxInt64 {
		return
	}
	if due, _ := l.flushRule(l.flushable()); !due {
		return
	}
	l.flushing = true
	l.bg.Go(func() {
		l.disk.flushes <- struct{}{}
		l.mu.Lock()
		due, keep := l.flushRule(l.flushable()) // others may have made room meanwhile
		l.mu.Unlock()
		if due {
			l.flushMemory(keep)
			l.mergeRuns()
		}
		<-l.disk.flushes
		l.mu.Lock()
		l.flushing = false
		l.mu.Unlock()
	})
}

// flushRule tells whether it is time to bring to the index what the memory knows below an offset, and
// how many of the newest ids may stay where they are. Call it under mu.
func (l *Log) flushRule(to int64) (due bool, keep int) {
	if l.memory == nil || to <= l.memory.Covered() {
		return false, 0
	}
	ids := l.disk.flushIDs
	switch {
	case l.disk.heldIDs.Load() > heldIDs:
		ids = flushHeldIDs
	case l.unflushed < denseBytes*int64(l.memory.TailLen()):
		keep = l.disk.keepIDs
	}
	if keep == 0 && (l.unflushed >= flushEveryBytes || l.rolled && l.unflushed >= flushRolledBytes) || l.memory.SnapshotDue(to) {
		return true, 0
	}
	return l.memory.FlushDue(to, ids, keep), keep
}

// countHeld counts the ids that the log holds in memory among those of all logs. Call it under mu.
func (l *Log) countHeld() {
	held := 0
	if l.memory != nil && !l.gone {
		held = l.memory.TailLen()
	}
	l.disk.heldIDs.Add(int64(held - l.held))
	l.held = held
}

// flushable is the offset below which nothing is ever cut off, but by an unclean
// election or the loss of what was never fsynced. Call it under mu.
func (l *Log) flushable() int64 {
	to := min(l.hw, l.written)
	if l.disk.mode == FsyncCommit {
		to = min(to, l.synced)
	}
	return to
}

// flushMemory brings to the index what is committed of the memory, but for so many of the newest ids. It
// takes no role.
func (l *Log) flushMemory(keep int) {
	l.mu.Lock()
	to := l.flushable()
	l.mu.Unlock()
	l.flushBelow(to, keep, false)
}

// flushBelow brings to the index what the memory knows below an offset, but for so many of the newest ids
// and what is above them. Nobody but who learns does so while the memory is made anew: it would count as
// all that there is below the offset.
func (l *Log) flushBelow(to int64, keep int, learner bool) {
	l.flushMu.Lock() // who comes second must not go on as if the first had ended
	defer l.flushMu.Unlock()
	l.mu.Lock()
	memory := l.memory
	var f *dedupe.Flush
	covered := int64(0)
	if memory != nil && l.hole == maxInt64 && (learner || !l.learning) {
		f, covered = memory.BeginFlush(to, keep), memory.Covered()
	}
	if f != nil { // as if the log's bytes were spread evenly
		l.unflushed = int64(float64(l.unflushed) * float64(max(l.written-f.Below, 0)) / float64(max(l.written, f.Below)-covered))
		l.rolled = l.rolled && f.Below < l.flushable()
	}
	l.mu.Unlock()
	if f == nil {
		return
	}
	note := dedupeNote{}
	var run *dedupe.Run
	if !f.Unchanged {
		var bytes []byte
		bytes, note.state = f.Build()
		if bytes != nil {
			var err error
			if run, err = dedupe.OpenRun(bytes); err != nil {
				l.disk.logger.Error().Stringer("partition", l.id).Err(err).Msg("message ids stay in memory")
				return
			}
			note.runs = map[runKey][]byte{keyOfRun(run): bytes}
		}
	}
	l.disk.index.noteDedupe(l.id, func(m *logMeta) (dedupeNote, bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.memory != memory || !memory.CommitFlush(f, run) {
			return dedupeNote{}, false
		}
		if !f.Unchanged {
			note.dropped, l.stored = !l.stored, true // what an index that was mended has kept of old
		}
		l.countHeld()
		l.describeLocked(m)
		return note, true
	})
}

// keepRemembering has the index know, durably, what the log tells below an offset, and
// that it won't tell it any more: a compaction is about to take it from there (D11). How far
// that came, the index may not know after a crash. errLogChanged: it was not to be had.
func (l *Log) keepRemembering(below int64) error {
	l.awaitLearned()
	l.mu.Lock()
	if l.memory == nil {
		l.mu.Unlock()
		return nil
	}
	was := l.imported
	l.imported = max(was, below)
	l.mu.Unlock()
	if was < below {
		l.disk.index.update(l.id, l.describe)
	}
	l.flushBelow(below, 0, false)
	l.mu.Lock()
	covered := l.memory != nil && l.memory.Covered() >= below
	if !covered && was < below && l.imported == below {
		l.imported = was // the log goes on telling it
	}
	l.mu.Unlock()
	if !covered {
		l.disk.index.update(l.id, l.describe)
		return errLogChanged
	}
	if err := l.disk.index.settle(l.id); !errors.Is(err, ErrDiskNearlyFull) {
		return wrapFailed(l, err)
	}
	return ErrDiskNearlyFull
}

// mergeRuns makes larger runs of small ones, and drops those that expired.
func (l *Log) mergeRuns() {
	for {
		l.mu.Lock()
		memory := l.memory
		var m *dedupe.Merge
		if memory != nil && !l.unmerged && !l.closed {
			m = memory.BeginMerge()
		}
		l.mu.Unlock()
		if m == nil {
			return
		}
		note := dedupeNote{runs: map[runKey][]byte{}}
		for _, r := range m.Replaces {
			note.runs[keyOfRun(r)] = nil
		}
		bytes, err := m.Build(l.readRun)
		var run *dedupe.Run
		if err == nil && bytes != nil {
			run, err = dedupe.OpenRun(bytes)
		}
		if err != nil {
			l.disk.logger.Warn().Stringer("partition", l.id).Err(err).Msg("message ids in the index can't be read")
			l.mu.Lock()
			l.unmerged = l.unmerged || l.memory == memory // a look-up that needs it has it made anew
			l.mu.Unlock()
			return
		}
		if run != nil {
			note.runs[keyOfRun(run)] = bytes
		}
		l.disk.index.noteDedupe(l.id, func(meta *logMeta) (dedupeNote, bool) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.memory != memory || !memory.CommitMerge(m, run) {
				return dedupeNote{}, false
			}
			l.describeLocked(meta)
			return note, true
		})
	}
}

// readRun is a dedupe.Reader that copies the run out of the index.
func (l *Log) readRun(r *dedupe.Run, from, to int) ([]byte, error) {
	return cutRun(l.disk.index.copyRun(l.id, keyOfRun(r)), from, to)
}

// describeMemory writes what the index keeps of the memory besides snapshot and
// runs. Call it under mu.
func (l *Log) describeMemory(m *logMeta) {
	if !l.recalled {
		return
	}
	m.Imported = l.imported
	if l.memory == nil {
		m.Covered, m.Remembers, m.Runs = min(l.synced, l.hole), false, nil
		m.Sound = m.Covered
		return
	}
	m.Covered, m.Remembers, m.Sound = l.memory.Covered(), l.stored, l.memory.Judged()
	if !l.stored { // it began there with what may never be written
		m.Covered = min(m.Covered, l.synced)
		m.Sound = m.Covered
	}
	m.Sound = min(m.Sound, l.doubted)
	runs := l.memory.Runs()
	m.Runs = make([]runKey, 0, len(runs))
	for _, r := range runs {
		m.Runs = append(m.Runs, keyOfRun(r))
	}
}
