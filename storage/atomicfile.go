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
