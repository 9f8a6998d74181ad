package storage

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// A full disk isn't a broken one (S5): what finds no room and is taken back whole is
// refused, and may be tried again. What must go on, deletes, truncations, a start and
// a stop in order, has the ballast let go and is tried once more first.

// isDiskFull: the error says that there was no room, not that the disk is broken. An
// fsync that fails, for whatever reason, is a broken disk: the kernel may have dropped
// the bytes, and the next one would succeed (S4).
func isDiskFull(err error) bool {
	if path := (*os.PathError)(nil); errors.As(err, &path) && (path.Op == "sync" || path.Op == "fsync") {
		return false
	}
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// foundNoRoom is isDiskFull for errors that the index may have refused, too.
func foundNoRoom(err error) bool {
	return errors.Is(err, ErrDiskNearlyFull) || isDiskFull(err)
}

// withSpace does something for which there must be room, and once more when there
// was none and outOfSpace has made some. do leaves nothing half done behind, or
// begins with taking that away.
func withSpace(outOfSpace func(), do func() error) error {
	err := do()
	if isDiskFull(err) {
		outOfSpace()
		err = do()
	}
	return err
}

// wrap puts the room's prefix before an error of the file system.
func wrap(err error) error {
	switch {
	case err == nil:
		return nil
	case isDiskFull(err):
		return fmt.Errorf("%w: %w", ErrDiskNearlyFull, err)
	}
	return fmt.Errorf("storage: %w", err)
}

// beginEmpty makes the file of a new, empty segment that nobody writes yet.
func (l *Log) beginEmpty(base int64) (s *segment, err error) {
	err = withSpace(l.disk.outOfSpace, func() error {
		made, h, err := l.createSegment(base)
		if err == nil {
			s = made
			l.disk.files.release(h)
		}
		return err
	})
	return s, err
}

// tellIndex has the index know the log as it is now, durably. Should there be no room
// even for that, the next append waits for it instead: what goes on meanwhile removes
// files, which makes room, and a crash leaves an index that knows more than there is,
// which is taken for a loss. Call it as the writer.
func (l *Log) tellIndex() error {
	err := l.disk.index.updateNow(l.id, l.describe)
	if !errors.Is(err, ErrDiskNearlyFull) {
		return err
	}
	l.mu.Lock()
	l.unsettled = true
	l.mu.Unlock()
	return nil
}
