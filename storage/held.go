package storage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"highwater/storage/vfs"
)

// heldConcurrency is how many logs are recovered at once by Held: enough to keep a
// disk busy, few enough to bound memory.
const heldConcurrency = 16

// HeldLog is a log that is on this disk at the start of a run.
type HeldLog struct {
	ID PartitionID
	// Lossy: it may hold less than it did, for this Reason (R34, R72, R73).
	Lossy  bool
	Reason string
}

// Held recovers every log in the data directory and tells what is there: what a
// broker says of itself when it registers (R66, R72, R73). A log that can't be
// opened counts as lossy. OpenLog then hands the logs out without recovering them
// again. What was lossy stays so, over restarts too, until SetBrokerEpoch says
// that the controller knows.
func (s *Store) Held(ctx context.Context) ([]HeldLog, error) {
	ids, err := s.LogsOnDisk()
	if err != nil {
		return nil, err
	}
	held := make([]HeldLog, len(ids))
	var openers errgroup.Group
	openers.SetLimit(heldConcurrency)
	for i, id := range ids {
		if ctx.Err() != nil {
			break
		}
		openers.Go(func() error {
			held[i].ID = id
			o, err := s.openUnused(id)
			switch {
			case errors.Is(err, ErrClosed):
				return err
			case err != nil:
				held[i].Reason = err.Error()
			default:
				held[i].Reason = o.log.tellLoss()
			}
			held[i].Lossy = held[i].Reason != ""
			return nil
		})
	}
	if err := errors.Join(openers.Wait(), ctx.Err()); err != nil {
		return nil, err
	}
	for _, h := range held {
		if h.Lossy {
			s.opts.Logger.Warn().Stringer("partition", h.ID).Str("reason", h.Reason).Msg("log may be incomplete")
		}
	}
	return held, nil
}

// openUnused opens a log for which nobody has asked yet.
func (s *Store) openUnused(id PartitionID) (*openedLog, error) {
	o, mine, err := s.claim(id)
	if err != nil {
		return nil, err
	}
	if mine {
		s.recoverInto(o, id, unknownConfig(), nil)
	}
	<-o.ready
	return o, o.err
}

// tellLoss is whyLossy for who will tell it.
func (l *Log) tellLoss() string {
	l.mu.Lock()
	l.lossTold = true
	l.mu.Unlock()
	return l.whyLossy()
}

// forgetLoss is called when the controller has heard of what tellLoss told.
func (l *Log) forgetLoss() {
	l.mu.Lock()
	forget := l.lossTold && l.lossReason != ""
	if forget {
		l.lossReason = ""
	}
	l.mu.Unlock()
	if forget {
		l.disk.index.update(l.id, l.describe)
	}
}

// adopt gives a log that Held opened to its partition.
func (l *Log) adopt(cfg LogConfig, onDurable func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cfg, l.onDurable = cfg, onDurable // nobody has appended yet
	if l.memory != nil {
		l.memory.Configure(cfg.memoryConfig())
	}
}

// NeverHad vouches that this directory never reported anything of a log: it isn't
// here, and the index, which knows a log before anything of it is reported, has
// lost nothing since the controller last heard of this directory. So a partition
// that was made a moment before the process was killed isn't taken for a lost one
// (R73). Whoever removes a log's directory by hand leaves its entry in the index.
func (s *Store) NeverHad(id PartitionID) bool {
	if !s.vouches {
		return false
	}
	_, known := s.index.meta(id)
	return !known && !s.exists(id)
}

// DurableStart says that whatever the runs before this one reported as durable was
// fsynced: they ran with FsyncCommit and none saw its disk fail. Together with a
// log that isn't lossy it proves that nothing is missing, though a process was
// killed (R72). It stays false, over restarts, until SetBrokerEpoch.
func (s *Store) DurableStart() bool { return s.durable }

// SetBrokerEpoch notes under which epoch the controller has registered this broker,
// with what CleanStart, DurableStart and Held told. Close will write it into the
// clean-shutdown marker (R71), and what was told need not be told again.
func (s *Store) SetBrokerEpoch(epoch int64) {
	s.brokerEpoch.Store(epoch)
	for _, l := range s.opened(false) {
		l.forgetLoss()
	}
	s.identityMu.Lock()
	defer s.identityMu.Unlock()
	if !s.identity.Unproven && !s.identity.Forgetful {
		return
	}
	changed := s.identity
	changed.Unproven, changed.Forgetful = false, false
	if err := s.writeIdentity(changed); err != nil {
		s.opts.Logger.Warn().Err(err).Str("file", identityFileName).Msg("not written; the next start counts as one without proof")
		return
	}
	s.identity = changed
}

// failedFileName is there when the disk failed in the last run.
const failedFileName = "disk-failed"

// noteFailure leaves a mark for the next start, if the disk still can.
func (s *Store) noteFailure() {
	cause := fmt.Appendf(nil, "%s %v\n", s.opts.Now().UTC().Format("2006-01-02T15:04:05Z"), s.Failure())
	err := withSpace(s.guard.outOfSpace, func() error { return vfs.WriteFile(s.opts.FS, filepath.Join(s.opts.Dir, failedFileName), cause) })
	if err != nil {
		s.opts.Logger.Warn().Err(err).Msg("the disk's failure could not be noted")
	}
}
