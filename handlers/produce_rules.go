package handlers

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"highwater/replication"
	"highwater/replication/controller"
	"highwater/storage"
)

const (
	// defaultProduceTimeout and maxProduceTimeout bound how long an answer waits
	// for its acknowledgement (timeout_ms).
	defaultProduceTimeout = 30 * time.Second
	maxProduceTimeout     = 5 * time.Minute
	// anyPartition: neither path nor record names a partition.
	anyPartition = -1
	// maxIDBytes bounds a message id. What is remembered of one has a fixed size.
	maxIDBytes = 1024
	// maxKeyBytes bounds an Idempotency-Key, so that the ids made of it are message ids
	// like others, and what was fetched can be posted elsewhere.
	maxKeyBytes = maxIDBytes - len("/2147483647")
)

// produceRequest is what path, query and headers of a produce ask for.
type produceRequest struct {
	rules    produceRules
	acks     replication.Acks
	timeout  time.Duration
	summary  bool   // the answer leaves out "offsets"
	expected *int64 // expected_offset
	topic    *controller.Topic
}

// produceRules are what the records of one request must obey.
type produceRules struct {
	topic          string
	partitions     int32 // how many the topic has
	fixed          int32 // the path's partition, or anyPartition
	sticky         int32 // where records without partition, key and id go
	key, value     payloadFormat
	maxRecordBytes int
	needKey        bool // a compacted topic
	dedupes        bool // message ids are looked at
	compression    storage.Compression
	now            int64             // timestamp in ms of records that bring none
	events         eventMode         // how the request brings CloudEvents
	idPrefix       string            // Idempotency-Key and a slash; "" without one
	producer       *storage.Producer // nil: the request has none
	// leads tells that this broker leads the partition, so that what is found out about the records needn't
	// be found out again. nil: it doesn't.
	leads func(partition int32) bool
}

// produceTarget resolves the path to a topic and what it asks of records. It is
// called before the body is touched.
func (a *api) produceTarget(r *http.Request) (*produceRequest, error) {
	name, err := topicName(r)
	if err != nil {
		return nil, err
	}
	fixed := int32(anyPartition)
	if hasPartition(r) {
		if fixed, err = partitionNumber(r); err != nil {
			return nil, err
		}
	}
	// Highwater alone writes its own topics: a record of anybody else's could keep the
	// groups of a partition from ever being loaded again.
	if err := controller.CheckTopicName(name); err != nil {
		return nil, err
	}
	if _, err := a.cfg.Broker.EnsureTopic(r.Context(), name); err != nil {
		return nil, err
	}
	t, configs, err := a.cfg.Broker.TopicConfig(name)
	if err != nil {
		return nil, err
	}
	partitions := int32(len(t.Partitions))
	if fixed >= partitions {
		return nil, &replication.UnknownPartitionError{Topic: name, Partition: fixed, Count: int(partitions)}
	}
	p := &produceRequest{topic: t}
	p.rules = produceRules{topic: name, partitions: partitions, fixed: fixed, sticky: a.stickyPartition(t), now: a.cfg.Now().UnixMilli()}
	p.rules.leads = func(partition int32) bool { return a.cfg.Broker.Leads(p.topic, partition) }
	p.rules.obey(configs)
	return p, nil
}

// checkPartition refuses a partition that the topic doesn't have. Another broker may have
// added it: the quorum is asked first. Errors: *replication.UnknownPartitionError,
// controller.ErrNoController: nobody can tell.
func (a *api) checkPartition(ctx context.Context, p *produceRequest, partition int32) error {
	if partition < p.rules.partitions {
		return nil
	}
	t, err := a.heardTopic(ctx, p.rules.topic, partition)
	if err != nil {
		return err
	}
	p.topic, p.rules.partitions = t, int32(len(t.Partitions))
	if partition >= p.rules.partitions {
		return &replication.UnknownPartitionError{Topic: p.rules.topic, Partition: partition, Count: int(p.rules.partitions)}
	}
	return nil
}

// obey takes over the topic's configs.
func (rules *produceRules) obey(c *controller.TopicConfig) {
	rules.maxRecordBytes = c.MaxMessageBytes
	rules.needKey = c.Compact
	rules.dedupes = c.DedupeWindowMs != 0
	switch c.Compression {
	case "gzip":
		rules.compression = storage.CompressionGzip
	case "zstd":
		rules.compression = storage.CompressionZstd
	}
}

// stickyPartition spreads keyless requests evenly: each goes to one partition, so
// that its records share a batch (KIP-480), past those without a leader.
func (a *api) stickyPartition(t *controller.Topic) int32 {
	n := uint32(len(t.Partitions))
	first := a.sticky.Add(1)
	for i := range n {
		if p := (first + i) % n; t.Partitions[p].Leader >= 0 {
			return int32(p)
		}
	}
	return int32(first % n)
}

// leaderURL is the broker that leads a partition, "" when none is known.
func (a *api) leaderURL(t *controller.Topic, partition int32) string {
	if b := a.cfg.Broker.State().Brokers[t.Partitions[partition].Leader]; b != nil {
		return b.URL
	}
	return ""
}

// commonLeader is the broker that leads all partitions which a request touched;
// "" when there is no single one.
func (a *api) commonLeader(t *controller.Topic, parts []partPlan) string {
	if len(parts) == 0 { // an empty batch
		return ""
	}
	leader := t.Partitions[parts[0].partition].Leader
	for i := range parts {
		if t.Partitions[parts[i].partition].Leader != leader {
			return ""
		}
	}
	return a.leaderURL(t, parts[0].partition)
}

// Query parameters of every produce, and of a batch.
var (
	produceParams   = []string{"acks", "timeout_ms", "response"}
	batchParams     = append(slices.Clone(produceParams), "key_format", "value_format")
	partitionParams = append(slices.Clone(batchParams), "expected_offset", memberProducerID, memberProducerEpoch, memberBaseSequence)
	rawParams       = append(slices.Clone(produceParams), "key", "partition", "timestamp", "key_format")
	rawPartition    = append(slices.Clone(produceParams), "key", "timestamp", "key_format", "expected_offset", memberProducerID, memberProducerEpoch, memberBaseSequence)
)

// ask reads the query parameters that every produce has.
func (p *produceRequest) ask(q *params, a *api, summary bool) {
	p.acks = q.acks(a.cfg.DefaultAcks)
	p.timeout = q.milliseconds("timeout_ms", defaultProduceTimeout, time.Millisecond, maxProduceTimeout)
	def := "full"
	if summary {
		def = "summary"
	}
	p.summary = q.enum("response", def, "full", "summary") == "summary"
	if q.has("expected_offset") {
		n := q.integer("expected_offset", 0, 0, 1<<63-1)
		p.expected = &n
	}
}

// payloadParam reads key_format or value_format.
func (q *params) payloadParam(name string, def payloadFormat) payloadFormat {
	switch q.enum(name, "", "string", "json", "binary") {
	case "string":
		return formatString
	case "json":
		return formatJSON
	case "binary":
		return formatBinary
	}
	return def
}

// idempotencyKey is the prefix that the Idempotency-Key header gives to the ids
// of the request's records. The key may stand in quotes (a structured field).
func idempotencyKey(r *http.Request) (prefix string, err error) {
	key, err := singleHeader(r, "Idempotency-Key")
	if err != nil || key == "" {
		return "", err
	}
	if len(key) >= 2 && key[0] == '"' && key[len(key)-1] == '"' {
		key = key[1 : len(key)-1]
	}
	if len(key) > maxKeyBytes {
		return "", malformed("Idempotency-Key: A key has at most %d bytes.", maxKeyBytes)
	}
	if fault := idFault([]byte(key)); fault != "" {
		return "", malformed("Idempotency-Key: %s", fault)
	}
	return key + "/", nil
}

// singleHeader is the value of a header that may stand there once, "" when it
// doesn't. An empty value is 400: it is a mistake, not an absence.
func singleHeader(r *http.Request, name string) (string, error) {
	lines := r.Header[name]
	switch {
	case len(lines) == 0:
		return "", nil
	case len(lines) > 1:
		return "", malformed("The header %s is given more than once.", name)
	case lines[0] == "":
		return "", malformed("The header %s is empty.", name)
	}
	return lines[0], nil
}

// idFault says why b can be no message id, "" when it can.
func idFault(b []byte) string {
	switch {
	case len(b) == 0:
		return "An id can't be empty."
	case len(b) > maxIDBytes:
		return fmt.Sprintf("An id has at most %d bytes.", maxIDBytes)
	case plainText(b):
		return ""
	case !utf8.Valid(b):
		return "An id is UTF-8 text."
	}
	for _, c := range b {
		if isControl(rune(c)) {
			return "An id can't hold control characters."
		}
	}
	return ""
}

// plainText tells that all of b is printable ASCII, as nearly every id is: eight bytes at once.
func plainText(b []byte) bool {
	const each, top = 0x0101010101010101, 0x80 * 0x0101010101010101
	for ; len(b) >= 8; b = b[8:] {
		// The top bit is set of bytes beyond ASCII, of those below a space, and of DEL.
		if w := binary.LittleEndian.Uint64(b); (w|(w-' '*each)|(w+each))&top != 0 {
			return false
		}
	}
	for _, c := range b {
		if c < ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}
