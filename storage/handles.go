package storage

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"highwater/storage/vfs"
)

// maxIdleHandles bounds the open segment files that nobody uses at the moment,
// unless Options.MaxIdleFiles says less. 512 leaves room for connections under a
// limit of 1,024 descriptors, the usual one.
const maxIdleHandles = 512

// handles opens segment files when they are needed and keeps the most recently
// used ones open. A file in use, or with bytes that were not synced yet, stays
// open: the kernel reports a failed write-back only to files that are open. All
// files together are at most `most` plus those in use.
type handles struct {
	fs   vfs.FS
	most int // idle ones
	// failed is told of an error in closing a file: it is final (S4).
	failed func(error)

	mu    sync.Mutex // guards all below, and handle and gone of every segment
	idle  handle     // ring of handles without users, the most recently used first
	count int        // handles in the ring
}

// handle is one open segment file.
type handle struct {
	file vfs.File
	once sync.Once // opens
	err  error     // of opening

	segment    *segment // guarded by handles.mu, like the rest
	users      int
	prev, next *handle // in the idle ring
}

func newHandles(fs vfs.FS, most int, failed func(error)) *handles {
	if most <= 0 {
		most = maxIdleHandles
	}
	c := &handles{fs: fs, most: most, failed: failed}
	c.idle.prev, c.idle.next = &c.idle, &c.idle
	return c
}

// errSegmentGone: the segment was removed or replaced after it was looked up.
var errSegmentGone = fmt.Errorf("storage: the segment is no longer part of the log: %w", iofs.ErrNotExist)

// acquire opens the segment's file, or shares it. Each acquire needs a release.
func (c *handles) acquire(dir string, s *segment) (*handle, error) {
	c.mu.Lock()
	h := s.handle
	if h == nil && s.gone {
		c.mu.Unlock()
		return nil, errSegmentGone // its name may be another segment's by now
	}
	if h == nil {
		h = &handle{segment: s}
		s.handle = h
	} else if h.users == 0 {
		c.unlink(h)
	}
	h.users++
	c.mu.Unlock()
	h.once.Do(func() {
		name := filepath.Join(dir, segmentName(s.base))
		h.err = c.withRoom(func() (err error) {
			h.file, err = c.fs.Open(name, os.O_RDWR)
			return err
		})
	})
	if h.err != nil {
		err := h.err
		c.release(h)
		return nil, err
	}
	return h, nil
}

// withRoom does something that needs a descriptor. When none is left it closes
// the idle files and tries once more (F50); ErrTooManyFiles if that didn't help.
func (c *handles) withRoom(do func() error) error {
	err := do()
	if !isOutOfFiles(err) {
		return err
	}
	c.closeIdle()
	if err = do(); isOutOfFiles(err) {
		return fmt.Errorf("%w: %w", ErrTooManyFiles, err)
	}
	return err
}

func isOutOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// adopt gives a segment the file that was just made for it; the caller has the handle.
func (c *handles) adopt(s *segment, f vfs.File) *handle {
	h := &handle{file: f, segment: s, users: 1}
	h.once.Do(func() {})
	c.mu.Lock()
	s.handle = h
	c.mu.Unlock()
	return h
}

func (c *handles) release(h *handle) {
	c.mu.Lock()
	h.users--
	var closing *handle
	switch {
	case h.users > 0:
	case h.err != nil || h.segment.gone:
		if h.segment.handle == h {
			h.segment.handle = nil // the next acquire tries again
		}
		closing = h
	default:
		h.prev, h.next = &c.idle, c.idle.next
		h.prev.next, h.next.prev = h, h
		if c.count++; c.count > c.most {
			closing = c.idle.prev
			c.unlink(closing)
			closing.segment.handle = nil
		}
	}
	c.mu.Unlock()
	c.close(closing)
}

// retire closes the segment's file as soon as nobody uses it: the segment was
// removed, or its log is closed.
func (c *handles) retire(s *segment) { c.drop(s, true) }

// rest closes the segment's file if nobody uses it.
func (c *handles) rest(s *segment) { c.drop(s, false) }

func (c *handles) drop(s *segment, gone bool) {
	c.mu.Lock()
	s.gone = s.gone || gone
	h := s.handle
	if h != nil && h.users == 0 {
		c.unlink(h)
		s.handle = nil
	} else {
		h = nil
	}
	c.mu.Unlock()
	c.close(h)
}

// closeIdle closes every file that nobody uses.
func (c *handles) closeIdle() {
	c.mu.Lock()
	var closing []*handle
	for c.idle.next != &c.idle {
		h := c.idle.next
		c.unlink(h)
		h.segment.handle = nil
		closing = append(closing, h)
	}
	c.mu.Unlock()
	for _, h := range closing {
		c.close(h)
	}
}

func (c *handles) unlink(h *handle) {
	h.prev.next, h.next.prev = h.next, h.prev
	h.prev, h.next = nil, nil
	c.count--
}

func (c *handles) close(h *handle) {
	if h == nil || h.file == nil {
		return
	}
	if err := h.file.Close(); err != nil {
		c.failed(err)
	}
}
