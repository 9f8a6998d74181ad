package storage

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// preallocate makes the file size bytes long, all of them allocated.
func preallocate(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return fillZeros(f, size)
	}
	return err
}
