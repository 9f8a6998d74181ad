package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// rollNoteInterval bounds how often rolls are told to the index: telling costs as
// much as the log has segments, and tiny ones are rolled thousands of times a
// second. The next checkpoint tells the rest.
const rollNoteInterval = time.Second

// roundWriter writes one round. It works on copies of what it changes, which
// publish then makes known.
type roundWriter struct {
	log            *Log
	cfg            LogConfig
	saveMeta       bool  // an epoch must be durable before its first byte is written (R49)
	settle         bool  // what the index was told of the log must be
	indexKnows     bool  // both are done
	maxTimestamp   int64 // of the log
	notedTimestamp int64

	// touched: the segment that was active, if there was one, and those made since.
	touched []segmentState
	handle  *handle // of the last of touched; nil: not open yet
	unpin   []*handle
	bufs    [][]byte // to be written at at
	at      int64

	// marks[i] is where groups[i] begins.
	marks []mark
	// whole counts the groups that are in the log.
	whole int
	// final: the error can't be mended (S4).
	final bool

	offsets []indexEntry
	times   []timeEntry
}

// segmentState is what a round changes in a segment.
type segmentState struct {
	segment      *segment
	size, synced int64
	maxTimestamp int64
	firstAppend  int64
	lastAppend   int64
	indexed      int64
}

func (s *segment) state() segmentState {
	return segmentState{s, s.size, s.synced, s.maxTimestamp, s.firstAppend, s.lastAppend, s.indexed}
}

func (s *segment) apply(t *segmentState) {
	s.size, s.maxTimestamp, s.firstAppend, s.lastAppend, s.indexed = t.size, t.maxTimestamp, t.firstAppend, t.lastAppend, t.indexed
	s.synced = max(s.synced, t.synced)
}

// mark is a state to which the writer can go back.
type mark struct {
	touched                      int // segments
	state                        segmentState
	offsets, times               int
	maxTimestamp, notedTimestamp int64
}

// newRoundWriter begins at the log's end. Call it under Log.mu, as the writer.
func newRoundWriter(l *Log) *roundWriter {
	w := &roundWriter{log: l, cfg: l.cfg, saveMeta: l.epochPending, settle: l.unsettled, maxTimestamp: l.maxTimestamp, notedTimestamp: l.notedTimestamp}
	if s := l.active(); s != nil {
		w.touched = append(w.touched, s.state())
		w.at = s.size
	}
	return w
}

// write writes the groups, rolling where needed. When the disk is full, it takes
// back the groups that aren't whole (S5); after any other error the log has failed.
func (w *roundWriter) write(groups []group) error {
	l := w.log
	if w.saveMeta {
		if err := l.disk.index.updateNow(l.id, l.describe); err != nil {
			return w.untold(err)
		}
	} else if w.settle {
		if err := l.disk.index.settle(l.id); err != nil {
			return w.untold(err)
		}
	}
	w.indexKnows = true
	for i := range groups {
		g := &groups[i]
		w.marks = append(w.marks, w.mark())
		for _, b := range g.batches {
			if err := w.add(b, g.appendTime); err != nil {
				return w.takeBack(err)
			}
		}
	}
	if err := w.flush(); err != nil {
		return w.takeBack(err)
	}
	w.whole = len(groups)
	return nil
}

// add queues a batch for the next flush, in a new segment if it is time for one.
func (w *roundWriter) add(b Batch, appendTime int64) error {
	if len(w.touched) == 0 || w.mustRoll(len(b), appendTime) {
		if err := w.roll(b.BaseOffset()); err != nil {
			return err
		}
	}
	t := &w.touched[len(w.touched)-1]
	if t.indexed < 0 || t.size-t.indexed >= indexEveryBytes {
		t.indexed = t.size
		w.offsets = append(w.offsets, indexEntry{Offset: b.BaseOffset(), Segment: t.segment.base, Position: t.size})
		if w.maxTimestamp > w.notedTimestamp {
			w.notedTimestamp = w.maxTimestamp
			w.times = append(w.times, timeEntry{MaxTimestamp: w.maxTimestamp, Offset: b.BaseOffset()})
		}
	}
	if t.firstAppend == 0 {
		t.firstAppend = appendTime
	}
	t.lastAppend = appendTime
	t.maxTimestamp = max(t.maxTimestamp, b.MaxTimestamp())
	w.maxTimestamp = max(w.maxTimestamp, t.maxTimestamp)
	t.size += int64(len(b))
	w.bufs = append(w.bufs, b)
	return nil
}

func (w *roundWriter) mustRoll(more int, nowMs int64) bool {
	t := &w.touched[len(w.touched)-1]
	return t.size > 0 && (w.cfg.SegmentBytes > 0 && t.size+int64(more) > w.cfg.SegmentBytes || t.tooOld(w.cfg.SegmentAge, nowMs))
}

// tooOld tells that a segment must be rolled before an append at nowMs.
func (t *segmentState) tooOld(age time.Duration, nowMs int64) bool {
	return age > 0 && t.firstAppend > 0 && nowMs-t.firstAppend >= age.Milliseconds()
}

// roll closes the active segment, durably, and begins one at base.
func (w *roundWriter) roll(base int64) error {
	if err := w.flush(); err != nil {
		return err
	}
	l := w.log
	if len(w.touched) > 0 {
		t := &w.touched[len(w.touched)-1]
		if t.synced < t.size {
			if err := w.open(); err != nil {
				return err
			}
			if err := l.disk.sync(w.handle.file); err != nil {
				w.final = true
				return fmt.Errorf("fsync of %s: %w", segmentName(t.segment.base), err)
			}
			t.synced = t.size
		}
		if w.handle != nil {
			l.disk.files.release(w.handle)
			w.handle = nil
		}
	}
	s, h, err := l.createSegment(base)
	if err != nil {
		return err
	}
	w.touched = append(w.touched, s.state())
	w.handle, w.at = h, 0
	return nil
}

func (w *roundWriter) open() (err error) {
	if w.handle == nil {
		w.handle, err = w.log.disk.files.acquire(w.log.dir, w.touched[len(w.touched)-1].segment)
	}
	return err
}

// flush writes what is queued.
func (w *roundWriter) flush() error {
	if len(w.bufs) == 0 {
		return nil
	}
	if err := w.open(); err != nil {
		return err
	}
	n, err := w.handle.file.WriteBuffers(w.bufs, w.at)
	w.at += int64(n)
	clear(w.bufs)
	w.bufs = w.bufs[:0]
	return err
}

func (w *roundWriter) mark() mark {
	m := mark{touched: len(w.touched), offsets: len(w.offsets), times: len(w.times), maxTimestamp: w.maxTimestamp, notedTimestamp: w.notedTimestamp}
	if m.touched > 0 {
		m.state = w.touched[m.touched-1]
	}
	return m
}

// takeBack cuts the log back to the begin of the first group that isn't whole, if
// err says that there was no room for it. Else it abandons all.
func (w *roundWriter) takeBack(err error) error {
	if w.final || !isRefusal(err) {
		return w.abandon(err)
	}
	// The last group begun isn't whole, and those before it are if they end at or
	// before w.at: earlier segments were flushed.
	k := len(w.marks) - 1
	for k > 0 && w.marks[k].touched == len(w.touched) && w.marks[k].state.size > w.at {
		k--
	}
	m := w.marks[k]
	if cutErr := w.cut(m); cutErr != nil {
		return w.abandon(fmt.Errorf("taking back a write (%w): %w", err, cutErr))
	}
	w.whole = k
	w.offsets, w.times = w.offsets[:m.offsets], w.times[:m.times]
	w.maxTimestamp, w.notedTimestamp = m.maxTimestamp, m.notedTimestamp
	return err
}

// cut removes everything after m from the disk, durably: what was refused must
// not come back after a crash.
func (w *roundWriter) cut(m mark) error {
	l := w.log
	if len(w.touched) > m.touched {
		w.close()
	}
	for len(w.touched) > m.touched && len(w.touched) > 0 {
		s := w.touched[len(w.touched)-1].segment
		if err := l.removeSegment(s); err != nil {
			return err
		}
		w.touched = w.touched[:len(w.touched)-1]
	}
	if m.touched == 0 {
		return nil
	}
	w.touched[m.touched-1] = m.state
	if err := w.open(); err != nil {
		return err
	}
	if err := w.handle.file.Truncate(m.state.size); err != nil {
		return err
	}
	if err := l.disk.sync(w.handle.file); err != nil {
		return err
	}
	w.touched[m.touched-1].synced = m.state.size
	return nil
}

// untold: the index doesn't know what it must know before the first byte is written.
func (w *roundWriter) untold(err error) error {
	if errors.Is(err, ErrDiskNearlyFull) {
		return err // nothing is to take back
	}
	return w.abandon(err)
}

// abandon publishes nothing: the log has failed.
func (w *roundWriter) abandon(err error) error {
	w.final, w.whole, w.touched, w.offsets, w.times = true, 0, nil, nil, nil
	w.close()
	return err
}

func (w *roundWriter) close() {
	if w.handle != nil {
		w.log.disk.files.release(w.handle)
		w.handle = nil
	}
}

// pin keeps the active segment's file open as long as it holds bytes that were
// not synced, so that a failed write-back can't go unseen. Call it under Log.mu.
func (w *roundWriter) pin() {
	last := len(w.touched) - 1
	for i := range w.touched[:max(last, 0)] {
		if s := w.touched[i].segment; s.pinned != nil {
			w.unpin = append(w.unpin, s.pinned)
			s.pinned = nil
		}
	}
	if w.handle == nil || w.log.disk.mode == FsyncNever {
		return
	}
	if s := w.touched[last].segment; s.pinned == nil && s.synced < s.size {
		s.pinned, w.handle = w.handle, nil
	}
}

// note tells the index what was written, and lets go of files.
func (w *roundWriter) note() {
	l := w.log
	w.close()
	for _, h := range w.unpin {
		l.disk.files.release(h)
	}
	if len(w.offsets) > 0 {
		l.disk.index.addOffsets(l.id, w.offsets)
	}
	if len(w.times) > 0 {
		l.disk.index.addTimes(l.id, w.times)
	}
	if now := l.disk.nowMs(); len(w.touched) > 1 && now-l.rollNoted >= rollNoteInterval.Milliseconds() {
		l.rollNoted = now
		l.disk.index.update(l.id, l.describe)
	}
}

// told is what those who wait are told of the round's error.
func (w *roundWriter) told(err error) error {
	switch {
	case err == nil:
		return nil
	case w.final:
		return &FailedError{Cause: err}
	case foundNoRoom(err):
		return ErrDiskNearlyFull
	case isOutOfFiles(err):
		return ErrTooManyFiles
	}
	return fmt.Errorf("storage: not written: %w", err)
}

// isRefusal: there was no room or no descriptor left, and the disk is sound (S5, F50).
func isRefusal(err error) bool {
	return isDiskFull(err) || isOutOfFiles(err)
}

// removeSegment deletes a segment's file and makes that durable.
func (l *Log) removeSegment(s *segment) error {
	l.disk.files.retire(s)
	if err := l.disk.fs.Remove(filepath.Join(l.dir, segmentName(s.base))); err != nil {
		return err
	}
	return l.disk.fs.SyncDir(l.dir)
}
