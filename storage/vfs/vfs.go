// Package vfs is the seam between storage and the disk. OS is the real one; Mem
// is one in memory that can crash; Faults breaks another one on demand.
package vfs

import (
	"io"
	"os"
	"sort"
	"time"
)

// FS is what storage asks of a file system. Names are paths of the operating
// system. Errors can be told by errors.Is with io/fs's and the system's errors
// (ENOSPC, EMFILE ...).
type FS interface {
	// Open opens a file with os.O_ flags.
	Open(name string, flag int) (File, error)
	// Mkdir makes a directory; one that is there already is no error.
	Mkdir(name string) error
	// List tells what a directory holds, by name.
	List(name string) ([]Entry, error)
	Rename(from, to string) error
	Remove(name string) error
	// RemoveAll removes a directory and all in it; a missing one is no error.
	RemoveAll(name string) error
	// SyncDir makes what was created, renamed and removed in a directory durable (S3).
	SyncDir(name string) error
	// OnDisk says that names are real paths, which others can open too: flock, bbolt.
	OnDisk() bool
}

// Entry is a name in a directory. Size and Modified are a file's only.
type Entry struct {
	Name     string
	Dir      bool
	Size     int64
	Modified time.Time
}

// File is an open file. It may be used by several goroutines at once, except that
// Close comes last.
type File interface {
	io.ReaderAt
	io.Closer
	// WriteBuffers writes the buffers one after the other from off on and tells how
	// many bytes it wrote: fewer than all only with an error.
	WriteBuffers(bufs [][]byte, off int64) (int, error)
	// Sync makes the file's bytes and its length durable. After an error the
	// kernel may have dropped the bytes, and the next Sync would succeed (S4).
	Sync() error
	Truncate(size int64) error
	// DropCache has the range read from the disk again, where the system can.
	DropCache(off, n int64) error
	Size() (int64, error)
}

const (
	dirMode  = 0o750
	fileMode = 0o640
)

// OS is the operating system's.
type OS struct{}

var _ FS = OS{}

// OnDisk is true.
func (OS) OnDisk() bool { return true }

// Open is os.OpenFile.
func (OS) Open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, fileMode)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Mkdir is os.Mkdir.
func (OS) Mkdir(name string) error {
	err := os.Mkdir(name, dirMode)
	if os.IsExist(err) {
		return nil
	}
	return err
}

// List is os.ReadDir.
func (OS) List(name string) ([]Entry, error) {
	found, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(found))
	for _, e := range found {
		if e.IsDir() {
			entries = append(entries, Entry{Name: e.Name(), Dir: true}) // spare a look at each
			continue
		}
		info, err := e.Info()
		if os.IsNotExist(err) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{Name: e.Name(), Dir: e.IsDir(), Size: info.Size(), Modified: info.ModTime()})
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].Name < entries[j].Name })
	return entries, nil
}

// Rename is os.Rename.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove is os.Remove.
func (OS) Remove(name string) error { return os.Remove(name) }

// RemoveAll is os.RemoveAll.
func (OS) RemoveAll(name string) error { return os.RemoveAll(name) }

// SyncDir fsyncs the directory.
func (OS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		_ = d.Close() // the sync's error is the one that counts
		return err
	}
	return d.Close()
}

// osFile is an *os.File; what differs between systems is in the os_*.go files.
type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
