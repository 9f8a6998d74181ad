package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"go.etcd.io/bbolt"
)

const (
	// indexInterval is how long notes wait for a transaction, which costs two
	// fdatasyncs of a disk that produce needs as well (S10).
	indexInterval = time.Second
	// maxDeletesPerTx bounds the memory of a transaction that drops a large log.
	maxDeletesPerTx = 20_000
	// indexFillPercent: keys of a log come in order, so a page that splits stays full.
	indexFillPercent = 0.9
)

func (ix *index) wakeWriter() {
	select {
	case ix.wake <- struct{}{}:
	default:
	}
}

// run writes what is noted every indexInterval until ctx ends. Nothing noted, no
// transaction. The error is final (S4).
func (ix *index) run(ctx context.Context) error {
	tick := time.NewTicker(indexInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-ix.wake:
		}
		if err := ix.flush(); err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrDiskNearlyFull) {
			return err
		}
	}
}

// flush returns when everything noted before the call is durable.
func (ix *index) flush() error {
	ix.mu.RLock()
	l, err := ix.dirty, ix.err
	if len(l.logs) == 0 {
		l = ix.inWrite
	}
	ix.mu.RUnlock()
	if err != nil || l == nil {
		return err
	}
	return ix.await(l)
}

// await returns when l is written: by this goroutine, if it gets the token first,
// with all that was noted until then. ErrDiskNearlyFull: there is no room for it, and
// it stays noted.
func (ix *index) await(l *layer) error {
	select {
	case <-l.written:
		return l.err
	case <-ix.writing:
	}
	defer func() { ix.writing <- struct{}{} }()
	for {
		select {
		case <-l.written:
			return l.err
		default:
		}
		if err := ix.writeOldest(); err != nil {
			return err
		}
	}
}

// writeOldest writes the layer that found no room before, if there is one, and else
// the dirty one. The caller holds the token.
func (ix *index) writeOldest() error {
	ix.mu.Lock()
	err := ix.err
	if err == nil && ix.closed {
		err = ErrClosed
	}
	if err != nil {
		ix.mu.Unlock()
		return err
	}
	if ix.inWrite == nil {
		ix.inWrite, ix.dirty = ix.dirty, newLayer()
	}
	l := ix.inWrite
	ix.mu.Unlock()

	began := time.Now()
	err = withSpace(ix.outOfSpace, func() error { return ix.write(l) })
	ix.mu.Lock()
	switch {
	case err == nil:
		ix.inWrite = nil
		ix.commits++
	case outOfSpace(err): // who waits hears of it, and the next write begins with it
		err = ErrDiskNearlyFull
		ix.inWrite = &layer{logs: l.logs, entries: l.entries, runBytes: l.runBytes, written: make(chan struct{})}
	default:
		err = &FailedError{Cause: fmt.Errorf("index: %w", err)}
		ix.err = err // look-ups still find the layer in inWrite
	}
	ix.mu.Unlock()
	if err == nil {
		ix.onWrite(time.Since(began))
	}
	l.err = err
	close(l.written)
	return err
}

// write brings l into the file, in one transaction unless it deletes very much.
// bbolt panics on pages that it can't make sense of; here that is one more error.
func (ix *index) write(l *layer) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if err := ix.syncNames(); err != nil {
		return err
	}
	ids := make([]PartitionID, 0, len(l.logs))
	for id := range l.logs {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b PartitionID) int {
		return cmpOr(bytes.Compare(a.Topic[:], b.Topic[:]), int(a.Partition)-int(b.Partition))
	})
	for whole := false; !whole; {
		err := ix.db.Update(func(tx *bbolt.Tx) error {
			w := indexWriter{meta: tx.Bucket(bucketMeta), offset: tx.Bucket(bucketOffset), time: tx.Bucket(bucketTime), ids: tx.Bucket(bucketIDs), producers: tx.Bucket(bucketProducers), deletesLeft: maxDeletesPerTx}
			w.meta.FillPercent, w.offset.FillPercent, w.time.FillPercent = indexFillPercent, indexFillPercent, indexFillPercent
			for _, id := range ids {
				if err := w.delete(id, l.logs[id]); err != nil {
					return err
				}
			}
			if w.deletesLeft <= 0 {
				return nil // commit what is deleted, go on in the next
			}
			whole = true
			changed := w.deletesLeft < maxDeletesPerTx
			for _, id := range ids {
				c, err := w.put(id, l.logs[id])
				if err != nil {
					return err
				}
				changed = changed || c
			}
			if !changed {
				return errNothingToWrite
			}
			return nil
		})
		if err != nil && !errors.Is(err, errNothingToWrite) {
			return err
		}
	}
	return nil
}

// errNothingToWrite rolls a transaction back that would change nothing.
var errNothingToWrite = errors.New("nothing to write")

func cmpOr(a, b int) int {
	if a != 0 {
		return a
	}
	return b
}

// indexWriter applies notes within one transaction.
type indexWriter struct {
	meta, offset, time *bbolt.Bucket
	ids, producers     *bbolt.Bucket
	deletesLeft        int
	key, value         []byte
}

func (w *indexWriter) delete(id PartitionID, n *noted) error {
	prefix := appendLogKey(nil, id)
	if n.dropped {
		if w.meta.Get(prefix) != nil {
			w.deletesLeft--
			if err := w.meta.Delete(prefix); err != nil {
				return err
			}
		}
		all := func(_, _ []byte) bool { return true }
		return errors.Join(w.deleteForward(w.offset, prefix, prefix, all), w.deleteForward(w.time, prefix, prefix, all), w.deleteDedupe(id))
	}
	if n.dedupe.dropped {
		if err := w.deleteDedupe(id); err != nil {
			return err
		}
	}
	if n.truncatedTo < maxInt64 {
		err := w.deleteForward(w.offset, prefix, appendOffsetKey(nil, id, n.truncatedTo), func(_, _ []byte) bool { return true })
		if err != nil {
			return err
		}
		above := func(k, v []byte) bool { e, err := parseTimeEntry(k, v); return err != nil || e.Offset >= n.truncatedTo }
		if err := w.deleteBackward(w.time, prefix, above); err != nil {
			return err
		}
	}
	for _, s := range n.cleared {
		end := appendOffsetKey(nil, id, s.to)
		inside := func(k, _ []byte) bool { return bytes.Compare(k, end) < 0 }
		if err := w.deleteForward(w.offset, prefix, appendOffsetKey(nil, id, s.from), inside); err != nil {
			return err
		}
	}
	if n.deletedBelow > 0 {
		end := appendOffsetKey(nil, id, n.deletedBelow)
		below := func(k, _ []byte) bool { return bytes.Compare(k, end) < 0 }
		if err := w.deleteForward(w.offset, prefix, prefix, below); err != nil {
			return err
		}
		older := func(k, v []byte) bool { e, err := parseTimeEntry(k, v); return err != nil || e.Offset < n.deletedBelow }
		return w.deleteForward(w.time, prefix, prefix, older)
	}
	return nil
}

// deleteForward deletes the log's keys from `from` on while doomed says so.
func (w *indexWriter) deleteForward(b *bbolt.Bucket, prefix, from []byte, doomed func(k, v []byte) bool) error {
	var keys [][]byte
	c := b.Cursor()
	for k, v := c.Seek(from); len(keys) < w.deletesLeft && bytes.HasPrefix(k, prefix) && doomed(k, v); k, v = c.Next() {
		keys = append(keys, bytes.Clone(k))
	}
	return w.deleteKeys(b, keys)
}

// deleteBackward deletes the log's keys from its last one on while doomed says so.
func (w *indexWriter) deleteBackward(b *bbolt.Bucket, prefix []byte, doomed func(k, v []byte) bool) error {
	var keys [][]byte
	c := b.Cursor()
	for k, v := seekLast(c, prefix); len(keys) < w.deletesLeft && bytes.HasPrefix(k, prefix) && doomed(k, v); k, v = c.Prev() {
		keys = append(keys, bytes.Clone(k))
	}
	return w.deleteKeys(b, keys)
}

// deleteKeys deletes after the walk is over: a cursor may skip keys after a Delete.
func (w *indexWriter) deleteKeys(b *bbolt.Bucket, keys [][]byte) error {
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	w.deletesLeft -= len(keys)
	return nil
}

// put writes entries and meta, and reports whether that changed anything.
func (w *indexWriter) put(id PartitionID, n *noted) (changed bool, err error) {
	for _, e := range n.offsets {
		w.key = appendOffsetKey(w.key[:0], id, e.Offset)
		w.value = appendOffsetValue(w.value[:0], w.key, e)
		// bbolt keeps the value until the commit, and copies the key itself.
		if err := w.offset.Put(w.key, bytes.Clone(w.value)); err != nil {
			return false, err
		}
	}
	for _, e := range n.times {
		w.key = appendTimeKey(w.key[:0], id, e.MaxTimestamp)
		w.value = appendTimeValue(w.value[:0], w.key, e)
		if err := w.time.Put(w.key, bytes.Clone(w.value)); err != nil {
			return false, err
		}
	}
	if changed, err = w.putDedupe(id, &n.dedupe); err != nil {
		return false, err
	}
	changed = changed || len(n.offsets)+len(n.times) > 0
	if n.meta == nil {
		return changed, nil
	}
	w.key = appendLogKey(w.key[:0], id)
	w.value = appendMeta(w.value[:0], w.key, n.meta)
	if bytes.Equal(w.value, w.meta.Get(w.key)) {
		return changed, nil
	}
	return true, w.meta.Put(w.key, bytes.Clone(w.value))
}

// close writes what is left. The caller has stopped run.
func (ix *index) close() error {
	err := ix.flush()
	<-ix.writing // wait out a writer; nobody gets the token for writing again
	defer func() { ix.writing <- struct{}{} }()
	ix.mu.Lock()
	closed := ix.closed
	ix.closed = true
	ix.mu.Unlock()
	if closed {
		return nil
	}
	return errors.Join(err, ix.db.Close())
}
