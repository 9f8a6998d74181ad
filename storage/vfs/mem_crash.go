package vfs

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sort"
	"time"
)

// ErrCrashed is what every operation returns after the crash point.
var ErrCrashed = errors.New("vfs: crashed")

// CrashAt has the file system crash at the n-th changing operation from now on; 0:
// never. A write that it hits may have reached the page cache in part.
func (f *Mem) CrashAt(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crashAt = 0
	if n > 0 {
		f.crashAt = f.ops + n
	}
}

// Stop ends the process that uses the file system: all it does fails from now on.
func (f *Mem) Stop() { f.mu.Lock(); f.crashed = true; f.mu.Unlock() }

// Reseed replaces the source of what happens by chance.
func (f *Mem) Reseed(rng *rand.Rand) { f.mu.Lock(); f.rng = rng; f.mu.Unlock() }

// Crashed says that the crash point was reached, or Stop called.
func (f *Mem) Crashed() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.crashed }

// Ops counts the operations that changed something.
func (f *Mem) Ops() int { f.mu.Lock(); defer f.mu.Unlock(); return f.ops }

// Step counts an operation of something else on the same machine.
func (f *Mem) Step(op, name string) error { f.mu.Lock(); defer f.mu.Unlock(); return f.step(op, name) }

// SetRoom says how many bytes files may still grow; -1: no limit.
func (f *Mem) SetRoom(bytes int64) { f.mu.Lock(); f.room = bytes; f.mu.Unlock() }

// SetNow sets the clock for times of modification.
func (f *Mem) SetNow(now func() time.Time) { f.mu.Lock(); f.now = now; f.mu.Unlock() }

// SetFault has fault asked before each changing operation ("create", "mkdir",
// "write", "sync", "truncate", "rename", "remove", "syncdir") and each "read": an
// error makes it fail without effect, but that a failed sync loses the dirty pages
// for good (S4) and ENOSPC writes a part (S5). fault must not call the file system.
func (f *Mem) SetFault(fault func(op, name string) error) {
	f.mu.Lock()
	f.fault = fault
	f.mu.Unlock()
}

// SetDelay has each write and sync take that long.
func (f *Mem) SetDelay(delay func(op, name string) time.Duration) {
	f.mu.Lock()
	f.delay = delay
	f.mu.Unlock()
}

// wait takes as long as the delay says. fs.mu isn't held.
func (f *Mem) wait(op, name string) {
	f.mu.Lock()
	delay := f.delay
	f.mu.Unlock()
	if delay != nil {
		time.Sleep(delay(op, name))
	}
}

// Files lists the files, in order.
func (f *Mem) Files() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for name, n := range f.names {
		if !n.dir {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Content is what programs see of a file; nil: there is none.
func (f *Mem) Content(name string) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.names[name]; n != nil {
		return append([]byte{}, n.data...)
	}
	return nil
}

// SetContent changes a file on the disk, behind everybody's back, and makes it if
// it is missing. nil removes it.
func (f *Mem) SetContent(name string, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if data == nil {
		delete(f.names, name)
		delete(f.durable, name)
		return
	}
	n := f.names[name]
	if n == nil {
		n = &memFile{modified: f.now()}
		f.names[name], f.durable[name] = n, n
	}
	n.data, n.stable, n.dirty = slices.Clone(data), slices.Clone(data), map[int64]struct{}{}
}

// What a crash may do with what wasn't synced.
const (
	CrashKeepsAll = iota // the process died, the machine didn't
	CrashDropsAll
	CrashTears    // what was written first is there up to some byte
	CrashReorders // each page by itself is there or not
	CrashModes    // how many there are
)

// Crash returns the file system as the next start finds it, after a crash of that
// mode. Whoever still uses the old one gets ErrCrashed for everything.
func (f *Mem) Crash(mode int) *Mem {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crashed = true
	next := NewMem(f.rng)
	next.now, next.room = f.now, f.room
	paths := map[string]bool{}
	for p := range f.names {
		paths[p] = true
	}
	for p := range f.durable {
		paths[p] = true
	}
	ordered := make([]string, 0, len(paths))
	for p := range paths {
		ordered = append(ordered, p)
	}
	sort.Strings(ordered)          // parents first, and the same order for the same seed
	forgotten := map[string]bool{} // whether what happened to a name didn't reach the disk
	for _, p := range ordered {
		first := f.movedFrom(p)
		if _, decided := forgotten[first]; f.names[p] != f.durable[p] && !decided {
			forgotten[first] = mode == CrashDropsAll || mode != CrashKeepsAll && f.rng.IntN(2) == 0
		}
	}
	for _, p := range ordered {
		n := f.names[p]
		if n != f.durable[p] && forgotten[f.movedFrom(p)] {
			n = f.durable[p]
		}
		if n == nil || next.names[filepath.Dir(p)] == nil {
			continue
		}
		if n.dir {
			n = &memFile{dir: true}
		} else {
			n = n.crash(mode, f.rng)
		}
		next.names[p], next.durable[p] = n, n
	}
	return next
}

// movedFrom is the same name for all that renames have connected: a rename reaches the
// disk whole or not at all, as in every journalling file system.
func (f *Mem) movedFrom(path string) string {
	linked := []string{path}
	for i := 0; i < len(linked); i++ {
		for _, m := range f.moved {
			for k, other := range []string{m[1], m[0]} {
				if m[k] == linked[i] && !slices.Contains(linked, other) {
					linked = append(linked, other)
				}
			}
		}
	}
	return slices.Min(linked)
}

func (f *memFile) crash(mode int, rng *rand.Rand) *memFile {
	n := &memFile{data: slices.Clone(f.data), stable: slices.Clone(f.stable), dirty: map[int64]struct{}{}, modified: f.modified}
	for s := range f.dirty {
		n.dirty[s] = struct{}{}
	}
	dirty := make([]int64, 0, len(f.dirty))
	for s := range f.dirty {
		dirty = append(dirty, s)
	}
	slices.Sort(dirty)
	size := int64(len(f.data))
	switch mode {
	case CrashKeepsAll:
		n.writeBack(func(int64) bool { return true }, size)
	case CrashDropsAll:
	case CrashTears:
		if len(dirty) == 0 {
			break
		}
		from := dirty[0] * sectorBytes
		cut := from + rng.Int64N(max(size-from, 1))
		torn := append(slices.Clone(n.data[:min(cut, size)]), f.stable[min(cut, int64(len(f.stable))):]...)
		if grow := size - int64(len(torn)); grow > 0 && rng.IntN(2) == 0 { // the length was on the disk already
			torn = append(torn, make([]byte, grow)...)
		}
		n.stable = torn
	case CrashReorders:
		pageSectors := []int64{1, pageBytes / sectorBytes}[rng.IntN(2)]
		kept, extent := map[int64]bool{}, int64(len(f.stable))
		for _, s := range dirty {
			page := s / pageSectors
			if _, decided := kept[page]; !decided {
				kept[page] = rng.IntN(2) == 0
			}
			if kept[page] {
				extent = max(extent, min((s+1)*sectorBytes, size))
			}
		}
		if rng.IntN(2) == 0 {
			extent = max(extent, size)
		}
		if size < int64(len(f.stable)) && rng.IntN(2) == 0 {
			extent = size // a truncation that reached the disk
		}
		n.writeBack(func(s int64) bool { return kept[s/pageSectors] }, extent)
	}
	n.data = slices.Clone(n.stable)
	clear(n.dirty)
	return n
}
