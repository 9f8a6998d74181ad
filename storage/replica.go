package storage

import "fmt"

// ReplicaBatchError: bytes from a partition's leader can't be appended here (R17).
// Nothing was staged.
type ReplicaBatchError struct {
	// Offset that the batch at fault was expected to have.
	Offset int64
	// Corrupt: the bytes are no valid batch, on the leader's disk or since. Else
	// the batch is sound and doesn't belong here: a gap, an overlap, or a leader
	// epoch that goes back or is ahead of the leader's.
	Corrupt bool
	Reason  string
}

func (e *ReplicaBatchError) Error() string {
	return fmt.Sprintf("storage: batch from the leader at offset %d: %s", e.Offset, e.Reason)
}

// StageReplica queues whole batches as the partition's leader has them, back to
// back in raw, for the next write: Stage for a follower. Offsets, leader epochs
// and timestamps stay as they are. leaderEpoch is the follower's current one.
//
// raw belongs to the log until it is written. Nothing of it is staged unless all
// of it is sound and goes on where the log ends (R17, V27): CRCs, offsets without
// gap or overlap, leader epochs that don't go back nor pass leaderEpoch. An epoch
// that begins in raw is noted (V26). Errors: *ReplicaBatchError, ErrClosed,
// ErrDiskNearlyFull, *FailedError.
func (l *Log) StageReplica(raw []byte, leaderEpoch int32) (Staged, error) {
	if len(raw) == 0 {
		panic("storage: StageReplica of no batches")
	}
	batches, refusal := splitReplica(raw, leaderEpoch)
	if refusal != nil {
		if refusal.Offset < 0 {
			refusal.Offset = l.StagedEnd()
		}
		return Staged{}, refusal
	}
	if err := l.disk.admit(int64(len(raw))); err != nil {
		return Staged{}, err
	}
	fr := factsReaders.Get().(*factsReader)
	defer factsReaders.Put(fr)
	fr.lend()                                    // only the memory takes them, and copies
	facts, _ := fr.all(batches, nil)             // of records that can't be decoded the leader remembers no more either
	fr.rec = Record{Headers: fr.rec.Headers[:0]} // it is kept, the batches aren't
	now := l.disk.nowMs()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refusal(); err != nil {
		return Staged{}, err
	}
	if base := batches[0].BaseOffset(); base < l.stagedEnd && batches[0].Sparse() {
		// The leader's compaction has made one batch cover more than it did (see from).
		if rest, ok := batches[0].from(l.stagedEnd); ok && batches[0].NextOffset() > l.stagedEnd {
			batches[0] = rest
			if facts != nil {
				facts[0] = nil
			}
		}
	}
	if base := batches[0].BaseOffset(); base != l.stagedEnd {
		return Staged{}, &ReplicaBatchError{Offset: l.stagedEnd, Reason: fmt.Sprintf("begins at offset %d", base)}
	}
	first := batches[0].LeaderEpoch()
	if n := len(l.epochs); n > 0 && first < l.epochs[n-1].Epoch {
		return Staged{}, &ReplicaBatchError{Offset: l.stagedEnd, Reason: fmt.Sprintf("leader epoch %d after %d", first, l.epochs[n-1].Epoch)}
	}
	l.appendTime = max(l.appendTime, now)
	g := group{batches: batches, base: l.stagedEnd, end: batches[len(batches)-1].NextOffset(), bytes: len(raw), appendTime: l.appendTime}
	for _, b := range batches {
		// No need to have the index wait for it: recovery finds it in the batches.
		l.noteEpoch(b.LeaderEpoch(), b.BaseOffset())
		if b.LogAppendTime() {
			l.appendTime = max(l.appendTime, b.MaxTimestamp()) // should this replica lead later
		}
	}
	l.note(batches, facts)
	return l.enqueue(g), nil
}

// splitReplica cuts raw into batches and checks all that needs no log. An error's
// offset is -1 when it is about the first batch.
func splitReplica(raw []byte, leaderEpoch int32) ([]Batch, *ReplicaBatchError) {
	var batches []Batch
	next, epoch := int64(-1), int32(0)
	for len(raw) > 0 {
		b, rest, err := ParseBatch(raw)
		if err != nil {
			return nil, &ReplicaBatchError{Offset: next, Corrupt: true, Reason: reasonOf(err)}
		}
		base := b.BaseOffset()
		switch {
		case next >= 0 && base != next:
			return nil, &ReplicaBatchError{Offset: next, Reason: fmt.Sprintf("begins at offset %d", base)}
		case b.LeaderEpoch() < epoch:
			return nil, &ReplicaBatchError{Offset: next, Reason: fmt.Sprintf("leader epoch %d after %d", b.LeaderEpoch(), epoch)}
		case b.LeaderEpoch() > leaderEpoch:
			return nil, &ReplicaBatchError{Offset: next, Reason: fmt.Sprintf("leader epoch %d from a leader of epoch %d", b.LeaderEpoch(), leaderEpoch)}
		}
		batches = append(batches, b)
		next, epoch, raw = b.NextOffset(), b.LeaderEpoch(), rest
	}
	return batches, nil
}
