package storage

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"highwater/storage/vfs"
)

// A partition is a directory; its log is the batches of its segment files, one
// after the other and nothing else:
//
//	partitions/<topic id>-<partition>/
//	    00000000000000000000.log    named by the offset at which it begins,
//	    00000000000000004711.log    20 digits, so that names sort like offsets
//
// Batches go to the last file only, the active one. A new file is made when the
// old one, its length and its name are durable, so only the last file can end in
// bytes that a crash tore: whatever is wrong in an earlier one is corruption.
const segmentSuffix = ".log"

// indexEveryBytes is the number of segment bytes per index entry (Kafka's
// index.interval.bytes; its default of 4096 makes an index of 1.6 % of the data,
// which is read at each start. This makes a reader look through 16 KiB at most).
const indexEveryBytes = 16 << 10

// noTimestamp is the largest timestamp of no records at all.
const noTimestamp = math.MinInt64

// segment is one segment file.
type segment struct {
	base int64 // never changes

	// guarded by handles.mu
	handle *handle
	gone   bool // its file is not to be kept open

	// guarded by Log.mu; changed by the writer alone (synced by the syncer too)
	size         int64 // bytes of whole batches, which readers may see
	synced       int64 // bytes of them that are durable
	pinned       *handle
	maxTimestamp int64
	firstAppend  int64 // ms by the broker's clock; 0: nothing was appended
	lastAppend   int64
	verified     int64 // ms, when all of it was read and checked in this run; 0: never
	indexed      int64 // position of the last index entry; -1: none
}

func newSegment(base int64) *segment {
	return &segment{base: base, maxTimestamp: noTimestamp, indexed: -1}
}

func (s *segment) meta() segmentMeta {
	return segmentMeta{Base: s.base, Size: s.size, MaxTimestamp: s.maxTimestamp, FirstAppend: s.firstAppend, LastAppend: s.lastAppend}
}

func segmentName(base int64) string { return fmt.Sprintf("%020d%s", base, segmentSuffix) }

// parseSegmentName is segmentName's inverse; false for any other name.
func parseSegmentName(name string) (base int64, ok bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	base, err := strconv.ParseInt(digits, 10, 64)
	return base, err == nil && base >= 0 && segmentName(base) == name
}

// createSegment makes the file of a new, empty segment and its name durable, and
// leaves nothing behind when it fails. The caller has the handle.
func (l *Log) createSegment(base int64) (*segment, *handle, error) {
	name := filepath.Join(l.dir, segmentName(base))
	files := l.disk.files
	var f vfs.File
	err := files.withRoom(func() (err error) {
		f, err = l.disk.fs.Open(name, os.O_CREATE|os.O_EXCL|os.O_RDWR)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	s := newSegment(base)
	h := files.adopt(s, f)
	err = files.withRoom(func() error { return l.disk.fs.SyncDir(l.dir) })
	if err == nil && !l.dirSynced {
		err = files.withRoom(func() error { return l.disk.fs.SyncDir(l.disk.partitionsDir()) })
		l.dirSynced = err == nil
	}
	if err != nil {
		files.retire(s)
		files.release(h)
		if removeErr := l.disk.fs.Remove(name); removeErr != nil && isDiskFull(err) {
			err = removeErr // an empty file stays in the way: not a full disk but a broken one
		}
		return nil, nil, err
	}
	return s, h, nil
}
