package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"highwater/storage"
)

// drainTime is how long in-flight requests get at shutdown. The process promises
// to be gone 10 s after SIGTERM; the rest is for flushing and closing, which takes
// raft up to two seconds while other voters don't answer.
const drainTime = 6500 * time.Millisecond

// handOverTime is how much of that other brokers get to take over what this one leads.
const handOverTime = 4500 * time.Millisecond

// lastCall is how long before drainTime is over requests that still wait have to end
// with the answer that they can give: unknown rather than a cut connection.
const lastCall = time.Second

// failedDrainTime is the same after a disk failure: waiters have their error
// already and only need to be answered.
const failedDrainTime = 2 * time.Second

// run is the parent of everything in the process. It returns nil after a drain
// that a signal asked for, and the first fatal error otherwise: a disk that
// failed (S4) stops the whole broker, as its log can no longer keep promises.
func run(signals context.Context, cfg *config, log processLog) error {
	p := newProcess(cfg, log)

	// The loops outlive the signal: requests in flight need them to be answered.
	loopsCtx, stopLoops := context.WithCancel(context.Background())
	defer stopLoops()
	loops, failed := errgroup.WithContext(loopsCtx)

	// Starting ends early when a signal comes or a loop fails.
	startCtx, cancelStart := context.WithCancel(signals)
	defer cancelStart()
	defer context.AfterFunc(failed, cancelStart)()

	startErr := withAdvice(p.start(startCtx, failed, loops))
	if startErr == nil {
		select {
		case <-signals.Done():
		case <-failed.Done():
		}
	}
	if startErr != nil && signals.Err() != nil && failed.Err() == nil {
		// Told to stop while starting: whatever start says, it was cut short.
		log.Info().AnErr("start", startErr).Msg("stopped while starting")
		startErr = nil
	}
	grace := drainTime
	if failed.Err() != nil || startErr != nil {
		grace = failedDrainTime
	}
	stopErr := p.stop(grace, func() error { stopLoops(); return loops.Wait() })
	return firstOf(stopErr.loops, startErr, stopErr.closing)
}

// withAdvice says what to do about a disk too full to start on.
func withAdvice(err error) error {
	if errors.Is(err, storage.ErrDiskNearlyFull) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: the disk is full, and so is what --disk-reserve keeps for a start: free some space on it, then start again; nothing is lost", err)
	}
	return err
}

// firstOf is the cause; what follows from it would only hide it.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
