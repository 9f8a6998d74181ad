package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

const lockFileName = "LOCK"

// LockedError: another process holds the data directory. It matches ErrLocked.
type LockedError struct {
	Path string // of the lock file
	PID  int    // of the holder; 0 if it didn't say
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%v: lock file %s", ErrLocked, e.Path)
	}
	return fmt.Sprintf("%v: lock file %s is held by process %d", ErrLocked, e.Path, e.PID)
}

// Unwrap makes errors.Is(err, ErrLocked) true.
func (e *LockedError) Unwrap() error { return ErrLocked }

// lockDir takes the directory for this process, without waiting. The lock is on
// the file's inode: another path to the directory meets the same lock, and the
// kernel drops it when the process ends, however it ends. The file is never
// removed, as that would let two processes lock two files.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockFileName)
	// A link here could point into another directory, or be followed by nobody else.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o640)
	if err != nil {
		return nil, fmt.Errorf("storage: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		locked := &LockedError{Path: path, PID: lockHolder(f)}
		_ = f.Close() // nothing was written
		return nil, locked
	}
	if err == nil {
		if err = nameHolder(f); isDiskFull(err) {
			err = nil // it is for a message only
		}
	}
	if err != nil {
		_ = f.Close() // the first error counts
		return nil, fmt.Errorf("storage: %s: %w", path, err)
	}
	return f, nil
}

// nameHolder writes our process id into the lock file, for the error of whoever comes next.
func nameHolder(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func lockHolder(f *os.File) int {
	text, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}
