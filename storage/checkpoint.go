package storage

import "slices"

// checkpoint is what changes often and is told to the index now and then.
type checkpoint struct {
	synced, hw int64
}

// CheckpointHighWatermark notes hw for the next checkpoint (every 5 s and at Close).
func (l *Log) CheckpointHighWatermark(hw int64) {
	l.mu.Lock()
	l.hw = hw
	l.flushSoon()
	l.mu.Unlock()
}

// CheckpointedHighWatermark is the last checkpoint, clamped to the log (R34).
func (l *Log) CheckpointedHighWatermark() int64 { l.mu.Lock(); defer l.mu.Unlock(); return l.hw }

// checkpoint tells the index how far the log is fsynced, if that changed: where
// recovery begins after an unclean stop. The store calls it every few seconds.
func (l *Log) checkpoint() {
	l.mu.Lock()
	now := checkpoint{l.synced, l.hw}
	changed := now != l.checkpointed && l.failed == nil && !l.closed
	l.checkpointed = now
	if l.disk.heldIDs.Load() > heldIDs {
		l.flushSoon() // also what nobody appends to gives up its ids
	}
	l.mu.Unlock()
	if changed {
		l.disk.index.update(l.id, l.describe)
	}
}

// describe writes what the index keeps of the log. It is a callback of the
// index: what it writes is the state at that moment, so that two updates can't
// overtake each other with old figures.
func (l *Log) describe(m *logMeta) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.describeLocked(m)
}

// describeLocked is describe under mu.
func (l *Log) describeLocked(m *logMeta) {
	l.describeMemory(m)
	m.Start, m.Flushed, m.HighWatermark = l.start, l.synced, l.hw
	m.Epochs, m.Damage, m.Lossy = slices.Clone(l.epochs), slices.Clone(l.damage), l.lossReason != ""
	m.Resetting, m.Cleaned, m.Horizon = l.resetting, l.cleaned, l.horizon
	m.Segments = make([]segmentMeta, 0, len(l.segments))
	for _, s := range l.segments {
		sm := s.meta()
		sm.Size = s.synced // the size that belongs to Flushed
		m.Segments = append(m.Segments, sm)
	}
}
