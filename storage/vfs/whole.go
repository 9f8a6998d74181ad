package vfs

import (
	"errors"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
)

// ReadFile returns a file's content.
func ReadFile(fs FS, name string) ([]byte, error) {
	f, err := fs.Open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	data := make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if errors.Is(err, io.EOF) && n == len(data) {
		err = nil
	}
	return data[:n], errors.Join(err, f.Close())
}

// WriteFile makes the file hold data, durably: after a crash it is there whole,
// with the old or the new content (S3).
func WriteFile(fs FS, name string, data []byte) error {
	temp := name + ".tmp"
	f, err := fs.Open(temp, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return err
	}
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteBuffers([][]byte{data}, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(temp, name); err != nil {
		return err
	}
	return fs.SyncDir(filepath.Dir(name))
}

// RemoveFile removes the file; it isn't back after a crash. A missing file is no
// error, and costs no fsync.
func RemoveFile(fs FS, name string) error {
	if err := fs.Remove(name); err != nil {
		if errors.Is(err, iofs.ErrNotExist) {
			return nil
		}
		return err
	}
	return fs.SyncDir(filepath.Dir(name))
}

// Exists says whether there is a file or directory of that name.
func Exists(fs FS, name string) (bool, error) {
	entries, err := fs.List(filepath.Dir(name))
	if errors.Is(err, iofs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if e.Name == filepath.Base(name) {
			return true, nil
		}
	}
	return false, nil
}

// MkdirAll makes the directory and those above it that are missing; they are there
// after a crash.
func MkdirAll(fs FS, name string) error {
	if _, err := fs.List(name); err == nil || !errors.Is(err, iofs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(name)
	if err := MkdirAll(fs, parent); err != nil {
		return err
	}
	if err := fs.Mkdir(name); err != nil {
		return err
	}
	// Who may make a directory in the parent may not be allowed to open it.
	if err := fs.SyncDir(parent); err != nil && !errors.Is(err, iofs.ErrPermission) {
		return err
	}
	return nil
}
