package handlers

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"highwater/replication"
)

func (a *api) produceRoutes() []route {
	return []route{
		{method: http.MethodPost, pattern: "/topics/{topic}", handle: a.postBatch, writes: true, frequent: true},
		{method: http.MethodPost, pattern: "/topics/{topic}/partitions/{partition}", handle: a.postPartitionBatch, writes: true, frequent: true},
		{method: http.MethodPost, pattern: "/topics/{topic}/records", handle: a.postRecord, writes: true, frequent: true},
		{method: http.MethodPost, pattern: "/topics/{topic}/partitions/{partition}/records", handle: a.postPartitionRecord, writes: true, frequent: true},
		{method: http.MethodPost, pattern: "/producers", handle: a.postProducer, writes: true},
	}
}

// hasPartition says whether the route names a partition.
func hasPartition(r *http.Request) bool { return chi.URLParam(r, "partition") != "" }

// batchTypes are the content types of a batch.
var batchTypes = []string{"", typeJSON, typeNDJSON, typeKafkaJSON, typeKafkaBinary, typeKafkaText, typeEvent, typeEvents}

// postBatch appends a batch of records to a topic.
//
//	@ID				produce
//	@Summary		Append records to a topic
//	@Description	The records go to the partitions by Kafka's rules: a record's own `partition`, else its key (murmur2, as Kafka's Java client), else its id, else one partition for the whole request.
//	@Description	The whole request is checked before anything is appended: a faulty record refuses all, and every fault is listed. What was appended stays, also when the client leaves. As NDJSON (`application/x-ndjson`) each line is one record object.
//	@Description	CloudEvents 1.0, one, an array of them, or one in binary mode (headers `ce-id`, `ce-source`, `ce-type`, `ce-specversion`; the body is the data), become records: `source` and `id` are the message id, `partitionkey` or else `subject` the key, the attributes record headers `ce_<name>`, the data the value.
//	@Description	A record with an `id` that comes again is not stored again: 200 with the first one's offset and `"duplicate":true`. The same id for another message is 409 / 40908, and then nothing of the request is written to that partition.
//	@Tags			produce
//	@Param			topic			path		string	true	"Name of the topic."	minlength(1)	maxlength(249)	example(orders)
//	@Param			acks			query		string	false	"What must hold before the answer: `0` nothing (offsets are -1), `1` written to the leader's log, `-1` or `all` on disk on every in-sync replica. The default is the broker's `--default-acks`."	Enums(0,1,-1,all)	default(1)	example(-1)
//	@Param			timeout_ms		query		int		false	"How long to wait for the acknowledgement, in ms; more than the maximum counts as that."	minimum(1)	default(30000)	example(30000)
//	@Param			response		query		string	false	"`summary` leaves `offsets` out: one entry a partition instead of one a record. NDJSON bodies are answered so unless `full` is asked for."	Enums(full,summary)	example(full)
//	@Param			key_format		query		string	false	"How keys stand in the body, if not as its content type says: `string` text, `json` any JSON, `binary` base64."	Enums(string,json,binary)	example(string)
//	@Param			value_format	query		string	false	"How values stand in the body, if not as its content type says: `string` text, `json` any JSON, `binary` base64."	Enums(string,json,binary)	example(json)
//	@Param			Idempotency-Key	header		string	false	"Gives record i of the request the message id `<key>/i`; not with CloudEvents, which have ids."	minlength(1)	maxlength(1013)	example(order-4711)
//	@Param			body			body		schema.ProduceRequest	true	"The records."
//	@Success		200				{object}	schema.ProduceResult	"Appended, as `acks` asks."
//	@Success		202				{object}	schema.ProduceResult	"Queued (`acks=0`): nothing is proved."
//	@Success		207				{object}	schema.ProduceResult	"Some partitions failed: each record tells its own fate."
//	@Header			200,202,207		{string}	Highwater-Leader	"URL of the broker that leads the partitions, when it is one."
//	@x-media-request	{"application/json":"ProduceRequest","application/x-ndjson":"text","application/vnd.kafka.json.v2+json":"DialectProduceRequest","application/vnd.kafka.binary.v2+json":"DialectProduceRequest","application/vnd.kafka.text.v2+json":"DialectProduceRequest","application/cloudevents+json":"CloudEvent","application/cloudevents-batch+json":"[CloudEvent]"}
//	@x-media-200		{"application/json":"ProduceResult","application/vnd.kafka.v2+json":"ProduceResult","application/vnd.kafka.json.v2+json":"ProduceResult","application/vnd.kafka.binary.v2+json":"ProduceResult","application/vnd.kafka.text.v2+json":"ProduceResult"}
//	@x-media-202		{"application/json":"ProduceResult","application/vnd.kafka.v2+json":"ProduceResult","application/vnd.kafka.json.v2+json":"ProduceResult","application/vnd.kafka.binary.v2+json":"ProduceResult","application/vnd.kafka.text.v2+json":"ProduceResult"}
//	@x-media-207		{"application/json":"ProduceResult","application/vnd.kafka.v2+json":"ProduceResult","application/vnd.kafka.json.v2+json":"ProduceResult","application/vnd.kafka.binary.v2+json":"ProduceResult","application/vnd.kafka.text.v2+json":"ProduceResult"}
//	@x-errors			[40401,40402,40801,40908,41301,41302,41501,42201,50001,50302,50303,50304,50305,50306,50401,50701]
//	@Router			/topics/{topic} [post]
func (a *api) postBatch(w http.ResponseWriter, r *http.Request) error {
	return a.produceBatch(w, r, batchParams)
}

// postPartitionBatch appends a batch of records to one partition.
//
//	@ID				produceToPartition
//	@Summary		Append records to a partition
//	@Description	All records go to this partition; a record that names another one is refused.
//	@Description	The whole request is checked before anything is appended: a faulty record refuses all, and every fault is listed. What was appended stays, also when the client leaves. As NDJSON (`application/x-ndjson`) each line is one record object.
//	@Description	CloudEvents 1.0, one, an array of them, or one in binary mode (headers `ce-id`, `ce-source`, `ce-type`, `ce-specversion`; the body is the data), become records: `source` and `id` are the message id, `partitionkey` or else `subject` the key, the attributes record headers `ce_<name>`, the data the value.
//	@Description	A record with an `id` that comes again is not stored again: 200 with the first one's offset and `"duplicate":true`. The same id for another message is 409 / 40908, and then nothing of the request is written to that partition.
//	@Description	With `producer_id`, `producer_epoch` and `base_sequence` (POST /producers) the batch is one of a sequence: the last five are recognised when they come again (200, `duplicate`), a gap is 409 / 40904, an older epoch 403 / 40303.
//	@Tags			produce
//	@Param			topic			path		string	true	"Name of the topic."	minlength(1)	maxlength(249)	example(orders)
//	@Param			partition		path		int		true	"Number of the partition, from 0."	minimum(0)	maximum(2147483647)	format(int32)	example(0)
//	@Param			acks			query		string	false	"What must hold before the answer: `0` nothing (offsets are -1), `1` written to the leader's log, `-1` or `all` on disk on every in-sync replica. The default is the broker's `--default-acks`."	Enums(0,1,-1,all)	default(1)	example(-1)
//	@Param			timeout_ms		query		int		false	"How long to wait for the acknowledgement, in ms; more than the maximum counts as that."	minimum(1)	default(30000)	example(30000)
//	@Param			response		query		string	false	"`summary` leaves `offsets` out: one entry a partition instead of one a record. NDJSON bodies are answered so unless `full` is asked for."	Enums(full,summary)	example(full)
//	@Param			key_format		query		string	false	"How keys stand in the body, if not as its content type says: `string` text, `json` any JSON, `binary` base64."	Enums(string,json,binary)	example(string)
//	@Param			value_format	query		string	false	"How values stand in the body, if not as its content type says: `string` text, `json` any JSON, `binary` base64."	Enums(string,json,binary)	example(json)
//	@Param			expected_offset	query		int		false	"Append only if the log ends at this offset, else 412."	minimum(0)	format(int64)
//	@Param			producer_id		query		int		false	"NDJSON and CloudEvents only: an idempotent producer's id; in JSON it stands in the body."	minimum(1)	format(int64)
//	@Param			producer_epoch	query		int		false	"NDJSON and CloudEvents only: its epoch."	minimum(0)	maximum(32767)
//	@Param			base_sequence	query		int		false	"NDJSON and CloudEvents only: the sequence number of the first record."	minimum(0)	maximum(2147483647)
//	@Param			Idempotency-Key	header		string	false	"Gives record i of the request the message id `<key>/i`; not with CloudEvents, which have ids."	minlength(1)	maxlength(1013)	example(order-4711)
//	@Param			body			body		schema.ProduceRequest	true	"The records."
//	@Success		200				{object}	schema.ProduceResult	"Appended, as `acks` asks."
//	@Success		202				{object}	schema.ProduceResult	"Queued (`acks=0`): nothing is proved."
//	@Success		207				{object}	schema.ProduceResult	"Some partitions failed: each record tells its own fate."
//	@Header			200,202,207		{string}	Highwater-Leader	"URL of the broker that leads the partitions, when it is one."
//	@x-media-request	{"application/json":"ProduceRequest","application/x-ndjson":"text","application/vnd.kafka.json.v2+json":"DialectProduceRequest","application/vnd.kafka.binary.v2+json":"DialectProduceRequest","application/vnd.kafka.text.v2+json":"DialectProduceRequest","application/cloudevents+json":"CloudEvent","application/cloudevents-batch+json":"[CloudEvent]"}
//	@x-media-200		{"application/json":"ProduceResult","application/vnd.kafka.v2+json":"ProduceResult","application/vnd.kafka.json.v2+json":"ProduceResult","application/vnd.kafka.binary.v2+json":"ProduceResult","application/vnd.kafka.text.v2+json":"ProduceResult"}
//	@x-media-202		{"application/json":"ProduceResult","application/vnd.kafka.v2+json":"ProduceResult","application/vnd.kafka.json.v2+json":"ProduceResult","application/vnd.kafka.binary.v2+json":"ProduceResult","application/vnd.kafka.text.v2+json":"ProduceResult"}
//	@x-media-207		{"application/json":"ProduceResult","application/vnd.kafka.v2+json":"ProduceResult","application/vnd.kafka.json.v2+json":"ProduceResult","application/vnd.kafka.binary.v2+json":"ProduceResult","application/vnd.kafka.text.v2+json":"ProduceResult"}
//	@x-errors			[40303,40401,40402,40801,40904,40908,41201,41301,41302,41501,42201,50001,50302,50303,50304,50305,50306,50401,50701]
//	@Router			/topics/{topic}/partitions/{partition} [post]
func (a *api) postPartitionBatch(w http.ResponseWriter, r *http.Request) error {
	return a.produceBatch(w, r, partitionParams)
}

// produceBatch is the whole road of a batch: all that can be refused without the
// body is refused before it is touched.
func (a *api) produceBatch(w http.ResponseWriter, r *http.Request, known []string) error {
	if mode := eventModeOf(r); mode != noEvent {
		return a.produceEvents(w, r, mode, known)
	}
	p, err := a.produceTarget(r)
	if err != nil {
		return err
	}
	media, err := batchMediaType(r)
	if err != nil {
		return err
	}
	q := queryParams(r, known...)
	p.ask(q, a, media == typeNDJSON)
	p.rules.key, p.rules.value = mediaFormats(media)
	p.rules.key = q.payloadParam("key_format", p.rules.key)
	p.rules.value = q.payloadParam("value_format", p.rules.value)
	p.rules.producer = q.producerQuery(media != typeNDJSON)
	if err := q.err(); err != nil {
		return err
	}
	if err := refuseRawHeaders(r); err != nil {
		return err
	}
	if p.rules.idPrefix, err = idempotencyKey(r); err != nil {
		return err
	}
	body, err := a.readBody(w, r, a.cfg.MaxRequestBytes)
	if err != nil {
		return err
	}
	plan, err := a.planOf(r, p, body.data, media)
	body.release() // the batches hold copies
	if err != nil {
		return err
	}
	defer plan.release()
	return a.appendPlan(w, r, p, plan)
}

// planOf makes of a body what is to be appended. Where a record names a partition that
// isn't known here, it is looked at again if the topic has it.
func (a *api) planOf(r *http.Request, p *produceRequest, body []byte, media string) (*plan, error) {
	for {
		plan := a.pools.newPlan(&p.rules, len(body))
		err := parseBody(plan, body, media)
		if err == nil {
			return plan, nil
		}
		beyond := plan.beyond
		plan.release()
		if beyond < p.rules.partitions {
			return nil, err
		}
		var unknown *replication.UnknownPartitionError
		if known := a.checkPartition(r.Context(), p, beyond); errors.As(known, &unknown) {
			return nil, err // it names the record, too
		} else if known != nil {
			return nil, known
		}
	}
}

// refuseRawHeaders refuses what would be dropped silently: headers that say something of a raw record.
func refuseRawHeaders(r *http.Request) error {
	member := ""
	for name := range r.Header {
		switch {
		case name == "Message-Id":
			member = "id"
		case strings.HasPrefix(name, recordHeaderPrefix):
			member = "headers"
		default:
			continue
		}
		e := malformed("The header %s belongs to a raw record; a batch has no place for it.", shown(name))
		e.fix = "Give each record its own " + member + " in the body, or send one raw record to " + baseURL(r) + r.URL.EscapedPath() + "/records"
		return e
	}
	return nil
}

// batchMediaType is the content type of a batch, checked.
func batchMediaType(r *http.Request) (string, error) {
	media, err := contentType(r)
	if err != nil {
		return "", err
	}
	raw := "send one raw record, of any type, to " + baseURL(r) + r.URL.EscapedPath() + "/records"
	hint := "Send JSON with Content-Type: application/json, or " + raw
	if media == typeForm {
		hint = "This is curl's default type for -d: say --json instead of -d, or " + raw
	}
	return media, acceptedTypes(media, batchTypes, hint)
}

// mediaFormats is how keys and values stand in a media type.
func mediaFormats(media string) (key, value payloadFormat) {
	switch media {
	case typeKafkaJSON:
		return formatJSON, formatJSON
	case typeKafkaBinary:
		return formatBinary, formatBinary
	case typeKafkaText:
		return formatString, formatString
	}
	return formatString, formatJSON
}

// appendPlan appends what was found good and answers. What is appended stays
// appended, so the client's leaving doesn't end the wait early, and a shutdown only
// when there is no more time: the answer is then that the outcome isn't known.
func (a *api) appendPlan(w http.ResponseWriter, r *http.Request, p *produceRequest, plan *plan) error {
	if err := plan.checkWhole(); err != nil {
		return err
	}
	if err := a.checkProducer(r, plan); err != nil {
		return err
	}
	if err := a.checkKey(r, p, plan); err != nil {
		return err
	}
	reqs, err := plan.requests(p.expected)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), p.timeout)
	defer cancel()
	defer context.AfterFunc(a.cfg.LastCall, cancel)()
	results := a.cfg.Broker.Append(ctx, p.acks, reqs)
	return a.answerProduce(w, r, p, plan, results)
}
