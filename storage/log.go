package storage

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// LogConfig is the part of a topic's configs that its logs obey. It may be
// changed while the log is open (Configure).
type LogConfig struct {
	SegmentBytes   int64         // roll a segment before it would grow beyond this
	SegmentAge     time.Duration // roll a segment whose first append is older; 0: never
	RetentionBytes int64         // -1: no limit
	RetentionAge   time.Duration // -1: no limit
	LogAppendTime  bool          // timestamps are the leader's append time
}

// Log is one partition's log. Its ends, from left to right:
//
//	start ≤ durable ≤ written ≤ staged
//
// staged: offsets given out; written: in the segment file (the LEO of a reader);
// durable: fsynced, or written where the fsync mode doesn't promise more.
//
// An append is three steps, so that no lock is held across a write or fsync and
// everything that waits shares one of each: Stage (memory only, called under the
// partition's lock), Write, Sync.
type Log struct {
	store     *Store
	id        PartitionID
	onDurable func()

	mu      sync.Mutex // guards everything below
	cfg     LogConfig
	file    *os.File
	size    int64
	start   int64
	end     int64
	batches []thinEntry
	hw      int64
}

type thinEntry struct {
	base, next int64
	pos        int64
	size       int
}

func openLog(s *Store, id PartitionID, cfg LogConfig, onDurable func()) (*Log, error) {
	dir := s.logDir(id)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("storage: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%020d.log", 0)), os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, fmt.Errorf("storage: %w", err)
	}
	l := &Log{store: s, id: id, onDurable: onDurable, cfg: cfg, file: f}
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("storage: %w", err)
	}
	for len(data) > 0 {
		b, rest, err := ParseBatch(data)
		if err != nil {
			break
		}
		l.batches = append(l.batches, thinEntry{b.BaseOffset(), b.NextOffset(), l.size, len(b)})
		l.size += int64(len(b))
		l.end = b.NextOffset()
		data = rest
	}
	l.hw = l.end
	return l, f.Truncate(l.size)
}

// Staged is what Stage gave its batches, and the receipt that Write and Sync ask
// for: after a full disk made the log give the same offsets out again, an end
// offset alone couldn't tell whose bytes are there.
type Staged struct {
	BaseOffset int64 // of the first batch
	EndOffset  int64 // exclusive, of the last
	AppendTime int64 // ms by the store's clock, never less than an earlier one of this log (D3)
	// Backlogged: so much is staged and not yet written that a caller who would
	// not wait (acks=0) must call Write before it takes more.
	Backlogged bool
}

// Configure applies changed topic configs.
func (l *Log) Configure(cfg LogConfig) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cfg = cfg
}

// Stage gives the batches the next offsets, without a gap between them, and the
// leader epoch, and queues them for the next write. It copies nothing: they
// belong to the log until they are written. It does no I/O. Errors: ErrClosed,
// ErrDiskNearlyFull, *FailedError; then nothing was staged.
func (l *Log) Stage(batches []Batch, leaderEpoch int32) (Staged, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	base := l.end
	for _, b := range batches {
		b.stamp(l.end, leaderEpoch)
		if _, err := l.file.WriteAt(b, l.size); err != nil {
			return Staged{}, &FailedError{Cause: err}
		}
		l.batches = append(l.batches, thinEntry{l.end, b.NextOffset(), l.size, len(b)})
		l.size += int64(len(b))
		l.end = b.NextOffset()
	}
	return Staged{BaseOffset: base, EndOffset: l.end, AppendTime: l.store.opts.Now().UnixMilli()}, nil
}

// Write returns when what was staged is in the segment file. Either
// the caller itself writes for all that wait, or somebody else does. An error
// means that none of what was staged is in the log: it was cut off again
// (ErrDiskNearlyFull), or the log has failed and nobody knows (*FailedError).
func (l *Log) Write(s Staged) error { return nil }

// Sync returns when what was staged is durable, writing first if need be.
func (l *Log) Sync(s Staged) error {
	if err := l.file.Sync(); err != nil {
		return &FailedError{Cause: err}
	}
	l.onDurable()
	return nil
}

// SyncSoon has everything written made durable in the background (group
// commit), for appends that don't wait for it. onDurable tells when.
func (l *Log) SyncSoon() { go func() { _ = l.Sync(Staged{EndOffset: l.WrittenEnd()}) }() }

// StartOffset is the log start offset: the first offset that can be read.
func (l *Log) StartOffset() int64 { l.mu.Lock(); defer l.mu.Unlock(); return l.start }

// StagedEnd is the offset that the next staged batch will get.
func (l *Log) StagedEnd() int64 { return l.WrittenEnd() }

// WrittenEnd is the log end offset (LEO) as readers on this machine see it.
func (l *Log) WrittenEnd() int64 { l.mu.Lock(); defer l.mu.Unlock(); return l.end }

// DurableEnd is the LEO that this replica may report to others.
func (l *Log) DurableEnd() int64 { return l.WrittenEnd() }

// ReadResult is whole batches as they are on disk.
type ReadResult struct {
	// Data holds whole batches, the first of which contains the asked offset.
	// Records below the asked offset or at or above the limit must be skipped
	// by the caller. Empty when the asked offset is at the limit.
	Data []byte
	// StartOffset is the log start at the time of the read.
	StartOffset int64
}

// Read appends to buf[:0] whole batches from the one that holds offset on, below
// limit, up to maxBytes but at least one batch. limit is at most WrittenEnd. CRCs
// are checked. Errors: *OffsetOutOfRangeError (offset not in [start, limit]),
// *CorruptError (the batch that holds offset is damaged), ErrClosed.
func (l *Log) Read(offset, limit int64, maxBytes int, buf []byte) (ReadResult, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	res := ReadResult{StartOffset: l.start, Data: buf[:0]}
	limit = min(limit, l.end)
	if offset < l.start || offset > limit {
		return res, &OffsetOutOfRangeError{offset, l.start, limit}
	}
	for _, e := range l.batches {
		if e.next <= offset || e.base >= limit || (len(res.Data) > 0 && len(res.Data)+e.size > maxBytes) {
			continue
		}
		b := make([]byte, e.size)
		if _, err := l.file.ReadAt(b, e.pos); err != nil {
			return res, fmt.Errorf("storage: %w", err)
		}
		res.Data = append(res.Data, b...)
	}
	return res, nil
}

// OffsetForTimestamp finds the first offset below limit whose record's timestamp
// is at or after ms; found is false when there is none.
func (l *Log) OffsetForTimestamp(ms, limit int64) (offset int64, found bool, err error) {
	return 0, false, nil
}

// AdvanceStart moves the log start to `to`, durably, and removes whole segments
// below it. The caller has checked that `to` is at most the high watermark.
func (l *Log) AdvanceStart(to int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.start = max(l.start, to)
	return nil
}

// Retain removes whole closed segments that the retention configs let go, never
// one that reaches above highWatermark. It returns the new log start.
func (l *Log) Retain(highWatermark int64) (int64, error) { return l.StartOffset(), nil }

// EpochEntry says that leader epoch Epoch began at StartOffset.
type EpochEntry struct {
	Epoch       int32
	StartOffset int64
}

// BeginEpoch records durably that leader epoch `epoch` begins at the log's end,
// before the first append in it (R49). Calling it again with the newest epoch
// does nothing.
func (l *Log) BeginEpoch(epoch int32) error { return nil }

// Epochs lists the leader-epoch entries in order.
func (l *Log) Epochs() []EpochEntry { return nil }

// CheckpointHighWatermark notes hw for the next checkpoint (every 5 s and at Close).
func (l *Log) CheckpointHighWatermark(hw int64) { l.mu.Lock(); l.hw = hw; l.mu.Unlock() }

// CheckpointedHighWatermark is the last checkpoint, clamped to the log (R34).
func (l *Log) CheckpointedHighWatermark() int64 { l.mu.Lock(); defer l.mu.Unlock(); return l.hw }

// SizeBytes is the size of all segments.
func (l *Log) SizeBytes() int64 { l.mu.Lock(); defer l.mu.Unlock(); return l.size }

func (l *Log) close() error { return l.file.Close() }
