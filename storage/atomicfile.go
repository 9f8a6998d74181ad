package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// writeFileAtomic makes the file hold data, durably: after a crash it is there
// whole, with the old or the new content (S3).
func writeFileAtomic(path string, data []byte) error {
	temp := path + ".tmp"
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

// removeDurably removes the file; it isn't back after a crash. A missing file is
// no error, and costs no fsync.
func removeDurably(path string) error {
	if err := os.Remove(path); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("storage: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

// mkdirDurably makes the directory and those above it that are missing; they are
// there after a crash.
func mkdirDurably(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return nil
	}
	if err == nil {
		return fmt.Errorf("storage: %s is not a directory", path)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("storage: %w", err)
	}
	parent := filepath.Dir(path)
	if err := mkdirDurably(parent); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o750); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("storage: %w", err)
	}
	// Who may make a directory in the parent may not be allowed to open it.
	if err := syncDir(parent); err != nil && !errors.Is(err, os.ErrPermission) {
		return err
	}
	return nil
}

// syncDir makes the directory's entries durable.
func syncDir(dir string) error { return syncFile(dir) }

// syncFile fsyncs a file by name.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	return nil
}
