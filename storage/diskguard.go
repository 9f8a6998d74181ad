package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

const (
	ballastFileName = "ballast"

	// freeSampleInterval is how often the file system is asked for its free space.
	// In between, what produce is about to write is counted off.
	freeSampleInterval = time.Second
	// freeSamplePause bounds how often refused produces can make it be asked sooner.
	freeSamplePause = 50 * time.Millisecond
)

// diskGuard keeps the last bytes of the disk for what must go on when it fills up:
// deletes, checkpoints, truncation, Raft. Produce is refused while less than the
// reserve is free (S5). Should others fill the disk beyond that, the ballast, a
// preallocated file of the reserve's size, is let go; it comes back with the
// space. While it is gone, its size doesn't count as free.
type diskGuard struct {
	path      string // of the ballast
	reserve   int64  // bytes; 0: no guard
	freeSpace func() (int64, error)
	log       zerolog.Logger
	wake      chan struct{} // buffered 1: sample now

	free     atomic.Int64 // bytes, at the last sample, less what was admitted since
	refusing atomic.Bool  // latched between the reserve and 5/4 of it, so that it doesn't flutter

	mu      sync.Mutex // guards ballast and told; held while the file is made or removed, which nobody on the produce path waits for
	ballast bool       // the file is there
	told    bool       // that it can't be made
}

func newDiskGuard(dir string, reserve int64, freeSpace func() (int64, error), log zerolog.Logger) (*diskGuard, error) {
	g := &diskGuard{path: filepath.Join(dir, ballastFileName), reserve: reserve, freeSpace: freeSpace, log: log, wake: make(chan struct{}, 1)}
	if g.freeSpace == nil {
		g.freeSpace = func() (int64, error) { return freeBytes(dir) }
	}
	info, err := os.Stat(g.path)
	switch {
	case err == nil && info.Size() == reserve && reserve > 0:
		g.ballast = true
	case err == nil: // another size was asked for, or its making was cut short
		err = os.Remove(g.path)
	case errors.Is(err, os.ErrNotExist):
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("storage: %w", err)
	}
	return g, g.sample()
}

// noDiskGuard is the guard of a file system that is no real one.
func noDiskGuard(log zerolog.Logger) *diskGuard {
	return &diskGuard{freeSpace: func() (int64, error) { return maxInt64, nil }, log: log, wake: make(chan struct{}, 1)}
}

// freeBytes is what an unprivileged process may still write to dir's file system.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("storage: statfs %s: %w", dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

// admit counts off n bytes that produce is about to write, or returns
// ErrDiskNearlyFull. It does no I/O.
func (g *diskGuard) admit(n int64) error {
	if g.reserve == 0 {
		return nil
	}
	if !g.refusing.Load() && g.free.Add(-n) >= g.reserve {
		return nil
	}
	g.sampleSoon()
	return ErrDiskNearlyFull
}

// full says that produce is refused.
func (g *diskGuard) full() bool {
	if g.reserve == 0 || (!g.refusing.Load() && g.free.Load() >= g.reserve) {
		return false
	}
	g.sampleSoon()
	return true
}

func (g *diskGuard) sampleSoon() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// outOfSpace is called by whoever got ENOSPC: produce is refused from now on, and
// the ballast makes room for what must go on.
func (g *diskGuard) outOfSpace() {
	if g.reserve == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuse(0)
	g.release()
	g.sampleSoon()
}

// run samples the free space until ctx ends.
func (g *diskGuard) run(ctx context.Context) error {
	tick := time.NewTicker(freeSampleInterval)
	defer tick.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	wake := (<-chan struct{})(nil) // nil during the pause
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
			wake = g.wake
			continue
		case <-wake:
			wake = nil
			pause.Reset(freeSamplePause)
		case <-tick.C:
		}
		if err := g.sample(); err != nil {
			g.log.Warn().Err(err).Msg("free disk space unknown")
		}
	}
}

// sample asks for the free space, gives up or makes the ballast, and decides
// whether produce is refused.
func (g *diskGuard) sample() error {
	free, err := g.freeSpace()
	if err != nil {
		return err
	}
	if g.reserve == 0 {
		g.free.Store(free)
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.ballast && free < g.reserve/2:
		g.release()
		free += g.reserve
	case !g.ballast && free >= 2*g.reserve+g.reserve/4:
		if err := g.makeBallast(); err == nil {
			free -= g.reserve
		} else if !g.told { // a quota, say; it is tried again each time
			g.told = true
			g.log.Warn().Err(err).Msg("ballast not made")
		}
	}
	if !g.ballast {
		free -= g.reserve
	}
	g.free.Store(free)
	switch {
	case free < g.reserve:
		g.refuse(free)
	case free >= g.reserve+g.reserve/4 && g.refusing.CompareAndSwap(true, false):
		g.log.Info().Int64("free_bytes", free).Msg("disk has space again, produce goes on")
	}
	return nil
}

func (g *diskGuard) refuse(free int64) {
	if g.refusing.CompareAndSwap(false, true) {
		g.log.Warn().Int64("free_bytes", free).Int64("reserve_bytes", g.reserve).Msg("disk nearly full, produce is refused")
	}
}

// release lets the ballast go. mu is held.
func (g *diskGuard) release() {
	if !g.ballast {
		return
	}
	if err := os.Remove(g.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		g.log.Warn().Err(err).Msg("ballast not released")
		return
	}
	g.ballast = false
	g.log.Warn().Int64("bytes", g.reserve).Msg("disk full, ballast released")
}

// makeBallast makes the file. mu is held.
func (g *diskGuard) makeBallast() error {
	f, err := os.OpenFile(g.path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("storage: ballast: %w", err)
	}
	if err := errors.Join(preallocate(f, g.reserve), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("storage: ballast: %w", err), os.Remove(g.path))
	}
	g.ballast = true
	return nil
}

// fillZeros makes the file size bytes long with blocks of its own, where the
// system can't do that by itself.
func fillZeros(f *os.File, size int64) error {
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at); err != nil {
			return err
		}
	}
	return f.Sync()
}
