package storage

import (
	"io"
	"os"
	"sort"
	"time"
)

// fs is the one seam between logs and the disk, so that tests can crash it, fill
// it and break it. Names are paths of the operating system. Errors can be told by
// errors.Is with io/fs's and the system's errors (ENOSPC, EMFILE ...).
type fs interface {
	// open opens a file with os.O_ flags.
	open(name string, flag int) (file, error)
	// mkdir makes a directory; one that is there already is no error.
	mkdir(name string) error
	// list tells what a directory holds, by name.
	list(name string) ([]dirEntry, error)
	rename(from, to string) error
	remove(name string) error
	// removeAll removes a directory and all in it; a missing one is no error.
	removeAll(name string) error
	// syncDir makes what was created, renamed and removed in a directory durable (S3).
	syncDir(name string) error
}

// dirEntry is a name in a directory.
type dirEntry struct {
	name     string
	dir      bool
	size     int64
	modified time.Time
}

// file is an open file. It may be used by several goroutines at once, except that
// Close comes last.
type file interface {
	io.ReaderAt
	io.Closer
	// writeAt writes the buffers one after the other from off on and tells how
	// many bytes it wrote: fewer than all only with an error.
	writeAt(bufs [][]byte, off int64) (int, error)
	// sync makes the file's bytes and its length durable. After an error the
	// kernel may have dropped the bytes, and the next sync would succeed (S4).
	sync() error
	truncate(size int64) error
	// dropCache has the range read from the disk again, where the system can.
	dropCache(off, n int64) error
	size() (int64, error)
}

const (
	dirMode  = 0o750
	fileMode = 0o640
)

// osFS is the operating system's.
type osFS struct{}

func (osFS) open(name string, flag int) (file, error) {
	f, err := os.OpenFile(name, flag, fileMode)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) mkdir(name string) error {
	err := os.Mkdir(name, dirMode)
	if os.IsExist(err) {
		return nil
	}
	return err
}

func (osFS) list(name string) ([]dirEntry, error) {
	found, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	entries := make([]dirEntry, 0, len(found))
	for _, e := range found {
		info, err := e.Info()
		if os.IsNotExist(err) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, dirEntry{name: e.Name(), dir: e.IsDir(), size: info.Size(), modified: info.ModTime()})
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].name < entries[j].name })
	return entries, nil
}

func (osFS) rename(from, to string) error { return os.Rename(from, to) }
func (osFS) remove(name string) error     { return os.Remove(name) }
func (osFS) removeAll(name string) error  { return os.RemoveAll(name) }

func (osFS) syncDir(name string) error {
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

// osFile is an *os.File; what differs between systems is in the fs_*.go files.
type osFile struct{ *os.File }

func (f osFile) truncate(size int64) error { return f.Truncate(size) }

func (f osFile) size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
