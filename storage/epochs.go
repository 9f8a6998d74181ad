package storage

import (
	"math"
	"slices"
)

// EpochEntry says that leader epoch Epoch began at StartOffset.
type EpochEntry struct {
	Epoch       int32
	StartOffset int64
}

// BeginEpoch says that leader epoch `epoch` begins at the log's end. It is
// durable before the first byte appended in it is written (R49), and soon if
// none is: starting ten thousand idle partitions needs no fsync each. Calling it
// again with the newest epoch, or with an older one, does nothing. An epoch
// without records gives way to the next one, as in Kafka.
func (l *Log) BeginEpoch(epoch int32) error {
	l.mu.Lock()
	switch {
	case l.failed != nil:
		defer l.mu.Unlock()
		return l.failed
	case l.closed:
		l.mu.Unlock()
		return ErrClosed
	}
	began := l.noteEpoch(epoch, l.stagedEnd)
	if began {
		l.ownEpoch = epoch
	}
	l.epochPending = l.epochPending || began
	l.mu.Unlock()
	if began {
		l.disk.index.update(l.id, l.describe)
	}
	return nil
}

// noteEpoch adds an entry unless the epoch is known. Call it under mu.
func (l *Log) noteEpoch(epoch int32, start int64) bool {
	n := len(l.epochs)
	if n > 0 && l.epochs[n-1].Epoch >= epoch {
		return false
	}
	for n > 0 && l.epochs[n-1].StartOffset >= start {
		n--
	}
	l.epochs = append(slices.Clip(l.epochs[:n]), EpochEntry{Epoch: epoch, StartOffset: start})
	return true
}

// unstage gives back the offsets above the log's end. This replica's own epoch, if
// it was to begin among them, begins at the end; those of another leader are
// learned again with their batches. Call it under mu.
func (l *Log) unstage() {
	l.stagedEnd = l.written
	l.forgetFrom(l.written, l.written)
	if n := len(l.epochs); n > 0 && l.epochs[n-1].StartOffset > l.written {
		newest := l.epochs[n-1].Epoch
		l.cutEpochs(l.written + 1)
		if newest == l.ownEpoch {
			l.noteEpoch(newest, l.written)
			l.epochPending = true
		}
	}
}

// mendEpochsOf gives batches that were read the leader epoch that the entries know
// for their place. No checksum covers it in the batch; a flipped bit there would
// reach followers, and could make them truncate what is good (V26).
func (l *Log) mendEpochsOf(page []byte, epochs []EpochEntry) {
	i := 0
	for len(page) > 0 {
		b := Batch(page)
		base := b.BaseOffset()
		for i+1 < len(epochs) && epochs[i+1].StartOffset <= base {
			i++
		}
		if i < len(epochs) && epochs[i].StartOffset <= base && epochs[i].Epoch != b.LeaderEpoch() {
			l.warnOfEpoch(base, b.LeaderEpoch(), epochs[i].Epoch)
			b.stamp(base, epochs[i].Epoch)
		}
		page = page[b.Size():]
	}
}

func (l *Log) warnOfEpoch(offset int64, found, right int32) {
	l.mu.Lock()
	told := l.epochTold
	l.epochTold = true
	l.mu.Unlock()
	if !told { // once a log: it is the same at every read
		l.disk.logger.Error().Stringer("partition", l.id).Int64("offset", offset).Int32("epoch", found).Int32("right_epoch", right).
			Msg("a batch's leader epoch is damaged on the disk; it is read as the right one")
	}
}

// Epochs lists the leader-epoch entries in order.
func (l *Log) Epochs() []EpochEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.epochs)
}

// mergeEpochs joins the epochs that the index knows with those of the batches
// that were scanned. An entry without records counts (R50), unless what it
// counts from is gone.
func (r *recovery) mergeEpochs() []EpochEntry {
	var merged []EpochEntry
	add := func(e EpochEntry) {
		if n := len(merged); e.StartOffset <= r.next && (n == 0 || merged[n-1].Epoch < e.Epoch && merged[n-1].StartOffset < e.StartOffset) {
			merged = append(merged, e)
		}
	}
	from := int64(math.MaxInt64)
	if len(r.epochs) > 0 {
		from = r.epochs[0].StartOffset
	}
	for _, e := range r.meta.Epochs {
		if e.StartOffset < from {
			add(e)
		}
	}
	for _, e := range r.epochs {
		add(e)
	}
	for _, e := range r.meta.Epochs {
		if len(r.epochs) == 0 || e.StartOffset == r.next {
			add(e)
		}
	}
	return merged
}
