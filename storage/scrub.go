package storage

import (
	"context"
	"slices"
	"time"

	"highwater/storage/vfs"
)

// Closed segments are read again now and then, so that a bit that flipped on the
// disk is found while other replicas still have it (S8).
const (
	// scrubBytesPerSecond bounds what the scrub reads, of all logs together: a few
	// percent of a slow disk's rate, and 345 GB a day.
	scrubBytesPerSecond = 4 << 20
	// scrubAfter is the age at which a segment is read for the first time: by then it
	// is long on the disk, and rarely in the page cache.
	scrubAfter = time.Hour
	// scrubEvery is the time between two looks at a segment.
	scrubEvery = 7 * 24 * time.Hour
	// scrubPause is the time between two walks over all logs.
	scrubPause = time.Minute
)

// scrub reads the closed segments that are due, one after the other, until ctx ends.
func (s *Store) scrub(ctx context.Context) error {
	for _, l := range s.opened(false) {
		for _, g := range l.scrubDue(s.disk.nowMs()) {
			if ctx.Err() != nil {
				return nil
			}
			s.scrubbed.Add(l.scrub(ctx, g))
		}
	}
	return nil
}

// scrubDue lists the closed segments that it is time to read.
func (l *Log) scrubDue(nowMs int64) []*segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.failed != nil {
		return nil
	}
	var due []*segment
	for _, g := range l.segments[:max(len(l.segments)-1, 0)] {
		first := g.verified == 0 && nowMs-g.lastAppend >= scrubAfter.Milliseconds()
		again := g.verified > 0 && nowMs-g.verified >= scrubEvery.Milliseconds()
		if first || again {
			due = append(due, g)
		}
	}
	return due
}

// scrub reads a closed segment, slowly and from the disk itself, and has it
// examined if anything in it is wrong that isn't known. It returns how many bytes it read.
func (l *Log) scrub(ctx context.Context, g *segment) (read int64) {
	l.mu.Lock()
	i := slices.Index(l.segments, g)
	if i < 0 || i == len(l.segments)-1 || l.closed {
		l.mu.Unlock()
		return 0
	}
	sec := section{segment: g, size: g.size, next: l.segments[i+1].base, cuts: l.cuts, cursor: -1, damage: l.damage}
	l.mu.Unlock()
	h, err := l.disk.files.acquire(l.dir, g)
	if err != nil {
		return 0 // readers will say what is wrong
	}
	defer l.disk.files.release(h)
	slow := &slowFile{File: h.file, ctx: ctx}
	sound := sec.verify(slow)
	if ctx.Err() != nil {
		return slow.read
	}
	if !sound {
		l.mu.Lock()
		there := slices.Contains(l.segments, g) && !l.closed
		l.mu.Unlock()
		if there {
			l.examine(&sec)
		}
	}
	l.mu.Lock()
	g.verified = l.disk.nowMs()
	l.mu.Unlock()
	return slow.read
}

// verify checks every batch of the section, but for known damage.
func (sec *section) verify(f vfs.File) bool {
	sc := scanner{file: f, size: sec.size}
	next := sec.segment.base
	for pos := int64(0); pos < sec.size; {
		if d := sec.damageAt(pos); d != nil {
			next = max(next, d.To)
			if d.Bytes > 0 {
				pos = sec.skipDamage(pos)
				continue
			}
		}
		b, err := sc.batch(pos)
		if err != nil || b.BaseOffset() != next || b.NextOffset() > sec.next {
			return false
		}
		next = b.NextOffset()
		pos += int64(len(b))
	}
	return true
}

// slowFile reads from the disk, not from its cache, at the scrub's pace.
type slowFile struct {
	vfs.File
	ctx  context.Context
	read int64
}

func (f *slowFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.DropCache(off, int64(len(b))); err != nil {
		return 0, err
	}
	n, err := f.File.ReadAt(b, off)
	f.read += int64(n)
	pause := time.NewTimer(time.Duration(n) * time.Second / scrubBytesPerSecond)
	defer pause.Stop()
	select {
	case <-f.ctx.Done():
		return 0, f.ctx.Err()
	case <-pause.C:
	}
	return n, err
}
