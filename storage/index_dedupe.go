package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	"highwater/storage/dedupe"
)

// What the index keeps of the message ids and producers that a log remembers: one
// state entry, and runs of ids, which are never changed (storage/dedupe). A run's key
// begins with its class, so that small runs, which come and go, share no page with
// those that stay: bbolt writes a page anew for each change in it. For the same reason, and as it copies
// what it writes, a run is stored in pieces, whose keys end in their numbers.

// runKey names a run of one log.
type runKey struct {
	class       uint8 // of its size; below runClasses
	first, next int64 // the offsets that it covers: no other run ever has had these two
}

// runClasses is the number of classes: of runs that are merged sooner or later, and of
// those that aren't.
const runClasses = 2

// pieceBytes is the length of all pieces of a run but the last. A page of bbolt's holds two
// values at least; two of this length fill 32 pages of the file.
const pieceBytes = 65_400

// urgentRunBytes is how much of runs may wait for the writer's next tick.
const urgentRunBytes = 16 << 20

// dedupeNote is a change of what is kept of a log, in this order.
type dedupeNote struct {
	dropped bool              // everything before it
	state   []byte            // nil: as it was
	runs    map[runKey][]byte // nil: removed
}

// join applies later on top of n.
func (n *dedupeNote) join(later dedupeNote) {
	if later.dropped {
		*n = dedupeNote{dropped: true}
	}
	if later.state != nil {
		n.state = later.state
	}
	if n.runs == nil && len(later.runs) > 0 {
		n.runs = map[runKey][]byte{}
	}
	for k, run := range later.runs {
		n.runs[k] = run
	}
}

func appendStateKey(dst []byte, id PartitionID) []byte { return appendLogKey(dst, id) }

func appendRunPrefix(dst []byte, class uint8, id PartitionID) []byte {
	return appendLogKey(append(dst, class), id)
}

func appendRunKey(dst []byte, id PartitionID, k runKey) []byte {
	dst = binary.BigEndian.AppendUint64(appendRunPrefix(dst, k.class, id), uint64(k.first))
	return binary.BigEndian.AppendUint64(dst, uint64(k.next))
}

func appendPieceKey(dst []byte, id PartitionID, k runKey, piece int) []byte {
	return binary.BigEndian.AppendUint32(appendRunKey(dst, id, k), uint32(piece))
}

// noteDedupe asks for a change of what is kept of the log, and of its meta, which
// come to the file in one transaction. make is called once, with the meta as it is; it
// must not block, nor call the index. ok is false when it wants no change.
func (ix *index) noteDedupe(id PartitionID, make func(*logMeta) (dedupeNote, bool)) {
	urgent := false
	ix.changeNoted(id, func(l *layer, n *noted) {
		note, ok := make(n.meta)
		if !ok {
			return
		}
		n.dedupe.join(note)
		for _, run := range note.runs {
			l.runBytes += len(run)
		}
		urgent = l.runBytes > urgentRunBytes
	})
	if urgent {
		ix.wakeWriter()
	}
}

// dedupeState is the log's state entry, a copy or one that never changes; nil: there is none.
func (ix *index) dedupeState(id PartitionID) []byte {
	ix.mu.RLock()
	for _, l := range [...]*layer{ix.dirty, ix.inWrite} {
		n := l.find(id)
		switch {
		case n == nil:
			continue
		case n.dedupe.state != nil || n.dedupe.dropped || n.dropped:
			ix.mu.RUnlock()
			return n.dedupe.state
		}
	}
	ix.mu.RUnlock()
	var state []byte
	key := appendStateKey(nil, id)
	ix.view(func(tx *bbolt.Tx) error {
		value := tx.Bucket(bucketProducers).Get(key)
		if value == nil {
			return nil
		}
		payload, err := unseal(bucketProducers, key, value)
		if err != nil {
			return fmt.Errorf("producers of %s: %w", id, err)
		}
		state = bytes.Clone(payload)
		return nil
	})
	return state
}

// notedRuns are those of the log's runs that the layers name; a nil one is removed. hidden: the
// file has no more of it.
func (ix *index) notedRuns(id PartitionID, keys ...runKey) (noted map[runKey][]byte, hidden bool) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	for _, l := range [...]*layer{ix.dirty, ix.inWrite} {
		n := l.find(id)
		if n == nil || hidden {
			continue
		}
		for _, k := range keys {
			run, changed := n.dedupe.runs[k]
			if _, known := noted[k]; known || !changed {
				continue
			}
			if noted == nil {
				noted = map[runKey][]byte{}
			}
			noted[k] = run
		}
		hidden = n.dropped || n.dedupe.dropped
	}
	return noted, hidden
}

// readPiece gives the bytes [from, to) of a run. errRunUnread: it isn't there. The other error is a
// *dedupe.CorruptError.
type readPiece func(k runKey, from, to int) ([]byte, error)

// viewRuns calls read with a look into these runs of the log as they are now; what get
// returns of one of them is good only until read returns. It
// checks no checksum: that is for who reads all of a run. false: it could not be read.
func (ix *index) viewRuns(id PartitionID, keys []runKey, read func(get readPiece)) (done bool) {
	noted, hidden := ix.notedRuns(id, keys...)
	ix.view(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(bucketIDs)
		read(func(k runKey, from, to int) ([]byte, error) {
			if run, known := noted[k]; known || hidden {
				return cutRun(run, from, to)
			}
			return readPieces(from, to, func(piece int) []byte {
				value := bucket.Get(appendPieceKey(nil, id, k, piece))
				return value[:max(len(value)-checksumSize, 0)]
			})
		})
		done = true
		return nil
	})
	return done
}

// cutRun is a readPiece of a run that is in memory; nil: it isn't there.
func cutRun(run []byte, from, to int) ([]byte, error) {
	switch {
	case run == nil:
		return nil, errRunUnread
	case to > len(run):
		return nil, &dedupe.CorruptError{Reason: "run is too short"}
	}
	return run[from:to:to], nil
}

// readPieces joins what lies in several pieces.
func readPieces(from, to int, get func(piece int) []byte) (joined []byte, err error) {
	for at := from; at < to; {
		piece := get(at / pieceBytes)
		begin := at / pieceBytes * pieceBytes
		end := min(to, begin+pieceBytes)
		if len(piece) < end-begin {
			if len(get(0)) == 0 {
				return nil, errRunUnread
			}
			return nil, &dedupe.CorruptError{Reason: "a piece of a run is missing"}
		}
		part := piece[at-begin : end-begin : end-begin]
		if at == from && end == to {
			return part, nil
		}
		if joined == nil {
			joined = make([]byte, 0, to-from)
		}
		joined = append(joined, part...)
		at = end
	}
	return joined, nil
}

// copyRun is a run's bytes, checked, and never changed; nil: it isn't there, or damaged.
func (ix *index) copyRun(id PartitionID, k runKey) (run []byte) {
	noted, hidden := ix.notedRuns(id, k)
	if run, known := noted[k]; known || hidden {
		return run
	}
	prefix := appendRunKey(nil, id, k)
	ix.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucketIDs).Cursor()
		piece := 0
		for key, value := c.Seek(prefix); bytes.HasPrefix(key, prefix); key, value = c.Next() {
			payload, err := unseal(bucketIDs, key, value)
			if err == nil && !bytes.Equal(key, appendPieceKey(nil, id, k, piece)) {
				err = errEntryDamaged
			}
			if err != nil {
				run = nil
				return fmt.Errorf("message ids of %s: %w", id, err)
			}
			run = append(run, payload...)
			piece++
		}
		return nil
	})
	return run
}

// deleteDedupe deletes all that is kept of the log.
func (w *indexWriter) deleteDedupe(id PartitionID) error {
	all := func(_, _ []byte) bool { return true }
	for class := range uint8(runClasses) {
		prefix := appendRunPrefix(nil, class, id)
		if err := w.deleteForward(w.ids, prefix, prefix, all); err != nil {
			return err
		}
	}
	key := appendStateKey(nil, id)
	if w.producers.Get(key) == nil {
		return nil
	}
	w.deletesLeft--
	return w.producers.Delete(key)
}

// putDedupe brings a note into the file, and tells whether there was anything to do.
func (w *indexWriter) putDedupe(id PartitionID, n *dedupeNote) (changed bool, err error) {
	for k, run := range n.runs {
		if err := w.putRun(id, k, run); err != nil {
			return false, err
		}
	}
	if n.state != nil {
		key := appendStateKey(nil, id)
		value := make([]byte, 0, len(n.state)+checksumSize)
		if err := w.producers.Put(key, seal(bucketProducers, key, append(value, n.state...), 0)); err != nil {
			return false, err
		}
	}
	return n.state != nil || len(n.runs) > 0, nil
}

// putRun puts a run in the place of what is there under its key; nil: nothing.
func (w *indexWriter) putRun(id PartitionID, k runKey, run []byte) error {
	prefix := appendRunKey(nil, id, k)
	var old [][]byte
	c := w.ids.Cursor()
	for key, _ := c.Seek(prefix); bytes.HasPrefix(key, prefix); key, _ = c.Next() {
		old = append(old, bytes.Clone(key))
	}
	for _, key := range old {
		if err := w.ids.Delete(key); err != nil {
			return err
		}
	}
	for piece := 0; len(run) > 0; piece++ {
		part := run[:min(len(run), pieceBytes)]
		run = run[len(part):]
		key := appendPieceKey(nil, id, k, piece)
		value := append(make([]byte, 0, len(part)+checksumSize), part...)
		if err := w.ids.Put(key, seal(bucketIDs, key, value, 0)); err != nil {
			return err
		}
	}
	return nil
}
