package replication

import (
	"errors"

	"highwater/storage"
)

// sparseReadBytes is how much is read at once while a reader passes over offsets
// whose records were compacted away.
const sparseReadBytes = 256 << 10

// readVisible reads from the first record at or after the asked offset on. In a
// compacted log that may be far behind it; a consumer that got batches without a
// record for it would take them for the log's end. Where no record is left below
// limit, the result holds the last batches before it all the same, so that the
// reader moves on.
func readVisible(log *storage.Log, req *FetchRequest, limit int64) (storage.ReadResult, error) {
	offset, maxBytes := req.Offset, req.MaxBytes
	buf := req.Buffer
	for {
		r, err := log.Read(offset, limit, maxBytes, buf)
		if outside := (*storage.OffsetOutOfRangeError)(nil); errors.As(err, &outside) {
			outside.Offset = req.Offset // should the log's start have come by meanwhile
		}
		if err != nil || len(r.Data) == 0 || hasRecord(r.Data, offset, limit) {
			return r, err
		}
		next := nextOffset(r.Data)
		if next >= limit {
			return r, nil
		}
		offset, maxBytes, buf = next, max(req.MaxBytes, sparseReadBytes), r.Data
	}
}

// hasRecord tells whether one of the batches has a record in [offset, limit). Bytes
// that can't be decoded count as one: whoever gets them says what is wrong.
func hasRecord(batches []byte, offset, limit int64) bool {
	for len(batches) > 0 {
		b, rest, err := storage.SplitBatch(batches)
		if err != nil {
			return true
		}
		batches = rest
		switch {
		case b.RecordCount() == 0:
		case !b.Sparse():
			return true // it holds an offset that is asked for, and has a record for each
		default:
			it, err := b.Records()
			if err != nil {
				return true
			}
			it.SkipTo(offset)
			var rec storage.Record
			if it.Next(&rec) && rec.Offset < limit || it.Err() != nil {
				return true
			}
		}
	}
	return false
}
