package handlers

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"
)

func (a *api) produceRoutes() []route {
	return []route{
		{method: http.MethodPost, pattern: "/topics/{topic}", handle: a.postBatch, writes: true},
		{method: http.MethodPost, pattern: "/topics/{topic}/partitions/{partition}", handle: a.postPartitionBatch, writes: true},
		{method: http.MethodPost, pattern: "/topics/{topic}/records", handle: a.postRecord, writes: true},
		{method: http.MethodPost, pattern: "/topics/{topic}/partitions/{partition}/records", handle: a.postPartitionRecord, writes: true},
	}
}

// hasPartition says whether the route names a partition.
func hasPartition(r *http.Request) bool { return chi.URLParam(r, "partition") != "" }

// batchTypes are the content types of a batch.
var batchTypes = []string{"", typeJSON, typeNDJSON, typeKafkaJSON, typeKafkaBinary, typeKafkaText}

// postBatch appends a batch of records.
//
//	@ID				produce
//	@Summary		Append records
//	@Description	Validation is all-or-nothing before anything is appended.
//	@Tags			produce
//	@Param			topic	path		string					true	"Topic name"	minlength(1)	maxlength(249)	example(orders)
//	@Param			acks	query		string					false	"What must hold before the answer"	Enums(0,1,-1,all)	default(1)
//	@Param			body	body		schema.ProduceRequest	true	"The records."
//	@Success		200		{object}	schema.ProduceResult	"Appended."
//	@x-media-request	{"application/json":"ProduceRequest","application/x-ndjson":"text"}
//	@x-errors			[40401,40402,41301,41302,41501,42201,50302,50305,50401,50701]
//	@Router			/topics/{topic} [post]
func (a *api) postBatch(w http.ResponseWriter, r *http.Request) error {
	return a.produceBatch(w, r, batchParams)
}

func (a *api) postPartitionBatch(w http.ResponseWriter, r *http.Request) error {
	return a.produceBatch(w, r, partitionParams)
}

// produceBatch is the whole road of a batch: all that can be refused without the
// body is refused before it is touched.
func (a *api) produceBatch(w http.ResponseWriter, r *http.Request, known []string) error {
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
	if err := q.err(); err != nil {
		return err
	}
	if p.rules.idPrefix, err = idempotencyKey(r); err != nil {
		return err
	}
	body, err := a.readBody(w, r, a.cfg.MaxRequestBytes)
	if err != nil {
		return err
	}
	plan := newPlan(&p.rules, len(body.data))
	defer plan.release()
	err = parseBody(plan, body.data, media)
	body.release() // the batches hold copies
	if err != nil {
		return err
	}
	return a.appendPlan(w, r, p, plan)
}

func parseBody(plan *plan, body []byte, media string) error {
	if media == typeNDJSON {
		return parseLinesBody(plan, body)
	}
	return parseBatchBody(plan, body)
}

// batchMediaType is the content type of a batch, checked.
func batchMediaType(r *http.Request) (string, error) {
	media, err := contentType(r)
	if err != nil {
		return "", err
	}
	hint := "Send JSON with Content-Type: application/json."
	if media == typeForm {
		hint = "This is curl's default type for -d: say --json instead of -d, or send one raw record to " + baseURL(r) + r.URL.EscapedPath() + "/records"
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
// appended, so neither the client's leaving nor a shutdown ends the wait early.
func (a *api) appendPlan(w http.ResponseWriter, r *http.Request, p *produceRequest, plan *plan) error {
	reqs, err := plan.requests(p.expected)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), p.timeout)
	defer cancel()
	results := a.cfg.Broker.Append(ctx, p.acks, reqs)
	return a.answerProduce(w, r, p, plan, results)
}
