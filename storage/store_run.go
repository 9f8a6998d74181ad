package storage

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

// checkpointInterval is how often high watermarks and flushed offsets are noted
// in the index (R33); Kafka's replica.high.watermark.checkpoint.interval.ms.
const checkpointInterval = 5 * time.Second

// maxParallelFsyncs bounds the fsyncs in flight of one round of FsyncInterval.
const maxParallelFsyncs = 4

// Run does the store's background work until ctx ends. It returns nil then, or
// the first *FailedError: that is final (S4), the caller must stop serving.
func (s *Store) Run(ctx context.Context) error {
	loops, ctx := errgroup.WithContext(ctx)
	final := func(err error) error {
		if err != nil {
			err = s.fail(err)
		}
		return err
	}
	loops.Go(func() error { return final(s.index.run(ctx)) })
	loops.Go(func() error { return s.guard.run(ctx) })
	loops.Go(func() error { return s.runRemovals(ctx) })
	loops.Go(func() error { return every(ctx, scrubPause, func() error { return s.scrub(ctx) }) })
	loops.Go(func() error { return every(ctx, checkpointInterval, s.checkpoint) })
	if s.opts.Fsync == FsyncInterval {
		loops.Go(func() error { return final(every(ctx, s.opts.FsyncInterval, s.fsyncDirty)) })
	}
	loops.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-s.failed:
			return s.Failure()
		}
	})
	err := loops.Wait()
	if s.Failure() != nil {
		s.noteFailure()
	}
	return err
}

// every calls work each interval until ctx ends or work fails.
func every(ctx context.Context, interval time.Duration, work func() error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := work(); err != nil {
				return err
			}
		}
	}
}

// checkpoint notes every log's high watermark and flushed offset in the index,
// which writes them all in one transaction.
func (s *Store) checkpoint() error {
	for _, l := range s.opened(false) {
		l.checkpoint()
	}
	return nil
}

// fsyncDirty fsyncs what was written since the last round.
func (s *Store) fsyncDirty() error {
	var round errgroup.Group
	round.SetLimit(maxParallelFsyncs)
	for _, l := range s.opened(false) {
		round.Go(l.syncDirty)
	}
	return round.Wait()
}

// fail latches the first failed write or fsync and returns it: whatever the disk
// says afterwards, nothing more is promised (S4).
func (s *Store) fail(err error) error {
	failed := (*FailedError)(nil)
	if !errors.As(err, &failed) {
		failed = &FailedError{Cause: err}
	}
	if s.failure.CompareAndSwap(nil, failed) {
		close(s.failed)
	}
	return s.failure.Load()
}

// Failed is closed when a write or fsync has failed; Failure tells why.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Failure is nil, or the *FailedError that ended this store's usefulness.
func (s *Store) Failure() error {
	if f := s.failure.Load(); f != nil {
		return f
	}
	return nil
}

// admit is asked before n bytes are staged: ErrDiskNearlyFull, a *FailedError, or
// nil. It does no I/O.
func (s *Store) admit(n int64) error {
	if err := s.Failure(); err != nil {
		return err
	}
	return s.guard.admit(n)
}

// MakeRoom has the ballast let go and produce refused: for what shares the disk and
// must write a little though it is full.
func (s *Store) MakeRoom() { s.guard.outOfSpace() }

// fsynced counts an fsync of a segment that took d.
func (s *Store) fsynced(d time.Duration) {
	s.fsyncs.Add(1)
	if s.opts.OnFsync != nil {
		s.opts.OnFsync(d)
	}
}

func (s *Store) indexWritten(d time.Duration) {
	s.indexWrites.Add(1)
	if s.opts.OnIndexWrite != nil {
		s.opts.OnIndexWrite(d)
	}
}

// Stats are a store's figures for metrics.
type Stats struct {
	Logs              int   // open ones
	LogBytes          int64 // of all segments of open logs
	FreeBytes         int64 // that produce may still use; the ballast and what was admitted since the last sample are off
	DiskNearlyFull    bool  // produce is refused
	Fsyncs            int64 // of segments
	IndexTransactions int64
	ScrubbedBytes     int64 // of closed segments, read again to find damage
	DamagedRanges     int   // that open logs have
}

// Stats returns the figures as of now. It costs a walk over all open logs.
func (s *Store) Stats() Stats {
	st := Stats{FreeBytes: s.guard.free.Load(), DiskNearlyFull: s.guard.refusing.Load(), Fsyncs: s.fsyncs.Load(), IndexTransactions: s.indexWrites.Load(),
		ScrubbedBytes: s.scrubbed.Load()}
	for _, l := range s.opened(false) {
		st.Logs++
		bytes, damaged := l.figures()
		st.LogBytes += bytes
		st.DamagedRanges += damaged
	}
	return st
}
