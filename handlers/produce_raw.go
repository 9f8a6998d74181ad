package handlers

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"highwater/replication"
	"highwater/storage"
)

const (
	// recordHeaderPrefix begins the HTTP headers that become record headers. The
	// rest of the name, in lower case, is the record header's.
	recordHeaderPrefix = "Record-Header-"
	// contentTypeHeader is the record header that keeps a raw value's media type.
	contentTypeHeader = "content-type"
)

// postRecord appends one record whose value is the body.
//
//	@ID				produceRecord
//	@Summary		Append one raw record to a topic
//	@Description	The body is the record's value, byte for byte, whatever its content type, which is kept as record header `content-type` (curl's form default is not). HTTP headers `Record-Header-<name>` become record headers. The answer is that of a batch of one.
//	@Description	With headers `ce-id`, `ce-source`, `ce-type` and `ce-specversion` the request is a CloudEvent in binary mode, and bodies of the CloudEvents types are events in the JSON format: they become records as on the other produce paths. `key` then comes before what the event says.
//	@Tags			produce
//	@Param			topic			path		string	true	"Name of the topic."	minlength(1)	maxlength(249)	example(orders)
//	@Param			key				query		string	false	"The record's key; an empty one is a key, none is none."	example(k1)
//	@Param			key_format		query		string	false	"How `key` is meant: `string` text, `json` any JSON, `binary` base64."	Enums(string,json,binary)	example(string)
//	@Param			partition		query		int		false	"Partition to append to; else the key decides."	minimum(0)	maximum(2147483647)	format(int32)	example(0)
//	@Param			timestamp		query		string	false	"Record timestamp: ms since 1970, RFC 3339, or relative like `-15m`. Default: the broker's clock."	minlength(1)	example(1764424000000)
//	@Param			acks			query		string	false	"What must hold before the answer: `0` nothing (offsets are -1), `1` written to the leader's log, `-1` or `all` on disk on every in-sync replica. The default is the broker's `--default-acks`."	Enums(0,1,-1,all)	default(1)	example(-1)
//	@Param			timeout_ms		query		int		false	"How long to wait for the acknowledgement, in ms; more than the maximum counts as that."	minimum(1)	default(30000)	example(30000)
//	@Param			response		query		string	false	"`summary` leaves `offsets` out: one entry a partition instead of one a record. NDJSON bodies are answered so unless `full` is asked for."	Enums(full,summary)	example(full)
//	@Param			Message-Id		header		string	false	"The record's message id."	minlength(1)	maxlength(1024)	example(order-4711)
//	@Param			Idempotency-Key	header		string	false	"Gives record i of the request the message id `<key>/i`. Instead of `Message-Id`; neither with CloudEvents, which have ids."	minlength(1)	maxlength(1013)
//	@Param			body			body		string	false	"The value. An empty body is an empty value."
//	@Success		200				{object}	schema.ProduceResult	"Appended, as `acks` asks."
//	@Success		202				{object}	schema.ProduceResult	"Queued (`acks=0`): nothing is proved."
//	@Header			200,202		{string}	Highwater-Leader	"URL of the broker that leads the partition."
//	@x-media-request	{"*/*":"binary","application/cloudevents+json":"CloudEvent","application/cloudevents-batch+json":"[CloudEvent]"}
//	@x-media-200		{"application/json":"ProduceResult","application/vnd.kafka.v2+json":"ProduceResult","application/vnd.kafka.json.v2+json":"ProduceResult","application/vnd.kafka.binary.v2+json":"ProduceResult","application/vnd.kafka.text.v2+json":"ProduceResult"}
//	@x-media-202		{"application/json":"ProduceResult","application/vnd.kafka.v2+json":"ProduceResult","application/vnd.kafka.json.v2+json":"ProduceResult","application/vnd.kafka.binary.v2+json":"ProduceResult","application/vnd.kafka.text.v2+json":"ProduceResult"}
//	@x-errors			[40401,40402,40801,40908,41301,41302,41501,42201,50001,50302,50303,50304,50305,50306,50401,50701]
//	@Router			/topics/{topic}/records [post]
func (a *api) postRecord(w http.ResponseWriter, r *http.Request) error {
	return a.produceRaw(w, r, rawParams)
}

// postPartitionRecord appends one record whose value is the body to a partition.
//
//	@ID				produceRecordToPartition
//	@Summary		Append one raw record to a partition
//	@Description	The body is the record's value, byte for byte, whatever its content type, which is kept as record header `content-type` (curl's form default is not). HTTP headers `Record-Header-<name>` become record headers. The answer is that of a batch of one.
//	@Description	With headers `ce-id`, `ce-source`, `ce-type` and `ce-specversion` the request is a CloudEvent in binary mode, and bodies of the CloudEvents types are events in the JSON format: they become records as on the other produce paths. `key` then comes before what the event says.
//	@Tags			produce
//	@Param			topic			path		string	true	"Name of the topic."	minlength(1)	maxlength(249)	example(orders)
//	@Param			partition		path		int		true	"Number of the partition, from 0."	minimum(0)	maximum(2147483647)	format(int32)	example(0)
//	@Param			key				query		string	false	"The record's key; an empty one is a key, none is none."	example(k1)
//	@Param			key_format		query		string	false	"How `key` is meant: `string` text, `json` any JSON, `binary` base64."	Enums(string,json,binary)	example(string)
//	@Param			timestamp		query		string	false	"Record timestamp: ms since 1970, RFC 3339, or relative like `-15m`. Default: the broker's clock."	minlength(1)	example(1764424000000)
//	@Param			acks			query		string	false	"What must hold before the answer: `0` nothing (offsets are -1), `1` written to the leader's log, `-1` or `all` on disk on every in-sync replica. The default is the broker's `--default-acks`."	Enums(0,1,-1,all)	default(1)	example(-1)
//	@Param			timeout_ms		query		int		false	"How long to wait for the acknowledgement, in ms; more than the maximum counts as that."	minimum(1)	default(30000)	example(30000)
//	@Param			response		query		string	false	"`summary` leaves `offsets` out: one entry a partition instead of one a record. NDJSON bodies are answered so unless `full` is asked for."	Enums(full,summary)	example(full)
//	@Param			expected_offset	query		int		false	"Append only if the log ends at this offset, else 412."	minimum(0)	format(int64)
//	@Param			producer_id		query		int		false	"An idempotent producer's id (POST /producers), with the next two."	minimum(1)	format(int64)
//	@Param			producer_epoch	query		int		false	"Its epoch."	minimum(0)	maximum(32767)
//	@Param			base_sequence	query		int		false	"The record's sequence number."	minimum(0)	maximum(2147483647)
//	@Param			Message-Id		header		string	false	"The record's message id."	minlength(1)	maxlength(1024)	example(order-4711)
//	@Param			Idempotency-Key	header		string	false	"Gives record i of the request the message id `<key>/i`. Instead of `Message-Id`; neither with CloudEvents, which have ids."	minlength(1)	maxlength(1013)
//	@Param			body			body		string	false	"The value. An empty body is an empty value."
//	@Success		200				{object}	schema.ProduceResult	"Appended, as `acks` asks."
//	@Success		202				{object}	schema.ProduceResult	"Queued (`acks=0`): nothing is proved."
//	@Header			200,202		{string}	Highwater-Leader	"URL of the broker that leads the partition."
//	@x-media-request	{"*/*":"binary","application/cloudevents+json":"CloudEvent","application/cloudevents-batch+json":"[CloudEvent]"}
//	@x-media-200		{"application/json":"ProduceResult","application/vnd.kafka.v2+json":"ProduceResult","application/vnd.kafka.json.v2+json":"ProduceResult","application/vnd.kafka.binary.v2+json":"ProduceResult","application/vnd.kafka.text.v2+json":"ProduceResult"}
//	@x-media-202		{"application/json":"ProduceResult","application/vnd.kafka.v2+json":"ProduceResult","application/vnd.kafka.json.v2+json":"ProduceResult","application/vnd.kafka.binary.v2+json":"ProduceResult","application/vnd.kafka.text.v2+json":"ProduceResult"}
//	@x-errors			[40303,40401,40402,40801,40904,40908,41201,41301,41302,41501,42201,50001,50302,50303,50304,50305,50306,50401,50701]
//	@Router			/topics/{topic}/partitions/{partition}/records [post]
func (a *api) postPartitionRecord(w http.ResponseWriter, r *http.Request) error {
	return a.produceRaw(w, r, rawPartition)
}

// produceRaw appends one record whose value is the body, whatever it holds.
func (a *api) produceRaw(w http.ResponseWriter, r *http.Request, known []string) error {
	if mode := eventModeOf(r); mode != noEvent {
		return a.produceEvents(w, r, mode, known)
	}
	p, err := a.produceTarget(r)
	if err != nil {
		return err
	}
	headers, err := rawHeaders(r)
	if err != nil {
		return err
	}
	q := queryParams(r, known...)
	p.ask(q, a, false)
	rec := storage.Record{Timestamp: p.rules.now, Key: rawKey(q), Headers: headers}
	if ms := q.timestamp("timestamp", a.cfg.Now()); ms != nil {
		rec.Timestamp = *ms
	}
	p.rules.producer = q.producerQuery(false)
	named := int32(q.integer("partition", int64(p.rules.fixed), 0, 1<<31-1))
	if err := q.err(); err != nil {
		return err
	}
	if err := a.checkPartition(r.Context(), p, named); err != nil {
		return err
	}
	id, err := rawID(r, &p.rules)
	if err != nil {
		return err
	}
	if id != nil {
		rec.Headers = append(rec.Headers, storage.Header{Key: idHeaderBytes, Value: id})
	}
	if p.rules.needKey && rec.Key == nil {
		return unprocessable("The topic %s is compacted (cleanup.policy): every record needs a key, here as ?key=….", shown(p.rules.topic))
	}
	if size := recordBytes(&rec) + int(max(r.ContentLength, 0)); r.Header["Content-Encoding"] == nil && size > p.rules.maxRecordBytes {
		return &replication.RecordTooLargeError{Topic: p.rules.topic, Size: size, Most: p.rules.maxRecordBytes}
	}
	body, err := a.readBody(w, r, a.cfg.MaxRequestBytes)
	if err != nil {
		return err
	}
	plan := a.pools.newPlan(&p.rules, len(body.data))
	defer plan.release()
	err = plan.addRaw(&rec, body.data, named, id)
	body.release()
	if err != nil {
		return err
	}
	return a.appendPlan(w, r, p, plan)
}

// addRaw completes the record with its value and plans it.
func (p *plan) addRaw(rec *storage.Record, value []byte, named int32, id []byte) error {
	rec.Value = nonNil(value)
	if size := recordBytes(rec); size > p.maxRecordBytes {
		return &replication.RecordTooLargeError{Topic: p.topic, Size: size, Most: p.maxRecordBytes}
	}
	if isJSONText(value) {
		rec.Attributes = storage.FlagValueJSON
		if !hasLineBreak(value) {
			rec.Attributes |= storage.FlagValueOneLine
		}
	}
	partition := p.sticky
	switch {
	case named != anyPartition:
		partition = named
	case rec.Key != nil:
		partition = partitionForKey(rec.Key, p.partitions)
	case id != nil:
		partition = partitionForKey(id, p.partitions)
	}
	p.count++
	if p.idPrefix != "" {
		p.hash.add(rec, id)
		p.hash.seal(p.count)
		rec.Headers = append(rec.Headers, p.hash.header())
	}
	return p.add(partition, rec, id != nil)
}

// rawKey reads ?key=, in the form that key_format names.
func rawKey(q *params) []byte {
	format := q.payloadParam("key_format", formatString)
	text, ok := q.text("key")
	if !ok {
		return nil
	}
	key := nonNil([]byte(text))
	switch {
	case format == formatBinary:
		out, ok := parseBase64(nil, key)
		if !ok {
			q.faultf("key", "It is no base64 (RFC 4648, section 4, with padding; a + is %%2B in a query).")
		}
		return nonNil(out)
	case format == formatJSON && !isJSONText(key):
		q.faultf("key", "It is no JSON text, which key_format=json asks for.")
	case format == formatString && !utf8.Valid(key):
		q.faultf("key", "It is not UTF-8; with key_format=binary a key is base64.")
	}
	return key
}

// rawID is the record's id from Message-Id or Idempotency-Key, nil for none.
func rawID(r *http.Request, rules *produceRules) ([]byte, error) {
	text, err := singleHeader(r, "Message-Id")
	if err != nil {
		return nil, err
	}
	prefix, err := idempotencyKey(r)
	switch {
	case err != nil:
		return nil, err
	case text != "" && prefix != "":
		return nil, malformed("Message-Id and Idempotency-Key both give the record its id: send one of the two.")
	case prefix != "":
		rules.idPrefix = prefix
		return []byte(prefix + "0"), nil
	case text == "":
		return nil, nil
	}
	if fault := idFault([]byte(text)); fault != "" {
		return nil, malformed("Message-Id: %s", fault)
	}
	return []byte(text), nil
}

// rawHeaders are the record headers that a raw request brings: its content type,
// unless that is curl's default, then Record-Header-… in the order of their names.
func rawHeaders(r *http.Request) ([]storage.Header, error) {
	var out []storage.Header
	switch lines := r.Header["Content-Type"]; {
	case len(lines) > 1:
		return nil, unsupportedType("The request has several Content-Type lines.")
	case len(lines) == 1 && !isForm(lines[0]):
		if !utf8.ValidString(lines[0]) {
			return nil, malformed("The Content-Type is not UTF-8.")
		}
		out = append(out, storage.Header{Key: []byte(contentTypeHeader), Value: []byte(lines[0])})
	}
	var names []string
	for name := range r.Header {
		if strings.HasPrefix(name, recordHeaderPrefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		key := []byte(strings.ToLower(name[len(recordHeaderPrefix):]))
		if len(key) == 0 || reserved(key) {
			return nil, malformed("The header %s names no record header that a client may set.", shown(name))
		}
		for _, text := range r.Header[name] {
			if !utf8.ValidString(text) {
				return nil, malformed("The header %s is not UTF-8.", shown(name))
			}
			out = append(out, storage.Header{Key: key, Value: nonNil([]byte(text))})
		}
	}
	return out, nil
}

// isForm says whether a Content-Type is the one that curl sends unasked.
func isForm(line string) bool {
	name, _, _ := strings.Cut(line, ";")
	return strings.EqualFold(strings.TrimSpace(name), typeForm)
}

func tooLargeText(size, most int) string {
	return fmt.Sprintf("It has %d bytes of key, value and headers; max.message.bytes of the topic is %d.", size, most)
}

func unknownPartitionText(topic string, partition int64, count int32) string {
	return fmt.Sprintf("The topic %s has no partition %d; its partitions are 0 to %d.", shown(topic), partition, count-1)
}
