package handlers

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"highwater/replication"
	"highwater/storage"
)

// fetchRecords reads a partition from an offset on.
//
//	@ID				fetch
//	@Summary		Read records
//	@Description	Reads records below the high watermark. At least one record is given whatever max_bytes says, and a record never fails its batch: what doesn't fit the format is given in another encoding, named in the record.
//	@Description	With Accept: text/event-stream, or follow=true as NDJSON, the answer is a tail that lasts until the client leaves. The id of an event is the position after it (0:43); Last-Event-ID resumes there without gap or repeat. Control events have no id: end (reason count, topic_deleted or shutting_down) and problem (an error body).
//	@Description	With Accept: application/octet-stream the body is the value of one record; its key is in Record-Key, percent-encoded. Record-Headers-Omitted counts the record headers that no HTTP header can carry. 204 is a tombstone when Record-Tombstone is true, else no record is there yet.
//	@Description	With Accept: application/cloudevents-batch+json records are given as CloudEvents, with application/cloudevents+json one of them (204: none is there yet). A record that was produced as one comes back as it was; any other is told of by an event of the type highwater.record.
//	@Description	An answer to offset and count that ended by its own bounds has a strong ETag and may be cached; every other one is no-store.
//	@Tags			fetch
//	@Param			topic			path	string	true	"Topic name"	minlength(1)	maxlength(249)	example(orders)
//	@Param			partition		path	int		true	"Partition number"	minimum(0)	maximum(2147483647)	format(int32)	example(0)
//	@Param			offset			query	string	false	"Where to begin: an offset, earliest, latest, or a negative number counted from the end"	default(earliest)	minlength(1)	maxlength(20)	example(0)
//	@Param			timestamp		query	string	false	"Begin at the first record at or after this time instead: milliseconds since 1970, RFC 3339, or a time back from now like -15m"	minlength(1)	maxlength(64)
//	@Param			timeout			query	int		false	"Milliseconds to wait when nothing is there; more than 60000 counts as that"	minimum(0)	default(0)	example(0)
//	@Param			max_bytes		query	int		false	"Bytes of keys, values and headers to give at most, but at least one record; more than 16777216 counts as that"	minimum(1)	default(1048576)	example(1048576)
//	@Param			count			query	int		false	"Records to give at most"	minimum(1)	example(100)
//	@Param			min_bytes		query	int		false	"With timeout: wait until so much is there"	minimum(1)	default(1)	example(1)
//	@Param			isolation		query	string	false	"Neither ever shows a record at or above the high watermark"	Enums(read_committed,read_uncommitted)	default(read_committed)	example(read_committed)
//	@Param			leader_epoch	query	int		false	"Highwater-Leader-Epoch of a former answer: a log that was truncated since is 409"	minimum(0)	maximum(2147483647)	example(0)
//	@Param			key_format		query	string	false	"How keys stand in the answer"		Enums(string,json,binary)	example(string)
//	@Param			value_format	query	string	false	"How values stand in the answer"	Enums(string,json,binary)	example(json)
//	@Param			follow			query	boolean	false	"Tail as NDJSON (or as events)"		default(false)	example(false)
//	@Param			Last-Event-ID	header	string	false	"Tails as events: resume here; wins over the query"	example(0:0)
//	@Param			Prefer			header	string	false	"wait=N: the same as timeout, in seconds; what is no such preference is passed over"	example(wait=1)
//	@Param			If-None-Match	header	string	false	"ETags that the client has: 304 for one of them"
//	@Success		200		{array}		schema.Record	"The records."
//	@Success		204		"As bytes: a tombstone, or no record is there yet. As one CloudEvent: no record is there yet."
//	@Success		304		"The client has these very bytes."
//	@Header			200		{integer}	Highwater-Next-Offset		"Where the next fetch begins."
//	@Header			200		{integer}	Highwater-High-Watermark	"The end of what may be read."
//	@Header			200		{integer}	Highwater-Log-Start-Offset	"The first record there is."
//	@Header			200		{integer}	Highwater-Leader-Epoch		"Leader epoch of the last record given; send it back as leader_epoch."
//	@Header			200		{string}	Highwater-Leader			"The broker that leads the partition."
//	@Header			200		{string}	Highwater-Stale				"true: the leader has lost touch with the cluster; there may be more records than it knows of."
//	@Header			200		{string}	ETag						"Of an answer that can't change."
//	@x-media-200	{"application/json":"[Record]","application/x-ndjson":"text","text/event-stream":"text","application/vnd.kafka.json.v2+json":"[DialectRecord]","application/vnd.kafka.binary.v2+json":"[DialectRecord]","application/vnd.kafka.text.v2+json":"[DialectRecord]","application/octet-stream":"binary","application/cloudevents+json":"CloudEvent","application/cloudevents-batch+json":"[CloudEvent]"}
//	@x-errors		[40401,40402,40601,40905,41001,41601,42201,50001,50302,50305,50306]
//	@Router			/topics/{topic}/partitions/{partition}/records [get]
func (a *api) fetchRecords(w http.ResponseWriter, r *http.Request) error {
	topic, partition, err := topicPartition(r)
	if err != nil {
		return err
	}
	q, err := a.partitionReadQuery(r)
	if err != nil {
		return err
	}
	rd, err := a.newReader(r, topic, q)
	if err != nil {
		return err
	}
	switch {
	case q.follows():
		return a.tailPartition(w, r, rd, partition, q)
	case q.media == typeOctets:
		return a.fetchOne(w, r, rd, partition, q)
	}
	return a.fetchPage(w, r, rd, partition, q)
}

// fetchPage answers with an array or with lines.
func (a *api) fetchPage(w http.ResponseWriter, r *http.Request, rd *reader, partition int32, q *readQuery) error {
	var out []byte
	var res replication.FetchResult
	whole := false
	b, asked, held := q.budget(), q.maxBytes, ration{of: &a.reads}
	defer held.giveBack()
	err := a.fromStart(r.Context(), rd, partition, q, func() (_ bool, err error) {
		if b.taken == 0 {
			a.buffers.put(res.Data)
			q.maxBytes = held.draw(asked)
			b.bytes = int(q.maxBytes)
			if res, err = rd.fetch(r.Context(), &rd.cursors[0], q.readBytes()); err != nil {
				return false, err
			}
			if whole = len(res.Data) > streamBytes && wholePage(&res, q); whole {
				return true, nil
			}
		}
		if out == nil {
			out = openFrame(a.buffers.get(), q.frame)
		}
		out, err = rd.fill(r.Context(), out, &b, q, &res)
		if b.taken == 0 {
			a.buffers.put(out)
			out = nil
			held.giveBack()
		}
		return b.satisfied(q.minBytes), err
	})
	if err != nil {
		return err
	}
	if whole {
		return a.streamPage(w, r, rd, q, &res)
	}
	a.describe(w.Header(), rd, &rd.cursors[0], &res, q)
	if q.start.kind == startAt && q.count > 0 && b.closed() && !a.compacted(rd.topic) {
		if notModified(w, r, rd.etag(q.start.n, q)) {
			return nil
		}
	}
	if out == nil {
		out = openFrame(nil, q.frame)
	}
	out = closeFrame(out, q.frame)
	defer a.buffers.put(out)
	return writeRecords(w, r, q.media, out)
}

// fromStart resolves where the query begins and awaits try there. A start that
// was moved by retention in between is resolved again.
func (a *api) fromStart(ctx context.Context, rd *reader, partition int32, q *readQuery, try func() (bool, error)) error {
	for attempt := 0; ; attempt++ {
		offset, err := a.resolve(ctx, rd.topic, partition, q.start)
		if err != nil {
			return err
		}
		rd.cursors = rd.cursors[:0]
		rd.add(position{partition, offset}, q.epoch)
		err = a.await(ctx, rd, q.wait, try)
		var outside *storage.OffsetOutOfRangeError
		if q.start.kind != startAt && attempt < maxStartAttempts && errors.As(err, &outside) && outside.Offset < outside.Start {
			continue
		}
		return err
	}
}

// maxStartAttempts bounds how often a symbolic start is resolved anew; more than
// once means that retention runs at that very moment.
const maxStartAttempts = 3

// fill renders what was read for the only cursor, res, and reads on until the
// budget is used up or nothing more is there. Without a count it is content with
// half of max_bytes: the rest would mostly come from a batch that must then be
// read again.
func (rd *reader) fill(ctx context.Context, dst []byte, b *budget, q *readQuery, res *replication.FetchResult) ([]byte, error) {
	for {
		if res.Data == nil {
			next, err := rd.fetch(ctx, &rd.cursors[0], min(q.readBytes(), max(b.bytes-b.used, 1)))
			if b.taken > 0 && (err != nil || q.count == 0 && !fits(next.Data, int64(b.bytes-b.used))) {
				// What was read is given. An error is met first by the next read, and a
				// batch that doesn't fit need not be read again if that begins with it.
				rd.api.buffers.put(next.Data)
				b.cut = err == nil
				return dst, nil
			}
			if *res = next; err != nil {
				return dst, err
			}
		}
		before := b.taken
		out, err := rd.render(0, dst, b, res)
		dst = out
		if err != nil || b.taken == before || b.closed() || len(dst) >= maxRenderedBytes || q.count == 0 && b.used > b.bytes/2 {
			return dst, err
		}
	}
}

// readBytes is how much to read from the log at once.
func (out *readQuery) readBytes() int {
	n := int(out.maxBytes)
	if out.count > 0 {
		n = min(n, readBytes, max(minReadBytes, int(min(out.count, readBytes))*typicalRecordBytes))
	}
	return n
}

const (
	// minReadBytes is the least that is read from a log at once.
	minReadBytes = 16 << 10
	// typicalRecordBytes guesses how much to read for a count of records; too
	// little costs a second read.
	typicalRecordBytes = 1 << 10
)

// describe sets the headers that tell where the partition and the reader are.
func (a *api) describe(h http.Header, rd *reader, c *cursor, res *replication.FetchResult, q *readQuery) {
	h["Highwater-Next-Offset"] = []string{strconv.FormatInt(c.next, 10)}
	h["Highwater-High-Watermark"] = []string{strconv.FormatInt(c.high, 10)}
	h["Highwater-Log-Start-Offset"] = []string{strconv.FormatInt(res.LogStartOffset, 10)}
	epoch := res.LeaderEpoch
	if b := c.epoch; b >= 0 {
		epoch = b // of the last record given, which may stand before the last one read
	}
	h["Highwater-Leader-Epoch"] = []string{strconv.Itoa(int(epoch))}
	if t, err := a.cfg.Broker.Topic(rd.topic); err == nil && int(c.partition) < len(t.Partitions) {
		if url := a.leaderURL(t, c.partition); url != "" {
			h["Highwater-Leader"] = []string{url}
		}
	}
	h["Cache-Control"] = []string{"no-store"}
	h["Vary"] = []string{"Accept"}
	if rd.stale {
		h["Highwater-Stale"] = yes
	}
	if q.waitAsked != "" {
		h["Preference-Applied"] = []string{q.waitAsked}
	}
}

// yes is shared and never appended to.
var yes = []string{"true"}

// writeBody writes a whole answer at once.
func writeBody(w http.ResponseWriter, r *http.Request, media string, body []byte) error {
	h := w.Header()
	h["Content-Type"] = []string{media}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	_, err := w.Write(body)
	return err
}

// writeRecords writes rendered records, or, where there is none and the form has
// nothing to stand for that, 204.
func writeRecords(w http.ResponseWriter, r *http.Request, media string, body []byte) error {
	if len(body) == 0 && media == typeEvent {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return writeBody(w, r, media, body)
}
