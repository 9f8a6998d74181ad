package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	rawBlockBytes = 4096
	tmpfsMagic    = 0x01021994
	ramfsMagic    = 0x858458f6
)

// filesystems names the statfs magics that a reader of the report may meet.
func filesystemName(dir string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", err
	}
	switch int64(st.Type) {
	case tmpfsMagic, ramfsMagic:
		return "", fmt.Errorf("%s is in memory; the bench needs a real disk", dir)
	case 0xef53:
		return "ext4", nil
	case 0x58465342:
		return "xfs", nil
	case 0x9123683e:
		return "btrfs", nil
	case 0x794c7630:
		return "overlayfs", nil
	default:
		return fmt.Sprintf("file system %#x", st.Type), nil
	}
}

// rawSync is the reference of P4 and P5: append 4 KiB, fdatasync, again, for as
// long as asked; one thread, one file.
func rawSync(dir string, warm, measure time.Duration) (_ sample, err error) {
	f, err := os.OpenFile(filepath.Join(dir, "raw-sync"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	block := make([]byte, rawBlockBytes)
	for i := range block {
		block[i] = byte(i * 7)
	}
	var s sample
	begun := time.Now()
	for {
		from := time.Now()
		if _, err := f.Write(block); err != nil {
			return s, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return s, err
		}
		to := time.Now()
		if from.Sub(begun) < warm {
			continue
		}
		s.requests++
		s.latency.add(to.Sub(from))
		if s.elapsed = to.Sub(begun) - warm; s.elapsed >= measure {
			return s, nil
		}
	}
}

// settle has the kernel write back what earlier measurements left dirty, so that
// no side pays for another's bytes.
func settle(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}

// openAndRead is the reference of P13: open each file, read its first 4 KiB,
// close it, one after the other.
func openAndRead(files []string) (time.Duration, error) {
	buf := make([]byte, rawBlockBytes)
	begun := time.Now()
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return 0, err
		}
		if _, err := f.ReadAt(buf, 0); err != nil && !errors.Is(err, io.EOF) {
			return 0, errors.Join(err, f.Close())
		}
		if err := f.Close(); err != nil {
			return 0, err
		}
	}
	return time.Since(begun), nil
}
