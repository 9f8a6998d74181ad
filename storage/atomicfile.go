package storage

import (
	"errors"
	"fmt"
	"os"
)

// wrap puts the room's prefix before an error of the file system.
func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("storage: %w", err)
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
