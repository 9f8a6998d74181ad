package handlers

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"highwater/replication"
	"highwater/replication/group"
	"highwater/storage"
)

// maxEntries bounds a list of partitions: what one instance may read in all.
const maxEntries = 10_000

// entryKind says what the entries of a list must tell.
type entryKind uint8

const (
	entryNames  entryKind = iota // partitions
	entryOffset                  // … and the offset of each to commit
	entryPlace                   // … or a place to read on, which may be a time
)

// entry is one partition in the list of a request.
type entry struct {
	at        string // pointer
	topic     string
	partition int32
	offset    int64
	asNext    bool // the member was next_offset
	timestamp *int64
	metadata  string
}

// maxMetadataBytes is Kafka's limit of what a commit may note.
const maxMetadataBytes = 4096

// entries reads a list of partitions. A partition that is named twice is a fault,
// but in a list of names alone, where it counts once.
func (c *controlBody) entries(list string, kind entryKind) []entry {
	values := c.list(list)
	if len(values) > maxEntries {
		c.faultf("/"+list, "More than %d entries.", maxEntries)
		return nil
	}
	var out []entry
	seen := make(map[partitionRef]bool, len(values))
	for i, v := range values {
		at := "/" + list + "/" + strconv.Itoa(i)
		if v.Kind() != '{' {
			c.faultf(at, "It is %s, and must be an object.", kindName(v.Kind()))
			continue
		}
		members, err := objectMembers(v)
		if err != nil {
			panic(err) // it was found valid
		}
		inner := &controlBody{members: members, now: c.now}
		e := inner.entry(kind)
		e.at = at
		for _, f := range inner.faults {
			f.pointer = at + f.pointer
			c.faults = append(c.faults, f)
		}
		ref := partitionRef{e.topic, e.partition}
		switch {
		case len(inner.faults) > 0:
		case !seen[ref]:
			seen[ref] = true
			out = append(out, e)
		case kind != entryNames:
			c.faultf(at, "Partition %d of %s stands in the list already.", e.partition, shown(e.topic))
		}
	}
	return out
}

// entry reads the members of one entry.
func (c *controlBody) entry(kind entryKind) (e entry) {
	known := []string{"topic", "partition"}
	switch kind {
	case entryOffset:
		known = append(known, "offset", "next_offset", "metadata")
	case entryPlace:
		known = append(known, "offset", "next_offset", "timestamp", "metadata")
	}
	for _, m := range c.members {
		if !slices.Contains(known, m.name) {
			c.faultf("/"+pointerEscape(m.name), "Unknown member. Known here: %s.", strings.Join(known, ", "))
		}
	}
	switch v := c.value("topic"); {
	case v == nil:
		c.faultf("/topic", "It is missing.")
	case v.Kind() != '"' || !validTopicName(unquoted(v)):
		c.faultf("/topic", "It must be a topic's name.")
	default:
		e.topic = unquoted(v)
	}
	e.partition = int32(c.integer("partition", -1, 0, math.MaxInt32))
	if v := c.value("partition"); v == nil || v.Kind() == 'n' {
		c.faultf("/partition", "It is missing.")
	}
	if kind != entryNames {
		c.placeOf(&e, kind)
	}
	return e
}

// placeOf reads where in its partition an entry is: exactly one member says it.
func (c *controlBody) placeOf(e *entry, kind entryKind) {
	ways := 0
	for _, m := range c.members {
		if m.name == "offset" || m.name == "next_offset" || m.name == "timestamp" && kind == entryPlace {
			ways++
		}
	}
	switch {
	case ways == 0:
		c.faultf("", "It has no offset.")
	case ways > 1:
		c.faultf("", "offset, next_offset and timestamp exclude each other.")
	case c.value("next_offset") != nil:
		e.offset, e.asNext = c.position("next_offset"), true
	case c.value("offset") != nil:
		e.offset = c.position("offset")
	default:
		e.timestamp = c.instant("timestamp")
	}
	if v := c.value("metadata"); v != nil && v.Kind() != 'n' {
		if e.metadata = c.text("metadata"); len(e.metadata) > maxMetadataBytes {
			c.faultf("/metadata", "It is longer than %d bytes.", maxMetadataBytes)
		}
	}
}

// position is a member that is an offset and may not be null.
func (c *controlBody) position(name string) int64 {
	if c.value(name).Kind() == 'n' {
		c.faultf("/"+name, "It is null, and must be a whole number from 0 to %d.", int64(math.MaxInt64))
	}
	return c.integer(name, 0, 0, math.MaxInt64)
}

// instant is a time: milliseconds as a number, or text as in a query. nil: a fault.
func (c *controlBody) instant(name string) *int64 {
	v := c.value(name)
	text := string(v)
	if v.Kind() == '"' {
		text = unquoted(v)
	}
	ms, ok := parseTimestamp(text, c.now)
	if !ok {
		c.faultf("/"+name, "It is neither milliseconds since 1970 (from 0 to %d), nor RFC 3339, nor a time back from now like -15m.", int64(MaxTimestampMs))
		return nil
	}
	return &ms
}

// partitionsOf finds the partitions that entries name. Errors: 40401, 40402.
func (a *api) partitionsOf(ctx context.Context, entries []entry) ([]group.TopicPartition, error) {
	out := make([]group.TopicPartition, len(entries))
	for i := range entries {
		e := &entries[i]
		t, err := a.heardTopic(ctx, e.topic, e.partition)
		if err != nil {
			return nil, err
		}
		if int(e.partition) >= len(t.Partitions) {
			return nil, &replication.UnknownPartitionError{Topic: e.topic, Partition: e.partition, Count: len(t.Partitions)}
		}
		out[i] = group.TopicPartition{Topic: e.topic, TopicID: t.ID, Partition: e.partition}
	}
	return out, nil
}

// orOfInstance: an instance that isn't there is a better answer than err.
func (a *api) orOfInstance(ctx context.Context, name, instance string, err error) error {
	var unknown *group.UnknownInstanceError
	if _, other := a.member(ctx, name, instance); errors.As(other, &unknown) {
		return other
	}
	return err
}

// placesAtOnce bounds how many partitions' leaders one request asks at a time.
const placesAtOnce = 16

// eachOf runs work for 0 … n-1, some at a time, and returns the first error by number.
func eachOf(n int, work func(i int) error) error {
	errs := make([]error, n)
	var running sync.WaitGroup
	next := make(chan int)
	for range min(n, placesAtOnce) {
		running.Go(func() {
			for i := range next {
				errs[i] = work(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	running.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// place finds out about an offset that a client names: whether it may be read from
// there, and the leader epoch of the record before, by which a log that is cut later
// is noticed. A nil range error says that it may.
func (a *api) place(ctx context.Context, tp group.TopicPartition, offset int64) (epoch int32, outside *storage.OffsetOutOfRangeError, err error) {
	if offset == 0 {
		o, err := a.cfg.Broker.Offsets(ctx, tp.Topic, tp.Partition, nil)
		if err == nil && o.Beginning > 0 {
			outside = &storage.OffsetOutOfRangeError{Offset: 0, Start: o.Beginning, End: o.End}
		}
		return -1, outside, err
	}
	res, err := a.cfg.Broker.Fetch(ctx, replication.FetchRequest{Topic: tp.Topic, TopicID: tp.TopicID, Partition: tp.Partition, Offset: offset - 1,
		MaxBytes: 1, Buffer: a.buffers.get()})
	defer a.buffers.put(res.Data)
	var corrupt *storage.CorruptError
	switch {
	case errors.As(err, &corrupt): // behind a damaged record one may go on
		o, err := a.cfg.Broker.Offsets(ctx, tp.Topic, tp.Partition, nil)
		if err == nil && offset > o.End {
			outside = &storage.OffsetOutOfRangeError{Offset: offset, Start: o.Beginning, End: o.End}
		}
		return -1, outside, err
	case errors.As(err, &outside):
		if offset == outside.Start { // nothing is left before it
			return -1, nil, nil
		}
		return -1, &storage.OffsetOutOfRangeError{Offset: offset, Start: outside.Start, End: outside.End}, nil
	case err != nil:
		return -1, nil, err
	case offset > res.HighWatermark:
		return -1, &storage.OffsetOutOfRangeError{Offset: offset, Start: res.LogStartOffset, End: res.HighWatermark}, nil
	}
	epoch = -1
	if batch, _, err := storage.SplitBatch(res.Data); err == nil {
		epoch = batch.LeaderEpoch()
	}
	return epoch, nil, nil
}

// outsideError says of an offset in a request why it can't be taken.
func outsideError(e *entry, outside *storage.OffsetOutOfRangeError) error {
	c, why := codeAboveLogEnd, "above the end"
	if outside.Offset < outside.Start {
		c, why = codeBelowLogStart, "below the log start"
	}
	return &requestError{code: c,
		detail: "Offset " + strconv.FormatInt(outside.Offset, 10) + " of " + e.topic + "-" + strconv.Itoa(int(e.partition)) + " is " + why + ": the readable range is " +
			strconv.FormatInt(outside.Start, 10) + " to " + strconv.FormatInt(outside.End, 10) + ". Nothing was changed, of no partition of this request.",
		fix:     "Give an offset of the range, whose end is the next record to come.",
		faults:  []fault{{pointer: e.at, detail: "It is " + why + ".", code: c}},
		members: []member{{"partition", int64(e.partition)}, {"log_start_offset", outside.Start}, {"high_watermark", outside.End}}}
}
