package storage

import (
	"errors"
	"fmt"
)

// Errors of a log. They are matched with errors.Is; the typed ones below with
// errors.As.
var (
	// ErrClosed: the log or store was closed.
	ErrClosed = errors.New("storage: closed")
	// ErrDiskNearlyFull: free space is below the reserve; nothing was written.
	ErrDiskNearlyFull = errors.New("storage: disk nearly full")
	// ErrTooManyFiles: the process has no file descriptor left; nothing was written.
	ErrTooManyFiles = errors.New("storage: no file descriptor left")
	// ErrBacklogged: the disk is so far behind that nothing more is taken; nothing was
	// written.
	ErrBacklogged = errors.New("storage: too much waits for the disk")
	// ErrLocked: another process holds the data directory.
	ErrLocked = errors.New("storage: data directory is locked by another process")
)

// OffsetOutOfRangeError: the offset is not in [Start, End].
type OffsetOutOfRangeError struct {
	Offset, Start, End int64
}

func (e *OffsetOutOfRangeError) Error() string {
	return fmt.Sprintf("storage: offset %d is not in [%d, %d]", e.Offset, e.Start, e.End)
}

// CorruptError: bytes on disk are not what was written there. Path is relative
// to the data directory and may be empty when the caller knows it better.
type CorruptError struct {
	Path     string
	Position int64
	Reason   string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("storage: corrupt at %s:%d: %s", e.Path, e.Position, e.Reason)
}

// FailedError: a write or fsync failed earlier. It is final (S4): the kernel may
// have dropped the bytes and a later fsync would say they are safe.
type FailedError struct {
	Cause error
}

func (e *FailedError) Error() string { return "storage: disk failed: " + e.Cause.Error() }
func (e *FailedError) Unwrap() error { return e.Cause }
