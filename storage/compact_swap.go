package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"highwater/storage/vfs"
)

// swapSuffix ends the name of a compacted segment that is about to take the place of
// all segments in [base, next): "<base>-<next>.swap", both with 20 digits. From the
// moment on in which that name is durable, they are replaced: whatever a crash keeps
// from being done, the next start does.
const swapSuffix = ".swap"

func swapName(base, next int64) string { return fmt.Sprintf("%020d-%020d%s", base, next, swapSuffix) }

// parseSwapName is swapName's inverse; false for any other name.
func parseSwapName(name string) (base, next int64, ok bool) {
	numbers, ok := strings.CutSuffix(name, swapSuffix)
	if !ok || len(numbers) != 41 || numbers[20] != '-' {
		return 0, 0, false
	}
	base, errBase := strconv.ParseInt(numbers[:20], 10, 64)
	next, errNext := strconv.ParseInt(numbers[21:], 10, 64)
	return base, next, errBase == nil && errNext == nil && base >= 0 && base < next && swapName(base, next) == name
}

// isCleanedName tells the name of a compacted segment that wasn't finished.
func isCleanedName(name string) bool {
	segment, ok := strings.CutSuffix(name, cleanedSuffix)
	if ok {
		_, ok = parseSegmentName(segment)
	}
	return ok
}

// swap puts the new file into the place of the old ones. Who reads one of them goes
// on reading it: it is open. The remover's role keeps everything away that would
// change or remove closed segments; appends go on.
func (c *compaction) swap(w *cleanedWriter, old []compactSegment) error {
	l := c.log
	l.take(&l.remover)
	defer l.releaseRemover()
	base, next := old[0].base, old[len(old)-1].next
	l.mu.Lock()
	at := slices.Index(l.segments, old[0].segment)
	unchanged := l.cuts == c.plan.cuts && at >= 0 && len(l.damage) == 0 && !l.closed && l.failed == nil
	for i := range old {
		unchanged = unchanged && l.segments[at+i] == old[i].segment
	}
	l.mu.Unlock()
	if !unchanged {
		return w.abandon(errLogChanged)
	}
	fs, swap := l.disk.fs, filepath.Join(l.dir, swapName(base, next))
	if err := fs.Rename(w.name(), swap); err != nil {
		return w.abandon(err)
	}
	if err := fs.SyncDir(l.dir); err != nil {
		return l.fail(fmt.Errorf("compaction: %w", err))
	}
	s := newSegment(base)
	h := l.disk.files.adopt(s, w.file)
	defer l.disk.files.release(h)
	s.size, s.synced, s.indexed, s.maxTimestamp = w.at, w.at, w.indexed, w.maxTimestamp
	s.firstAppend, s.lastAppend = old[0].firstAppend, old[len(old)-1].lastAppend
	s.verified = c.now
	c.publish(s, old)
	var bases []int64
	for _, o := range old[1:] {
		bases = append(bases, o.base)
	}
	for _, o := range old {
		l.disk.files.retire(o.segment)
	}
	if err := finishSwap(l.disk, l.dir, swap, base, bases); err != nil {
		return l.fail(fmt.Errorf("compaction: %w", err))
	}
	l.disk.index.replaceOffsets(l.id, base, next, w.offsets)
	// At once, or a crash would have the whole log read from here on: nothing else tells
	// a segment that was replaced from one that was cut off.
	err := l.disk.index.updateNow(l.id, l.describe)
	if errors.Is(err, ErrDiskNearlyFull) {
		return err // it stays noted
	}
	return wrapFailed(l, err)
}

// publish shows the new segment to readers in place of the old ones.
func (c *compaction) publish(s *segment, old []compactSegment) {
	l := c.log
	l.take(&l.writer) // or the writer's look at the list and its change of it would not be one
	defer l.releaseWriter()
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(l.segments, old[0].segment)
	l.segments = slices.Concat(l.segments[:at], []*segment{s}, l.segments[at+len(old):])
	l.cuts++ // whoever looked up one of the old ones looks again
	c.plan.cuts++
	l.cursors = [4]cursor{}
}

// finishSwap removes the old segments and gives the new one its name. Each step may be
// the last one before a crash, and doing all of them again is harmless.
func finishSwap(d *disk, dir, swap string, base int64, replaced []int64) error {
	fs := d.fs
	for _, b := range replaced {
		if err := fs.Remove(filepath.Join(dir, segmentName(b))); err != nil {
			return err
		}
	}
	if len(replaced) > 0 { // while the swap's name still says that they are to go
		if err := fs.SyncDir(dir); err != nil {
			return err
		}
	}
	err := withSpace(d.outOfSpace, func() error { return fs.Rename(swap, filepath.Join(dir, segmentName(base))) })
	if err != nil {
		return err
	}
	return fs.SyncDir(dir)
}

// finishCompaction does at a start what a crash kept a compaction from doing. It
// tells whether it changed anything.
func (l *Log) finishCompaction(entries []vfs.Entry) (changed bool, err error) {
	for _, e := range entries {
		if e.Dir {
			continue
		}
		if isCleanedName(e.Name) {
			if err := vfs.RemoveFile(l.disk.fs, filepath.Join(l.dir, e.Name)); err != nil {
				return changed, err
			}
			changed = true
			continue
		}
		base, next, ok := parseSwapName(e.Name)
		if !ok {
			continue
		}
		var replaced []int64
		for _, o := range entries {
			if b, ok := parseSegmentName(o.Name); ok && b > base && b < next {
				replaced = append(replaced, b)
			}
		}
		if err := finishSwap(l.disk, l.dir, filepath.Join(l.dir, e.Name), base, replaced); err != nil {
			return changed, err
		}
		changed = true
		l.disk.logger.Info().Stringer("partition", l.id).Int64("segment", base).Int("replaced", len(replaced)).Msg("finished a compaction that a crash interrupted")
	}
	return changed, nil
}
