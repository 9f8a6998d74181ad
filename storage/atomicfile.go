package storage

import (
	"errors"
	"fmt"
	"os"
)

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
