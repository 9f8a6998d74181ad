package handlers

import (
	"io"
	"net/http"

	"github.com/rs/zerolog"

	"highwater/replication"
)

// NewParseOnly is a yardstick for the benchmarks: it reads and parses a produce
// exactly as the broker does, seals its batches, answers as if they were
// appended, and keeps nothing. No topic has to exist; each has one partition.
func NewParseOnly() http.Handler {
	a := newAPI(Config{Logger: zerolog.Nop(), DefaultAcks: replication.AcksLeader})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{ResponseWriter: w, writes: true}
		if err := a.parseOnly(x, r); err != nil {
			a.fail(x, r, err)
		}
	})
}

func (a *api) parseOnly(w http.ResponseWriter, r *http.Request) error {
	media, err := batchMediaType(r)
	if err != nil {
		return err
	}
	p := &produceRequest{rules: produceRules{topic: "parse-only", partitions: 1, fixed: anyPartition, maxRecordBytes: 1 << 20, now: a.cfg.Now().UnixMilli()}}
	q := queryParams(r, batchParams...)
	p.ask(q, a, media == typeNDJSON)
	p.rules.key, p.rules.value = mediaFormats(media)
	if err := q.err(); err != nil {
		return err
	}
	body, err := a.readBody(w, r, a.cfg.MaxRequestBytes)
	if err != nil {
		return err
	}
	plan := a.pools.newPlan(&p.rules, len(body.data))
	defer plan.release()
	err = parseBody(plan, body.data, media)
	body.release()
	if err != nil {
		return err
	}
	reqs, err := plan.requests(nil)
	if err != nil {
		return err
	}
	results := make([]replication.AppendResult, len(reqs))
	for i := range results {
		last := int64(plan.parts[i].records) - 1
		results[i] = replication.AppendResult{LastOffset: last, HighWatermark: last + 1, InSyncReplicas: 1, Durability: replication.DurabilityQueued}
	}
	return a.answerProduce(w, r, p, plan, results)
}

// NewNoop is the other yardstick: it discards the body and answers one line.
func NewNoop() http.Handler {
	answer := []byte("{}\n")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header()["Content-Type"] = labelJSON
		_, _ = w.Write(answer)
	})
}
