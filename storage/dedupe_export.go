package storage

import (
	"errors"
	"fmt"

	"highwater/storage/dedupe"
)

// ExportDedupe encodes all that is remembered of records below an offset, for a
// replica that can't learn it from the log: its copy begins above, or records were
// compacted away. below may be anything up to the log's end. Errors: *CorruptError,
// ErrClosed, *FailedError.
func (l *Log) ExportDedupe(below int64) ([]byte, error) {
	for range maxLookUps {
		l.awaitLearned()
		l.mu.Lock()
		memory := l.memory
		if memory == nil {
			memory = dedupe.New(l.cfg.memoryConfig())
		}
		view := memory.View()
		l.mu.Unlock()
		out, err := view.Export(below, l.readRun)
		if err == nil {
			return out, nil
		}
		if err := l.failure(); err != nil {
			return nil, err
		}
		l.disk.logger.Debug().Stringer("partition", l.id).Err(err).Msg("export of message ids begins anew")
	}
	return nil, &CorruptError{Path: indexFileName, Reason: "message ids can't be read"}
}

// ImportDedupe takes in what the leader exported, in place of all that is remembered of
// records below the export's offset; it is durable when this returns, so that nobody
// counts on this replica before. The log may end below that offset, for its records
// come after: those up to there are known by then, also after a restart. Taking an
// export twice is harmless. The error is a *CorruptError if it is no export, and else
// ErrClosed, ErrDiskNearlyFull or *FailedError.
func (l *Log) ImportDedupe(export []byte) error {
	kept, err := dedupe.ParseImport(export)
	if err != nil {
		return &CorruptError{Reason: fmt.Sprintf("export of message ids: %v", err)}
	}
	err = l.maintain(func() error {
		l.mu.Lock()
		l.learning, l.imported, l.forgot = true, kept.Covered, false
		l.mu.Unlock()
		if err := l.begin(kept, kept.Covered); err != nil {
			l.learned()
			return err
		}
		return l.learn(kept.Covered)
	})
	if err != nil {
		return err
	}
	if err := l.disk.index.settle(l.id); !errors.Is(err, ErrDiskNearlyFull) {
		return wrapFailed(l, err)
	}
	return ErrDiskNearlyFull
}

// RemembersBelow is the offset below which what is remembered doesn't depend on the log's
// records: another replica told it, or it was put aside before a compaction. There is
// no need to import what is below it. It goes back when the log is cut, or begins anew.
func (l *Log) RemembersBelow() int64 { l.mu.Lock(); defer l.mu.Unlock(); return l.imported }

// MayHaveForgotten tells that the index was lost before this start, and with it what it alone
// knew of message ids and producers whose records retention or compaction took. It ends with
// ImportDedupe. Another start before that may not tell it any more.
func (l *Log) MayHaveForgotten() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.forgot }

// DedupeDigest is a hash of all that the log remembers and would go by now.
func (l *Log) DedupeDigest() ([32]byte, error) {
	l.awaitLearned()
	l.mu.Lock()
	memory := l.memory
	if memory == nil {
		memory = dedupe.New(l.cfg.memoryConfig())
	}
	view := memory.View()
	l.mu.Unlock()
	return view.Digest(l.readRun)
}

// RecomputeDedupeDigest is what DedupeDigest would be if the log had learned everything
// anew: from what no log can tell, and its own records as they are on disk (V29). It is
// for tests, of a log that is at rest and whose append times don't go back (or what was the
// newest one at an offset may not be known any more, see dedupe.View.Export).
func (l *Log) RecomputeDedupeDigest() ([32]byte, error) {
	l.awaitLearned()
	l.mu.Lock()
	cfg, start, end, below := l.cfg.memoryConfig(), l.start, l.written, l.untold()
	var view *dedupe.View
	if l.memory != nil {
		view = l.memory.View()
	}
	l.mu.Unlock()
	fresh := dedupe.New(cfg)
	fresh.SetStart(start)
	runs := map[*dedupe.Run][]byte{}
	if view != nil && below > 0 {
		export, err := view.Export(below, l.readRun)
		if err != nil {
			return [32]byte{}, err
		}
		kept, err := dedupe.ParseImport(export)
		if err != nil {
			return [32]byte{}, err
		}
		if err := fresh.Restore(kept.Covered, kept.Snapshot, kept.Runs); err != nil {
			return [32]byte{}, err
		}
		for i, r := range kept.Runs {
			runs[r] = kept.Bytes[i]
		}
	}
	var fr factsReader
	for from := max(below, start); from < end; {
		res, err := l.Read(from, end, learnBytes, nil)
		if err != nil {
			return [32]byte{}, err
		}
		for rest := res.Data; len(rest) > 0; {
			b := Batch(rest[:Batch(rest).Size()])
			rest, from = rest[len(b):], b.NextOffset()
			if f, _ := fr.batch(b); f != nil { // of records that can't be decoded nobody remembers more
				fresh.Note(f)
			}
		}
	}
	return fresh.View().Digest(func(r *dedupe.Run, from, to int) ([]byte, error) { return runs[r][from:to], nil })
}
