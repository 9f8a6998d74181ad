package vfs

import (
	"bufio"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Plan says what goes wrong. The zero Plan is a sound disk. Counts are of
// operations since the plan began; each of them strikes once.
type Plan struct {
	// FsyncError: the n-th fsync fails with EIO, and what was dirty in that file is
	// lost for good: its bytes turn to zeros (S4, F47).
	FsyncError int
	// FsyncDelay is added to each fsync (F49).
	FsyncDelay time.Duration
	// NoSpace: new files and writes fail with ENOSPC, writes after a part (S5, F46).
	NoSpace bool
	// WriteError and ReadError: the n-th one fails with EIO.
	WriteError, ReadError int
}

// ParsePlan reads a plan of one fault a line, '#' begins a comment:
//
//	fsync-error 3        the third fsync from now on
//	fsync-delay 500ms
//	no-space             as long as the line is there
//	write-error 1
//	read-error 20
func ParsePlan(text string) (Plan, error) {
	var p Plan
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		value := strings.Join(words[1:], " ")
		var err error
		switch words[0] {
		case "fsync-error":
			p.FsyncError, err = parseCount(value)
		case "write-error":
			p.WriteError, err = parseCount(value)
		case "read-error":
			p.ReadError, err = parseCount(value)
		case "fsync-delay":
			p.FsyncDelay, err = time.ParseDuration(value)
		case "no-space":
			if p.NoSpace = true; value != "" {
				err = errors.New("takes no value")
			}
		default:
			err = errors.New("no such fault")
		}
		if err != nil {
			return Plan{}, fmt.Errorf("vfs: fault %q: %w", strings.TrimSpace(line), err)
		}
	}
	return p, nil
}

func parseCount(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err == nil && n < 1 {
		err = errors.New("counts from 1")
	}
	return n, err
}

// Faults breaks another file system as a Plan says, which may change at any time.
// It is for tests of whole processes; nothing in a broker makes one unasked.
type Faults struct {
	FS
	control string // the file that holds the plan
	struck  func(fault, name string)
	told    func(error)

	mu     sync.Mutex // guards everything below
	plan   Plan
	stamp  stamp // of control, when it was read
	counts map[string]int
	dirty  map[string][]extent // written since the last fsync, by file
}

// stamp tells one content of the control file from another.
type stamp struct {
	modified time.Time
	size     int64
	inode    uint64
}

// extent is a range of a file's bytes.
type extent struct{ from, to int64 }

// NewFaults wraps fs. The plan is what the file control holds: it is looked at
// before each operation, and a new plan begins when the file changed. Replace it by
// a rename; no file is no fault. struck is told of each error that was made, told of
// a control file that makes no sense: then the last plan stays.
func NewFaults(fs FS, control string, struck func(fault, name string), told func(error)) *Faults {
	return &Faults{FS: fs, control: control, struck: struck, told: told, counts: map[string]int{}, dirty: map[string][]extent{}}
}

// now is the plan as of now; mu is held.
func (f *Faults) now() *Plan {
	info, err := os.Stat(f.control)
	next := stamp{}
	if err == nil {
		next = stamp{modified: info.ModTime(), size: info.Size()}
		if sys, ok := info.Sys().(*syscall.Stat_t); ok {
			next.inode = sys.Ino
		}
	}
	if next == f.stamp {
		return &f.plan
	}
	f.stamp = next
	text, err := os.ReadFile(f.control)
	if errors.Is(err, iofs.ErrNotExist) {
		text, err = nil, nil
	}
	plan := Plan{}
	if err == nil {
		plan, err = ParsePlan(string(text))
	}
	if err != nil {
		f.told(err)
		return &f.plan
	}
	f.plan = plan
	clear(f.counts)
	return &f.plan
}

// nth tells that this is the n-th of its kind since the plan began; mu is held.
func (f *Faults) nth(kind string, n int) bool {
	if n == 0 {
		return false
	}
	f.counts[kind]++
	return f.counts[kind] == n
}

func (f *Faults) noSpace(name string) bool {
	f.mu.Lock()
	full := f.now().NoSpace
	f.mu.Unlock()
	if full {
		f.struck("no-space", name)
	}
	return full
}

// Open is FS.Open.
func (f *Faults) Open(name string, flag int) (File, error) {
	if flag&os.O_CREATE != 0 && f.noSpace(name) {
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.ENOSPC}
	}
	file, err := f.FS.Open(name, flag)
	if err != nil {
		return nil, err
	}
	return &faultyFile{File: file, fs: f, name: name}, nil
}

// Mkdir is FS.Mkdir.
func (f *Faults) Mkdir(name string) error {
	if f.noSpace(name) {
		return &os.PathError{Op: "mkdir", Path: name, Err: syscall.ENOSPC}
	}
	return f.FS.Mkdir(name)
}

// Rename is FS.Rename.
func (f *Faults) Rename(from, to string) error {
	if err := f.FS.Rename(from, to); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if d := f.dirty[from]; d != nil {
		delete(f.dirty, from)
		f.dirty[to] = d
	}
	return nil
}

// Remove is FS.Remove.
func (f *Faults) Remove(name string) error {
	f.mu.Lock()
	delete(f.dirty, name)
	f.mu.Unlock()
	return f.FS.Remove(name)
}

type faultyFile struct {
	File
	fs   *Faults
	name string
}

func (h *faultyFile) ReadAt(b []byte, off int64) (int, error) {
	h.fs.mu.Lock()
	bad := h.fs.nth("read", h.fs.now().ReadError)
	h.fs.mu.Unlock()
	if bad {
		h.fs.struck("read-error", h.name)
		return 0, &os.PathError{Op: "read", Path: h.name, Err: syscall.EIO}
	}
	return h.File.ReadAt(b, off)
}

func (h *faultyFile) WriteBuffers(bufs [][]byte, off int64) (int, error) {
	if h.fs.noSpace(h.name) {
		part := bufs[0][:len(bufs[0])/2]
		n, err := h.File.WriteBuffers([][]byte{part}, off)
		h.fs.wrote(h.name, off, off+int64(n))
		if err == nil {
			err = &os.PathError{Op: "write", Path: h.name, Err: syscall.ENOSPC}
		}
		return n, err
	}
	h.fs.mu.Lock()
	bad := h.fs.nth("write", h.fs.now().WriteError)
	h.fs.mu.Unlock()
	if bad {
		h.fs.struck("write-error", h.name)
		return 0, &os.PathError{Op: "write", Path: h.name, Err: syscall.EIO}
	}
	n, err := h.File.WriteBuffers(bufs, off)
	h.fs.wrote(h.name, off, off+int64(n))
	return n, err
}

// maxExtents bounds what is remembered of a file; appends make one.
const maxExtents = 1024

func (f *Faults) wrote(name string, from, to int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.dirty[name]
	switch last := len(d) - 1; {
	case from == to:
	case last >= 0 && d[last].from <= from && from <= d[last].to:
		d[last].to = max(d[last].to, to)
	case len(d) < maxExtents:
		f.dirty[name] = append(d, extent{from, to})
	}
}

func (h *faultyFile) Truncate(size int64) error {
	h.fs.mu.Lock()
	d := h.fs.dirty[h.name]
	for i := range d {
		d[i].to = max(min(d[i].to, size), d[i].from)
	}
	h.fs.mu.Unlock()
	return h.File.Truncate(size)
}

func (h *faultyFile) Sync() error {
	h.fs.mu.Lock()
	plan := h.fs.now()
	delay, bad := plan.FsyncDelay, h.fs.nth("fsync", plan.FsyncError)
	dirty := h.fs.dirty[h.name]
	delete(h.fs.dirty, h.name) // what is written from here on is the next fsync's
	h.fs.mu.Unlock()
	time.Sleep(delay)
	if !bad {
		return h.File.Sync()
	}
	h.fs.struck("fsync-error", h.name)
	failed := error(&os.PathError{Op: "fsync", Path: h.name, Err: syscall.EIO})
	size, err := h.File.Size()
	if err != nil {
		return errors.Join(failed, err)
	}
	zeros := make([]byte, 64<<10)
	for _, d := range dirty {
		for pos, to := d.from, min(d.to, size); pos < to; {
			n, err := h.File.WriteBuffers([][]byte{zeros[:min(int64(len(zeros)), to-pos)]}, pos)
			if err != nil {
				return errors.Join(failed, err)
			}
			pos += int64(n)
		}
	}
	return failed
}
