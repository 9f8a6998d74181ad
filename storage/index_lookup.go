package storage

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// A read transaction pins pages and holds up the growth of the file, so each
// look-up has its own, as short as it can be (S11). What is read is decoded
// before the transaction ends: the bytes are the file's mapping (S14).

// maxLookupSteps bounds how many entries one look-up passes over: damaged ones,
// and those that a queued truncate will delete.
const maxLookupSteps = 1024

func (ix *index) storedMeta(id PartitionID) (m logMeta, found bool) {
	var buf [logKeySize]byte
	key := appendLogKey(buf[:0], id)
	ix.view(func(tx *bbolt.Tx) error {
		value := tx.Bucket(bucketMeta).Get(key)
		if value == nil {
			return nil
		}
		stored, err := parseMeta(key, value)
		if err != nil {
			return fmt.Errorf("meta of %s: %w", id, err)
		}
		m, found = stored, true
		return nil
	})
	return m, found
}

func (ix *index) storedOffsetFloor(id PartitionID, offset int64) (e indexEntry, found bool) {
	if offset < 0 {
		return e, false
	}
	var buf [entryKeySize]byte
	key := appendOffsetKey(buf[:0], id, offset)
	ix.view(func(tx *bbolt.Tx) (err error) {
		c := tx.Bucket(bucketOffset).Cursor()
		k, v := c.Seek(key)
		if !bytes.Equal(k, key) {
			k, v = c.Prev()
		}
		for step := 0; step < maxLookupSteps && bytes.HasPrefix(k, key[:logKeySize]); step++ {
			if e, err = parseOffsetEntry(k, v); err == nil {
				found = true
				return nil
			}
			k, v = c.Prev()
		}
		return err
	})
	return e, found
}

// storedTimeFloor finds the last entry with MaxTimestamp below ms and Offset below end.
func (ix *index) storedTimeFloor(id PartitionID, ms, end int64) (e timeEntry, found bool) {
	var buf [entryKeySize]byte
	key := appendTimeKey(buf[:0], id, ms)
	ix.view(func(tx *bbolt.Tx) (err error) {
		c := tx.Bucket(bucketTime).Cursor()
		c.Seek(key)
		k, v := c.Prev()
		for step := 0; step < maxLookupSteps && bytes.HasPrefix(k, key[:logKeySize]); step++ {
			if e, err = parseTimeEntry(k, v); err == nil && e.Offset < end {
				found = true
				return nil
			}
			k, v = c.Prev()
		}
		return err
	})
	return e, found
}

// seekLast moves c to the log's last key.
func seekLast(c *bbolt.Cursor, prefix []byte) (k, v []byte) {
	after := append(bytes.Clone(prefix), bytes.Repeat([]byte{0xff}, entryKeySize-logKeySize)...)
	k, v = c.Seek(after)
	if bytes.Equal(k, after) {
		return k, v
	}
	return c.Prev()
}

// view runs read in a transaction. The index is a cache: damage found here, which
// the check at open didn't see, makes the entry missing, and is told once.
func (ix *index) view(read func(*bbolt.Tx) error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	var err error
	func() {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
		}()
		err = ix.db.View(read)
	}()
	if err != nil && !errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		ix.damaged.Do(func() { ix.log.Warn().Err(err).Msg("index entry unreadable, using segments instead") })
	}
}
