package vfs

import (
	"errors"
	"io"
	"runtime"

	"golang.org/x/sys/unix"
)

// maxVectors is the kernel's bound on buffers in one pwritev (IOV_MAX).
const maxVectors = 1024

func (f osFile) WriteBuffers(bufs [][]byte, off int64) (int, error) {
	if len(bufs) == 1 {
		return f.WriteAt(bufs[0], off)
	}
	defer runtime.KeepAlive(f.File)
	total, skip := 0, 0 // skip: bytes of bufs[0] that are written already
	for len(bufs) > 0 {
		var n int
		var err error
		if skip > 0 {
			n, err = f.WriteAt(bufs[0][skip:], off)
		} else {
			n, err = unix.Pwritev(int(f.Fd()), bufs[:min(len(bufs), maxVectors)], off)
		}
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return total + max(n, 0), err
		}
		if n == 0 {
			return total, io.ErrShortWrite
		}
		total += n
		off += int64(n)
		for n += skip; len(bufs) > 0 && n >= len(bufs[0]); bufs = bufs[1:] {
			n -= len(bufs[0])
		}
		skip = n
	}
	return total, nil
}

func (f osFile) Sync() error {
	defer runtime.KeepAlive(f.File)
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (f osFile) DropCache(off, n int64) error {
	defer runtime.KeepAlive(f.File)
	return unix.Fadvise(int(f.Fd()), off, n, unix.FADV_DONTNEED)
}
