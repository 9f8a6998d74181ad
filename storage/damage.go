package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Damage is never cut out of a segment: good batches behind it would lose their
// places. The bytes stay where they are, a copy goes to quarantine/ in the data
// directory, and the range of offsets is remembered: reading there is a
// *CorruptError, reading before and after works.

func (d *damage) err(id PartitionID) *CorruptError {
	return &CorruptError{
		Path:     filepath.Join("partitions", id.String(), segmentName(d.Segment)),
		Position: d.Position,
		Reason:   fmt.Sprintf("offsets [%d, %d) are lost", d.From, d.To),
	}
}

// quarantine copies a stretch of a segment to quarantine/ and returns the copy's
// file name. A copy that is there already is good: names tell all.
func (l *Log) quarantine(sc *scanner, base int64, s stretch) (string, error) {
	if s.end == s.pos {
		return "", nil
	}
	fs, dir := l.disk.fs, filepath.Join(l.disk.dir, "quarantine")
	if err := fs.Mkdir(dir); err != nil {
		return "", err
	}
	name := fmt.Sprintf("%s-%020d-%d-%d.bad", l.id, base, s.pos, s.end)
	f, err := fs.Open(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR)
	if err != nil {
		return "", err
	}
	for pos := s.pos; pos < s.end && err == nil; {
		w := sc.window(pos, int(min(scanBytes, s.end-pos)))
		_, err = f.WriteBuffers([][]byte{w}, pos-s.pos)
		pos += int64(len(w))
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = fs.SyncDir(dir)
	}
	if err == nil {
		err = fs.SyncDir(l.disk.dir)
	}
	return name, err
}

// sortDamage puts the ranges in order and lets each appear once.
func sortDamage(list []damage) []damage {
	slices.SortFunc(list, func(a, b damage) int {
		if a.From != b.From {
			return int(min(max(a.From-b.From, -1), 1))
		}
		return int(min(max(a.Position-b.Position, -1), 1))
	})
	return slices.CompactFunc(list, damage.same)
}

// same says that both are about the same bytes and offsets.
func (d damage) same(e damage) bool {
	return d.From == e.From && d.To == e.To && d.Segment == e.Segment && d.Position == e.Position && d.Bytes == e.Bytes
}

// examine looks through a segment in which a reader found something wrong, so
// that the damage is known and what lies behind it can be read.
func (l *Log) examine(sec *section) {
	l.mu.Lock()
	if l.examining || l.cuts != sec.cuts || l.closed {
		l.mu.Unlock()
		return
	}
	l.examining = true
	limit := min(sec.next, l.written)
	l.mu.Unlock()

	found, err := l.findDamage(sec, limit)
	if err != nil && !errors.Is(err, errSegmentGone) {
		l.disk.logger.Error().Err(err).Stringer("partition", l.id).Msg("cannot examine a damaged segment")
	}
	l.mu.Lock()
	l.examining = false
	before := l.damage
	if l.cuts == sec.cuts {
		kept := slices.Clone(before)
		if err == nil { // a whole look at a segment tells all, but of what is missing behind it
			kept = slices.DeleteFunc(kept, func(d damage) bool { return d.Segment == sec.segment.base && d.Position < sec.size })
		}
		l.damage = sortDamage(append(kept, found...))
	}
	changed := !slices.EqualFunc(before, l.damage, damage.same)
	l.mu.Unlock()
	if changed {
		l.disk.index.update(l.id, l.describe)
	}
}

// findDamage scans a segment up to its published size.
func (l *Log) findDamage(sec *section, limit int64) ([]damage, error) {
	h, err := l.disk.files.acquire(l.dir, sec.segment)
	if err != nil {
		return nil, err
	}
	defer l.disk.files.release(h)
	sc := scanner{file: h.file, size: sec.size}
	bad, _ := sc.scan(0, sec.segment.base, limit, func(Batch, int64) {})
	var found []damage
	for _, s := range bad {
		if s.to < 0 {
			s.to = limit
		}
		d, err := l.keepDamage(&sc, sec.segment.base, s)
		if err != nil {
			return found, err
		}
		found = append(found, d)
	}
	return found, nil
}

// keepDamage quarantines a stretch, logs it, and describes it.
func (l *Log) keepDamage(sc *scanner, base int64, s stretch) (damage, error) {
	name, err := l.quarantine(sc, base, s)
	l.disk.logger.Error().Stringer("partition", l.id).Int64("segment", base).Int64("position", s.pos).Int64("bytes", s.end-s.pos).
		Int64("from_offset", s.from).Int64("to_offset", s.to).Str("copy", name).Str("reason", s.reason).Msg("segment is damaged")
	return damage{From: s.from, To: s.to, Segment: base, Position: s.pos, Bytes: s.end - s.pos, Copy: name}, err
}
