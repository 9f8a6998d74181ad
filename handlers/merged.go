package handlers

import (
	"context"
	"fmt"
	"net/http"
)

// fetchTopic reads all partitions of a topic, merged: each in its own order, none
// before the others for long.
//
//	@ID				fetchTopic
//	@Summary		Read records of all partitions
//	@Description	All partitions merged: each in its own order, none before the others for long. A position vector (0:43,1:17) says where to begin and where to go on; a partition that it doesn't name is read from offset 0.
//	@Description	With Accept: text/event-stream, or follow=true as NDJSON, the answer is a tail that lasts until the client leaves and takes in partitions that are added meanwhile. The id of an event is the position vector after it.
//	@Description	With Accept: application/cloudevents-batch+json records are given as CloudEvents, with application/cloudevents+json one of them.
//	@Tags			fetch
//	@Param			topic			path	string	true	"Topic name"	minlength(1)	maxlength(249)	example(orders)
//	@Param			position		query	string	false	"Where to begin: Highwater-Next-Position of a former answer"	minlength(3)
//	@Param			offset			query	string	false	"Where to begin in every partition"	Enums(earliest,latest)	default(earliest)	example(earliest)
//	@Param			timestamp		query	string	false	"Begin at the first record at or after this time instead: milliseconds since 1970, RFC 3339, or a time back from now like -15m"	minlength(1)	maxlength(64)
//	@Param			timeout			query	int		false	"Milliseconds to wait when nothing is there; more than 60000 counts as that"	minimum(0)	default(0)	example(0)
//	@Param			max_bytes		query	int		false	"Bytes of keys, values and headers to give at most, but at least one record; more than 16777216 counts as that"	minimum(1)	default(1048576)	example(1048576)
//	@Param			count			query	int		false	"Records to give at most"	minimum(1)	example(100)
//	@Param			min_bytes		query	int		false	"With timeout: wait until so much is there"	minimum(1)	default(1)	example(1)
//	@Param			isolation		query	string	false	"Neither ever shows a record at or above the high watermark"	Enums(read_committed,read_uncommitted)	default(read_committed)	example(read_committed)
//	@Param			key_format		query	string	false	"How keys stand in the answer"		Enums(string,json,binary)	example(string)
//	@Param			value_format	query	string	false	"How values stand in the answer"	Enums(string,json,binary)	example(json)
//	@Param			follow			query	boolean	false	"Tail as NDJSON (or as events)"		default(false)	example(false)
//	@Param			Last-Event-ID	header	string	false	"Tails as events: resume here; wins over the query"	example(0:0)
//	@Param			Prefer			header	string	false	"wait=N: the same as timeout, in seconds; what is no such preference is passed over"	example(wait=1)
//	@Success		200		{array}		schema.Record	"The records."
//	@Success		204		"As one CloudEvent: no record is there yet."
//	@Header			200		{string}	Highwater-Next-Position	"Where the next fetch begins."
//	@Header			200		{string}	Highwater-Stale			"true: a leader has lost touch with the cluster; there may be more records than it knows of."
//	@x-media-200	{"application/json":"[Record]","application/x-ndjson":"text","text/event-stream":"text","application/vnd.kafka.json.v2+json":"[DialectRecord]","application/vnd.kafka.binary.v2+json":"[DialectRecord]","application/vnd.kafka.text.v2+json":"[DialectRecord]","application/cloudevents+json":"CloudEvent","application/cloudevents-batch+json":"[CloudEvent]"}
//	@x-errors		[40401,40601,41001,41601,42201,50001,50302,50305,50306]
//	@Router			/topics/{topic}/records [get]
func (a *api) fetchTopic(w http.ResponseWriter, r *http.Request) error {
	topic, err := topicName(r)
	if err != nil {
		return err
	}
	q, err := a.topicReadQuery(r)
	if err != nil {
		return err
	}
	rd, err := a.newReader(r, topic, q)
	if err != nil {
		return err
	}
	rd.merged = true
	if err := a.addAll(r.Context(), rd, q); err != nil {
		return err
	}
	if q.follows() {
		return a.follow(w, r, rd, q)
	}
	return a.fetchMerged(w, r, rd, q)
}

// addAll puts a cursor on every partition.
func (a *api) addAll(ctx context.Context, rd *reader, q *readQuery) error {
	t, err := a.cfg.Broker.Topic(rd.topic)
	if err != nil {
		return err
	}
	n := int32(len(t.Partitions))
	if len(q.positions) > 0 {
		if last := q.positions[len(q.positions)-1]; last.partition >= n {
			return &requestError{code: codeAboveLogEnd,
				detail: fmt.Sprintf("The position names partition %d, and topic %s has %d partitions: it is not a position in this topic.", last.partition, rd.topic, n),
				fix:    "Begin anew: leave the position out, or give offset=latest."}
		}
	}
	for i := range n {
		next := positionOf(q.positions, i)
		if q.positions == nil {
			if next, err = a.resolve(ctx, rd.topic, i, q.start); err != nil {
				return err
			}
		}
		rd.add(position{i, next}, -1)
	}
	return nil
}

// fetchMerged answers with an array or with lines of all partitions.
func (a *api) fetchMerged(w http.ResponseWriter, r *http.Request, rd *reader, q *readQuery) error {
	var out []byte
	b, held := q.budget(), ration{of: &a.reads}
	defer held.giveBack()
	err := a.await(r.Context(), rd, q.wait, func() (bool, error) {
		if out == nil {
			out = openFrame(a.buffers.get(), q.frame)
			b.bytes = int(held.draw(q.maxBytes))
		}
		var err error
		out, err = rd.fillAll(r.Context(), out, &b)
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
	if out == nil {
		out = openFrame(nil, q.frame)
	}
	out = closeFrame(out, q.frame)
	defer a.buffers.put(out)
	h := w.Header()
	h["Highwater-Next-Position"] = []string{string(appendVector(nil, rd.cursors))}
	h["Cache-Control"] = []string{"no-store"}
	h["Vary"] = []string{"Accept"}
	if rd.stale {
		h["Highwater-Stale"] = yes
	}
	if q.waitAsked != "" {
		h["Preference-Applied"] = []string{q.waitAsked}
	}
	return writeRecords(w, r, q.media, out)
}

// fillAll shares the budget among the partitions: each gets an equal part in its
// turn, and what some leave goes round again. Who begins follows from the
// positions, so that a reader of small pages comes to all without our remembering
// it.
func (rd *reader) fillAll(ctx context.Context, dst []byte, b *budget) ([]byte, error) {
	n := len(rd.cursors)
	first, parts := rd.turn(), n
	for {
		before, refused := b.taken, false
		for k := range n {
			if b.full() || len(dst) >= maxRenderedBytes {
				return dst, nil
			}
			part := b.share(parts)
			out, _, err := rd.read(ctx, (first+k)%n, dst, &part, min(max(part.bytes-part.used, minReadBytes), readBytes))
			if err != nil {
				if b.taken > 0 {
					return dst, nil // what was read is given; the next read meets the error first
				}
				return dst, err
			}
			dst = out
			b.taken, b.used = part.taken, part.used
			refused = refused || part.cut
		}
		switch {
		case b.taken > before:
		case refused && parts > 1:
			parts = 1 // what is left is too little to share; it may do for one
		default:
			b.cut = refused
			return dst, nil
		}
	}
}

// turn is the cursor whose turn it is.
func (rd *reader) turn() int {
	sum := uint64(0)
	for i := range rd.cursors {
		sum += uint64(rd.cursors[i].next)
	}
	return int(sum % uint64(max(len(rd.cursors), 1)))
}

// share is the part of what is left of b for one of n readers, at least a record
// each as long as there is one.
func (b *budget) share(n int) budget {
	return budget{taken: b.taken, used: b.used,
		records: b.taken + (b.records-b.taken+n-1)/n,
		bytes:   b.used + max((b.bytes-b.used)/n, 1)}
}
