package handlers

import (
	"context"
	"net/http"
	"strconv"
	"unicode/utf8"

	"highwater/replication"
	"highwater/storage"
)

// fetchOne answers with the bytes of one record's value; the rest of the record
// is in headers. A tombstone is 204 with Record-Tombstone: true; no record there
// yet is 204 without Record-Offset.
func (a *api) fetchOne(w http.ResponseWriter, r *http.Request, rd *reader, partition int32, q *readQuery) error {
	var res replication.FetchResult
	var rec *storage.Record
	err := a.fromStart(r.Context(), rd, partition, q, func() (bool, error) {
		var err error
		a.buffers.put(res.Data)
		rec, res, err = rd.first(r.Context(), 0)
		return rec != nil, err
	})
	if err != nil {
		return err
	}
	defer a.buffers.put(res.Data)
	if rec != nil {
		if err := describeRecord(w.Header(), rec); err != nil {
			return err
		}
	}
	a.describe(w.Header(), rd, &rd.cursors[0], &res, q)
	if rec == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if q.start.kind == startAt && !a.compacted(rd.topic) && notModified(w, r, rd.etag(q.start.n, q)) {
		return nil
	}
	if rec.Value == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return writeBody(w, r, typeOctets, rec.Value)
}

// first reads the record at cursor i and moves the cursor behind it; nil when
// nothing is there yet. The record aliases the result's Data.
func (rd *reader) first(ctx context.Context, i int) (*storage.Record, replication.FetchResult, error) {
	c := &rd.cursors[i]
	res, err := rd.fetch(ctx, c, 1)
	if err != nil || len(res.Data) == 0 {
		return nil, res, err
	}
	p := newPage(res.Data, c.next, res.HighWatermark)
	ok, err := p.take(&rd.rec)
	if err != nil || !ok {
		return nil, res, err
	}
	c.next, c.epoch = p.next, p.batchEpoch
	return &rd.rec, res, nil
}

const (
	// maxKeyInHeader bounds Record-Key, in bytes as sent: clients give up on a head
	// that is too long, some on a line of 64 KiB, curl on 300 KiB in all.
	maxKeyInHeader = 32 << 10
	// maxRecordHeaderBytes bounds the names and values of all Record-Header-… lines.
	maxRecordHeaderBytes = 32 << 10
)

// describeRecord gives all of a record but its value as headers: Record-Offset,
// Record-Timestamp, Record-Key (percent-encoded, so that it can be pasted into
// ?key=), Message-Id, and a Record-Header-<name> for each header whose name and
// value a header can carry as they are; Record-Headers-Omitted counts the others.
// A key that is too long for a header is a 40601: without it the record would
// look as if it had none.
func describeRecord(h http.Header, rec *storage.Record) error {
	if rec.Key != nil {
		key := percentEncoded(rec.Key)
		if len(key) > maxKeyInHeader {
			return &requestError{code: codeNotAcceptable, detail: "The key of record " + strconv.FormatInt(rec.Offset, 10) + " is too long for an HTTP header.",
				fix: "Read this record with Accept: application/json."}
		}
		h["Record-Key"] = []string{key}
	}
	h["Record-Offset"] = []string{strconv.FormatInt(rec.Offset, 10)}
	h["Record-Timestamp"] = []string{strconv.FormatInt(rec.Timestamp, 10)}
	if rec.Value == nil {
		h["Record-Tombstone"] = []string{"true"}
	}
	id, room, omitted := recordID(rec), maxRecordHeaderBytes, 0
	for i := range rec.Headers {
		name, value := rec.Headers[i].Key, rec.Headers[i].Value
		if hidden(&rec.Headers[i]) {
			continue
		}
		size := len(recordHeaderPrefix) + len(name) + len(value)
		switch {
		case i == id && plainHeaderText(value):
			h["Message-Id"] = []string{string(value)}
		case value != nil && plainHeaderText(value) && headerToken(name) && size <= room:
			h.Add(recordHeaderPrefix+string(name), string(value))
			room -= size
		default:
			omitted++
		}
	}
	if omitted > 0 {
		h["Record-Headers-Omitted"] = []string{strconv.Itoa(omitted)}
	}
	return nil
}

// percentEncoded escapes all bytes but the unreserved ones of RFC 3986.
func percentEncoded(b []byte) string {
	const hex = "0123456789ABCDEF"
	out := make([]byte, 0, len(b))
	for _, c := range b {
		if unreserved(c) {
			out = append(out, c)
		} else {
			out = append(out, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(out)
}

// plainHeaderText says that a header carries b unchanged: UTF-8 without control
// characters, and without white space at its ends, which HTTP drops.
func plainHeaderText(b []byte) bool {
	for _, c := range b {
		if c < 0x20 || c == 0x7f {
			return false
		}
	}
	return utf8.Valid(b) && (len(b) == 0 || b[0] != ' ' && b[len(b)-1] != ' ')
}

// headerToken says that b is a token of RFC 9110 and so may name a header.
func headerToken(b []byte) bool {
	for _, c := range b {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		default:
			switch c {
			case '!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~':
			default:
				return false
			}
		}
	}
	return len(b) > 0
}
