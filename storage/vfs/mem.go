package vfs

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

// sectorBytes is the smallest unit that a disk writes whole, pageBytes that of the
// page cache.
const (
	sectorBytes = 512
	pageBytes   = 4 << 10
)

// Mem is a file system in memory that can lose what was not synced. It keeps
// two states of everything: what programs see, and what the disk has. What it
// does by chance depends on its random source and the order of calls alone.
type Mem struct {
	mu      sync.Mutex          // guards everything below
	names   map[string]*memFile // as programs see them; directories too
	durable map[string]*memFile // as the disk has them
	moved   [][2]string         // files that were renamed, from and to, and their directories not synced since
	ops     int                 // operations that change something, so far
	crashAt int                 // the operation that doesn't end; 0: none
	crashed bool
	room    int64 // bytes left for files; -1: no limit
	fault   func(op, name string) error
	delay   func(op, name string) time.Duration
	rng     *rand.Rand
	now     func() time.Time
}

var _ FS = (*Mem)(nil)

type memFile struct {
	dir      bool
	data     []byte             // as programs see it: the page cache
	stable   []byte             // as the disk has it
	dirty    map[int64]struct{} // sectors that were written since the last sync
	modified time.Time
}

// NewMem makes an empty file system with these directories, parents first.
func NewMem(rng *rand.Rand, dirs ...string) *Mem {
	f := &Mem{names: map[string]*memFile{}, durable: map[string]*memFile{}, room: -1, rng: rng, now: time.Now}
	for _, dir := range append([]string{"/"}, dirs...) {
		n := &memFile{dir: true}
		f.names[dir], f.durable[dir] = n, n
	}
	return f
}

// OnDisk is false: bbolt and flock can't be used on it.
func (f *Mem) OnDisk() bool { return false }

// step counts an operation; fs.mu is held.
func (f *Mem) step(op, name string) error {
	if f.crashed {
		return ErrCrashed
	}
	f.ops++
	if f.ops == f.crashAt {
		f.crashed = true
		return ErrCrashed
	}
	if f.fault != nil {
		return f.fault(op, name)
	}
	return nil
}

// Open is FS.Open.
func (f *Mem) Open(name string, flag int) (File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.names[name]
	switch {
	case f.crashed:
		return nil, ErrCrashed
	case n != nil && flag&os.O_EXCL != 0:
		return nil, iofs.ErrExist
	case n == nil && flag&os.O_CREATE == 0:
		return nil, iofs.ErrNotExist
	case n == nil:
		if p := f.names[filepath.Dir(name)]; p == nil || !p.dir {
			return nil, iofs.ErrNotExist
		}
		if err := f.step("create", name); err != nil && !errors.Is(err, ErrCrashed) {
			return nil, err
		}
		n = &memFile{dirty: map[int64]struct{}{}, modified: f.now()}
		f.names[name] = n
		if f.crashed {
			return nil, ErrCrashed
		}
	}
	return &memHandle{fs: f, file: n, name: name}, nil
}

// Mkdir is FS.Mkdir.
func (f *Mem) Mkdir(name string) error {
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

// List is FS.List.
func (f *Mem) List(name string) ([]Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.crashed:
		return nil, ErrCrashed
	case f.names[name] == nil:
		return nil, iofs.ErrNotExist
	}
	var found []Entry
	for path, n := range f.names {
		if filepath.Dir(path) == name && path != name {
			found = append(found, Entry{filepath.Base(path), n.dir, int64(len(n.data)), n.modified})
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].Name < found[j].Name })
	return found, nil
}

// Rename is FS.Rename.
func (f *Mem) Rename(from, to string) error {
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
	if !n.dir {
		f.moved = append(f.moved, [2]string{from, to})
	}
	if n.dir {
		for rest, in := range cut(f.names, from) {
			f.names[to+rest] = in
		}
	}
	return nil
}

// cut takes out all that is in a directory, by the rest of its path.
func cut(names map[string]*memFile, dir string) map[string]*memFile {
	inside := map[string]*memFile{}
	for path, n := range names {
		if rest, in := strings.CutPrefix(path, dir); in && rest != "" && rest[0] == '/' {
			delete(names, path)
			inside[rest] = n
		}
	}
	return inside
}

// Remove is FS.Remove.
func (f *Mem) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.names[name] == nil {
		return iofs.ErrNotExist
	}
	if err := f.step("remove", name); err != nil && !errors.Is(err, ErrCrashed) {
		return err
	}
	delete(f.names, name)
	if f.crashed {
		return ErrCrashed
	}
	return nil
}

// RemoveAll is FS.RemoveAll.
func (f *Mem) RemoveAll(name string) error {
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

// SyncDir is FS.SyncDir.
func (f *Mem) SyncDir(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.step("syncdir", name); err != nil {
		return err
	}
	f.moved = slices.DeleteFunc(f.moved, func(m [2]string) bool { return filepath.Dir(m[0]) == name })
	inside := map[*memFile]map[string]*memFile{} // directories that were renamed, or are gone
	for path, n := range f.durable {
		if filepath.Dir(path) == name && f.names[path] != n {
			delete(f.durable, path)
			if n.dir {
				inside[n] = cut(f.durable, path)
			}
		}
	}
	for path, n := range f.names {
		if filepath.Dir(path) == name {
			f.durable[path] = n
			for rest, in := range inside[n] {
				f.durable[path+rest] = in
			}
		}
	}
	return nil
}

type memHandle struct {
	fs     *Mem
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

func (h *memHandle) WriteBuffers(bufs [][]byte, off int64) (int, error) {
	h.fs.wait("write", h.name)
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.closed {
		return 0, os.ErrClosed
	}
	all := slices.Concat(bufs...)
	err := h.fs.step("write", h.name)
	switch {
	case errors.Is(err, ErrCrashed) && h.fs.ops == h.fs.crashAt:
		all = all[:h.fs.rng.IntN(len(all)+1)]
	case err != nil && errors.Is(err, syscall.ENOSPC):
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

func (h *memHandle) Sync() error {
	h.fs.wait("sync", h.name)
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.closed {
		return os.ErrClosed
	}
	err := h.fs.step("sync", h.name)
	f := h.file
	switch {
	case errors.Is(err, ErrCrashed):
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

func (h *memHandle) Truncate(size int64) error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.closed {
		return os.ErrClosed
	}
	if err := h.fs.step("truncate", h.name); err != nil && (!errors.Is(err, ErrCrashed) || h.fs.ops != h.fs.crashAt) {
		return err
	}
	if h.fs.room >= 0 {
		h.fs.room += int64(len(h.file.data)) - size
	}
	h.file.data = h.file.data[:size:size]
	if h.fs.crashed {
		return ErrCrashed
	}
	return nil
}

func (h *memHandle) DropCache(off, n int64) error {
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

func (h *memHandle) Size() (int64, error) {
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
