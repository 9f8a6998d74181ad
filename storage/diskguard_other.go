//go:build !linux

package storage

import "os"

// preallocate makes the file size bytes long, all of them allocated.
func preallocate(f *os.File, size int64) error { return fillZeros(f, size) }
