package storage

import (
	"errors"
	"io"
	iofs "io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"
)

// errCrashed is what every operation returns after the crash point.
var errCrashed = errors.New("crashed")

// memFS is a file system in memory that can lose what was not synced. It keeps
// two states of everything: what programs see, and what the disk has.
type memFS struct {
	mu      sync.Mutex
	names   map[string]*memFile // as programs see them; directories too
	durable map[string]*memFile // as the disk has them
	ops     int                 // operations that change something, so far
	crashAt int                 // the operation that doesn't end; 0: none
	crashed bool
	room    int64 // bytes left for files; -1: no limit
	// fault, if set, is asked before each changing operation: an error makes it
	// fail without effect (a sync loses the dirty pages for good).
	fault func(op, name string) error
	rng   *rand.Rand
	now   func() time.Time
}

type memFile struct {
	dir      bool
	data     []byte             // as programs see it: the page cache
	stable   []byte             // as the disk has it
	dirty    map[int64]struct{} // sectors that were written since the last sync
	modified time.Time
}

func newMemFS(rng *rand.Rand) *memFS {
	f := &memFS{names: map[string]*memFile{}, durable: map[string]*memFile{}, room: -1, rng: rng, now: func() time.Time { return time.UnixMilli(1) }}
	for _, dir := range []string{"/", "/d", "/d/partitions"} {
		n := &memFile{dir: true}
		f.names[dir], f.durable[dir] = n, n
	}
	return f
}

// step counts an operation; fs.mu is held.
func (f *memFS) step(op, name string) error {
	if f.crashed {
		return errCrashed
	}
	f.ops++
	if f.ops == f.crashAt {
		f.crashed = true
		return errCrashed
	}
	if f.fault != nil {
		return f.fault(op, name)
	}
	return nil
}

func (f *memFS) open(name string, flag int) (file, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.names[name]
	switch {
	case f.crashed:
		return nil, errCrashed
	case n != nil && flag&os.O_EXCL != 0:
		return nil, iofs.ErrExist
	case n == nil && flag&os.O_CREATE == 0:
		return nil, iofs.ErrNotExist
	case n == nil:
		if p := f.names[filepath.Dir(name)]; p == nil || !p.dir {
			return nil, iofs.ErrNotExist
		}
		if err := f.step("create", name); err != nil && !errors.Is(err, errCrashed) {
			return nil, err
		}
		n = &memFile{dirty: map[int64]struct{}{}, modified: f.now()}
		f.names[name] = n
		if f.crashed {
			return nil, errCrashed
		}
	}
	return &memHandle{fs: f, file: n, name: name}, nil
}

func (f *memFS) mkdir(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.names[name] != nil {
		return nil
	}
	if err := f.step("mkdir", name); err != nil {
		return err
	}
	f.names[name] = &memFile{dir: true}
	return nil
}

func (f *memFS) list(name string) ([]dirEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.crashed:
		return nil, errCrashed
	case f.names[name] == nil:
		return nil, iofs.ErrNotExist
	}
	var found []dirEntry
	for path, n := range f.names {
		if filepath.Dir(path) == name && path != name {
			found = append(found, dirEntry{filepath.Base(path), n.dir, int64(len(n.data)), n.modified})
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].name < found[j].name })
	return found, nil
}

func (f *memFS) rename(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.step("rename", from); err != nil {
		return err
	}
	n := f.names[from]
	if n == nil {
		return iofs.ErrNotExist
	}
	delete(f.names, from)
	f.names[to] = n
	return nil
}

func (f *memFS) remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.names[name] == nil {
		return iofs.ErrNotExist
	}
	if err := f.step("remove", name); err != nil && !errors.Is(err, errCrashed) {
		return err
	}
	delete(f.names, name)
	if f.crashed {
		return errCrashed
	}
	return nil
}

func (f *memFS) removeAll(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.step("remove", name); err != nil {
		return err
	}
	for path := range f.names {
		if path == name || strings.HasPrefix(path, name+"/") {
			delete(f.names, path)
		}
	}
	return nil
}

func (f *memFS) syncDir(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.step("syncdir", name); err != nil {
		return err
	}
	for path := range f.durable {
		if filepath.Dir(path) == name && f.names[path] == nil {
			delete(f.durable, path)
		}
	}
	for path, n := range f.names {
		if filepath.Dir(path) == name {
			f.durable[path] = n
		}
	}
	return nil
}

type memHandle struct {
	fs     *memFS
	file   *memFile
	name   string
	closed bool
}

func (h *memHandle) ReadAt(b []byte, off int64) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.closed {
		return 0, os.ErrClosed
	}
	if h.fs.fault != nil {
		if err := h.fs.fault("read", h.name); err != nil {
			return 0, err
		}
	}
	if off >= int64(len(h.file.data)) {
		return 0, io.EOF
	}
	n := copy(b, h.file.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (h *memHandle) writeAt(bufs [][]byte, off int64) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.closed {
		return 0, os.ErrClosed
	}
	all := slices.Concat(bufs...)
	err := h.fs.step("write", h.name)
	switch {
	case errors.Is(err, errCrashed) && h.fs.ops == h.fs.crashAt:
		all = all[:h.fs.rng.IntN(len(all)+1)]
	case err != nil && isDiskFull(err):
		all = all[:h.fs.rng.IntN(len(all))] // a short write
	case err != nil:
		return 0, err
	}
	f := h.file
	if grow := off + int64(len(all)) - int64(len(f.data)); grow > 0 {
		if h.fs.room >= 0 && grow > h.fs.room {
			all, err = all[:max(int64(len(all))-grow+h.fs.room, 0)], syscall.ENOSPC
			grow = off + int64(len(all)) - int64(len(f.data))
		}
		if h.fs.room >= 0 {
			h.fs.room -= max(grow, 0)
		}
		f.data = append(f.data, make([]byte, max(grow, 0))...)
	}
	copy(f.data[off:], all)
	f.touch(off, off+int64(len(all)))
	f.modified = h.fs.now()
	return len(all), err
}

func (f *memFile) touch(from, to int64) {
	for s := from / sectorBytes; s*sectorBytes < to; s++ {
		f.dirty[s] = struct{}{}
	}
}

func (h *memHandle) sync() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.closed {
		return os.ErrClosed
	}
	err := h.fs.step("sync", h.name)
	f := h.file
	switch {
	case errors.Is(err, errCrashed):
		return err
	case err != nil:
		// The pages are dropped: clean in the cache, and never on the disk.
		clear(f.dirty)
		if grow := len(f.data) - len(f.stable); grow > 0 {
			f.stable = append(f.stable, make([]byte, grow)...)
		}
		return err
	}
	f.writeBack(func(int64) bool { return true }, int64(len(f.data)))
	clear(f.dirty)
	return nil
}

// writeBack brings dirty sectors that keep picks to the disk, and the length.
func (f *memFile) writeBack(keep func(sector int64) bool, size int64) {
	if grow := size - int64(len(f.stable)); grow > 0 {
		f.stable = append(f.stable, make([]byte, grow)...)
	}
	f.stable = f.stable[:size]
	for s := range f.dirty {
		if from := s * sectorBytes; keep(s) && from < min(size, int64(len(f.data))) {
			copy(f.stable[from:min(from+sectorBytes, size)], f.data[from:])
		}
	}
}

func (h *memHandle) truncate(size int64) error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.closed {
		return os.ErrClosed
	}
	if err := h.fs.step("truncate", h.name); err != nil && (!errors.Is(err, errCrashed) || h.fs.ops != h.fs.crashAt) {
		return err
	}
	if h.fs.room >= 0 {
		h.fs.room += int64(len(h.file.data)) - size
	}
	h.file.data = h.file.data[:size:size]
	if h.fs.crashed {
		return errCrashed
	}
	return nil
}

func (h *memHandle) dropCache(off, n int64) error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	f := h.file
	for i := off; i < off+n && i < int64(len(f.data)); i++ {
		if _, dirty := f.dirty[i/sectorBytes]; dirty {
			continue
		}
		f.data[i] = 0
		if i < int64(len(f.stable)) {
			f.data[i] = f.stable[i]
		}
	}
	return nil
}

func (h *memHandle) size() (int64, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	return int64(len(h.file.data)), nil
}

func (h *memHandle) Close() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.closed {
		return os.ErrClosed
	}
	h.closed = true
	return nil
}

// What a crash may do with what wasn't synced.
const (
	crashKeepsAll = iota // the process died, the machine didn't
	crashDropsAll
	crashTears    // what was written first is there up to some byte
	crashReorders // each page by itself is there or not
	crashModes
)

// crash returns the file system as the next start finds it.
func (f *memFS) crash(mode int) *memFS {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := newMemFS(f.rng)
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
	sort.Strings(ordered) // parents first, and the same order for the same seed
	for _, p := range ordered {
		n := f.names[p]
		if n != f.durable[p] && (mode == crashDropsAll || mode != crashKeepsAll && f.rng.IntN(2) == 0) {
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
	case crashKeepsAll:
		n.writeBack(func(int64) bool { return true }, size)
	case crashDropsAll:
	case crashTears:
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
	case crashReorders:
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
